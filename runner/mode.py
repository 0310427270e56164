"""How a target runs a workload's steps: as they are written, compiled, or replayed from a recording."""

from __future__ import annotations

from typing import Any

import torch

from runner.devices import compiler
from runner.devices.device import DeviceUnavailable
from runner.devices.graph import Captured


def enter_mode(mode: str, workload: Any, device: torch.device, *, threads: int) -> None:
    """Make a workload that has been prepared run in the mode of its target.

    Args:
        mode: `eager`; `compile`, which compiles its `model` (compiling itself comes with the first step); `cudagraph`,
            which records its `train` once the steps before the recording are done.
        workload: What is trained. For the modes other than eager it has to have a little more than a `step`.
        device: Where it is.
        threads: CPU threads of the trial, which compiled code for a CPU is made for.

    Raises:
        DeviceUnavailable: The mode cannot be had for this workload on this device; the message says why.
    """
    if mode == "compile":
        _compile(workload, device, threads)
    elif mode == "cudagraph":
        _capture(workload, device)


def is_in_mode(mode: str, workload: Any) -> bool:
    """Whether steps have really been run in the mode: torch can be told by the environment to compile nothing."""
    if mode == "compile":
        from torch._dynamo.utils import counters

        return bool(counters["stats"]["unique_graphs"])
    return mode != "cudagraph" or workload.train.is_recorded


def seconds_of_mode(mode: str, workload: Any) -> float | None:
    """Return what getting into the mode has taken so far, beyond the preparation; None for eager, or if unknown.

    Of `compile` it is the time that torch itself counts for making code of forward and backward: exact, where the
    first step less a usual one would also hold what any first step pays. Code that torch finds on disk, where it keeps
    what it has once made, takes less. Of `cudagraph` it is the steps before the recording and the recording.
    """
    if mode == "compile":
        return compiler.seconds()
    return float(workload.train.seconds) if mode == "cudagraph" else None


def _compile(workload: Any, device: torch.device, threads: int) -> None:
    if not isinstance(getattr(workload, "model", None), torch.nn.Module):
        raise DeviceUnavailable("mode compile needs a workload with a `model`, and this one has none")
    if why := getattr(workload, "cannot_compile", "") or compiler.missing(device):
        raise DeviceUnavailable(why)
    # Not `model.compile()`: torch 2.13 then leaves a model alone that consists of its own layers only. And kept
    # compilations are told apart by their options, so that code for another number of threads is not taken.
    model = workload.model
    model.forward = torch.compile(model.forward, options={"cpp.threads": threads})


def _capture(workload: Any, device: torch.device) -> None:
    if device.type != "cuda":
        raise DeviceUnavailable(f"mode cudagraph is for CUDA devices, and this one is {device.type}")
    if not all(hasattr(workload, name) for name in ("train", "use_static_inputs")):
        raise DeviceUnavailable("mode cudagraph needs a workload with `train` and `use_static_inputs`")
    if why := getattr(workload, "cannot_capture", ""):
        raise DeviceUnavailable(f"mode cudagraph: {why}")
    workload.use_static_inputs()
    workload.train = Captured(workload.train)  # what `step` calls once the batch is in its place
