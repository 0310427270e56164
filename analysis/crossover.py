"""The conclusion: from a frame of records to one verdict a group, with its interval and its reasons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from analysis.evidence import Evidence, gather
from analysis.question import Question, ask
from analysis.ratios import compare
from analysis.reasons import explain
from analysis.trials import read_trials
from analysis.verdict import Cause, Change, Conclusion, OpenEnd, Stop, Verdict, conclude

NUMBERS = ("estimate", "low", "high", "bracket_low", "bracket_high")
COLUMNS = ("verdict", "direction", *NUMBERS, "pairs", "changes", "reasons")


def crossovers(
    frame: pd.DataFrame,
    *,
    axis: str | tuple[str, float],
    baseline: str,
    challenger: str,
    group_by: Sequence[str] | None = None,
    margin: float = 0.0,
    drift: float | None = None,
) -> pd.DataFrame:
    """Conclude, for each group, from what size the challenger beats the baseline.

    The answer depends neither on the order of the rows nor on the time unit (but for the clock's resolution); without
    a margin, exchanging the targets mirrors it.

    Args:
        frame: One row a trial: `<axis>`, `target`, `status`, `step_times_s` (a list, seconds); used if present:
            `pass_index`, `paired`, `attempt`, `trial_id`, `rung`, `interference`, `deadline_s`, `started_at`,
            `finished_at`, `resolution_s` (below that the clock of a row tells no time; 10 us where it is not given).
        axis: Column of sizes, or `(column, base)` where it holds exponents.
        baseline: Target that is compared against.
        challenger: Target that is to overtake it.
        group_by: Columns that split the frame into groups, or None for one group.
        margin: Fraction of the baseline's time that the challenger must save (0.1 = at least 10 % faster).
        drift: Allowance for slow drift on the log ratio (a standard deviation), or None for the default: 0.01 with at
            most 5 pairs a size, 0.02 with more or without pairs.

    Returns:
        One row a group, sorted: the columns of `group_by`; `verdict` (crosses, several, tie, always_baseline,
        always_challenger, undetermined); `direction` (challenger_above or baseline_above for crosses, else empty);
        `estimate`, the interval `low` to `high` and the bracket `bracket_low` to `bracket_high`, in the axis's unit
        (NaN where open or not applicable); `pairs` used; `changes` (for several, one dict a change with these same
        keys; its `pairs` are those inside the bracket); `reasons` (sentences, the most important first).

    Raises:
        ValueError: If a column is missing, a target is unknown, the axis is not numeric, or a number is out of range.
    """
    question = ask(
        frame,
        axis=axis,
        baseline=baseline,
        challenger=challenger,
        group_by=group_by,
        margin=margin,
        drift=drift,
    )
    points, trials = read_trials(frame, question)
    ratios = compare(points, trials, question)
    rows = []
    for evidence in gather(points, trials, ratios, question):
        conclusion = conclude(evidence.stops, assumed=evidence.assumed)
        rows.append(_row(evidence, conclusion, question))
    types = {"verdict": "str", "direction": "str", "pairs": "int64", **dict.fromkeys(NUMBERS, "float64")}
    answer = pd.DataFrame(rows, columns=list(COLUMNS)).astype(types)
    return pd.concat([points.keys, answer], axis=1)


def _row(evidence: Evidence, conclusion: Conclusion, question: Question) -> dict[str, Any]:
    changes = [_change(change, evidence, question) for change in conclusion.changes]
    several = conclusion.verdict is Verdict.SEVERAL
    end = {} if conclusion.open_end is None else _end(conclusion.open_end, conclusion.cause, evidence, question)
    return {
        "direction": "",
        **dict.fromkeys(NUMBERS, math.nan),
        **end,
        **(changes[0] if changes and not several else {}),
        "verdict": conclusion.verdict.value,
        "pairs": sum(evidence.pairs),
        "changes": changes if several else [],
        "reasons": explain(evidence, conclusion, question),
    }


def _change(change: Change, evidence: Evidence, question: Question) -> dict[str, Any]:
    """One change, under the names of the columns; `pairs` are those inside its bracket."""
    start, end = evidence.stops[change.start], evidence.stops[change.end]
    pairs = zip(evidence.sizes, evidence.pairs, strict=True)
    return {
        "verdict": Verdict.CROSSES.value,
        "direction": change.direction.value,
        "estimate": _size_at(change.estimate, evidence.stops, question),
        "low": _size_at(change.low, evidence.stops, question),
        "high": _size_at(change.high, evidence.stops, question),
        "bracket_low": start.size,
        "bracket_high": end.size,
        "pairs": sum(number for size, number in pairs if start.size <= size <= end.size),
    }


def _end(end: OpenEnd, cause: Cause, evidence: Evidence, question: Question) -> dict[str, float]:
    """The one bound there is: a change lies above `low`, or below `high`, if anywhere."""
    side = "low" if cause is Cause.OPEN_ABOVE else "high"
    return {
        side: _size_at(end.position, evidence.stops, question),
        f"bracket_{side}": evidence.stops[end.stop].size,
    }


def _size_at(position: float, stops: list[Stop], question: Question) -> float:
    """Size at a position; a measured size is given exactly, whatever its logarithm and back would make of it."""
    exact = next((stop.size for stop in stops if stop.position == position), None)
    return question.size_at(position) if exact is None else exact
