"""What happens inside a trial's own process: a request in, the columns that only this process knows out.

Both are plain JSON values. Nothing is raised: what goes wrong is part of the answer.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import torch

from runner import timing
from runner.devices import host_memory
from runner.devices.device import Device, DeviceUnavailable, open_device
from runner.devices.kernels import profile_kernels
from runner.devices.precision import get_precision, set_precision
from runner.devices.threads import get_threads, set_threads
from runner.devices.visibility import hide_accelerators, is_accelerator_visible
from runner.environment import usable_cores
from runner.evidence import Evidence
from runner.mode import enter_mode, is_in_mode
from runner.workloads import FIGURES, Workload, load
from sweeps.ladder import HEADLINE, UNWAITED

LONGEST_MESSAGE = 4_000
#: What allocators say whose errors have no class of their own: of the CPU, of MPS, of cuBLAS.
OUT_OF_MEMORY = ("DefaultCPUAllocator", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


#: The rung whose kernels are counted, in so many steps, but for about so many seconds at most.
PROFILED = "kernel"
PROFILED_STEPS = 10
PROFILED_S = 5.0


#: Why there is no loss to compare; the report looks for it.
NO_LOSS = "a step returns no number, so nobody can say whether the targets do the same work"


class _Invalid(Exception):
    """The process is not what the trial asked for."""


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run one trial in this process.

    Args:
        request: What `process.request` made of a trial.

    Returns:
        Columns of a record, `status` among them, `started_at` and `finished_at` as ISO texts.
    """
    begun_ns = timing.now_ns()
    found: dict[str, Any] = {
        "started_at": _now(),
        "process_start_s": (begun_ns - request["asked_ns"]) / 1e9,
        "null_reasons": {},
    }
    try:
        _run(request, found, begun_ns)
        found["status"] = "ok"
    except DeviceUnavailable as error:
        found |= _failure("unavailable", error, str(error))
    except _Invalid as error:
        found |= _failure("invalid", error, str(error))
    except Exception as error:  # noqa: BLE001  (whatever the workload raises is a row)
        status = "oom" if _is_out_of_memory(error) else "error"
        found |= _failure(status, error, traceback.format_exc().strip())
    found["finished_at"] = _now()
    return found


def _run(request: Mapping[str, Any], found: dict[str, Any], begun_ns: int) -> None:
    """Do the trial, step by step; what is found stays where a later step fails."""
    _look_at_process(request, found)
    _set_threads(request, found)
    device = _open_device(request, found)
    _set_precision(request, device, found)
    evidence = Evidence(device)
    workload = _prepare(request, device, found)
    device.synchronize()  # what is still on its way to the device belongs to the preparation
    found["prepare_s"] = (timing.now_ns() - begun_ns) / 1e9
    _say_of_workload(workload, found)
    measured = _measure(request, device, workload, evidence)
    _check_nothing_has_changed(workload, found)
    _say_of_timing(measured, found)
    _say_of_evidence(measured, evidence, found)
    _profile(request, device, workload, measured, found)
    _train_whole(request, device, workload, found)


def _look_at_process(request: Mapping[str, Any], found: dict[str, Any]) -> None:
    """Note what the process is like at its beginning, and give it the variables of the trial."""
    host_memory.reset_peak()
    found["memory_at_start_bytes"] = host_memory.resident_bytes()
    # As its libraries found it when they were loaded, by the nursery or here.
    found["wait_policy"] = os.environ.get("OMP_WAIT_POLICY", "default").lower()
    if found["wait_policy"] != (asked := request["target"]["wait_policy"]):
        raise _Invalid(f"wait_policy {asked} was asked for, and this process began with {found['wait_policy']}")
    os.environ.update(request["environment"])


def _set_threads(request: Mapping[str, Any], found: dict[str, Any]) -> None:
    cores = usable_cores(request["declared_cpus"])
    asked = request["target"]["threads"]
    wanted = cores if asked == "all" else asked
    found |= {"cores_usable": cores, "threads_requested": wanted}
    if wanted > cores:
        raise DeviceUnavailable(f"{wanted} threads were asked for, and this node has {cores} usable cores")
    found["threads_observed"] = set_threads(wanted)
    if found["threads_observed"] != wanted:
        raise _Invalid(f"{wanted} threads were asked for, and torch has {found['threads_observed']}")


def _open_device(request: Mapping[str, Any], found: dict[str, Any]) -> Device:
    asked = request["target"]["device"]
    if asked == "cpu":
        hide_accelerators()
    device = open_device(asked)
    found["device"] = device.torch_device.type
    found["gpu_name"], found["gpu_memory_bytes"] = device.name, device.memory_bytes
    found["cuda"] = torch.version.cuda or torch.version.hip
    if not device.is_accelerator and is_accelerator_visible():
        raise _Invalid("a CPU trial can see an accelerator")
    return device


def _set_precision(request: Mapping[str, Any], device: Device, found: dict[str, Any]) -> None:
    asked = request["target"]["precision"]
    found["precision"] = set_precision(asked, device.torch_device)
    if found["precision"] != asked:
        raise _Invalid(f"precision {asked} was asked for, and torch has {found['precision']}")


def _prepare(request: Mapping[str, Any], device: Device, found: dict[str, Any]) -> Workload:
    """Make the workload, ready for its first step in the mode of the target."""
    name, target = request["workload"], request["target"]
    made = load(name, request["source"], seed=request["seed"], parameters=request["parameters"], rung=request["rung"])
    made.prepare(device.torch_device, target["name"])
    enter_mode(target["mode"], made, device.torch_device, threads=found["threads_observed"])
    found["mode"] = target["mode"]
    return made


def _say_of_workload(workload: Workload, found: dict[str, Any]) -> None:
    """Note the figures that it gives of its own work."""
    reasons = getattr(workload, "unknown_figures", {})
    for column in FIGURES:
        value = getattr(workload, column, None)
        found[column] = None if value is None else float(value)
        if value is None:
            found["null_reasons"][column] = reasons.get(column, "the workload does not say")
    found["compare_losses"] = bool(getattr(workload, "compare_losses", True))


def _measure(request: Mapping[str, Any], device: Device, workload: Workload, evidence: Evidence) -> timing.Timing:
    """Time the steps, with the evidence gathered before the first timed block and after the last."""

    def when_warm() -> None:
        device.synchronize()
        evidence.before()

    measured = timing.measure(
        workload.step,
        device.synchronize,
        protocol=timing.ACCELERATOR if device.is_accelerator else timing.CPU,
        when_warm=when_warm,
        cycle=getattr(workload, "steps_per_cycle", 1),
        waits=request["target"]["wait"] and request["rung"] != UNWAITED,
    )
    device.synchronize()
    evidence.after()
    return measured


def _check_nothing_has_changed(workload: Workload, found: Mapping[str, Any]) -> None:
    if (threads := get_threads()) != found["threads_observed"]:
        raise _Invalid(f"the trial began with {found['threads_observed']} threads and ended with {threads}")
    if (precision := get_precision()) != found["precision"]:
        raise _Invalid(f"the trial began with precision {found['precision']} and ended with {precision}")
    if not is_in_mode(found["mode"], workload):
        raise _Invalid(f"mode {found['mode']} was asked for, and its steps ran as they are written")


def _say_of_timing(measured: timing.Timing, found: dict[str, Any]) -> None:
    found |= {
        "step_times_s": measured.step_times_s,
        "steps_per_block": measured.steps_per_block,
        "warmup_steps": measured.warmup_steps,
        "warmup_s": measured.warmup_s,
        "first_step_s": measured.first_step_s,
        "loss_step_1": measured.losses.get(1),
        "loss_step_10": measured.losses.get(10),
    }
    if 1 not in measured.losses:
        found["null_reasons"] |= dict.fromkeys(("loss_step_1", "loss_step_10"), NO_LOSS)
    elif 10 not in measured.losses:
        found["null_reasons"]["loss_step_10"] = "fewer than 10 steps fitted into the warm-up"


def _say_of_evidence(measured: timing.Timing, evidence: Evidence, found: dict[str, Any]) -> None:
    gathered = evidence.found(
        timed_s=measured.steps_per_block * sum(measured.step_times_s),
        threads=found["threads_observed"],
        cores=found["cores_usable"],
        wait_policy=found["wait_policy"],
    )
    found |= gathered.columns
    found["null_reasons"] |= gathered.reasons


def _profile(
    request: Mapping[str, Any], device: Device, workload: Workload, measured: timing.Timing, found: dict[str, Any]
) -> None:
    """For the rung of that name, count the kernels of a few more steps."""
    why, seen = f"counted for the rung {PROFILED} only", None
    if request["rung"] == PROFILED:
        steps = max(1, min(PROFILED_STEPS, round(PROFILED_S / measured.step_times_s[-1])))
        seen = profile_kernels(workload.step, device.synchronize, steps=steps)
        why = "the profiler saw no kernel of an accelerator"
    found["kernels_per_step"] = seen.per_step if seen else None
    found["kernel_time_s"] = seen.time_s if seen else None
    if not seen:
        found["null_reasons"] |= {"kernels_per_step": why, "kernel_time_s": why}


def _train_whole(request: Mapping[str, Any], device: Device, timed: Workload, found: dict[str, Any]) -> None:
    """Time a whole training from fresh weights, epoch by epoch, for a workload that has one."""
    epochs = getattr(timed, "epochs", 0)
    if not (epochs and hasattr(timed, "epoch") and request["rung"] == HEADLINE):
        for column in ("epoch_times_s", "loss_by_epoch"):
            found["null_reasons"][column] = "this workload is not trained as a whole"
        return
    workload: Any = _prepare(request, device, found)
    losses: list[float] = []
    found["epoch_times_s"] = [
        timing.elapsed_s(lambda: losses.append(float(workload.epoch())), device.synchronize) for _ in range(epochs)
    ]
    found["loss_by_epoch"] = losses


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in OUT_OF_MEMORY)


def _failure(status: str, error: Exception, message: str) -> dict[str, Any]:
    kind = type(error).__name__.removeprefix("_")
    storable = message[-LONGEST_MESSAGE:].encode(errors="replace").decode()  # a file name can hold what is no text
    return {"status": status, "error_type": kind, "error_message": storable}


def _now() -> str:
    return datetime.now(UTC).isoformat()


def main(request: str, answer_fd: int) -> None:
    """Answer one request, both as JSON text, and leave without tidying up: the process is thrown away."""
    text = json.dumps(answer(json.loads(request)))
    with os.fdopen(answer_fd, "w") as out:
        out.write(text)
    sys.stdout.flush()
    sys.stderr.flush()


if __name__ == "__main__":  # how a trial begins where forking cannot be had: runner/nursery.py starts it
    main(sys.stdin.read(), int(sys.argv[1]))
    os._exit(0)
