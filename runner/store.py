"""The writer of a study: records into Parquet parts, each part written beside and renamed into place.

A row counts as reported once it is on disk. One run of the driver writes one open part again and again, until it is
full; so there are few files, and at any moment each is whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import socket
import tempfile
import time
import weakref
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from runner.parity import STEPS, Losses, losses_of
from sweeps.definition import Sweep
from sweeps.errors import InputError, StudyError
from sweeps.own import short_name
from sweeps.record import COLUMNS, Record, schema, table
from sweeps.study import SWEEP, TRIALS, read_records, read_sweep
from sweeps.sweep_file import join

ROWS_PER_PART = 256
SECONDS_BETWEEN_WRITES = 0.5
_UNFINISHED = ".writing-"  # prefix of what a killed run may leave behind
_LOCK = ".lock"  # says who writes the study; the claim itself ends with the process


class Store:
    """Keeps the records of one run of one study."""

    def __init__(self, folder: Path, sweep: Sweep) -> None:
        """Open the study for writing: make the folder, note the sweep.

        Raises:
            StudyError: See `check`.
        """
        check(folder, sweep)
        self.folder = folder
        self._open: list[Record] = []  # rows of the open part
        self._written = 0  # how many of them are on disk
        self._last_write = 0.0
        self._part = self._new_part()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.close = weakref.finalize(self, os.close, _lock(folder))  # lets another run have the study
            for left in folder.glob(f"{_UNFINISHED}*"):
                left.unlink()
            joined = join(sweep, read_sweep(folder) if (folder / SWEEP).is_file() else sweep)
            _replace(folder / SWEEP, joined.dump().encode())  # first: it makes the folder a study
            (folder / TRIALS).mkdir(exist_ok=True)
            self._alike = [joined.parameters, *({name: v} for name, values in joined.axes.items() for v in values)]
            _widen(folder, schema(self._alike))
        except OSError as error:
            raise StudyError(f"{folder}: cannot be written: {error.strerror}; choose another --out") from None
        self.warnings, answered = _final_rows(folder)
        self._final: dict[str, tuple[str, int, str]] = {}
        self._losses: defaultdict[tuple[str, str], dict[str, Losses]] = defaultdict(dict)
        for row in answered:
            self._note(row)

    def final(self, trial_id: str) -> tuple[str, int, str]:
        """Return status, attempt and error message of a trial's final row; ("", 0, "") where it has none."""
        return self._final.get(trial_id, ("", 0, ""))

    def losses(self, pair_id: str, rung: str) -> list[Losses]:
        """Return the losses of the trials of a pair that have ended well."""
        return list(self._losses[pair_id, rung].values())

    def add(self, record: Record) -> None:
        """Take a record; `flush` brings it to disk."""
        self._open.append(record)
        self._note(record.row())

    def flush(self, *, now: bool = False) -> list[Record]:
        """Bring records to disk, if it is time or `now`.

        Returns:
            The records that have become safe by this call.
        """
        if self._written == len(self._open):
            return []
        if not now and time.monotonic() - self._last_write < SECONDS_BETWEEN_WRITES:
            return []
        beside = self.folder / f"{_UNFINISHED}{self._part.name}"
        try:
            pq.write_table(table(self._open, self._alike), beside)
            beside.replace(self._part)
        except OSError as error:
            raise StudyError(
                f"{self._part}: cannot be written: {error.strerror}; what was reported before is safe, "
                "and the same command runs the rest"
            ) from None
        self._last_write = time.monotonic()
        safe = self._open[self._written :]
        self._written = len(self._open)
        if self._written >= ROWS_PER_PART:
            self._open, self._written, self._part = [], 0, self._new_part()
        return safe

    def _note(self, row: Mapping[str, Any]) -> None:
        trial_id, status = row["trial_id"], row["status"]
        self._final[trial_id] = (status, row["attempt"] or 0, row["error_message"] or "")
        of_pair = self._losses[row["pair_id"], row["rung"]]
        of_pair.pop(trial_id, None)
        if status == "ok":
            of_pair[trial_id] = losses_of(row)

    def _new_part(self) -> Path:
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        return self.folder / TRIALS / f"{moment}-{secrets.token_hex(4)}.parquet"


def check(folder: Path, sweep: Sweep) -> None:
    """Refuse a folder that this sweep cannot write to, and leave no trace.

    Raises:
        StudyError: The folder cannot be written, or holds another question.
    """
    try:
        nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        with tempfile.TemporaryDirectory(prefix=".crossover-", dir=nearest):
            pass  # root may write anywhere, it says, but not below /proc
    except OSError as error:
        raise StudyError(f"--out {folder}: cannot be written: {error.strerror}; choose another --out") from None
    if not (folder / SWEEP).is_file():
        if folder.is_dir() and any(not each.name.startswith((_UNFINISHED, _LOCK)) for each in folder.iterdir()):
            raise StudyError(f"--out {folder}: is not empty and not a study; choose another --out")
        return
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


def _lock(folder: Path) -> int:
    """Claim the folder for this process, until the returned file descriptor is closed or the process ends.

    Raises:
        StudyError: Another run has it; the message says which.
    """
    held = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        who = os.read(held, 1000).decode(errors="replace").strip() or "another run"
        os.close(held)
        raise StudyError(
            f"--out {folder}: {who} is writing this study at this moment; wait for it, or choose another --out"
        ) from None
    os.ftruncate(held, 0)
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    os.write(held, f"process {os.getpid()} on {socket.gethostname()}, since {since},\n".encode())
    return held


def code_versions(folder: Path) -> set[str]:
    """Return the versions of the measuring code that the rows of a study come from."""
    rows, _ = read_records(folder, ["trial_id", "code_version"])
    return {v for v in rows.column("code_version").to_pylist() if v} if rows.num_rows else set()


def _final_rows(folder: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the rows of a study as far as they are needed here, the final one of a trial last."""
    named = ["trial_id", "pair_id", "rung", "target", "status", "attempt", "error_message", "device", "precision"]
    rows, warnings = read_records(folder, [*named, "dtype", *STEPS.values()])
    return warnings, sorted(rows.to_pylist(), key=lambda row: row["attempt"] or 0)


def _widen(folder: Path, wanted: pa.Schema) -> None:
    """Bring parameters in older parts to the types that the study has now, so that all parts are one table.

    An axis of whole numbers to which 1.5 is added becomes double in every part. A part that cannot be read stays as it
    is: readers name it.
    """
    for path in sorted((folder / TRIALS).glob("*.parquet")):
        with contextlib.suppress(pa.ArrowException):
            rows = pq.ParquetFile(path).read()
            names = [name for name in wanted.names if name in rows.column_names and name not in COLUMNS]
            narrow = [name for name in names if rows.schema.field(name).type != wanted.field(name).type]
            for name in narrow:
                values = rows.column(name).cast(wanted.field(name).type)
                rows = rows.set_column(rows.column_names.index(name), wanted.field(name), values)
            if narrow:
                beside = folder / f"{_UNFINISHED}{path.name}"
                pq.write_table(rows, beside)
                beside.replace(path)


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(f"{_UNFINISHED}{path.name}")
    beside.write_bytes(content)
    beside.replace(path)
