"""The ladder: which rungs differ from the one before."""

import pytest

from sweeps.errors import InputError
from sweeps.families import FAMILIES
from sweeps.ladder import HEADLINE, OWN_RUNGS, RUNGS, has_rungs, own_rungs, rungs_of
from sweeps.target import Target
from sweeps.workload import complete, on_device

CPU, GPU, GRAPH = (Target.model_validate(name) for name in ("cpu", "gpu", "gpu-graph"))


def rungs(workload, target, **given):
    asked = complete(workload, given, ())
    return rungs_of(workload, on_device(workload, asked, accelerator=target.needs_accelerator), target)


@pytest.mark.parametrize(
    ("workload", "target", "given", "expected"),
    [
        ("linear", CPU, {}, ("preload", "nosync")),
        ("linear", GPU, {}, ("preload", "resident", "nosync", "kernel")),
        ("linear", GRAPH, {}, ("preload", "resident", "nosync")),
        ("mlp", CPU, {}, ("preload",)),
        ("mlp", CPU, {"loader": "resident"}, ()),
        ("mlp", GPU, {"loader": "resident"}, ("kernel",)),
        ("mlp", GPU, {"loader": "gather", "transfer": "resident"}, ("resident", "kernel")),
        ("lstm_loop", CPU, {}, ("preload", "twin")),
        ("branching", GPU, {}, ("preload", "resident", "kernel", "twin")),
        ("gemm", GPU, {}, ()),
    ],
)
def test_rungs(workload, target, given, expected):
    assert rungs(workload, target, **given) == expected
    assert set(expected) < set(RUNGS) - {HEADLINE}


@pytest.fixture
def own(tmp_path):
    source = "def whole(*, seed, loader): ...\ndef anything(**parameters): ...\ndef apart(*, seed, loader, rung): ...\n"
    (tmp_path / "own.py").write_text(source)
    return lambda factory: f"{tmp_path / 'own.py'}:{factory}"


@pytest.mark.parametrize("target", [CPU, GPU, GRAPH])
def test_a_users_own_step_is_taken_apart_alike_everywhere_if_it_takes_the_rung(own, target):
    assert rungs_of(own("apart"), {"loader": "slice"}, target) == ("preload", "resident", "nosync") == OWN_RUNGS
    assert rungs_of(own("whole"), {"loader": "slice"}, target) == ()
    assert rungs_of(own("anything"), {"loader": "slice"}, target) == ()


NAMED = """
import typing
from typing import Literal

def some(*, seed, rung: Literal["twin", "preload", "e2e"] = "e2e"): ...
def one(*, seed, rung: typing.Literal["twin"]): ...
def none(*, seed, rung: Literal["e2e"]): ...
def text(*, seed, rung: str): ...
def wrong(*, seed, rung: Literal["e2e", "kernel"]): ...
def other(*, seed, size: Literal["twin"]): ...
"""


@pytest.mark.parametrize(
    ("factory", "expected"),
    [("some", ("preload", "twin")), ("one", ("twin",)), ("none", ()), ("text", OWN_RUNGS), ("other", ())],
)
def test_a_users_own_step_may_name_the_rungs_that_it_has(factory, expected):
    assert own_rungs(f"/gone/own.py:{factory}", NAMED) == expected


def test_a_rung_that_there_is_not_is_refused_with_those_that_there_are(tmp_path):
    (tmp_path / "own.py").write_text(NAMED)
    with pytest.raises(InputError, match=r'own\.py:wrong names a rung "kernel"; e2e, preload, resident, nosync, twin'):
        rungs_of(f"{tmp_path / 'own.py'}:wrong", {}, CPU)


def test_which_steps_can_be_taken_apart(own):
    assert [name for name in FAMILIES if not has_rungs(name)] == ["gemm"]
    assert [has_rungs(own(factory)) for factory in ("apart", "whole", "anything")] == [True, False, False]


def test_what_is_not_waited_for_is_not_taken_apart(own):
    unwaited = Target(name="fast", device="gpu", wait=False)
    assert rungs("mlp", unwaited) == ()
    assert rungs_of(own("apart"), {}, unwaited) == ()
