"""A recurrent network by torch's own layer, which hands a whole sequence to a library of the device."""

from __future__ import annotations

import torch
from torch import nn

from runner.workloads.levers import Levers
from runner.workloads.training import LINEAR_OPS, LOSS_OPS, Training


class Fused(nn.Module):
    """One LSTM layer and a head on its last state."""

    def __init__(self, *, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return one score a class."""
        states, _ = self.lstm(inputs)
        scores: torch.Tensor = self.head(states[:, -1])
        return scores


class LstmFused(Training):
    """Sequences of random features, classified by the last state of an LSTM."""

    cannot_compile = "torch.compile leaves a model with torch's recurrent layers as it is written"

    def __init__(
        self, *, seed: int, levers: Levers, features: int, hidden: int, sequence: int, classes: int, batch_size: int
    ) -> None:
        super().__init__(seed=seed, levers=levers, classes=classes, batch_size=batch_size)
        self._features, self._hidden, self._sequence = features, hidden, sequence
        gates = 4 * hidden * (features + hidden)  # torch keeps a bias for the inputs and one for the state
        self.parameters = gates + 2 * 4 * hidden + (hidden + 1) * classes
        # Forward, weight gradient, input gradient; no gradient for the inputs of the whole.
        a_place = 6 * gates - 2 * 4 * hidden * features
        self.flops_per_step = batch_size * (sequence * a_place + 6 * hidden * classes)
        self.row_bytes = self.number_bytes * sequence * features
        # On a CPU: two states to begin with, the layer and its gradient, four updates, four that rearrange. In another
        # type than float32 there is no such layer for a CPU: torch converts, or runs a loop after all.
        self.plain_ops = LOSS_OPS + LINEAR_OPS + 2 + 2 + 4 + 4 if levers.dtype == "float32" else None

    def draw_inputs(self, rows: int, draw: torch.Generator) -> torch.Tensor:
        """Return normal features: row, place, feature."""
        return torch.randn(rows, self._sequence, self._features, generator=draw)

    def make_model(self) -> nn.Module:
        """Return the layer and its head."""
        return Fused(features=self._features, hidden=self._hidden, classes=self._classes)
