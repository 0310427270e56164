"""A transformer encoder whose attention is written out.

torch's own encoder and its attention function choose another algorithm for each device and size, so that the two sides
of a comparison would not do the same arithmetic.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from runner.workloads.levers import Levers
from runner.workloads.training import LINEAR_OPS, LOSS_OPS, Training


class Block(nn.Module):
    """Attention and a feed-forward network of four times the width; each is normalised first and added to its input."""

    def __init__(self, *, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.mixed = nn.Linear(width, width)
        self.forward_norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return as many tokens: row, place, width."""
        tokens = tokens + self._attend(self.attention_norm(tokens))
        added: torch.Tensor = self.narrow(torch.relu(self.wide(self.forward_norm(tokens))))
        return tokens + added

    def _attend(self, tokens: torch.Tensor) -> torch.Tensor:
        rows, sequence, width = tokens.shape
        by_head = self.queries_keys_values(tokens).view(rows, sequence, 3, self.heads, width // self.heads)
        queries, keys, values = by_head.permute(2, 0, 3, 1, 4)
        scores = queries @ keys.transpose(-2, -1) / math.sqrt(width // self.heads)
        mixed = scores.softmax(-1) @ values
        attended: torch.Tensor = self.mixed(mixed.transpose(1, 2).reshape(rows, sequence, width))
        return attended


class Encoder(nn.Module):
    """Embedded tokens and places, blocks, and a head on the average over the places."""

    def __init__(self, *, vocabulary: int, sequence: int, width: int, layers: int, heads: int, classes: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.randn(sequence, width))
        self.blocks = nn.Sequential(*(Block(width=width, heads=heads) for _ in range(layers)))
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return one score a class."""
        scores: torch.Tensor = self.head(self.blocks(self.tokens(tokens) + self.places).mean(dim=1))
        return scores


class Transformer(Training):
    """An encoder that classifies random sequences of tokens."""

    def __init__(
        self,
        *,
        seed: int,
        levers: Levers,
        vocabulary: int,
        width: int,
        layers: int,
        heads: int,
        sequence: int,
        classes: int,
        batch_size: int,
    ) -> None:
        super().__init__(seed=seed, levers=levers, classes=classes, batch_size=batch_size)
        self._vocabulary, self._width, self._layers = vocabulary, width, layers
        self._heads, self._sequence = heads, sequence
        # 12: the three of attention, its mixing, and the feed-forward network twice as large as these four.
        block = 12 * width**2
        biases = 13 * width  # the two of each norm among them
        embedded = (vocabulary + sequence) * width
        self.parameters = embedded + layers * (block + biases) + (width + 1) * classes
        products = block * sequence + 2 * sequence**2 * width  # queries with keys, and their scores with values
        self.flops_per_step = 6 * batch_size * (layers * products + width * classes)
        self.row_bytes = 8 * sequence
        # Four linear layers; each norm with its gradient and two updates; forward and gradient of ReLU, softmax,
        # scaling and two additions; two products with two gradients each; six copies and one joining that regroup the
        # heads (fewer copies for a single head or place).
        block_ops = 4 * LINEAR_OPS + 2 * 4 + 5 * 2 + 2 * 3 + 7
        # Tokens and places: forward, gradient, update. The average: forward and gradient.
        self.plain_ops = LOSS_OPS + LINEAR_OPS + layers * block_ops + 2 * 3 + 2

    def draw_inputs(self, rows: int, draw: torch.Generator) -> torch.Tensor:
        """Return tokens: row, place."""
        return torch.randint(self._vocabulary, (rows, self._sequence), generator=draw)

    def make_model(self) -> nn.Module:
        """Return the encoder."""
        return Encoder(
            vocabulary=self._vocabulary,
            sequence=self._sequence,
            width=self._width,
            layers=self._layers,
            heads=self._heads,
            classes=self._classes,
        )
