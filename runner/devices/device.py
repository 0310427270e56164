"""A device that a trial runs on, and why there may be none."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch


class DeviceUnavailable(Exception):
    """The device that was asked for is not here; the message is the cause."""


class Device(Protocol):
    """What a trial needs of a device; tests stand in for an accelerator behind the same contract."""

    @property
    def torch_device(self) -> torch.device:
        """Where tensors go."""

    @property
    def is_accelerator(self) -> bool:
        """Whether work runs on it asynchronously, beside the CPU."""

    @property
    def name(self) -> str | None:
        """Name of the hardware; None for a CPU, whose name `environment` knows."""

    @property
    def memory_bytes(self) -> int | None:
        """Memory of its own, in bytes; None for a CPU or where it is not told."""

    @property
    def uuid(self) -> str | None:
        """Identity of the hardware as its driver writes it; None for a CPU or where it is not told."""

    def synchronize(self) -> None:
        """Wait until all work that was given to the device is done."""

    def reset_peak_memory(self) -> None:
        """Begin anew to look for the peak."""

    def peak_memory_bytes(self) -> int | None:
        """Most memory of its own that tensors took at one time; None for a CPU or where it is not told."""

    def limit_memory(self, size_bytes: int) -> None:
        """Make allocations of its own memory fail that go beyond so many bytes.

        Raises:
            DeviceUnavailable: It has no such limit, or not so much memory.
        """


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """The CPU. Its work is done when the call returns, so there is nothing to wait for."""

    torch_device: torch.device = torch.device("cpu")
    is_accelerator: bool = False
    name: None = None
    memory_bytes: None = None
    uuid: None = None

    def synchronize(self) -> None:
        """Return at once."""

    def reset_peak_memory(self) -> None:
        """Return at once: its memory is that of the host."""

    def peak_memory_bytes(self) -> None:
        """There is no memory of its own."""

    def limit_memory(self, size_bytes: int) -> None:
        """Refuse: the host's memory is limited by `memory_limit`.

        Raises:
            DeviceUnavailable: Always.
        """
        raise DeviceUnavailable(f"a CPU has no {size_bytes} bytes of its own to be limited")


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """Whatever `torch.accelerator` drives: CUDA, ROCm (which calls itself cuda), MPS."""

    torch_device: torch.device
    name: str | None
    memory_bytes: int | None
    uuid: str | None = None
    is_accelerator: bool = True

    def synchronize(self) -> None:
        """Wait for all streams of the device."""
        torch.accelerator.synchronize()

    def reset_peak_memory(self) -> None:
        """Tell the allocator to forget its peak, where it keeps one."""
        with contextlib.suppress(RuntimeError, NotImplementedError):  # that of MPS does not
            torch.accelerator.reset_peak_memory_stats()

    def peak_memory_bytes(self) -> int | None:
        """Ask the allocator for its peak."""
        try:
            return int(torch.accelerator.max_memory_allocated())
        except (RuntimeError, NotImplementedError):
            return None

    def limit_memory(self, size_bytes: int) -> None:
        """Tell the allocator what share of the device it may take, where it can be told.

        Raises:
            DeviceUnavailable: It cannot, or the device has not so much memory.
        """
        kind = self.torch_device.type
        set_share = getattr(torch.get_device_module(kind), "set_per_process_memory_fraction", None)
        if set_share is None or not self.memory_bytes:
            raise DeviceUnavailable(f"max_memory: the allocator of torch for {kind} has no limit that can be set")
        if size_bytes > self.memory_bytes:
            raise DeviceUnavailable(
                f"max_memory: {size_bytes} bytes were asked for, and this device has {self.memory_bytes}"
            )
        device = () if kind == "mps" else (self.torch_device,)  # of MPS there is one
        try:
            set_share(size_bytes / self.memory_bytes, *device)
        except (RuntimeError, ValueError) as error:
            raise DeviceUnavailable(f"max_memory cannot be set on this device: {error}") from error


def open_device(kind: str) -> Device:
    """Return the device that a target asks for.

    Args:
        kind: `cpu`, `cuda`, `mps`, or `gpu` for whichever accelerator is here.

    Raises:
        DeviceUnavailable: There is no such device; the message says why.
    """
    if kind == "cpu":
        return Cpu()
    present = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if present is None:
        raise DeviceUnavailable(absence())
    if kind not in ("gpu", present.type):
        raise DeviceUnavailable(f"no {kind} device: the accelerator of this machine is {present.type}")
    device = torch.device(present.type, torch.accelerator.current_device_index())
    name, memory, uuid = None, None, None
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        name, memory = properties.name, properties.total_memory
        uuid = f"GPU-{properties.uuid}" if hasattr(properties, "uuid") else None
    elif device.type == "mps":
        name, memory = "Apple GPU", torch.mps.recommended_max_memory()
    return Accelerator(torch_device=device, name=name, memory_bytes=memory, uuid=uuid)


def absence() -> str:
    """Say why this process has no accelerator: the build of torch, the driver, or the environment."""
    hidden = [name for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES") if os.environ.get(name) in ("", "-1")]
    version = importlib.metadata.version("torch")
    if torch.version.cuda is None and torch.version.hip is None:
        return f"no CUDA device: this torch {version} is a CPU-only build"
    if hidden:
        return f"no CUDA device: {hidden[0]}={os.environ[hidden[0]]!r} hides it"
    if not Path("/dev/nvidiactl").exists() and not Path("/dev/kfd").exists():
        return "no CUDA device: no driver of a GPU is loaded on this machine"
    return f"no CUDA device: torch {version} (CUDA {torch.version.cuda}) finds none; is the driver too old for it?"
