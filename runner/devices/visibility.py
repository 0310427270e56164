"""Which accelerators a process can see."""

from __future__ import annotations

import os

import torch

VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def hide_accelerators() -> None:
    """Make this process blind to CUDA and ROCm devices. Call it before anything has looked for one.

    Ray leaves the variable unset for a task without GPUs, which shows it every GPU of the node.
    """
    for variable in VARIABLES:
        os.environ[variable] = ""


def has_touched_accelerator() -> bool:
    """Whether this process has begun to use CUDA or ROCm, after which it cannot be forked."""
    return bool(torch.cuda.is_initialized())


def is_accelerator_visible() -> bool:
    """Whether CUDA or ROCm still shows a device. MPS cannot be hidden, and is used only by name."""
    return torch.cuda.device_count() > 0
