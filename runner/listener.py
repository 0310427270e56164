"""Who hears of a run: progress.py for people who follow a sweep, check/log.py for those who read a log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from runner.executor import Node
from sweeps.record import Record
from sweeps.trial import Trial


class Listener(Protocol):
    """What the driver tells."""

    def say(self, text: str) -> None:
        """Something that people should know."""

    def planned(self, trials: Iterable[Trial]) -> None:
        """These trials are to be run."""

    def started(self, trial: Trial, node: Node) -> None:
        """A trial begins on a node."""

    def waiting(self, targets: Sequence[str], seconds: float) -> None:
        """Trials of these targets wait for a node that serves them."""

    def repeated(self, trial: Trial) -> None:
        """A trial was disturbed by something else on its cores and will be measured once more."""

    def moved(self, trial: Trial, *, again: int) -> None:
        """The node of a trial has gone: its pair, of which so many trials had been begun, is measured elsewhere."""

    def skipped(self, trial: Trial) -> None:
        """A trial cannot be run now, which is no news, or has an answer that is better than none; its row stands."""

    def stored(self, records: list[Record]) -> None:
        """Records are on disk: only now are they reported."""

    def looked_further(self, state: str, reasons: Sequence[str]) -> None:
        """A search has said what it knows, and why the pairs that come next are worth measuring."""
