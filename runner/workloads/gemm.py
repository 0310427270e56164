"""A product of two matrices, nothing trained: is it worth moving them to the device?

This is the question of GPU-BLOB (https://github.com/UoB-HPC/GPU-BLOB), with its two ways to move the data.
"""

from __future__ import annotations

from collections.abc import Callable

import torch


class Gemm:
    """`C = A @ B`, `iterations` times a step, with A (m x k), B (k x n) and C (m x n) on the host before and after.

    `transfer: once` copies all three to the device before the first product and C back after the last, `always` does
    so around each product. On a CPU (no transfer) nothing is copied, and the figures are those of `once`. Device memory
    is allocated once, in `prepare`. The numbers lie between 0 and 1, so that no element of C is near 0.
    """

    parameter_bytes = 0
    steps_per_cycle = 1
    cannot_capture: str | None = None
    train: Callable[[], torch.Tensor]
    """Multiplies what was brought, on the device alone; may be replaced by what does the same."""

    def __init__(
        self,
        *,
        seed: int,
        size: int,
        m: int | None,
        n: int | None,
        k: int | None,
        iterations: int,
        transfer: str | None,
        dtype: str,
    ) -> None:
        self._seed, self._copies = seed, transfer is not None
        self._m, self._n, self._k = m or size, n or size, k or size
        self._number_type: torch.dtype = getattr(torch, dtype)
        self._rounds, self._products = (iterations, 1) if transfer == "always" else (1, iterations)
        self.flops_per_step = 2 * self._m * self._n * self._k * iterations
        numbers = self._m * self._k + self._k * self._n + self._m * self._n
        self.h2d_bytes_per_step = self._number_type.itemsize * numbers * self._rounds
        self.ops_per_step = iterations
        self.syncs_per_step = self._rounds  # C on the host has to be waited for

    def prepare(self, device: torch.device, target: str) -> None:
        """Draw the matrices on the host, and make room for them on the device."""
        del target
        draw = torch.Generator().manual_seed(self._seed)
        shapes = (self._m, self._k), (self._k, self._n)
        a, b = (torch.rand(shape, generator=draw).to(self._number_type) for shape in shapes)
        self._host = a, b, torch.zeros(self._m, self._n, dtype=self._number_type)
        self._on_device = (
            [torch.empty_like(each, device=device) for each in self._host]
            if self._copies
            else [each.to(device) for each in self._host]
        )
        self._result = (self._host if self._copies else self._on_device)[2][0, 0]
        self.train = self._multiply

    def use_static_inputs(self) -> None:
        """Change nothing: the matrices have one place from the first."""

    def step(self) -> torch.Tensor:
        """Bring the matrices, multiply, and return the first element of C on the host."""
        for _ in range(self._rounds):
            self.bring()
            self.train()
            if self._copies:
                self._host[2].copy_(self._on_device[2])
        return self._result

    def bring(self) -> None:
        """Copy the matrices to the device."""
        if self._copies:
            for there, here in zip(self._on_device, self._host, strict=True):
                there.copy_(here)

    def _multiply(self) -> torch.Tensor:
        a, b, c = self._on_device
        for _ in range(self._products):
            torch.mm(a, b, out=c)
        return c
