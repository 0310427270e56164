"""The whole program against a twin whose effect is known beforehand: prescribed times, with branches and without."""

import pytest

from analysis.conclusion import conclude
from analysis.contents import gather
from analysis.load import load
from tests.examples import run_sweep

#: An interval of 95 % misses the truth now and then, but not by much.
WITHIN = 1.1

#: Milliseconds of a step, given s = size / 100: the targets meet at 400, and with the twin's step at 100.
OWN = """\
import random
import time
from typing import Literal

import torch


class Prescribed:
    def __init__(self, *, seed: int, size: int, rung: Literal["e2e", "twin"]) -> None:
        self.s, self.rung = size / 100, rung
        self.jitter, self.loss = random.Random(), torch.zeros(())

    def prepare(self, device: torch.device, target: str) -> None:
        branches = 0.5 if self.rung == "twin" else 2.0
        self.seconds = (self.s if target == "host" else branches + 0.5 * self.s) / 1000
        self.due = time.monotonic()

    def step(self) -> torch.Tensor:
        now = time.monotonic()
        self.due = max(self.due, now - 0.1) + self.seconds * self.jitter.lognormvariate(0, 0.03)
        time.sleep(max(0.0, self.due - now))
        return self.loss
"""
SWEEP = """\
name: twin
workload: own.py:Prescribed
axes: {size: {from: 25, to: 1600, factor: 2}}
targets: [{name: host, device: cpu, threads: 1}, {name: card, device: cpu, threads: 1}]
passes: 3
explain: true
"""
MEET_WITH, MEET_WITHOUT = 400, 100


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    place = tmp_path_factory.mktemp("twin")
    (place / "own.py").write_text(OWN)
    (place / "twin.yaml").write_text(SWEEP)
    return load(run_sweep(place / "twin.yaml", place / "study"))


pytestmark = pytest.mark.timeout(660)


def test_only_the_rungs_that_the_step_names_are_measured_and_on_both_targets(study):
    parts = study.rungs[study.rungs["status"].eq("ok") & study.rungs["rung"].ne("cold")]  # a start is no part of a step
    assert set(parts.groupby(["target", "rung"]).groups) == {("host", "twin"), ("card", "twin")}


def test_the_report_says_where_the_change_would_be_and_by_what_factor_it_moves(study):
    (section,) = gather(study, conclude(study)).sections
    (block,) = [each for each in section.blocks if each.heading == "How far what the twin lacks moves the change"]
    (sentence,) = block.sentences
    without, _, rest = sentence.partition(" instead of ")
    whole, _, effect = rest.partition(": what the twin lacks moves it up by a factor of ")
    for text, truth in ((without, MEET_WITHOUT), (whole, MEET_WITH), (effect, MEET_WITH / MEET_WITHOUT)):
        low, high = map(float, text.partition("95 % interval ")[2].partition(")")[0].split(" to "))
        assert low / WITHIN <= truth <= high * WITHIN, sentence
        assert high < 2 * low, sentence
    assert sentence in (study.folder.local / "report.md").read_text()


def test_the_sweep_that_ships_measures_the_twin_and_says_what_follows(tmp_path):
    small = ["--set", "axes.width=16,64", "--set", "parameters.depth=2", "--set", "passes=1"]
    study = load(run_sweep("branching", tmp_path, "--targets", "cpu-1,cpu", *small))
    measured = study.rungs[study.rungs["rung"] == "twin"].groupby(["target", "width"])["status"].agg(list)
    assert measured.to_dict() == {(target, width): ["ok"] for target in ("cpu-1", "cpu") for width in (16, 64)}
    (section,) = gather(study, conclude(study)).sections
    (block,) = [each for each in section.blocks if each.heading == "How far the branches move the change"]
    assert block.sentences[0].startswith("Without the branches")
