"""Batches that are copied to an accelerator ahead of the training that uses them."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from runner.devices.device import DeviceUnavailable

Batch = tuple[torch.Tensor, torch.Tensor]


class Ahead:
    """Copies batches on a stream of its own, the next one while the present one trains.

    They go into two places in turn. Two waits keep them in order, both of one stream for the other, so that the host
    waits for neither: a batch is used once all copies before have arrived, and its successor is copied once the steps
    before have used what lay in its place. The places live as long as the copies; no memory of one stream is given
    back while the other one uses it, so there is nothing to record
    (https://docs.pytorch.org/docs/stable/generated/torch.Tensor.record_stream.html).
    """

    def __init__(self, device: torch.device) -> None:
        """Take a device.

        Args:
            device: Where the training runs.

        Raises:
            DeviceUnavailable: It has no second stream.
        """
        try:
            beside, here = torch.Stream(device), torch.accelerator.current_stream(device)
        except (RuntimeError, NotImplementedError) as error:
            raise DeviceUnavailable(
                f"transfer overlapped needs a second stream, and torch makes none for {device.type}: {error}"
            ) from error
        if beside == here:
            raise DeviceUnavailable(f"transfer overlapped needs a second stream, and {device.type} has one only")
        self._device = device

    def __call__(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield batches that lie on the device.

        Args:
            batches: On the host, in page-locked memory; none is larger than the first.
        """
        beside = torch.Stream(self._device)
        places: list[Batch] = []
        sent: Batch | None = None
        for number, batch in enumerate(batches):
            here = torch.accelerator.current_stream(self._device)
            here.wait_stream(beside)  # for `sent`
            beside.wait_stream(here)  # for the steps that have been given so far: that with `sent` comes after them
            if len(places) < 2:
                inputs, labels = batch
                places.append(
                    (torch.empty_like(inputs, device=self._device), torch.empty_like(labels, device=self._device))
                )
            with beside:
                coming = _copy(batch, places[number % 2])
            if sent is not None:
                yield sent
            sent = coming
        if sent is not None:
            torch.accelerator.current_stream(self._device).wait_stream(beside)
            yield sent


def _copy(batch: Batch, place: Batch) -> Batch:
    """Copy a batch to the beginning of a place, without waiting."""
    (inputs, labels), rows = batch, len(batch[1])
    return (
        place[0][:rows].copy_(inputs, non_blocking=True),
        place[1][:rows].copy_(labels, non_blocking=True),
    )
