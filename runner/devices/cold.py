"""The first work of its kind on a device that has just been opened, which is when libraries set themselves up."""

from __future__ import annotations

import torch
from torch.nn.functional import conv2d

from runner import timing
from runner.devices.device import Device

#: So small that the work itself is nothing beside getting ready for it.
SQUARE = (256, 256)
IMAGES, FILTERS = (8, 3, 32, 32), (16, 3, 3, 3)


def first_kernel_s(device: Device) -> float:
    """Return the seconds of the first kernel, waited for."""
    return timing.elapsed_s(lambda: torch.ones(1, device=device.torch_device), device.synchronize)


def first_matmul_s(device: Device) -> float:
    """Return the seconds of the first product of two matrices, waited for."""
    square = torch.ones(SQUARE, device=device.torch_device)
    return timing.elapsed_s(lambda: square @ square, device.synchronize)


def first_conv_s(device: Device) -> float:
    """Return the seconds of the first convolution, waited for."""
    images, filters = (torch.ones(shape, device=device.torch_device) for shape in (IMAGES, FILTERS))
    return timing.elapsed_s(lambda: conv2d(images, filters), device.synchronize)
