"""Bags of embedded words: hardly any arithmetic; the table and its dense gradient are read and written every step."""

from __future__ import annotations

import torch
from torch import nn

from runner.workloads.levers import Levers
from runner.workloads.training import LINEAR_OPS, LOSS_OPS, Training


class Embedding(Training):
    """The mean of `bag` embedded words, and a linear layer."""

    def __init__(
        self, *, seed: int, levers: Levers, vocabulary: int, width: int, bag: int, classes: int, batch_size: int
    ) -> None:
        super().__init__(seed=seed, levers=levers, classes=classes, batch_size=batch_size)
        self._vocabulary, self._width, self._bag = vocabulary, width, bag
        self.parameters = vocabulary * width + (width + 1) * classes
        self.flops_per_step = 6 * batch_size * width * classes
        self.row_bytes = 8 * bag
        self.plain_ops = LOSS_OPS + LINEAR_OPS + 4  # where each bag begins, the bags, their gradient, an update

    def draw_inputs(self, rows: int, draw: torch.Generator) -> torch.Tensor:
        """Return words: row, place in the bag."""
        return torch.randint(self._vocabulary, (rows, self._bag), generator=draw)

    def make_model(self) -> nn.Module:
        """Return the table and the head."""
        return nn.Sequential(
            nn.EmbeddingBag(self._vocabulary, self._width, mode="mean"), nn.Linear(self._width, self._classes)
        )
