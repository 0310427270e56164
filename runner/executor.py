"""What the driver knows of a node, and what it asks of whoever runs trials there.

Two fulfil it: cluster.py with Ray, local.py without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from sweeps.trial import Trial
from sweeps.way import Way

#: The label under which a node has Ray's name of its accelerator.
ACCELERATOR_TYPE = "accelerator_type"
#: Error type of a trial that never began, for another user of the cluster had taken CPUs of its node.
HELD = "NodeHeld"


@dataclass(frozen=True, kw_only=True)
class Need:
    """What a node must have for trials that run back to back on it.

    Attributes:
        accelerator: Whether any of them needs one.
        where: Labels, in order.
        off_accelerators: Whether they belong on machines without an accelerator as long as such can be had: in a sweep
            by target a CPU trial asks what a CPU machine does. A target that says where it runs is taken at its word.
    """

    accelerator: bool = False
    where: tuple[tuple[str, str], ...] = ()
    off_accelerators: bool = False

    @classmethod
    def of(cls, targets: Iterable[Way], *, by_target: bool) -> Self:
        """Return what trials of these targets need together."""
        targets = list(targets)
        accelerator = any(target.needs_accelerator for target in targets)
        where = {label: value for target in targets for label, value in target.where.items()}
        return cls(
            accelerator=accelerator,
            where=tuple(sorted(where.items())),
            off_accelerators=by_target and not accelerator and not where,
        )

    @property
    def told(self) -> str:
        """What it is, in words."""
        labels = [f"{label}: {value}" for label, value in self.where]
        return ", ".join([*(["a GPU"] if self.accelerator else []), *labels]) or "CPUs"


@dataclass(frozen=True, kw_only=True)
class Node:
    """A machine that runs one trial at a time.

    Attributes:
        node_id: Ray's identity; host names can repeat.
        host: Its name, for people.
        cpus: CPUs it declares. A trial gets all of them.
        accelerators: Accelerators it declares.
        labels: Ray's labels, and `accelerator_type` where it declares one.
        is_held: Whether another user of the cluster has taken CPUs of it, so that a trial would have to wait.
        is_fit: Whether it can run what is asked: its code and its versions go with the driver's.
        remark: What people should know of it; why it is not fit, if it is not.
    """

    node_id: str
    host: str
    cpus: int
    accelerators: int
    labels: Mapping[str, str] = field(default_factory=dict)
    is_held: bool = field(default=False, compare=False)
    is_fit: bool = field(default=True, compare=False)
    remark: str = field(default="", compare=False)

    @property
    def is_free(self) -> bool:
        """Whether a trial that is sent here would begin."""
        return self.is_fit and not self.is_held

    def has(self, need: Need) -> bool:
        """Whether it has what trials need; who belongs where is for the driver to decide."""
        return (
            self.cpus >= 1
            and (self.accelerators >= 1 or not need.accelerator)
            and all(self.labels.get(label) == value for label, value in need.where)
        )

    def serves(self, target: Way) -> bool:
        """Whether a trial of the target can be sent here."""
        return self.has(Need.of([target], by_target=False))


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

    def ask_for(self, needs: Sequence[Need]) -> bool:
        """Ask whoever can start machines for a node for each of these; return whether to wait for any."""

    def start(self, trial: Trial, node: Node) -> None:
        """Begin a trial on a node that is free."""

    def wait(self, timeout_s: float) -> list[Answer]:
        """Wait until a trial ends, or until time is up, and return those that have."""

    def close(self) -> None:
        """Stop what is running and leave nothing behind."""
