"""Simulated sweeps with a known truth: how often the interval holds it, how wide it is, how often the verdict is wrong.

The thresholds are the figures that the method promises, less twice the error of so few simulations.
"""

import numpy as np
import pytest

from analysis import crossovers
from tests.analysis.synthetic import ASKED, simulate

GROUPS = 200
DIRECTION = {"reversed": "baseline_above"}


def conclude(kind, *, passes, groups=GROUPS, seed=20, drift=None, **options):
    sweeps = simulate(kind, groups=groups, passes=passes, seed=seed, **options)
    answer = crossovers(sweeps.frame, group_by=["sweep"], drift=drift, **ASKED)
    assert len(answer) == groups
    return answer, sweeps.changes


def at_least(share, groups=GROUPS):
    """The promised share, less twice the standard error of its estimate."""
    return share - 2 * np.sqrt(share * (1 - share) / groups)


def share_right(answer, verdict):
    return (answer["verdict"] == verdict).mean()


def share_wrong(answer, verdict):
    return (~answer["verdict"].isin([verdict, "undetermined"])).mean()


def coverage(rows, truths):
    return np.mean([row.low <= np.exp(truth) <= row.high for row, truth in zip(rows, truths, strict=True)])


@pytest.mark.parametrize(
    ("kind", "passes", "held", "right", "half_width"),
    [
        ("crosses", 3, 0.93, 0.98, 0.125),
        ("crosses", 5, 0.93, 0.98, 0.095),
        ("crosses", 10, 0.93, 0.98, 0.095),
        ("reversed", 3, 0.93, 0.98, 0.13),
        ("reversed", 5, 0.93, 0.98, 0.105),
        ("knee", 5, 0.90, 0.98, None),
        ("shallow", 5, 0.93, 0.95, None),
    ],
)
def test_one_change_is_found_and_held(kind, passes, held, right, half_width):
    answer, changes = conclude(kind, passes=passes)
    assert share_right(answer, "crosses") >= at_least(right)
    assert share_wrong(answer, "crosses") <= 0.01
    found = answer[answer["verdict"] == "crosses"]
    assert (found["direction"] == DIRECTION.get(kind, "challenger_above")).mean() >= 0.99
    truth = [changes[group][0] for group in found["sweep"]]
    assert coverage(found.itertuples(), truth) >= at_least(held)
    within = (np.log(found["bracket_low"]) <= truth) & (truth <= np.log(found["bracket_high"]))
    assert within.mean() >= 0.99
    if half_width:
        # The median of so few widths is itself known to a few per cent.
        assert np.median(np.sqrt(found["high"] / found["low"]) - 1) <= 1.05 * half_width
    if kind in ("crosses", "reversed"):
        error = np.abs(np.log(found["estimate"]) - truth)
        assert np.median(error) <= 0.03
        assert np.quantile(error, 0.9) <= (0.08 if passes >= 5 else 0.1)


@pytest.mark.parametrize("noise", [1 / 3, 3])
def test_quiet_and_loud_sweeps_are_held_alike(noise):
    answer, changes = conclude("crosses", passes=5, noise=noise)
    found = answer[answer["verdict"] == "crosses"]
    assert len(found) >= at_least(0.98) * GROUPS
    assert coverage(found.itertuples(), [changes[group][0] for group in found["sweep"]]) >= at_least(0.93)
    width = np.median(np.sqrt(found["high"] / found["low"]) - 1)
    assert width < 0.07 if noise < 1 else 0.15 < width < 0.35


@pytest.mark.parametrize(("steps", "held"), [(5, 0.93), (1, 0.88)])
def test_one_pass_still_holds(steps, held):
    answer, changes = conclude("crosses", passes=1, steps=steps)
    found = answer[answer["verdict"] == "crosses"]
    assert len(found) >= 0.9 * GROUPS
    assert coverage(found.itertuples(), [changes[group][0] for group in found["sweep"]]) >= at_least(held)


@pytest.mark.parametrize(
    ("kind", "passes", "right"),
    [("always_baseline", 3, 0.99), ("always_baseline", 5, 0.99), ("always_challenger", 5, 0.92)],
)
def test_one_winner_throughout(kind, passes, right):
    answer, _ = conclude(kind, passes=passes)
    assert share_right(answer, kind) >= at_least(right)
    assert share_wrong(answer, kind) <= 0.01


def test_several_changes_are_each_found_and_held():
    answer, changes = conclude("several", passes=5)
    assert share_right(answer, "several") >= at_least(0.95)
    assert share_wrong(answer, "several") <= 0.01
    inside = []
    for group, found in zip(answer["sweep"], answer["changes"], strict=True):
        if len(found) == len(changes[group]):
            inside += [one["low"] <= np.exp(u) <= one["high"] for one, u in zip(found, changes[group], strict=True)]
    assert len(inside) > GROUPS
    assert np.mean(inside) >= at_least(0.93)


@pytest.mark.parametrize("passes", [3, 5, 10])
def test_equal_targets_get_no_winner(passes):
    answer, _ = conclude("tie", passes=passes)
    assert share_wrong(answer, "tie") <= 1 - at_least(0.97)


def test_equal_targets_that_were_measured_well_are_called_equal():
    answer, _ = conclude("tie", passes=10, noise=1 / 3, drift=0.01)
    assert share_right(answer, "tie") >= 0.95
