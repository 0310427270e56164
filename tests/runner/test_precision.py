"""How exactly numbers are multiplied: torch's own settings, set and read back. A CPU build has those of CUDA too."""

import subprocess
import sys
import types

import pytest
import torch

from runner.devices import precision
from runner.devices.device import DeviceUnavailable
from runner.devices.precision import get_precision, set_precision
from runner.environment import ROOT

CPU, CUDA = torch.device("cpu"), torch.device("cuda:0")


@pytest.fixture(autouse=True)
def settings():
    """The settings of this process are as before afterwards."""
    backends = {**precision._cuda_backends(), **precision._cpu_backends()}
    before = {name: each.fp32_precision for name, each in backends.items()}
    yield backends
    for name, each in backends.items():
        each.fp32_precision = before[name]


def told(backends):
    return {name: each.fp32_precision for name, each in backends.items()}


def test_torch_itself_does_not_treat_its_backends_alike():
    """Why this file exists: the day torch changes its mind, this says so."""
    code = "from runner.devices.precision import get_precision; print(get_precision())"
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "cudnn.conv tf32" in said
    assert "cuda.matmul tf32" not in said


def test_ieee_is_told_to_every_backend(settings):
    torch.backends.cudnn.benchmark = True
    assert set_precision("ieee", CPU) == get_precision() == "ieee"
    assert set(settings) == {
        "cuda.matmul", "cudnn.conv", "cudnn.rnn", "mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn"
    }  # fmt: skip
    assert set(told(settings).values()) == {"ieee"}
    assert torch.backends.cudnn.benchmark is False


def test_tf32_is_told_to_the_backends_of_cuda_alone(settings, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    assert set_precision("tf32", CUDA) == get_precision() == "tf32"
    assert {name for name, value in told(settings).items() if value == "tf32"} == {
        "cuda.matmul", "cudnn.conv", "cudnn.rnn"
    }  # fmt: skip
    assert set_precision("ieee", CUDA) == "ieee"


@pytest.mark.parametrize("device", [CPU, torch.device("mps")])
def test_tf32_cannot_be_had_elsewhere(device):
    with pytest.raises(DeviceUnavailable, match=f"precision tf32 is for CUDA devices, and this one is {device.type}"):
        set_precision("tf32", device)


def test_tf32_cannot_be_had_on_an_old_device(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    with pytest.raises(DeviceUnavailable, match=r"capability 8\.0"):
        set_precision("tf32", CUDA)


@pytest.mark.parametrize("backend", ["cuda.matmul", "cudnn.rnn", "mkldnn.matmul"])
def test_one_backend_that_differs_is_named(settings, backend):
    set_precision("ieee", CPU)
    settings[backend].fp32_precision = "tf32"
    assert f"{backend} tf32" in get_precision()


@pytest.mark.parametrize("asked", ["ieee", "tf32"])
def test_an_older_torch_is_asked_in_the_older_way(monkeypatch, asked):
    cuda, cudnn = types.SimpleNamespace(allow_tf32=True), types.SimpleNamespace(allow_tf32=True, benchmark=True)
    old = types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=cuda), cudnn=cudnn)
    monkeypatch.setattr(torch, "backends", old)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    assert set_precision(asked, CUDA) == asked
    assert cuda.allow_tf32 == cudnn.allow_tf32 == (asked == "tf32")
    assert cudnn.benchmark is False
    cudnn.allow_tf32 = not cudnn.allow_tf32
    assert get_precision() not in ("ieee", "tf32")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
def test_a_cuda_device_multiplies_as_it_was_told():
    if torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("this device has no TF32")
    device = torch.device("cuda", torch.cuda.current_device())
    exact = torch.rand(512, 512, dtype=torch.float64, device=device)
    wanted = exact @ exact
    worst = {}
    for asked in ("ieee", "tf32"):
        set_precision(asked, device)
        worst[asked] = ((exact.float() @ exact.float()).double() / wanted - 1).abs().max().item()
    assert worst["ieee"] < 1e-5 < worst["tf32"]
