"""The chart of a frontier: which target is faster, and by how much, over two axes of sizes.

`gather` collects all that is drawn into a value, `draw` puts that value on paper; each can be tested alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from analysis.charts.paper import LEGEND_CHARACTERS, add_legend, sheet, wrap
from analysis.charts.sizes import axis_label, choose_ticks
from analysis.frontier import Frontier
from analysis.rounding import number, times
from analysis.sentence import Topic, ends_of, known

#: Height without rows of cells, and what a row adds, in inches.
HEIGHT, ROW_HEIGHT, LEAST_ROWS = 2.3, 0.34, 5
#: Where in a cell its factor is written, from the bottom: below the line of an interval.
TEXT_AT = 0.22
#: From this factor on colours do not get darker.
STRONGEST = 8.0
#: Shares of a target's full colour: enough to tell the winner by, and not so much that the factor cannot be read.
PALEST, DARKEST = 0.18, 0.75
#: With more cells than this in a row their factors are not written into them.
MOST_TOLD = 14
UNDECIDED_HATCH, INFERRED_HATCH, FAILED_HATCH = "////", "....", "xxx"
#: A cell that was not measured because those around it agree is as pale as this, and without a factor.
SURROUNDED_SHADE = 0.12


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One pair of sizes.

    Attributes:
        x: Size on the horizontal axis.
        y: Size on the vertical axis.
        kind: How it is known: measured, inferred (the faster target is known, by how much is not), surrounded (not
            measured: those around it agree), failed, unmeasured.
        lead: ln(how many times the challenger is faster), below 0 where the baseline is; NaN where not known.
        winner: baseline, challenger, or empty where neither is known to be faster.
    """

    x: float
    y: float
    kind: Literal["measured", "inferred", "surrounded", "failed", "unmeasured"]
    lead: float
    winner: str


@dataclass(frozen=True, kw_only=True)
class Span:
    """Where along x the winner changes at one y; `estimate` is None where that cannot be said."""

    y: float
    low: float
    high: float
    estimate: float | None


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Everything that the chart shows."""

    title: str
    x_label: str
    y_label: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    targets: tuple[str, str]
    cells: tuple[Cell, ...]
    spans: tuple[Span, ...]
    contour: tuple[tuple[tuple[float, float], ...], ...]


def gather(frontier: Frontier, *, axes: tuple[str, str], topic: Topic, title: str) -> Picture:
    """Collect what the chart of one frontier shows.

    Args:
        frontier: What `analysis.frontier.frontier` found.
        axes: Names of the horizontal and the vertical axis.
        topic: What was asked.
        title: Its sentence.
    """
    across, up = axes
    cells = tuple(
        Cell(
            x=float(row[across]),
            y=float(row[up]),
            kind=row["cell"],
            lead=-float(row["log_ratio"]),
            winner=row["state"] if row["state"] in ("baseline", "challenger") else "",
        )
        for row in frontier.cells.to_dict("records")
    )
    spans = []
    for row in frontier.along.to_dict("records"):
        for change in row["changes"] or [row]:
            low, high = ends_of(change)
            if low is not None and high is not None:
                spans.append(Span(y=float(row[up]), low=low, high=high, estimate=known(change, "estimate")))
    return Picture(
        title=title,
        x_label=axis_label(across, topic),
        y_label=axis_label(up, topic),
        xs=tuple(sorted({cell.x for cell in cells})),
        ys=tuple(sorted({cell.y for cell in cells})),
        targets=(topic.baseline, topic.challenger),
        cells=cells,
        spans=tuple(spans),
        contour=tuple(tuple((float(x), float(y)) for x, y in line) for line in frontier.contour),
    )


def draw(picture: Picture) -> Figure:
    """Put a picture on paper."""
    height = HEIGHT + ROW_HEIGHT * max(len(picture.ys), LEAST_ROWS)
    with sheet(picture.title, height=height, style="white") as (figure, axes):
        colours = [to_rgb(colour) for colour in sns.color_palette("colorblind", 2)]
        shades = LinearSegmentedColormap.from_list("lead", [colours[0], (1, 1, 1), colours[1]])
        rows, columns = _edges(picture.ys), _edges(picture.xs)
        told = len(picture.xs) <= MOST_TOLD
        for cell in picture.cells:
            left, right = columns[picture.xs.index(cell.x)]
            bottom, top = rows[picture.ys.index(cell.y)]
            _draw_cell(axes, cell, (left, bottom, right, top), shades, told=told)
        for line in picture.contour:
            axes.plot(*zip(*line, strict=True), color="0.1", linewidth=1.6, zorder=5)
        for span in picture.spans:
            axes.plot([span.low, span.high], [span.y, span.y], color="0.1", linewidth=1.0, zorder=6)
            if span.estimate is not None:
                axes.plot([span.estimate], [span.y], color="0.1", marker="|", markersize=9, zorder=6)
        axes.set(
            xscale="log" if picture.xs[0] > 0 else "linear",
            yscale="log" if picture.ys[0] > 0 else "linear",
        )
        for axis, ticks in ((axes.xaxis, choose_ticks(picture.xs)), (axes.yaxis, picture.ys)):
            axis.set_major_locator(FixedLocator(list(ticks)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: number(round(value, 12))))
            axis.set_minor_locator(NullLocator())
        axes.set_xlim(columns[0][0], columns[-1][1])
        axes.set_ylim(rows[0][0], rows[-1][1])
        axes.set_xlabel(picture.x_label)
        axes.set_ylabel(picture.y_label)
        add_legend(figure, _legend(picture, colours), columns=2)
    return figure


def _edges(sizes: Sequence[float]) -> list[tuple[float, float]]:
    """Return where the cell of each size begins and ends: half way to its neighbours, on the axis as it is drawn."""
    is_log = sizes[0] > 0
    places = np.log(sizes) if is_log else np.asarray(sizes, dtype=float)
    if len(places) == 1:
        bounds = np.array([places[0] - 0.5, places[0] + 0.5])
    else:
        middles = (places[1:] + places[:-1]) / 2
        bounds = np.concatenate([[2 * places[0] - middles[0]], middles, [2 * places[-1] - middles[-1]]])
    values = np.exp(bounds) if is_log else bounds
    return list(zip(values[:-1].tolist(), values[1:].tolist(), strict=True))


def _draw_cell(
    axes: Axes,
    cell: Cell,
    box: tuple[float, float, float, float],
    shades: LinearSegmentedColormap,
    *,
    told: bool,
) -> None:
    """Draw a cell: its colour tells who is faster and by how much, its pattern how that is known."""
    left, bottom, right, top = box
    look: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.8, "facecolor": "white"}
    words = ""
    if cell.kind == "measured" and math.isfinite(cell.lead):
        strength = min(1.0, abs(cell.lead) / math.log(STRONGEST))
        shade = math.copysign(PALEST + (DARKEST - PALEST) * strength, cell.lead)
        look["facecolor"] = shades(0.5 + 0.5 * shade)
        words = times(math.exp(abs(cell.lead)))
        if not cell.winner:
            look |= {"hatch": UNDECIDED_HATCH, "edgecolor": "0.75"}
    elif cell.kind in ("measured", "inferred") and cell.winner:
        look |= {"facecolor": shades(0.25 if cell.winner == "baseline" else 0.75), "hatch": INFERRED_HATCH}
    elif cell.kind == "surrounded":
        shade = SURROUNDED_SHADE if cell.winner == "challenger" else -SURROUNDED_SHADE
        look |= {"facecolor": shades(0.5 + 0.5 * shade)}
    elif cell.kind == "unmeasured":
        look |= {"edgecolor": "0.85"}
        words = "·"
    else:
        look |= {"facecolor": "0.9", "hatch": FAILED_HATCH, "edgecolor": "0.7"}
    axes.add_patch(Rectangle((left, bottom), right - left, top - bottom, zorder=1, **look))
    if told and words:
        axes.text(
            math.sqrt(left * right) if left > 0 else (left + right) / 2,
            bottom ** (1 - TEXT_AT) * top**TEXT_AT if bottom > 0 else bottom + TEXT_AT * (top - bottom),
            words,
            ha="center",
            va="center",
            fontsize=8,
            color="0.1" if cell.winner or cell.kind == "unmeasured" else "0.35",
            zorder=4,
        )


def _legend(picture: Picture, colours: Sequence[Any]) -> list[Artist]:
    """Explain what is on this chart, and nothing that is not."""
    measured = [cell for cell in picture.cells if cell.kind == "measured" and math.isfinite(cell.lead)]
    kinds = {cell.kind for cell in picture.cells}
    handles: list[Artist] = [
        Patch(facecolor=colour, label=f"{name} faster, by the factor in the cell")
        for colour, name in zip(colours, picture.targets, strict=True)
    ]
    if any(not cell.winner for cell in measured):
        handles.append(Patch(facecolor="white", edgecolor="0.6", hatch=UNDECIDED_HATCH, label="too close to call"))
    for kind, hatch, words in (
        ("inferred", INFERRED_HATCH, "who is faster is known, by how much is not"),
        ("surrounded", "", "pale, without a factor: not measured, those around it agree"),
        ("failed", FAILED_HATCH, "tried, and not comparable"),
        ("unmeasured", "", "· planned, not measured"),
    ):
        if kind in kinds:
            look: dict[str, Any] = {"facecolor": "0.95", "edgecolor": "0.5", "hatch": hatch}
            handles.append(Patch(**look, label=wrap(words, LEGEND_CHARACTERS, 2)))
    if picture.spans:
        handles.append(
            Line2D([], [], color="0.1", linewidth=1.0, marker="|", markersize=9, label="change in a row, 95 % interval")
        )
    if picture.contour:
        handles.append(Line2D([], [], color="0.1", linewidth=1.6, label="change, between the measured cells"))
    return handles
