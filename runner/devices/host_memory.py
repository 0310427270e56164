"""Memory of the host that this process has used."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil

CLEAR_REFS = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")


def resident_bytes() -> int:
    """Return the resident memory of this process now."""
    resident: int = psutil.Process().memory_info().rss
    return resident


def reset_peak() -> None:
    """Make the kernel forget the peak so far. Where it cannot, the peak is that of the whole process."""
    with contextlib.suppress(OSError):
        CLEAR_REFS.write_text("5")


def peak_bytes() -> int | None:
    """Return the highest resident memory since the reset; None where the kernel does not tell."""
    try:
        lines = STATUS.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None
