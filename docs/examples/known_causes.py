"""Steps whose parts take prescribed times: what each part costs, and where the targets meet without it, is known.

A step takes as long as those of its parts that its rung leaves, with 3 % jitter. `card` computes faster than `host`,
but its batches are slow to load and have to be copied, and its loss is waited for. The curves meet at size 300; without
the loader at 150; without loader and transfer at 75; without reading the loss either at 40.
"""

import random
import time

import torch

PARTS = {
    # part: milliseconds on the targets "host" and "card" at a size, given as s = size / 100
    "loader": (lambda s: s, lambda s: 4.5 + s),
    "transfer": (lambda _: 0.0, lambda s: 1.8 + 0.6 * s),
    "sync": (lambda _: 0.0, lambda _: 1.26),
    "rest": (lambda s: 4.0 * s, lambda s: 1.44 + 0.4 * s),
}
LEFT = {
    "e2e": ("loader", "transfer", "sync", "rest"),
    "preload": ("transfer", "sync", "rest"),
    "resident": ("sync", "rest"),
    "nosync": ("rest",),
}
#: What a step is late by, the next ones make up for, up to so much.
LATEST_S = 0.1


def milliseconds(part: str, size: int, target: str) -> float:
    """Return the prescribed time of a part of a step."""
    host, card = PARTS[part]
    return (host if target == "host" else card)(size / 100)


class Prescribed:
    """A workload without a model, whose step takes its time; the argument `rung` says which parts are left of it."""

    def __init__(self, *, seed: int, size: int, rung: str) -> None:
        self.size, self.rung = size, rung
        self.jitter = random.Random()  # every process draws its own
        self.loss = torch.zeros(())

    def prepare(self, device: torch.device, target: str) -> None:
        """Look up the time."""
        self.seconds = sum(milliseconds(part, self.size, target) for part in LEFT[self.rung]) / 1000
        self.due = time.monotonic()

    def step(self) -> torch.Tensor:
        """Sleep until the step is over by its timetable, which other work on the machine can delay but not change."""
        now = time.monotonic()
        self.due = max(self.due, now - LATEST_S) + self.seconds * self.jitter.lognormvariate(0, 0.03)
        time.sleep(max(0.0, self.due - now))
        return self.loss
