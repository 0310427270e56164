"""Memory of the host: what this process has used of it, and whether it has run out."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil

CLEAR_REFS = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")
MEMBERSHIP = Path("/proc/self/cgroup")
#: Where control groups of the first and of the second version show what happened to their memory.
CGROUPS_1, CGROUPS_2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
MACHINE = Path("/proc/vmstat")


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


def killed_for_memory() -> int:
    """Count the processes that the kernel has ever ended for want of memory, near this one.

    Returns:
        The count of the innermost control group that has one, else that of the whole machine; 0 where nobody counts.
    """
    for file in [*_told_by_groups(), MACHINE]:
        with contextlib.suppress(OSError, ValueError):
            for line in file.read_text().splitlines():
                name, _, number = line.partition(" ")
                if name == "oom_kill":
                    return int(number)
    return 0


def _told_by_groups() -> list[Path]:
    """Return the files in which the control groups of this process tell of their memory, the innermost first."""
    try:
        lines = MEMBERSHIP.read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root, file = (CGROUPS_1, "memory.oom_control") if controllers else (CGROUPS_2, "memory.events")
        folder = root / path.lstrip("/")
        found += [place / file for place in (folder, *folder.parents) if place.is_relative_to(root)]
    return found
