"""What a run would do, said beforehand: `--plan`. Nothing is measured and nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from runner import preflight
from runner.executor import Executor
from runner.local import Local
from runner.outlook import durations
from runner.search import Decide, foresee, rows_that_count, told
from sweeps.definition import Sweep
from sweeps.folder import Folder
from sweeps.record import DONE, schema
from sweeps.study import SWEEP, read_records
from sweeps.trial import Trial


def say_plan(
    asked: Sweep,
    planned: list[list[Trial]],
    folder: Folder,
    executor: Executor | None,
    decide: Decide,
    *,
    retried: frozenset[str],
    accelerators: int,
    wait_s: float,
) -> None:
    """Say what a run would do.

    Args:
        asked: What is asked.
        planned: Its trials, where it is a grid.
        folder: Of the study, which need not exist.
        executor: Who would run them on a cluster; None on this machine.
        decide: Who knows what a search measures next.
        retried: Statuses that are asked again although they are final.
        accelerators: How many this machine has.
        wait_s: How long missing nodes are waited for.
    """
    rows = read_records(folder)[0] if folder.exists() and folder.has(SWEEP) else schema([]).empty_table()
    columns = ["trial_id", "target", "status", "attempt", "started_at", "finished_at"]
    known = rows.select(columns).to_pylist()
    final = {row["trial_id"]: row["status"] for row in sorted(known, key=lambda row: row["attempt"] or 0)}
    if asked.strategy == "grid":
        todo = [[t for t in pair if final.get(t.trial_id) not in DONE - retried] for pair in planned]
        size, count = (sum(map(len, pairs)) for pairs in (planned, todo))
        print(f"{asked.name}: {size} trials, {size - count} done before, {count} to run.")
    else:
        todo = _foreseen(asked, rows, final, decide, retried)
    here = executor or Local(accelerators=accelerators, source=None)
    pairs, by_target = [pair for pair in todo if pair], asked.pairing == "by_target"
    for line in preflight.plan(pairs, here.nodes(), by_target=by_target, seconds=durations(known)):
        print(f"  {line}")
    if asked.explain:
        print("  explain: true adds trials at the sizes that turn out to matter.")
    if executor is not None:
        print(f"  Missing nodes are asked for and waited for, up to {wait_s:g} s (--wait).")


def _foreseen(
    asked: Sweep, rows: pa.Table, final: Mapping[str, Any], decide: Decide, retried: frozenset[str]
) -> list[list[Trial]]:
    """Say what a search would do, and return the pairs that it would begin with."""
    answered = rows_that_count(asked, rows, lambda trial_id: final.get(trial_id, ""), retried)
    done = set(answered.column("trial_id").to_pylist())
    wishes, stop = foresee(asked, answered, decide)
    before = f"{asked.name}: {len(done)} trials done before"
    if not wishes:
        print(f"{before}, none to run: {stop}.")
        return []
    print(f"{before}, at most {max(0, asked.size - len(done))} to run (strategy: {asked.strategy}).")
    sizes = dict.fromkeys(told(wish, named=False) for wish in sorted(wishes, key=lambda each: each.key))
    axes, several = ", ".join(asked.axes), "s" * (len(wishes) > 1)
    print(f"  It begins with {len(wishes)} pair{several} at {axes} {', '.join(sizes)};")
    print("  what follows depends on the answers. So far:")
    pairs = [asked.pair_at(wish.values, wish.pass_index, targets=wish.targets or None) for wish in wishes]
    return [[trial for trial in pair if trial.trial_id not in done] for pair in pairs]
