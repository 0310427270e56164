"""Where a sweep runs: on a cluster, on a Ray of its own, or without Ray; and why there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from runner.executor import Executor, Need
from sweeps.errors import printable


@dataclass(frozen=True, kw_only=True)
class Place:
    """A place to run, chosen by `choose_place`.

    Attributes:
        kind: `local` without Ray, `embedded` on a Ray of its own, `cluster` on a running one.
        address: Of a cluster, as `ray.init` takes it.
        sentence: Where it is and why, for people.
        wait_s: How long to wait for nodes of a kind that is missing, unless somebody says otherwise.
    """

    kind: Literal["local", "embedded", "cluster"]
    address: str | None
    sentence: str
    wait_s: float = 0.0

    def open(
        self, *, accelerators: int, source: str | None, verbose: bool = False, tell: Callable[[str], None] = print
    ) -> Executor:
        """Connect, or start what has to be started.

        Args:
            accelerators: How many this machine has; a cluster knows for itself.
            source: Text of the user's own workload file.
            verbose: Whether Ray's own messages are shown.
            tell: Hears what is odd about the nodes of a cluster.

        Raises:
            ClusterError: There is no reaching it, or its nodes do not go with this program.
        """
        if self.kind == "local":
            from runner.local import Local

            return Local(accelerators=accelerators, source=source)
        from runner.cluster import Cluster

        cluster = Cluster(self.address, accelerators=accelerators, source=source, verbose=verbose)
        if self.kind == "cluster":
            from runner.preflight import check, look

            try:
                for warning in check(cluster.inspect(), look()):
                    tell(warning)
            except BaseException:
                cluster.close()
                raise
        return cluster


def choose_place(address: str | None, *, local: bool, environment: Mapping[str, str] = os.environ) -> Place:
    """Choose where to run: what was asked first, then what the environment says, then this machine."""
    if local:
        return Place(kind="local", address=None, sentence="Runs on this machine without Ray (--local).")
    if address:
        return Place(
            kind="cluster",
            address=address,
            sentence=f"Runs on the Ray cluster {printable(address)} (--address).",
            wait_s=60.0,
        )
    if found := environment.get("RAY_ADDRESS"):
        return Place(
            kind="cluster",
            address=found,
            sentence=f"Runs on the Ray cluster {printable(found)} (RAY_ADDRESS is set).",
            wait_s=60.0,
        )
    if environment.get("SWEEP_HOME"):
        return Place(
            kind="cluster",
            address="auto",
            sentence="Runs on the Ray cluster of this machine (SWEEP_HOME is set: this is a cluster's head).",
            wait_s=900.0,  # a machine in the cloud has to boot and to install torch
        )
    return Place(
        kind="embedded",
        address=None,
        sentence="Runs on this machine with a Ray of its own (no --address, no RAY_ADDRESS, no cluster's head).",
    )


def has_accelerator(executor: Executor, wait_s: float | None, tell: Callable[[str], None] = print) -> bool:
    """Whether a cluster has a node with an accelerator, or gets one within some seconds of being asked for it.

    Args:
        executor: The cluster.
        wait_s: How long to wait for one; None does not ask either.
        tell: Hears that it is waited for.
    """
    asked = False
    if wait_s is None:
        return any(node.accelerators for node in executor.nodes())
    until = time.monotonic() + wait_s
    while True:
        if any(node.accelerators for node in executor.nodes()):
            return True
        if not asked:
            asked = executor.ask_for([Need(accelerator=True)])
            if asked and wait_s:
                tell(f"No node declares a GPU yet; waiting up to {wait_s:g} s for one (--wait).")
        if not asked or time.monotonic() >= until:
            return False
        time.sleep(1.0)
