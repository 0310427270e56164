"""Trials: identities that say what is asked, and nothing else."""

import dataclasses

import pytest

from sweeps.target import Target
from sweeps.trial import Trial

TRIAL = Trial(
    sweep="mine",
    workload="mlp",
    parameters={"batch_size": 32, "width": 8},
    pair={"batch_size": 32, "width": 8},
    target=Target.model_validate("cpu-1"),
    pass_index=0,
    pair_order=0,
    paired=True,
    seed=0,
    deadline_s=120.0,
)


def changed(**fields):
    return dataclasses.replace(TRIAL, **fields)


def identities(trial):
    return trial.config_id, trial.pair_id, trial.trial_id


def test_identities_stay_what_they_are():
    """If this fails, every study that exists would be run again: only with a new schema version."""
    assert identities(TRIAL) == ("1f7f6f8b52b99f94", "d0ade0b5d55355db", "9ae377f73fedd39d")


@pytest.mark.parametrize(
    "same",
    [
        {"sweep": "other"},
        {"pair_order": 1},
        {"paired": False},
        {"deadline_s": 1.0},
        {"parameters": {"width": 8, "batch_size": 32}},
    ],
)
def test_what_does_not_change_the_question_keeps_the_identities(same):
    assert identities(changed(**same)) == identities(TRIAL)


@pytest.mark.parametrize(
    ("other", "kept"),
    [
        ({"workload": "linear"}, 0),
        ({"parameters": {"batch_size": 33, "width": 8}, "pair": {"batch_size": 33, "width": 8}}, 0),
        ({"seed": 1}, 0),
        ({"pass_index": 1}, 1),
        ({"target": Target.model_validate("cpu-2")}, 2),
        ({"target": Target(name="cpu-1", device="cpu", threads=2)}, 2),
        ({"rung": "resident"}, 2),
    ],
)
def test_what_changes_the_question_changes_them_from_there_on(other, kept):
    """Configuration, pair and trial are nested: a change at one level shows at that level and below."""
    same = [one == two for one, two in zip(identities(changed(**other)), identities(TRIAL), strict=True)]
    assert same == [True] * kept + [False] * (3 - kept)


def test_a_lever_that_only_one_target_has_is_not_part_of_the_pair():
    shared = {"pair": {"batch_size": 32}}
    idle, pinned = (changed(parameters={"batch_size": 32, "transfer": t}, **shared) for t in (None, "pinned"))
    assert idle.pair_id == pinned.pair_id
    assert idle.config_id != pinned.config_id


def test_a_target_is_known_by_its_name_and_by_what_is_not_usual():
    """A new key of targets with a default must not make all studies run again."""
    spelt = Target(name="cpu-1", device="cpu", threads=1, mode="eager", precision="ieee", wait_policy="default")
    assert changed(target=spelt).trial_id == TRIAL.trial_id


def test_a_workload_is_known_by_its_file_name_wherever_it_lies():
    assert changed(workload="/a/own.py:make").trial_id == changed(workload="/b/c/own.py:make").trial_id
    assert changed(workload="/a/own.py:make").trial_id != changed(workload="/a/own.py:build").trial_id


def test_the_label_is_for_people():
    assert TRIAL.label == "mlp batch_size=32 width=8 on cpu-1, pass 1"
    assert changed(rung="preload").label == "mlp batch_size=32 width=8 on cpu-1 (preload), pass 1"
    usual = changed(parameters={"width": 8, "loader": "slice", "sync": "end", "clip_norm": None, "transfer": None})
    assert usual.label == "mlp width=8 on cpu-1, pass 1"
    assert changed(parameters={"width": 8, "loader": "gather"}).label == "mlp width=8 loader=gather on cpu-1, pass 1"
    assert "/a/" not in changed(workload="/a/own.py:make").label
