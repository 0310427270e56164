"""What a workload is: the contract for the families that ship and for the user's own."""

from __future__ import annotations

from typing import Protocol

import torch

#: What a workload may say of itself; they are columns of a record.
FIGURES = ("flops_per_step", "h2d_bytes_per_step", "parameter_bytes", "ops_per_step", "syncs_per_step")


class Workload(Protocol):
    """One training problem.

    It is made by `factory(*, seed: int, **parameters)`. An object may also have the numbers in `FIGURES`; and, for a
    training that is also timed as a whole, the number `epochs` and a method `epoch() -> float` that trains for one
    epoch and returns its mean loss.
    """

    def prepare(self, device: torch.device, target: str) -> None:
        """Build model and data, once, in the trial's own process.

        Build on the CPU from the seed, then move: accelerators draw other numbers from the same seed.

        Args:
            device: Where the training runs.
            target: Name of the target, for those who want to know.
        """

    def step(self) -> torch.Tensor:
        """Do one training step and return its loss, a tensor of one number, without waiting for it."""
