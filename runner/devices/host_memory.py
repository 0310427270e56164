"""Memory of the host: what this process has used of it, and whether it has run out."""

from __future__ import annotations

import contextlib
from pathlib import Path

CLEAR_REFS = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")
MEMBERSHIP = Path("/proc/self/cgroup")
#: Where control groups of the first and of the second version show what happened to their memory.
CGROUPS_1, CGROUPS_2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
MACHINE = Path("/proc/vmstat")
TOTALS = Path("/proc/meminfo")
#: Of a group of the first and of the second version: its limit, what it has taken, and the name of idle file pages.
FILES_OF_GROUPS = (
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ("memory.max", "memory.current", "inactive_file"),
)


def resident_bytes() -> int | None:
    """Return the resident memory of this process now; None where nobody tells."""
    try:
        import psutil
    except ModuleNotFoundError:
        return status_bytes("VmRSS")
    resident: int = psutil.Process().memory_info().rss
    return resident


def reset_peak() -> None:
    """Make the kernel forget the peak so far. Where it cannot, the peak is that of the whole process."""
    with contextlib.suppress(OSError):
        CLEAR_REFS.write_text("5")


def peak_bytes() -> int | None:
    """Return the highest resident memory since the reset; None where the kernel does not tell."""
    return status_bytes("VmHWM")


def status_bytes(name: str) -> int | None:
    """Return a size that the kernel keeps of this process, such as VmData; None where it does not tell."""
    return _told(STATUS, name)


def available_bytes() -> int | None:
    """Return how much memory can still be taken: of this machine, and within the control groups of this process.

    Returns:
        The least of them; what files occupy in caches counts as free. None where nobody tells.
    """
    free = [_told(TOTALS, "MemAvailable"), *map(_left_in, _groups())]
    return min((size for size in free if size is not None), default=None)


def _told(file: Path, name: str) -> int | None:
    """Return a size that stands in a file of the kernel as "VmData:   1024 kB"; None where it does not."""
    try:
        lines = file.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def killed_for_memory() -> int:
    """Count the processes that the kernel has ever ended for want of memory, near this one.

    Returns:
        The count of the innermost control group that has one, else that of the whole machine; 0 where nobody counts.
    """
    told = [folder / name for folder in _groups() for name in ("memory.oom_control", "memory.events")]
    for file in [*told, MACHINE]:
        with contextlib.suppress(OSError, ValueError):
            for line in file.read_text().splitlines():
                name, _, number = line.partition(" ")
                if name == "oom_kill":
                    return int(number)
    return 0


def _groups() -> list[Path]:
    """Return the folders of the control groups that count the memory of this process, the innermost first."""
    try:
        lines = MEMBERSHIP.read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = CGROUPS_1 if controllers else CGROUPS_2
        folder = root / path.lstrip("/")
        found += [place for place in (folder, *folder.parents) if place.is_relative_to(root)]
    return found


def _left_in(group: Path) -> int | None:
    """Return how many bytes a control group may still take; None where it has no limit, or is of another kind.

    Files that nobody has read for a while can be dropped from memory at once, so they count as free.
    """
    for most, taken, idle in FILES_OF_GROUPS:
        with contextlib.suppress(OSError, ValueError):  # "max" is no number
            limit, used = (int((group / name).read_text()) for name in (most, taken))
            told = (group / "memory.stat").read_text().splitlines()
            free = next((int(line.split()[1]) for line in told if line.startswith(f"{idle} ")), 0)
            return max(0, limit - used + free)
    return None
