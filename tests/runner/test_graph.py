"""A step that is recorded and replayed: with a stand-in for CUDA, and with CUDA where there is one."""

import contextlib
from functools import partial

import pytest
import torch

from runner import timing
from runner.devices.device import DeviceUnavailable
from runner.devices.graph import STEPS_BEFORE, Captured
from tests.runner.pretend import LateAccelerator


class PretendCuda:
    """While it records, work that is launched is noted and not done, as on a device."""

    def __init__(self, monkeypatch):
        self.recording = None
        self.events = []
        cuda = self

        class Stream:
            def wait_stream(self, other):
                pass

        class CUDAGraph:
            def replay(self):
                cuda.events.append("replay")
                for work in self.work:
                    work()

        @contextlib.contextmanager
        def graph(made, *, stream, capture_error_mode):
            cuda.events.append("record")
            cuda.recording = made.work = []
            try:
                yield
            finally:
                cuda.recording = None

        here = Stream()
        monkeypatch.setattr(torch.cuda, "Stream", Stream)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: here)
        monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
        monkeypatch.setattr(torch.cuda, "CUDAGraph", CUDAGraph)
        monkeypatch.setattr(torch.cuda, "graph", graph)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)

    def launch(self, work):
        if self.recording is None:
            self.events.append("launch")
            work()
        else:
            self.recording.append(work)


@pytest.fixture
def cuda(monkeypatch):
    return PretendCuda(monkeypatch)


def test_every_step_is_one_step_of_the_training(cuda):
    value = torch.tensor(1.0)

    def train():
        cuda.launch(lambda: value.mul_(2))
        return value

    step = Captured(train)
    losses = []
    for _ in range(10):
        recorded = step.is_recorded
        losses.append(float(step()))
    assert losses == [2.0**n for n in range(1, 11)]
    assert recorded
    assert cuda.events == ["launch"] * STEPS_BEFORE + ["record"] + ["replay"] * 7


def test_what_comes_before_replaying_is_timed_and_waited_for(cuda, monkeypatch):
    device = LateAccelerator()
    monkeypatch.setattr(torch.cuda, "synchronize", device.synchronize)
    monkeypatch.setattr(timing, "elapsed_s", partial(timing.elapsed_s, clock=device.clock))

    def train():
        cuda.launch(lambda: device.give(0.25))
        return torch.zeros(())

    step = Captured(train)
    for _ in range(STEPS_BEFORE + 5):
        step()
    assert step.seconds == pytest.approx(STEPS_BEFORE * 0.25, rel=1e-3)  # recording takes no time here, nor do replays


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (RuntimeError("operation not permitted when stream is capturing"), DeviceUnavailable),
        (torch.OutOfMemoryError("CUDA out of memory"), torch.OutOfMemoryError),
        (ValueError("wrong"), ValueError),
    ],
)
def test_a_step_that_cannot_be_recorded(cuda, raised, expected):
    def train():
        if cuda.recording is not None:
            raise raised
        return torch.zeros(())

    step = Captured(train)
    for _ in range(STEPS_BEFORE):
        step()
    with pytest.raises(expected, match=str(raised)[:20]):
        step()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
def test_a_real_recording_trains_as_the_step_does():
    def losses(wrap):
        torch.manual_seed(0)
        model = torch.nn.Linear(64, 8).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        inputs, labels = torch.empty(32, 64, device="cuda"), torch.empty(32, 8, device="cuda")

        def train():
            optimizer.zero_grad()
            loss = (model(inputs) - labels).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        step, found = wrap(train), []
        draw = torch.Generator().manual_seed(1)
        for _ in range(12):
            inputs.copy_(torch.randn(32, 64, generator=draw))
            labels.copy_(torch.randn(32, 8, generator=draw))
            found.append(float(step()))
        return found

    assert losses(Captured) == pytest.approx(losses(lambda train: train), rel=1e-5)
