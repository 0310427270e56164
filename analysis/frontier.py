"""Two axes at once: the map of who is faster, and the line on which that changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.crossover import crossovers
from analysis.outcomes import NOT_RUN
from analysis.question import Floats, Question, ask, sizes_of
from analysis.summary import summarise

#: Kinds of cells.
MEASURED = "measured"
INFERRED = "inferred"  # the faster target is known, and no ratio
SURROUNDED = "surrounded"  # not measured: all measured cells around it agree on the faster target
FAILED = "failed"  # tried, and nothing can be compared
UNMEASURED = "unmeasured"  # asked for, and not answered yet
UNKNOWN = "unknown"  # the state of a cell that was not compared

OK = "ok"  # all trials of a target finished
VALUES = ("log_ratio", "low", "high", "pairs", "baseline_s", "challenger_s", "state", "cell", "cell_why")


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """What two axes show together, in one group.

    Attributes:
        key: The values of the columns that tell groups apart; empty without groups.
        cells: One row a cell, sorted by y and then x: the columns of `group_by`; both axes; `log_ratio` with its 95 %
            band `low` to `high` (NaN where there is none; above 0 the baseline is faster) and the `pairs` behind it;
            `baseline_s`, `challenger_s` per step; `state` (baseline, challenger, undecided, unknown), with the margin
            applied; `cell`: measured, inferred (the faster target is known without a ratio, as from a time-out),
            surrounded (not measured: the measured cells around it agree; only where `analysis.lattice` chose them),
            failed (tried, and nothing can be compared) or unmeasured (asked for, and not answered by both);
            `cell_why`, in words, where a cell is not measured.
        along: The crossovers in x, one row a value of y, as `analysis.crossovers` returns them.
        across: The crossovers in y, one row a value of x.
        contour: The line on which the challenger just keeps its promise (without a margin: both are equally fast),
            in pieces: each an array of shape (points, 2), x and y in the units of the axes. It is straight between
            neighbouring cells on logarithmic axes, leads through measured cells only, and is closed around an island.
            Its band is that of the cells; the crossovers have the intervals.
    """

    key: Mapping[str, Any]
    cells: pd.DataFrame
    along: pd.DataFrame
    across: pd.DataFrame
    contour: tuple[Floats, ...]


def frontier(
    frame: pd.DataFrame,
    *,
    axes: tuple[str, str],
    baseline: str,
    challenger: str,
    planned: pd.DataFrame | None,
    group_by: Sequence[str] = (),
    margin: float = 0.0,
    drift: float | None = None,
) -> list[Frontier]:
    """Map who is faster over two axes.

    Each row of the grid is a sweep along x of its own, and each column one along y: every band and interval is that of
    `analysis.summarise` and `analysis.crossovers`. What rows and columns share is not used to narrow them.

    Args:
        frame: One row a trial, as `analysis.crossovers` takes it.
        axes: Columns of sizes, x and y.
        baseline: Target that is compared against.
        challenger: Target that is to overtake it.
        planned: One row a cell that was asked for: both axes, and those columns of `group_by` that it depends on;
            others may be there. None stands for every combination of the values that a group has.
        group_by: Columns that split the frame into groups.
        margin: Fraction of the baseline's time that the challenger must save.
        drift: Allowance for slow drift on the log ratio, as `analysis.crossovers` takes it.

    Returns:
        One frontier a group that has a trial, sorted.

    Raises:
        ValueError: If the axes are not two columns of numbers above 0, or `analysis.crossovers` does not take the rest.
    """
    x, y = axes
    groups = list(group_by)
    if x == y:
        raise ValueError(f"axes {x!r} and {y!r}: a frontier needs two different columns")
    asked: dict[str, Any] = {"baseline": baseline, "challenger": challenger, "margin": margin, "drift": drift}
    for axis, other in ((x, y), (y, x)):
        question = ask(frame, axis=axis, group_by=[*groups, other], **asked)
        frame = _with_sizes(frame, question)
        planned = None if planned is None else _with_sizes(planned, question)
    cells = _cells(summarise(frame, axis=x, group_by=[*groups, y], **asked), (baseline, challenger))
    along = crossovers(frame, axis=x, group_by=[*groups, y], **asked)
    across = crossovers(frame, axis=y, group_by=[*groups, x], **asked)
    found = []
    values = cells[groups].drop_duplicates().itertuples(index=False, name=None) if groups else [()]
    for key in (dict(zip(groups, value, strict=True)) for value in values):
        grid = _complete(_of(cells, key), None if planned is None else _of(planned, key), axes)
        grid = grid.assign(**key)[[*groups, x, y, *VALUES]]
        found.append(
            Frontier(
                key=key,
                cells=_with_whole_numbers(grid, axes),
                along=_with_whole_numbers(_of(along, key), [y]),
                across=_with_whole_numbers(_of(across, key), [x]),
                contour=_contour(grid, axes, level=math.log1p(-margin)),
            )
        )
    return found


def _with_sizes(frame: pd.DataFrame, question: Question) -> pd.DataFrame:
    """Return the rows that have a size, with sizes that are numbers.

    Raises:
        ValueError: The column is missing, or holds something else.
    """
    if question.axis not in frame.columns:
        raise ValueError(f"planned cells have no column {question.axis!r}; they have: {', '.join(frame.columns)}")
    try:
        sizes = sizes_of(frame, question)
    except ValueError as error:
        said = str(error).partition(" (for exponents")[0]  # which no map takes
        raise ValueError(f"{said}; a frontier needs numbers above 0 on both axes") from error
    return frame.assign(**{question.axis: sizes})[~np.isnan(sizes)]


def _cells(sizes: pd.DataFrame, targets: tuple[str, str]) -> pd.DataFrame:
    """Return the rows of `summarise` as cells, each with its kind."""
    kinds, whys = [], []
    columns = ("pairs", "known_sign", "baseline_status", "challenger_status")
    for pairs, sign, *statuses in zip(*(sizes[name] for name in columns), strict=True):
        told = [f"{name}: {status}" for name, status in zip(targets, statuses, strict=True) if status != OK]
        if pairs:
            kind, why = MEASURED, ""
        elif sign:
            kind, why = INFERRED, sign
        elif told:
            kind, why = UNMEASURED if {*statuses} <= {OK, NOT_RUN} else FAILED, "; ".join(told)
        else:
            kind, why = FAILED, "no pass in which both finished"
        kinds.append(kind)
        whys.append(why)
    named = sizes.rename(columns={"log_ratio_low": "low", "log_ratio_high": "high"})
    return named.assign(cell=pd.Series(kinds, dtype="str"), cell_why=pd.Series(whys, dtype="str"))


def _complete(cells: pd.DataFrame, planned: pd.DataFrame | None, axes: tuple[str, str]) -> pd.DataFrame:
    """Add the cells that nothing is known of, and sort by y and then x."""
    x, y = axes
    order = [y, x]
    there = cells.set_index(order)[list(VALUES)]
    if planned is None:
        wanted = pd.MultiIndex.from_product([np.unique(cells[name]) for name in order], names=order)
    else:
        wanted = pd.MultiIndex.from_frame(planned[order].drop_duplicates())
    every = there.index.union(wanted)
    blank = {"state": UNKNOWN, "cell": UNMEASURED, "cell_why": NOT_RUN, "pairs": 0}
    grid = there.reindex(every).fillna(blank).astype({"pairs": "int64"})
    return grid.sort_index().reset_index()


def _of(frame: pd.DataFrame, key: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of a group; where the frame does not have a column of the key, it holds for every value."""
    wanted = np.ones(len(frame), dtype=bool)
    for name, value in key.items():
        if name in frame.columns:
            column = frame[name]
            wanted &= (column.isna() if pd.isna(value) else column == value).to_numpy(dtype=bool, na_value=False)
    return frame[wanted].reset_index(drop=True)


def _with_whole_numbers(frame: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """Return the frame with those sizes as integers that are whole numbers throughout."""
    whole = [name for name in axes if (frame[name] == frame[name].round()).all() and (frame[name] < 2**53).all()]
    return frame.astype(dict.fromkeys(whole, "int64"))


def _contour(cells: pd.DataFrame, axes: tuple[str, str], *, level: float) -> tuple[Floats, ...]:
    """Where the log ratio, straight between neighbouring cells over ln x and ln y, is at a level."""
    import contourpy

    grid = cells.pivot(index=axes[1], columns=axes[0], values="log_ratio")
    if min(grid.shape) < 2 or not (cells["cell"] == MEASURED).any():
        return ()
    lines = contourpy.contour_generator(
        np.log(grid.columns.to_numpy(dtype=np.float64)),
        np.log(grid.index.to_numpy(dtype=np.float64)),
        np.ma.masked_invalid(grid.to_numpy(dtype=np.float64)),
        corner_mask=True,  # three measured cells of four still have a line between them
        line_type=contourpy.LineType.Separate,
    ).lines(level)
    return tuple(np.exp(np.asarray(line, dtype=np.float64)) for line in lines)
