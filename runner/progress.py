"""What a person sees while a sweep runs: a bar on a terminal, plain lines elsewhere, and log.txt for both."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bar
from rich.text import Text

from runner.executor import Node
from runner.outlook import Outlook, in_words
from sweeps.errors import printable
from sweeps.record import Record, first_line
from sweeps.trial import Trial

#: Answers that are not what was hoped for; shown as they come.
NOTABLE = frozenset({"oom", "timeout", "error", "crashed", "invalid", "node_lost", "unavailable"})
#: The log sums up so often how far it is.
SUM_UP_EVERY_S = 60.0
#: On a narrower terminal the numbers matter more than the bar.
LEAST_FOR_A_BAR = 60


@dataclass(kw_only=True)
class _Place:
    """A node, what has ended there, and what runs there."""

    node: Node
    done: int = 0
    trial_id: str = ""
    now: str = "idle"


class _Log(logging.FileHandler):
    """A file that does without a line that cannot be written: a full disk ends the run by the rows it cannot take."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (the library's own name)
        """Say nothing."""

    def close(self) -> None:
        """Close it, whatever lines are still to be written."""
        with contextlib.suppress(OSError):
            super().close()


class _Lines(logging.Formatter):
    """Lines that a terminal can show; those that a message goes on with are indented, so that they begin nothing."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of an entry."""
        return printable(super().format(record)).replace("\n", "\n    ")


class Progress:
    """Follows one run. Use it as a context manager around `run.run`."""

    def __init__(self, console: Console, log: Path, *, total: int, searches: bool = False) -> None:
        """Begin to follow.

        Args:
            console: Where people look.
            log: Text file that lines are added to.
            total: Trials to run.
            searches: Whether the sweep looks for its own sizes, so that `total` is only what it can come to at most.
        """
        self._console = console
        self._is_watched = console.is_terminal and not console.is_dumb_terminal and _has_width(console)
        self._total, self._done = total, 0
        self._searches, self._state = searches, ""
        self._failures: Counter[str] = Counter()
        self._told: set[str] = set()
        self._begun: dict[str, tuple[str, str]] = {}  # by trial: its label, and where it was begun last
        self._places: dict[str, _Place] = {}  # by node
        self._hosts: Counter[str] = Counter()  # how many of the nodes a host has
        self._outlook = Outlook()
        self._end: float | None = None
        self._sum_up_next = time.monotonic() + SUM_UP_EVERY_S
        self._bar = Bar(
            *([BarColumn(bar_width=24)] if console.width >= LEAST_FOR_A_BAR else []),
            TextColumn("{task.completed} of at most {task.fields[most]}") if searches else MofNCompleteColumn(),
            TextColumn("{task.fields[failures]}"),
            *([TimeElapsedColumn()] if console.width >= LEAST_FOR_A_BAR else []),
            TextColumn("{task.fields[left]}"),
        )
        self._task = self._bar.add_task("trials", total=None if searches else total, most=total, failures="", left="")
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=4)
        self._log = logging.Logger("sweep")  # noqa: LOG001  (not in the registry: one a run, and no root handlers)
        handler = _Log(log, encoding="utf-8")
        handler.setFormatter(_Lines("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S%z"))
        self._log.addHandler(handler)

    def __enter__(self) -> Self:
        if self._is_watched:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        text, nodes = f"Trials by node: {self._by_node()}", len(self._places)
        self._places, self._end = {}, None
        if nodes > 1:
            self.say(text)
        elif nodes:
            self._log.info(text)
        self._live.stop()
        for handler in self._log.handlers:
            handler.close()

    def say(self, text: str) -> None:
        """Print a line and log it."""
        self._log.info(text)
        if self._is_watched:
            self._console.print(escape(text), emoji=False, highlight=False)
        else:
            print(text, flush=True)

    def planned(self, trials: Iterable[Trial]) -> None:
        """These trials are to be run."""
        for trial in trials:
            self._outlook.plan(trial)

    def looked_further(self, state: str, reasons: Sequence[str]) -> None:
        """A search has said what it knows, and why the pairs that come next are worth measuring."""
        for reason in reasons:
            self._log.info(f"next {reason}")
        if state == self._state:
            return
        self._state = state
        if self._is_watched:
            self._log.info(state)
        else:
            self.say(state)

    def started(self, trial: Trial, node: Node) -> None:
        """A trial begins on a node."""
        if node.node_id not in self._places:
            self._places[node.node_id] = _Place(node=node)
            self._hosts[node.host] += 1
        place = self._places[node.node_id]
        trial_id, label = trial.trial_id, trial.label
        place.trial_id, place.now = trial_id, label
        self._begun[trial_id] = label, node.node_id
        self._outlook.begin(trial, node.node_id)
        self._log.info(f"start {trial_id} {label}, on {self._name(place)}")

    def waiting(self, targets: Sequence[str], seconds: float) -> None:
        """Trials of these targets wait for a node that serves them."""
        self.say(f"No node serves {', '.join(targets)} yet; waiting up to {seconds:g} s for one (--wait)")

    def repeated(self, trial: Trial) -> None:
        """A trial was disturbed by something else on its cores and will be measured once more."""
        self._total += 1
        self._outlook.plan(trial)
        self._log.info(f"disturbed {trial.trial_id} {trial.label}: will be measured once more")

    def moved(self, trial: Trial, *, again: int) -> None:
        """The node of a trial has gone: its pair, of which so many trials had been begun, is measured elsewhere."""
        self._total += again
        self._outlook.plan(trial, again)
        self._log.info(f"lost {trial.trial_id} {trial.label}: its pair will be measured on another node")

    def skipped(self, trial: Trial) -> None:
        """A trial cannot be run now, which is no news, or has an answer that is better than none; its row stands."""
        self._done += 1
        self._outlook.plan(trial, -1)
        self._log.info(f"not run {trial.trial_id} {trial.label}: its row stands")

    def stored(self, records: list[Record]) -> None:
        """Records are on disk: only now are they reported."""
        for record in records:
            self._done += 1
            told = self._end_of(record)
            self._log.info(f"done {record.trial_id} {record.status} {record.error_message or ''}".rstrip())
            if not self._is_watched:
                print(f"done {record.trial_id} {record.status}", flush=True)
            if record.status in NOTABLE:
                self._failures[record.status] += 1
                if self._is_new(record):
                    self._show_fault(record.status, f"{told}: {first_line(record.error_message)}")
        if records:
            left_s = None if self._searches else self._outlook.left_s()
            self._end = None if left_s is None else time.monotonic() + left_s
        if time.monotonic() >= self._sum_up_next:
            self._sum_up_next = time.monotonic() + SUM_UP_EVERY_S
            failures, left = self._failures_in_words(), self._left_in_words()
            most = "at most " if self._searches else ""
            parts = [
                f"{self._done} of {most}{self._total} trials",
                self._state,
                failures,
                left,
                f"by node: {self._by_node()}",
            ]
            self._log.info("; ".join(part for part in parts if part))

    def _end_of(self, record: Record) -> str:
        """Take notice of a trial that has ended; return its label and its node, or its target if it never began."""
        self._outlook.end(record)
        label, begun_on = self._begun.get(record.trial_id, (record.target, ""))
        place = self._places.get(record.node_id or begun_on)
        if place is None:
            return label
        if record.status == "node_lost":
            place.now = "lost"
            self._outlook.lose(place.node.node_id)
            return f"{label}, on {self._name(place)}"
        place.done += 1
        if place.trial_id == record.trial_id:
            place.now = "idle"
        return f"{label}, on {self._name(place)}"

    def _show_fault(self, status: str, what: str) -> None:
        if self._is_watched:
            self._console.print(f"[bold]{status}[/] {escape(what)}", emoji=False, highlight=False)
        else:
            print(f"{status} {what}", flush=True)

    def _is_new(self, record: Record) -> bool:
        """Whether this fault has not been shown yet: a sweep without a GPU would fill the screen with one line."""
        fault = f"{record.status} {record.target} {first_line(record.error_message)}"
        if fault in self._told:
            return False
        self._told.add(fault)
        return True

    def _render(self) -> Group:
        """Return what a terminal shows at this moment: the bar, and a line a node."""
        self._bar.update(
            self._task,
            total=None if self._searches else self._total,
            most=self._total,
            completed=self._done,
            failures=f"[bold]{self._failures_in_words()}[/]" if self._failures else "",
            left=self._left_in_words(),
        )
        lines = [self._state] if self._state else []
        lines += [f"{self._name(place)} ({place.done} done): {place.now}" for place in list(self._places.values())]
        return Group(self._bar, Text("\n".join(lines), overflow="ellipsis", no_wrap=True))

    def _failures_in_words(self) -> str:
        return ", ".join(f"{count} {status}" for status, count in sorted(self._failures.items()))

    def _left_in_words(self) -> str:
        return "" if self._end is None else f"about {in_words(max(0.0, self._end - time.monotonic()))} left"

    def _by_node(self) -> str:
        return ", ".join(f"{self._name(place)} {place.done}" for place in self._places.values())

    def _name(self, place: _Place) -> str:
        """Return the host, and which of its nodes it is where it has several."""
        node = place.node
        return node.host if self._hosts[node.host] == 1 else f"{node.host} ({node.node_id[:8]})"


def _has_width(console: Console) -> bool:
    """Whether somebody can look: `ray submit` gives a command whose output is piped a terminal of no width."""
    try:
        return os.get_terminal_size(console.file.fileno()).columns > 0
    except (OSError, ValueError):  # no terminal below, as in a recording
        return True
