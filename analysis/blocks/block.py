"""What a block of a report is: an answer as text, with a table and a chart where they help."""

from __future__ import annotations

from dataclasses import dataclass

from analysis import memory, whole_training
from analysis.conclusion import Group
from analysis.frontier import Frontier
from analysis.sentence import Topic


@dataclass(frozen=True, kw_only=True)
class Map:
    """A chart of two axes: what it shows, and what was asked."""

    frontier: Frontier
    axes: tuple[str, str]
    topic: Topic
    title: str
    slug: str


@dataclass(frozen=True, kw_only=True)
class Block:
    """An answer as text.

    Attributes:
        heading: What it is about.
        sentences: The answer, the most important first.
        header: Names of the columns of its table; without a table none.
        rows: The cells of its table.
        notes: What to know about it.
        drawing: What its chart shows, if it has one.
        answers: Whether its first sentence is what the sweep has asked for, and so the verdict in place of the one on
            the time of a step.
    """

    heading: str
    sentences: tuple[str, ...]
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
    drawing: Group | Map | memory.Limits | whole_training.Curves | None = None
    answers: bool = False
