"""The chart of whole trainings: loss against seconds, a line for each target, and the loss that was asked for.

`gather` collects all that is drawn into a value, `draw` puts that value on paper; each can be tested alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from analysis.charts.paper import add_legend, sheet
from analysis.rounding import number, time_unit
from analysis.whole_training import Curves, Descent

HEIGHT = 4.6
#: Where all come down to the goal, the chart ends so much later than the last of them.
BEYOND = 1.5
#: Targets differ in colour, marker and line style, for colour-blind readers and grey paper.
MARKERS, DASHES = ("o", "s", "^", "D"), ("-", (0, (5, 2)), ":", "-.")


@dataclass(frozen=True, kw_only=True)
class Line:
    """The typical training of a target.

    Attributes:
        label: Its name, and how many trainings these are.
        after: To the end of each epoch, in the unit of the chart.
        losses: Mean loss of each epoch, the mean over the trainings.
        reached: Which of these is the first that is low enough, from 0; None if none is.
        others: Every single training, as ends of epochs and losses.
    """

    label: str
    after: tuple[float, ...]
    losses: tuple[float, ...]
    reached: int | None
    others: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Everything that the chart shows, times in its unit."""

    title: str
    goal: float
    unit: str
    until: float
    lines: tuple[Line, ...]


def gather(curves: Curves) -> Picture:
    """Collect what the chart shows."""
    every = [each for own in curves.descents.values() for each in own]
    until_s = max(each.after_s[-1] for each in every)
    needed = [each.after_s[epochs - 1] for each in every if (epochs := each.epochs_to(curves.goal))]
    if len(needed) == len(every):
        until_s = min(until_s, BEYOND * max(needed))
    unit, factor = time_unit(until_s)
    lines = [_line(name, own, curves.goal, factor) for name, own in curves.descents.items()]
    return Picture(title=curves.title, goal=curves.goal, unit=unit, until=until_s * factor, lines=tuple(lines))


def _line(name: str, own: Sequence[Descent], goal: float, factor: float) -> Line:
    """Return the line of a target: the median time and the mean loss of each epoch that all its trainings have."""
    epochs = min(len(each.losses) for each in own)
    after = np.median([each.after_s[:epochs] for each in own], axis=0) * factor
    losses = np.mean([each.losses[:epochs] for each in own], axis=0)
    reached = next((epoch for epoch, loss in enumerate(losses.tolist()) if loss <= goal), None)
    count = f" ({len(own)} trainings)" if len(own) > 1 else ""
    return Line(
        label=f"{name}{count}",
        after=tuple(after.tolist()),
        losses=tuple(losses.tolist()),
        reached=reached,
        others=tuple((tuple(factor * s for s in each.after_s), each.losses) for each in own) if len(own) > 1 else (),
    )


def draw(picture: Picture) -> Figure:
    """Put the chart on paper."""
    with sheet(picture.title, height=HEIGHT, style="ticks") as (figure, axes):
        palette = sns.color_palette("colorblind")
        handles: list[Artist] = []
        for place, line in enumerate(picture.lines):
            colour, marker = palette[place % len(palette)], MARKERS[place % len(MARKERS)]
            look = {"color": colour, "linestyle": DASHES[place % len(DASHES)]}
            for after, losses in line.others:
                axes.plot(after, losses, alpha=0.25, linewidth=1, **look)
            axes.plot(line.after, line.losses, marker=marker, markersize=5, linewidth=2, **look)
            if line.reached is not None:
                at = line.after[line.reached]
                axes.plot([at, at], [0, picture.goal], linewidth=1, **look)
            handles.append(Line2D([], [], marker=marker, markersize=5, linewidth=2, label=line.label, **look))
        axes.axhline(picture.goal, color="0.35", linewidth=1.2)
        handles.append(Line2D([], [], color="0.35", linewidth=1.2, label=f"the goal: a loss of {number(picture.goal)}"))
        axes.set_xlim(0, picture.until)
        known = [loss for line in picture.lines for loss in line.losses if math.isfinite(loss)]
        axes.set_ylim(0, 1.08 * max([picture.goal, *known]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel(f"time since the first step of the training ({picture.unit}); a mark is the end of an epoch")
        axes.set_ylabel("mean loss of an epoch")
        sns.despine(ax=axes)
        add_legend(figure, handles, columns=2)
    return figure
