"""What an adaptive search has cost and where it went, and what a grid over the same range would have cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.adaptive import OCTAVE, Search, advise
from analysis.lattice import Grid
from analysis.local import REACH
from analysis.question import Floats, Question, ask
from analysis.rounding import lasting, percent
from analysis.trials import Points, Trials, read_trials

GRID_PASSES = 5
SAME = 0.06  # in u: whole numbers lie this far off the octave that they stand for

#: What a size was measured for.
WHOLE_RANGE, END, CLOSING_IN, CHANGE = (
    "to see the whole range",
    "an end of the range, which has to be certain",
    "to close in on a change",
    "close to a change",
)


@dataclass(frozen=True, kw_only=True)
class Place:
    """What was measured at one size.

    Attributes:
        size: In the axis's unit.
        pairs: Those that failed included.
        seconds: From the start to the end of each of their trials, added; NaN where no row says when it ran.
        why: What it was measured for, as it looks now that all is known.
    """

    size: float
    pairs: int
    seconds: float
    why: str


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Pairs and seconds of a search, and of the grid it is compared with.

    Attributes:
        pairs: Pairs of the search, those that failed included.
        seconds: From the start to the end of each of their trials, added; NaN where no row says when it ran.
        grid_pairs: Pairs of a grid with five passes, up to the largest size at which a trial ended.
        grid_seconds: What they would have taken, at the seconds per trial of the search; NaN as above.
        places: The same size by size, ascending; empty for a map.
    """

    pairs: int
    seconds: float
    grid_pairs: int
    grid_seconds: float
    places: tuple[Place, ...] = ()


def spent(frame: pd.DataFrame, search: Search) -> Spent:
    """Add up what a search along one axis has cost.

    Args:
        frame: Its records, as `analysis.adaptive.advise` takes them, at least one.
        search: What was searched for.

    Returns:
        Pairs and seconds, of the search and of the octave grid. A trial of the grid, which may take more steps, is
        counted as one of the search at that size, or as what lies between the two nearest sizes on logarithmic axes.

    Raises:
        ValueError: If the frame cannot answer the question.
    """
    question = search.asked_of(frame, drift=None)
    points, trials = read_trials(_as_one(frame), question)
    position = question.position(points.size)
    octaves = _octaves(search, question)
    reached = octaves[octaves <= position.max() + 1e-9]
    grid_s = 0.0
    for side in (0, 1):
        known = (trials.side == side) & (trials.elapsed_s > 0)
        took = pd.Series(np.log(trials.elapsed_s[known])).groupby(trials.point[known]).mean()
        if took.empty:
            grid_s = math.nan
            continue
        at = np.interp(reached, position[took.index.to_numpy()], took.to_numpy())
        grid_s += GRID_PASSES * float(np.exp(at).sum())
    pairs, seconds = _by_point(points, trials)
    whys = _whys(position, octaves, [question.position(np.array(ends)) for ends in advise(frame, search).intervals])
    return Spent(
        pairs=sum(pairs),
        seconds=float(np.nansum(seconds)) if not math.isnan(grid_s) else math.nan,
        grid_pairs=GRID_PASSES * len(reached),
        grid_seconds=grid_s,
        places=tuple(
            Place(size=size, pairs=count, seconds=took_s, why=why)
            for size, count, took_s, why in zip(points.size.tolist(), pairs, seconds.tolist(), whys, strict=True)
        ),
    )


def spent_on_map(frame: pd.DataFrame, grid: Grid) -> Spent:
    """Add up what a search over two axes has cost.

    Args:
        frame: Its records, as `analysis.lattice.ask_cells` takes them, at least one.
        grid: The cells that could be asked.

    Returns:
        Pairs and seconds, of the search and of a grid of all cells. A pair of the grid is counted as one at the nearest
        cell that was measured.

    Raises:
        ValueError: If the frame cannot answer the question.
    """
    x, y = grid.axes
    question = ask(
        frame,
        axis=x,
        baseline=grid.baseline,
        challenger=grid.challenger,
        group_by=[y],
        margin=grid.margin,
        drift=None,
    )
    points, trials = read_trials(_as_one(frame), question)
    pairs, seconds = _by_point(points, trials)
    places = np.log(np.stack([points.size, points.keys[y].take(points.group).to_numpy(dtype=np.float64)], axis=1))
    every = np.log(np.array([(grid.x[i], grid.y[j]) for i, j in grid.cells]))
    known = ~np.isnan(seconds)
    took_s = grid_s = math.nan
    if known.any():
        nearest = ((every[:, None] - places[known]) ** 2).sum(axis=2).argmin(axis=1)
        grid_s = GRID_PASSES * float((seconds / np.array(pairs))[known][nearest].sum())
        took_s = float(seconds[known].sum())
    return Spent(pairs=sum(pairs), seconds=took_s, grid_pairs=GRID_PASSES * len(every), grid_seconds=grid_s)


def cost_words(costs: Sequence[Spent], every: str, *, ended: bool) -> str:
    """Say what searches have cost together, and what a grid would have.

    Args:
        costs: Of each search.
        every: What the grid measures: "every octave".
        ended: Whether all of them have stopped: until then nothing can be compared.
    """
    pairs, grid_pairs = sum(cost.pairs for cost in costs), sum(cost.grid_pairs for cost in costs)
    took_s, grid_s = math.fsum(cost.seconds for cost in costs), math.fsum(cost.grid_seconds for cost in costs)
    grid = f"a grid of {every}, with {GRID_PASSES} passes, has {grid_pairs}"
    took = "" if math.isnan(took_s) else f" in {lasting(took_s)}"
    if not ended:
        return f"{pairs} pairs have been measured so far{took}."
    if not took or math.isnan(grid_s):
        return f"{pairs} pairs were measured; {grid}."
    return f"{pairs} pairs were measured{took}; {grid} and would have taken about {lasting(grid_s)}" + (
        f", so {percent(round(1 - took_s / grid_s, 2))} of that was saved." if took_s < grid_s else "."
    )


def _as_one(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows, as if each had been one training: those that ran side by side took their time once."""
    return frame.drop(columns="side_by_side", errors="ignore")


def _by_point(points: Points, trials: Trials) -> tuple[list[int], Floats]:
    """At each point the pairs, and the seconds of their trials."""
    begun = pd.DataFrame({"point": trials.point, "passed": trials.passed}).drop_duplicates()
    pairs: list[int] = np.bincount(begun["point"], minlength=len(points.size)).tolist()
    known = trials.elapsed_s > 0
    point, count = trials.point[known], len(points.size)
    total_s = np.bincount(point, weights=trials.elapsed_s[known], minlength=count)
    return pairs, np.where(np.bincount(point, minlength=count) > 0, total_s.astype(np.float64), math.nan)


def _octaves(search: Search, question: Question) -> Floats:
    """Positions of the octave grid over the range of a search."""
    low, high = question.position(np.array([search.range.low, search.range.high], dtype=np.float64)).tolist()
    return np.linspace(low, high, max(1, math.ceil((high - low) / OCTAVE - 0.1)) + 1)


def _whys(position: Floats, octaves: Floats, intervals: list[Floats]) -> list[str]:
    """What each size was measured for."""
    found = []
    for place in position.tolist():
        if any(low - REACH <= place <= high + REACH for low, high in intervals):
            found.append(CHANGE)
        elif min(abs(place - octaves[0]), abs(place - octaves[-1])) < 1e-9:
            found.append(END)
        else:
            found.append(WHOLE_RANGE if np.abs(octaves - place).min() < SAME else CLOSING_IN)
    return found
