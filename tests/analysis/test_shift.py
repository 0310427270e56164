"""How far a crossover moves: the interval holds the truth, and nothing is claimed where nothing moves."""

import math

import numpy as np
import pandas as pd
import pytest

from analysis import crossovers
from analysis.shift import Shift, shift, shift_words
from benchmarks.simulator import Change, Truth, _measure, simulate
from tests.analysis.synthetic import ASKED, falling, made_frame, with_status

NAN = math.nan


def crossing(estimate, low, high, *, direction="challenger_above", verdict="crosses"):
    return {"verdict": verdict, "direction": direction, "estimate": estimate, "low": low, "high": high}


# ------------------------------------------------------------------------------------------------------------ the rule


def test_the_arms_that_point_the_same_way_are_joined_in_quadrature():
    found = shift(crossing(100, 90, 120), crossing(200, 190, 220))
    assert found.factor == pytest.approx(2)
    assert math.log(found.low) == pytest.approx(math.log(2) - math.hypot(math.log(200 / 190), math.log(120 / 100)))
    assert math.log(found.high) == pytest.approx(math.log(2) + math.hypot(math.log(220 / 200), math.log(100 / 90)))
    assert found.clear


def test_exchanging_the_two_turns_the_shift_round():
    one, other = crossing(100, 90, 120), crossing(270, 260, 310)
    there, back = shift(one, other), shift(other, one)
    assert there.factor == pytest.approx(1 / back.factor)
    assert (there.low, there.high) == pytest.approx((1 / back.high, 1 / back.low))


def test_exponents_shift_by_differences_in_their_own_unit():
    found = shift(crossing(10, 9, 12), crossing(13, 12.5, 13.5), base=2)
    assert found == Shift(factor=3, low=3 - math.hypot(0.5, 2), high=3 + math.hypot(0.5, 1), exponent=True)
    assert found == shift(crossing(10, 9, 12), crossing(13, 12.5, 13.5), base=10)
    below_zero = shift(crossing(-1, -1.5, -0.5), crossing(1, 0.5, 1.5), base=2)
    assert below_zero.factor == 2


@pytest.mark.parametrize(
    "other",
    [
        crossing(100, 90, 120, direction="baseline_above"),
        crossing(NAN, NAN, NAN, verdict="always_challenger", direction=""),
        crossing(NAN, 90, NAN, verdict="undetermined", direction=""),
        crossing(NAN, NAN, NAN, verdict="several", direction=""),
    ],
)
def test_what_does_not_cross_alike_has_no_shift(other):
    assert shift(crossing(100, 90, 120), other) is None
    assert shift(other, crossing(100, 90, 120)) is None


def test_open_ends_stay_open():
    found = shift(crossing(100, 90, NAN), crossing(200, 190, 220))
    assert found.factor == pytest.approx(2)
    assert math.isnan(found.low)
    assert found.high > 2
    found = shift(crossing(100, NAN, 110), crossing(200, 190, 220))
    assert math.isnan(found.high)
    assert 1 < found.low < 2
    assert found.clear


def test_without_an_estimate_the_ends_are_as_far_as_the_intervals_allow():
    found = shift(crossing(NAN, 90, 120), crossing(200, 190, 220))
    assert math.isnan(found.factor)
    assert (found.low, found.high) == pytest.approx((190 / 120, 220 / 90))


def test_a_crossing_known_from_a_time_out_alone():
    frame = with_status(made_frame(falling(100)), "timeout", target="cpu", sizes=[128, 256, 512, 1024, 2048])
    first, second = (crossovers(rows, **ASKED).iloc[0] for rows in (frame, made_frame(falling(1000))))
    assert math.isnan(first["estimate"])
    found = shift(first, second)
    assert found.low <= 1000 / 100 <= found.high
    assert (found.low, found.high) == pytest.approx((second["low"] / 128, second["high"] / first["low"]))


# --------------------------------------------------------------------------------------------------------------- words


MOVES = "With resident data, the crossover in width is {} than with the loader (95 % interval {})."
STAYS = "With resident data, no difference is seen to the crossover in width with the loader (95 % interval {})."
OPEN = "Whether the crossover in width is another with resident data than with the loader cannot be told: {}."


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (Shift(factor=1 / 6.14, low=1 / 7.61, high=1 / 4.93), MOVES.format("6.1x lower", "4.9x to 7.7x")),
        (Shift(factor=1.344, low=1.209, high=1.491), MOVES.format("1.34x higher", "1.20x to 1.50x")),
        (Shift(factor=1.04, low=0.921, high=1.171), STAYS.format("1.09x lower to 1.18x higher")),
        (Shift(factor=-0.5, low=-0.81, high=-0.22, exponent=True), MOVES.format("0.50 lower", "0.22 to 0.81")),
        (Shift(factor=0.1, low=-0.2, high=0.4, exponent=True), STAYS.format("0.20 lower to 0.40 higher")),
        (Shift(factor=1.03, low=1.0034, high=1.06), MOVES.format("1.03x higher", "1.003x to 1.06x")),
        (Shift(factor=0.96, low=0.93, high=0.9996), MOVES.format("1.04x lower", "1.0004x to 1.08x")),
        (Shift(factor=1.03, low=0.9966, high=1.06), STAYS.format("1.01x lower to 1.06x higher")),
        (Shift(factor=0.2, low=0.0034, high=0.5, exponent=True), MOVES.format("0.20 higher", "0.003 to 0.50")),
        (Shift(factor=2.5, low=1.5, high=NAN), MOVES.format("2.5x higher", "1.50x to an open end")),
        (Shift(factor=NAN, low=0.2, high=0.5), MOVES.format("lower", "2.0x to 5.0x")),
        (Shift(factor=1.2, low=NAN, high=1.5), OPEN.format("the interval is open")),
    ],
)
def test_words(found, sentence):
    assert shift_words(found, axis="width", first="the loader", second="resident data") == sentence


# ------------------------------------------------------------------------------------------------------ simulated pairs


@pytest.mark.parametrize(("kind", "passes"), [("clean", 3), ("clean", 5), ("knee", 5), ("reversed", 3)])
def test_the_interval_holds_the_true_shift(kind, passes):
    """Two sweeps with a crossing of their own each, in the noise of benchmarks/simulator.py: at least 93 %."""
    made = simulate(kind, groups=400, passes=passes, seed=31)
    rows = crossovers(made.frame, **ASKED, group_by=["sweep"]).to_dict("records")
    truths = [truth.changes[0].first for truth in made.truths]
    pairs = [(at, shift(rows[at], rows[at + 1])) for at in range(0, len(rows), 2)]
    found = [(math.exp(truths[at + 1] - truths[at]), moved) for at, moved in pairs if moved is not None]
    assert len(found) >= 195
    assert np.mean([moved.low <= truth <= moved.high for truth, moved in found]) >= 0.93
    # Wide enough to hold, and no wider than the widths of section 13 joined: sqrt(2) times 13 %, and some.
    assert np.median([math.sqrt(moved.high / moved.low) - 1 for _, moved in found]) < 0.21


# ---------------------------------------------------------------------------- a value that is read back every few steps

POSITION = np.log(2.0) * np.arange(5, 12)  # 32 to 2048
POWER, PART, EQUAL_AT = 0.9, 0.15, math.log(300)


def recurrent(stall, *, passes, rng):
    """Trials of a small recurrent net whose loss is read back, at a cost on the GPU.

    Args:
        stall: Seconds that reading costs a step, as a part of the GPU's launches; the CPU has nothing to wait for.
    """
    truth = Truth(
        cpu=lambda x: POWER * (x - EQUAL_AT),
        gpu=lambda x: np.log((1 - PART) * (1 + stall) + PART * np.exp(POWER * (x - EQUAL_AT))),
        changes=(Change(first=EQUAL_AT, last=EQUAL_AT, direction="challenger_above"),),
    )
    times = _measure(truth, POSITION, passes=passes, noise=1.0, steps=None, rng=rng)
    number, target, size = (index.ravel() for index in np.indices(times.shape[:-1]))
    return pd.DataFrame(
        {
            "hidden": np.round(np.exp(POSITION)).astype(np.int64)[size],
            "target": np.array(["cpu", "gpu"])[target],
            "pass_index": number,
            "status": "ok",
            "step_times_s": list(times.reshape(-1, times.shape[-1])),
        }
    )


def conclude(studies):
    """One crossover a study: {name: rows}."""
    rows = pd.concat([own.assign(study=name) for name, own in studies.items()], ignore_index=True)
    found = crossovers(rows, axis="hidden", baseline="cpu", challenger="gpu", group_by=["study"])
    return {row["study"]: row for row in found.to_dict("records")}


def moved_by(stall):
    """Where the targets are equal with the stall, over where they are without."""
    return (1 + stall) ** (1 / POWER)


def test_where_nothing_moves_no_difference_is_seen():
    """The same truth measured twice."""
    rng = np.random.default_rng(1)
    rows = conclude({number: recurrent(0.0, passes=3, rng=rng) for number in range(200)})
    found = [shift(rows[number], rows[number + 1]) for number in range(0, 200, 2)]
    assert np.mean([moved.clear for moved in found]) <= 0.05
    told = [shift_words(moved, axis="hidden", first="this", second="that") for moved in found]
    assert ["no difference is seen" in sentence for sentence in told] == [not moved.clear for moved in found]


def test_reading_a_value_every_step_moves_the_crossover_by_a_known_factor():
    """The loss is read every 1, 10 or 100 steps, and reading it once costs a third of the launches of a step."""
    rng, cost, intervals, studies = np.random.default_rng(2), 0.35, (1, 10, 100), 60
    rows = conclude(
        {
            f"{every} {number}": recurrent(cost / every, passes=5, rng=rng)
            for every in intervals
            for number in range(studies)
        }
    )
    often, seldom = (
        [shift(rows[f"100 {number}"], rows[f"{every} {number}"]) for number in range(studies)] for every in (1, 10)
    )
    for moved, every in ((often, 1), (seldom, 10)):
        truth = moved_by(cost / every) / moved_by(cost / 100)
        assert np.mean([one.low <= truth <= one.high for one in moved]) >= 0.93
    assert np.mean([one.low > 1 for one in often]) >= 0.9  # 1.39 times as large a net
    assert np.mean([one.clear for one in seldom]) <= 0.05  # 3.5 % are less than can be told

    told = shift_words(often[0], axis="hidden", first="sync 100", second="sync 1")
    assert told.startswith("With sync 1, the crossover in hidden is 1.")
    assert "x higher than with sync 100 (95 % interval 1." in told
    told = shift_words(seldom[0], axis="hidden", first="sync 100", second="sync 10")
    assert told.startswith(
        "With sync 10, no difference is seen to the crossover in hidden with sync 100 (95 % interval 1."
    )
