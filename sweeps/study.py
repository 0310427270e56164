"""A study: the folder in which a sweep keeps its answers. Where things lie, and reading that forgives.

trials/*.parquet   the records, and nothing else
sweep.yaml         the resolved sweep: axis, targets, how many trials were planned
report.html, report.md, crossovers.json, charts/
log.txt            what happened while it ran
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from sweeps.errors import InputError, StudyError, printable
from sweeps.folder import Folder
from sweeps.record import schema

if TYPE_CHECKING:
    from sweeps.definition import Sweep

TRIALS = "trials"
SWEEP = "sweep.yaml"
LOG = "log.txt"


def read_sweep(place: Folder | Path) -> Sweep:
    """Return the sweep that a study answers.

    Raises:
        StudyError: There is no study in the folder, or its sweep.yaml cannot be used.
    """
    from sweeps.sweep_file import read

    folder = Folder.at(place)
    try:
        if not folder.exists():
            raise StudyError(f"{folder}: no such folder; a study is a folder that `python sweep.py` made")
        if not folder.has(SWEEP):
            raise StudyError(f"{folder}: is not a study (it has no {SWEEP}); name a folder such as results/default")
        return read(folder.read(SWEEP), f"{folder}/{SWEEP}")
    except InputError as error:
        raise StudyError(str(error)) from None
    except OSError as error:
        raise StudyError(f"{folder}: cannot be read: {reason(error)}") from None


def read_records(place: Folder | Path, columns: Sequence[str] | None = None) -> tuple[pa.Table, list[str]]:
    """Read every record of a study, whatever else lies in its `trials/`.

    Args:
        place: The study.
        columns: Only these columns; all by default.

    Returns:
        One table, one row an attempt of a trial, and a warning for each file that had to be left out: cut off,
        not Parquet, or Parquet that holds no records of ours. Columns that some files lack are null there.
    """
    folder = Folder.at(place)
    described = schema([])
    parts: list[tuple[str, pa.Table]] = []
    warnings = []
    for name in folder.names(TRIALS):
        if name.startswith("."):
            continue
        where, told = f"{TRIALS}/{name}", f"{TRIALS}/{printable(name)}"
        if PurePosixPath(name).suffix != ".parquet" or not folder.has(where):
            warnings.append(f"{told} is not a Parquet file of this study; it was left out")
            continue
        try:
            part = _read_part(folder, where)
            if not _holds_records(part.schema, described):
                warnings.append(f"{told} holds no records of this program; it was left out")
                continue
            parts.append((told, part))
        except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as error:
            warnings.append(f"{told} is damaged or cut off ({reason(error)}); its rows are lost and it was left out")
    rows = _join(described.empty_table(), parts, warnings)
    return (rows if columns is None else rows.select([c for c in columns if c in rows.column_names])), warnings


def reason(error: BaseException) -> str:
    """Return what an error says, in a few words."""
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return printable(str(said)).split("\n")[0][:120].rstrip(".")


def _join(rows: pa.Table, parts: list[tuple[str, pa.Table]], warnings: list[str]) -> pa.Table:
    """Make one table of all parts; one that does not fit the others is left out with a warning."""
    try:
        return pa.concat_tables([rows, *(part for _, part in parts)], promote_options="permissive")
    except pa.ArrowException:
        for where, part in parts:
            try:
                rows = pa.concat_tables([rows, part], promote_options="permissive")
            except pa.ArrowException as error:
                warnings.append(f"{where} does not fit the other files ({reason(error)}); it was left out")
    return rows


def _read_part(folder: Folder, name: str) -> pa.Table:
    # Every column, whichever are asked for: a part is either used by everybody or by nobody.
    with folder.open(name) as file:
        part = pq.ParquetFile(file, page_checksum_verification=True).read().replace_schema_metadata(None)
    part.validate(full=True)
    return part


def _holds_records(found: pa.Schema, described: pa.Schema) -> bool:
    """Whether columns have our types, the necessary ones are there, and the others can be parameters."""
    kinds = {field.name: field.type for field in found}
    ours = {field.name: field.type for field in described}
    parameters = {kind for name, kind in kinds.items() if name not in ours}
    return (
        {"schema_version", "trial_id", "status", "target"} <= set(kinds)
        and all(kinds[name].equals(kind) for name, kind in ours.items() if name in kinds)
        and parameters <= {pa.int64(), pa.float64(), pa.string()}
    )
