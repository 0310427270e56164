"""The only importer of Ray: connect, know the nodes, run one trial at a time on each.

Each trial is one Ray task, pinned to its node with all the node's CPUs, and with `num_gpus=1` for an accelerator
target. Ray's own retries are off: a failure is a row, and repeating it is for the driver to decide.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import re
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Read when Ray is imported or its processes start.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_SCHEDULER_EVENTS", "0")
os.environ.setdefault("RAY_enable_metrics_collection", "0")  # else the driver grows by 15 kB and more a trial
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_OVERRIDE_JOB_RUNTIME_ENV", "1")  # `ray job submit --working-dir` brings one of its own

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from runner.environment import ROOT, usable_cores
from runner.executor import ACCELERATOR_TYPE, HELD, Answer, Need, Node
from runner.preflight import judge, look
from runner.process import request_of
from sweeps.errors import ClusterError
from sweeps.trial import Trial

OBJECT_STORE_BYTES = 100_000_000  # a record is a few kilobytes
REACH_S = 10.0
#: Ray counts free CPUs some tenths of a second late: a node is not looked at so soon after a trial of ours.
SETTLE_S = 2.0
#: A trial ends at its deadline and answers. One that is so much later has never begun, or its node is out of its mind.
OVERDUE_S = 120.0
#: How long nodes may take to say who they are. Each starts a worker for it, which its first trial then has.
INSPECT_S = 30.0
#: The nodes that are up are looked at so often and not for each trial: with 20 of them a look takes 3 ms.
LOOK_EVERY_S = 0.5
#: Ray lists a node that has gone as alive for up to half a minute. Who is listed after this time has been cut off only.
GONE_S = 120.0
#: What to do where Ray asks for a token.
NOT_ADMITTED = (
    "it asks for another token than the one here: RAY_AUTH_MODE=token and the cluster's own token in ~/.ray/auth_token "
    "or RAY_AUTH_TOKEN let this command in"
)
#: `cluster.yaml` labels its machines with this: a CPU trial of a sweep by target is not for those of the pool `gpu`.
POOL = "pool"
NOT_CODE = [".git/", ".venv/", "results/", "studies/", "*.parquet", "__pycache__/"]


def _tasks(root: str) -> tuple[Callable[[Mapping[str, Any], int], dict[str, Any]], Callable[[], dict[str, Any]]]:
    """Return the two Ray tasks: a thin supervisor of a trial that never imports torch, and a look at a node.

    They are sent whole, not by the name of their module, so that they can say where the code is. Ray lets a worker look
    into the driver's current folder first, and that may hold a `runner` of somebody else's. On this machine trials take
    the driver's own code and are in its folder. On others the runtime environment brings the code; here that would not
    do, since several nodes of one machine share what it brings, and each node that joins removes it and writes it anew.

    Args:
        root: Where the code is on this machine.
    """
    home, folder = socket.gethostname(), os.getcwd()  # noqa: PTH109  (a text, for other machines)

    def settle() -> None:
        if socket.gethostname() == home and os.path.isdir(f"{root}/runner"):  # noqa: PTH112
            os.chdir(folder if os.path.isdir(folder) else "/")  # noqa: PTH112
            if sys.path[0] != root:
                sys.path.insert(0, root)

    def run_trial(request: Mapping[str, Any], declared_cpus: int) -> dict[str, Any]:
        settle()
        from runner.process import attend

        given = {name: os.environ[name] for name in ("CUDA_VISIBLE_DEVICES",) if name in os.environ}
        return attend(request, declared_cpus=declared_cpus, environment=given)

    def look_around() -> dict[str, Any]:
        settle()
        from runner.preflight import look

        return look()

    return run_trial, look_around


@dataclass(frozen=True, kw_only=True)
class _Started:
    """A trial that was sent to a node at a moment of `time.monotonic`."""

    trial: Trial
    node: Node
    since: float


class Cluster:
    """The executor that runs trials as Ray tasks."""

    def __init__(
        self, address: str | None, *, accelerators: int = 0, source: str | None = None, verbose: bool = False
    ) -> None:
        """Connect to a cluster, or start an embedded one.

        Args:
            address: As `ray.init` takes it; None starts a Ray of our own on this machine.
            accelerators: For an embedded Ray: how many this machine has.
            source: Text of the user's own workload file.
            verbose: Whether Ray's own messages, and what its workers print, are shown.

        Raises:
            ClusterError: It cannot be reached or started.
        """
        self._embedded = address is None
        self._source = source
        self._running: dict[ray.ObjectRef[dict[str, Any]], _Started] = {}
        self._ended: dict[str, float] = {}  # by node: when its last trial ended
        self._gone: dict[str, float] = {}  # nodes that took a task with them, and when
        self._dead: set[str] = set()  # for Ray too; but it may never end a task on a node that has gone silent
        self._met: dict[str, tuple[bool, str]] | None = None  # by node: what `judge` says; None: nobody is asked
        self._asked: dict[str, tuple[ray.ObjectRef[dict[str, Any]], float]] = {}  # by node: its answer, and since when
        self._seen: list[Node] = []
        self._has_asked = False  # the autoscaler has one list of wishes for the whole cluster
        self._look_next = 0.0
        ours = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        quiet: dict[str, Any] = {"log_to_driver": verbose, "logging_level": "INFO" if verbose else "ERROR"}
        try:
            with warnings.catch_warnings():
                if not verbose:
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
                    _hide_token()
                else:
                    _reach(address)
                    code = {"working_dir": str(ROOT), "excludes": NOT_CODE}
                    ray.init(address=address, runtime_env=code, **quiet)
        except (Exception, SystemExit) as error:  # Ray may end the whole process where it finds nobody
            if isinstance(error, SystemExit) and self._embedded:
                raise KeyboardInterrupt from None  # Ray's own answer to SIGTERM while it starts
            what = "start a Ray of its own" if self._embedded else f"connect to Ray at {address}"
            raise ClusterError(f"cannot {what}: {_short(error)}") from error
        finally:
            _restore(ours)
        # Raylets tell of dead workers on stdout, whatever was asked of the logs; here that is a row.
        ray._private.worker._worker_logs_enabled = verbose  # noqa: SLF001  (there is no public switch)
        run_trial, look_around = _tasks(str(ROOT))
        self._task = ray.remote(max_retries=0)(run_trial)
        self._look = ray.remote(max_retries=0, num_cpus=0)(look_around)

    def nodes(self) -> list[Node]:
        """Return the living nodes with CPUs, as of half a second ago. A head that declares none runs no trials."""
        if time.monotonic() >= self._look_next:
            self._look_next = time.monotonic() + LOOK_EVERY_S
            gone = {node_id for node_id, since in self._gone.items() if time.monotonic() - since < GONE_S}
            self._seen = self._meet([node for node in self._look_at_nodes() if node.node_id not in gone])
        return list(self._seen)

    def _look_at_nodes(self) -> list[Node]:
        found = []
        working = {started.node.node_id for started in self._running.values()}
        now = time.monotonic()
        free: dict[str, dict[str, float]] | None = None
        self._dead.clear()
        for each in ray.nodes():
            resources = each["Resources"] if each["Alive"] else {}
            if not each["Alive"]:
                self._dead.add(each["NodeID"])
            node_id, cpus = each["NodeID"], int(resources.get("CPU", 0))
            if cpus < 1:
                continue
            is_held = False
            if not (self._embedded or node_id in working or now - self._ended.get(node_id, -math.inf) < SETTLE_S):
                free = ray._private.state.available_resources_per_node() if free is None else free  # noqa: SLF001
                is_held = node_id in free and free[node_id].get("CPU", 0) < cpus
            kinds = [name.partition(":")[2] for name in resources if name.startswith(f"{ACCELERATOR_TYPE}:")]
            found.append(
                Node(
                    node_id=node_id,
                    host=socket.gethostname() if self._embedded else each["NodeManagerHostname"],
                    cpus=cpus,
                    accelerators=int(resources.get("GPU", 0)),
                    labels={**each["Labels"], **({ACCELERATOR_TYPE: kinds[0]} if kinds else {})},
                    is_held=is_held,
                )
            )
        return found

    def inspect(self) -> dict[str, dict[str, Any] | str]:
        """Let each node say who it is, with a task that takes no CPU: a busy node answers too.

        Returns:
            By host and identity of the node: what `runner.preflight.look` found there, or why it said nothing. A node
            that turns out to have gone is not among them.
        """
        asked = [(node, self._ask(node)) for node in self.nodes()]
        self._met = {node.node_id: (True, "") for node, _ in asked}
        if asked:
            ray.wait([reference for _, reference in asked], num_returns=len(asked), timeout=INSPECT_S)
        answers = ((_named(node), self._said(node, reference)) for node, reference in asked)
        return {name: said for name, said in answers if said is not None}

    def _ask(self, node: Node) -> ray.ObjectRef[dict[str, Any]]:
        there = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
        question = self._look.options(name="who are you?", scheduling_strategy=there)
        asked: ray.ObjectRef[dict[str, Any]] = question.remote()
        return asked

    def _said(self, node: Node, reference: ray.ObjectRef[dict[str, Any]]) -> dict[str, Any] | str | None:
        """Return what a node has said by now, or why it has not; None if it has gone."""
        if not ray.wait([reference], timeout=0)[0]:
            ray.cancel(reference, force=True)
            return f"no answer within {INSPECT_S:g} s"
        try:
            return ray.get(reference)
        except ray.exceptions.RayError as error:
            if _status(error) == "node_lost":
                self._gone[node.node_id] = time.monotonic()
                return None
            lines = [line for line in _plain(error).splitlines() if line.strip()] or [type(error).__name__]
            if isinstance(error, ray.exceptions.OutOfMemoryError | ray.exceptions.WorkerCrashedError):
                return f"no answer ({lines[0]})"  # that says nothing of the next time
            return lines[-1]

    def _meet(self, found: list[Node]) -> list[Node]:
        """Return the nodes that have said who they are; who joined after `inspect` is asked, and not waited for."""
        if self._met is None:
            return found
        for node in found:
            if node.node_id in self._met:
                continue
            if node.node_id not in self._asked:
                self._asked[node.node_id] = self._ask(node), time.monotonic()
            reference, since = self._asked[node.node_id]
            if ray.wait([reference], timeout=0)[0] or time.monotonic() - since >= INSPECT_S:
                del self._asked[node.node_id]
                if (said := self._said(node, reference)) is not None:
                    self._met[node.node_id] = judge(_named(node), said, look())
        judged = ((node, self._met[node.node_id]) for node in found if node.node_id in self._met)
        return [dataclasses.replace(node, is_fit=is_fit, remark=remark) for node, (is_fit, remark) in judged]

    def ask_for(self, needs: Sequence[Need]) -> bool:
        """Ask the autoscaler, where there is one; a node that somebody starts by hand is as welcome."""
        if self._embedded:
            return False
        from ray.autoscaler.sdk import request_resources

        bundles: list[dict[str, float]] = []
        selectors = []
        for need in needs:
            selector = dict(need.where)
            bundle: dict[str, float] = {"CPU": 1, "GPU": 1} if need.accelerator else {"CPU": 1}
            if kind := selector.pop(ACCELERATOR_TYPE, None):
                bundle[f"{ACCELERATOR_TYPE}:{kind}"] = 0.001  # as Ray itself asks for a type
            if need.off_accelerators:
                selector[POOL] = "!gpu"
            bundles.append(bundle)
            selectors.append(selector)
        request_resources(bundles=bundles, bundle_label_selectors=selectors)
        self._has_asked = True
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
        self._running[reference] = _Started(trial=trial, node=node, since=time.monotonic())

    def wait(self, timeout_s: float) -> list[Answer]:
        """Return the trials that have ended; what Ray raises becomes a status."""
        if not self._running:
            return []
        ready, _ = ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        if not ready:
            ready, _ = ray.wait(list(self._running), num_returns=1, timeout=timeout_s)
        answers = []
        for reference in ready:
            started = self._running.pop(reference)
            self._ended[started.node.node_id] = time.monotonic()
            columns = _columns(reference)
            if columns["status"] == "node_lost":
                self._gone[started.node.node_id] = time.monotonic()
                self._look_next = 0.0
            answers.append(_answer(started, columns))
        for reference, started in list(self._running.items()):
            if started.node.node_id in self._dead:
                cause = f"{started.node.host} does not answer any more: it is cut off from the cluster, or dead"
                columns = {"status": "node_lost", "error_type": "NodeDiedError", "error_message": cause}
            elif time.monotonic() - started.since > started.trial.deadline_s + OVERDUE_S:
                cause = (
                    f"no answer {OVERDUE_S:g} s after its deadline: another user of the cluster has taken CPUs of "
                    f"{started.node.host}, or a process of the trial hangs there"
                )
                columns = {"status": "unavailable", "error_type": HELD, "error_message": cause}
            else:
                continue
            ray.cancel(reference, force=True)
            del self._running[reference]
            self._ended.pop(started.node.node_id, None)
            self._look_next = 0.0
            answers.append(_answer(started, columns))
        return answers

    def close(self) -> None:
        """Cancel what runs and disconnect; an embedded Ray ends."""
        for reference in self._running:
            ray.cancel(reference, force=True)
        if self._has_asked:
            self.ask_for(())  # else the autoscaler would keep the nodes for ever
        ray.shutdown()


def _reach(address: str) -> None:
    """Look whether Ray answers at HOST:PORT and takes our token: where it does not, Ray itself would try for minutes.

    Raises:
        OSError: Nobody answers, or it is no Ray.
        ValueError: It is another kind of address.
        ray.exceptions.AuthenticationError: It asks for another token, or there is none here.
    """
    if address == "auto":
        where = ray._private.services.find_bootstrap_address  # noqa: SLF001  (Ray itself looks there)
        address = os.environ.get("RAY_ADDRESS") or where(None) or ""
    if address.startswith(("http://", "https://")):
        raise ValueError("that is the address of Ray's jobs and dashboard; give the cluster's own, such as HOST:6379")
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        return
    socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_S).close()
    if address.startswith("ray://"):
        return  # a client's port speaks another language
    from ray._private.grpc_utils import (
        init_grpc_channel,  # with the token and the encryption that Ray's settings ask for
    )
    from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc

    with init_grpc_channel(address) as channel:
        service = gcs_service_pb2_grpc.NodeInfoGcsServiceStub(channel)
        try:
            asked = gcs_service_pb2.GetClusterIdRequest()  # type: ignore[attr-defined]
            service.GetClusterId(asked, timeout=REACH_S)
        except ray.exceptions.AuthenticationError:
            raise
        except Exception as error:  # noqa: BLE001  (gRPC's own; Ray, not we, depends on it)
            code = getattr(error, "code", lambda: None)()
            if getattr(code, "name", "") == "UNAUTHENTICATED":
                raise ray.exceptions.AuthenticationError(NOT_ADMITTED) from None
            raise ConnectionError("what answers there is no Ray of this kind") from None


def _restore(handlers: Mapping[signal.Signals, Any]) -> None:
    """Put back who answers signals: Ray would end the process with a code and a stack of its own."""
    if threading.current_thread() is threading.main_thread():
        for number, handler in handlers.items():
            if handler is not None:  # else nobody of Python's
                signal.signal(number, handler)


def _hide_token() -> None:
    """Keep other users of this machine from reading the token that Ray has made for this one."""
    token = Path.home() / ".ray" / "auth_token"
    with contextlib.suppress(OSError):
        if token.stat().st_mode & 0o077:
            token.chmod(0o600)


def _short(error: BaseException) -> str:
    """Say in a line why there is no connection."""
    if isinstance(error, SystemExit):
        return "no answer"
    if isinstance(error, ray.exceptions.AuthenticationError):
        return NOT_ADMITTED
    lines = [line.strip() for line in _plain(error).splitlines() if line.strip()] or ["no answer"]
    if lines[0].startswith("Version mismatch"):
        return f"the nodes have another Ray or Python. {' '.join(lines[1:5])}"
    return lines[0]


def _named(node: Node) -> str:
    """Return a name for people: hosts can have several nodes."""
    return f"{node.host} ({node.node_id[:8]})"


def _answer(started: _Started, columns: dict[str, Any]) -> Answer:
    place = {"host": started.node.host, "node_id": started.node.node_id, "ray": ray.__version__}
    return Answer(trial=started.trial, node=started.node, columns={**place, **columns})


def _plain(error: BaseException) -> str:
    """Return what Ray says, without its colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()


def _columns(reference: ray.ObjectRef[dict[str, Any]]) -> dict[str, Any]:
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        message = _plain(error)[-4_000:]
        if isinstance(error, ray.exceptions.OutOfMemoryError):  # further down: the commands of everybody on the node
            message = "\n".join(_plain(error).splitlines()[:2])
        return {"status": _status(error), "error_type": type(error).__name__, "error_message": message}


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
