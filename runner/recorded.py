"""An accelerator's rows of another study, taken over into one whose own machine has none.

A trial's identity is a hash of what is asked, so the rows of the same question have the very identities that a sweep
plans here: taken over, they count as answered, and only the trials on CPUs are run.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runner.run import record_of
from runner.store import Store
from sweeps.axis import values_of
from sweeps.definition import Sweep
from sweeps.errors import InputError, StudyError, printable
from sweeps.folder import Folder
from sweeps.own import short_name
from sweeps.parameter import Value
from sweeps.record import CONTINUED_SINCE, DONE, first_line
from sweeps.study import SWEEP, read_records, read_sweep
from sweeps.target import Target
from sweeps.trial import Trial

FLAG = "--against"
#: A list of sizes longer than this is shortened.
NAMED = 6


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What another study has of the trials that a sweep asks of accelerators.

    Attributes:
        name: What rows and people call that study.
        asked: The sweep, each of its targets by itself.
        rows: Every attempt of these trials that has been answered there, marked as taken over.
        warnings: What could not be read there.
    """

    name: str
    asked: Sweep
    rows: pa.Table
    warnings: tuple[str, ...]

    @cached_property
    def trial_ids(self) -> frozenset[str]:
        """Identities of the trials that are answered there."""
        return frozenset(self.rows.column("trial_id").to_pylist())

    @cached_property
    def pairs(self) -> list[list[Trial]]:
        """The trials of whole steps that are run here: those on CPUs."""
        return _on_cpus(self.asked.pairs())

    @cached_property
    def ladder(self) -> list[list[Trial]]:
        """The trials run here that take steps apart, at the sizes at which that study has taken the accelerator's."""
        every = self.asked.ladder(_every_size(self.asked)) if self.asked.explain else []
        return _on_cpus(pair for pair in every if any(trial.trial_id in self.trial_ids for trial in pair))

    @property
    def told(self) -> str:
        """Whose rows they are, for people."""
        days = sorted({f"{moment:%Y-%m-%d}" for moment in self.rows.column("started_at").to_pylist() if moment})
        when = f" on {days[0]}" + (f" to {days[-1]}" if len(days) > 1 else "") if days else ""
        kinds = sorted({printable(name) for name in self.rows.column("gpu_name").to_pylist() if name})
        targets = ", ".join(sorted(set(self.rows.column("target").to_pylist())))
        return (
            f"Recorded in {self.name}{when}: {len(self.trial_ids)} trials of {targets}"
            f"{' on ' + ' and '.join(kinds) if kinds else ''}. They are taken over, and none of {targets} is run here."
        )

    @cached_property
    def missing(self) -> list[Trial]:
        """The trials of whole steps on accelerators that are not answered there."""
        return [trial for trial in _on_accelerators(self.asked.pairs()) if trial.trial_id not in self.trial_ids]

    def why_missing(self) -> str:
        """Say what is not answered there; empty if nothing is missing."""
        if not (missing := self.missing):
            return ""
        planned = _on_accelerators(self.asked.pairs())
        there = [trial for trial in planned if trial.trial_id in self.trial_ids]
        lacking = []
        for name in self.asked.axes:
            known = {trial.parameters[name] for trial in there}
            if gone := [value for value in values_of(self.asked.axes[name]) if value not in known]:
                lacking.append(f"{name} {_listed(gone)}")
        passes = {trial.pass_index for trial in there}
        if gone_passes := sorted({trial.pass_index for trial in planned} - passes):
            lacking.append(f"pass {_listed([index + 1 for index in gone_passes])}")
        what = f" (nothing at {', '.join(lacking)})" if lacking else ""
        names = ", ".join(dict.fromkeys(trial.target.name for trial in missing))
        return f"{self.name} has no answer for {len(missing)} of {len(planned)} trials of {names}{what}"

    def take_into(self, store: Store, *, code_version: str) -> int:
        """Bring the rows into a study that lacks them, and a row for each trial that is not answered there.

        Args:
            store: The study.
            code_version: Of the code here.

        Returns:
            How many trials were taken over now; those of an earlier run are there already.

        Raises:
            StudyError: The study cannot be written.
        """
        places, attempts = [], []
        for place, row in enumerate(self.rows.select(["trial_id", "attempt"]).to_pylist()):
            status, known, _ = store.final(row["trial_id"])
            attempt = (row["attempt"] or 1) + (0 if status in DONE else known)
            if attempt > known:
                places.append(place)
                attempts.append(attempt)
        new = self.rows.take(pa.array(places, pa.int64()))
        if new.num_rows:
            at = new.column_names.index("attempt")
            store.take(new.set_column(at, new.schema.field("attempt"), pa.array(attempts, pa.int64())), self.name)
        absent = {"status": "unavailable", "error_type": "NotRecorded"}
        absent["error_message"] = f"{self.name}, which this study takes its accelerator's rows from, has none of it"
        for trial in self.missing:
            status, attempt, message = store.final(trial.trial_id)
            if status not in DONE and (status, message) != ("unavailable", absent["error_message"]):
                store.add(record_of(trial, absent, attempt=attempt + 1, code_version=code_version))
        store.flush(now=True)
        return pc.count_distinct(new.column("trial_id")).as_py() if new.num_rows else 0

    def statuses(self, store: Store) -> Counter[str]:
        """Count the accelerator's trials by how they have ended, as `runner.run.statuses` does those that are run."""
        ids = {trial.trial_id for trial in _on_accelerators(self.asked.pairs())} | self.trial_ids
        return Counter(store.final(trial_id)[0] for trial_id in ids)


def find(place: Folder | str, asked: Sweep, out: Folder) -> Recorded:
    """Look for the answers of accelerators that another study has to the trials of a sweep.

    Args:
        place: The recorded study.
        asked: What is asked here.
        out: The study that is to take them over. Nothing is written.

    Raises:
        InputError: The sweep cannot be answered by recorded rows.
        StudyError: The folder is no study, is the very study that is to be written, or has done other work; or the
            study to be written has accelerator rows from elsewhere.
    """
    folder = Folder.at(place)
    if _same(folder, out):
        raise StudyError(f"{FLAG} {folder}: is the study that is written here; choose another --out")
    try:
        other = read_sweep(folder)
    except StudyError as error:
        raise StudyError(f"{FLAG} {error}") from None
    name = name_of(folder)
    if not any(target.needs_accelerator for target in asked.targets):
        raise InputError(
            f"{FLAG} {folder}: none of the targets here ({_names(asked.targets)}) needs an accelerator, so there is "
            f"nothing to take over; it has: {_names(other.targets)}"
        )
    table, warnings = read_records(folder)
    told = tuple(f"{folder}: {warning}" for warning in warnings)
    if not table.num_rows:
        more = f" ({'; '.join(warnings)})" if warnings else ""
        raise StudyError(f"{FLAG} {folder}: no trial has been recorded there{more}")
    if asked.strategy != "grid":
        sizes = _ordered(set(table.column(asked.axis).to_pylist()) - {None}) if asked.axis in table.column_names else []
        raise InputError(
            f"{FLAG} {folder}: strategy: {asked.strategy} looks for sizes of its own, which recorded rows cannot have; "
            f"ask for those that are recorded: --set strategy=grid --set axes.{asked.axis}={','.join(map(str, sizes))}"
        )
    asked = asked.model_copy(update={"pairing": "by_target"})
    known = {target.name: target for target in other.targets}
    for target in asked.targets:
        there = known.get(target.name, target)
        if target.needs_accelerator and target.described != there.described:
            raise StudyError(
                f"{FLAG} {folder}: has not done this work: target {target.name} ({_meaning(target)}) here, "
                f"{_meaning(there)} there"
            )
    planned = _on_accelerators([*asked.pairs(), *(asked.ladder(_every_size(asked)) if asked.explain else [])])
    rows = _answered(table, {trial.trial_id for trial in planned})
    if not rows.num_rows:
        raise StudyError(f"{FLAG} {folder}: {_difference(asked, other, table, planned)}")
    rows = _marked(rows, name)
    _check_origins(out, asked, set(rows.column("recorded_in").to_pylist()))
    return Recorded(name=name, asked=asked, rows=rows, warnings=told)


def name_of(folder: Folder) -> str:
    """Return what a recorded study is called: the last two parts of its place, which name no machine's folders."""
    return printable("/".join(part for part in PurePosixPath(folder.path).parts[-2:] if part != "/"))


def _on_cpus(plan: Iterable[Sequence[Trial]]) -> list[list[Trial]]:
    kept = ([trial for trial in pair if not trial.target.needs_accelerator] for pair in plan)
    return [pair for pair in kept if pair]


def _on_accelerators(plan: Iterable[Sequence[Trial]]) -> list[Trial]:
    return [trial for pair in plan for trial in pair if trial.target.needs_accelerator]


def _every_size(asked: Sweep) -> list[Mapping[str, Value]]:
    every = itertools.product(*map(values_of, asked.axes.values()))
    return [dict(zip(asked.axes, values, strict=True)) for values in every]


def _same(one: Folder, other: Folder) -> bool:
    if one.is_local and other.is_local:
        return os.path.realpath(one.path) == os.path.realpath(other.path)
    return one.filesystem.equals(other.filesystem) and one.path == other.path


def _answered(table: pa.Table, wanted: set[str]) -> pa.Table:
    """Return every attempt of the wanted trials whose final row is an answer."""
    final: dict[str, str] = {}
    for row in sorted(table.select(["trial_id", "status", "attempt"]).to_pylist(), key=lambda row: row["attempt"] or 0):
        final[row["trial_id"]] = row["status"]
    ids = [trial_id for trial_id in wanted if final.get(trial_id) in DONE]
    return table.filter(pc.is_in(table.column("trial_id"), value_set=pa.array(ids, pa.string())))


def _marked(rows: pa.Table, name: str) -> pa.Table:
    """Mark rows as taken over from a study of that name, and as not paired with anything measured here."""
    origins = [origin or name for origin in rows.column("recorded_in").to_pylist()]  # it may have taken them over too
    values = {"recorded_in": origins, "paired": [False] * rows.num_rows}
    for column, marked in values.items():
        place = rows.column_names.index(column)
        rows = rows.set_column(place, rows.schema.field(column), pa.array(marked, rows.schema.field(column).type))
    return rows


def _check_origins(out: Folder, asked: Sweep, origins: set[str]) -> None:
    """Refuse to mix what is recorded in one place with what was recorded in another, or measured here."""
    if not (out.exists() and out.has(SWEEP)):
        return
    names = {target.name for target in asked.targets if target.needs_accelerator}
    rows = read_records(out, ["target", "status", "recorded_in"])[0].to_pylist()
    held = {row["recorded_in"] or "" for row in rows if row["target"] in names and row["status"] in DONE}
    if others := sorted(held - origins):
        whose = ", ".join(f"recorded in {other}" if other else "measured for itself" for other in others)
        raise StudyError(f"--out {out}: has rows of {', '.join(sorted(names))} {whose}; choose another --out")


def _difference(asked: Sweep, other: Sweep, table: pa.Table, planned: Sequence[Trial]) -> str:
    """Say why none of the planned trials is answered by a study: what differs, and what it has."""
    versions = [version for version in table.column("schema_version").to_pylist() if version is not None]
    if versions and max(versions) < CONTINUED_SINCE:
        return f"its rows are of schema {max(versions)}, which names trials in another way: record it again"
    differs: list[str] = []
    for what, here, there in (
        ("workload", short_name(asked.workload), short_name(other.workload)),
        ("seed", asked.seed, other.seed),
    ):
        if here != there:
            differs.append(f"{what} {here} here, {there} there")
    known = {target.name: target for target in other.targets if target.needs_accelerator}
    if not known:
        return f"it has no rows of an accelerator; its targets: {_names(other.targets)}"
    mine = [target for target in asked.targets if target.needs_accelerator]
    alike = [target.name for target in mine if target.name in known]
    if not alike:
        differs.append(f"target {_names(mine)} here, {_names(known.values())} there")
    if not differs:
        differs = _other_parameters(asked, table, [trial for trial in planned if trial.target.name in alike])
    if differs:
        return f"has not done this work: {'; '.join(differs)}"
    wanted = {trial.trial_id for trial in planned}
    ended = Counter(
        f"{row['status']}{': ' + said if (said := first_line(row['error_message'])) else ''}"
        for row in table.select(["trial_id", "status", "error_message"]).to_pylist()
        if row["trial_id"] in wanted
    )
    if ended:
        return f"none of its rows of {', '.join(alike)} is an answer ({ended.most_common(1)[0][0]})"
    return f"has no row of {', '.join(alike)} for these values of {', '.join(asked.axes)} and passes"


def _other_parameters(asked: Sweep, table: pa.Table, planned: Sequence[Trial]) -> list[str]:
    """Say which parameters have values here that no row of the same targets has."""
    names = {trial.target.name for trial in planned}
    rows = table.filter(pc.is_in(table.column("target"), value_set=pa.array(sorted(names), pa.string())))
    if not rows.num_rows:
        return []
    differs = []
    for name in dict.fromkeys(name for trial in planned for name in trial.parameters):
        here = {_stored(trial.parameters.get(name)) for trial in planned}
        there = set(rows.column(name).to_pylist()) if name in rows.column_names else {None}
        if not here & there:
            of_rows = _listed(_ordered(there)) if name in rows.column_names else "no such parameter"
            where = f"axis {name}" if name in asked.axes else name
            differs.append(f"{where} {_listed(_ordered(here))} here, {of_rows} there")
    return differs


def _stored(value: Value | None) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _ordered(values: Iterable[Any]) -> list[Any]:
    return sorted(values, key=lambda value: (value is None, isinstance(value, str), value if value is not None else 0))


def _listed(values: Sequence[Any]) -> str:
    shown = ["null" if value is None else str(value) for value in values]
    if len(shown) > NAMED:
        shown = [*shown[: NAMED - 1], f"{len(shown) - NAMED + 1} more"]
    return printable(", ".join(shown))


def _meaning(target: Target) -> str:
    return ", ".join(f"{key}: {value}" for key, value in target.described.items())


def _names(targets: Iterable[Target]) -> str:
    return ", ".join(target.name for target in targets)
