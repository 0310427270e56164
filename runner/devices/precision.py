"""How exactly float32 numbers are multiplied: set on every backend, and read back.

torch's defaults are not the same everywhere. cuDNN's convolutions and recurrent layers use TF32, CUDA's matrix products
do not. So each backend is told, and `tf32` is told to those of CUDA alone: a CPU with matrix units would follow too.
"""

from __future__ import annotations

from typing import Any

import torch

from runner.devices.device import DeviceUnavailable

#: The first generation of CUDA devices that has TF32.
TF32_CAPABILITY = (8, 0)


def set_precision(asked: str, device: torch.device) -> str:
    """Set the precision of float32 products, and return what torch then says it is.

    Args:
        asked: `ieee` or `tf32`.
        device: Where the trial runs.

    Raises:
        DeviceUnavailable: The device has no TF32.
    """
    if asked == "tf32" and device.type != "cuda":
        raise DeviceUnavailable(f"precision tf32 is for CUDA devices, and this one is {device.type}")
    if asked == "tf32" and torch.cuda.get_device_capability(device) < TF32_CAPABILITY:
        raise DeviceUnavailable("precision tf32 is for CUDA devices of compute capability 8.0 or more")
    torch.backends.cudnn.benchmark = False  # it would try out algorithms, and may choose another in each trial
    on_cuda = _cuda_backends()
    if on_cuda:
        for backend in on_cuda.values():
            backend.fp32_precision = asked
        for backend in _cpu_backends().values():
            backend.fp32_precision = "ieee"
    else:  # torch before 2.9; never both, torch refuses to be asked in two ways
        torch.backends.cuda.matmul.allow_tf32 = asked == "tf32"
        torch.backends.cudnn.allow_tf32 = asked == "tf32"
    return get_precision()


def get_precision() -> str:
    """Return the precision of float32 products.

    Returns:
        `ieee`; `tf32` where CUDA's backends, all of them, use it and the CPU's do not; else each backend with its own.
    """
    on_cuda = {name: str(each.fp32_precision) for name, each in _cuda_backends().items()}
    on_cpu = {name: str(each.fp32_precision) for name, each in _cpu_backends().items()}
    if not on_cuda:
        old = {"cuda.matmul": torch.backends.cuda.matmul.allow_tf32, "cudnn": torch.backends.cudnn.allow_tf32}
        on_cuda = {name: "tf32" if allowed else "ieee" for name, allowed in old.items()}
    kinds = set(on_cuda.values())
    if set(on_cpu.values()) <= {"ieee"} and len(kinds) == 1:
        return kinds.pop()
    return ", ".join(f"{name} {value}" for name, value in {**on_cuda, **on_cpu}.items())


def _cuda_backends() -> dict[str, Any]:
    """Those that can be told by their `fp32_precision`; empty before torch 2.9, which knows `allow_tf32` only."""
    if not hasattr(torch.backends, "fp32_precision"):
        return {}
    cudnn: Any = torch.backends.cudnn
    return {"cuda.matmul": torch.backends.cuda.matmul, "cudnn.conv": cudnn.conv, "cudnn.rnn": cudnn.rnn}


def _cpu_backends() -> dict[str, Any]:
    names = ("matmul", "conv", "rnn") if _cuda_backends() else ()
    return {f"mkldnn.{name}": getattr(torch.backends.mkldnn, name) for name in names}
