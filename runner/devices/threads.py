"""CPU threads of a trial: never left to the environment."""

from __future__ import annotations

import torch


def set_threads(count: int) -> int:
    """Set the threads that one operation may use, and return what torch then says it has."""
    torch.set_num_threads(count)
    return get_threads()


def get_threads() -> int:
    """Return how many threads one operation may use."""
    return torch.get_num_threads()
