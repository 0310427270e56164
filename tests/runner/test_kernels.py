"""Counting kernels: rules on made events, and torch's own profiler."""

from types import SimpleNamespace

import pytest
import torch

from runner.devices.kernels import Kernels, _add_up, profile_kernels


def event(name, start, end, *, on="CUDA", mark=False):
    return SimpleNamespace(
        name=name,
        device_type=SimpleNamespace(name=on),
        time_range=SimpleNamespace(start=start, end=end),
        is_user_annotation=mark,
    )


def test_kernels_are_counted_and_their_time_added_up():
    events = [
        event("aten::mm", 0, 900, on="CPU"),
        event("sgemm", 100, 150),
        event("relu", 160, 170),
        event("sgemm", 200, 240),
        event("relu", 250, 260),
        event("Memcpy HtoD (Pageable -> Device)", 0, 90),
        event("Memset (Device)", 90, 95),
        event("Optimizer.step#SGD.step", 0, 900, mark=True),
    ]
    assert _add_up(events, 2) == Kernels(per_step=2.0, time_s=pytest.approx(55e-6))


def test_a_cpu_has_no_kernels_and_the_steps_are_done(capsys):
    calls = []
    found = profile_kernels(lambda: calls.append(torch.ones(8).sum()), lambda: calls.append("wait"), steps=3)
    assert found is None
    assert [each for each in calls if not isinstance(each, str)] == [torch.tensor(8.0)] * 3
    assert (calls[0], calls[-1]) == ("wait", "wait")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
def test_a_real_device_runs_kernels():
    values = torch.ones(1 << 20, device="cuda")
    found = profile_kernels(lambda: values.mul_(1).add_(1), torch.cuda.synchronize, steps=10)
    assert found.per_step == 2.0
    assert found.time_s > 0
