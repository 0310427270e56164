"""How batches are made. Every kind yields the same batches on every device: order is drawn on the CPU from the seed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
from torch.utils.data import DataLoader, Dataset

from runner.workloads.levers import Levers

Batch = tuple[torch.Tensor, torch.Tensor]


class Rows(Dataset[Batch]):
    """Inputs and their labels, rows first; read row by row by whoever wants that."""

    def __init__(self, inputs: torch.Tensor, labels: torch.Tensor) -> None:
        self.inputs, self.labels = inputs, labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Batch:
        return self.inputs[index], self.labels[index]


class Loader(Protocol):
    """Makes batches of a data set."""

    def visit(self, *, whole: bool) -> Iterator[Batch]:
        """Yield one epoch of batches.

        Args:
            whole: Every row, the last batch as short as it is; else only full batches.
        """


def make_loader(rows: Rows, levers: Levers, *, batch_size: int, seed: int, device: torch.device) -> Loader:
    """Put the data where the levers want them, and return what makes batches of them.

    Args:
        rows: On the host.
        levers: `transfer: resident` moves the data set to the device, `pinned` and `overlapped` lock its pages.
        batch_size: Rows of a batch.
        seed: Of the order of the rows, where it is shuffled.
        device: Where the training runs.
    """
    draw = torch.Generator().manual_seed(seed)
    if levers.loader == "dataloader":
        return RowByRow(rows, levers, batch_size, draw)
    if levers.is_resident:
        rows = Rows(rows.inputs.to(device), rows.labels.to(device))
    elif levers.is_pinned:
        rows = Rows(rows.inputs.pin_memory(), rows.labels.pin_memory())
    if levers.loader == "gather":
        return Gathered(rows, batch_size, draw, pinned=levers.is_pinned)
    return Sliced(rows, batch_size) if levers.loader == "slice" else Ready(rows, batch_size)


def endless(loader: Loader) -> Iterator[Batch]:
    """Yield full batches, epoch after epoch: every timed step does the same work."""
    while True:
        yield from loader.visit(whole=False)


class RowByRow:
    """torch's DataLoader on a map-style data set: shuffled indices, one access a row, then collated."""

    def __init__(self, rows: Rows, levers: Levers, batch_size: int, draw: torch.Generator) -> None:
        self.full, self.whole = (
            DataLoader(
                rows,
                batch_size=batch_size,
                shuffle=True,
                drop_last=drop_last,
                generator=draw,
                num_workers=levers.loader_workers or 0,
                persistent_workers=bool(levers.loader_workers),
                pin_memory=levers.is_pinned,
            )
            for drop_last in (True, False)
        )

    def visit(self, *, whole: bool) -> Iterator[Batch]:
        """Yield one epoch of batches, shuffled anew."""
        return iter(self.whole if whole else self.full)


class Gathered:
    """Rows at indices, all of a batch at once; the order of all rows is drawn anew as an epoch begins.

    Where the data are on the device, so is the order: it is drawn on the CPU all the same and copied once an epoch.
    From page-locked data a batch is gathered into page-locked memory, which is what can be copied without waiting.
    """

    def __init__(self, rows: Rows, batch_size: int, draw: torch.Generator, *, pinned: bool) -> None:
        self._rows, self._batch_size, self._draw = rows, batch_size, draw
        self._take = _take_pinned if pinned else _take

    def visit(self, *, whole: bool) -> Iterator[Batch]:
        """Yield one epoch of batches, shuffled anew."""
        inputs, labels = self._rows.inputs, self._rows.labels
        order = torch.randperm(len(labels), generator=self._draw).to(labels.device)
        for start in _starts(len(labels), self._batch_size, whole=whole):
            places = order[start : start + self._batch_size]
            yield self._take(inputs, places), self._take(labels, places)


class Sliced:
    """The next rows as they lie."""

    def __init__(self, rows: Rows, batch_size: int) -> None:
        self._rows, self._batch_size = rows, batch_size

    def visit(self, *, whole: bool) -> Iterator[Batch]:
        """Yield one epoch of batches."""
        inputs, labels, size = self._rows.inputs, self._rows.labels, self._batch_size
        for start in _starts(len(labels), size, whole=whole):
            yield inputs[start : start + size], labels[start : start + size]


class Ready:
    """The batches of `Sliced`, all made before the first step."""

    def __init__(self, rows: Rows, batch_size: int) -> None:
        self._whole = list(Sliced(rows, batch_size).visit(whole=True))
        self._full = list(Sliced(rows, batch_size).visit(whole=False))

    def visit(self, *, whole: bool) -> Iterator[Batch]:
        """Yield one epoch of batches."""
        return iter(self._whole if whole else self._full)


def _take(data: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return data[places]


def _take_pinned(data: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    # The allocator of locked memory gives it out again only after a copy under way has read it.
    taken = torch.empty((len(places), *data.shape[1:]), dtype=data.dtype, pin_memory=True)
    return torch.index_select(data, 0, places, out=taken)


def _starts(rows: int, batch_size: int, *, whole: bool) -> range:
    return range(0, rows if whole else rows - rows % batch_size, batch_size)
