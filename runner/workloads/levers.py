"""How a training is fed, read and optimised: the levers of `sweeps.levers` as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from sweeps.parameter import Value


@dataclass(frozen=True, kw_only=True)
class Levers:
    """The levers of one training.

    Attributes:
        rows: Rows of the data set; 0 is 8 batches of them.
        epochs: Epochs of the whole training that is timed apart; 0 leaves it out.
        loader: How a batch is made: dataloader, gather, slice, resident; and preload, which a rung of the ladder asks
            for: batches that are ready on the host.
        loader_workers: Processes of the DataLoader; None with another loader.
        transfer: How data reach an accelerator: pageable, pinned, overlapped, resident; None on a CPU, where nothing is
            copied.
        sync: Whether the loss is read: every_step, end.
        sync_every: It is read in each so-manyth step; None where it is not.
        dtype: Name of the torch type of the model and of data that are no whole numbers.
        optimizer: Name of a class of torch.optim.
        lr: Its learning rate.
        optimizer_arguments: Its other arguments, by name.
        clip_norm: Largest norm of all gradients together; None clips nothing.
    """

    rows: int
    epochs: int
    loader: str
    loader_workers: int | None
    transfer: str | None
    sync: str
    sync_every: int | None
    dtype: str
    optimizer: str
    lr: float
    optimizer_arguments: Mapping[str, Value]
    clip_norm: float | None

    @property
    def number_type(self) -> torch.dtype:
        """The torch type of that name."""
        made: torch.dtype = getattr(torch, self.dtype)
        return made

    @property
    def read_every(self) -> int:
        """The loss is read in each so-manyth step; 0 is never."""
        return self.sync_every or 1 if self.sync == "every_step" else 0

    @property
    def is_resident(self) -> bool:
        """Whether the data are on the device before the first step."""
        return "resident" in (self.loader, self.transfer)

    @property
    def is_pinned(self) -> bool:
        """Whether batches are copied from page-locked memory, without waiting."""
        return self.transfer in ("pinned", "overlapped")

    @property
    def is_plain(self) -> bool:
        """Whether a step ends in plain SGD, one update a tensor, which is what operators are counted for."""
        return self.optimizer == "SGD" and self.clip_norm is None and not any(self.optimizer_arguments.values())


def levers_of(levers: Mapping[str, Any], optimizer_arguments: Mapping[str, Value | None]) -> Levers:
    """Return what `sweeps.levers.split` found as one value; an argument that is null is as if not given."""
    given = {name: value for name, value in optimizer_arguments.items() if value is not None}
    return Levers(**levers, optimizer_arguments=given)
