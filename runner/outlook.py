"""How long it takes: what trials took that have ended, and what that says of the rest."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from statistics import median
from typing import Any

from sweeps.record import Record
from sweeps.trial import Trial


class Outlook:
    """How long the rest takes, by what has been measured so far."""

    def __init__(self) -> None:
        self._left: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._taken_s: defaultdict[str, float] = defaultdict(float)
        self._nodes: defaultdict[str, set[str]] = defaultdict(set)

    def plan(self, trial: Trial, count: int = 1) -> None:
        """Such trials are to be run, so many more; or fewer, if the number is negative."""
        self._left[trial.target.name] += count

    def begin(self, trial: Trial, node_id: str) -> None:
        """A trial begins on a node, so that node serves its target, and where pairs are measured the others too."""
        for target in self._left if trial.paired else [trial.target.name]:
            self._nodes[target].add(node_id)

    def end(self, record: Record) -> None:
        """A trial has ended."""
        self._left[record.target] -= 1
        if record.started_at and record.finished_at:
            self._ended[record.target] += 1
            self._taken_s[record.target] += (record.finished_at - record.started_at).total_seconds()

    def lose(self, node_id: str) -> None:
        """A node serves nobody any more."""
        for nodes in self._nodes.values():
            nodes.discard(node_id)

    def left_s(self) -> float | None:
        """Return the seconds that the busiest node still has to work, None as long as no trial has ended.

        The trials that are left of a target are shared by the nodes that serve it, each trial at the mean of
        those that have ended; a target that none has ended of is taken to be like the others.
        """
        if not self._ended:
            return None
        of_all_s = sum(self._taken_s.values()) / self._ended.total()
        work: defaultdict[str, float] = defaultdict(float)
        for target, count in self._left.items():
            mean_s = self._taken_s[target] / self._ended[target] if self._ended[target] else of_all_s
            nodes = self._nodes[target] or set().union(*self._nodes.values())
            for node_id in nodes:
                work[node_id] += max(0, count) * mean_s / len(nodes)
        return max(work.values(), default=None)


def durations(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return how long a trial took, by target: the median of those that have ended, in seconds."""
    taken: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        begun, ended = row["started_at"], row["finished_at"]
        if isinstance(begun, datetime) and isinstance(ended, datetime):
            taken[row["target"]].append((ended - begun).total_seconds())
    return {target: median(each) for target, each in taken.items()}


def in_words(seconds: float) -> str:
    """Return a duration as people say it, such as `90 s`, `12 min` or `3.5 h`."""
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    return f"{math.ceil(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
