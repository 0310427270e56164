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
from runner.devices import cold, compiler, host_memory, memory_limit
from runner.devices.ahead import Ahead
from runner.devices.device import Device, DeviceUnavailable, open_device
from runner.devices.kernels import profile_kernels
from runner.devices.precision import get_precision, set_precision
from runner.devices.threads import get_threads, set_threads, start_threads
from runner.devices.visibility import has_touched_accelerator, hide_accelerators, is_accelerator_visible
from runner.environment import usable_cores
from runner.evidence import Evidence
from runner.mode import enter_mode, is_in_mode, seconds_of_mode
from runner.side_by_side import Company, answer_together, count_of, room_for
from runner.workloads import FIGURES, Workload, load
from sweeps.ladder import COLD, HEADLINE, UNWAITED

LONGEST_MESSAGE = 4_000
#: What allocators say whose errors have no class of their own: of the CPU, of MPS, of cuBLAS.
OUT_OF_MEMORY = ("DefaultCPUAllocator", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "std::bad_alloc")
#: What oneDNN, and Python for a new thread, say where memory was refused. It can have other causes: only with a limit
#: is that the likely one.
LIKELY_OUT_OF_MEMORY = ("could not create a primitive", "could not execute a primitive", "can't start new thread")


#: The rung whose kernels are counted, in so many steps, but for about so many seconds at most.
PROFILED = "kernel"
PROFILED_STEPS = 10
PROFILED_S = 5.0


#: Why nothing was compiled or recorded.
AS_WRITTEN = "steps were run as they are written"
#: Why there is no loss to compare; the report looks for it.
NO_LOSS = "a step returns no number, so nobody can say whether the targets do the same work"


class _Invalid(Exception):
    """The process is not what the trial asked for."""


def answer(request: Mapping[str, Any], company: Company | None = None) -> dict[str, Any]:
    """Run one trial in this process.

    Args:
        request: What `process.request` made of a trial.
        company: The trainings that run at once, this one among them; None where it is alone.

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
        try:
            _run(request, company or Company(), found, begun_ns)
        finally:
            memory_limit.lift_limit()
        found["status"] = "ok"
    except DeviceUnavailable as error:
        found |= _failure("unavailable", error, str(error))
    except _Invalid as error:
        found |= _failure("invalid", error, str(error))
    except Exception as error:  # noqa: BLE001  (whatever the workload raises is a row)
        status = "oom" if _is_out_of_memory(error, is_limited=found.get("max_memory_bytes") is not None) else "error"
        found |= _failure(status, error, traceback.format_exc().strip())
    found["finished_at"] = _now()
    return found


def _run(request: Mapping[str, Any], company: Company, found: dict[str, Any], begun_ns: int) -> None:
    """Do the trial, step by step; what is found stays where a later step fails."""
    _look_at_process(request, found)
    _set_threads(request, company, found)
    device = _open_device(request, found)
    _limit_memory(request, device, company, found)
    _set_precision(request, device, found)
    if request["rung"] == COLD:
        _begin_cold(device, found)
        return
    try:
        _train(request, device, company, found, begun_ns)
    finally:  # where memory runs out, the peak says how far it got
        found.setdefault("device_peak_memory_bytes", device.peak_memory_bytes())


def _train(request: Mapping[str, Any], device: Device, company: Company, found: dict[str, Any], begun_ns: int) -> None:
    """Train and time it."""
    evidence = Evidence(device)
    workload = _prepare(request, device, found)
    device.synchronize()  # what is still on its way to the device belongs to the preparation
    found["prepare_s"] = (timing.now_ns() - begun_ns) / 1e9
    _say_of_workload(workload, found)
    measured = _measure(request, device, workload, evidence, company)
    _check_nothing_has_changed(workload, found)
    _say_of_timing(measured, found)
    _say_of_mode(workload, found)
    _say_of_evidence(measured, evidence, company, found)
    _profile(request, device, workload, measured, found)
    _train_whole(request, device, workload, company, found)


def _look_at_process(request: Mapping[str, Any], found: dict[str, Any]) -> None:
    """Note what the process is like at its beginning, and give it the variables of the trial."""
    host_memory.reset_peak()
    found["memory_at_start_bytes"] = host_memory.resident_bytes()
    # As its libraries found it when they were loaded, by the nursery or here.
    found["wait_policy"] = os.environ.get("OMP_WAIT_POLICY", "default").lower()
    if found["wait_policy"] != (asked := request["target"]["wait_policy"]):
        raise _Invalid(f"wait_policy {asked} was asked for, and this process began with {found['wait_policy']}")
    os.environ.update(request["environment"])


def _set_threads(request: Mapping[str, Any], company: Company, found: dict[str, Any]) -> None:
    cores = usable_cores(request["declared_cpus"])
    asked = request["target"]["threads"]
    wanted = cores if asked == "all" else asked
    found |= {"cores_usable": cores, "threads_requested": wanted}
    if wanted > cores:
        raise DeviceUnavailable(f"{wanted} threads were asked for, and this node has {cores} usable cores")
    at_once = count_of(request["target"], cores)
    if at_once * wanted > cores:
        raise DeviceUnavailable(
            f"{at_once} trainings side by side, {wanted} thread{'s' * (wanted != 1)} each, were asked for, and this "
            f"node has {cores} usable cores"
        )
    if at_once != company.size:
        raise DeviceUnavailable(
            f"{at_once} trainings side by side need a system that can fork a process that has loaded torch: Linux"
        )
    found["side_by_side"] = at_once
    found["threads_observed"] = set_threads(wanted)
    if found["threads_observed"] != wanted:
        raise _Invalid(f"{wanted} threads were asked for, and torch has {found['threads_observed']}")


def _open_device(request: Mapping[str, Any], found: dict[str, Any]) -> Device:
    """Open it and have it do something for the first time, each waited for; nothing has looked for a device before."""
    asked = request["target"]["device"]
    if asked == "cpu":
        hide_accelerators()
    was_open, begun_ns = has_touched_accelerator(), timing.now_ns()
    device = open_device(asked)
    torch.empty(1, device=device.torch_device)
    device.synchronize()
    opened_s = (timing.now_ns() - begun_ns) / 1e9
    found |= {"cold_context_s": opened_s, "cold_first_kernel_s": cold.first_kernel_s(device)}
    if was_open and device.is_accelerator:
        for column in ("cold_context_s", "cold_first_kernel_s"):
            found[column] = None
            found["null_reasons"][column] = "the device was open when the trial began"
    found["device"] = device.torch_device.type
    found["gpu_name"], found["gpu_memory_bytes"] = device.name, device.memory_bytes
    found["cuda"] = torch.version.cuda or torch.version.hip
    if not device.is_accelerator and is_accelerator_visible():
        raise _Invalid("a CPU trial can see an accelerator")
    return device


def _limit_memory(request: Mapping[str, Any], device: Device, company: Company, found: dict[str, Any]) -> None:
    """Set the limit that the target asks for; on a CPU, a search for what fits has one anyway, for the node's sake."""
    most = request["target"]["max_memory"]
    if most is not None and device.is_accelerator:
        device.limit_memory(most)
    elif not device.is_accelerator and (most is not None or request["for_memory"]):
        start_threads()
        if most is None and (most := memory_limit.spare_bytes()) is None:
            raise DeviceUnavailable("this system does not tell how much memory is left: give the target a max_memory")
        if request["for_memory"]:
            memory_limit.give_back_freed()
        memory_limit.set_limit(most // company.size)
    found["max_memory_bytes"] = most
    if most is None:
        found["null_reasons"]["max_memory_bytes"] = "no limit was asked for"


def _set_precision(request: Mapping[str, Any], device: Device, found: dict[str, Any]) -> None:
    asked = request["target"]["precision"]
    found["precision"] = set_precision(asked, device.torch_device)
    if found["precision"] != asked:
        raise _Invalid(f"precision {asked} was asked for, and torch has {found['precision']}")


def _begin_cold(device: Device, found: dict[str, Any]) -> None:
    """Take the start of this process further apart than a training can: nothing is trained."""
    found["cold_first_matmul_s"] = cold.first_matmul_s(device)
    found["cold_first_conv_s"] = cold.first_conv_s(device)


def _prepare(request: Mapping[str, Any], device: Device, found: dict[str, Any]) -> Workload:
    """Make the workload, ready for its first step in the mode of the target."""
    name, target = request["workload"], request["target"]
    seed, parameters, rung = (request[key] for key in ("seed", "parameters", "rung"))
    made: Any = load(name, request["source"], seed=seed, parameters=parameters, rung=rung)
    if getattr(made, "copies_ahead", False):
        made.ahead = Ahead(device.torch_device)
    made.prepare(device.torch_device, target["name"])
    enter_mode(target["mode"], made, device.torch_device, threads=found["threads_observed"])
    found["mode"] = target["mode"]
    workload: Workload = made
    return workload


def _say_of_workload(workload: Workload, found: dict[str, Any]) -> None:
    """Note the figures that it gives of its own work."""
    reasons = getattr(workload, "unknown_figures", {})
    for column in FIGURES:
        value = getattr(workload, column, None)
        found[column] = None if value is None else float(value)
        if value is None:
            found["null_reasons"][column] = reasons.get(column, "the workload does not say")
    found["compare_losses"] = bool(getattr(workload, "compare_losses", True))


def _measure(
    request: Mapping[str, Any], device: Device, workload: Workload, evidence: Evidence, company: Company
) -> timing.Timing:
    """Time the steps, with the evidence gathered before the first timed block and after the last."""
    cycle = getattr(workload, "steps_per_cycle", 1)

    def go_on() -> None:
        for _ in range(cycle):
            workload.step()

    def when_warm() -> None:
        company.meet("warm", go_on)
        device.synchronize()
        evidence.before()

    protocol = timing.ACCELERATOR if device.is_accelerator else timing.CPU
    if request["most_steps"] is not None:
        protocol = timing.shortened(protocol, request["most_steps"])
    measured = timing.measure(
        workload.step,
        device.synchronize,
        protocol=protocol,
        when_warm=when_warm,
        cycle=cycle,
        waits=request["target"]["wait"] and request["rung"] != UNWAITED,
    )
    device.synchronize()
    evidence.after()
    company.meet("timed", go_on)
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


def _say_of_mode(workload: Workload, found: dict[str, Any]) -> None:
    found["mode_s"] = seconds_of_mode(found["mode"], workload)
    if found["mode_s"] is None:
        found["null_reasons"]["mode_s"] = AS_WRITTEN if found["mode"] == "eager" else compiler.UNTOLD


def _say_of_evidence(measured: timing.Timing, evidence: Evidence, company: Company, found: dict[str, Any]) -> None:
    gathered = evidence.found(
        timed_s=measured.steps_per_block * sum(measured.step_times_s),
        threads=found["threads_observed"],
        cores=found["cores_usable"] - (company.size - 1) * found["threads_observed"],  # the rest is the others'
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


def _train_whole(
    request: Mapping[str, Any], device: Device, timed: Workload, company: Company, found: dict[str, Any]
) -> None:
    """Time a whole training from fresh weights, epoch by epoch, for a workload that has one."""
    epochs = getattr(timed, "epochs", 0)
    if not (epochs and hasattr(timed, "epoch") and request["rung"] == HEADLINE):
        for column in ("epoch_times_s", "loss_by_epoch"):
            found["null_reasons"][column] = "this workload is not trained as a whole"
        return
    workload: Any = _prepare(request, device, found)
    company.meet("ready")
    losses: list[float] = []
    found["epoch_times_s"] = [
        timing.elapsed_s(lambda: losses.append(float(workload.epoch())), device.synchronize) for _ in range(epochs)
    ]
    found["loss_by_epoch"] = losses
    company.meet("trained", workload.step)


def _is_out_of_memory(error: Exception, *, is_limited: bool) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    words = (*OUT_OF_MEMORY, *LIKELY_OUT_OF_MEMORY) if is_limited else OUT_OF_MEMORY
    return isinstance(error, RuntimeError) and any(each in str(error) for each in words)


def _failure(status: str, error: Exception, message: str) -> dict[str, Any]:
    kind = type(error).__name__.removeprefix("_")
    storable = message[-LONGEST_MESSAGE:].encode(errors="replace").decode()  # a file name can hold what is no text
    return {"status": status, "error_type": kind, "error_message": storable}


def _now() -> str:
    return datetime.now(UTC).isoformat()


def main(request: str, answer_fd: int, *, forked: bool = True) -> None:
    """Answer one request, both as JSON text, and leave without tidying up: the process is thrown away.

    Args:
        request: What `answer` takes.
        answer_fd: Where the answer goes.
        forked: Whether this process is a fork of one that had loaded torch, and can be forked itself.
    """
    asked = json.loads(request)
    cores = usable_cores(asked["declared_cpus"])
    at_once = count_of(asked["target"], cores)
    if forked and 1 < at_once <= room_for(asked["target"], cores):
        found = answer_together(asked, at_once, answer)
    else:
        found = answer(asked)  # which says why, where this is not what was asked
    text = json.dumps(found)
    with os.fdopen(answer_fd, "w") as out:
        out.write(text)
    sys.stdout.flush()
    sys.stderr.flush()


if __name__ == "__main__":  # how a trial begins where forking cannot be had: runner/nursery.py starts it
    main(sys.stdin.read(), int(sys.argv[1]), forked=False)
    os._exit(0)
