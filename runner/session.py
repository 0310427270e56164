"""One run of the command: it goes through plans and searches, and says how their trials have ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from rich.console import Console

from runner.environment import code_version
from runner.executor import Executor
from runner.progress import Progress
from runner.recorded import Recorded
from runner.run import open_trials, run, statuses
from runner.search import Decide, Search
from runner.store import Store
from sweeps.definition import Sweep
from sweeps.record import FAILED
from sweeps.study import LOG
from sweeps.trial import Trial

#: What is said of the trials of a ladder.
LADDER = "Where the time goes"
UNENDED = "The search has not ended; the same command goes on with it."


class Session:
    """What is asked, where its rows go, and who runs its trials."""

    def __init__(
        self,
        asked: Sweep,
        kept: Store,
        open_executor: Callable[[], Executor],
        *,
        source: str | None,
        retried: frozenset[str],
        **settings: Any,
    ) -> None:
        """Begin, and tell of rows that other code has measured.

        Args:
            asked: What is asked.
            kept: Where rows go.
            open_executor: Called when the first trial is to be run; whoever gave it also closes what it returns.
            source: Text of the user's own workload file, None for a family that ships.
            retried: Statuses that are asked again although they are final.
            settings: Further arguments of `runner.run.run`.
        """
        self._asked, self._kept, self._retried = asked, kept, retried
        self._open_executor = open_executor
        self._executor: Executor | None = None
        self._version = code_version(source)
        self._settings = settings
        for warning in kept.warnings:
            print(f"Warning: {warning}", flush=True)
        if others := kept.code_versions - {self._version}:
            print(
                f"Warning: older rows come from other measuring code ({', '.join(sorted(others))}): runner/ or the "
                "workload's own file has changed since. They are kept; another --out measures everything afresh.",
                flush=True,
            )

    def go_through(self, what: str, plan: list[list[Trial]]) -> Counter[str]:
        """Run what is open of a plan; return how all of it has ended."""
        todo = open_trials(plan, self._kept, self._retried)
        size, count = (sum(map(len, pairs)) for pairs in (plan, todo))
        print(f"{what}: {size} trials, {size - count} done before, {count} to run.", flush=True)
        if count:
            self._measure(plan, todo)
        return statuses(plan, self._kept)

    def search(self, decide: Decide) -> tuple[Counter[str], bool]:
        """Look for the sizes that answer the question; return how the trials have ended, and whether the search has."""
        search = Search(self._asked, self._kept, decide, retry=self._retried)
        before = f"{self._asked.name}: {search.done_before} trials done before"
        if search.has_more():
            print(f"{before}, at most {search.at_most} to run (strategy: {self._asked.strategy}).", flush=True)
            self._measure([], [], search)
            print(f"The search ends: {search.stop}." if search.stop else UNENDED, flush=True)
        else:
            print(f"{before}, none to run: {search.stop}.", flush=True)
        return search.statuses(), bool(search.stop)

    def go_against(self, recorded: Recorded) -> Counter[str]:
        """Take over what is recorded, and run what is open on CPUs; return how all trials have ended."""
        recorded.take_into(self._kept, code_version=self._version)
        found = self.go_through(self._asked.name, recorded.pairs)
        if self._asked.explain:
            found += self.go_through(LADDER, recorded.ladder)
        self.sum_up(found)
        return found + recorded.statuses(self._kept)

    def sum_up(self, found: Counter[str]) -> None:
        """Say how the trials have ended, and how to ask those again that have not ended well."""
        counted = ", ".join(f"{number} {status or 'not run'}" for status, number in sorted(found.items()))
        print(f"{found.total()} trials: {counted}.", flush=True)
        if failed := [status for status in sorted(FAILED) if found[status]]:
            again = f"When the cause is mended, ask them again: --retry {','.join(failed)}"
            print(f"{again} (causes: {self._kept.folder}/{LOG})")

    def _measure(self, plan: list[list[Trial]], todo: list[list[Trial]], search: Search | None = None) -> None:
        """Run what is open, and let a person follow."""
        if self._executor is None:
            self._executor = self._open_executor()
        total = search.at_most if search else sum(map(len, todo))
        with (
            self._kept.folder.kept_locally(LOG) as log,
            Progress(Console(), log, total=total, searches=search is not None) as progress,
        ):
            run(
                plan,
                todo,
                self._kept,
                self._executor,
                progress,
                axis=self._asked.axis,
                by_target=self._asked.pairing == "by_target",
                code_version=self._version,
                search=search,
                **self._settings,
            )
