"""Trials one after another on this machine, without Ray: for debugging, for tests, for where Ray cannot be had."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from runner import process
from runner.environment import usable_cores
from runner.executor import Answer, Need, Node
from sweeps.trial import Trial


class Local:
    """The serial executor: a started trial is run when its answer is waited for."""

    def __init__(self, *, accelerators: int, source: str | None) -> None:
        host = socket.gethostname()
        self._node = Node(node_id="local", host=host, cpus=usable_cores(), accelerators=accelerators)
        self._source = source
        self._started: list[Trial] = []

    def nodes(self) -> list[Node]:
        """Return this machine."""
        return [self._node]

    def ask_for(self, needs: Sequence[Need]) -> bool:
        """There is nobody to ask."""
        return False

    def start(self, trial: Trial, node: Node) -> None:
        """Remember the trial."""
        self._started.append(trial)

    def wait(self, timeout_s: float) -> list[Answer]:
        """Run the trial that was started; however long it takes, its own deadline ends it."""
        if not self._started:
            return []
        trial = self._started.pop(0)
        columns = process.attend(process.request_of(trial, self._source))
        return [Answer(trial=trial, node=self._node, columns=columns)]

    def close(self) -> None:
        """End the nursery."""
        process.close()
