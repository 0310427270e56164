"""A training step that a CUDA device replays from a recording: one launch for all its kernels."""

from __future__ import annotations

from collections.abc import Callable

import torch

from runner import timing
from runner.devices.device import DeviceUnavailable

#: Steps that run as they are before one is recorded: libraries set themselves up, the optimizer makes its state.
STEPS_BEFORE = 3


class Captured:
    """A step that is recorded the fourth time and replayed from then on.

    The steps before are real steps of the training, so the losses are those of the step that was given. After
    https://docs.pytorch.org/docs/stable/notes/cuda.html#whole-network-capture, which runs them on a stream beside.
    """

    def __init__(self, train: Callable[[], torch.Tensor]) -> None:
        """Take a step.

        Args:
            train: One step on inputs that always lie in the same place of the device; returns the loss, and neither
                copies from the host nor reads a value back.
        """
        self._train = train
        self._before = 0
        self.seconds = 0.0
        """What the steps before the recording and the recording took."""
        self._beside = torch.cuda.Stream()
        self._graph: torch.cuda.CUDAGraph | None = None
        self._loss: torch.Tensor

    @property
    def is_recorded(self) -> bool:
        """Whether steps are replayed by now."""
        return self._graph is not None

    def __call__(self) -> torch.Tensor:
        """Do one step, and return its loss, whose place the next step will use again.

        Raises:
            DeviceUnavailable: The step cannot be recorded.
        """
        if self._graph is None:
            is_ready = self._before == STEPS_BEFORE
            self.seconds += timing.elapsed_s(self._record if is_ready else self._run_beside, torch.cuda.synchronize)
        if self._graph is not None:
            self._graph.replay()
        return self._loss

    def _run_beside(self) -> None:
        self._before += 1
        here = torch.cuda.current_stream()
        self._beside.wait_stream(here)
        with torch.cuda.stream(self._beside):
            self._loss = self._train()
        here.wait_stream(self._beside)

    def _record(self) -> None:  # nothing runs meanwhile
        graph = torch.cuda.CUDAGraph()
        try:
            # Errors of this thread alone: that of a loader may use CUDA meanwhile.
            with torch.cuda.graph(graph, stream=self._beside, capture_error_mode="thread_local"):
                self._loss = self._train()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise DeviceUnavailable(f"mode cudagraph: the step cannot be recorded: {error}") from error
        self._graph = graph
