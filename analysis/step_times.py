"""From the raw step times of each trial to its median, and to the spread around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.question import Bools, Floats, Ints

MEDIAN_VARIANCE = 1.571  # variance of a median against that of a mean, for normal values
NORMAL_IQR = 1.349  # interquartile range of a standard normal
LEAST_STEPS = 4  # with fewer, quartiles mean nothing
LISTS = (list, tuple, np.ndarray)


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """What the step times of each row come to.

    Attributes:
        steps: Number of values.
        median_s: Their median, seconds per step; NaN where a value is missing, negative or not finite.
        spread: Variance of the log of that median, as seen inside the process; NaN with fewer than 4 values.
        checksum: Equal for equal lists; tells copies of one trial from trials that happen to agree in the median.
    """

    steps: Ints
    median_s: Floats
    spread: Floats
    checksum: Floats


def trainings_at_once(frame: pd.DataFrame) -> Floats:
    """Return how many trainings each row ran side by side: its times are those of one of them.

    In the time of one step the node does one of each. So what is compared between targets, time, money or energy, is
    divided by this number, and only there: rows stay as they were measured.

    Args:
        frame: Rows; 1 where they do not say.
    """
    if "side_by_side" not in frame.columns:
        return np.ones(len(frame))
    counts = pd.to_numeric(frame["side_by_side"], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(np.where(counts >= 1, counts, 1.0))


def reduce_step_times(lists: npt.NDArray[np.object_], wanted: Bools) -> StepTimes:
    """Reduce each row's step times; rows of equal length are one matrix, so the cost is that of sorting.

    Args:
        lists: One list or array of seconds a row; anything else counts as no times.
        wanted: Rows to reduce; the others come out as NaN.

    Returns:
        One value a row.

    Raises:
        ValueError: If step times are not lists of numbers.
    """
    n = len(lists)
    steps = np.zeros(n, dtype=np.int64)
    median, spread, checksum = (np.full(n, np.nan) for _ in range(3))
    rows = np.flatnonzero(wanted)
    steps[rows] = _lengths(lists[rows].tolist())
    for length in np.unique(steps[steps > 0]).tolist():
        same = np.flatnonzero(steps == length)
        times = _matrix(lists[same].tolist(), length)
        good = (np.isfinite(times) & (times >= 0)).all(axis=1)
        if not good.all():
            same, times = same[good], times[good]
        checksum[same] = (times * np.sqrt(np.arange(1.0, length + 1.0))).sum(axis=1)
        times.sort(axis=1)
        middle = times[:, (length - 1) // 2], times[:, length // 2]
        median[same] = middle[0] + (middle[1] - middle[0]) / 2
        if length >= LEAST_STEPS:
            spread[same] = _spread(times)
    return StepTimes(steps=steps, median_s=median, spread=spread, checksum=checksum)


def _lengths(rows: list[Any]) -> Ints:
    # Types by set, and not by row: of a million rows there are one or two.
    if all(issubclass(kind, LISTS) for kind in set(map(type, rows))):
        return np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    return np.array([len(row) if isinstance(row, LISTS) else 0 for row in rows], dtype=np.int64)


def _matrix(rows: list[Any], length: int) -> Floats:
    try:
        if all(issubclass(kind, np.ndarray) for kind in set(map(type, rows))):
            return np.concatenate(rows).astype(np.float64, copy=False).reshape(len(rows), length)
        return np.array(rows, dtype=np.float64).reshape(len(rows), length)
    except (TypeError, ValueError) as error:
        raise ValueError(f"step_times_s must hold lists of numbers ({error})") from error


def _spread(times: Floats) -> Floats:
    """Variance of the log median of times that are sorted along axis 1."""
    deviation = (_log_quantile(times, 0.75) - _log_quantile(times, 0.25)) / NORMAL_IQR
    return np.asarray(MEDIAN_VARIANCE * deviation**2 / times.shape[1], dtype=np.float64)


def _log_quantile(times: Floats, share: float) -> Floats:
    """Quantile of ln(time) along axis 1 of sorted times, by linear interpolation."""
    place = share * (times.shape[1] - 1)
    below = int(place)
    part = place - below
    # A zero has no log, but then the trial is below the clock's resolution and its spread is not asked for.
    neighbours = np.log(np.maximum(times[:, [below, min(below + 1, times.shape[1] - 1)]], np.finfo(np.float64).tiny))
    return np.asarray(neighbours[:, 0] * (1 - part) + neighbours[:, 1] * part, dtype=np.float64)
