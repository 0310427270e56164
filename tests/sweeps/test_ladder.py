"""The ladder: which rungs differ from the one before."""

import pytest

from sweeps.ladder import HEADLINE, RUNGS, rungs_of
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


def test_a_users_own_step_cannot_be_taken_apart():
    assert rungs_of("own.py:make", {"loader": "slice"}, CPU) == ()


def test_what_is_not_waited_for_is_not_taken_apart():
    assert rungs("mlp", Target(name="fast", device="gpu", wait=False)) == ()
