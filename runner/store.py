"""The writer of a study: records into Parquet parts, each part written beside and renamed into place.

A row counts as reported once it is on disk. One run of the driver writes one open part again and again, until it is
full; so there are few files, and at any moment each is whole.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from runner.claim import LOCK, Claim
from runner.parity import STEPS, Losses, losses_of
from sweeps.errors import InputError, StudyError
from sweeps.folder import UNFINISHED, Folder
from sweeps.own import short_name
from sweeps.parameter import Value
from sweeps.record import COLUMNS, CONTINUED_SINCE, SCHEMA_VERSION, Record, schema, table
from sweeps.study import SWEEP, TRIALS, read_records, read_sweep, reason

if TYPE_CHECKING:
    from sweeps.definition import Sweep

ROWS_PER_PART = 256
SECONDS_BETWEEN_WRITES = 0.5
#: An object store charges for each write, and can be out of reach for a while.
SECONDS_BETWEEN_OBJECTS = 5.0
SECONDS_OUT_OF_REACH = 120.0

#: What a writer has to know of rows that are there.
NOTED = (
    *("trial_id", "pair_id", "rung", "target", "status", "attempt", "error_message", "recorded_in"),
    *("code_version", "device", "precision", "dtype", *STEPS.values()),
)


class Question(Protocol):
    """What a study answers, as far as its writer has to know: a `Sweep`, or what says the same without its packages."""

    @property
    def strategy(self) -> str:
        """How it chooses what to measure; `grid` knows all of it beforehand."""

    @property
    def examples(self) -> Sequence[Mapping[str, Value]]:
        """Parameters that show each type of value that a column of the study can have."""

    def dump(self) -> str:
        """Return the text of its sweep.yaml."""


class Store:
    """Keeps the records of one run of one study."""

    def __init__(self, place: Folder | Path, asked: Question, *, pause_s: float | None = None) -> None:
        """Open the study for writing: make the folder, note the sweep.

        Args:
            place: The study.
            asked: What it answers.
            pause_s: Seconds between two writes at least; None for what the place bears when trials are many.

        Raises:
            StudyError: See `check`; or another run is writing it.
        """
        self.folder = folder = Folder.at(place)
        check(folder, asked)
        usual_s = SECONDS_BETWEEN_WRITES if folder.is_local else SECONDS_BETWEEN_OBJECTS
        self._pause_s = usual_s if pause_s is None else pause_s
        self._open: list[Record] = []  # rows of the open part
        self._written = 0  # how many of them are on disk
        self._rows = pa.table({})  # those that have been made rows of a table
        self._next_write = 0.0
        self._part = self._new_part()
        self.trouble = ""
        """Why rows cannot be written at this moment, for people; empty if they can."""
        try:
            folder.make()
            self._claim = Claim(folder)
            for left in folder.names():
                if left.startswith(UNFINISHED):
                    folder.remove(left)
            joined = _joined(folder, asked)
            folder.write(SWEEP, joined.dump().encode())  # first: it makes the folder a study
            folder.make(TRIALS)
            self._alike = joined.examples
            _widen(folder, schema(self._alike))
            rows, self.warnings = read_records(folder)
        except OSError as error:
            raise StudyError(f"{folder}: cannot be written: {reason(error)}; choose another --out") from None
        self._final: dict[str, tuple[str, int, str]] = {}
        self.code_versions: set[str] = set()
        """Versions of the measuring code that the rows of the study come from."""
        self._losses: defaultdict[tuple[str, str], dict[str, Losses]] = defaultdict(dict)
        for row in _final_rows(rows):
            self._note(row)
        looks = asked.strategy != "grid"  # a grid knows its trials beforehand, and may have very many
        self.earlier = rows if looks else rows.schema.empty_table()
        """For a search: the rows that earlier runs have written, one an attempt of a trial."""
        self._full: list[pa.Table] | None = [] if looks else None  # for a search: the parts that this run has filled

    def close(self) -> None:
        """Let another run have the study."""
        self._claim.release()

    def final(self, trial_id: str) -> tuple[str, int, str]:
        """Return status, attempt and error message of a trial's final row; ("", 0, "") where it has none."""
        return self._final.get(trial_id, ("", 0, ""))

    def losses(self, pair_id: str, rung: str) -> list[Losses]:
        """Return the losses of the trials of a pair that have ended well."""
        return list(self._losses[pair_id, rung].values())

    def add(self, record: Record) -> None:
        """Take a record; `flush` brings it to disk."""
        self._open.append(record)
        self._note({**record.parameters, **vars(record)})

    def added(self) -> pa.Table:
        """Return, for a search, the rows that this run has added, one an attempt of a trial; on disk or not yet."""
        return pa.concat_tables([*(self._full or []), self._open_rows()], promote_options="permissive")

    def take(self, rows: pa.Table, name: str) -> None:
        """Keep rows of another study as a part of their own, whose file is named after it.

        Args:
            rows: Rows of our columns and parameters, ready to lie in this study.
            name: Of the study that they come from.

        Raises:
            StudyError: They cannot be written.
        """
        wanted = {each.name: each for each in schema(self._alike)}
        for place, each in enumerate(rows.schema):
            if each.name in wanted and each.type != wanted[each.name].type:  # whole numbers there, and 1.5 here
                rows = rows.set_column(place, wanted[each.name], rows.column(place).cast(wanted[each.name].type))
        whole = pa.BufferOutputStream()
        pq.write_table(rows.replace_schema_metadata({"schema_version": str(SCHEMA_VERSION)}), whole)
        part = f"{TRIALS}/recorded-{re.sub(r'[^A-Za-z0-9.-]+', '-', name)}-{secrets.token_hex(4)}.parquet"
        try:
            self.folder.write(part, whole.getvalue())
        except OSError as error:
            raise StudyError(f"{self.folder}/{part}: cannot be written: {reason(error)}") from None
        for row in _final_rows(rows):
            self._note(row)

    def flush(self, *, now: bool = False) -> list[Record]:
        """Bring records to disk, if it is time or `now`.

        Returns:
            The records that have become safe by this call.
        """
        with contextlib.suppress(OSError):  # however long no row comes; what cannot be written is noticed below
            self._claim.renew()
        if self._written == len(self._open) or (not now and time.monotonic() < self._next_write):
            return []
        give_up = time.monotonic() + (0.0 if self.folder.is_local else SECONDS_OUT_OF_REACH)
        while not self._write():
            if not now and not self.folder.is_local:
                return []
            if time.monotonic() >= give_up:
                raise StudyError(
                    f"{self.trouble}; what was reported before is safe, and the same command runs the rest"
                )
            time.sleep(SECONDS_BETWEEN_OBJECTS)
        safe = self._open[self._written :]
        self._written = len(self._open)
        if self._written >= ROWS_PER_PART:
            if self._full is not None:
                self._full.append(self._open_rows())
            self._open, self._written, self._rows, self._part = [], 0, pa.table({}), self._new_part()
        return safe

    def _write(self) -> bool:
        """Write the open part; return whether it is there now."""
        whole = pa.BufferOutputStream()
        pq.write_table(self._open_rows(), whole)
        try:
            self.folder.write(self._part, whole.getvalue())
            self.trouble = ""
        except OSError as error:
            self.trouble = f"{self.folder}/{self._part}: cannot be written: {reason(error)}"
        self._next_write = time.monotonic() + self._pause_s
        return not self.trouble

    def _open_rows(self) -> pa.Table:
        """Return the open part as a table; rows that were in it before are not made anew."""
        new = table(self._open[self._rows.num_rows :], self._alike)
        if not self._rows.num_rows:
            self._rows = new
        elif new.schema.equals(self._rows.schema):
            self._rows = pa.concat_tables([self._rows, new])
        else:  # these have a parameter that the others lack
            self._rows = table(self._open, self._alike)
        return self._rows

    def _note(self, row: Mapping[str, Any]) -> None:
        trial_id, status = row["trial_id"], row["status"]
        self._final[trial_id] = (status, row["attempt"] or 0, row["error_message"] or "")
        if row["code_version"] and not row["recorded_in"]:
            self.code_versions.add(row["code_version"])
        of_pair = self._losses[row["pair_id"], row["rung"]]
        of_pair.pop(trial_id, None)
        if status == "ok":
            of_pair[trial_id] = losses_of(row)

    @staticmethod
    def _new_part() -> str:
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        return f"{TRIALS}/{moment}-{secrets.token_hex(4)}.parquet"


def check(place: Folder | Path, asked: Question) -> None:
    """Refuse a folder that this question cannot be answered in, and leave no trace.

    Raises:
        StudyError: The folder cannot be written, or holds another question.
    """
    folder = Folder.at(place)
    try:
        _try_to_write(folder)
        inside = folder.names() if folder.exists() else []
    except OSError as error:
        raise StudyError(f"--out {folder}: cannot be written: {reason(error)}; choose another --out") from None
    if SWEEP not in inside:
        if any(not name.startswith((UNFINISHED, LOCK)) for name in inside):
            raise StudyError(f"--out {folder}: is not empty and not a study; choose another --out")
        return
    if not _is_same(folder, asked):
        _compare(folder, _sweep_of(asked))
    versions = (int((each.metadata or {}).get(b"schema_version", CONTINUED_SINCE)) for _, each in _schemas(folder))
    if old := min((version for version in versions if version < CONTINUED_SINCE), default=None):
        raise StudyError(
            f"--out {folder}: its rows are of schema {old}, which names trials in another way: it can be reported on "
            f"(python -m analysis {folder}) but not continued; choose another --out"
        )


def _joined(folder: Folder, asked: Question) -> Question:
    """Return what a study asks from now on: what it has asked before, and this."""
    if not folder.has(SWEEP) or _is_same(folder, asked):
        return asked
    from sweeps.sweep_file import join

    return join(_sweep_of(asked), read_sweep(folder))


def _is_same(folder: Folder, asked: Question) -> bool:
    """Whether a study asks this to the letter: then nothing has to be read that needs more than a plain Python."""
    try:
        return folder.read(SWEEP) == asked.dump().encode()
    except OSError:  # as whoever reads it then says
        return False


def _sweep_of(asked: Question) -> Sweep:
    from sweeps.definition import Sweep
    from sweeps.sweep_file import read

    return asked if isinstance(asked, Sweep) else read(asked.dump().encode(), SWEEP)


def _compare(folder: Folder, sweep: Sweep) -> None:
    """Raise StudyError if a study holds another question."""
    from sweeps.sweep_file import join

    older = read_sweep(folder)
    differs = {
        "sweep": (older.name, sweep.name),
        "workload": (short_name(older.workload), short_name(sweep.workload)),
        "axes": (", ".join(older.axes), ", ".join(sweep.axes)),
        "parameters": (older.parameters, sweep.parameters),
        "seed": (older.seed, sweep.seed),
    }
    for what, (there, here) in differs.items():
        if there != here:
            raise StudyError(
                f"--out {folder}: holds another study, with {what} {there}, not {here}; choose another --out"
            )
    try:
        join(sweep, older)
    except InputError as error:
        raise StudyError(f"--out {folder}: {error}") from None


def _try_to_write(folder: Folder) -> None:
    """Write something that is gone at once.

    Raises:
        OSError: That cannot be done.
    """
    if folder.is_local:
        nearest = next(place for place in (folder.local, *folder.local.parents) if place.exists())
        with tempfile.TemporaryDirectory(prefix=".crossover-", dir=nearest):
            return  # root may write anywhere, it says, but not below /proc
    name = f"{UNFINISHED}{secrets.token_hex(4)}"
    folder.write(name, b"")
    folder.remove(name)


def _final_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a study as far as they are needed here, the final one of a trial last."""
    known = rows.select([name for name in NOTED if name in rows.column_names])
    return sorted(known.to_pylist(), key=lambda row: row["attempt"] or 0)


def _widen(folder: Folder, wanted: pa.Schema) -> None:
    """Bring parameters in older parts to the types that the study has now, so that all parts are one table.

    An axis of whole numbers to which 1.5 is added becomes double in every part. A part that cannot be read stays as it
    is: readers name it.
    """
    for name, found in _schemas(folder):
        known = [column for column in wanted.names if column in found.names and column not in COLUMNS]
        narrow = [column for column in known if found.field(column).type != wanted.field(column).type]
        if not narrow:
            continue
        with contextlib.suppress(pa.ArrowException):
            with folder.open(name) as file:
                rows = pq.ParquetFile(file).read()
            for column in narrow:
                values = rows.column(column).cast(wanted.field(column).type)
                rows = rows.set_column(rows.column_names.index(column), wanted.field(column), values)
            whole = pa.BufferOutputStream()
            pq.write_table(rows, whole)
            folder.write(name, whole.getvalue())


def _schemas(folder: Folder) -> Iterator[tuple[str, pa.Schema]]:
    """Yield name and schema of each part whose end can be read; the rows themselves are not."""
    for name in folder.names(TRIALS):
        if not name.startswith(".") and name.endswith(".parquet"):
            with contextlib.suppress(pa.ArrowException, OSError), folder.open(f"{TRIALS}/{name}") as file:
                yield f"{TRIALS}/{name}", pq.read_schema(file)
