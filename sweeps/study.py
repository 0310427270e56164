"""A study: the folder in which a sweep keeps its answers. Where things lie, and reading that forgives.

trials/*.parquet   the records, and nothing else
sweep.yaml         the resolved sweep: axis, targets, how many trials were planned
report.html, report.md, crossovers.json, charts/
log.txt            what happened while it ran
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sweeps.definition import Sweep, read
from sweeps.errors import InputError, StudyError
from sweeps.record import schema

TRIALS = "trials"
SWEEP = "sweep.yaml"
LOG = "log.txt"


def read_sweep(folder: Path) -> Sweep:
    """Return the sweep that a study answers.

    Raises:
        StudyError: There is no study in the folder, or its sweep.yaml cannot be used.
    """
    if not folder.is_dir():
        raise StudyError(f"{folder}: no such folder; a study is a folder that `python sweep.py` made")
    if not (folder / SWEEP).is_file():
        raise StudyError(f"{folder}: is not a study (it has no {SWEEP}); name a folder such as results/default")
    try:
        return read(folder / SWEEP)
    except InputError as error:
        raise StudyError(str(error)) from None


def read_records(folder: Path, columns: Sequence[str] | None = None) -> tuple[pa.Table, list[str]]:
    """Read every record of a study, whatever else lies in its `trials/`.

    Args:
        folder: The study.
        columns: Only these columns; all by default.

    Returns:
        One table, one row an attempt of a trial, and a warning for each file that had to be left out: cut off,
        not Parquet, or Parquet that holds no records of ours. Columns that some files lack are null there.
    """
    tables, warnings = [], []
    places = sorted((folder / TRIALS).iterdir()) if (folder / TRIALS).is_dir() else []
    for path in places:
        where = f"{TRIALS}/{path.name}"
        if path.name.startswith("."):
            continue
        if path.suffix != ".parquet" or not path.is_file():
            warnings.append(f"{where} is not a Parquet file of this study; it was left out")
            continue
        try:
            part = pq.ParquetFile(path)
            names = part.schema_arrow.names
            if not {"schema_version", "trial_id", "status", "target"} <= set(names):
                warnings.append(f"{where} holds no records of this program; it was left out")
                continue
            wanted = names if columns is None else [name for name in columns if name in names]
            tables.append(part.read(columns=wanted).replace_schema_metadata(None))
        except (pa.ArrowInvalid, OSError) as error:
            reason = str(error).split("\n")[0][:120].rstrip(".")
            warnings.append(f"{where} is damaged or cut off ({reason}); its rows are lost and it was left out")
    if not tables:
        empty = schema([]).empty_table()
        return (empty if columns is None else empty.select([c for c in columns if c in empty.column_names])), warnings
    return pa.concat_tables(tables, promote_options="permissive"), warnings
