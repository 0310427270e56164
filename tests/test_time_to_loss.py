"""The whole program against a time to a loss that is known beforehand, and is not the time of a step."""

import pytest

from analysis import crossovers
from analysis.load import load
from analysis.whole_training import in_time_to_loss
from tests.examples import run_sweep

#: A step takes "old" 2 ms at size 100, in proportion elsewhere, and "new" 2 ms at each: equal at 100. An epoch is 10
#: steps; old needs one of them and new three: equal at 300.
WORKLOAD = """
import time
import torch

class Descending:
    epochs = 3

    def __init__(self, *, seed, size):
        self.share = size / 100

    def prepare(self, device, target):
        self.step_s = (2 * self.share if target == "old" else 2) / 1000
        self.losses = iter([0.4, 0.3, 0.2] if target == "old" else [2.0, 0.9, 0.5])

    def step(self):
        time.sleep(self.step_s)
        return torch.zeros(())

    def epoch(self):
        for _ in range(10):
            self.step()
        return next(self.losses)
"""
SWEEP = """
name: descending
workload: descending.py:Descending
axes: {size: {from: 50, to: 800, factor: 2}}
targets: [{name: old, device: cpu, threads: 1}, {name: new, device: cpu, threads: 1}]
goal_loss: 0.5
"""
WITHIN = 1.1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("descending")
    (place / "descending.py").write_text(WORKLOAD)
    (place / "descending.yaml").write_text(SWEEP)
    return run_sweep(place / "descending.yaml", place / "study")


@pytest.fixture(scope="module")
def turns(folder):
    study = load(folder)
    asked = {"axis": "size", "baseline": "old", "challenger": "new", "drift": study.drift}
    return [crossovers(rows, **asked).iloc[0] for rows in (study.frame, in_time_to_loss(study.frame, 0.5))]


@pytest.mark.parametrize(("which", "truth"), [(0, 100), (1, 300)])
def test_both_changes_are_found_where_they_are(turns, which, truth):
    found = turns[which]
    assert (found["verdict"], found["direction"]) == ("crosses", "challenger_above")
    assert found["bracket_low"] <= truth <= found["bracket_high"]
    assert found["low"] / WITHIN <= truth <= found["high"] * WITHIN


def test_they_are_two_answers(turns):
    step, loss = turns
    assert step["high"] < loss["low"]


def test_the_report_has_both(folder):
    text = (folder / "report.md").read_text()
    assert "### Time to a loss of 0.5" in text
    assert "new trains this workload (descending.py:Descending) to a loss of 0.5 faster than old." in text
    assert "- A single step: From size" in text
    assert "charts/losses.svg" in text
    assert (folder / "charts" / "losses.svg").is_file()
