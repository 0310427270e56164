"""The tutorial's benchmark, kept as it is: it is the loader, not the layer, that takes most of its time.

One linear layer, cross entropy, plain SGD, a map-style data set that is read row by row, a shuffling DataLoader,
inputs and labels moved to the device each batch, and the loss read back every step.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from runner.workloads.training import FIRST_LINEAR_OPS, LOSS_OPS

Batch = tuple[torch.Tensor, torch.Tensor]


class RandomRows(Dataset[Batch]):
    """Random rows with random labels, one row an access."""

    def __init__(self, *, rows: int, features: int, classes: int, seed: int) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.inputs = torch.randn(rows, features, generator=draw)
        self.labels = torch.randint(classes, (rows,), generator=draw)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Batch:
        return self.inputs[index], self.labels[index]


class Linear:
    """`Linear(features, classes)` trained on random rows."""

    def __init__(self, *, seed: int, rows: int, features: int, classes: int, batch_size: int, epochs: int) -> None:
        self._seed, self._rows, self._features, self._classes = seed, rows, features, classes
        self._batch_size = batch_size
        self.epochs = epochs
        self.parameter_bytes = 4 * (features + 1) * classes
        self.flops_per_step = 4 * batch_size * features * classes  # forward and weight gradient
        self.h2d_bytes_per_step = 4 * batch_size * features + 8 * batch_size
        self.ops_per_step = LOSS_OPS + FIRST_LINEAR_OPS + 1  # the read; what the loader does never leaves the host
        self.syncs_per_step = 1

    def prepare(self, device: torch.device, target: str) -> None:
        """Draw the rows, make the layer, move the layer."""
        del target
        self._device = device
        self._data = RandomRows(rows=self._rows, features=self._features, classes=self._classes, seed=self._seed)
        torch.manual_seed(self._seed)
        self._model = nn.Linear(self._features, self._classes).to(device)
        self._criterion = nn.CrossEntropyLoss()
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.01)
        self._batches = self._endless()
        self._all_batches = self._loader(drop_last=False)

    def step(self) -> torch.Tensor:
        """Train on the next full batch; a new epoch, with its shuffle, begins where one ends."""
        return self._train(*next(self._batches))

    def epoch(self) -> float:
        """Train once through all rows, the last batch as short as it is; return the mean loss."""
        return sum(float(self._train(*batch)) for batch in self._all_batches) / len(self._all_batches)

    def _train(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        inputs, labels = inputs.to(self._device), labels.to(self._device)
        self._optimizer.zero_grad()
        loss: torch.Tensor = self._criterion(self._model(inputs), labels)
        loss.backward()
        self._optimizer.step()
        loss.item()  # the tutorial prints it: this waits for the device every step
        return loss.detach()

    def _loader(self, *, drop_last: bool) -> DataLoader[Batch]:
        shuffle = torch.Generator().manual_seed(self._seed)
        return DataLoader(self._data, batch_size=self._batch_size, shuffle=True, drop_last=drop_last, generator=shuffle)

    def _endless(self) -> Iterator[Batch]:
        loader = self._loader(drop_last=True)  # every timed step does the same work
        while True:
            yield from loader
