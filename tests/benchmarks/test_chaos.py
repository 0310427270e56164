"""The short form of the chaos benchmark: one kill of each kind, and a driver that is killed and started again."""

import json
import random
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.chaos import overlaps, plan
from runner.environment import ROOT

BEGIN = datetime(2026, 1, 2, tzinfo=UTC)


def test_a_seed_always_means_the_same_kills_and_none_comes_at_the_very_end():
    asked = {"trials": 200, "kills": 5, "restarts": 4}
    events = list(plan(random.Random(7), **asked))
    assert events == list(plan(random.Random(7), **asked)) != list(plan(random.Random(8), **asked))
    assert Counter(kind for _, kind in events) == {"child": 5, "worker": 5, "node": 5, "driver": 4}
    moments = [moment for moment, _ in events]
    assert moments == sorted(moments)
    assert 1 <= moments[0] <= moments[-1] <= 120


def row(node, begin_s, end_s, status="ok"):
    times = {"started_at": BEGIN + timedelta(seconds=begin_s), "finished_at": BEGIN + timedelta(seconds=end_s)}
    return {"node_id": node, "status": status, **times}


def test_trials_that_share_a_node_at_one_time_are_counted():
    apart = [row("a", 0, 1), row("a", 1, 2), row("b", 0, 2), {"node_id": "b", "status": "node_lost"}]
    assert overlaps(apart) == 0
    assert overlaps([*apart, row("b", 1, 3)]) == 1


@pytest.mark.ray
@pytest.mark.timeout(900)
def test_nothing_is_lost_when_everything_dies_once(tmp_path):
    asked = ["--trials", "20", "--kills", "1", "--restarts", "1", "--nodes", "4", "--hold"]
    ran = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "chaos.py", *asked],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    said = json.loads(ran.stdout.splitlines()[-1])
    assert said["ok"], ran.stdout + ran.stderr
    figures = said["figures"]
    assert all(figures[f"landed_{kind}"] >= 1 for kind in ("child", "worker", "node"))
    assert figures["restarts"] == 1
    assert not any(figures[f"missed_{kind}"] for kind in ("child", "worker", "node"))
    assert figures["trials"] == 20 < figures["rows"]
