"""CPU threads of a trial: never left to the environment."""

from __future__ import annotations

import torch

#: Numbers of which one thread takes no fewer (at::internal::GRAIN_SIZE): an operation on less has fewer threads.
GRAIN = 32_768


def set_threads(count: int) -> int:
    """Set the threads that one operation may use, and return what torch then says it has."""
    torch.set_num_threads(count)
    return get_threads()


def get_threads() -> int:
    """Return how many threads one operation may use."""
    return torch.get_num_threads()


def start_threads() -> None:
    """Have all threads of an operation begin now, so that what they take is taken.

    A thread that cannot begin for want of memory ends the process (libgomp: "Thread creation failed").
    """
    torch.ones(2 * GRAIN * get_threads()).add_(1)
