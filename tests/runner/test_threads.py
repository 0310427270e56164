"""How many threads a trial really has, in real processes: what limits them, and what must not."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runner import process
from runner.environment import CGROUPS, ROOT, usable_cores
from runner.process import attend
from tests.runner.asking import make_request

two_cores = pytest.mark.skipif(usable_cores() < 2, reason="this machine has one core to use")

TRIAL = """
import json, sys
from runner import process
from tests.runner.asking import make_request

found = process.attend(make_request(target="cpu", deed="work in parallel", folder=sys.argv[1]))
print(json.dumps({name: found.get(name) for name in sys.argv[2:]}))
"""
COLUMNS = ["status", "error_message", "cores_usable", "threads_requested", "threads_observed", "cores_logical"]


def ask_elsewhere(folder, enter):
    """Run a trial on all cores below a process of its own, which `enter` has put where it is to be."""
    said = subprocess.run(
        [sys.executable, "-c", TRIAL, folder, *COLUMNS],
        cwd=ROOT,
        preexec_fn=enter,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(said.stdout)


def words(folder):
    return [json.loads(path.read_text()) for path in sorted(folder.glob("word-*.json"))]


@pytest.fixture
def group():
    """A real control group that allows one and a half cores; the file that a process enters it by."""
    name = f"crossover-test-{os.getpid()}"
    folders = {CGROUPS / "cpu" / name: {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"}}
    folders[CGROUPS / name] = {"cpu.max": "150000 100000"}
    for folder, files in folders.items():
        with contextlib.suppress(OSError):
            if not (folder.parent / "cgroup.procs").is_file():
                continue
            folder.mkdir()
            try:
                for file, text in files.items():
                    (folder / file).write_text(text)
                yield folder / "cgroup.procs"
            finally:
                folder.rmdir()
            return
    pytest.skip("control groups cannot be made here; test_environment.py shows the rule on folders that look like some")


def test_all_is_one_where_a_quota_allows_one_and_a_half_cores(group, tmp_path):
    found = ask_elsewhere(tmp_path, lambda: group.write_text(str(os.getpid())))
    assert (found["status"], found["error_message"]) == ("ok", None)
    assert (found["cores_usable"], found["threads_requested"], found["threads_observed"]) == (1, 1, 1)
    assert found["cores_logical"] == os.cpu_count()
    assert [word["ran"] for word in words(tmp_path)] == [1]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_all_is_one_where_the_affinity_allows_one_core(tmp_path):
    found = ask_elsewhere(tmp_path, lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}))
    assert (found["status"], found["error_message"]) == ("ok", None)
    assert (found["cores_usable"], found["threads_requested"], found["threads_observed"]) == (1, 1, 1)
    assert [word["ran"] for word in words(tmp_path)] == [1]


has_tasks = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="this system does not list threads")


@two_cores
@has_tasks
def test_a_trial_has_its_own_number_of_threads_whatever_the_one_before_had(tmp_path):
    for target in ("cpu-1", "cpu-2", "cpu-1", "cpu-2"):
        assert attend(make_request(deed="work in parallel", folder=str(tmp_path), target=target))["status"] == "ok"
    told = words(tmp_path)
    assert [word["threads"] for word in told] == [1, 2, 1, 2]
    assert [word["ran"] for word in told] == [1, 2, 1, 2]
    assert len({word["nursery"] for word in told}) == 1


@two_cores
@has_tasks
def test_what_ray_up_exports_changes_nothing(no_nursery, monkeypatch, tmp_path):
    for name in process.THREAD_VARIABLES:
        monkeypatch.setenv(name, "1")
    found = attend(make_request(deed="work in parallel", folder=str(tmp_path), target="cpu-2"))
    assert (found["status"], found["threads_observed"]) == ("ok", 2)
    assert [word["ran"] for word in words(tmp_path)] == [2]
