"""Findings are read from rows as they are stored, and set beside what is expected."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from runner.check.expectations import Expectation, expectations
from runner.check.findings import Found, final_rows, find
from runner.check.page import compare
from runner.check.plan import questions
from sweeps.record import table
from tests.runner.asking import make_record

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
GPU = questions("gpu")
MLP = next(question for question in GPU if question.name == "mlp")


def trials():
    """Every trial of the first pass of the mlp, by size and target."""
    return {(t.parameters["batch_size"], t.target.name): t for pair in MLP.pairs(0) for t in pair}


def rows_of(*records):
    return final_rows(table(list(records)).to_pylist())


def record(trial, **columns):
    usual = {"start_method": "fork", "process_start_s": 0.02, "flops_per_step": 6.7e5 * trial.parameters["batch_size"]}
    return make_record(trial, **usual | columns)


def found_in(*records, calibration=(), signs=None):
    rows = {question.name: rows_of(*records) if question is MLP else [] for question in GPU}
    return find(GPU, rows, calibration, signs or {})


@pytest.mark.parametrize(("device", "name"), [("gpu", "NVIDIA H200"), ("gpu", "NVIDIA A10G"), ("cpu", None)])
def test_whatever_is_expected_is_looked_for_even_where_nothing_was_measured(device, name):
    asked = questions(device)
    found = find(asked, {question.name: [] for question in asked}, [], {})
    lines = compare(expectations(device, name), found)
    assert [line.agrees for line in lines] == [None] * len(lines)
    assert all(line.found and line.expected and line.source for line in lines)
    assert any(line.is_promise for line in lines)


def test_numbers_of_a_datasheet_are_expected_of_its_hardware_only():
    def keys(name):
        return {each.key for each in expectations("gpu", name)}

    assert {"product, tf32", "memory"} <= keys("NVIDIA H200")
    assert keys("NVIDIA H200") - keys("NVIDIA H100 80GB HBM3") == {"memory"}
    assert not {"product, ieee", "product, tf32", "memory"} & keys("NVIDIA A10G")
    assert {"context", "pinned"} <= keys("NVIDIA A10G")


@pytest.mark.parametrize(
    ("faster", "low", "high"),
    [
        ((1024, 4096), 171.5, 686.1),
        ((4, 16, 64, 256, 1024, 4096), -math.inf, 2.68),
        ((), 2744.3, math.inf),
        ((4, 1024, 4096), 171.5, 686.1),  # for good, from there on
    ],
)
def test_where_the_gpu_overtakes(faster, low, high):
    records = [
        record(trial, step_times_s=[1e-4 if target == "gpu" and size in faster else 2e-4])
        for (size, target), trial in trials().items()
    ]
    found = found_in(*records)["mlp against cpu-1"]
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-3)


def test_losses_are_compared_within_their_pair():
    losses = {"cpu-1": 2.0, "cpu": 2.0, "gpu": 2.0 * (1 + 3e-6)}
    others = {key: trial for key, trial in trials().items() if key[0] in (4, 16)}
    records = [
        record(trial, loss_step_1=losses[target] + size, loss_step_10=1.0) for (size, target), trial in others.items()
    ]
    found = found_in(*records)
    assert found["loss 1"].high == pytest.approx(1e-6, rel=0.01)  # 6e-6 in 6.0; sizes differ by far more
    assert found["loss 10"].high == 0.0


def test_a_pair_that_the_driver_found_invalid_still_tells_its_difference():
    pair = {target: trials()[4, target] for target in ("cpu", "gpu")}
    found = found_in(
        record(pair["cpu"], loss_step_1=2.0),
        record(pair["gpu"], status="invalid", loss_step_1=3.0, error_type="OtherWork"),
    )
    assert found["loss 1"].high == pytest.approx(1 / 3)
    assert found["ended otherwise"].high == 1
    (line,) = [line for line in compare(expectations("gpu", None), found) if line.key == "loss 1"]
    assert (line.agrees, line.is_promise) == (False, True)


def test_the_last_attempt_of_a_trial_counts():
    trial = trials()[4, "gpu"]
    rows = rows_of(record(trial, status="crashed", attempt=1), record(trial, attempt=2))
    assert [row["status"] for row in rows] == ["ok"]


def test_cold_starts_are_told_by_their_median_and_their_first():
    records = [
        record(
            pair[0],
            cold_context_s=seconds,
            started_at=(BEGUN + timedelta(minutes=place)).isoformat(),
            step_times_s=None,
        )
        for place, (pair, seconds) in enumerate(zip(MLP.cold_starts(), (0.9, 0.3, 0.4), strict=True))
    ]
    found = found_in(*reversed(records))["context"]
    assert (found.low, found.text) == (0.4, "400 ms (first 900 ms, 300 ms to 900 ms)")


def test_a_device_that_was_open_before_its_trial_breaks_a_promise():
    reason = {"cold_context_s": "the device was open when the trial began"}
    found = found_in(record(trials()[4, "gpu"], null_reasons=reason), record(trials()[16, "gpu"], cold_context_s=0.3))
    assert (found["open before"].high, found["open before"].text) == (1, "1 of 2")


def test_kernels_are_set_beside_operators_and_their_time_beside_the_step():
    (trial,) = [t for pair in MLP.ladder() for t in pair if t.rung == "kernel" and t.parameters["batch_size"] == 64]
    found = found_in(
        record(trial, kernels_per_step=18.0, ops_per_step=20.0, kernel_time_s=4e-5, step_times_s=[1e-4, 1e-4])
    )
    assert (found["kernels"].low, found["kernels"].high) == (0.9, 0.9)
    assert found["kernel time"].high == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("signs", "nursery", "user"),
    [
        ({"nursery": [], "imported": [], "used": ["/dev/nvidia0", "libcuda.so.1"]}, 0, 2),
        ({"nursery": ["libcuda.so.1"], "imported": ["libcuda.so.1"], "used": ["/dev/nvidia0", "libcuda.so.1"]}, 0, 1),
        ({"nursery": ["/dev/nvidiactl"], "imported": [], "used": []}, 1, 0),
    ],
)
def test_signs_of_a_driver_count_beyond_those_of_importing_torch(signs, nursery, user):
    found = found_in(signs=signs)
    assert (found["signs in the nursery"].high, found["signs in a user"].high) == (nursery, user)


@pytest.mark.parametrize("signs", [{}, {"nursery": None, "imported": [], "used": None}])
def test_signs_that_nobody_has_looked_for_are_not_taken_for_none(signs):
    found = found_in(signs=signs)
    assert not found["signs in the nursery"].is_known
    assert not found["signs in a user"].is_known


@pytest.mark.parametrize(
    ("low", "high", "agrees"),
    [
        (5.0, 5.0, True),
        (10.0, 10.0, True),
        (4.9, 4.9, False),
        (3.0, 6.0, True),
        (11.0, 30.0, False),
        (7.0, math.inf, None),  # it may lie within, or beyond
        (-math.inf, 7.0, None),
        (11.0, math.inf, False),
        (math.nan, math.nan, None),
    ],
)
def test_a_finding_agrees_if_it_lies_within_what_is_expected(low, high, agrees):
    expected = Expectation(key="x", what="x", low=5.0, high=10.0)
    (line,) = compare([expected], {"x": Found(text="x", low=low, high=high)})
    assert line.agrees is agrees
