"""Control flow that depends on data: every layer asks the host which way to go, and the host waits for the answer."""

from __future__ import annotations

import torch
from torch import nn

from runner.workloads.levers import Levers
from runner.workloads.straight import Residual, Straight


class Branches(Residual):
    """`Residual` with an `if` in every layer."""

    def add(self, hidden: torch.Tensor, update: torch.Tensor) -> torch.Tensor:
        """Add the update 1.5 times if the mean of the first row is positive, else 0.5 times; the host decides."""
        if hidden[0].detach().mean() > 0:  # read here: all that the device was given until now has to be done first
            return hidden + 1.5 * update
        return hidden + 0.5 * update


class Branching(Straight):
    """`straight` with a decision in every layer: a mean, a comparison, and a read of the answer."""

    def __init__(
        self, *, seed: int, levers: Levers, features: int, width: int, depth: int, classes: int, batch_size: int
    ) -> None:
        super().__init__(
            seed=seed,
            levers=levers,
            features=features,
            width=width,
            depth=depth,
            classes=classes,
            batch_size=batch_size,
        )
        self.reads_inside = depth
        self.plain_ops = (self.plain_ops or 0) + depth * 3

    def make_model(self) -> nn.Module:
        """Return the layers."""
        return Branches(features=self._features, width=self._width, depth=self._depth, classes=self._classes)
