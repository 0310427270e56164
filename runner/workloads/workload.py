"""What a workload is: the contract for the families that ship and for the user's own."""

from __future__ import annotations

from typing import Protocol

import torch

#: What a workload may say of itself; they are columns of a record.
FIGURES = ("flops_per_step", "h2d_bytes_per_step", "parameter_bytes", "ops_per_step", "syncs_per_step")


class Workload(Protocol):
    """One training problem.

    It is made by `factory(*, seed: int, **parameters)`. A factory whose arguments name `rung` is told which step
    to make, too: `e2e`, the whole one; `preload`, whose batches are ready on the host; `resident`, whose batches are
    ready on the device; `nosync`, which does not read its loss either. An object may also have, whole or in part:

    - The numbers in `FIGURES`; one that is None has its reason under its name in the dict `unknown_figures`.
    - For a training that is also timed as a whole, the number `epochs` and a method `epoch() -> float` that trains for
      one epoch and returns its mean loss.
    - `steps_per_cycle`: steps after which it is again where it was, where not every step does the same (it reads its
      loss in every tenth, say). Timed blocks then hold whole cycles.
    - `compare_losses = False`: the targets of a pair need not have the same losses (a mask that the device draws).
    - `model`, the `torch.nn.Module` that is trained, after `prepare`: what mode compile compiles; and `cannot_compile`,
      why that cannot be.
    - For mode cudagraph a step in two parts: `bring()` makes the next batch and copies it to the device, `train()` is
      the work of the device on what was brought and returns the loss, and `step` calls the one and then the other.
      After `use_static_inputs()`, called between `prepare` and the first step, every batch comes to lie in the same
      place, and `train` may be replaced by what does the same: `workload.train = recorded(workload.train)`. Steps that
      run before the recording are steps of the training. `cannot_capture` is None, or says why that cannot be.
    - `copies_ahead = True`: it wants batches on the device before they are asked for. It is then given `ahead`, before
      `prepare`: a function from batches on the host, in page-locked memory, to the same on the device, which copies the
      next one while the present one trains. Where the device cannot do that, it is not tried.
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
