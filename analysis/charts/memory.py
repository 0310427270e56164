"""The chart of what fits into memory: the largest size of each target over another axis of sizes.

`gather` collects all that is drawn into a value, `draw` puts that value on paper; each can be tested alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, LogFormatter, LogLocator, NullFormatter

from analysis.charts.paper import LEGEND_CHARACTERS, add_legend, sheet, wrap
from analysis.charts.sizes import axis_label, choose_ticks, set_sizes
from analysis.largest import Fit
from analysis.rounding import number
from analysis.sentence import Topic

#: Height of the chart without title and legend, in inches.
HEIGHT = 4.6
LEGEND_ROW_HEIGHT = 0.22
#: Targets differ in colour, marker and line style, for colour-blind readers and grey paper.
MARKERS, DASHES = ("o", "s", "D", "v"), ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
#: How far the axis of sizes goes beyond what is drawn, as a factor.
ROOM = 1.6
SHADE = 0.10


@dataclass(frozen=True, kw_only=True)
class Point:
    """What is known of one target at one value of the other axis; None where it is not known.

    Attributes:
        at: The value of the other axis.
        fits: The largest size that fits.
        fails: The smallest size that does not.
    """

    at: float
    fits: float | None
    fails: float | None


@dataclass(frozen=True, kw_only=True)
class Line:
    """One target, from left to right."""

    target: str
    points: tuple[Point, ...]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Everything that the chart shows."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]


def gather(fits: Sequence[Fit], *, axes: tuple[str, str], topic: Topic, title: str) -> Picture:
    """Collect what the chart shows.

    Args:
        fits: What is known, one value for each target and value of the other axis.
        axes: The axis whose largest size is looked for, and the other one.
        topic: What was asked.
        title: Its sentence.
    """
    size, other = axes
    lines: dict[str, list[Point]] = {}
    for fit in fits:
        lines.setdefault(fit.target, []).append(Point(at=float(fit.key[other]), fits=fit.fits, fails=fit.fails))
    return Picture(
        title=title,
        x_label=axis_label(other, topic),
        y_label=f"largest {axis_label(size, topic)}",
        lines=tuple(
            Line(target=target, points=tuple(sorted(points, key=lambda point: point.at)))
            for target, points in lines.items()
        ),
    )


def draw(picture: Picture) -> Figure:
    """Put a picture on paper."""
    handles = _legend(picture)
    with sheet(picture.title, height=HEIGHT + LEGEND_ROW_HEIGHT * len(handles), style="whitegrid") as (figure, axes):
        places = sorted({point.at for line in picture.lines for point in line.points})
        sizes = [size for line in picture.lines for point in line.points for size in _known(point)]
        set_sizes(axes, places, choose_ticks(places))
        axes.set_yscale("log")
        if sizes:
            axes.set_ylim(min(sizes) / ROOM, max(sizes) * ROOM)
        colours = sns.color_palette("colorblind", len(picture.lines))
        for index, line in enumerate(picture.lines):
            _draw_line(axes, line, colours[index], index)
        _label_sizes(axes, sorted(set(sizes)))
        axes.set_xlabel(picture.x_label)
        axes.set_ylabel(picture.y_label)
        sns.despine(ax=axes)
        add_legend(figure, handles, columns=1)
    return figure


def _draw_line(axes: Axes, line: Line, colour: Any, index: int) -> None:
    """Draw the largest sizes, and above the smallest that failed a shade."""
    look: dict[str, Any] = {"color": colour, "markersize": 7, "linestyle": "none", "zorder": 5}
    known = [point for point in line.points if point.fits is not None]
    path: dict[str, Any] = {"color": colour, "linestyle": DASHES[index % len(DASHES)], "linewidth": 1.8, "zorder": 4}
    axes.plot([point.at for point in known], [point.fits or math.nan for point in known], **path)
    for point in line.points:
        if point.fits is not None:
            is_open = point.fails is None
            marker = "^" if is_open else MARKERS[index % len(MARKERS)]
            axes.plot([point.at], [point.fits], marker=marker, markerfacecolor="white" if is_open else colour, **look)
        elif point.fails is not None:
            axes.plot([point.at], [point.fails], marker="X", **look)
    # Between two values of the other axis the shade goes as the line does; it ends where nothing failed.
    top = axes.get_ylim()[1]
    axes.fill_between(
        [point.at for point in line.points],
        [math.nan if point.fails is None else point.fails for point in line.points],
        [top] * len(line.points),
        color=colour,
        alpha=SHADE,
        linewidth=0,
        zorder=1,
    )


def _label_sizes(axes: Axes, sizes: Sequence[float]) -> None:
    """Label powers of ten, or where there is at most one of them in sight the sizes at the ends."""
    low, high = axes.get_ylim()
    decades = [10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
    if len(decades) > 1 or not sizes:
        axes.yaxis.set_major_locator(LogLocator())
        axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.2, 0.4)))
    else:
        axes.yaxis.set_major_locator(FixedLocator(list(choose_ticks(sizes))))
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(round(value, 12))))


def _legend(picture: Picture) -> list[Artist]:
    """Explain what is on this chart, and nothing that is not."""
    colours = sns.color_palette("colorblind", len(picture.lines))
    handles: list[Artist] = []
    for index, line in enumerate(picture.lines):
        words = wrap(f"{line.target}: the largest that fits; shaded above it: does not fit", LEGEND_CHARACTERS, 2)
        dash: Any = DASHES[index % len(DASHES)]
        marker = MARKERS[index % len(MARKERS)]
        handles.append(Line2D([], [], color=colours[index], marker=marker, linestyle=dash, label=words))
    points = [point for line in picture.lines for point in line.points]
    grey: Mapping[str, Any] = {"color": "0.3", "linestyle": "none"}
    if any(point.fits is not None and point.fails is None for point in points):
        handles.append(
            Line2D([], [], marker="^", markerfacecolor="white", label="at least this: nothing larger failed", **grey)
        )
    if any(point.fits is None and point.fails is not None for point in points):
        handles.append(Line2D([], [], marker="X", label="not even this, the smallest that was tried", **grey))
    if not points:
        handles.append(Patch(facecolor="0.9", label="nothing known"))
    return handles


def _known(point: Point) -> list[float]:
    return [size for size in (point.fits, point.fails) if size is not None]
