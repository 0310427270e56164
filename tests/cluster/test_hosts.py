"""The pretend machines themselves: apart from each other while they are up, and gone when the tests are."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

# A test run that is killed: it brings the hosts up, says so, and waits for its end.
VICTIM = """
import importlib.util, pathlib, sys, time
spec = importlib.util.spec_from_file_location("conftest", sys.argv[1])
conftest = importlib.util.module_from_spec(spec)
spec.loader.exec_module(conftest)
conftest.Hosts(pathlib.Path(sys.argv[2]))
print("up", flush=True)
time.sleep(600)
"""


def test_each_host_has_a_name_a_home_and_processes_of_its_own(hosts):
    for number in range(4):
        hosts.run(number, f"touch ~/{number} /tmp/{number}; nohup sleep 600 >/dev/null 2>&1 &", timeout_s=20)
    for number in range(4):
        look = "hostname; cd ~; echo [0-9]; cd /tmp; echo [0-9]; cat /proc/[0-9]*/comm | grep -c sleep"
        seen = hosts.run(number, look, timeout_s=20).stdout.split()
        assert seen == [f"host{number}", f"{number}", f"{number}", "1"]


def test_hosts_reach_each_other_and_nothing_else(hosts):
    key = hosts.home(0) / ".ssh" / "id_ed25519"
    assert key.stat().st_mode & 0o777 == 0o600
    ssh = "ssh -i ~/.ssh/id_ed25519 -o StrictHostKeyChecking=no"
    assert hosts.run(0, f"{ssh} host3 hostname", timeout_s=20).stdout.endswith("host3\n")
    assert hosts.run(0, "getent hosts example.org || echo refused", timeout_s=20).stdout == "refused\n"


def test_the_project_is_not_on_the_hosts_by_itself(hosts):
    project = Path(__file__).parents[2]
    assert (project / "cluster.yaml").exists()
    assert "cluster.yaml" not in hosts.run(1, f"ls -A {project}", timeout_s=20).stdout


def test_killed_tests_leave_no_host_behind(hosts, tmp_path):
    interfaces = sorted(Path("/sys/class/net").iterdir())
    folder = tmp_path / f"victims-hosts-{os.getpid()}"
    folder.mkdir()
    conftest = Path(__file__).with_name("conftest.py")
    victim = subprocess.Popen([sys.executable, "-c", VICTIM, conftest, folder], stdout=subprocess.PIPE, text=True)
    with victim:
        try:
            assert victim.stdout.readline() == "up\n"
            assert len(hosts.processes_on(folder)) >= 4
        finally:
            victim.kill()
    deadline = time.monotonic() + 20
    while left := hosts.processes_on(folder):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    assert sorted(Path("/sys/class/net").iterdir()) == interfaces
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()
