"""The scale benchmark in small: every trial has its row, the line is as it should be; how fast it was is not asked."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks import scale
from runner.environment import ROOT

SMALL = {"--trials": 200, "--nodes": 3, "--busy-trials": 8}


@pytest.mark.ray
@pytest.mark.timeout(900)  # two clusters, on cores that may be busy
def test_a_small_one_runs_every_trial_once_and_says_so_in_one_line():
    arguments = [str(each) for pair in SMALL.items() for each in pair]
    done = subprocess.run(
        [sys.executable, "benchmarks/scale.py", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = done.stdout.splitlines()
    found = json.loads(line)
    assert set(found) == {"name", "ok", "figures", "targets"}
    assert (found["name"], found["targets"]) == ("scale", scale.LIMITS)
    figures = found["figures"]
    assert found["ok"] == all(scale.is_met(name, figures[name]) for name in scale.LIMITS)
    assert figures["trials"] == 200
    assert figures["busy_trials"] >= 8, "a trial that was disturbed is measured once more"
    assert figures["overlaps"] == 0
    assert 0 < figures["busy_share"] < 1
    assert figures["rate_ratio"] == pytest.approx(figures["trials_per_s"] / figures["bare_per_s"], rel=1e-3)


def span(node, begun_s, ended_s):
    moments = (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds) for seconds in (begun_s, ended_s))
    return scale.Span(node_id=node, begun=next(moments), ended=next(moments))


def test_a_node_is_busy_but_for_the_gaps_after_its_first_trial():
    ran = [span("a", 0, 5), span("b", 0, 1), span("b", 1.5, 3), span("a", 6, 15), span("b", 3, 6)]
    assert scale.busyness(ran) == {
        "busy_share": 1 - 1.5 / 15,
        "gap_s": 0.5,
        "overlaps": 0,
        "busy_trials": 5,
    }


def test_trials_that_overlap_are_counted():
    assert scale.busyness([span("a", 0, 5), span("a", 4, 6), span("b", 0, 2), span("b", 2, 3)])["overlaps"] == 1
