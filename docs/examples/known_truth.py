"""Steps that take a prescribed time: what the whole program has to find out is known beforehand.

Each step keeps one core busy for the time that `milliseconds` prescribes for its size and target, with 3 % jitter.
The curves meet at size 100 (`several`: at 50 and at 200), or never.
"""

import random
import time

import torch

CURVES = {
    # shape: milliseconds of the targets "old" and "new" at a size, given as s = size / 100
    "crosses": (lambda s: 0.8 * s, lambda s: 0.4 + 0.4 * s),
    "reverse": (lambda s: 0.4 + 0.4 * s, lambda s: 0.8 * s),
    "always_old": (lambda s: 0.4 * s**0.3, lambda s: 1.2 * s**0.3),
    "always_new": (lambda s: 1.2 * s**0.3, lambda s: 0.4 * s**0.3),
    "several": (lambda _: 0.8, lambda s: 0.8 * max(s / 2, 1 / (2 * s))),
    "equal": (lambda s: 0.8 * s**0.3, lambda s: 0.8 * s**0.3),
}


def milliseconds(shape: str, size: int, target: str) -> float:
    """Return the prescribed time of a step."""
    old, new = CURVES[shape]
    return (old if target == "old" else new)(size / 100)


class Prescribed:
    """A workload without a model: its step only takes its time."""

    def __init__(self, *, seed: int, size: int, shape: str) -> None:
        self.size, self.shape = size, shape
        self.jitter = random.Random()  # every process draws its own
        self.loss = torch.zeros(())

    def prepare(self, device: torch.device, target: str) -> None:
        """Look up the time."""
        self.seconds = milliseconds(self.shape, self.size, target) / 1000

    def step(self) -> torch.Tensor:
        """Be busy for about that long."""
        until = time.monotonic() + self.seconds * self.jitter.lognormvariate(0, 0.03)
        while time.monotonic() < until:
            pass
        return self.loss
