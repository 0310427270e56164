"""A sweep that looks for its own sizes: between who decides what to measure next, and who measures it.

The analysis decides, from rows to wishes, and knows no trials. The driver runs trials, and knows no reasons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol

import pyarrow as pa

from runner.store import Store
from sweeps.axis import Span
from sweeps.definition import Sweep
from sweeps.ladder import HEADLINE, UNWAITED
from sweeps.parameter import Value
from sweeps.record import DONE, first_line
from sweeps.target import Target
from sweeps.trial import Trial

#: After so many pairs in a row of which a rival could not be had, the rest could not be answered either.
MOST_WITHOUT_RIVAL = 2
#: After so many pairs, in each of which the same rival did not end well, the cause has to be mended first.
MOST_BROKEN = 4
BROKEN = frozenset({"error", "crashed", "invalid"})


class Wish(Protocol):
    """One pair that is to be measured: `analysis.strategy.Wish` is one."""

    @property
    def values(self) -> Mapping[str, Value]:
        """Of all axes."""

    @property
    def pass_index(self) -> int:
        """Which pair at these values, from 0."""

    @property
    def most_steps(self) -> int | None:
        """Timed values of each trial at most."""

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the targets to run; empty for all."""

    @property
    def why(self) -> str:
        """The reason, for people."""

    @property
    def key(self) -> tuple[Any, ...]:
        """What it is told from others by, and what they can be put in order by."""


class Asked(Protocol):
    """What is wanted now: `analysis.strategy.Asked` is one."""

    @property
    def wishes(self) -> Sequence[Wish]:
        """The pairs to begin now."""

    @property
    def stop(self) -> str:
        """Why nothing more is worth measuring; else empty."""

    @property
    def state(self) -> str:
        """What is known so far, in one line."""


#: From rows, wishes under way and the number of free nodes to what is wanted now.
Decide = Callable[[pa.Table, Sequence[Any], int], Asked]


class Search:
    """Follows one search through one run: what it has asked for, what it knows, why it ends."""

    def __init__(self, sweep: Sweep, store: Store, decide: Decide, *, retry: frozenset[str] = frozenset()) -> None:
        """Begin, or go on where an earlier run has stopped.

        Args:
            sweep: What is asked, with a strategy other than `grid`.
            store: What has been answered.
            decide: Who knows what to measure next. Every row that it is given counts as an answer.
            retry: Statuses that are asked again although they are final.
        """
        self._sweep, self._store, self._decide, self._retry = sweep, store, decide, retry
        self._earlier = rows_that_count(sweep, store.earlier, lambda trial_id: store.final(trial_id)[0], retry)
        self._under_way: list[tuple[Wish, frozenset[str]]] = []
        self._asked: list[tuple[Wish, list[Trial]]] = []
        self._begun: set[str] = set()
        self.state = ""
        """What is known so far, and what comes next, in one line; empty before the first question."""
        self.reasons: list[str] = []
        """Why each of the pairs that were handed out last is worth measuring."""
        self.stop = ""
        """Why it has ended; empty as long as it has not."""

    @property
    def targets(self) -> list[Target]:
        """The targets of each of its pairs."""
        return self._sweep.targets

    @property
    def at_most(self) -> int:
        """How many trials this run can come to at most."""
        return max(0, self._sweep.size - self.done_before)

    @property
    def done_before(self) -> int:
        """How many of its trials earlier runs have answered."""
        return len(set(self._earlier.column("trial_id").to_pylist()))

    def has_more(self) -> bool:
        """Whether there is anything to measure at all; where not, `stop` says why."""
        asked = self._decide(self._rows(), [], 1)
        self.state, self.stop = asked.state, asked.stop
        return not self.stop

    def more(self, free: int, under_way: AbstractSet[str]) -> list[list[Trial]]:
        """Return the pairs to begin now, each without the trials that have been answered.

        Args:
            free: How many pairs can begin at once.
            under_way: Identities of the trials that are running, or wait for a node.

        Returns:
            At most `free` pairs. None where answers have to be waited for, and when the search has ended.
        """
        self._under_way = [(wish, ids) for wish, ids in self._under_way if not ids.isdisjoint(under_way)]
        self.reasons = []
        self.stop = self._absence(under_way)  # anew: a repeat of a disturbed trial may have changed what is known
        if self.stop:
            return []
        asked = self._decide(self._rows(), [wish for wish, _ in self._under_way], free)
        self.stop = asked.stop
        pairs: list[list[Trial]] = []
        for wish in asked.wishes:
            pair = self._sweep.pair_at(
                wish.values, wish.pass_index, targets=wish.targets or None, most_steps=wish.most_steps
            )
            ids = frozenset(trial.trial_id for trial in pair)
            busy = {*under_way, *(trial.trial_id for other in pairs for trial in other)}
            trials = [trial for trial in pair if trial.trial_id not in busy and self._is_open(trial)]
            if not trials and ids.isdisjoint(busy):
                self.stop = f"{told(wish)} was asked for although it is measured: a fault of this program"
                continue
            self._under_way.append((wish, ids))
            if trials:
                self._asked.append((wish, trials))
                self._begun |= {trial.trial_id for trial in trials}
                self.reasons.append(f"{told(wish)}: {wish.why}")
                pairs.append(trials)
        following = ", ".join(told(wish, named=False) for wish in asked.wishes)
        self.state = f"{asked.state}; next {following}" if following else asked.state
        return pairs

    def statuses(self) -> Counter[str]:
        """Count its trials, those of earlier runs too, by their final status; "" for one that was not run."""
        ids = {*self._earlier.column("trial_id").to_pylist(), *self._begun}
        return Counter(self._store.final(trial_id)[0] for trial_id in ids)

    def _rows(self) -> pa.Table:
        return pa.concat_tables([self._earlier, self._store.added()], promote_options="permissive")

    def _is_open(self, trial: Trial) -> bool:
        status = self._store.final(trial.trial_id)[0]
        return status not in DONE or (status in self._retry and trial.trial_id not in self._begun)

    def _absence(self, under_way: AbstractSet[str]) -> str:
        """Say that a rival cannot be had, or never ends well, so that nothing can be compared; empty while it can."""
        rivals = (self._sweep.baseline, self._sweep.challenger)
        in_vain, why = 0, ""
        broken: list[tuple[str, str, str]] = []  # of each pair: a rival that did not end well, how, and why
        for wish, trials in self._asked:
            final = {trial.target.name: self._store.final(trial.trial_id) for trial in trials}
            if wish.targets or not under_way.isdisjoint(trial.trial_id for trial in trials):
                continue
            broken += [(n, *final[n][::2]) for n in rivals if final.get(n, ("",))[0] in BROKEN][:1] or [("", "", "")]
            missing = [name for name in rivals if final.get(name, ("",))[0] == "unavailable"]
            in_vain = in_vain + 1 if missing else 0
            why = f"{missing[0]} is not available ({first_line(final[missing[0]][2])})" if missing else ""
        if in_vain >= MOST_WITHOUT_RIVAL:
            return f"{why}; the same command goes on when it is"
        name, status, message = broken[0] if broken else ("", "", "")
        if name and len(broken) >= MOST_BROKEN and all(each[:2] == (name, status) for each in broken):
            return f"{name} ended as {status} in each of the first {len(broken)} pairs ({first_line(message)})"
        return ""


def rows_that_count(
    sweep: Sweep, rows: pa.Table, final: Callable[[str], str], retry: frozenset[str] = frozenset()
) -> pa.Table:
    """Return those rows of earlier runs that answer what is asked now, and need not be asked again.

    Args:
        sweep: What is asked.
        rows: All that there are, one row an attempt of a trial.
        final: From the identity of a trial to its final status.
        retry: Statuses that are asked again although they are final.
    """
    axes = [name for name in sweep.axes if name in rows.column_names]
    targets, rungs = {target.name for target in sweep.targets}, {None, HEADLINE, UNWAITED}
    counts = [
        row["target"] in targets
        and row["rung"] in rungs
        and final(row["trial_id"]) in DONE - retry
        and all(row[name] is None or _holds(sweep, name, row[name]) for name in axes)
        for row in rows.select(["trial_id", "target", "rung", *axes]).to_pylist()
    ]
    return rows.filter(pa.array(counts, pa.bool_()))


def foresee(sweep: Sweep, rows: pa.Table, decide: Decide) -> tuple[list[Wish], str]:
    """Return what a search would begin with on one node, as far as that depends on no answer.

    Args:
        sweep: What is asked.
        rows: What `rows_that_count` returns.
        decide: As `Search` takes it.

    Returns:
        Its wishes; and where there are none, why it would end at once.
    """
    wishes: list[Wish] = []
    asked = decide(rows, wishes, 1)
    while asked.wishes and len(wishes) < sweep.max_pairs:
        wishes += asked.wishes
        asked = decide(rows, wishes, 1)
    return wishes, "" if wishes else asked.stop


def told(wish: Wish, *, named: bool = True) -> str:
    """Return what a wish is for: the values of all axes, `named` or not, and the targets unless they are all."""
    values = ((f"{name} " if named else "", value) for name, value in wish.values.items())
    sizes = [f"{name}{value:.6g}" if isinstance(value, float) else f"{name}{value}" for name, value in values]
    where = f" on {', '.join(wish.targets)}" if wish.targets else ""
    return (", " if named else " x ").join(sizes) + where


def _holds(sweep: Sweep, name: str, stored: Value) -> bool:
    """Whether a value, as rows hold it, is one that an axis has."""
    axis = sweep.axes[name]
    if isinstance(axis, Span):
        return axis.holds(stored)
    return stored in [str(value).lower() if isinstance(value, bool) else value for value in axis]
