"""The simulator: its truths are true, and its noise is the one that it states."""

import numpy as np
import pytest

from benchmarks.simulator import KINDS, OCTAVE, Draw, simulate


@pytest.mark.parametrize("kind", KINDS)
def test_the_changes_are_where_the_curves_meet(kind):
    rng = np.random.default_rng(1)
    for _ in range(30):
        draw = Draw(low=2 * OCTAVE, high=12 * OCTAVE, rng=rng)
        truth = KINDS[kind](draw)
        assert all(change.first <= change.last for change in truth.changes)
        grid = np.linspace(draw.low, draw.high, 4001)
        lead = np.sign(truth.gpu(grid) - truth.cpu(grid))
        if kind == "tie":
            assert not lead.any()
            continue
        ends = [draw.low, *(u for change in truth.changes for u in (change.first, change.last)), draw.high]
        sides = [
            lead[(grid > low + 1e-6) & (grid < high - 1e-6)] for low, high in zip(ends[::2], ends[1::2], strict=True)
        ]
        signs = [np.unique(side).tolist() for side in sides]
        assert all(len(sign) == 1 for sign in signs)  # one winner before, between and after the changes
        below = {"challenger_above": [1], "baseline_above": [-1]}
        for change, left, right in zip(truth.changes, signs[:-1], signs[1:], strict=True):
            assert left == below[change.direction]
            assert right == [-left[0]]


def test_a_staircase_meets_the_other_curve_more_than_once():
    rng = np.random.default_rng(1)
    truths = [KINDS["staircase"](Draw(low=0, high=10 * OCTAVE, rng=rng)) for _ in range(50)]
    zones = [truth.changes[0].last - truth.changes[0].first for truth in truths]
    assert sum(zone > 0.01 for zone in zones) > 10


def test_the_frame_is_a_sweep():
    made = simulate("clean", groups=30, passes=3, seed=1)
    assert len(made.truths) == made.frame["sweep"].nunique() == 30
    counts = made.frame.groupby(["sweep", "size", "target"]).size()
    assert (counts == 3).all()
    sizes = made.frame.groupby("sweep")["size"].nunique()
    assert sizes.between(9, 14).all()
    assert sizes.nunique() > 3
    assert (np.log2(made.frame["size"]) % 1 == 0).all()
    steps = made.frame["step_times_s"].map(len)
    assert steps.between(5, 10).all()
    assert (steps.groupby(made.frame["sweep"]).nunique() == 1).all()


def test_the_noise_is_as_stated():
    made = simulate("tie", groups=100, passes=10, seed=1, sizes=12, steps=10)
    logs = np.log(np.stack(made.frame["step_times_s"].to_numpy())).reshape(100, 10, 2, 12, 10)
    middle = np.median(logs, axis=-1)
    spiked = (logs - middle[..., None] > np.log(1.45)).mean()
    assert 0.012 < spiked < 0.025
    within = np.subtract(*np.quantile(logs, [0.75, 0.25], axis=-1)).mean(axis=(1, 2, 3)) / 1.349
    assert 0.015 < within.min() < within.max() < 0.11
    between = np.std(middle - middle.mean(axis=1, keepdims=True), axis=(1, 2, 3))
    assert 0.01 < between.min() < between.max() < 0.09
    apart = middle - middle.mean(axis=1, keepdims=True)
    together = np.mean([np.corrcoef(one[:, 0].ravel(), one[:, 1].ravel())[0, 1] for one in apart])
    assert 0.15 < together < 0.6  # what the trials of a pair share


def test_noise_is_scaled():
    spread = []
    for noise in (1 / 3, 1, 3):
        made = simulate("tie", groups=1, passes=10, seed=3, noise=noise, sizes=12, steps=10)
        medians = made.frame["step_times_s"].map(np.median).to_numpy()
        ratio = np.diff(np.log(medians).reshape(10, 2, 12), axis=1)
        spread.append(ratio.std())
    assert spread[1] / spread[0] == pytest.approx(3, rel=0.1)
    assert spread[2] / spread[1] == pytest.approx(3, rel=0.1)


@pytest.mark.parametrize(("kind", "target", "status"), [("timeouts", "cpu", "timeout"), ("oom", "gpu", "oom")])
def test_failures_are_those_of_the_largest_sizes(kind, target, status):
    made = simulate(kind, groups=40, passes=3, seed=1)
    failed = made.frame[made.frame["status"] != "ok"]
    assert set(failed["status"]) == {status}
    assert set(failed["target"]) == {target}
    assert failed["step_times_s"].isna().all()
    truth = np.exp([change.changes[0].first for change in made.truths])
    assert (failed["size"].to_numpy() > 0.9 * truth[failed["sweep"]]).all()


def test_the_seed_decides():
    one, same, other = (simulate("clean", groups=2, passes=2, seed=seed).frame for seed in (1, 1, 2))
    assert np.array_equal(np.concatenate(one["step_times_s"]), np.concatenate(same["step_times_s"]))
    assert len(one) != len(other) or one["step_times_s"][0][0] != other["step_times_s"][0][0]
