"""The charts: time per step against size for both targets with the change and its interval; where that time goes.

`gather` and `gather_parts` collect all that is drawn into a value, `draw` and `draw_parts` put that value on paper;
each can be tested without the other. Only this module knows seaborn and matplotlib, and it is imported only when a
chart is wanted.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from analysis.explain import PARTS, TWIN
from analysis.rounding import Scale, number, seconds, share, shown, time_unit
from analysis.sentence import Topic, ends_of, interval_words, known
from sweeps.families import FAMILIES

MOST_TICKS = 12
#: Share of the axis that a character of a tick label takes, and the least gap between two labels.
TICK_CHARACTER, TICK_GAP = 0.0105, 0.012
TITLE_CHARACTERS, TITLE_LINES = 78, 6
LEGEND_CHARACTERS = 62
#: More dots than this go into the SVG as one picture, so that the file stays small.
MOST_VECTOR_DOTS = 2_000
#: Height of the chart without title and legend, in inches, and its width.
WIDTH, HEIGHT = 9.0, 5.2
#: Two targets differ in colour, brightness, marker and line style, for colour-blind readers and grey paper.
MARKERS, DASHES = ("o", "s"), ("-", (0, (5, 2)))
#: Where sizes without a time are marked, as shares of the chart's height from the bottom.
EDGE_ROWS = (0.975, 0.93)
FAILED_MARKERS = {"timeout": "^", "oom": "X"}


#: Parts of a step in the order in which they are drawn, each with its place in the palette; grey is what remains.
STACK = {"loader": 1, "transfer": 0, "sync": 2, "launch": 4, "kernels": None, "rest": None}
#: A bar of the chart of parts takes this much height, in inches, and its segments are told from this share on.
BAR_HEIGHT, TOLD_FROM = 0.36, 0.06


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
    """

    title: str
    x_label: str
    unit: str
    sizes: tuple[float, ...]
    ticks: tuple[float, ...]
    lines: tuple[Line, Line]
    zones: tuple[Zone, ...]
    failures: tuple[Failure, ...]


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A part of a step in a bar.

    Attributes:
        part: One of `analysis.explain.PARTS`.
        share: Of the whole step, a fraction; none is below 0.
        clear: Whether it is significant, or what remains.
    """

    part: str
    share: float
    clear: bool


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A step of one size on one target.

    Attributes:
        place: From the top, in heights of a bar; sizes stand apart.
        label: Size and target.
        step: Time of the whole step, in words.
        segments: Its parts, from left to right.
    """

    place: float
    label: str
    step: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True, kw_only=True)
class PartsPicture:
    """Everything that the chart of where the time goes shows, from top to bottom."""

    title: str
    bars: tuple[Bar, ...]
    hides_some: bool = False


def gather(
    frame: pd.DataFrame, sizes: pd.DataFrame, crossover: Mapping[str, Any], topic: Topic, sentence: str
) -> Picture:
    """Collect what the chart of one group shows.

    Args:
        frame: The group's rows, one a trial.
        sizes: The group's rows of `analysis.summary.summarise`.
        crossover: The group's row of `analysis.crossovers`.
        topic: What was asked.
        sentence: The verdict in words.
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
        x_label=_axis_label(topic),
        unit=unit,
        sizes=scale.sizes,
        ticks=choose_ticks(scale.sizes),
        lines=(lines[0], lines[1]),
        zones=_zones(crossover, scale),
        failures=_failures(frame, topic, scale),
    )


def draw(picture: Picture) -> Figure:
    """Put a picture on paper."""
    title = _wrapped(picture.title, TITLE_CHARACTERS, TITLE_LINES)
    handles_guess = 2 + len(picture.zones) + len(picture.failures)
    height = HEIGHT + 0.22 * (title.count("\n") + (handles_guess + 1) // 2)
    style: Any = {**sns.axes_style("whitegrid"), "text.parse_math": False, "font.family": "DejaVu Sans"}
    with mpl.rc_context(style):
        figure = Figure(figsize=(WIDTH, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
        axes = figure.subplots()
        colours = sns.color_palette("colorblind", 2)
        _scales(axes, picture)
        handles = _draw_zones(axes, picture)
        handles = [
            *(_draw_line(axes, picture, row, colours[row]) for row in (0, 1) if picture.lines[row].dots),
            *handles,
            *(_draw_failure(axes, failure, colours[failure.row]) for failure in picture.failures),
        ]
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold", pad=12)
        axes.set_xlabel(picture.x_label)
        axes.set_ylabel(f"time per training step ({picture.unit}), lower is better")
        sns.despine(ax=axes)
        figure.legend(
            handles=handles,
            loc="outside lower left",
            ncols=1 if len(handles) == 1 else 2,
            frameon=False,
            fontsize=9,
        )
    return figure


def gather_parts(parts: pd.DataFrame, topic: Topic, label: str = "") -> PartsPicture:
    """Collect what the chart of where the time goes shows.

    Args:
        parts: The rows of `analysis.explain.explain` for one group. What a twin lacks is in the other parts too, so
            it is not drawn.
        topic: What was asked.
        label: What sets the group apart, if there are several.
    """
    bars: list[Bar] = []
    places = {size: 0.4 * place for place, size in enumerate(parts[topic.axis].unique())}
    for (size, target), rows in parts[parts["part"] != TWIN].groupby([topic.axis, "target"], sort=False):
        own = {str(row["part"]): row for row in rows.to_dict("records")}
        bars.append(
            Bar(
                place=len(bars) + places[size],
                label=f"{topic.axis} {shown(size)}, {target}",
                step=seconds(float(rows["step_s"].iloc[0])),
                segments=tuple(
                    Segment(part=part, share=max(own[part]["share"], 0.0), clear=bool(own[part]["significant"]))
                    for part in STACK
                    if part in own
                ),
            )
        )
    title = f"Where a step of {topic.trained} spends its time" + (f" ({label})" if label else "")
    below = parts.loc[parts["part"].isin(list(STACK)), "share"].lt(0).any()
    return PartsPicture(title=title, bars=tuple(bars), hides_some=bool(below))


def draw_parts(picture: PartsPicture) -> Figure:
    """Put the chart of where the time goes on paper."""
    style: Any = {**sns.axes_style("white"), "text.parse_math": False, "font.family": "DejaVu Sans"}
    with mpl.rc_context(style):
        title = _wrapped(picture.title, TITLE_CHARACTERS, TITLE_LINES)
        last = picture.bars[-1].place
        height = 1.9 + BAR_HEIGHT * (last + 1) + 0.22 * title.count("\n")
        figure = Figure(figsize=(WIDTH, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
        axes = figure.subplots()
        palette = sns.color_palette("colorblind")
        drawn: dict[str, Patch] = {}
        for bar in picture.bars:
            left = 0.0
            for segment in bar.segments:
                place = STACK[segment.part]
                colour: Any = ("0.62" if segment.part == "kernels" else "0.82") if place is None else palette[place]
                _draw_segment(axes, bar.place, left, segment, colour)
                left += segment.share
                drawn.setdefault(segment.part, Patch(facecolor=colour, label=PARTS[segment.part][1]))
            axes.text(max(left, 1.0) + 0.012, bar.place, bar.step, va="center", fontsize=9)
        handles = [drawn[part] for part in STACK if part in drawn]
        if not all(segment.clear for bar in picture.bars for segment in bar.segments):
            handles.append(
                Patch(facecolor="white", edgecolor="0.4", hatch="////", label="not significant, or disturbed")
            )
        axes.set_yticks([bar.place for bar in picture.bars], [bar.label for bar in picture.bars])
        axes.set_ylim(last + 0.5, -0.5)
        axes.set_xlim(0, max([1.0, *(sum(segment.share for segment in bar.segments) for bar in picture.bars)]) * 1.1)
        axes.xaxis.set_major_locator(FixedLocator([0, 0.2, 0.4, 0.6, 0.8, 1]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
        hidden = "; parts below 0 are not drawn" if picture.hides_some else ""
        axes.set_xlabel(f"share of a training step; to the right of each bar the time of the whole step{hidden}")
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold", pad=12)
        sns.despine(ax=axes, left=True)
        axes.tick_params(left=False)
        figure.legend(handles=handles, loc="outside lower left", ncols=3, frameon=False, fontsize=9)
    return figure


def render(picture: Picture | PartsPicture, kind: Literal["svg", "png"]) -> bytes:
    """Return the chart as a file: the same picture gives the same bytes."""
    settings: Any = {"svg.hashsalt": "crossover", "svg.fonttype": "path", "text.parse_math": False}
    about: dict[str, Any] = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}[kind]
    paper = io.BytesIO()
    with mpl.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a box is drawn in its place
        figure = draw(picture) if isinstance(picture, Picture) else draw_parts(picture)
        figure.savefig(paper, format=kind, dpi=144, metadata=about)
    return paper.getvalue()


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


def _dots(finished: pd.DataFrame, axis: str) -> list[tuple[float, float]]:
    """Return size and median time per step in seconds of every trial; times of 0 have no place on a log axis."""
    medians = [
        (float(size), float(np.median(times)))
        for size, times in zip(finished[axis], finished["step_times_s"], strict=True)
        if times is not None and len(times)
    ]
    return [(size, time_s) for size, time_s in medians if time_s > 0]


def _positive(times: pd.Series[float]) -> tuple[float, ...]:
    """Return times for a log axis: 0 is "below the clock's resolution" and has no place on it."""
    return tuple(float(time) if time > 0 else math.nan for time in times)


def _axis_label(topic: Topic) -> str:
    family = FAMILIES.get(topic.workload)
    parameter = family.parameters.get(topic.axis) if family else None
    return f"{topic.axis} ({parameter.meaning})" if parameter else topic.axis


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


def _scales(axes: Axes, picture: Picture) -> None:
    low, high = picture.sizes[0], picture.sizes[-1]
    if low > 0:
        axes.set_xscale("log")
        pad = (high / low) ** 0.04 if high > low else 2.0
        axes.set_xlim(low / pad, high * pad)
    else:
        unit = _smallest_positive(picture.sizes)
        axes.set_xscale("symlog", linthresh=unit)
        axes.set_xlim(low - 0.3 * unit, max(high * 1.3, unit))
    axes.xaxis.set_major_locator(FixedLocator(list(picture.ticks)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(round(value, 12))))
    axes.xaxis.set_minor_locator(FixedLocator([size for size in picture.sizes if size not in picture.ticks]))
    axes.xaxis.set_minor_formatter(NullFormatter())
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
    return Line2D([], [], **style, linewidth=2, markersize=6.5, label=_wrapped(words, LEGEND_CHARACTERS, 3))


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
        handles.append(Patch(**look, label=_wrapped(zone.words, LEGEND_CHARACTERS, 3)))
    return handles


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
    return Line2D([], [], **style, label=_wrapped(failure.words, LEGEND_CHARACTERS, 3))


def _draw_segment(axes: Axes, place: float, left: float, segment: Segment, colour: Any) -> None:
    """Draw one part of a bar, pale and hatched where it is not significant, and tell its share where there is room."""
    look: dict[str, Any] = {"color": colour, "edgecolor": "white", "linewidth": 0.8}
    if not segment.clear:
        look |= {"alpha": 0.45, "hatch": "////"}
    axes.barh(place, segment.share, left=left, height=0.7, **look)
    if segment.share >= TOLD_FROM:
        red, green, blue = mpl.colors.to_rgb(colour)
        dark = segment.clear and 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
        axes.text(
            left + segment.share / 2,
            place,
            f"{share(segment.share)} %",
            ha="center",
            va="center",
            fontsize=9,
            color="white" if dark else "0.1",
        )


def _wrapped(text: str, characters: int, lines: int) -> str:
    return "\n".join(textwrap.wrap(text, characters, max_lines=lines, placeholder=" …", break_on_hyphens=False))
