"""The page of checks: what is expected beside what was found, for people (checks.md) and for programs (checks.json)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from runner.check.expectations import Expectation
from runner.check.findings import Found, Row, medians
from runner.check.plan import Question
from runner.check.units import shown
from sweeps.folder import Folder
from sweeps.ladder import HEADLINE, RUNGS

JSON, PAGE = "checks.json", "checks.md"
NEXT = (
    "Each folder here is an ordinary study: `python -m analysis FOLDER` has the crossover with its interval, the "
    "causes and the chart, on any machine where this program is installed."
)
#: A figure whose values differ by more than this factor is told with its range.
STEADY = 1.1
ANSWER = {True: "yes", False: "NO", None: "not known"}


@dataclass(frozen=True, kw_only=True)
class Line:
    """One check.

    Attributes:
        key: Its name, for programs.
        what: It is about.
        expected: In words.
        found: In words; where there is no value, why.
        agrees: Whether the one lies within the other; None where nothing is known.
        is_promise: Whether the program answers for it.
        source: Of the expectation.
        low, high: The finding in the unit of the expectation; None where there is none, or no end.
        unit: Of the two.
    """

    key: str
    what: str
    expected: str
    found: str
    agrees: bool | None
    is_promise: bool
    source: str
    low: float | None
    high: float | None
    unit: str


@dataclass(frozen=True, kw_only=True)
class Page:
    """All that the page says.

    Attributes:
        title: Which device was checked.
        machine: What is known of the machine, by name.
        ended: How the check ended, a sentence.
        lines: The checks.
        calibration: What the machine can do, as `calibration.Measured` has it.
        questions: What was asked.
        rows: The final row of each trial, by question.
        found: The findings.
    """

    title: str
    machine: Mapping[str, Any]
    ended: str
    lines: Sequence[Line]
    calibration: Sequence[Mapping[str, Any]]
    questions: Sequence[Question]
    rows: Mapping[str, Sequence[Row]]
    found: Mapping[str, Found]

    @property
    def broken(self) -> list[Line]:
        """Promises that do not hold."""
        return [line for line in self.lines if line.is_promise and line.agrees is False]

    def in_words(self) -> list[str]:
        """Return what matters most, a line each: step times, who overtakes whom, every check."""
        told = []
        for question in self.questions:
            names, times = [target.name for target in question.targets], medians(self.rows[question.name])
            for size in question.sizes:
                known = [f"{name} {shown(times[size, name], 's')}" for name in names if (size, name) in times]
                if known:
                    told.append(f"{question.name}, batch {size}: {', '.join(known)} a step")
            told += self._overtakings(question)
        for line in self.lines:
            kind = "holds" if line.is_promise else "agrees"
            told.append(f"{kind}: {ANSWER[line.agrees]}; {line.what}: {line.found} (expected: {line.expected})")
        return told

    def write(self, folder: Path) -> None:
        """Write both files, each as a whole."""
        told = {
            "title": self.title,
            "ended": self.ended,
            "machine": dict(self.machine),
            "checks": [asdict(line) for line in self.lines],
            "calibration": list(self.calibration),
        }
        place = Folder.at(folder)
        place.write(JSON, f"{json.dumps(told, indent=1)}\n".encode())
        place.write(PAGE, f"{self._text()}\n".encode())

    def _text(self) -> str:
        promises = [line for line in self.lines if line.is_promise]
        predictions = [line for line in self.lines if not line.is_promise]
        return "\n\n".join(
            [
                f"# {self.title}",
                self.ended,
                machine_in_words(self.machine) + ".",
                "## What the program promises",
                _table(["what", "expected", "found", "holds"], [_cells(line) for line in promises]),
                "## What was foretold of the machine",
                "A `NO` is no fault: it is what the check has found out. Each range says where it comes from.",
                _table(
                    ["what", "expected", "found", "agrees", "source"],
                    [[*_cells(line), line.source] for line in predictions],
                ),
                "## What the machine can do",
                "Medians of five blocks; copies from pinned memory are not waited for one by one.",
                _table(["what", "size", "found"], [[each["name"], *words_of(each)] for each in self.calibration]),
                *(part for question in self.questions for part in self._study(question)),
                "## What to do with it",
                NEXT,
            ]
        )

    def _study(self, question: Question) -> list[str]:
        """What the steps of one study took, and what they took with one thing after another taken away."""
        rows = self.rows[question.name]
        names = [target.name for target in question.targets]
        times = medians(rows)
        table = [[str(size), *(_time(times.get((size, name))) for name in names)] for size in question.sizes]
        parts = [f"## {question.name}: {question.question}", _table(["batch", *names], table)]
        parts.append("\n".join(f"- {each}" for each in self._overtakings(question)))
        by_rung = {rung: found for rung in RUNGS if (found := medians(rows, rung))}
        apart = [
            [str(size), name, *(_time(by_rung[rung].get((size, name))) for rung in by_rung)]
            for size in question.taken_apart
            for name in names
            if any((size, name) in found for rung, found in by_rung.items() if rung != HEADLINE)
        ]
        if apart:
            parts.append(_table(["batch", "target", *by_rung], apart))
        return parts

    def _overtakings(self, question: Question) -> list[str]:
        """Say from what size the challenger is faster than each other target, as the medians have it."""
        who, name = question.challenger.name, question.name
        rivals = [target.name for target in question.targets[:-1]]
        return [f"{name}: {who} is faster than {each}: {self.found[f'{name} against {each}'].text}" for each in rivals]


def compare(expected: Sequence[Expectation], found: Mapping[str, Found]) -> list[Line]:
    """Set what was found beside what is expected."""
    return [_line(each, found[each.key]) for each in expected]


def _line(expected: Expectation, found: Found) -> Line:
    return Line(
        key=expected.key,
        what=expected.what,
        expected=_range(expected),
        found=found.text,
        agrees=_agrees(expected, found),
        is_promise=expected.is_promise,
        source=expected.source,
        low=found.low if math.isfinite(found.low) else None,
        high=found.high if math.isfinite(found.high) else None,
        unit=expected.unit,
    )


def _agrees(expected: Expectation, found: Found) -> bool | None:
    """Whether the two ranges meet; None where they do only because the one that was found is open."""
    if not found.is_known:
        return None
    if found.high < expected.low or found.low > expected.high:
        return False
    return True if math.isfinite(found.low) and math.isfinite(found.high) else None


def _range(expected: Expectation) -> str:
    low, high, unit = expected.low, expected.high, expected.unit
    if math.isinf(low):
        return f"at most {shown(high, unit)}" if high else "none"
    if math.isinf(high):
        return f"at least {shown(low, unit)}"
    return f"{shown(low, unit)} to {shown(high, unit)}"


def _cells(line: Line) -> list[str]:
    return [line.what, line.expected, line.found, ANSWER[line.agrees]]


def machine_in_words(machine: Mapping[str, Any]) -> str:
    """Return who was measured, in a line."""
    known = {name: value for name, value in machine.items() if value is not None}
    told = [known["gpu"]] if "gpu" in known else []
    cores = f"{known['cores_usable']} usable of {known['cores_logical']} logical cores"
    told += [known.get("cpu_model", "a CPU without a name"), cores, shown(known["memory_bytes"], "B")]
    return ", ".join(
        [*told, f"torch {known['torch']}", f"Python {known['python']}", known["os"], f"host {known['host']}"]
    )


def words_of(measured: Mapping[str, Any]) -> tuple[str, str]:
    """Return of a figure of the calibration what it was measured with, and what it is, in words."""
    size, unit = measured["size"], measured["unit"]
    at = "" if size is None else shown(size, "B") if unit == "GB/s" else str(size)
    if measured["figure"] is None:
        return at, measured["cause"]
    found = shown(measured["figure"], unit)
    if measured["low"] is not None and measured["high"] > measured["low"] * STEADY:
        found += f" ({shown(measured['low'], unit)} to {shown(measured['high'], unit)})"
    if measured["seconds"] is not None and unit != "s":
        found += f", {shown(measured['seconds'], 's')} each"
    return at, found


def _time(seconds: float | None) -> str:
    return "" if seconds is None else shown(seconds, "s")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
