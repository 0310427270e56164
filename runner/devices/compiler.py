"""What `torch.compile` needs of a machine beside torch."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys

import torch

#: Why it may not be known how long compiling took.
UNTOLD = "this torch does not tell how long it compiled"


def seconds() -> float | None:
    """Return the seconds that `torch.compile` has taken in this process; None where torch does not tell."""
    from torch._dynamo import utils  # takes a second to import, and is there once something has been compiled

    tell = getattr(utils, "calculate_time_spent", None)
    spent = tell().get("total_wall_time") if tell else None
    return float(spent) if spent else None


def missing(device: torch.device) -> str:
    """Return why `torch.compile` cannot work for a device here; empty if nothing is known to be missing.

    Args:
        device: Where the model is.
    """
    if device.type == "cuda" and not importlib.util.find_spec("triton"):
        return "mode compile needs the package triton for a CUDA device"
    if device.type == "cuda" and not any(map(shutil.which, filter(None, (os.environ.get("CC"), "gcc", "clang")))):
        return "mode compile needs a C compiler for Triton, and there is neither gcc nor clang (CC names another)"
    compiler = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    if device.type == "cpu" and not shutil.which(compiler):
        return f"mode compile needs a C++ compiler for the CPU, and there is no {compiler} (CXX names another)"
    return ""
