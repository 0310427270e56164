"""The axis of sizes: logarithmic, labelled with the sizes that were really measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

from analysis.rounding import number
from analysis.sentence import Topic
from sweeps.families import FAMILIES

MOST_TICKS = 12
#: Share of the axis that a character of a tick label takes, and the least gap between two labels.
TICK_CHARACTER, TICK_GAP = 0.0105, 0.012


def axis_label(name: str, topic: Topic) -> str:
    """Return the name of an axis, with what it counts where that is known."""
    family = FAMILIES.get(topic.workload)
    parameter = family.parameters.get(name) if family else None
    return f"{name} ({parameter.meaning})" if parameter else name


def set_sizes(axes: Axes, sizes: Sequence[float], ticks: Sequence[float]) -> None:
    """Make the horizontal axis one of sizes, ascending; those without a label get a small tick."""
    low, high = sizes[0], sizes[-1]
    if low > 0:
        axes.set_xscale("log")
        pad = (high / low) ** 0.04 if high > low else 2.0
        axes.set_xlim(low / pad, high * pad)
    else:
        unit = _smallest_positive(sizes)
        axes.set_xscale("symlog", linthresh=unit)
        axes.set_xlim(low - 0.3 * unit, max(high * 1.3, unit))
    axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(round(value, 12))))
    axes.xaxis.set_minor_locator(FixedLocator([size for size in sizes if size not in ticks]))
    axes.xaxis.set_minor_formatter(NullFormatter())


def choose_ticks(sizes: Sequence[float]) -> tuple[float, ...]:
    """Return which of the real sizes get a label: the ends, and as many between as fit without touching."""
    if len(sizes) < 2:  # nothing to choose from
        return tuple(sizes)
    place = _places(sizes)
    half = [TICK_CHARACTER * len(number(size)) / 2 for size in sizes]

    gap = TICK_GAP
    while True:
        kept = [0]
        for index in range(1, len(sizes) - 1):
            if all(
                abs(place[index] - place[other]) >= half[index] + half[other] + gap
                for other in (kept[-1], len(sizes) - 1)
            ):
                kept.append(index)
        if len(kept) < MOST_TICKS:
            return tuple(sizes[index] for index in [*kept, len(sizes) - 1])
        gap *= 1.3


def _places(sizes: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return where the sizes lie on the axis, from 0 to 1."""
    values = np.asarray(sizes, dtype=float)
    if values[0] > 0:
        values = np.log(values)
    else:  # as matplotlib's symlog: straight up to the smallest positive size, logarithmic above
        unit = _smallest_positive(sizes)
        values = np.where(values > unit, 1 + np.log10(np.maximum(values, unit) / unit), values / unit)
    span = values[-1] - values[0]
    return np.asarray((values - values[0]) / span if span else np.zeros_like(values), dtype=np.float64)


def _smallest_positive(sizes: Sequence[float]) -> float:
    return min((size for size in sizes if size > 0), default=1.0)
