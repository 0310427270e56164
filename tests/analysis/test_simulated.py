"""A shorter form of benchmarks/coverage.py: how often the interval holds the truth, how wide it is, how often it errs.

The seed is fixed, so an answer changes only with the method or with the simulator. A case fails when a change of the
method moves a figure past its target by more than twice the error of so few sweeps: intervals that lost the truth or
grew, verdicts that are wrong or were given up, an estimate that errs to one side.
"""

import numpy as np
import pytest

from benchmarks.coverage import CROSSING, LOUD, QUIET, Case, meets, score, targets_of

GROUPS = 200
SEED = 20
#: The median of so few widths or errors is itself known to a few per cent.
SLACK = 1.05

CASES = [
    *(Case(kind=kind, passes=passes) for kind in ("clean", "reversed", "knee") for passes in (3, 5, 10)),
    *(Case(kind=kind, passes=5) for kind in CROSSING if kind not in ("clean", "reversed", "knee")),
    *(Case(kind=kind, passes=5) for kind in ("several", "always_challenger", "just_below", "just_above")),
    *(Case(kind=kind, passes=passes) for kind in ("always_baseline", "tie") for passes in (3, 5)),
    *(Case(kind=kind, passes=5, noise=noise) for kind in ("clean", "knee", "staircase") for noise in (QUIET, LOUD)),
    *(Case(kind=kind, passes=1, steps=steps) for kind in ("clean", "reversed") for steps in (5, 1)),
    Case(kind="tie", passes=10, noise=QUIET, drift=0.01),
]


def eased(what, target):
    """The target, less what so few sweeps may err by."""
    if not what.endswith("_share"):
        return target + 0.5 if what == "bias_percent" else SLACK * target
    allowed = 2 * np.sqrt(target * (1 - target) / GROUPS)
    return target + allowed if what == "wrong_share" else target - allowed


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_the_method_promises(case):
    figures = score(case, groups=GROUPS, seed=SEED)
    missed = {
        what: (figures[what], target)
        for what, target in targets_of(case).items()
        if not meets(what, figures[what], eased(what, target))
    }
    assert not missed


def test_widths_follow_the_noise():
    quiet, ordinary, loud = (
        score(Case(kind="clean", passes=5, noise=noise), groups=GROUPS, seed=SEED)["half_width_percent"]
        for noise in (QUIET, 1.0, LOUD)
    )
    assert 1.5 * quiet < ordinary < loud / 2


def test_each_of_several_changes_is_held():
    figures = score(Case(kind="several", passes=5), groups=GROUPS, seed=SEED)
    assert figures["coverage_share"] >= 0.93
    assert figures["bracket_share"] >= 0.99


@pytest.mark.parametrize(
    ("what", "figure", "target", "met"),
    [
        ("coverage_share", 0.93, 0.93, True),
        ("coverage_share", 0.92, 0.93, False),
        ("wrong_share", 0.02, 0.01, False),
        ("half_width_percent", 9.0, 9.5, True),
        ("bias_percent", -1.2, 1.0, False),
        ("bias_percent", -0.8, 1.0, True),
    ],
)
def test_targets_have_a_side(what, figure, target, met):
    assert meets(what, figure, target) is met


def test_the_score_sees_what_is_wrong(monkeypatch):
    """An analysis that answers for the other target must fail in every figure."""
    from benchmarks import coverage

    def mistaken(frame, **options):
        exchanged = frame.assign(target=frame["target"].map({"cpu": "gpu", "gpu": "cpu"}))
        return answer(exchanged, **options)

    answer = coverage.crossovers
    monkeypatch.setattr(coverage, "crossovers", mistaken)
    for kind in ("clean", "always_baseline"):
        figures = score(Case(kind=kind, passes=3), groups=20, seed=SEED)
        assert figures == {"right_share": 0, "wrong_share": 1}
