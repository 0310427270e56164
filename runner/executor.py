"""What the driver knows of a node, and what it asks of whoever runs trials there.

Two fulfil it: cluster.py with Ray, local.py without.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from sweeps.target import Target
from sweeps.trial import Trial


@dataclass(frozen=True, kw_only=True)
class Node:
    """A machine that runs one trial at a time.

    Attributes:
        node_id: Ray's identity; host names can repeat.
        host: Its name, for people.
        cpus: CPUs it declares. A trial gets all of them.
        accelerators: Accelerators it declares.
    """

    node_id: str
    host: str
    cpus: int
    accelerators: int

    def serves(self, target: Target) -> bool:
        """Whether a trial of the target can be sent here."""
        return self.cpus >= 1 and (self.accelerators >= 1 or not target.needs_accelerator)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A trial that has ended, where it was, and the columns of a record that were found."""

    trial: Trial
    node: Node
    columns: dict[str, Any]


class Executor(Protocol):
    """Runs trials on nodes. The driver gives each node one trial at a time."""

    def nodes(self) -> list[Node]:
        """Return the nodes that are up now and can run trials."""

    def ask_for(self, targets: Iterable[Target]) -> bool:
        """Ask whoever can start machines for nodes that serve these targets; return whether to wait for any."""

    def start(self, trial: Trial, node: Node) -> None:
        """Begin a trial on a node that is free."""

    def wait(self, timeout_s: float) -> list[Answer]:
        """Wait until a trial ends, or until time is up, and return those that have."""

    def close(self) -> None:
        """Stop what is running and leave nothing behind."""
