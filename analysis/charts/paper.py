"""What all charts share: the paper, the look, and how a picture becomes a file."""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import matplotlib as mpl
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

TITLE_CHARACTERS, TITLE_LINES = 78, 6
LEGEND_CHARACTERS = 62
#: Of every chart, in inches.
WIDTH = 9.0
TITLE_LINE_HEIGHT = 0.22


@contextmanager
def sheet(title: str, *, height: float, style: str) -> Iterator[tuple[Figure, Axes]]:
    """Give a sheet with a title, to be drawn on while its style is in force.

    Args:
        title: The sentence above the chart; long ones are wrapped, and the sheet grows with them.
        height: Of the sheet with a title of one line, in inches.
        style: Of seaborn's axes styles.
    """
    wrapped = wrap(title, TITLE_CHARACTERS, TITLE_LINES)
    look: Any = {**sns.axes_style(style), "text.parse_math": False, "font.family": "DejaVu Sans"}
    with mpl.rc_context(look):
        size = (WIDTH, height + TITLE_LINE_HEIGHT * wrapped.count("\n"))
        figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
        axes = figure.subplots()
        axes.set_title(wrapped, loc="left", fontsize=11, fontweight="bold", pad=12)
        yield figure, axes


def add_legend(figure: Figure, handles: list[Artist], columns: int) -> None:
    """Put the legend below the chart, where it hides no data."""
    figure.legend(handles=handles, loc="outside lower left", ncols=columns, frameon=False, fontsize=9)


def render(draw: Callable[[], Figure], kind: Literal["svg", "png"]) -> bytes:
    """Return a chart as a file: the same picture gives the same bytes."""
    settings: Any = {"svg.hashsalt": "crossover", "svg.fonttype": "path", "text.parse_math": False}
    about: dict[str, Any] = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}[kind]
    file = io.BytesIO()
    with mpl.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a box is drawn in its place
        draw().savefig(file, format=kind, dpi=144, metadata=about)
    return file.getvalue()


def wrap(text: str, characters: int, lines: int) -> str:
    """Return text on at most so many lines."""
    return "\n".join(textwrap.wrap(text, characters, max_lines=lines, placeholder=" …", break_on_hyphens=False))
