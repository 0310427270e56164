"""The largest size that fits into the memory of each target: from rows, and where to look for it next.

Only `oom` says that a size does not fit, and only `ok` that it does. A deadline, an error or a machine that is not
there says nothing about memory: such a size stands in the way of a search, and is named.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from analysis.adaptive import Range
from analysis.rounding import shown

FITS, FAILS = "ok", "oom"
#: Rows of a size that was left out because a smaller one was too large.
LEFT_OUT = "skipped_larger"
#: A search ends when the largest size that fits and the smallest that does not are neighbours, or this near.
PRECISION = 0.02
#: Timed values of a trial that is to show whether it fits. With its first step and its warm-up it makes three steps or
#: more: the first makes the gradients and the state of the optimizer, the second has all of that from its beginning.
STEPS = 1
#: What lies between two sizes is told from the growth below them: of so many sizes, the smallest of which is at most
#: this share of the largest, those from a certain share on; all this near to the line through the ends.
LEAST_POINTS, SPREAD, FROM, STRAIGHT = 3, 1 / 3, 1 / 16, 0.05
#: What stands in the way of a search, in words.
IN_THE_WAY = {
    "timeout": "hit the deadline",
    "error": "ended in an error",
    "crashed": "crashed",
    "invalid": "was not what was asked for",
    "node_lost": "lost its machine",
    "unavailable": "could not run",
    LEFT_OUT: "was left out, as a smaller size had failed",
}


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What is known of the largest size that fits one target, all other axes fixed.

    Attributes:
        target: Its name.
        key: Values of the columns that tell groups apart.
        fits: The largest size that fits, of those below `fails`; None where none is known.
        fails: The smallest size that ran out of memory; None where none has.
        in_the_way: How sizes ended that lie between these two and say nothing about memory.
        above: Sizes above `fails` that fit nevertheless.
        peak_bytes: Memory at its highest at the size `fits`: of an accelerator's own, of a CPU's beyond what the
            process began with; None where it is not known.
        limit_bytes: Limit that the trials at these sizes had, the least of them: a stated one, else the memory of the
            accelerator; None without one.
        grown: Peaks of all sizes that fit, by size.
    """

    target: str
    key: Mapping[str, Any]
    fits: float | None
    fails: float | None
    in_the_way: Mapping[float, str]
    above: tuple[float, ...]
    peak_bytes: float | None
    limit_bytes: float | None
    grown: Mapping[float, float] = field(default_factory=dict)


#: What is known of a target before its first trial.
NO_FIT = Fit(target="", key={}, fits=None, fails=None, in_the_way={}, above=(), peak_bytes=None, limit_bytes=None)


def fits_of(frame: pd.DataFrame, *, axis: str, targets: Iterable[str], group_by: Sequence[str] = ()) -> list[Fit]:
    """Say for each target and group what fits.

    Args:
        frame: One row a trial of the whole step, or one an attempt of it (column `attempt`).
        axis: Column of sizes.
        targets: Names of the targets, in the order of the answer.
        group_by: Columns of the groups. A lever that means nothing on a target is null in its rows.

    Returns:
        One value for each target and group that has a row, in the order of targets and sorted by the group.
    """
    found = []
    for target in targets:
        own = _final(frame[frame["target"] == target])
        for key, rows in _groups(own, list(group_by)):
            found.append(_fit(rows, axis, str(target), key))
    return found


def next_size(fit: Fit, sizes: Range) -> tuple[float | None, str]:
    """Say which size to try next.

    From the smallest size upwards each is twice the one before, until one does not fit; then the gap is halved on
    logarithmic axes.

    Args:
        fit: What is known so far.
        sizes: Those that may be asked.

    Returns:
        The next size and why it is asked; or None and why no size is worth a trial.
    """
    low, high = fit.fits, fit.fails
    if high is not None and high <= sizes.low:
        return None, "not even the smallest size fits"
    if low is None:
        return _unless_known(fit, sizes.low, "the smallest size")
    if high is None:
        if low >= sizes.high:
            return None, "the largest size fits"
        return _unless_known(fit, _doubled(low, sizes), f"{shown(low)} fits")
    if (middle := _between(low, high, sizes)) is None:
        return None, f"{shown(low)} fits and {shown(high)} does not"
    if fit.in_the_way:
        return None, in_the_way(fit)
    return middle, f"{shown(low)} fits and {shown(high)} does not"


def predicted(fit: Fit) -> float | None:
    """Return the size that would just fit, by the growth of the memory up to the largest that does.

    The line leads through the peaks of the smallest and the largest size of the upper part of those that fit. It is
    used where the peaks between are near to it, and only inside what the rows leave open: nothing is told of sizes
    beyond those that were tried.

    Returns:
        None where memory does not grow like that, no limit is known, or the rows know better.
    """
    if fit.fits is None or fit.fails is None or fit.limit_bytes is None or is_near(fit.fits, fit.fails):
        return None
    points = [(size, peak) for size, peak in sorted(fit.grown.items()) if size >= FROM * fit.fits]
    if len(points) < LEAST_POINTS or points[0][0] > SPREAD * points[-1][0]:
        return None
    (first, least), (last, most) = points[0], points[-1]
    slope = (most - least) / (last - first)
    if slope <= 0 or any(abs(least + slope * (size - first) - peak) > STRAIGHT * peak for size, peak in points):
        return None
    size = last + (fit.limit_bytes - most) / slope
    return size if fit.fits < size < fit.fails else None


def in_the_way(fit: Fit) -> str:
    """Return the smallest size that stands in the way of a search, and how it ended: "8192 hit the deadline"."""
    size, status = min(fit.in_the_way.items())
    return f"{shown(size)} {IN_THE_WAY.get(status, f'ended as {status}')}"


def size_words(fit: Fit) -> str:
    """Return what is known of the sizes, for a line of progress: "4096 fits, 8192 does not"."""
    known = [f"{shown(fit.fits)} fits"] if fit.fits is not None else []
    known += [f"{shown(fit.fails)} does not"] if fit.fails is not None else []
    return ", ".join(known) or "nothing known yet"


def _final(rows: pd.DataFrame) -> pd.DataFrame:
    if "attempt" not in rows or "trial_id" not in rows:
        return rows
    return rows.sort_values("attempt", kind="stable", na_position="first").drop_duplicates("trial_id", keep="last")


def _groups(rows: pd.DataFrame, columns: list[str]) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    if not columns:
        if len(rows):
            yield {}, rows
        return
    for values, own in rows.groupby(columns, dropna=False, sort=True, observed=True):
        yield dict(zip(columns, values, strict=True)), own


def _fit(rows: pd.DataFrame, axis: str, target: str, key: Mapping[str, Any]) -> Fit:
    sizes = {
        status: sorted({float(size) for size in own[axis]}) for status, own in rows.groupby("status", observed=True)
    }
    failed = sizes.pop(FAILS, [])
    fails = failed[0] if failed else None
    fitting = sizes.pop(FITS, [])
    fits = max((size for size in fitting if fails is None or size < fails), default=None)
    low, high = fits or 0.0, math.inf if fails is None else fails
    if fails is not None:
        sizes.pop(LEFT_OUT, None)
    in_the_way = {size: str(status) for status, own in sizes.items() for size in own if low < size < high}
    peaks = _peaks(rows[rows["status"] == FITS], axis)
    near = rows[rows[axis].isin([size for size in (fits, fails) if size is not None])]
    return Fit(
        target=target,
        key=dict(key),
        fits=fits,
        fails=fails,
        in_the_way=in_the_way,
        above=tuple(size for size in fitting if fails is not None and size > fails),
        peak_bytes=None if fits is None else peaks.get(fits),
        limit_bytes=_limit(near),
        grown={size: peak for size, peak in peaks.items() if size <= low},
    )


def _peaks(rows: pd.DataFrame, axis: str) -> dict[float, float]:
    """Return the highest memory of each size: of the accelerator, or of a CPU's trial beyond what it began with."""
    peaks = _numbers(rows, "device_peak_memory_bytes")
    peaks = peaks.fillna(_numbers(rows, "peak_memory_bytes") - _numbers(rows, "memory_at_start_bytes"))
    highest = peaks.groupby(rows[axis].astype("float64")).max().dropna()
    return {float(size): float(peak) for size, peak in highest.items()}  # type: ignore[arg-type]


def _limit(rows: pd.DataFrame) -> float | None:
    limits = _numbers(rows, "max_memory_bytes").fillna(_numbers(rows, "gpu_memory_bytes")).dropna()
    return float(limits.min()) if len(limits) else None


def _numbers(rows: pd.DataFrame, column: str) -> pd.Series[float]:
    if column not in rows:
        return pd.Series(math.nan, index=rows.index, dtype="float64")
    return pd.to_numeric(rows[column], errors="coerce").astype("float64")


def _unless_known(fit: Fit, size: float, why: str) -> tuple[float | None, str]:
    """Return a size, unless one on the way to it has ended without saying anything about memory."""
    if any(other <= size for other in fit.in_the_way):
        return None, in_the_way(fit)
    return size, why


def _doubled(low: float, sizes: Range) -> float:
    """Return the size that is twice another, or the next that there is."""
    if sizes.values:
        return next((value for value in sizes.values if value >= 2 * low), sizes.values[-1])
    return min(2 * low, sizes.high)


def _between(low: float, high: float, sizes: Range) -> float | None:
    """Return a size in the middle of two; None where they are near enough."""
    if sizes.values:
        open_ = [value for value in sizes.values if low < value < high]
        return open_[len(open_) // 2] if open_ else None
    if is_near(low, high) or (sizes.whole and high - low <= 1):
        return None
    middle = math.sqrt(low * high)
    return min(max(float(round(middle)), low + 1), high - 1) if sizes.whole else middle


def is_near(low: float, high: float) -> bool:
    """Whether two sizes are so near to each other that a search ends."""
    return high <= low * (1 + PRECISION)
