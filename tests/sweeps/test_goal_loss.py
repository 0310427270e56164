"""A loss is something that a whole training comes down to: a sweep that has none is refused."""

import pytest
from pydantic import ValidationError

from sweeps.definition import Sweep
from sweeps.sweep_file import load, read
from tests.sweeps.asking import sweep

OWN = "class Mine:\n    def __init__(self, *, seed, batch_size): ...\n"


def test_without_one_none_is_asked_for():
    assert sweep().goal_loss is None
    assert sweep(goal_loss=0.5, parameters={"epochs": 3}).goal_loss == 0.5


@pytest.mark.parametrize("value", [0, -1.0, float("inf"), float("nan"), "low", True])
def test_it_is_a_number_above_0(value):
    with pytest.raises(ValidationError, match="goal_loss"):
        sweep(goal_loss=value, parameters={"epochs": 3})


def test_a_training_that_ends_with_its_steps_has_none():
    with pytest.raises(
        ValidationError, match=r"goal_loss: 0.5 is .* epochs is 0, which has none; parameters.epochs above 0"
    ):
        sweep(goal_loss=0.5)
    with pytest.raises(ValidationError, match=r"axes.epochs: all values above 0"):
        sweep(goal_loss=0.5, axes={"batch_size": [2, 4], "epochs": [0, 3]})
    assert sweep(goal_loss=0.5, axes={"batch_size": [2, 4], "epochs": [1, 3]})


def test_what_trains_nothing_has_none():
    with pytest.raises(ValidationError, match="goal_loss: gemm trains nothing"):
        sweep(goal_loss=0.5, workload="gemm", axes={"size": [2, 4]})


def test_the_users_own_says_it_when_it_runs(tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    asked = "name: mine\nworkload: mine.py:Mine\naxes: {batch_size: [2, 4]}\ntargets: [cpu-1, cpu]\ngoal_loss: 0.5\n"
    (tmp_path / "mine.yaml").write_text(asked)
    found = load(str(tmp_path / "mine.yaml"))
    assert found.goal_loss == 0.5
    assert read(found.dump().encode(), "again") == found


def test_it_changes_no_trial():
    one, other = (sweep(goal_loss=goal, parameters={"epochs": 3}) for goal in (None, 0.5))
    assert [[t.trial_id for t in pair] for pair in one.pairs()] == [
        [t.trial_id for t in pair] for pair in other.pairs()
    ]


@pytest.mark.parametrize("accelerator", [True, False])
def test_the_sweep_that_ships_asks_for_a_loss_and_tuning_for_many_at_once(accelerator):
    asked = load("time_to_loss", accelerator=accelerator)
    assert isinstance(asked, Sweep)
    assert asked.goal_loss == 0.5
    tuning = load("tuning", accelerator=accelerator)
    assert tuning.target(tuning.baseline).side_by_side == "all"
    assert tuning.target(tuning.challenger).side_by_side == 1
    assert all(one["epochs"] for one in tuning.configurations())
