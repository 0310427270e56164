"""A small convolutional network on square colour images."""

from __future__ import annotations

import torch
from torch import nn

from runner.workloads.levers import Levers
from runner.workloads.training import LINEAR_OPS, LOSS_OPS, Training


class Cnn(Training):
    """Three 3x3 convolutions of 1, 2 and 4 times `channels`; batch norm and max pool after the first two."""

    def __init__(self, *, seed: int, levers: Levers, channels: int, image: int, classes: int, batch_size: int) -> None:
        super().__init__(seed=seed, levers=levers, classes=classes, batch_size=batch_size)
        self._channels, self._image = channels, image
        kernels = [9 * 3 * channels, 9 * channels * 2 * channels, 9 * 2 * channels * 4 * channels]
        head = 4 * channels * classes
        # Weights and biases of the convolutions, two numbers a channel of each batch norm, the head.
        self.parameters = sum(kernels) + 7 * channels + 2 * 3 * channels + head + classes
        first, *rest = (kernel * (image // shrunk) ** 2 for kernel, shrunk in zip(kernels, (1, 2, 4), strict=True))
        self.flops_per_step = batch_size * (4 * first + 6 * sum(rest) + 6 * head)
        self.row_bytes = self.number_bytes * 3 * image**2
        # Convolution: forward, all its gradients at once, two updates. Batch norm: as many, and counting its batches.
        # ReLU and pooling: forward and gradient; the gradient of the average is scaled by an operator of its own.
        self.plain_ops = LOSS_OPS + LINEAR_OPS + 3 * 4 + 2 * 5 + 3 * 2 + 3 * 2

    def draw_inputs(self, rows: int, draw: torch.Generator) -> torch.Tensor:
        """Return images of noise: row, colour, height, width."""
        return torch.randn(rows, 3, self._image, self._image, generator=draw)

    def make_model(self) -> nn.Module:
        """Return the layers in a row; the head sees the average of the last images."""
        one, two, four = self._channels, 2 * self._channels, 4 * self._channels
        return nn.Sequential(
            *(nn.Conv2d(3, one, 3, padding=1), nn.BatchNorm2d(one), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(one, two, 3, padding=1), nn.BatchNorm2d(two), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(two, four, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
            nn.Linear(four, self._classes),
        )
