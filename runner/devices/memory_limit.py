"""A limit to the host memory that a trial may take: what goes beyond it fails in the trial's own process.

Where a machine runs out of memory, its kernel ends processes, and not always the one that asked for too much. A limit
that the process has given itself makes the allocation fail instead, and leaves everybody else alone.

The limit is RLIMIT_DATA of Linux: it counts the private writable mappings of a process, so what it has really set
aside. RLIMIT_AS counts address space too that nobody uses, of which libraries reserve gigabytes.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys

from runner.devices.device import DeviceUnavailable
from runner.devices.host_memory import available_bytes, status_bytes

#: Of the memory that a node has left, a trial with a limit may take this much.
SHARE_OF_AVAILABLE = 0.8

#: A setting of glibc's malloc.h, and its value before glibc moves it: from here on a block is a mapping of its own.
_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES = -3, 128 * 1024

_before: list[tuple[int, int]] = []  # soft and hard limit of this process before it was given another; one at most


def spare_bytes() -> int | None:
    """Return how many bytes a trial may take so that the node is not harmed; None where that is not known."""
    available = available_bytes()
    return None if available is None else int(SHARE_OF_AVAILABLE * available)


def set_limit(size_bytes: int) -> None:
    """Let this process, and what it starts from now on, take so many bytes beyond what it has already.

    Args:
        size_bytes: Threads that are still to begin take of it too, 8 MiB for the stack of each.

    Raises:
        DeviceUnavailable: This system has no such limit, or the node has not so much memory left.
    """
    taken = status_bytes("VmData") if sys.platform == "linux" else None
    if taken is None:
        raise DeviceUnavailable("max_memory needs Linux on a CPU: other systems do not limit what a process allocates")
    spare = spare_bytes()
    if spare is not None and size_bytes > spare:
        raise DeviceUnavailable(
            f"max_memory {in_words(size_bytes)} was asked for, and of what this node has left a trial may take "
            f"{in_words(spare)} ({SHARE_OF_AVAILABLE:.0%})"
        )
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY and taken + size_bytes > hard:
        raise DeviceUnavailable(f"max_memory {in_words(size_bytes)} is more than this process may have (ulimit -d)")
    _before[:] = [(soft, hard)]
    resource.setrlimit(resource.RLIMIT_DATA, (taken + size_bytes, hard))


def give_back_freed() -> None:
    """Have the C library give freed blocks back at once, so that what fits does not depend on what came before.

    By itself it keeps blocks of up to 32 MiB once one of that size has been freed, in a heap with gaps: the same
    training then fits into a limit, or not, by the order of its allocations. Times are longer for it: it is meant for
    trials whose memory alone is asked. Where the C library has no such setting, nothing is changed.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)


def lift_limit() -> None:
    """Take the limit away, so that there is memory to tell what went wrong. Without a limit it does nothing."""
    if _before:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, _before.pop())


def in_words(size_bytes: float) -> str:
    """Return a number of bytes as "1.5 GiB" or "500 MiB"."""
    size, unit = size_bytes / 2**20, "MiB"
    for larger in ("GiB", "TiB"):
        if size >= 1024:
            size, unit = size / 1024, larger
    return f"{size:.4g} {unit}"
