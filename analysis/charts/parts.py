"""The chart of where the time of a step goes: a bar for each size and target, cut into its parts.

`gather` collects all that is drawn into a value, `draw` puts that value on paper; each can be tested alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter

from analysis.charts.paper import add_legend, sheet
from analysis.explain import PARTS
from analysis.rounding import seconds, share, shown
from analysis.sentence import Topic
from sweeps.ladder import TWIN

#: Parts of a step in the order in which they are drawn, each with its place in the palette; grey is what remains.
STACK = {"loader": 1, "transfer": 0, "sync": 2, "launch": 4, "kernels": None, "rest": None}
#: A bar takes this much height, in inches, and its segments are told from this share on.
BAR_HEIGHT, TOLD_FROM = 0.36, 0.06
#: Height without bars, in inches.
HEIGHT = 1.9


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
class Picture:
    """Everything that the chart of where the time goes shows, from top to bottom."""

    title: str
    bars: tuple[Bar, ...]
    hides_some: bool = False


def gather(parts: pd.DataFrame, topic: Topic, label: str = "") -> Picture:
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
    return Picture(title=title, bars=tuple(bars), hides_some=bool(below))


def draw(picture: Picture) -> Figure:
    """Put the chart of where the time goes on paper."""
    last = picture.bars[-1].place
    with sheet(picture.title, height=HEIGHT + BAR_HEIGHT * (last + 1), style="white") as (figure, axes):
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
        handles: list[Artist] = [drawn[part] for part in STACK if part in drawn]
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
        sns.despine(ax=axes, left=True)
        axes.tick_params(left=False)
        add_legend(figure, handles, columns=3)
    return figure


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
