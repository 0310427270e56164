"""A multilayer perceptron on host data: each step copies the next slice to the device and does not wait.

The plainest loop in which batch size and width can be varied without a data loader in the way.
"""

from __future__ import annotations

import itertools

import torch
from torch import nn

BATCHES = 8  # of host data, visited in turn


class Mlp:
    """`depth` hidden layers of `width` units with ReLU, cross entropy, plain SGD."""

    def __init__(self, *, seed: int, features: int, width: int, depth: int, classes: int, batch_size: int) -> None:
        self._seed, self._features, self._width, self._depth = seed, features, width, depth
        self._classes, self._batch_size = classes, batch_size
        multiplied = features * width + (depth - 1) * width * width + width * classes
        self.parameter_bytes = 4 * (multiplied + depth * width + classes)
        # 2 FLOPs a multiply-add; forward, weight gradient, input gradient, and no input gradient for the first layer.
        self.flops_per_step = 6 * batch_size * multiplied - 2 * batch_size * features * width
        self.h2d_bytes_per_step = 4 * batch_size * features + 8 * batch_size

    def prepare(self, device: torch.device, target: str) -> None:
        """Draw the data, make the model, move the model."""
        del target
        self._device = device
        draw = torch.Generator().manual_seed(self._seed)
        rows = BATCHES * self._batch_size
        self._inputs = torch.randn(rows, self._features, generator=draw).split(self._batch_size)
        self._labels = torch.randint(self._classes, (rows,), generator=draw).split(self._batch_size)
        torch.manual_seed(self._seed)
        sizes = [self._features, *[self._width] * self._depth]
        hidden = [layer for size, more in itertools.pairwise(sizes) for layer in (nn.Linear(size, more), nn.ReLU())]
        self._model = nn.Sequential(*hidden, nn.Linear(self._width, self._classes)).to(device)
        self._criterion = nn.CrossEntropyLoss()
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.01)
        self._next = 0

    def step(self) -> torch.Tensor:
        """Train on the next slice."""
        inputs = self._inputs[self._next].to(self._device)
        labels = self._labels[self._next].to(self._device)
        self._next = (self._next + 1) % BATCHES
        self._optimizer.zero_grad()
        loss: torch.Tensor = self._criterion(self._model(inputs), labels)
        loss.backward()
        self._optimizer.step()
        return loss.detach()
