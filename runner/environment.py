"""Who measured: the machine, the versions, the code; and how many cores a trial may really use."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import math
import os
import platform
import socket
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: Which control groups this process is in, and where these show their limits.
MEMBERSHIP = Path("/proc/self/cgroup")
CGROUPS = Path("/sys/fs/cgroup")
CPUS = Path("/proc/cpuinfo")
#: Why a column of `machine` is None. An ordinary installation has these packages; runner.check does without.
UNKNOWN = {
    "cpu_model": "the package py-cpuinfo is not installed, and the kernel does not tell",
    "cores_physical": "the package psutil is not installed",
}


@functools.cache
def machine() -> dict[str, Any]:
    """Return the columns of a record that describe this machine and its software. Takes a second, once.

    One that is None has its reason in `UNKNOWN`.
    """
    return {
        "host": socket.gethostname(),
        "cpu_model": _cpu_model(),
        "cores_logical": os.cpu_count(),
        "cores_physical": _physical_cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "torch": importlib.metadata.version("torch"),
        "python": platform.python_version(),
        "os": platform.platform(),
    }


def usable_cores(declared: int | None = None) -> int:
    """Return what `threads: all` means here.

    The least of: the cores that this process is allowed on (physical ones where two logical CPUs share a core, as
    torch itself counts), the CPU quota of every enclosing cgroup, and what Ray declares for the node. `os.cpu_count`
    knows none of these.

    Args:
        declared: CPUs that Ray declares for the node, if there is a Ray.
    """
    limits = [float(_allowed_cores()), *_quotas()]
    if declared:
        limits.append(float(declared))
    return max(1, math.floor(min(limits)))


def code_version(own_source: str | None) -> str:
    """Return a short hash of the code that measures: all of `runner/` and the workload's own file."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "runner").rglob("*.py")):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update((own_source or "").encode())
    return digest.hexdigest()[:12]


def _cpu_model() -> str | None:
    try:
        import cpuinfo

        told: str | None = cpuinfo.get_cpu_info().get("brand_raw")
    except ModuleNotFoundError:
        lines = CPUS.read_text().splitlines() if CPUS.is_file() else []
        told = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)
    return told


def _physical_cores() -> int | None:
    try:
        import psutil
    except ModuleNotFoundError:
        return None
    return psutil.cpu_count(logical=False)


def _allowed_cores() -> int:
    """Physical cores among the CPUs that the affinity of this process allows."""
    if not hasattr(os, "sched_getaffinity"):
        return _physical_cores() or os.cpu_count() or 1
    cores = set()
    for cpu in os.sched_getaffinity(0):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.add(siblings.read_text().strip() if siblings.is_file() else str(cpu))
    return len(cores)


def cpu_cgroups() -> list[Path]:
    """Return the folders of the cgroups that limit the CPU time of this process, the innermost first.

    Both versions of cgroups, with every group that encloses another; empty where there are none.
    """
    found = []
    try:
        lines = MEMBERSHIP.read_text().splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = CGROUPS / "cpu" if controllers else CGROUPS
        folder = root / path.lstrip("/")
        for place in (folder, *folder.parents):
            found.append(place)
            if place == root:
                break
    return found


def _quotas() -> list[float]:
    """CPU quotas, in cores; a group of either version has the files of that version only."""
    found = (quota(place) for place in cpu_cgroups() for quota in (_quota_v1, _quota_v2))
    return [quota for quota in found if quota is not None]


def _quota_v2(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return None


def _quota_v1(folder: Path) -> float | None:
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        return None if quota <= 0 else quota / int((folder / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None
