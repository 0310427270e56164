"""Errors that a person can act on. Everything else that escapes is a fault of ours.

    CrossoverError
    ├── InputError    a name, file, key or value that was given is not usable
    ├── StudyError    a study folder cannot be read or written, or holds something else
    └── ClusterError  no Ray, or not the Ray that was asked for

The command prints the message and exits with 2. A trial that fails raises none of these: it becomes a row.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from typing import Any


class CrossoverError(Exception):
    """Root of the tree: the message says what, which value, and what is legal, in one or two lines."""


class InputError(CrossoverError):
    """Something that was typed or written in a sweep file cannot be used."""


class StudyError(CrossoverError):
    """A study folder cannot be read or written, or holds another study."""


class ClusterError(CrossoverError):
    """The cluster that was asked for cannot be reached or started."""


def printable(text: str) -> str:
    """Return text without characters that a terminal obeys: colours, bells, titles; line ends stay."""
    return "".join(letter for letter in text if letter.isprintable() or letter == "\n")


def show(value: Any) -> str:
    """Return a value as a sweep file would hold it, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if not text.isprintable():
        text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean X?" for the nearest known word, or an empty string."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean {near[0]}?" if near else ""
