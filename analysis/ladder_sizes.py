"""Which configurations deserve the ladder of causes: those at which the conclusions of a study turn."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.conclusion import Group, conclude
from analysis.load import Study, load, stored_values
from analysis.sentence import known
from sweeps.axis import Span, values_of
from sweeps.folder import Folder
from sweeps.parameter import Value

#: No more sizes than this of one group: each costs as many trials as it has rungs, targets and passes.
MOST_SIZES = 8


def sizes_to_explain(place: Folder | Path | str) -> list[dict[str, Value]]:
    """Choose the configurations whose steps are worth taking apart, from what a study has found so far.

    They are the ends of the range, the sizes between which the winner changes and the neighbours of these, and then
    those in the middle of the widest gaps: with a cause taken away the winner may change anywhere, and there have to be
    sizes that it changes between. Sizes that could not be compared are left out where any could.

    Args:
        place: A study whose whole steps have been measured.

    Returns:
        The values of all axes, exactly as the sweep has them, one mapping a configuration; none where no trial
        finished.

    Raises:
        StudyError: The folder cannot be read as a study, or its rows cannot answer its question.
    """
    study = load(place)
    chosen: list[dict[str, Value]] = []
    for group in conclude(study).groups:
        others = _values_of(group, study)
        for size in _sizes(group, study) if others is not None else ():
            configuration = {study.sweep.axis: size, **(others or {})}
            if configuration not in chosen:
                chosen.append(configuration)
    return chosen


def _values_of(group: Group, study: Study) -> dict[str, Value] | None:
    """Return the group's values of the axes but the first; None where the sweep does not ask for them."""
    values: dict[str, Value] = {}
    for name, values_asked in list(study.sweep.axes.items())[1:]:
        asked = values_of(values_asked)
        key = group.crossover[name] if name in study.group_by else None
        stored = stored_values(study.sweep, name)
        # A lever that is null means nothing there, so that any of its values asks the same.
        same = [asked[0]] if pd.isna(key) else [value for value, kept in zip(asked, stored, strict=True) if kept == key]
        if not same:
            return None
        values[name] = same[0]
    return values


def _sizes(group: Group, study: Study) -> list[Value]:
    """Return the sizes of a group that are worth it, as the sweep has them, ascending."""
    axis, table = study.sweep.axis, group.sizes
    finished = table[["baseline_s", "challenger_s"]].notna()
    both, one = finished.all(axis=1), finished.any(axis=1)
    usable = {float(size) for size in table.loc[both if both.any() else one, axis]}
    sizes = study.sweep.axes[axis]
    every: list[Value] = [int(s) if sizes.whole else s for s in usable] if isinstance(sizes, Span) else sizes
    asked = sorted((value for value in every if float(value) in usable), key=float)
    return [asked[place] for place in _places([float(size) for size in asked], group.crossover)]


def _places(sizes: Sequence[float], crossover: Mapping[str, Any]) -> list[int]:
    """Return which of some sizes matter, given where the winner changes: ends, brackets, flanks, widest gaps."""
    last = len(sizes) - 1
    changes = crossover["changes"] or [crossover]
    brackets, flanks = [], []
    for change in changes:
        low, high = (known(change, f"bracket_{end}") for end in ("low", "high"))
        if low is not None and high is not None:
            below, above = bisect.bisect_right(sizes, low) - 1, bisect.bisect_left(sizes, high)
            brackets += [below, above]
            flanks += [below - 1, above + 1, below + 1, above - 1]
    wanted = [place for place in (0, last, *brackets, *flanks) if 0 <= place <= last]
    return _filled(sizes, list(dict.fromkeys(wanted))[:MOST_SIZES])


def _filled(sizes: Sequence[float], chosen: Sequence[int]) -> list[int]:
    """Add, one after another, the size that lies most nearly in the middle of the widest gap, as a factor."""
    places = sorted(chosen)
    while len(places) < min(MOST_SIZES, len(sizes)):
        open_gaps = [(low, high) for low, high in pairwise(places) if high - low > 1]
        # Rounded, so that the last digits of a logarithm do not choose between gaps that are equally wide.
        low, high = max(open_gaps, key=lambda gap: round(math.log(sizes[gap[1]] / sizes[gap[0]]), 9))
        middle = (math.log(sizes[low]) + math.log(sizes[high])) / 2
        inside = range(low + 1, high)
        bisect.insort(places, min(inside, key=lambda place: round(abs(math.log(sizes[place]) - middle), 9)))
    return places
