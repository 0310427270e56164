"""Clusters that cannot be used are said in one line, and the command ends with 2."""

import os
import subprocess
import sys
import time

import pytest

from runner.environment import ROOT
from tests.cluster.heads import answers, free_port, head

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

TOKEN = "a" * 64
OTHER_RAY = "import ray; ray.__version__ = '2.1.0'"


def ask(address, folder, **environment):
    """The command on a cluster; returns the finished process."""
    given = {name: text for name, text in os.environ.items() if not name.startswith("RAY_AUTH")}
    return subprocess.run(
        [sys.executable, ROOT / "sweep.py", "smoke", "--address", address, "--out", folder / "study"],
        env={**given, "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def refusal(done, folder):
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert not (folder / "study").exists(), "nothing is written"
    return line


@pytest.fixture(scope="module")
def strange(tmp_path_factory):
    """A head of another Ray, that asks for a token."""
    given = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    flags = ("--num-cpus=0", "--include-dashboard=false")
    with head(tmp_path_factory.mktemp("strange"), *flags, before=OTHER_RAY, **given) as address:
        yield address


@pytest.mark.parametrize(
    "given",
    [
        {"RAY_AUTH_MODE": "disabled"},
        {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "b" * 64},
        {"RAY_AUTH_MODE": "token"},
    ],
    ids=["no tokens", "another token", "no token to be found"],
)
def test_a_cluster_that_asks_for_another_token(strange, tmp_path, given):
    line = refusal(ask(strange, tmp_path, **given), tmp_path)
    assert line.startswith(f"sweep.py: cannot connect to Ray at {strange}: it asks for another token than the one here")


def test_a_cluster_of_another_ray(strange, tmp_path):
    line = refusal(ask(strange, tmp_path, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=TOKEN), tmp_path)
    assert line.startswith(f"sweep.py: cannot connect to Ray at {strange}: the nodes have another Ray or Python.")
    assert "2.1.0" in line


def test_an_address_where_something_else_answers(tmp_path):
    port = free_port()
    with subprocess.Popen(
        [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", tmp_path],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            while not answers(port):
                time.sleep(0.05)
            line = refusal(ask(f"127.0.0.1:{port}", tmp_path), tmp_path)
        finally:
            server.kill()
    assert line == f"sweep.py: cannot connect to Ray at 127.0.0.1:{port}: what answers there is no Ray of this kind"


def test_an_address_where_nobody_is(tmp_path):
    line = refusal(ask(f"127.0.0.1:{free_port()}", tmp_path), tmp_path)
    assert "Connection refused" in line


EMBEDDED = """
import sys
from runner.cluster import Cluster
import ray
made = Cluster(None)
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
made.close()
"""


def test_a_ray_of_our_own_lets_in_nobody_without_its_token(tmp_path):
    given = {name: text for name, text in os.environ.items() if not name.startswith("RAY_AUTH")}
    (tmp_path / "owner").mkdir()
    (tmp_path / "other").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", EMBEDDED],
        cwd=ROOT,
        env={**given, "HOME": str(tmp_path / "owner")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as owner:
        address = owner.stdout.readline().strip()
        line = refusal(ask(address, tmp_path / "other"), tmp_path / "other")
        owner.communicate("", timeout=60)
    assert "it asks for another token than the one here" in line
    token = tmp_path / "owner" / ".ray" / "auth_token"
    assert token.stat().st_mode & 0o077 == 0, "nobody else can read it"
