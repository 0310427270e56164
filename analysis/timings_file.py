"""A file of measurements by somebody else, read strictly: every cell lies under the name that its column has.

What cannot be read for certain is refused by row and column; nothing is shifted, guessed or repaired.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.question import Bools, Floats, Ints
from analysis.rounding import shown
from sweeps.errors import InputError, did_you_mean, show

PARQUET_MAGIC = b"PAR1"
#: How files spell a number that is not there, in small letters.
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none"})
#: Names or values beyond this many are counted instead of listed.
LISTED = 8


@dataclass(frozen=True, kw_only=True)
class Table:
    """The cells of a file.

    Attributes:
        path: The file.
        cells: One column a column of the file: text from a CSV file, without the spaces around it; typed from Parquet.
        lines: The line of a CSV file on which each row ends; empty for Parquet.
    """

    path: Path
    cells: pd.DataFrame
    lines: Ints

    def row(self, index: int) -> str:
        """Say which row this is, as a person would look it up."""
        return f"row {index + 1}" + (f" (line {self.lines[index]})" if len(self.lines) else "")

    def check(self, option: str, name: str) -> None:
        """Refuse a column that the file does not have.

        Raises:
            InputError: There is no such column.
        """
        names = [str(column) for column in self.cells.columns]
        if name in names:
            return
        near = did_you_mean(name, names) or f" It has: {few(names)}."
        raise InputError(f"{self.path}: no column is named {show(name)} ({option}).{near}")

    def text(self, name: str) -> npt.NDArray[np.object_]:
        """Return a column as text, None where nothing is; numbers as people write them."""
        column = self.cells[name]
        if len(self.lines):  # of a CSV file: text already
            cells = column.to_numpy(dtype=object, copy=True)
            cells[cells == ""] = None
            return cells
        texts = [
            None if missing else shown(value).strip() or None
            for value, missing in zip(column.tolist(), column.isna().tolist(), strict=True)
        ]
        return np.array(texts, dtype=object)

    def numbers(self, option: str, name: str, wanted: Bools) -> Floats:
        """Return a column as numbers; NaN where a row has none, or is not wanted.

        Args:
            option: Where the name came from, for the message.
            name: The column.
            wanted: The rows that count; what stands in the others does not matter.

        Raises:
            InputError: A cell is not a number, or not finite.
        """
        column = self.cells[name]
        if pd.api.types.is_bool_dtype(column) or not (
            pd.api.types.is_numeric_dtype(column) or pd.api.types.is_string_dtype(column) or column.dtype == object
        ):
            raise InputError(f"{self.path}: column {show(name)} ({option}) has type {column.dtype}, not numbers")
        if pd.api.types.is_numeric_dtype(column):
            values = column.to_numpy(dtype=np.float64, na_value=np.nan)
            empty = np.isnan(values)
        else:
            texts = pd.Series(self.text(name), dtype=object)
            values = pd.to_numeric(texts, errors="coerce").to_numpy(dtype=np.float64)
            empty = np.isnan(values)
            empty[empty] = [text is None or text.lower() in MISSING for text in texts[empty].tolist()]
        for bad, why in ((np.isnan(values) & ~empty, "is not a number"), (np.isinf(values), "is not finite")):
            self.refuse(bad & wanted, name, why)
        return np.where(wanted, values, np.nan)

    def refuse(self, bad: Bools, name: str, why: str) -> None:
        """Refuse the file for a cell, if any is bad.

        Raises:
            InputError: Naming the first bad cell, and how many more there are.
        """
        found = np.flatnonzero(bad)
        if not found.size:
            return
        first, more = int(found[0]), found.size - 1
        value = self.cells[name].iloc[first]
        cell = show(value if isinstance(value, str) else shown(value))
        others = f"; nor can {more} more row{'s' * (more > 1)} there be used" if more else ""
        raise InputError(f"{self.path}: {self.row(first)}, column {show(name)}: {cell} {why}{others}")


def read_table(path: Path) -> Table:
    """Read a CSV or Parquet file; which of them it is, its first bytes say.

    Args:
        path: CSV is UTF-8 with commas, and names in its first line.

    Raises:
        InputError: The file cannot be read, is empty, is neither of the two, or has rows that do not fit its header.
    """
    try:
        with path.open("rb") as file:
            parquet = file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC
        return _read_parquet(path) if parquet else _read_csv(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def few(names: Collection[str]) -> str:
    """List names for a message, shortened where there are many."""
    listed = [str(name) for name in names]
    return ", ".join(listed[:LISTED]) + (f" and {len(listed) - LISTED} more" if len(listed) > LISTED else "")


def _read_parquet(path: Path) -> Table:
    try:
        with pq.ParquetFile(path) as file:
            table = file.read()
    except pa.ArrowException as error:
        raise InputError(f"{path}: is a damaged Parquet file: {' '.join(str(error).split())}") from error
    _check_header(path, table.column_names)
    if table.num_rows == 0:
        raise InputError(f"{path}: has no rows")
    return Table(path=path, cells=table.to_pandas(ignore_metadata=True), lines=np.empty(0, dtype=np.int64))


def _read_csv(path: Path) -> Table:
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(
            f"{path}: line {line} is not UTF-8 (byte {content[error.start]:#04x}); save it as UTF-8"
        ) from None
    if "\0" in text:
        raise InputError(f"{path}: holds zero bytes: neither CSV in UTF-8 nor Parquet")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows, lines = [], []
    try:
        for cells in reader:
            if cells:  # not an empty line
                rows.append(list(map(str.strip, cells)))
                lines.append(reader.line_num)
    except csv.Error as error:
        raise InputError(f"{path}: line {reader.line_num} is not CSV: {error}") from error
    if not rows:
        raise InputError(f"{path}: is empty")
    header, rows, lines = rows[0], rows[1:], lines[1:]
    _check_header(path, header)
    if not rows:
        raise InputError(f"{path}: has a header and no rows")
    table = Table(path=path, cells=pd.DataFrame(index=range(len(rows))), lines=np.array(lines, dtype=np.int64))
    _check_widths(table, header, rows)
    names = [name or f"(column {number})" for number, name in enumerate(header, 1)]
    return Table(path=path, cells=pd.DataFrame(rows, columns=names, dtype=object), lines=table.lines)


def _check_header(path: Path, names: Sequence[str]) -> None:
    for number, name in enumerate(names):
        if name and name in names[:number]:
            first = names.index(name) + 1
            raise InputError(
                f"{path}: columns {first} and {number + 1} are both named {show(name)}; rename one of them"
            )


def _check_widths(table: Table, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    ragged = [index for index, cells in enumerate(rows) if len(cells) != len(header)]
    if not ragged:
        return
    width, others = len(rows[ragged[0]]), len(ragged) - 1
    more = f", and {others} more row{'s do' if others > 1 else ' does'} not fit either" if others else ""
    raise InputError(
        f"{table.path}: {table.row(ragged[0])} has {width} values under {len(header)} column names{more}.\n"
        "Nothing was read, since values may stand under the wrong name; a comma inside a value needs quotes around it."
    )
