"""Do the first trials everywhere fail in the same way? Then the rest would too, and the sweep had better stop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sweeps.record import first_line

#: So many trials have to have failed alike, and one at least on every node: two pairs, and so two sizes.
ENOUGH = 4


class CommonFault:
    """Watches the first trials, until one of them ends in any other way."""

    def __init__(self) -> None:
        self._faults: list[tuple[str, str]] = []  # node, and what went wrong there
        self._is_over = False

    def note(self, node_id: str, columns: Mapping[str, Any]) -> None:
        """Take notice of how a trial has ended."""
        if columns["status"] not in ("error", "crashed"):
            self._is_over = True
        if not self._is_over:
            self._faults.append((node_id, f"{columns['status']}: {first_line(columns.get('error_message'))}"))

    def found(self, node_ids: Iterable[str]) -> str:
        """Return the fault that all trials on these nodes have had so far; empty while there is none."""
        if self._is_over or len(self._faults) < ENOUGH:
            return ""
        kinds = {fault for _, fault in self._faults}
        return kinds.pop() if len(kinds) == 1 and set(node_ids) <= {node for node, _ in self._faults} else ""
