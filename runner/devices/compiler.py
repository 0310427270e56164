"""What `torch.compile` needs of a machine beside torch."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys

import torch


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
