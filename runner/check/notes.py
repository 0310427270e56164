"""What was found that is no trial, a line of JSON each, written as soon as it is known: of the machine, mostly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NOTES = "machine.jsonl"


class Notes:
    """The notes of a check, those of an earlier run of the same command among them."""

    def __init__(self, folder: Path) -> None:
        """Read what is there, if anything; a line that was cut off ends it."""
        self._path = folder / NOTES
        self._lines: list[dict[str, Any]] = []
        self._path.touch()
        for line in self._path.read_text(encoding="utf-8").splitlines():
            try:
                self._lines.append(json.loads(line))
            except ValueError:
                break
        self._path.write_text("".join(f"{json.dumps(each)}\n" for each in self._lines), encoding="utf-8")

    def add(self, kind: str, value: Any) -> None:
        """Add a note."""
        self._lines.append({kind: value})
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(self._lines[-1])}\n")

    def last(self, kind: str) -> Any:
        """Return the last note of a kind; None without one."""
        return next((line[kind] for line in reversed(self._lines) if kind in line), None)

    def since(self, kind: str, start: str) -> list[Any]:
        """Return the notes of a kind that follow the last one of another."""
        begun = max((place for place, line in enumerate(self._lines) if start in line), default=-1)
        return [line[kind] for line in self._lines[begun + 1 :] if kind in line]
