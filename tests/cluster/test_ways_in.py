"""Ways in beside `ray submit`: a job, and the command beside the head."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from runner.environment import ROOT
from tests.cluster.heads import free_port, head

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

SMALL = "smoke --targets cpu-1,cpu --set passes=1"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A head that runs trials too; yields its address and that of its dashboard."""
    port = free_port()
    flags = ("--num-cpus=1", "--include-dashboard=true", "--dashboard-host=127.0.0.1", f"--dashboard-port={port}")
    with head(tmp_path_factory.mktemp("running"), *flags) as address:
        yield address, f"http://127.0.0.1:{port}"


def run(command, folder, **environment):
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )


def statuses(study):
    return set(pd.read_parquet(study / "trials").status)


def test_a_job_with_a_working_dir(running, tmp_path):
    _, dashboard = running
    clone, study = tmp_path / "clone", tmp_path / "study"
    for room in ("sweeps", "runner", "analysis"):
        shutil.copytree(ROOT / room, clone / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "sweep.py", clone)
    ray = str(Path(sys.executable).with_name("ray"))
    command = [ray, "job", "submit", "--address", dashboard, "--working-dir", ".", "--"]
    done = run([*command, "bash", "-c", f"{sys.executable} sweep.py {SMALL} --out {study}"], clone)
    assert done.returncode == 0, done.stdout
    assert "RAY_ADDRESS is set" in done.stdout
    assert statuses(study) == {"ok"}
    assert (study / "report.html").is_file()


def test_the_command_beside_the_head_shows_what_ray_says_where_it_is_asked_to(running, tmp_path):
    address, _ = running
    command = [sys.executable, str(ROOT / "sweep.py"), *SMALL.split(), "--address", address, "--out"]
    quiet = run([*command, str(tmp_path / "one"), "--no-report"], tmp_path)
    assert quiet.returncode == 0, quiet.stdout
    assert "Connected to Ray" not in quiet.stdout
    loud = run([*command, str(tmp_path / "two"), "--no-report", "--verbose"], tmp_path)
    assert loud.returncode == 0, loud.stdout
    assert "Connected to Ray cluster" in loud.stdout
    assert statuses(tmp_path / "one") == statuses(tmp_path / "two") == {"ok"}


def test_a_plan_measures_and_writes_nothing(running, tmp_path):
    address, _ = running
    command = [sys.executable, str(ROOT / "sweep.py"), "smoke", "--address", address, "--plan", "--out"]
    done = run([*command, str(tmp_path / "study")], tmp_path)
    assert done.returncode == 0, done.stdout
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert "smoke: 12 trials, 0 done before, 12 to run." in lines
    assert any(line.startswith("cpu: 4 trials; ") and line.endswith("(1 CPUs)") for line in lines)
    assert "gpu: 4 trials; no node declares a GPU" in lines
    assert not (tmp_path / "study").exists()


def test_a_plan_knows_what_is_done_and_how_long_it_took(tmp_path):
    command = [sys.executable, str(ROOT / "sweep.py"), *SMALL.split(), "--local", "--out", str(tmp_path / "study")]
    assert run([*command, "--no-report"], tmp_path).returncode == 0
    before = sorted(tmp_path.rglob("*"))
    done = run([*command, "--set", "passes=2", "--plan"], tmp_path)
    assert "smoke: 8 trials, 4 done before, 4 to run." in done.stdout
    assert "for 4 trials (from the study's own rows of cpu, cpu-1)." in done.stdout
    assert sorted(tmp_path.rglob("*")) == before
