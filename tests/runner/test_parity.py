"""Parity: which differences of losses rounding explains."""

import math

import pytest

from runner.parity import difference, losses_of


def side(target="cpu", *, device="cpu", precision="ieee", dtype="float32", one=2.5, ten=2.0):
    return losses_of(
        {
            "target": target,
            "device": device,
            "precision": precision,
            "dtype": dtype,
            "loss_step_1": one,
            "loss_step_10": ten,
        }
    )


@pytest.mark.parametrize(
    ("other", "within", "beyond"),
    [
        ({}, 0.9e-6, 1.1e-6),
        ({"device": "cuda"}, 0.9e-5, 1.1e-5),
        ({"device": "cuda", "precision": "tf32"}, 0.9e-3, 1.1e-3),
        ({"device": "cuda", "dtype": "bfloat16"}, 0.9e-2, 1.1e-2),
        ({"device": "cuda", "dtype": "float64"}, 0.9e-5, 1.1e-5),
    ],
)
def test_the_tolerance_is_that_of_the_less_exact_side(other, within, beyond):
    for share, differs in ((within, False), (beyond, True)):
        for sign in (1, -1):
            mine = side("other", one=2.5 * (1 + sign * share), **other)
            assert bool(difference(mine, side())) is differs
            assert bool(difference(side(), mine)) is differs


def test_the_tenth_step_may_differ_more_than_the_first():
    assert not difference(side(ten=2.0 * (1 + 0.9e-5)), side())
    assert "at step 10" in difference(side(ten=2.0 * (1 + 1.1e-5)), side())


def test_the_sentence_names_both():
    first, second = difference(side(one=2.75), side("cpu-1")).splitlines()
    assert first == (
        "loss 2.75 at step 1, but 2.5 on cpu-1: they do not do the same work (or see compare_losses in "
        "docs/own-model.md)"
    )
    assert len(first) < 160, "tables cut it there"
    assert second.startswith("by 0.091 of it, where rounding explains 1e-06; if it is meant")
    assert "nan on cpu-1: they" in difference(side(one=2.75), side("cpu-1", one=math.nan))


@pytest.mark.parametrize(
    ("one", "other", "differs"),
    [
        (0.0, 0.0, False),
        (0.0, 1e-30, True),
        (math.nan, math.nan, False),
        (math.nan, 2.5, True),
        (math.inf, 2.5, True),
        (None, 2.5, False),
        (None, None, False),
        (-2.5, 2.5, True),
    ],
)
def test_losses_that_are_no_usual_numbers(one, other, differs):
    assert bool(difference(side(one=one), side(one=other))) is differs
