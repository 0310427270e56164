"""Five layers with dropout, NAdam, and a batch that is copied each step; every device drops the same units."""

import itertools

import torch
from torch import nn

HIDDEN = (150, 50, 50)  # after the first layer, whose width is asked for
MASKS = 8  # different ones, taken in turn


class Mask(nn.Module):
    """Drops the units that it is told to drop: each device would draw others from the same seed."""

    def __init__(self, units: int, rows: int, rate: float) -> None:
        super().__init__()
        kept = torch.rand(MASKS, rows, units) >= rate
        self.register_buffer("factors", kept / (1 - rate))
        self.turn = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the inputs with some of them zero and the others larger by as much."""
        self.turn = (self.turn + 1) % MASKS
        return inputs * self.factors[self.turn]


class DropoutMlp:
    """784-`width`-150-50-50-10 with ReLU and dropout on made-up pictures."""

    def __init__(
        self, *, seed: int, width: int, batch_size: int = 128, rows: int = 60_000, dropout: float = 0.2
    ) -> None:
        self.seed, self.width, self.batch_size, self.rows, self.dropout = seed, width, batch_size, rows, dropout
        multiplied = sum(a * b for a, b in itertools.pairwise((784, width, *HIDDEN, 10)))
        self.flops_per_step = batch_size * (6 * multiplied - 2 * 784 * width)
        self.h2d_bytes_per_step = batch_size * (4 * 784 + 8)

    def prepare(self, device: torch.device, target: str) -> None:
        """Build on the CPU from the seed, then move."""
        torch.manual_seed(self.seed)
        layers = []
        for inputs, units in itertools.pairwise((784, self.width, *HIDDEN)):
            layers += [nn.Linear(inputs, units), nn.ReLU(), Mask(units, self.batch_size, self.dropout)]
        self.model = nn.Sequential(*layers, nn.Linear(HIDDEN[-1], 10)).to(device)
        self.optimizer = torch.optim.NAdam(self.model.parameters())
        pictures, digits = torch.rand(self.rows, 784), torch.randint(10, (self.rows,))
        whole = self.rows // self.batch_size * self.batch_size  # the masks fit full batches
        batches = zip(pictures[:whole].split(self.batch_size), digits[:whole].split(self.batch_size), strict=True)
        self.batches = itertools.cycle(batches)
        self.device = device

    def step(self) -> torch.Tensor:
        """Copy the next batch, train on it, and return the loss without waiting for it."""
        pictures, digits = (tensor.to(self.device) for tensor in next(self.batches))
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(pictures), digits)
        loss.backward()
        self.optimizer.step()
        return loss.detach()
