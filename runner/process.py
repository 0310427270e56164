"""One trial in, one answer or the way it died: speaks to the nurseries of this process.

The Ray task, or the driver itself without Ray, calls `attend`. It never imports torch.
"""

from __future__ import annotations

import atexit
import json
import os
import platform
import select
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from runner.devices.host_memory import killed_for_memory
from runner.environment import ROOT, UNKNOWN, machine
from runner.nursery import PYTHON
from runner.timing import now_ns
from sweeps.trial import Trial

#: macOS cannot fork a process that has loaded its frameworks; every trial then imports torch again.
START_METHOD = "fork" if platform.system() == "Linux" else "spawn"
#: The nursery keeps the deadline itself. After this much more it is taken for dead.
GRACE_S = 30.0
#: An import of torch on a cold disk can take a minute.
PREPARE_S = 300.0
#: How long a nursery may take to end what it has started.
TIDY_UP_S = 5.0
#: Read by OpenMP and MKL when they load; `ray up` exports OMP_NUM_THREADS=1 to whole clusters.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "MKL_NUM_THREADS")
#: What a C++ library prints that ends the process when it is refused memory.
REFUSED = "std::bad_alloc"
#: What idle threads do, of whichever OpenMP; read when it loads, so a nursery has one policy for all its children.
WAIT_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


class NurseryDied(Exception):
    """The nursery ended or does not answer; the message holds its last words."""


class Nursery:
    """Owns one nursery process."""

    def __init__(self, start_method: str = START_METHOD, wait_policy: str = "default") -> None:
        """Start it.

        Args:
            start_method: `fork`, or `spawn` where that cannot be had.
            wait_policy: What idle CPU threads of its children do: `passive`, `active`, or OpenMP's `default`.
        """
        self.start_method = start_method
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the nursery)
        self._buffer = b""
        self._is_ready = False
        fixed = {*THREAD_VARIABLES, *WAIT_VARIABLES}
        environment = {name: text for name, text in os.environ.items() if name not in fixed}
        if wait_policy != "default":
            environment["OMP_WAIT_POLICY"] = wait_policy.upper()
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        # Ask the driver library, not the runtime, whether there is a GPU: the runtime cannot be forked.
        environment["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
        # A trial that compiles does so in its own process: a pool of others would outlive the compiling.
        environment["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        command = [*PYTHON, "runner.nursery", str(requests), str(answers), start_method]
        self._process = subprocess.Popen(
            [*command, str(os.getpid())],
            pass_fds=(requests, answers),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env=environment,
        )
        os.close(requests)
        os.close(answers)

    @property
    def process_id(self) -> int:
        """Its number."""
        return self._process.pid

    def run(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Have a child run one trial.

        Returns:
            What `nursery.serve` reports of it.

        Raises:
            NurseryDied: It ended before the answer came, or it hangs.
        """
        if not self._is_ready:
            self.start_method = self._read_line(PREPARE_S).decode()
            self._is_ready = True
        try:
            with os.fdopen(os.dup(self._requests), "wb") as pipe:
                pipe.write(json.dumps(request).encode() + b"\n")
        except BrokenPipeError:
            raise NurseryDied(self._last_words()) from None
        report: dict[str, Any] = json.loads(self._read_line(request["deadline_s"] + GRACE_S))
        return report

    def close(self) -> None:
        """End the nursery, and with it a child that may be running and all that this one has started."""
        self._process.terminate()
        try:
            self._process.wait(TIDY_UP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._requests)
        os.close(self._answers)
        self._log.close()

    def _read_line(self, timeout_s: float) -> bytes:
        while b"\n" not in self._buffer:
            if not select.select([self._answers], [], [], timeout_s)[0]:
                raise NurseryDied(f"no answer within {timeout_s:.0f} s")
            if not (more := os.read(self._answers, 1 << 16)):
                raise NurseryDied(self._last_words())
            self._buffer += more
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    def _last_words(self) -> str:
        code = self._process.wait()
        self._log.seek(0)
        said = self._log.read().decode(errors="replace").strip().splitlines()
        how = f"killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        return f"the process that starts trials was {how}" + (f": {said[-1]}" if said else "")


_nurseries: dict[str, Nursery] = {}  # by wait policy, which is read when a nursery loads its libraries


def request_of(trial: Trial, source: str | None) -> dict[str, Any]:
    """Return the plain values that a trial's process needs.

    Args:
        trial: What to run.
        source: Text of the user's own workload file, None for a family that ships.
    """
    return {
        "workload": trial.workload,
        "source": source,
        "parameters": dict(trial.parameters),
        "target": trial.target.model_dump(),
        "rung": trial.rung,
        "seed": trial.seed,
        "deadline_s": trial.deadline_s,
        "most_steps": trial.most_steps,
        "for_memory": trial.for_memory,
    }


def attend(
    request: Mapping[str, Any],
    *,
    declared_cpus: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run one trial in a fresh process on this machine and wait for it.

    Args:
        request: What `request_of` returned.
        declared_cpus: CPUs that Ray declares for the node.
        environment: Variables for the trial's process alone.

    Returns:
        Columns of a record, all but those that only the driver knows. Never raises for what a trial does.
    """
    started = datetime.now(UTC).isoformat()
    policy = request["target"]["wait_policy"]
    if policy not in _nurseries:
        _nurseries[policy] = Nursery(wait_policy=policy)
    try:
        return answer_of(_nurseries[policy], request, declared_cpus=declared_cpus, environment=environment)
    except NurseryDied as error:
        _nurseries.pop(policy).close()
        return {
            **machine(),
            "status": "crashed",
            "error_type": "NurseryDied",
            "error_message": str(error),
            "device": request["target"]["device"],
            "start_method": START_METHOD,
            "started_at": started,
            "finished_at": datetime.now(UTC).isoformat(),
        }
    except BaseException:
        # Interrupted: the answer that is still to come would be taken for that of the next trial.
        _nurseries.pop(policy).close()
        raise


def answer_of(
    nursery: Nursery,
    request: Mapping[str, Any],
    *,
    declared_cpus: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run one trial in a child of a nursery: what `attend` does, but for a nursery that dies.

    Raises:
        NurseryDied: See `Nursery.run`.
    """
    who = machine()  # takes a second once, while a new nursery imports torch
    started = datetime.now(UTC).isoformat()
    killed = killed_for_memory()
    asked = {"declared_cpus": declared_cpus, "environment": dict(environment or {}), "asked_ns": now_ns()}
    report = nursery.run({**request, **asked})
    has_run_out = report["signal"] == signal.SIGKILL and killed_for_memory() > killed
    found = {
        "started_at": started,
        "finished_at": datetime.now(UTC).isoformat(),
        "device": request["target"]["device"],
        "start_method": nursery.start_method,
        **who,
        **_columns(report, request["deadline_s"], has_run_out=has_run_out),
    }
    unknown = {name: why for name, why in UNKNOWN.items() if who[name] is None}
    found["null_reasons"] = unknown | found.get("null_reasons", {})
    return found


def nurseries() -> list[int]:
    """Return the process numbers of the nurseries of this process."""
    return [nursery.process_id for nursery in _nurseries.values()]


def close() -> None:
    """End the nurseries of this process, if it has any."""
    while _nurseries:
        _nurseries.popitem()[1].close()


atexit.register(close)


def _columns(report: Mapping[str, Any], deadline_s: float, *, has_run_out: bool) -> dict[str, Any]:
    """Turn what the nursery reports of a child into columns; `has_run_out` says that the kernel ended it for memory."""
    used = {name: report[name] for name in ("cpu_time_s", "peak_memory_bytes", "involuntary_switches")}
    if report["answer"]:
        try:
            return {**used, **json.loads(report["answer"])}
        except ValueError:
            message = "its answer cannot be read: the workload has forked, or has written into what it did not open"
            return {**used, "status": "crashed", "error_type": "BrokenAnswer", "error_message": message}
    if report["timed_out"]:
        message = f"stopped at the deadline of {deadline_s:g} s (deadline_s in the sweep)"
        return {**used, "status": "timeout", "error_type": "Timeout", "error_message": message}
    if has_run_out:
        message = (
            "the kernel ended the trial's process, for the memory of this machine or of its control group had run "
            f"out; the process held {report['peak_memory_bytes'] / 1e9:.1f} GB"
        )
        return {**used, "status": "oom", "error_type": "SIGKILL", "error_message": message}
    if REFUSED in report["output"]:
        message = f"the trial's process ended, for it was refused memory: {report['output'].strip()}"
        return {**used, "status": "oom", "error_type": "bad_alloc", "error_message": message}
    name = _signal_name(report["signal"]) if report["signal"] else f"exit code {report['exit']}"
    message = f"the trial's process ended by {name} without an answer"
    if report["signal"] == signal.SIGKILL:
        message += "; the machine may have run out of memory"
    if said := report["output"].strip():
        message += f"; its last output: {said}"
    return {**used, "status": "crashed", "error_type": name, "error_message": message}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
