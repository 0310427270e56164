"""The laptop command: conclusions from a study, where neither torch nor Ray has to be installed."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from analysis import report as reports
from analysis.conclusion import conclude
from analysis.load import load
from sweeps.errors import CrossoverError, StudyError

COMMANDS = ("report",)
#: The root of what typer raises for unusable arguments; it has no public name of its own.
_UsageError: Any = typer.BadParameter.__base__

#: The first character keeps the lines as they are.
EXAMPLES = """\b
Examples:
  python -m analysis results/default                   write the report, print the verdict
  python -m analysis results/default --json | jq .     the same numbers, for a program
  python -m analysis results/default --csv rows.csv    every row, for a spreadsheet"""

app = typer.Typer(
    name="python -m analysis",
    help="Conclude from a study that `python sweep.py` measured. A bare STUDY means `report STUDY`.",
    epilog=EXAMPLES,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def _commands() -> None:
    pass


@app.command(epilog=EXAMPLES)
def report(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="Folder of the study, for example results/default.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print crossovers.json instead of writing a report.")] = False,
    csv: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Also export every row to this file; lists become JSON text."),
    ] = None,
) -> None:
    """Say from what size the challenger wins; write report.html, report.md, crossovers.json and charts/."""
    if csv is not None:
        export_csv(load(study).records, csv)
    if as_json:
        read = load(study)
        sys.stdout.write(reports.to_json(read, conclude(read)))
        return
    written = reports.write(study)
    for warning in written.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for sentence in written.sentences:
        print(sentence)
    print(f"report: {written.paths[0]}")


def export_csv(records: pd.DataFrame, path: Path) -> None:
    """Write every row to a CSV file; a list or a map becomes JSON text.

    Raises:
        StudyError: The file cannot be written.
    """
    flat = records.copy()
    for name in flat.columns:
        if flat[name].dtype == object:
            flat[name] = flat[name].map(_cell)
    try:
        flat.to_csv(path, index=False)
    except OSError as error:
        raise StudyError(f"--csv {path}: cannot be written: {error.strerror or error}") from error


def _cell(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return json.dumps(value.tolist())
    if isinstance(value, list):  # how pandas shows an Arrow map: pairs of key and value
        return json.dumps(dict(value))
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, or 2 for bad input. Any other end is a fault of ours (1)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given:
        app(["--help"], standalone_mode=False)
        return 2
    if given[0] not in (*COMMANDS, "--help"):
        given.insert(0, "report")
    try:
        app(given, standalone_mode=False)
    except CrossoverError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except _UsageError as error:
        print(f"error: {error.format_message()} (python -m analysis --help shows examples)", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
