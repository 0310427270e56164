"""A training as its levers want it: fed, optimised and read back in the way that is asked for.

What the families have in common stands here, so that the file of a family holds its model, its data and its figures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import nn

from runner.workloads.levers import Levers
from runner.workloads.loaders import Batch, Rows, endless, make_loader

BATCHES = 8  # of host data, where a data set has no size of its own
LABEL_BYTES = 8

# Operators a step, as figures count them: what reaches a CPU below autograd, views and allocations left out. An
# accelerator launches about one kernel for each, though SGD may there update many tensors in one.
LOSS_OPS = 5  # log softmax, negative log likelihood, the gradient of both, and the 1 that the gradient begins with
FIRST_LINEAR_OPS = 5  # forward, gradients of weight and bias, two updates
LINEAR_OPS = FIRST_LINEAR_OPS + 1  # and the gradient of its inputs

#: Optimizers that read a value from the device in each step, and wait for it.
READING_OPTIMIZERS = ("ASGD", "Adafactor")


class Training(ABC):
    """Cross entropy over batches of random data; all numbers are drawn on the CPU from the seed.

    A step is `bring`, `train`, and a read of the loss where the levers ask for one.
    """

    flops_per_step: int
    """2 for each multiply-add of a matrix product or convolution, forward and backward; nothing for the rest."""
    parameters: int
    """Numbers that are trained."""
    row_bytes: int
    """Of the inputs of one row."""
    plain_ops: int | None
    """Operators of a step with plain SGD, its loss not read; None where they depend on the device."""
    reads_inside: int = 0
    """Values that the model itself reads on the host."""

    model: nn.Module
    train: Callable[[], torch.Tensor]
    """Trains on the batch that was brought, and returns its loss: work of the device alone. May be replaced by what
    does the same (see `use_static_inputs`)."""

    def __init__(self, *, seed: int, levers: Levers, classes: int, batch_size: int) -> None:
        self._seed, self._levers = seed, levers
        self._classes, self._batch_size = classes, batch_size
        self.epochs = levers.epochs
        self.steps_per_cycle = levers.read_every or 1
        self.copies_ahead = levers.transfer == "overlapped"
        self.ahead: Callable[[Iterator[Batch]], Iterator[Batch]] | None = None
        """What copies batches ahead of the training; given before `prepare`, where that is wanted."""

    @abstractmethod
    def draw_inputs(self, rows: int, draw: torch.Generator) -> torch.Tensor:
        """Return the inputs of so many rows, rows first, in float32 or whole numbers."""

    @abstractmethod
    def make_model(self) -> nn.Module:
        """Return a model from inputs to one score a class; torch's own generator has been seeded."""

    @property
    def number_bytes(self) -> int:
        """Bytes of a number of the model."""
        return self._levers.number_type.itemsize

    @property
    def parameter_bytes(self) -> int:
        """Bytes of what is trained."""
        return self.parameters * self.number_bytes

    @property
    def h2d_bytes_per_step(self) -> int:
        """Bytes that an accelerator copies from the host a step; where it has the data and shuffles them, the order."""
        if not self._levers.is_resident:
            return self._batch_size * (self.row_bytes + LABEL_BYTES)
        return self._batch_size * torch.int64.itemsize if self._levers.loader == "gather" else 0

    @property
    def ops_per_step(self) -> float | None:
        """Operators on the device; None where they are not known."""
        if self.plain_ops is None or not self._levers.is_plain:
            return None
        gathers = 2 if self._levers.is_resident and self._levers.loader == "gather" else 0
        return self.plain_ops + gathers + self._loss_reads

    @property
    def syncs_per_step(self) -> float | None:
        """Values that the host reads from the device; None where they are not known."""
        if self._levers.optimizer in READING_OPTIMIZERS:
            return None
        return self.reads_inside + self._loss_reads

    @property
    def unknown_figures(self) -> dict[str, str]:
        """Why a figure is None, by its name."""
        reasons = {}
        if not self._levers.is_plain:
            more = "this optimizer" if self._levers.clip_norm is None else "clipping"
            reasons["ops_per_step"] = f"operators are counted for plain SGD alone; {more} needs others"
        elif self.plain_ops is None:
            reasons["ops_per_step"] = f"in {self._levers.dtype} devices make this model of different operators"
        if self.syncs_per_step is None:
            reasons["syncs_per_step"] = f"{self._levers.optimizer} reads values of its own"
        return reasons

    @property
    def cannot_capture(self) -> str | None:
        """Why `train` cannot be recorded once and replayed; None where it can."""
        if self.reads_inside:
            return "the model reads values on the host and decides there"
        if self._levers.optimizer == "Adafactor":
            return "Adafactor reads values on the host"
        if self._levers.optimizer == "Adagrad" and self._levers.optimizer_arguments.get("lr_decay"):
            return "Adagrad counts its steps on the host, so that lr_decay would stand still"
        return None

    def prepare(self, device: torch.device, target: str) -> None:
        """Draw the data, make the model, put both where they belong.

        Data and weights are drawn in float32 and then converted, so that every dtype trains on the same numbers.
        """
        del target
        levers = self._levers
        draw = torch.Generator().manual_seed(self._seed)
        rows = levers.rows or BATCHES * self._batch_size
        inputs = self.draw_inputs(rows, draw)
        if inputs.is_floating_point():
            inputs = inputs.to(levers.number_type)
        data = Rows(inputs, torch.randint(self._classes, (rows,), generator=draw))
        self._row_like = tuple(each.clone() for each in data[0])  # a view would keep the data on the host
        self._loader = make_loader(data, levers, batch_size=self._batch_size, seed=self._seed, device=device)
        torch.manual_seed(self._seed)
        self.model = self.make_model().to(device=device, dtype=levers.number_type)
        self._weights = list(self.model.parameters())
        self._criterion = nn.CrossEntropyLoss()
        make = getattr(torch.optim, levers.optimizer)
        self._optimizer: torch.optim.Optimizer = make(self._weights, lr=levers.lr, **levers.optimizer_arguments)
        self._device, self._waits_not = device, levers.is_pinned
        self._batches = self._on_device(endless(self._loader))
        there = levers.is_resident or self.ahead is not None
        self._hand_over: Callable[[Batch], None] = self._use if there else self._move
        self._is_static, self._place = False, self._hand_over
        self._unread, self._read_every = 0, levers.read_every
        self.train = self._train

    def use_static_inputs(self) -> None:
        """Copy every batch into the same two tensors from now on, so that a recording of `train` can be replayed.

        Called between `prepare` and the first step. An optimizer that has the choice then counts its steps on the
        device (`capturable`). A recording must not train by itself: steps before it are steps of the training.
        """
        inputs, labels = (
            each.new_empty((self._batch_size, *each.shape), device=self._device) for each in self._row_like
        )
        self._is_static, self._place = True, partial(self._copy, (inputs, labels))
        for group in self._optimizer.param_groups:
            if "capturable" in group:
                group["capturable"] = True

    def step(self) -> torch.Tensor:
        """Train on the next full batch."""
        self.bring()
        loss = self.train()
        self._read(loss)
        return loss

    def epoch(self) -> float:
        """Train once on all rows, the last batch as short as it is; return the mean of the losses."""
        losses = []
        for batch in self._on_device(self._loader.visit(whole=True)):
            if len(batch[1]) == self._batch_size:
                self._place(batch)
                loss = self.train()
            else:  # what replaces train may know full batches only
                self._hand_over(batch)
                loss = self._train()
            self._read(loss)
            losses.append(loss.clone() if self._is_static else loss)  # a replay returns the same tensor each time
        return float(torch.stack(losses).float().mean())

    def bring(self) -> None:
        """Make the next batch and have it copied to the device."""
        self._place(next(self._batches))

    def _on_device(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Have batches on their way to the device before they are asked for, where the levers want that."""
        return self.ahead(batches) if self.ahead else batches

    def _move(self, batch: Batch) -> None:
        inputs, labels = batch
        self._inputs = inputs.to(self._device, non_blocking=self._waits_not)
        self._labels = labels.to(self._device, non_blocking=self._waits_not)

    def _use(self, batch: Batch) -> None:
        self._inputs, self._labels = batch

    def _copy(self, static: Batch, batch: Batch) -> None:
        self._use(static)
        self._inputs.copy_(batch[0], non_blocking=self._waits_not)
        self._labels.copy_(batch[1], non_blocking=self._waits_not)

    def _train(self) -> torch.Tensor:
        self._optimizer.zero_grad()
        loss: torch.Tensor = self._criterion(self.model(self._inputs), self._labels)
        loss.backward()
        if self._levers.clip_norm is not None:
            nn.utils.clip_grad_norm_(self._weights, self._levers.clip_norm)
        self._optimizer.step()
        return loss.detach()

    def _read(self, loss: torch.Tensor) -> None:
        """Read the loss in each so-manyth step, as trainings do that print it: this waits for the device."""
        self._unread += 1
        if self._unread == self._read_every:
            self._unread = 0
            loss.item()

    @property
    def _loss_reads(self) -> float:
        return 1 / self._levers.read_every if self._levers.read_every else 0
