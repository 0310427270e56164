"""A training on host data: each step copies the next slice to the device, trains on it, and does not wait.

What the families have in common stands here, so that the file of a family holds its model, its data and its figures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import nn

BATCHES = 8  # of host data, visited in turn

# Operators a step, as figures count them: what reaches a CPU below autograd, views and allocations left out. An
# accelerator launches about one kernel for each, though SGD may there update many tensors in one.
LOSS_OPS = 5  # log softmax, negative log likelihood, the gradient of both, and the 1 that the gradient begins with
FIRST_LINEAR_OPS = 5  # forward, gradients of weight and bias, two updates
LINEAR_OPS = FIRST_LINEAR_OPS + 1  # and the gradient of its inputs


class Training(ABC):
    """Cross entropy and plain SGD over slices of host data; all numbers are drawn on the CPU from the seed."""

    flops_per_step: int
    """2 for each multiply-add of a matrix product or convolution, forward and backward; nothing for the rest."""
    h2d_bytes_per_step: int
    parameter_bytes: int
    ops_per_step: int
    syncs_per_step: int = 0

    def __init__(self, *, seed: int, classes: int, batch_size: int) -> None:
        self._seed, self._classes, self._batch_size = seed, classes, batch_size

    @abstractmethod
    def draw_inputs(self, rows: int, draw: torch.Generator) -> torch.Tensor:
        """Return the inputs of so many rows, rows first."""

    @abstractmethod
    def make_model(self) -> nn.Module:
        """Return a model from inputs to one score a class; torch's own generator has been seeded."""

    def prepare(self, device: torch.device, target: str) -> None:
        """Draw the data, make the model, move the model."""
        del target
        self._device = device
        draw = torch.Generator().manual_seed(self._seed)
        rows = BATCHES * self._batch_size
        self._inputs = self.draw_inputs(rows, draw).split(self._batch_size)
        self._labels = torch.randint(self._classes, (rows,), generator=draw).split(self._batch_size)
        torch.manual_seed(self._seed)
        self._model = self.make_model().to(device)
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
