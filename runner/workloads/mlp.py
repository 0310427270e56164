"""A multilayer perceptron: the plainest training in which batch size and width can be varied."""

from __future__ import annotations

import itertools

import torch
from torch import nn

from runner.workloads.levers import Levers
from runner.workloads.training import FIRST_LINEAR_OPS, LINEAR_OPS, LOSS_OPS, Training


class Mlp(Training):
    """`depth` hidden layers of `width` units with ReLU."""

    def __init__(
        self, *, seed: int, levers: Levers, features: int, width: int, depth: int, classes: int, batch_size: int
    ) -> None:
        super().__init__(seed=seed, levers=levers, classes=classes, batch_size=batch_size)
        self._features, self._width, self._depth = features, width, depth
        multiplied = features * width + (depth - 1) * width * width + width * classes
        self.parameters = multiplied + depth * width + classes
        # Forward, weight gradient, input gradient, and no input gradient for the first layer.
        self.flops_per_step = 6 * batch_size * multiplied - 2 * batch_size * features * width
        self.row_bytes = self.number_bytes * features
        self.plain_ops = LOSS_OPS + FIRST_LINEAR_OPS + depth * (LINEAR_OPS + 2)  # 2: ReLU and its gradient

    def draw_inputs(self, rows: int, draw: torch.Generator) -> torch.Tensor:
        """Return normal features."""
        return torch.randn(rows, self._features, generator=draw)

    def make_model(self) -> nn.Module:
        """Return the layers in a row."""
        sizes = [self._features, *[self._width] * self._depth]
        hidden = [layer for size, more in itertools.pairwise(sizes) for layer in (nn.Linear(size, more), nn.ReLU())]
        return nn.Sequential(*hidden, nn.Linear(self._width, self._classes))
