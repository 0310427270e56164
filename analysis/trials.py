"""One value of each trial: which row of it counts, and its typical step time.

All groups are handled together, as flat arrays. A *point* is one size of one group; points are numbered by group and
then by size. A *side* is 0 for the baseline and 1 for the challenger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.question import Bools, Floats, Ints, Question, sizes_of
from analysis.step_times import reduce_step_times, trainings_at_once

UNUSABLE = "unusable times"  # status ok, but times that are missing, negative or not finite


@dataclass(frozen=True, kw_only=True)
class Points:
    """The sizes of all groups.

    Attributes:
        keys: One row a group, its columns those of `group_by`; without groups one row and no column.
        group: Number of the group of each point, ascending.
        size: Size of each point in the axis's unit, ascending within a group.
        whole: Whether the axis holds whole numbers only.
        unpaired: For each group, whether its trials are not joined into pairs.
        unsized: For each group, the number of rows without a size.
    """

    keys: pd.DataFrame
    group: Ints
    size: Floats
    whole: bool
    unpaired: Bools
    unsized: Ints


@dataclass(frozen=True, kw_only=True)
class Trials:
    """The trials that count, sorted by point, pass and side.

    Attributes:
        point: Number of the point.
        side: 0 baseline, 1 challenger.
        passed: Number of the pass, -1 where unknown.
        status: Final status, or `UNUSABLE`.
        median_s: Typical seconds per step, where several trainings ran side by side divided by their number; NaN where
            the trial has no usable time.
        spread: Variance of the log of that median, as seen inside the process; NaN where unknown.
        resolution_s: Below this the trial's clock tells no time, 0 where only a zero is none; NaN where it is ours.
        contended: Whether something else used the machine.
        deadline_s: Limit of the trial, likewise divided; NaN where unknown.
        elapsed_s: Whole-trial seconds, likewise divided; NaN where unknown.
        merged: Whether the value is the mean of several different trials.
        retried: Number of failures that this success followed, in the same pass.
    """

    point: Ints
    side: Ints
    passed: Ints
    status: npt.NDArray[np.object_]
    median_s: Floats
    spread: Floats
    resolution_s: Floats
    contended: Bools
    deadline_s: Floats
    elapsed_s: Floats
    merged: Bools
    retried: Ints


def read_trials(frame: pd.DataFrame, question: Question) -> tuple[Points, Trials]:
    """Reduce a frame of records to the trials that count.

    Args:
        frame: One row a trial and attempt, checked by `ask`.
        question: What is asked.

    Returns:
        The points of all groups, and their trials.

    Raises:
        ValueError: If sizes or step times are not numbers.
    """
    if frame.columns.empty:
        frame = pd.DataFrame({name: [] for name in (question.axis, "target", "status", "step_times_s")})
    keys, group = _number_groups(frame, question.group_by)
    challenger = _equals(frame, "target", question.challenger)
    asked = _equals(frame, "target", question.baseline) | challenger
    if "rung" in frame.columns:
        asked &= _equals(frame, "rung", "e2e")
    size = sizes_of(frame[asked], question)
    sized = ~np.isnan(size)
    unsized = np.bincount(group[asked][~sized], minlength=len(keys))
    chosen, size = np.flatnonzero(asked)[sized], size[sized]
    frame, group = frame.iloc[chosen].reset_index(drop=True), group[chosen]

    distinct, size_code = np.unique(size, return_inverse=True)
    found, point = np.unique(group * max(len(distinct), 1) + size_code, return_inverse=True)
    passed = _passes(frame)
    points = Points(
        keys=keys,
        group=found // max(len(distinct), 1),
        size=distinct[found % max(len(distinct), 1)],
        whole=bool(np.all(distinct == np.round(distinct))),
        unpaired=_unpaired_groups(frame, group, passed, len(keys)),
        unsized=unsized,
    )
    side = challenger[chosen].astype(np.int64)
    return points, _final_trials(frame, point, side, passed)


def _number_groups(frame: pd.DataFrame, group_by: Sequence[str]) -> tuple[pd.DataFrame, Ints]:
    """The keys of the groups, sorted, and every row's group; a null key makes a group like any other."""
    if not group_by:
        return pd.DataFrame(index=pd.RangeIndex(1)), np.zeros(len(frame), dtype=np.int64)
    columns = list(group_by)
    if frame.empty:
        return frame.reindex(columns=columns).reset_index(drop=True), np.empty(0, dtype=np.int64)
    try:
        numbered = frame.groupby(columns, sort=True, dropna=False, observed=True).ngroup()
    except TypeError as error:
        raise ValueError(f"group_by {', '.join(columns)}: values cannot tell groups apart ({error})") from error
    codes = numbered.to_numpy(dtype=np.int64)
    _, first = np.unique(codes, return_index=True)
    return frame[columns].iloc[first].reset_index(drop=True), np.asarray(codes, dtype=np.int64)


def _equals(frame: pd.DataFrame, column: str, value: object) -> Bools:
    """Where a column holds a value; null is not equal to anything."""
    return np.asarray((frame[column] == value).to_numpy(dtype=bool, na_value=False))


def _passes(frame: pd.DataFrame) -> Ints:
    if "pass_index" not in frame.columns:
        return np.full(len(frame), -1, dtype=np.int64)
    return np.asarray(pd.factorize(frame["pass_index"], sort=True)[0], dtype=np.int64)


def _unpaired_groups(frame: pd.DataFrame, group: Ints, passed: Ints, n_groups: int) -> Bools:
    """A group is unpaired where a row says so, or where no row names its pass."""
    unpaired = np.bincount(group[passed >= 0], minlength=n_groups) == 0
    if "paired" in frame.columns:
        unpaired |= np.bincount(group[_equals(frame, "paired", False)], minlength=n_groups) > 0
    return np.asarray(unpaired)


def _final_trials(frame: pd.DataFrame, point: Ints, side: Ints, passed: Ints) -> Trials:
    """Keep of each trial the row of its highest attempt, and of each pass and side one value."""
    ok = _equals(frame, "status", "ok")
    times = reduce_step_times(frame["step_times_s"].to_numpy(dtype=object), ok)
    usable = ~np.isnan(times.median_s)
    at_once = trainings_at_once(frame)
    status = frame["status"].astype(object).where(frame["status"].notna(), "unknown").to_numpy(dtype=object)
    rows = pd.DataFrame(
        {
            "point": point,
            "side": side,
            "passed": passed,
            "status": np.where(ok & ~usable, UNUSABLE, status),
            "usable": usable,
            "steps": times.steps,
            "median": times.median_s / at_once,
            "spread": times.spread,
            "checksum": times.checksum,
            "resolution": _numbers(frame, "resolution_s") / at_once,
            "contended": _equals(frame, "interference", "contended") if "interference" in frame.columns else False,
            "deadline": _numbers(frame, "deadline_s") / at_once,
            "elapsed": _elapsed(frame) / at_once,
            "merged": False,
            "retried": 0,
        }
    )
    rows["cell"] = _cells(frame, rows)
    crowded = rows["cell"].duplicated(keep=False).to_numpy()
    if crowded.any():
        tries = rows[crowded].assign(
            trial=_trial_names(frame)[crowded],
            attempt=np.nan_to_num(_numbers(frame, "attempt")[crowded]),
        )
        rows = pd.concat([rows[~crowded], *_settle(tries)])
    if crowded.any() or (passed < 0).any():
        rows = rows.sort_values(["point", "passed", "side", "median", "status", "deadline", "elapsed"])
    else:  # one row a place: the numbers alone give the order, and sooner
        rows = rows.take(np.lexsort([rows[name].to_numpy() for name in ("side", "passed", "point")]))
    return Trials(
        point=rows["point"].to_numpy(),
        side=rows["side"].to_numpy(),
        passed=rows["passed"].to_numpy(),
        status=rows["status"].to_numpy(dtype=object),
        median_s=rows["median"].to_numpy(),
        spread=rows["spread"].to_numpy(),
        resolution_s=rows["resolution"].to_numpy(),
        contended=rows["contended"].to_numpy(dtype=bool),
        deadline_s=rows["deadline"].to_numpy(),
        elapsed_s=rows["elapsed"].to_numpy(),
        merged=rows["merged"].to_numpy(dtype=bool),
        retried=rows["retried"].to_numpy(),
    )


def _settle(tries: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Settle the cells that hold several rows: what failed for good, and one value where something succeeded.

    The highest attempt of each trial counts. A success outweighs the failures of its cell; copies count once;
    successes that differ become one value, so that measuring twice does not look like two passes.
    """
    failures = (~tries["usable"]).groupby(tries["cell"]).transform("sum")
    tries = tries.assign(retried=failures)
    tries = tries[tries["attempt"] == tries.groupby(["cell", "trial"])["attempt"].transform("max")]
    succeeded = tries.groupby("cell")["usable"].transform("any")
    copy_of = ["cell", "status", "steps", "median", "checksum"]
    failed = tries[~succeeded].sort_values(["cell", "deadline", "elapsed"]).drop_duplicates(copy_of)
    # Sorted, because a sum of floats depends on its order and the answer must not depend on that of the rows.
    won = tries[tries["usable"]].sort_values([*copy_of, "contended", "deadline", "elapsed"])
    copies = won.groupby(copy_of, sort=False)
    won = won.assign(
        contended=copies["contended"].transform("any"),
        deadline=copies["deadline"].transform("min"),
        elapsed=copies["elapsed"].transform("max"),
    ).drop_duplicates(copy_of)
    cells = won.groupby("cell", sort=False)
    won = won.assign(
        median=cells["median"].transform("mean"),
        spread=cells["spread"].transform("mean"),
        resolution=cells["resolution"].transform("max"),
        contended=cells["contended"].transform("any"),
        deadline=cells["deadline"].transform("min"),
        elapsed=cells["elapsed"].transform("max"),
        merged=cells["cell"].transform("size") > 1,
    ).drop_duplicates("cell")
    return failed.assign(retried=0), won


def _cells(frame: pd.DataFrame, rows: pd.DataFrame) -> Ints:
    """Number of the cell of every row: rows of one cell are tries at, or copies of, one trial.

    A pass holds one trial of each target and size. Where the pass is unknown, rows belong together by their
    `trial_id`, and otherwise only if they are copies: the same step times.
    """
    place = (rows["point"] * 2 + rows["side"]).to_numpy()
    passed = rows["passed"].to_numpy()
    cell = place * (int(passed.max(initial=0)) + 1) + passed
    loose = np.flatnonzero(passed < 0)
    if loose.size:
        names = _trial_names(frame)[loose]
        times = rows.iloc[loose]
        nameless, usable = names == 0, times["usable"].to_numpy()
        parts = {
            "place": place[loose],
            "trial": names,
            "steps": np.where(nameless, times["steps"], 0),
            "median": np.where(nameless & usable, times["median"], 0.0),
            "checksum": np.where(nameless & usable, times["checksum"], 0.0),
            "row": np.where(nameless & ~usable, loose, -1),
        }
        # Numbered below zero, where no cell with a pass is.
        cell[loose] = -1 - pd.DataFrame(parts).groupby(list(parts), sort=False).ngroup().to_numpy()
    return np.asarray(cell, dtype=np.int64)


def _trial_names(frame: pd.DataFrame) -> Ints:
    """Number of each row's `trial_id`, from 1; 0 where it has none."""
    if "trial_id" not in frame.columns:
        return np.zeros(len(frame), dtype=np.int64)
    return np.asarray(pd.factorize(frame["trial_id"])[0] + 1, dtype=np.int64)


def _numbers(frame: pd.DataFrame, column: str) -> Floats:
    if column not in frame.columns:
        return np.full(len(frame), np.nan)
    numbers = pd.to_numeric(frame[column], errors="coerce")
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan)


def _elapsed(frame: pd.DataFrame) -> Floats:
    """Whole-trial seconds, from the two stamps of a record; NaN where either is missing."""
    stamps = [frame[name] for name in ("started_at", "finished_at") if name in frame.columns]
    if len(stamps) < 2 or not all(pd.api.types.is_datetime64_any_dtype(stamp) for stamp in stamps):
        return np.full(len(frame), np.nan)
    seconds = (stamps[1] - stamps[0]).dt.total_seconds()
    return np.asarray(seconds.to_numpy(dtype=np.float64, na_value=np.nan))
