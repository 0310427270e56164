"""Ceilings: which sizes are not worth trying."""

import dataclasses

import pytest

from runner.ceilings import Ceilings
from tests.runner.asking import make_trial


def at(size, **changes):
    trial = make_trial(target="cpu-1", width=8)
    return dataclasses.replace(trial, parameters={**trial.parameters, "batch_size": size}, **changes)


def test_only_larger_sizes_are_too_large():
    ceilings = Ceilings("batch_size")
    ceilings.note(at(64), "oom")
    assert [bool(ceilings.cause(at(size))) for size in (1, 63, 64, 65, 128)] == [False, False, False, True, True]
    ceilings.note(at(16), "timeout")
    assert ceilings.cause(at(17)).startswith("cpu-1 hit the deadline at batch_size 16 already; --retry timeout,")
    ceilings.note(at(32), "oom")
    assert "batch_size 16" in ceilings.cause(at(64)), "the smallest counts"


@pytest.mark.parametrize(
    "status", ["ok", "error", "crashed", "invalid", "node_lost", "unavailable", "skipped_larger", ""]
)
def test_other_endings_say_nothing_of_sizes(status):
    ceilings = Ceilings("batch_size")
    ceilings.note(at(4), status)
    assert not ceilings.cause(at(8))


@pytest.mark.parametrize("other", [{"rung": "preload"}, {"target": make_trial(target="cpu-2").target}])
def test_another_rung_or_target_has_a_ceiling_of_its_own(other):
    ceilings = Ceilings("batch_size")
    ceilings.note(at(4), "oom")
    assert ceilings.cause(at(8))
    assert not ceilings.cause(at(8, **other))
    assert ceilings.cause(at(8, pass_index=2, seed=0))


def test_sizes_are_those_of_the_axis_and_the_rest_is_the_configuration():
    ceilings = Ceilings("width")
    ceilings.note(at(4), "oom")  # width 8
    wide = dataclasses.replace(at(4), parameters={**at(4).parameters, "width": 16})
    assert ceilings.cause(wide)
    assert not ceilings.cause(dataclasses.replace(wide, parameters={**wide.parameters, "batch_size": 2}))
