"""What is asked of a frame of records: axis, targets, groups, margin; checked once, at the front door."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

REQUIRED = ("target", "status", "step_times_s")
RESERVED = frozenset(  # columns with a meaning of their own, in the frame or in the answers
    {
        *(
            "target",
            "pass_index",
            "status",
            "step_times_s",
            "verdict",
            "direction",
            "estimate",
            "low",
            "high",
        ),
        *("bracket_low", "bracket_high", "pairs", "contended", "changes", "reasons", "state", "strong", "known_sign"),
        *("log_ratio", "log_ratio_low", "log_ratio_high", "baseline_status", "challenger_status"),
        *("baseline_s", "baseline_low_s", "baseline_high_s"),
        *("challenger_s", "challenger_low_s", "challenger_high_s"),
    }
)


@dataclass(frozen=True, kw_only=True)
class Question:
    """One comparison of two targets along one axis.

    Attributes:
        axis: Column that holds the size.
        base: None where the column holds sizes; where it holds exponents, the base they belong to.
        baseline: Name of the target that is compared against.
        challenger: Name of the target that is to overtake it.
        group_by: Columns that split the frame into independent groups.
        margin: Fraction of the baseline's time that the challenger must save (0.1 = at least 10 % faster).
        drift: Allowance on the log ratio for slow drift (a standard deviation), or None for the default.
    """

    axis: str
    base: float | None
    baseline: str
    challenger: str
    group_by: tuple[str, ...]
    margin: float
    drift: float | None

    @property
    def shift(self) -> float:
        """What the margin adds to a log ratio: below zero, the challenger keeps its promise."""
        return -math.log1p(-self.margin)

    @property
    def targets(self) -> tuple[str, str]:
        """Names of the two sides: baseline, challenger."""
        return self.baseline, self.challenger

    @property
    def shares(self) -> tuple[float, float]:
        """Factors on the seconds of the two sides that make a fair race of a margin."""
        return 1.0 - self.margin, 1.0

    def position(self, sizes: Floats) -> Floats:
        """Position u of sizes on the axis, on which curves are drawn: ln(size), or exponent x ln(base)."""
        return np.log(sizes) if self.base is None else sizes * math.log(self.base)

    def size_at(self, position: float) -> float:
        """Size, in the axis's own unit, at a position u."""
        return math.exp(position) if self.base is None else position / math.log(self.base)


def ask(
    frame: pd.DataFrame,
    *,
    axis: str | tuple[str, float],
    baseline: str,
    challenger: str,
    group_by: Sequence[str] | None,
    margin: float,
    drift: float | None,
) -> Question:
    """Check that a frame can answer a question, and make the question.

    Args:
        frame: One row a trial.
        axis: Column of sizes, or `(column, base)` for a column of exponents.
        baseline: Target that is compared against.
        challenger: Target that is to overtake it.
        group_by: Columns that split the frame, or None for one group.
        margin: At least 0 and below 1.
        drift: None, or at least 0.

    Returns:
        The question.

    Raises:
        ValueError: If a column is missing, a target is unknown, the axis is not numeric, or a number is out of range.
    """
    column, base = _axis(axis)
    groups = _groups(group_by, column)
    if baseline == challenger:
        raise ValueError(f"baseline and challenger are both {baseline!r}: name two different targets")
    if isinstance(margin, bool) or not isinstance(margin, Real) or not 0 <= float(margin) < 1:
        raise ValueError(f"margin is {margin!r}: it must be a number from 0 up to, but not including, 1")
    if drift is not None and (
        isinstance(drift, bool) or not isinstance(drift, Real) or not 0 <= float(drift) < math.inf
    ):
        raise ValueError(f"drift is {drift!r}: it must be None or a number from 0 up")
    _check_columns(frame, column, groups)
    _check_targets(frame, baseline, challenger)
    return Question(
        axis=column,
        base=base,
        baseline=baseline,
        challenger=challenger,
        group_by=groups,
        margin=float(margin),
        drift=None if drift is None else float(drift),
    )


def sizes_of(frame: pd.DataFrame, question: Question) -> Floats:
    """Sizes of all rows as numbers; NaN where a row has none.

    Args:
        frame: One row a trial.
        question: What is asked.

    Returns:
        One number a row.

    Raises:
        ValueError: If a value is not a number, is infinite, or is not positive on an axis of sizes.
    """
    column = frame[question.axis]
    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_datetime64_any_dtype(column):
        raise ValueError(f"axis {question.axis!r} has type {column.dtype}: an axis needs numbers")
    try:
        values = pd.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(f"axis {question.axis!r} holds values that are not numbers ({error})") from error
    if np.isinf(values).any():
        raise ValueError(f"axis {question.axis!r} holds an infinite value: sizes must be finite")
    if question.base is None and (values <= 0).any():
        worst = values[values <= 0][0]
        raise ValueError(
            f"axis {question.axis!r} holds {worst:g}: sizes must be above 0 (for exponents pass a pair: column, base)"
        )
    return values


def _axis(axis: str | tuple[str, float]) -> tuple[str, float | None]:
    if isinstance(axis, str):
        return axis, None
    try:
        column, base = axis
        valid = isinstance(column, str) and 1 < float(base) < math.inf
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise ValueError(f"axis is {axis!r}: it must be a column name or a pair (column, base above 1)")
    return column, float(base)


def _groups(group_by: Sequence[str] | None, axis: str) -> tuple[str, ...]:
    if isinstance(group_by, str):
        raise ValueError(f"group_by is {group_by!r}: it must be a list of column names or None")
    groups = tuple(group_by or ())
    for name in groups:
        if name in RESERVED or name == axis:
            raise ValueError(f"group_by holds {name!r}: that column is part of the comparison or of its result")
    if len(set(groups)) < len(groups):
        raise ValueError(f"group_by names a column twice: {', '.join(map(str, groups))}")
    return groups


def _check_columns(frame: pd.DataFrame, axis: str, groups: tuple[str, ...]) -> None:
    if frame.columns.empty:
        return  # nothing was measured yet: an empty answer, not a mistake
    missing = [name for name in (axis, *REQUIRED, *groups) if name not in frame.columns]
    if missing:
        present = ", ".join(map(str, frame.columns))
        raise ValueError(f"the frame has no column {', '.join(map(repr, missing))}; it has: {present}")


def _check_targets(frame: pd.DataFrame, baseline: str, challenger: str) -> None:
    """A name that no row has is a mistake only if the frame has targets that nobody asked about.

    A frame that holds nothing but the other target is an unfinished study. A categorical target column declares
    the targets that were planned.
    """
    if frame.empty:
        return
    column = frame["target"]
    declared = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column.dropna().unique()
    known = set(declared)
    if known <= {baseline, challenger}:
        return
    for name in (baseline, challenger):
        if name not in known:
            raise ValueError(f"no target is named {name!r}; the frame has: {', '.join(sorted(map(str, known)))}")
