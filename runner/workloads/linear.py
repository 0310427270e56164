"""The tutorial's benchmark: it is the loader, not the layer, that takes most of its time.

One linear layer; and by the defaults of its levers a map-style data set that is read row by row, a shuffling
DataLoader, inputs and labels moved to the device each batch, plain SGD, and the loss read back every step.
"""

from __future__ import annotations

import torch
from torch import nn

from runner.workloads.levers import Levers
from runner.workloads.training import FIRST_LINEAR_OPS, LOSS_OPS, Training


class Linear(Training):
    """`Linear(features, classes)` trained on random rows."""

    def __init__(self, *, seed: int, levers: Levers, features: int, classes: int, batch_size: int) -> None:
        super().__init__(seed=seed, levers=levers, classes=classes, batch_size=batch_size)
        self._features = features
        self.parameters = (features + 1) * classes
        self.flops_per_step = 4 * batch_size * features * classes  # forward and weight gradient
        self.row_bytes = self.number_bytes * features
        self.plain_ops = LOSS_OPS + FIRST_LINEAR_OPS

    def draw_inputs(self, rows: int, draw: torch.Generator) -> torch.Tensor:
        """Return normal features."""
        return torch.randn(rows, self._features, generator=draw)

    def make_model(self) -> nn.Module:
        """Return the layer."""
        return nn.Linear(self._features, self._classes)
