"""The laptop command: conclusions from a study, where neither torch nor Ray has to be installed."""

from __future__ import annotations

import csv as csv_text
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from analysis import predict as predictions
from analysis import report as reports
from analysis import rule as rules
from analysis import timings_text
from analysis.conclusion import conclude
from analysis.load import load
from analysis.timings import Reading, Unit, conditions, read_timings
from sweeps.errors import CrossoverError, InputError, StudyError, printable, show
from sweeps.folder import Folder

COMMANDS = ("report", "timings", "predict")
#: The root of what typer raises for unusable arguments; it has no public name of its own.
_UsageError: Any = typer.BadParameter.__base__

#: The first character keeps the lines as they are.
EXAMPLES = """\b
Examples:
  python -m analysis results/default                   write the report, print the verdict
  python -m analysis results/default --json | jq .     the same numbers, for a program
  python -m analysis results/default --csv rows.csv    every row, for a spreadsheet"""

TIMINGS_EXAMPLES = """\b
Examples, for a file of rows such as "device,batch,ms" and one such as "rows,cpu_s,gpu_s":
  python -m analysis timings one.csv --axis batch --target device --time ms
      --unit ms --baseline cpu --challenger gpu
  python -m analysis timings two.csv --axis rows --wide cpu_s,gpu_s
      --baseline cpu --challenger gpu"""

PREDICT_EXAMPLES = """\b
Examples:
  python -m analysis predict results/default batch_size=300
  python -m analysis predict results/tutorial batch_size=300 features=100 --json
  python -m analysis predict results/default --rule rule.json"""

app = typer.Typer(
    name="python -m analysis",
    help=(
        "Conclude from a study that `python sweep.py` measured, or from timings of any other origin; "
        "say which target to use at a size. "
        "A bare STUDY means `report STUDY`."
    ),
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
    study: Annotated[
        str, typer.Argument(metavar="STUDY", help="The study: results/default, or s3://bucket/studies/default.")
    ],
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
        print(f"Warning: {warning}", file=sys.stderr)
    for sentence in written.sentences:
        print(sentence)
    print(f"Report: {Folder.at(study)}/{written.files[0]}")


@app.command(epilog=TIMINGS_EXAMPLES)
def timings(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV or Parquet, one row a measurement.")],
    axis: Annotated[str, typer.Option("--axis", metavar="COL", help="Column of sizes.")],
    baseline: Annotated[str, typer.Option("--baseline", metavar="A", help="Target to beat, as the file names it.")],
    challenger: Annotated[str, typer.Option("--challenger", metavar="B", help="Target that may beat it.")],
    target: Annotated[str, typer.Option("--target", metavar="COL", help="Column of targets.")] = "target",
    time: Annotated[str, typer.Option("--time", metavar="COL", help="Column of times.")] = "seconds",
    unit: Annotated[Unit, typer.Option("--unit", help="Unit of the times.")] = Unit.S,
    per: Annotated[
        str | None, typer.Option("--per", metavar="COL", help="Divide times by this column, such as iterations.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option("--rate", metavar="COL", help="Column of rates instead of times; higher is better.")
    ] = None,
    passes: Annotated[
        str | None,
        typer.Option(
            "--pass",
            metavar="COL",
            help="Column, or several, that tells runs apart. Rows of one run are its steps; runs of both targets with "
            "one name are a pair.",
        ),
    ] = None,
    status: Annotated[
        str | None, typer.Option("--status", metavar="COL", help="Column that says ok, timeout, oom, error, ...")
    ] = None,
    group_by: Annotated[
        str | None, typer.Option("--group-by", metavar="a,b", help="Columns; one verdict for each combination.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="col=value,...",
            help="Rows to keep (col!=value: to leave out). Values of one column are alternatives.",
        ),
    ] = None,
    wide: Annotated[
        str | None,
        typer.Option("--wide", metavar="BASECOL,CHALCOL", help="Columns of the two times, where a row holds both."),
    ] = None,
    exponent: Annotated[
        float | None, typer.Option("--exponent", metavar="BASE", help="The axis holds exponents of this base.")
    ] = None,
    resolution_s: Annotated[
        float | None,
        typer.Option("--resolution", metavar="SECONDS", help="Times below it are below the clock's resolution."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the form of crossovers.json.")] = False,
) -> None:
    """Say from what size the challenger wins, from timings of any origin."""
    if rate is not None and time != "seconds":
        raise InputError(f"--rate {show(rate)} and --time {show(time)}: give one of them")
    pair = _parts(wide)
    if wide is not None and len(pair) != 2:
        raise InputError(f"--wide {show(wide)}: name two columns, the baseline's and the challenger's")
    read = read_timings(
        file,
        Reading(
            axis=axis,
            baseline=baseline,
            challenger=challenger,
            target=target,
            time=time,
            unit=unit,
            per=per,
            rate=rate,
            passes=_parts(passes),
            status=status,
            group_by=_parts(group_by),
            where=conditions([_parts(text) for text in where or ()]),
            wide=(pair[0], pair[1]) if pair else None,
            exponent=exponent,
            resolution_s=resolution_s,
        ),
    )
    if as_json:
        sys.stdout.write(timings_text.to_json(read))
        return
    told = timings_text.tell(read)
    for warning in read.warnings:
        print(f"Warning: {warning}", file=sys.stderr)
    sys.stdout.write(told)


@app.command(epilog=PREDICT_EXAMPLES)
def predict(
    study: Annotated[
        str, typer.Argument(metavar="STUDY", help="The study: results/default, or s3://bucket/studies/default.")
    ],
    values: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...",
            help="The size, by the name of the axis; a value for each other axis; machine=... where there are several.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a sentence.")] = False,
    rule: Annotated[
        Path | None,
        typer.Option("--rule", metavar="FILE.json", help="Write a table of which target to use, for use in code."),
    ] = None,
) -> None:
    """Say which target to use at a size and by what factor, inside the range that was measured."""
    given = _values(values or [])
    read = load(study)
    if read.sweep.strategy == "largest":
        raise StudyError(f"{study}: looked for what fits into memory (strategy: largest), and compared no times")
    if rule is not None:
        rules.write(read, rule)
    if given or rule is None:
        found = predictions.predict(read, given)
        print(predictions.to_json(found) if as_json else found.sentence)
    if rule is not None and not as_json:
        print(f"Rule: {rule}")


def _values(texts: Sequence[str]) -> dict[str, str]:
    """Read texts such as "batch_size=300".

    Raises:
        InputError: One of them is none, or a key is there twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        key, _, value = (part.strip() for part in text.partition("="))
        if not key or not value:
            raise InputError(f"{show(text)}: expected key=value, such as batch_size=300")
        if key in found:
            raise InputError(f"{key} is given twice: {show(found[key])} and {show(value)}")
        found[key] = value
    return found


def _parts(text: str | None) -> tuple[str, ...]:
    """Cut a list at its commas, as a line of CSV: a part with a comma stands in quotes."""
    if text is None:
        return ()
    return tuple(part.strip() for part in next(csv_text.reader([text], skipinitialspace=True), []))


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
        print(f"error: {printable(str(error))}", file=sys.stderr)
        return 2
    except _UsageError as error:
        said = error.format_message().replace("Value error, ", "")  # how the checker behind typer begins
        print(f"error: {said} (python -m analysis --help shows examples)", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
