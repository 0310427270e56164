"""Timings that somebody else measured: from a CSV or Parquet file to the frame that `analysis.crossovers` takes.

One row is one measurement. Which columns hold the size, the target and the time is told, never guessed; what rows
that count as repeats of one another differ in otherwise is named, so that nothing is averaged in silence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.outcomes import NO_RATE
from analysis.question import RESERVED, Bools, Floats, Ints
from analysis.rounding import listed, number, times
from analysis.timings_file import LISTED, Table, few, read_table
from sweeps.errors import InputError, did_you_mean, show

#: Repeats of one target at one size that differ by more than this factor were not measured under the same conditions.
UNSTEADY = 2.0
#: A column with more different values than this is one of measurements; one with fewer may tell kinds of rows apart.
KINDS = 20
#: Names with a meaning in the frame that is made here, or in what is concluded from it.
TAKEN = RESERVED | {
    *("attempt", "deadline_s", "finished_at", "interference", "paired", "resolution_s", "rung", "sentence"),
    *("started_at", "trial_id"),
}
OK = "ok"


class Unit(StrEnum):
    """Units of time that a column may hold."""

    S = "s"
    MS = "ms"
    US = "us"
    NS = "ns"

    @property
    def seconds(self) -> float:
        """How many seconds one of it is."""
        return {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[self.value]


@dataclass(frozen=True, kw_only=True)
class Condition:
    """Which rows to keep: those whose column is one of some values, or with `keep` false, none of them."""

    column: str
    values: tuple[str, ...]
    keep: bool


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a file is to be read.

    Attributes:
        axis: Column of sizes.
        baseline, challenger: Values of the column of targets; with `wide`, names for its two columns.
        target: Column of targets.
        time: Column of times.
        unit: Unit of the times.
        per: Column that times are divided by, such as a number of iterations.
        rate: Column of rates, instead of times: the higher, the faster.
        passes: Columns that together tell the runs of a target and size apart. Rows of one target, size and run are
            the steps of that run. Where both targets have a run of one name, the two are a pair.
        status: Column that says how a measurement ended; only "ok" has a time.
        group_by: Columns that split the rows into comparisons of their own.
        where: Which rows to keep; all conditions hold.
        wide: Columns of the baseline's and of the challenger's times, where one row holds both.
        exponent: The base, where the axis holds exponents.
        resolution_s: Times below it are below the resolution of the clock; None where nobody knows (zeros always are).

    Raises:
        InputError: Options that contradict each other, or a number out of range.
    """

    axis: str
    baseline: str
    challenger: str
    target: str = "target"
    time: str = "seconds"
    unit: Unit = Unit.S
    per: str | None = None
    rate: str | None = None
    passes: tuple[str, ...] = ()
    status: str | None = None
    group_by: tuple[str, ...] = ()
    where: tuple[Condition, ...] = ()
    wide: tuple[str, str] | None = None
    exponent: float | None = None
    resolution_s: float | None = None

    def __post_init__(self) -> None:
        if self.baseline == self.challenger:
            raise InputError(f"--baseline and --challenger are both {show(self.baseline)}: name two different targets")
        given = {
            "--unit": self.unit is not Unit.S,
            "--per": self.per is not None,
            "--resolution": self.resolution_s is not None,
            "--wide": self.wide is not None,
        }
        if self.rate is not None and any(given.values()):
            clash = listed([option for option, is_given in given.items() if is_given])
            raise InputError(f"--rate reads rates instead of times, so {clash} cannot be given with it")
        if self.wide is not None and self.status is not None:
            raise InputError(
                "--status cannot be given with --wide: it would not say which of the two times it is about"
            )
        if self.exponent is not None and not 1 < self.exponent < math.inf:
            raise InputError(f"--exponent is {self.exponent:g}: the base must be above 1, such as 2 or 10")
        if self.resolution_s is not None and not 0 < self.resolution_s < math.inf:
            raise InputError(f"--resolution is {self.resolution_s:g}: it must be a number of seconds above 0")
        if self.axis in TAKEN or self.axis == self.target:
            raise InputError(f"--axis {show(self.axis)}: that name has a meaning of its own here; rename the column")
        times = (*self.wide,) if self.wide else (self.rate or self.time,)
        if {self.axis, self.per} & set(times) or len(set(times)) < len(times):
            raise InputError(
                f"--axis, --per and the columns of times ({', '.join(times)}) have to be different columns"
            )
        taken = {self.axis: "the axis", self.target: "the column of targets"}
        for name in self.group_by:
            if name in taken:
                raise InputError(f"--group-by {show(name)}: that is {taken[name]}")
            if name in TAKEN:
                raise InputError(f"--group-by {show(name)}: that name has a meaning of its own here; rename the column")
        if len(set(self.group_by)) < len(self.group_by):
            raise InputError(f"--group-by names a column twice: {', '.join(self.group_by)}")

    @property
    def columns(self) -> dict[str, str]:
        """Every column that is needed, and the option that names it."""
        values = {"--rate": self.rate} if self.rate else {"--time": self.time}
        if self.wide:
            values = {"--wide": self.wide[0]}
        named = {"--axis": self.axis, "--target": self.target, **values, "--per": self.per, "--status": self.status}
        if self.wide:
            del named["--target"]
        found = {name: option for option, name in named.items() if name is not None}
        found |= dict.fromkeys(self.wide or (), "--wide")
        found |= dict.fromkeys(self.passes, "--pass") | dict.fromkeys(self.group_by, "--group-by")
        return found | {condition.column: "--where" for condition in self.where}


@dataclass(frozen=True, kw_only=True)
class Timings:
    """What a file holds, as the analysis takes it.

    Attributes:
        path: The file.
        reading: How it was read.
        frame: One row a run, or a measurement that has no time: the columns of `group_by`, the axis, `target`,
            `pass_index`, `paired`, `status`, `step_times_s` (with `rate`, the reciprocals of rates), `resolution_s`.
        warnings: What was left out or is doubtful, a sentence each.
    """

    path: Path
    reading: Reading
    frame: pd.DataFrame
    warnings: tuple[str, ...]

    @property
    def axis(self) -> str | tuple[str, float]:
        """The axis as `analysis.crossovers` takes it."""
        reading = self.reading
        return reading.axis if reading.exponent is None else (reading.axis, reading.exponent)


@dataclass(frozen=True, kw_only=True)
class _Rows:
    """Measurements, one value each: index of the row in the file, side, size, time and where it counts."""

    index: Ints
    side: Ints
    size: Floats
    seconds: Floats
    resolution_s: Floats
    status: npt.NDArray[np.object_]

    def take(self, chosen: Bools) -> _Rows:
        return _Rows(
            index=self.index[chosen],
            side=self.side[chosen],
            size=self.size[chosen],
            seconds=self.seconds[chosen],
            resolution_s=self.resolution_s[chosen],
            status=self.status[chosen],
        )


def read_timings(path: Path, reading: Reading) -> Timings:
    """Read a file of measurements.

    Args:
        path: CSV or Parquet, one row a measurement.
        reading: Which columns hold what.

    Raises:
        InputError: The file cannot be read that way; the message names the row and the column.
    """
    table = read_table(path)
    for name, option in reading.columns.items():
        table.check(option, name)
    kept = _keep(table, reading)
    warnings: list[str] = []
    rows = _read_wide(table, reading, kept) if reading.wide else _read_long(table, reading, kept)
    copies = _copies(table, rows)
    if copies.any():
        warnings.append(
            f"{_count(int(copies.sum()), 'measurement')} left out, equal to another in every column; "
            "if they are repeats, a column that numbers them would say so"
        )
    rows = rows.take(~copies)
    nowhere = np.isnan(rows.size)
    blank = (rows.status == OK) & np.isnan(rows.seconds) & ~nowhere
    for left_out, what in ((nowhere, "size"), (blank, "value")):
        if left_out.any():
            warnings.append(f"{_count(int(left_out.sum()), 'measurement')} without a {what} left out")
    rows = rows.take(~nowhere & ~blank)
    _check_sides(table, reading, rows)
    zeros = int((rows.seconds[rows.status == OK] == 0).sum())
    if zeros and reading.resolution_s is None:
        more = "give --resolution, below which a time is none, to use what they still tell"
        warnings.append(f"{_count(zeros, 'time')} of 0: below the resolution of the clock, whatever that is; {more}")
    frame = _frame(table, reading, rows)
    warnings += _doubts(table, reading, rows, frame)
    return Timings(path=path, reading=reading, frame=frame, warnings=tuple(warnings))


def _keep(table: Table, reading: Reading) -> Bools:
    """The rows that fulfil every condition."""
    kept = np.ones(len(table.cells), dtype=bool)
    for condition in reading.where:
        chosen = np.zeros(len(kept), dtype=bool)
        for value in condition.values:
            chosen |= _holds(table, condition.column, value, "--where")
        kept &= chosen if condition.keep else ~chosen
    if not kept.any():
        raise InputError(f"{table.path}: no row fulfils all conditions of --where at once")
    return kept


def _holds(table: Table, name: str, value: str, option: str) -> Bools:
    """Where a column holds a value; a value that it nowhere holds is a mistake."""
    texts = table.text(name)
    found = np.asarray(texts == (value or None), dtype=bool)
    if not found.any():
        known = sorted({text for text in texts.tolist() if text is not None})
        near = did_you_mean(value, known) if len(known) > LISTED else ""
        near = near or f" It has: {few(known)}."
        raise InputError(f"{table.path}: no row has {show(value)} in column {show(name)} ({option}).{near}")
    return found


def _copies(table: Table, rows: _Rows) -> Bools:
    """The measurements that agree with an earlier one in every cell: nothing tells such a repeat from a copy."""
    cells = table.cells if len(table.lines) else table.cells.astype(str)
    return cells.iloc[rows.index].assign(**{"(side)": rows.side}).duplicated().to_numpy()


def _read_long(table: Table, reading: Reading, kept: Bools) -> _Rows:
    """One target a row."""
    side = np.full(len(kept), -1, dtype=np.int64)
    for number_of_side, name in enumerate((reading.baseline, reading.challenger)):
        option = "--challenger" if number_of_side else "--baseline"
        side[_holds(table, reading.target, name, option)] = number_of_side
    kept = kept & (side >= 0)
    status = np.full(len(kept), OK, dtype=object)
    if reading.status:
        status = np.array([(text or "unknown").lower() for text in table.text(reading.status)], dtype=object)
    timed = kept & (status == OK)
    if reading.rate:
        rates = _quantity(table, "--rate", reading.rate, timed)
        status[timed & (rates == 0)] = NO_RATE
        with np.errstate(divide="ignore", over="ignore"):
            seconds = np.where(rates > 0, 1.0 / rates, np.nan)
        seconds[timed & (rates == 0)] = np.nan
        resolution = np.zeros(len(kept))
    else:
        seconds, resolution = _seconds(table, reading, "--time", reading.time, timed)
    rows = _Rows(
        index=np.arange(len(kept)),
        side=side,
        size=_sizes(table, reading, kept),
        seconds=seconds,
        resolution_s=resolution,
        status=status,
    )
    return rows.take(kept)


def _read_wide(table: Table, reading: Reading, kept: Bools) -> _Rows:
    """Both targets a row."""
    size = _sizes(table, reading, kept)
    sides = []
    for side, name in enumerate(reading.wide or ()):
        seconds, resolution = _seconds(table, reading, "--wide", name, kept)
        rows = _Rows(
            index=np.arange(len(kept)),
            side=np.full(len(kept), side, dtype=np.int64),
            size=size,
            seconds=seconds,
            resolution_s=resolution,
            status=np.full(len(kept), OK, dtype=object),
        )
        sides.append(rows.take(kept))
    first, second = sides
    return _Rows(
        **{name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in _Rows.__dataclass_fields__}
    )


def _sizes(table: Table, reading: Reading, kept: Bools) -> Floats:
    sizes = table.numbers("--axis", reading.axis, kept)
    if reading.exponent is None:
        why = "is not above 0, as a size must be; if the column holds exponents, give their base: --exponent 2"
        table.refuse(kept & (sizes <= 0), reading.axis, why)
    return sizes


def _quantity(table: Table, option: str, name: str, wanted: Bools) -> Floats:
    values = table.numbers(option, name, wanted)
    table.refuse(wanted & (values < 0), name, "is negative")
    return values


def _seconds(table: Table, reading: Reading, option: str, name: str, wanted: Bools) -> tuple[Floats, Floats]:
    """Seconds of one unit of work, and below what they are none."""
    measured = _quantity(table, option, name, wanted) * reading.unit.seconds
    resolution = np.full(len(measured), reading.resolution_s or 0.0)
    if reading.per is None:
        return measured, resolution
    timed = wanted & ~np.isnan(measured)
    parts = table.numbers("--per", reading.per, timed)
    table.refuse(timed & ~(parts > 0), reading.per, "is not a number above 0, and times are to be divided by it")
    parts = np.where(timed, parts, 1.0)
    with np.errstate(over="ignore"):
        return measured / parts, resolution / parts


def _check_sides(table: Table, reading: Reading, rows: _Rows) -> None:
    """Refuse rows that hold nothing of a target, or no time at all."""
    for side, name in enumerate((reading.baseline, reading.challenger)):
        if not (rows.side == side).any():
            kept = " that --where keeps" if reading.where else ""
            raise InputError(f"{table.path}: no row{kept} holds a measurement of {show(name)}")
    if (rows.status == OK).any():
        return
    found = few(sorted(set(rows.status.tolist())))
    raise InputError(f"{table.path}: no measurement of either target is {show(OK)}; there is: {found}")


def _frame(table: Table, reading: Reading, rows: _Rows) -> pd.DataFrame:
    """Rows of one target, size, group and run become one trial; its median counts."""
    groups = {name: _labels(table, name)[rows.index] for name in reading.group_by}
    frame = pd.DataFrame(
        {
            **groups,
            reading.axis: rows.size,
            "target": np.array([reading.baseline, reading.challenger], dtype=object)[rows.side],
            "pass_index": _runs(table, reading)[rows.index],
            "status": rows.status,
            "resolution_s": rows.resolution_s,
        }
    )
    frame["paired"] = _paired(frame, reading)
    run = [*reading.group_by, reading.axis, "target", "pass_index"]
    known = frame["pass_index"].notna().to_numpy() & (rows.status == OK)
    # A measurement without a run of its own, or without a time, stays a row.
    trial = np.where(known, frame.groupby(run, dropna=False, sort=False).ngroup(), -1 - np.arange(len(frame)))
    _, first, trial = np.unique(trial, return_index=True, return_inverse=True)
    order = np.argsort(trial, kind="stable")
    bounds = np.cumsum(np.bincount(trial))[:-1]
    steps = np.split(rows.seconds[order], bounds)
    frame = frame.iloc[first].reset_index(drop=True)
    return frame.assign(
        step_times_s=pd.Series(steps, dtype=object).where(frame["status"] == OK, None),
        trial_id=np.arange(len(frame)),
    )


def _labels(table: Table, name: str) -> npt.NDArray[Any]:
    """The values of a column that splits rows into groups: numbers only if no text is lost, so that 3.10 is not 3.1."""
    codes, texts = pd.factorize(table.text(name), use_na_sentinel=False)
    labels = [None if pd.isna(text) else str(text) for text in texts]
    for kind in (int, float):
        try:
            numbers = [None if label is None else kind(label) for label in labels]
        except ValueError:
            continue
        if all(label is None or str(value) == label for label, value in zip(labels, numbers, strict=True)):
            return pd.Series(numbers).to_numpy()[codes]
    return np.array(labels, dtype=object)[codes]


def _runs(table: Table, reading: Reading) -> Floats:
    """Number of the run of every row of the file; NaN where it is not known."""
    if reading.wide and not reading.passes:
        return np.arange(float(len(table.cells)))  # what stands in one row was measured together
    if not reading.passes:
        return np.full(len(table.cells), np.nan)
    names = pd.DataFrame({name: table.text(name) for name in reading.passes})
    known = names.notna().all(axis=1).to_numpy()
    return np.where(known, names.groupby(list(reading.passes), sort=False).ngroup().to_numpy(dtype=np.float64), np.nan)


def _paired(frame: pd.DataFrame, reading: Reading) -> Bools:
    """Whether the group of a row has any pair: a run that both targets have, at one size."""
    runs = frame["pass_index"].notna()
    place = [*reading.group_by, reading.axis, "pass_index"]
    both = frame.groupby(place, dropna=False)["target"].transform("nunique").eq(2) & runs
    if not reading.group_by:
        return np.full(len(frame), bool(both.any()))
    groups = [frame[name] for name in reading.group_by]
    return np.asarray(both.groupby(groups, dropna=False).transform("any").to_numpy(dtype=bool))


def _doubts(table: Table, reading: Reading, rows: _Rows, frame: pd.DataFrame) -> list[str]:
    """Say what else rows differ in that count as repeats of one another, and where repeats do not agree."""
    timed = rows.status == OK
    place = pd.DataFrame(
        {"side": rows.side, "size": rows.size, **{n: _labels(table, n)[rows.index] for n in reading.group_by}}
    )
    cell = place.groupby(list(place), dropna=False, sort=False).ngroup()
    found = []
    differing = _differing(table, reading, rows.index[timed], cell[timed].to_numpy())
    if differing:
        found.append(
            f"rows of one target and size differ in {listed(differing)}, and count as repeats of one another: "
            "if they are not, use --where or --group-by"
        )
    ok = frame[frame["status"] == OK]
    medians = ok["step_times_s"].map(np.median)
    cells = [*reading.group_by, reading.axis, "target"]
    spans = medians[medians > 0].groupby([ok[name] for name in cells], dropna=False).agg(["min", "max"])
    widest = spans["max"] / spans["min"]
    if (widest > UNSTEADY).any():
        where: Any = widest.idxmax()
        *_, size, target = where
        found.append(
            f"repeats of one target and size differ by up to {times(float(widest.max()))} "
            f"({target} at {reading.axis} {number(float(size))}): can they be repeats of the same thing?"
        )
    return found


def _differing(table: Table, reading: Reading, index: Ints, cell: Ints) -> list[str]:
    """Columns that nobody spoke of and that tell kinds of rows apart inside a cell."""
    found = []
    for name in table.cells.columns:
        if name in reading.columns:
            continue
        codes, kinds = pd.factorize(table.text(str(name))[index], use_na_sentinel=False)
        recurring = 1 < len(kinds) <= min(KINDS, max(len(index) // 2, 1))
        if (
            recurring
            and not _measured([str(kind) for kind in kinds if not pd.isna(kind)])
            and (pd.Series(codes).groupby(cell).nunique() > 1).any()
        ):
            found.append(str(name))
    return found


def _measured(kinds: list[str]) -> bool:
    """Whether these are numbers of which one is not whole: values that were measured, and not names of kinds."""
    try:
        return any(not float(kind).is_integer() for kind in kinds)
    except (ValueError, OverflowError):
        return False


def _count(many: int, noun: str) -> str:
    return f"{many} {noun}{'s' * (many != 1)}"


def conditions(texts: Sequence[Sequence[str]]) -> tuple[Condition, ...]:
    """Make conditions of texts such as "stat=median": of one column, any of the values; of several columns, all.

    Args:
        texts: Of each use of the option, its parts.

    Raises:
        InputError: A part names no column or no value.
    """
    wanted: dict[tuple[str, bool], list[str]] = {}
    for text in (part for parts in texts for part in parts):
        column, equals, value = text.partition("=")
        keep = not column.endswith("!")
        column = column.removesuffix("!").strip()
        if not equals or not column:
            raise InputError(
                f"--where {show(text)}: a condition is column=value or column!=value; "
                "one with a comma in it needs quotes of its own: '\"column=a, b\"'"
            )
        wanted.setdefault((column, keep), []).append(value.strip())
    return tuple(Condition(column=name, values=tuple(values), keep=keep) for (name, keep), values in wanted.items())
