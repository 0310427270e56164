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
from runner.devices.device import Device, DeviceUnavailable, open_device
from runner.devices.threads import get_threads, set_threads
from runner.devices.visibility import hide_accelerators, is_accelerator_visible
from runner.environment import usable_cores
from runner.interference import Counters, Interference, judge, read_counters
from runner.workloads import FIGURES, Workload, load

LONGEST_MESSAGE = 4_000
#: What allocators say whose errors have no class of their own: of the CPU, of MPS, of cuBLAS.
OUT_OF_MEMORY = ("DefaultCPUAllocator", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


class _Invalid(Exception):
    """The process is not what the trial asked for."""


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run one trial in this process.

    Args:
        request: What `process.request` made of a trial.

    Returns:
        Columns of a record, `status` among them, `started_at` and `finished_at` as ISO texts.
    """
    found: dict[str, Any] = {
        "started_at": _now(),
        "process_start_s": (timing.now_ns() - request["asked_ns"]) / 1e9,
        "null_reasons": {},
    }
    try:
        _run(request, found)
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


def _run(request: Mapping[str, Any], found: dict[str, Any]) -> None:
    target = request["target"]
    os.environ.update(request["environment"])
    if target["device"] == "cpu":
        hide_accelerators()
    _set_threads(request, found)
    device = open_device(target["device"])
    found["device"] = device.torch_device.type
    found["gpu_name"], found["gpu_memory_bytes"] = device.name, device.memory_bytes
    found["cuda"] = torch.version.cuda or torch.version.hip
    if not device.is_accelerator and is_accelerator_visible():
        raise _Invalid("a CPU trial can see an accelerator")
    workload = _prepare(request, device)
    protocol = timing.ACCELERATOR if device.is_accelerator else timing.CPU
    counters: list[Counters] = []
    measured = timing.measure(
        workload.step, device.synchronize, protocol=protocol, when_warm=lambda: counters.append(read_counters())
    )
    if (threads := get_threads()) != found["threads_observed"]:
        raise _Invalid(f"the trial began with {found['threads_observed']} threads and ended with {threads}")
    _judge(judge(counters[-1], read_counters(), threads=found["threads_observed"], cores=found["cores_usable"]), found)
    found |= {
        "step_times_s": measured.step_times_s,
        "steps_per_block": measured.steps_per_block,
        "warmup_steps": measured.warmup_steps,
        "warmup_s": measured.warmup_s,
        "first_step_s": measured.first_step_s,
        "loss_step_1": measured.losses.get(1),
        "loss_step_10": measured.losses.get(10),
    }
    if 10 not in measured.losses:
        found["null_reasons"]["loss_step_10"] = "fewer than 10 steps fitted into the warm-up"
    for column in FIGURES:
        value = getattr(workload, column, None)
        found[column] = None if value is None else float(value)
        if value is None:
            found["null_reasons"][column] = "the workload does not say"
    _train_whole(request, device, workload, found)


def _judge(seen: Interference, found: dict[str, Any]) -> None:
    """Note whether the trial was alone on its cores."""
    found["interference"] = seen.verdict
    for column in ("run_delay_share", "throttled_s", "steal_share"):
        found[column] = getattr(seen, column)
        if found[column] is None:
            found["null_reasons"][column] = "the kernel does not tell"


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


def _prepare(request: Mapping[str, Any], device: Device) -> Workload:
    workload = load(request["workload"], request["source"], seed=request["seed"], parameters=request["parameters"])
    workload.prepare(device.torch_device, request["target"]["name"])
    return workload


def _train_whole(request: Mapping[str, Any], device: Device, timed: Workload, found: dict[str, Any]) -> None:
    """Time a whole training from fresh weights, epoch by epoch, for a workload that has one."""
    epochs = getattr(timed, "epochs", 0)
    if not (epochs and hasattr(timed, "epoch")):
        for column in ("epoch_times_s", "loss_by_epoch"):
            found["null_reasons"][column] = "this workload is not trained as a whole"
        return
    workload: Any = _prepare(request, device)
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
