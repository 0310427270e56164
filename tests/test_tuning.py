"""The whole program with several trainings at once: two on two cores do twice as many, and more is not pretended."""

import pytest

from analysis.load import load
from analysis.whole_training import configurations_per_hour, per_configuration
from runner.environment import usable_cores
from tests.examples import run_sweep

#: Each epoch takes so many milliseconds: of sleep, or of CPU time, however long that takes on a busy machine.
WORKLOAD = """
import time
import torch

class Working:
    epochs = 3

    def __init__(self, *, seed, milliseconds, kind):
        self.epoch_s, self.kind = milliseconds / 1000, kind

    def prepare(self, device, target):
        pass

    def _work(self, seconds):
        if self.kind == "sleep":
            time.sleep(seconds)
            return
        until = time.process_time() + seconds
        while time.process_time() < until:
            pass

    def step(self):
        self._work(self.epoch_s / 20)
        return torch.zeros(())

    def epoch(self):
        self._work(self.epoch_s)
        return 1.0
"""
SWEEP = """
name: working
workload: working.py:Working
axes:
  milliseconds: [200, 400]
  kind: [sleep, spin]
targets:
  - {name: many, device: cpu, threads: 1, side_by_side: 2}
  - {name: one, device: cpu, threads: 1}
passes: 1
"""

pytestmark = pytest.mark.skipif(usable_cores() < 2, reason="two trainings side by side need two cores")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("working")
    (place / "working.py").write_text(WORKLOAD)
    (place / "working.yaml").write_text(SWEEP)
    return run_sweep(place / "working.yaml", place / "study")


@pytest.fixture(scope="module")
def frame(folder):
    found = load(folder).frame
    assert set(found["status"]) == {"ok"}
    return found


def ratios(frame, kind):
    """How many times as many configurations an hour two at once do, by size."""
    rows = per_configuration(frame[frame["kind"] == kind])
    found = configurations_per_hour(rows, axis="milliseconds", targets=["many", "one"])
    found = found.pivot_table(index="milliseconds", columns="target", values="per_hour")
    return (found["many"] / found["one"]).tolist()


def test_rows_say_how_many_trainings_they_were(frame):
    assert frame.groupby("target")["side_by_side"].unique().map(list).to_dict() == {"many": [2], "one": [1]}


def test_two_that_sleep_are_exactly_twice_as_many(frame):
    assert ratios(frame, "sleep") == pytest.approx([2, 2], rel=0.15)


def test_two_that_compute_take_the_cpu_time_of_two(frame):
    spun = frame[frame["kind"] == "spin"]
    whole_s = 3 * spun["milliseconds"] / 1000  # that much at least, by each of them
    assert (spun["cpu_time_s"] > whole_s * spun["side_by_side"]).all()


def test_two_that_compute_are_about_twice_as_many(frame):
    spun = frame[frame["kind"] == "spin"]
    if spun["interference"].eq("contended").any():
        pytest.skip("others used the cores: how many trainings they left room for says nothing")
    assert all(1.6 < ratio < 2.4 for ratio in ratios(frame, "spin"))


def test_the_times_of_one_are_in_the_row_and_those_of_the_node_in_the_verdict(folder, frame):
    slept = frame[(frame["kind"] == "sleep") & (frame["milliseconds"] == 400)]
    assert all(min(times) >= 0.4 for times in slept["epoch_times_s"])
    text = (folder / "report.md").read_text()
    assert "(many is 2 trainings side by side; its times are those of one divided by 2.)" in text
    assert "### Tuning" in text
    assert "many tries configurations faster than one everywhere from milliseconds 200 to 400." in text
    assert "| milliseconds | many, 2 at once | one |" in text
