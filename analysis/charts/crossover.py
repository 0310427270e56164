"""The chart of a crossover: time per step against size for both targets, with the change and its interval.

`gather` collects all that is drawn into a value, `draw` puts that value on paper; each can be tested alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from analysis.charts.paper import LEGEND_CHARACTERS, add_legend, sheet, wrap
from analysis.charts.sizes import axis_label, choose_ticks, set_sizes
from analysis.rounding import Scale, number, time_unit
from analysis.sentence import Topic, ends_of, interval_words, known
from analysis.step_times import trainings_at_once

#: Height of the chart without title and legend, in inches.
HEIGHT = 5.2
LEGEND_ROW_HEIGHT = 0.22
#: More dots than this go into the SVG as one picture, so that the file stays small.
MOST_VECTOR_DOTS = 2_000
#: Two targets differ in colour, brightness, marker and line style, for colour-blind readers and grey paper.
MARKERS, DASHES = ("o", "s"), ("-", (0, (5, 2)))
#: Where sizes without a time are marked, as shares of the chart's height from the bottom.
EDGE_ROWS = (0.975, 0.93)
FAILED_MARKERS = {"timeout": "^", "oom": "X"}
#: Height of the longest bar that counts the pairs of a size, as a share of the chart's.
LONGEST_BAR = 0.09


@dataclass(frozen=True, kw_only=True)
class Line:
    """One target's times along the axis, in the chart's unit; NaN where it has none.

    Attributes:
        target: Name of the target.
        typical: Typical time per step at each size.
        low: Smallest trial median at each size.
        high: Largest trial median at each size.
        dots: Size and median time per step of every trial that finished.
    """

    target: str
    typical: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    dots: tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class Zone:
    """A stretch of the axis in which the winner changes, or may change.

    Attributes:
        low: Its lower end; None where it is open.
        high: Its upper end; None where it is open.
        estimate: Where in it the change is estimated to be, if that can be said.
        words: What the stretch is.
    """

    low: float | None
    high: float | None
    estimate: float | None
    words: str


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Sizes at which trials of a target ended alike and without a time.

    Attributes:
        row: 0 for the baseline, 1 for the challenger.
        status: How they ended.
        sizes: Where.
        words: What is said about it.
    """

    row: int
    status: str
    sizes: tuple[float, ...]
    words: str


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Everything that a crossover chart shows.

    Attributes:
        title: The verdict in words.
        x_label: Name of the axis and what it counts.
        unit: Unit of every time: µs, ms or s.
        sizes: Every size that was tried, ascending.
        ticks: The sizes that get a label.
        lines: Baseline and challenger.
        zones: Where the winner changes.
        failures: Sizes without a time.
        pairs: Pairs at each size, where sizes have been measured unlike often; else empty.
    """

    title: str
    x_label: str
    unit: str
    sizes: tuple[float, ...]
    ticks: tuple[float, ...]
    lines: tuple[Line, Line]
    zones: tuple[Zone, ...]
    failures: tuple[Failure, ...]
    pairs: tuple[int, ...] = ()


def gather(
    frame: pd.DataFrame,
    sizes: pd.DataFrame,
    crossover: Mapping[str, Any],
    topic: Topic,
    sentence: str,
    *,
    searched: bool = False,
) -> Picture:
    """Collect what the chart of one group shows.

    Args:
        frame: The group's rows, one a trial.
        sizes: The group's rows of `analysis.summary.summarise`.
        crossover: The group's row of `analysis.crossovers`.
        topic: What was asked.
        sentence: The verdict in words.
        searched: Whether an adaptive sweep chose the sizes: then it is shown how often it measured each.
    """
    rivals = (topic.baseline, topic.challenger)
    finished = frame[frame["status"].eq("ok") & frame["target"].isin(rivals)]
    dots = {name: _dots(finished[finished["target"] == name], topic.axis) for name in rivals}
    every = [time_s for own in dots.values() for _, time_s in own]
    unit, factor = time_unit(math.sqrt(min(every) * max(every)) if every else 1.0)
    scale = Scale.of(sizes[topic.axis])
    lines = [
        Line(
            target=name,
            typical=_positive(sizes[f"{role}_s"] * factor),
            low=_positive(sizes[f"{role}_low_s"] * factor),
            high=_positive(sizes[f"{role}_high_s"] * factor),
            dots=tuple((size, time_s * factor) for size, time_s in dots[name]),
        )
        for role, name in zip(("baseline", "challenger"), rivals, strict=True)
    ]
    return Picture(
        title=sentence,
        x_label=axis_label(topic.axis, topic),
        unit=unit,
        sizes=scale.sizes,
        ticks=choose_ticks(scale.sizes),
        lines=(lines[0], lines[1]),
        zones=_zones(crossover, scale),
        failures=_failures(frame, topic, scale),
        pairs=tuple(int(pairs) for pairs in sizes["pairs"]) if searched else (),
    )


def draw(picture: Picture) -> Figure:
    """Put a picture on paper."""
    legend_rows = (3 + len(picture.zones) + len(picture.failures) + bool(picture.pairs)) // 2
    with sheet(picture.title, height=HEIGHT + LEGEND_ROW_HEIGHT * legend_rows, style="whitegrid") as (figure, axes):
        colours = sns.color_palette("colorblind", 2)
        set_sizes(axes, picture.sizes, picture.ticks)
        _set_times(axes, picture)
        handles: list[Artist] = list(_draw_zones(axes, picture))
        handles = [
            *(_draw_line(axes, picture, row, colours[row]) for row in (0, 1) if picture.lines[row].dots),
            *handles,
            *(_draw_failure(axes, failure, colours[failure.row]) for failure in picture.failures),
            *([_draw_pairs(axes, picture)] if any(picture.pairs) else []),
        ]
        axes.set_xlabel(picture.x_label)
        axes.set_ylabel(f"time per training step ({picture.unit}), lower is better")
        sns.despine(ax=axes)
        add_legend(figure, handles, columns=1 if len(handles) == 1 else 2)
    return figure


def _dots(finished: pd.DataFrame, axis: str) -> list[tuple[float, float]]:
    """Return size and median time per step in seconds of every trial; times of 0 have no place on a log axis."""
    medians = [
        (float(size), float(np.median(times)) / at_once)
        for size, times, at_once in zip(
            finished[axis], finished["step_times_s"], trainings_at_once(finished).tolist(), strict=True
        )
        if times is not None and len(times)
    ]
    return [(size, time_s) for size, time_s in medians if time_s > 0]


def _positive(times: pd.Series[float]) -> tuple[float, ...]:
    """Return times for a log axis: 0 is "below the clock's resolution" and has no place on it."""
    return tuple(float(time) if time > 0 else math.nan for time in times)


def _zones(crossover: Mapping[str, Any], scale: Scale) -> tuple[Zone, ...]:
    turns = list(crossover["changes"]) if crossover["verdict"] == "several" else [crossover]
    zones = []
    for turn in turns:
        estimate = known(turn, "estimate")
        low, high = ends_of(turn)
        if low is not None and high is not None:
            span = interval_words(turn, scale) or f"between {scale.show(low, -1)} and {scale.show(high, 1)}"
            words = f"estimate {scale.show(estimate)}, {span}" if estimate is not None else f"changes: {span}"
            zones.append(Zone(low=low, high=high, estimate=estimate, words=words))
            continue
        low, high = known(turn, "low"), known(turn, "high")
        if low is not None:
            words = f"not decided: a change may lie above {scale.show(low, -1)}"
            zones.append(Zone(low=low, high=None, estimate=None, words=words))
        elif high is not None:
            words = f"not decided: a change may lie below {scale.show(high, 1)}"
            zones.append(Zone(low=None, high=high, estimate=None, words=words))
    return tuple(zones)


def _failures(frame: pd.DataFrame, topic: Topic, scale: Scale) -> tuple[Failure, ...]:
    failures = []
    for row, target in enumerate((topic.baseline, topic.challenger)):
        own = frame[frame["target"] == target]
        if own.empty:
            failures.append(Failure(row=row, status="not run", sizes=(), words=f"{target}: no trial has been run"))
        for status, failed in own[own["status"] != "ok"].groupby("status"):
            where = tuple(sorted(float(size) for size in failed[topic.axis].unique()))
            at = "every size" if where == scale.sizes else _run_together(where, scale)
            count = "" if len(failed) == len(own) else f" ({len(failed)} of {len(own)} trials)"
            words = f"{target}: {status} at {at}{count}"
            failures.append(Failure(row=row, status=str(status), sizes=where, words=words))
    return tuple(failures)


def _run_together(where: Sequence[float], scale: Scale) -> str:
    """Name sizes, neighbours as a range: "4, 64 to 4096"."""
    runs: list[list[float]] = []
    for size in where:
        before = scale.sizes.index(size) - 1
        if runs and before >= 0 and runs[-1][-1] == scale.sizes[before]:
            runs[-1].append(size)
        else:
            runs.append([size])
    return ", ".join(number(r[0]) if len(r) == 1 else f"{number(r[0])} to {number(r[-1])}" for r in runs)


def _set_times(axes: Axes, picture: Picture) -> None:
    times = [t for line in picture.lines for t in (*line.low, *line.high, *line.typical) if math.isfinite(t)]
    times += [time for line in picture.lines for _, time in line.dots]
    if not times:
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_locator(NullLocator())
        axes.text(0.5, 0.5, "no trial finished", transform=axes.transAxes, ha="center", va="center", fontsize=14)
        return
    axes.set_yscale("log")
    bottom, top = min(times) / 1.25, max(times) * 1.25
    if picture.failures:
        top *= (top / bottom) ** 0.14  # room for the marks at the edge
    if any(picture.pairs):
        bottom /= (top / bottom) ** 0.12  # room for the bars
    axes.set_ylim(bottom, top)
    decades = math.log10(top / bottom)
    subs = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if decades < 1 else (1.0, 2.0, 5.0) if decades < 3 else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=20))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.15g}" if value < 1e6 else f"{value:.0e}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _draw_line(axes: Axes, picture: Picture, row: int, colour: Any) -> Line2D:
    line = picture.lines[row]
    style: dict[str, Any] = {"color": colour, "marker": MARKERS[row], "linestyle": DASHES[row]}
    axes.fill_between(picture.sizes, line.low, line.high, color=colour, alpha=0.16, linewidth=0, zorder=2)
    if line.dots:
        dots = pd.DataFrame(line.dots, columns=["size", "time"])
        sns.scatterplot(
            dots,
            x="size",
            y="time",
            ax=axes,
            color=colour,
            marker=MARKERS[row],
            s=30,
            alpha=0.35,
            linewidth=0,
            zorder=3,
            legend=False,
            rasterized=len(dots) > MOST_VECTOR_DOTS,
        )
    axes.plot(picture.sizes, line.typical, **style, linewidth=1.8, markersize=4.5, zorder=4)
    words = f"{line.target}: typical trial; dots: every trial; band: those compared"
    return Line2D([], [], **style, linewidth=2, markersize=6.5, label=wrap(words, LEGEND_CHARACTERS, 3))


def _draw_zones(axes: Axes, picture: Picture) -> list[Patch | Line2D]:
    left, right = axes.get_xlim()
    handles: list[Patch | Line2D] = []
    for zone in picture.zones:
        closed = zone.low is not None and zone.high is not None
        look: dict[str, Any] = {"facecolor": "0.55", "alpha": 0.28, "linewidth": 0}
        if zone.estimate is None:
            look |= {"hatch": "///", "edgecolor": "0.35"}
        axes.axvspan(
            left if zone.low is None else zone.low,
            right if zone.high is None else zone.high,
            zorder=1,
            **look,
        )
        if closed and zone.estimate is not None:
            axes.axvline(zone.estimate, color="0.15", linewidth=1.4, linestyle=(0, (1, 1.5)), zorder=5)
        handles.append(Patch(**look, label=wrap(zone.words, LEGEND_CHARACTERS, 3)))
    return handles


def _draw_pairs(axes: Axes, picture: Picture) -> Line2D:
    """Draw a bar at the bottom for each size: how many pairs were measured there."""
    most = max(picture.pairs)
    heights = [LONGEST_BAR * pairs / most for pairs in picture.pairs]
    look: dict[str, Any] = {"color": "0.35", "linewidth": 2.5}
    axes.vlines(picture.sizes, 0, heights, transform=axes.get_xaxis_transform(), zorder=1.5, **look)
    words = f"pairs at a size: the longest bar is {most}" if most > 1 else "sizes with a pair"
    return Line2D([], [], linestyle="none", marker="|", markersize=10, markeredgewidth=2.5, color="0.35", label=words)


def _draw_failure(axes: Axes, failure: Failure, colour: Any) -> Line2D:
    marker = FAILED_MARKERS.get(failure.status, "x")
    style: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": "none", "markersize": 7}
    axes.plot(
        failure.sizes,
        [EDGE_ROWS[failure.row]] * len(failure.sizes),
        transform=axes.get_xaxis_transform(),
        **style,
        zorder=6,
        clip_on=False,
    )
    return Line2D([], [], **style, label=wrap(failure.words, LEGEND_CHARACTERS, 3))
