"""Sizes that are not worth trying: larger than one at which the same trial ran out of memory or time."""

from __future__ import annotations

from collections.abc import Hashable

from sweeps.trial import Trial

#: Statuses after which a larger size would only end the same way, and later.
TOO_LARGE = frozenset({"oom", "timeout"})


class Ceilings:
    """Remembers the smallest size that was too large for each target and configuration."""

    def __init__(self, axis: str) -> None:
        """Look at sizes on this axis; what else differs makes another configuration."""
        self._axis = axis
        self._lowest: dict[Hashable, tuple[float, str]] = {}

    def note(self, trial: Trial, status: str) -> None:
        """Take notice of how a trial has ended."""
        size, key = self._split(trial)
        if status in TOO_LARGE and (key not in self._lowest or size < self._lowest[key][0]):
            self._lowest[key] = size, status

    def cause(self, trial: Trial) -> str:
        """Say why a trial need not be tried; empty if it has to be."""
        size, key = self._split(trial)
        lowest, status = self._lowest.get(key, (size, ""))
        if size <= lowest:
            return ""
        what = {"oom": "ran out of memory", "timeout": "hit the deadline"}[status]
        where = f"{trial.target.name} {what} at {self._axis} {lowest:g}"
        return f"{where} already; --retry {status},skipped_larger asks both again"

    def _split(self, trial: Trial) -> tuple[float, Hashable]:
        others = tuple(sorted((n, v) for n, v in trial.parameters.items() if n != self._axis and v is not None))
        return float(trial.parameters[self._axis] or 0), (trial.target.name, trial.rung, others)
