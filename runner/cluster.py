"""The only importer of Ray: connect, know the nodes, run one trial at a time on each.

Each trial is one Ray task, pinned to its node with all the node's CPUs, and with `num_gpus=1` for an accelerator
target. Ray's own retries are off: a failure is a row, and repeating it is for the driver to decide.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

# Read when Ray is imported or its processes start.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_SCHEDULER_EVENTS", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_OVERRIDE_JOB_RUNTIME_ENV", "1")  # `ray job submit --working-dir` brings one of its own

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from runner.environment import ROOT, usable_cores
from runner.executor import Answer, Node
from runner.process import request_of
from sweeps.errors import ClusterError
from sweeps.target import Target
from sweeps.trial import Trial

OBJECT_STORE_BYTES = 100_000_000  # a record is a few kilobytes
REACH_S = 10.0
NOT_CODE = [".git/", ".venv/", "results/", "studies/", "*.parquet", "__pycache__/"]


def _task(root: str | None) -> Callable[[Mapping[str, Any], int], dict[str, Any]]:
    """Return the Ray task: a thin supervisor that never imports torch.

    It is sent whole, not by the name of its module, so that it can say where the code is. Ray lets a worker look into
    the driver's current folder first, and that may hold a `runner` of somebody else's.

    Args:
        root: Where the code is; None where the runtime environment brings it.
    """

    def run_trial(request: Mapping[str, Any], declared_cpus: int) -> dict[str, Any]:
        if root and sys.path[0] != root:
            sys.path.insert(0, root)
        from runner.process import attend

        given = {name: os.environ[name] for name in ("CUDA_VISIBLE_DEVICES",) if name in os.environ}
        return attend(request, declared_cpus=declared_cpus, environment=given)

    return run_trial


class Cluster:
    """The executor that runs trials as Ray tasks."""

    def __init__(self, address: str | None, *, accelerators: int = 0, source: str | None = None) -> None:
        """Connect to a cluster, or start an embedded one.

        Args:
            address: As `ray.init` takes it; None starts a Ray of our own on this machine.
            accelerators: For an embedded Ray: how many this machine has.
            source: Text of the user's own workload file.

        Raises:
            ClusterError: It cannot be reached or started.
        """
        self._embedded = address is None
        self._source = source
        self._running: dict[ray.ObjectRef[dict[str, Any]], tuple[Trial, Node]] = {}
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if address is None:
                    ray.init(
                        address="local",
                        num_cpus=usable_cores(),
                        num_gpus=accelerators,
                        object_store_memory=OBJECT_STORE_BYTES,
                        include_dashboard=False,
                        **quiet,
                    )
                else:
                    _reach(address)
                    code = {"working_dir": str(ROOT), "excludes": NOT_CODE}
                    ray.init(address=address, runtime_env=code, **quiet)
        except (Exception, SystemExit) as error:  # Ray may end the whole process where it finds nobody
            if isinstance(error, SystemExit) and self._embedded:
                raise KeyboardInterrupt from None  # Ray's own answer to SIGTERM while it starts
            what = "start a Ray of its own" if self._embedded else f"connect to Ray at {address}"
            said = "" if isinstance(error, SystemExit) else str(error)
            reason = said.strip().splitlines() or ["no answer"]
            raise ClusterError(f"cannot {what}: {reason[0]}") from error
        # Raylets tell of dead workers on stdout, whatever was asked of the logs; here that is a row.
        ray._private.worker._worker_logs_enabled = False  # noqa: SLF001  (there is no public switch)
        self._task = ray.remote(max_retries=0)(_task(str(ROOT) if self._embedded else None))

    def nodes(self) -> list[Node]:
        """Return the living nodes with CPUs. A head that declares none runs no trials."""
        found = []
        for each in ray.nodes():
            resources = each["Resources"] if each["Alive"] else {}
            if (cpus := int(resources.get("CPU", 0))) >= 1:
                host = socket.gethostname() if self._embedded else each["NodeManagerHostname"]
                found.append(
                    Node(
                        node_id=each["NodeID"],
                        host=host,
                        cpus=cpus,
                        accelerators=int(resources.get("GPU", 0)),
                    )
                )
        return found

    def ask_for(self, targets: Iterable[Target]) -> bool:
        """Ask the autoscaler, where there is one; a node that somebody starts by hand is as welcome."""
        if self._embedded:
            return False
        from ray.autoscaler.sdk import request_resources

        bundles = [{"CPU": 1, "GPU": 1} if target.needs_accelerator else {"CPU": 1} for target in targets]
        request_resources(bundles=bundles)
        return True

    def start(self, trial: Trial, node: Node) -> None:
        """Submit the trial as a task that only this node can run, with all of its CPUs."""
        task = self._task.options(
            num_cpus=node.cpus,
            num_gpus=1 if trial.target.needs_accelerator else None,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.node_id, soft=False),
            name=f"{trial.sweep}: {trial.label}",
        )
        reference = task.remote(request_of(trial, self._source), node.cpus)
        self._running[reference] = trial, node

    def wait(self, timeout_s: float) -> list[Answer]:
        """Return the trials that have ended; what Ray raises becomes a status."""
        if not self._running:
            return []
        ready, _ = ray.wait(list(self._running), num_returns=1, timeout=timeout_s)
        if ready:  # others may have ended meanwhile
            ready, _ = ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        answers = []
        for reference in ready:
            trial, node = self._running.pop(reference)
            place = {"host": node.host, "node_id": node.node_id, "ray": ray.__version__}
            answers.append(Answer(trial=trial, node=node, columns={**place, **_columns(reference)}))
        return answers

    def close(self) -> None:
        """Cancel what runs and disconnect; an embedded Ray ends."""
        for reference in self._running:
            ray.cancel(reference, force=True)
        if not self._embedded:
            self.ask_for([])  # else the autoscaler would keep the nodes for ever
        ray.shutdown()


def _reach(address: str) -> None:
    """Look whether anybody listens at HOST:PORT, which Ray itself would try for minutes.

    Raises:
        OSError: Nobody does.
    """
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_S).close()


def _columns(reference: ray.ObjectRef[dict[str, Any]]) -> dict[str, Any]:
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return {
            "status": _status(error),
            "error_type": type(error).__name__,
            "error_message": re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()[-4_000:],  # Ray colours its text
        }


def _status(error: ray.exceptions.RayError) -> str:
    if isinstance(error, ray.exceptions.NodeDiedError | ray.exceptions.ActorUnavailableError):
        return "node_lost"
    if isinstance(error, ray.exceptions.OutOfMemoryError):
        return "oom"
    if isinstance(error, ray.exceptions.RayTaskError):
        return "error"
    if isinstance(error, ray.exceptions.TaskUnschedulableError):
        return "node_lost"  # the node that it was pinned to has gone
    return "crashed"
