"""A loop of tiny steps without a gradient: x = J tanh(x)."""

import torch


class Recurrence:
    """`turns` times a matrix of `width` x `width` with a vector.

    J is the reflection I - 2vv', so that rounding is not amplified: it keeps lengths, and tanh only shortens them. With
    a J that amplifies, x soon depends on how a device rounds, and nobody could tell whether two did the same work.
    """

    def __init__(self, *, seed: int, width: int, turns: int) -> None:
        self.seed, self.width, self.turns = seed, width, turns
        self.flops_per_step = 2 * turns * width**2
        self.ops_per_step = 2 * turns + 2
        self.h2d_bytes_per_step = 0

    def prepare(self, device: torch.device, target: str) -> None:
        """Build on the CPU from the seed, then move."""
        draw = torch.Generator().manual_seed(self.seed)
        normal = torch.nn.functional.normalize(torch.randn(self.width, generator=draw), dim=0)
        self.reflection = (torch.eye(self.width) - 2 * torch.outer(normal, normal)).to(device)
        self.x = torch.randn(self.width, generator=draw).to(device)

    @torch.no_grad()
    def step(self) -> torch.Tensor:
        """Go round so often; return the mean square of x, which two devices have to agree on."""
        x = self.x
        for _ in range(self.turns):
            x = torch.mv(self.reflection, torch.tanh(x))
        self.x = x
        return x.square().mean()
