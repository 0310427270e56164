"""What a start costs and when it is repaid: a prescribed start through the whole program, and the sweep that ships."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from analysis.breakeven import break_even
from analysis.load import load
from tests.examples import run_sweep

#: An interval of 95 % misses the truth now and then, but not by much.
WITHIN = 1.1

ROOT = Path(__file__).parent.parent
SLEEPER = """
import time
import torch

STEP_S = {"early": lambda size: 0.00025 * size, "late": lambda size: 0.002 + 0.000025 * size}
PREPARING_S, FIRST_S = {"early": 0.0, "late": 0.3}, {"early": 0.0, "late": 0.15}


class Sleeper:
    def __init__(self, *, seed, size):
        self.size = size

    def prepare(self, device, target):
        time.sleep(PREPARING_S[target])
        self.step_s, self.more_s = STEP_S[target](self.size), FIRST_S[target]

    def step(self):
        time.sleep(self.step_s + self.more_s)
        self.more_s = 0.0
        return torch.zeros(())
"""
SWEEP = """
name: start
question: When is a start of 0.45 s repaid?
workload: sleeper.py:Sleeper
axes: {size: [2, 16, 128]}
targets: [{name: early, device: cpu, threads: 1}, {name: late, device: cpu, threads: 1}]
passes: 3
"""
LATER_S = 0.45


def run(sweep, folder, *settings, targets=""):
    """Run a sweep without Ray, and return the rows."""
    given = [word for each in settings for word in ("--set", each)]
    run_sweep(sweep, folder, "--targets", targets, *given)
    return pq.read_table(folder / "trials").to_pylist()


def block(folder, heading):
    """Return the lines of a block of the report; it is in the page too."""
    assert heading in (folder / "report.html").read_text()
    _, _, rest = (folder / "report.md").read_text().partition(f"# {heading}\n")
    return rest.partition("\n#")[0].strip().splitlines()


@pytest.fixture(scope="module")
def prescribed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cold")
    (folder / "sleeper.py").write_text(SLEEPER)
    (folder / "start.yaml").write_text(SWEEP)
    run(folder / "start.yaml", folder / "study")
    return folder / "study"


def test_a_prescribed_start_is_repaid_after_the_steps_that_it_takes(prescribed):
    study = load(prescribed)
    found = break_even(study.frame, axis="size", baseline="early", challenger="late", drift=study.drift)
    assert found["size"].tolist() == [16, 128]
    for row in found.to_dict("records"):
        truth = LATER_S / (0.00025 * row["size"] - 0.002 - 0.000025 * row["size"])
        assert row["repaid_steps_low"] / WITHIN <= truth <= row["repaid_steps_high"] * WITHIN, row
        assert row["repaid_steps"] == pytest.approx(truth, rel=0.3)
        assert row["extra_low_s"] / WITHIN <= LATER_S <= row["extra_high_s"] * WITHIN


def test_the_report_says_when_it_is_repaid_and_who_wins_cold_and_warm(prescribed):
    repaid = block(prescribed, "When late has paid back its start")
    assert repaid[0].startswith("- Where late is faster than early, it repays its later start: at size 16 after ")
    cold, warm, *_ = block(prescribed, "From a cold start, and once warm")
    assert cold.startswith("- First step, from the beginning of a trial: early trains ")
    assert cold.endswith(" faster than late everywhere from size 2 to 128.")
    assert warm.startswith("- Once warm: From size ")
    assert "late trains" in warm
    assert "When early has paid back its start" not in (prescribed / "report.md").read_text()


def test_the_sweep_that_ships_tells_what_a_start_is_made_of(tmp_path):
    folder = tmp_path / "study"
    rows = run("cold_start", folder, "axes.batch_size=8,64", "passes=1", "parameters.width=32", targets="cpu-1,cpu")
    whole = [row for row in rows if row["rung"] == "e2e"]
    starts = [row for row in rows if row["rung"] == "cold"]
    assert {row["status"] for row in rows} == {"ok"}
    assert sorted((row["target"], row["pass_index"], row["batch_size"]) for row in starts) == [
        ("cpu", 0, 8),
        ("cpu-1", 0, 8),
    ]
    for row in whole:
        assert 0 < row["cold_context_s"] + row["cold_first_kernel_s"] < row["prepare_s"]
        assert row["cold_first_matmul_s"] is row["cold_first_conv_s"] is None
        assert dict(row["null_reasons"])["cold_first_conv_s"] == "timed in the rung cold only"
    for row in starts:
        assert min(row[f"cold_{stage}_s"] for stage in ("context", "first_kernel", "first_matmul", "first_conv")) > 0
        assert row["step_times_s"] is row["prepare_s"] is row["loss_step_1"] is None
        assert dict(row["null_reasons"])["step_times_s"] == "the rung cold trains nothing"
    made_of = [line for line in block(folder, "What a start is made of") if line.startswith("| cpu-1 |")]
    assert [line.split(" | ")[1] for line in made_of] == [
        "opening the device",
        "its first kernel",
        "its first product of matrices",
        "its first convolution",
        "making model and data",
        "the first step",
        "the rest of the warm-up, beyond steady steps",
    ]
    cold, warm, *_ = block(folder, "From a cold start, and once warm")
    assert cold.startswith("- First step, from the beginning of a trial: ")
    assert warm.startswith("- Once warm: ")
