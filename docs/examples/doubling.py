"""b += b on an n x n matrix, many times: nothing but memory traffic."""

import torch


class Doubling:
    """`repeats` additions in place."""

    def __init__(self, *, seed: int, n: int, repeats: int = 1000) -> None:
        self.n, self.repeats = n, repeats
        self.flops_per_step = repeats * n**2
        self.ops_per_step = repeats
        self.h2d_bytes_per_step = 0

    def prepare(self, device: torch.device, target: str) -> None:
        """Make a matrix of zeros: whatever else is doubled so often is soon infinite."""
        self.b = torch.zeros(self.n, self.n).to(device)

    def step(self) -> torch.Tensor:
        """Add, and return one element without waiting for it."""
        b = self.b
        for _ in range(self.repeats):
            b += b
        return b[0, 0]
