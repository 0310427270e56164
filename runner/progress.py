"""What a person sees while a sweep runs: a bar on a terminal, plain lines elsewhere, and log.txt for both."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
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
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar
from rich.text import Text

from runner.executor import Node
from sweeps.record import Record, first_line
from sweeps.trial import Trial

#: Answers that are not what was hoped for; shown as they come.
NOTABLE = frozenset({"oom", "timeout", "error", "crashed", "invalid", "node_lost", "unavailable"})


class Progress:
    """Follows one run. Use it as a context manager around `run.run`."""

    def __init__(self, console: Console, log: Path, *, total: int) -> None:
        """Begin to follow.

        Args:
            console: Where people look.
            log: Text file that lines are added to.
            total: Trials to run.
        """
        self._console = console
        self._is_watched = console.is_terminal and not console.is_dumb_terminal and _has_width(console)
        self._total = total
        self._failures = 0
        self._told: set[str] = set()
        self._running: dict[str, str] = {}
        self._bar = Bar(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[failures]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._task = self._bar.add_task("trials", total=total, failures="")
        self._now = Text("", overflow="ellipsis", no_wrap=True)
        self._live = Live(Group(self._bar, self._now), console=console, refresh_per_second=4)
        self._log = logging.Logger("sweep")  # noqa: LOG001  (not in the registry: one a run, and no root handlers)
        handler = logging.FileHandler(log, encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S%z"))
        self._log.addHandler(handler)

    def __enter__(self) -> Self:
        if self._is_watched:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._now.plain = ""
        self._live.stop()
        for handler in self._log.handlers:
            handler.close()

    def say(self, text: str) -> None:
        """Print a line and log it."""
        self._log.info(text)
        if self._is_watched:
            self._console.print(escape(text))
        else:
            print(text, flush=True)

    def started(self, trial: Trial, node: Node) -> None:
        """A trial begins on a node."""
        self._log.info(f"start {trial.trial_id} {trial.label}, on {node.host}")
        self._running[trial.trial_id] = f"{trial.label}, on {node.host}"
        self._show()

    def waiting(self, targets: Sequence[str], seconds: float) -> None:
        """Trials of these targets wait for a node that serves them."""
        self.say(f"No node serves {', '.join(targets)} yet; waiting up to {seconds:g} s for one (--wait)")

    def repeated(self, trial: Trial) -> None:
        """A trial was disturbed by something else on its cores and will be measured once more."""
        self._total += 1
        self._bar.update(self._task, total=self._total)
        self._log.info(f"disturbed {trial.trial_id} {trial.label}: will be measured once more")

    def moved(self, trial: Trial, *, again: int) -> None:
        """The node of a trial has gone: its pair, of which so many trials had been begun, is measured elsewhere."""
        self._total += again
        self._bar.update(self._task, total=self._total)
        self._log.info(f"lost {trial.trial_id} {trial.label}: its pair will be measured on another node")

    def skipped(self, trial: Trial) -> None:
        """A trial cannot be run now, which is no news, or has an answer that is better than none; its row stands."""
        self._bar.advance(self._task)
        self._log.info(f"not run {trial.trial_id} {trial.label}: its row stands")

    def stored(self, records: list[Record]) -> None:
        """Records are on disk: only now are they reported."""
        for record in records:
            label = self._running.pop(record.trial_id, record.target)
            if record.status in NOTABLE:
                self._failures += 1
            self._log.info(f"done {record.trial_id} {record.status} {record.error_message or ''}".rstrip())
            if not self._is_watched:
                print(f"done {record.trial_id} {record.status}", flush=True)
            if record.status in NOTABLE and self._is_new(record):
                self._show_fault(record.status, f"{label}: {first_line(record.error_message)}")
            self._bar.advance(self._task)
        if records:
            self._show()

    def _show_fault(self, status: str, what: str) -> None:
        if self._is_watched:
            self._console.print(f"[bold]{status}[/] {escape(what)}")
        else:
            print(f"{status} {what}", flush=True)

    def _is_new(self, record: Record) -> bool:
        """Whether this fault has not been shown yet: a sweep without a GPU would fill the screen with one line."""
        fault = f"{record.status} {record.target} {first_line(record.error_message)}"
        if fault in self._told:
            return False
        self._told.add(fault)
        return True

    def _show(self) -> None:
        failures = f"[bold]{self._failures} not ok[/]" if self._failures else ""
        self._bar.update(self._task, failures=failures)
        self._now.plain = "\n".join(self._running.values())


def _has_width(console: Console) -> bool:
    """Whether somebody can look: `ray submit` gives a command whose output is piped a terminal of no width."""
    try:
        return os.get_terminal_size(console.file.fileno()).columns > 0
    except (OSError, ValueError):  # no terminal below, as in a recording
        return True
