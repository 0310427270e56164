"""The same recurrent network with its cell in a Python loop: the same arithmetic in many small operators."""

from __future__ import annotations

import torch
from torch import nn

from runner.workloads.levers import Levers
from runner.workloads.lstm_fused import Fused, LstmFused
from runner.workloads.training import LINEAR_OPS, LOSS_OPS


class Loop(Fused):
    """The weights of the fused layer, used one place of the sequence after the other."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return one score a class."""
        input_weight, state_weight, input_bias, state_bias = self.lstm.all_weights[0]
        state = cell = inputs.new_zeros(len(inputs), self.lstm.hidden_size)
        for place in inputs.unbind(1):
            from_input = nn.functional.linear(place, input_weight, input_bias)
            gates = from_input + nn.functional.linear(state, state_weight, state_bias)
            enter, forget, candidate, leave = gates.chunk(4, dim=1)
            cell = forget.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
            state = leave.sigmoid() * cell.tanh()
        scores: torch.Tensor = self.head(state)
        return scores


class LstmLoop(LstmFused):
    """`lstm_fused` with another way through the same weights."""

    def __init__(
        self, *, seed: int, levers: Levers, features: int, hidden: int, sequence: int, classes: int, batch_size: int
    ) -> None:
        super().__init__(
            seed=seed,
            levers=levers,
            features=features,
            hidden=hidden,
            sequence=sequence,
            classes=classes,
            batch_size=batch_size,
        )
        # A place: two products, three sigmoids, two tanh, three multiplications, two additions; 17 for their gradients
        # and 5 that add these to those of later places. The first place has 7 fewer. Then the state to begin with, and
        # four updates.
        self.plain_ops = LOSS_OPS + LINEAR_OPS + 34 * sequence - 7 + 1 + 4

    def make_model(self) -> nn.Module:
        """Return the loop and its head."""
        return Loop(features=self._features, hidden=self._hidden, classes=self._classes)
