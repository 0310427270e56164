"""The twin of `branching`: the same products of matrices, with nothing to decide."""

from __future__ import annotations

import torch
from torch import nn

from runner.workloads.levers import Levers
from runner.workloads.training import FIRST_LINEAR_OPS, LINEAR_OPS, LOSS_OPS, Training


class Residual(nn.Module):
    """`depth` layers that each add to what passes."""

    def __init__(self, *, features: int, width: int, depth: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Linear(features, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, classes)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return one score a class."""
        hidden = self.first(inputs)
        for layer in self.layers:
            hidden = self.add(hidden, torch.tanh(layer(hidden)))
        scores: torch.Tensor = self.head(hidden)
        return scores

    def add(self, hidden: torch.Tensor, update: torch.Tensor) -> torch.Tensor:
        """Add the update 1.5 times."""
        return hidden + 1.5 * update


class Straight(Training):
    """A residual network that takes the first way of `branching` in every layer."""

    def __init__(
        self, *, seed: int, levers: Levers, features: int, width: int, depth: int, classes: int, batch_size: int
    ) -> None:
        super().__init__(seed=seed, levers=levers, classes=classes, batch_size=batch_size)
        self._features, self._width, self._depth = features, width, depth
        multiplied = features * width + depth * width * width + width * classes
        self.parameters = multiplied + (depth + 1) * width + classes
        self.flops_per_step = 6 * batch_size * multiplied - 2 * batch_size * features * width
        self.row_bytes = self.number_bytes * features
        # A layer: tanh, scaling and adding, each with its gradient (of the addition: the sum of two ways).
        self.plain_ops = LOSS_OPS + FIRST_LINEAR_OPS + depth * (LINEAR_OPS + 3 * 2) + LINEAR_OPS

    def draw_inputs(self, rows: int, draw: torch.Generator) -> torch.Tensor:
        """Return normal features."""
        return torch.randn(rows, self._features, generator=draw)

    def make_model(self) -> nn.Module:
        """Return the layers."""
        return Residual(features=self._features, width=self._width, depth=self._depth, classes=self._classes)
