"""Was a trial alone on its cores: the rules on made counters, and the kernel's counters with a real neighbour."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runner import environment, interference
from runner.environment import ROOT
from runner.interference import Counters, judge, read_counters

SECOND_NS = 1_000_000_000


def counters(*, at_s=0.0, delay_s=0.0, throttled_s=0.0, stolen=0, ticks=0, tasks=1):
    delays = {str(task): round(delay_s * SECOND_NS) for task in range(tasks)}
    return Counters(at_ns=round(at_s * SECOND_NS), delay_ns=delays, throttled_s=throttled_s, stolen=(stolen, ticks))


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"delay_s": 0.02}, "clean"),
        ({"delay_s": 0.03}, "suspect"),
        ({"delay_s": 0.06}, "contended"),
        ({"throttled_s": 0.005}, "clean"),
        ({"throttled_s": 0.02}, "contended"),
        ({"stolen": 1}, "clean"),
        ({"stolen": 3}, "contended"),
    ],
)
def test_the_thresholds(change, verdict):
    after = counters(at_s=1.0, **{"ticks": 200, **change})
    assert judge(counters(), after, threads=1, cores=2).verdict == verdict


def test_the_delay_is_shared_by_the_threads_and_counts_those_that_came_later():
    found = judge(counters(delay_s=1.0), counters(at_s=2.0, delay_s=1.4, tasks=1), threads=2, cores=4)
    assert found.run_delay_share == pytest.approx(0.1)
    found = judge(counters(), counters(at_s=2.0, delay_s=0.2, tasks=2), threads=2, cores=4)
    assert found.run_delay_share == pytest.approx(0.1)


def test_a_trial_on_every_core_shares_them_with_ray():
    for delay_s, verdict in ((0.01, "clean"), (0.15, "suspect"), (0.25, "contended")):
        assert judge(counters(), counters(at_s=1.0, delay_s=delay_s, ticks=200), threads=1, cores=1).verdict == verdict


def test_waiting_proves_no_neighbour_where_idle_threads_sleep():
    for delay_s, verdict in ((0.01, "clean"), (0.03, "suspect"), (0.8, "suspect")):
        after = counters(at_s=1.0, delay_s=delay_s, ticks=200)
        assert judge(counters(), after, threads=1, cores=2, wait_policy="passive").verdict == verdict
    throttled = counters(at_s=1.0, throttled_s=0.5, ticks=200)
    assert judge(counters(), throttled, threads=1, cores=2, wait_policy="passive").verdict == "contended"


def test_what_the_kernel_does_not_tell_is_unknown(monkeypatch, tmp_path):
    for name in ("TASKS", "STAT"):
        monkeypatch.setattr(interference, name, tmp_path / "nothing")
    monkeypatch.setattr(environment, "MEMBERSHIP", tmp_path / "nothing")
    found = judge(read_counters(), read_counters(), threads=1, cores=2)
    assert (found.verdict, found.run_delay_share, found.throttled_s, found.steal_share) == ("unknown", None, None, None)


def test_time_that_a_quota_took_is_read_from_every_enclosing_group(monkeypatch, tmp_path):
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / "cpu.stat").write_text("usage_usec 5\nthrottled_usec 1500000\n")
    (inner.parent / "cpu.stat").write_text("nr_throttled 1\nthrottled_time 250000000\n")
    (tmp_path / "membership").write_text("0::/outer/inner\n")
    monkeypatch.setattr(environment, "CGROUPS", tmp_path)
    monkeypatch.setattr(environment, "MEMBERSHIP", tmp_path / "membership")
    assert read_counters().throttled_s == pytest.approx(1.75)


BUSY = "while True: pass"
MEASURED = (
    "import dataclasses, json, time\n"
    "from runner.interference import judge, read_counters\n"
    "before, until = read_counters(), time.monotonic() + 0.5\n"
    "while time.monotonic() < until: pass\n"
    "print(json.dumps(dataclasses.asdict(judge(before, read_counters(), threads=1, cores=2))))\n"
)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this kernel does not count waiting")
def test_a_neighbour_on_the_same_core_is_seen():
    core = min(os.sched_getaffinity(0))

    def pinned():
        os.sched_setaffinity(0, {core})

    with subprocess.Popen([sys.executable, "-c", BUSY], preexec_fn=pinned) as neighbour:  # noqa: PLW1509
        try:
            said = subprocess.run(
                [sys.executable, "-c", MEASURED], cwd=ROOT, preexec_fn=pinned, capture_output=True, check=True
            )
        finally:
            neighbour.kill()
    found = json.loads(said.stdout)
    assert found["verdict"] == "contended"
    assert found["run_delay_share"] > 0.2
