"""The room that speaks to devices. What needs a GPU is stood in for; what this machine has is asked in earnest."""

import subprocess
import sys

import pytest
import torch

from runner.devices import device, visibility
from runner.devices.device import Accelerator, Cpu, DeviceUnavailable, absence, open_device
from runner.devices.probe import Probe, probe
from runner.devices.threads import set_threads
from runner.environment import ROOT

no_accelerator = pytest.mark.skipif(torch.accelerator.is_available(), reason="this machine has an accelerator")


def test_the_cpu_is_always_here_and_has_nothing_to_wait_for():
    cpu = open_device("cpu")
    assert cpu == Cpu()
    assert (cpu.torch_device.type, cpu.is_accelerator, cpu.name, cpu.memory_bytes) == ("cpu", False, None, None)
    cpu.synchronize()
    cpu.reset_peak_memory()
    assert (cpu.uuid, cpu.peak_memory_bytes()) == (None, None)


@no_accelerator
@pytest.mark.parametrize("kind", ["gpu", "cuda", "mps"])
def test_an_absent_device_is_named_with_its_cause(kind):
    with pytest.raises(DeviceUnavailable) as raised:
        open_device(kind)
    assert str(raised.value) == absence()


def test_another_accelerator_than_was_asked_for(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("mps"))
    with pytest.raises(DeviceUnavailable, match="no cuda device: the accelerator of this machine is mps"):
        open_device("cuda")


@pytest.mark.parametrize("kind", ["gpu", "cuda"])
def test_a_cuda_device_says_what_it_is(monkeypatch, kind):
    class Properties:
        name = "Pretend GPU"
        total_memory = 16 * 2**30
        uuid = "0f-1e"

    waits, resets = [], []
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 1)
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: waits.append(None))
    monkeypatch.setattr(torch.accelerator, "reset_peak_memory_stats", lambda: resets.append(None))
    monkeypatch.setattr(torch.accelerator, "max_memory_allocated", lambda: 4096)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda which: Properties if which.index == 1 else None)
    found = open_device(kind)
    assert found == Accelerator(
        torch_device=torch.device("cuda:1"), name="Pretend GPU", memory_bytes=16 * 2**30, uuid="GPU-0f-1e"
    )
    assert found.is_accelerator
    found.synchronize()
    assert len(waits) == 1
    found.reset_peak_memory()
    assert len(resets) == 1
    assert found.peak_memory_bytes() == 4096


@no_accelerator
def test_an_allocator_that_keeps_no_peak_fails_nothing():
    """As that of MPS; here torch itself has none, and raises too."""
    found = Accelerator(torch_device=torch.device("mps"), name="Apple GPU", memory_bytes=None)
    found.reset_peak_memory()
    assert found.peak_memory_bytes() is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
def test_a_real_cuda_device_counts_its_memory_and_has_an_identity():
    found = open_device("cuda")
    assert found.uuid.startswith("GPU-")
    found.reset_peak_memory()
    before = found.peak_memory_bytes()
    del_me = torch.ones(1_000_000, device=found.torch_device)
    assert found.peak_memory_bytes() - before >= del_me.nbytes


@pytest.mark.parametrize(
    ("cuda", "visible", "has_driver", "cause"),
    [
        (None, None, False, "is a CPU-only build"),
        ("13.0", "", True, "CUDA_VISIBLE_DEVICES='' hides it"),
        ("13.0", "-1", True, "CUDA_VISIBLE_DEVICES='-1' hides it"),
        ("13.0", None, False, "no driver of a GPU is loaded on this machine"),
        ("13.0", "0", True, "(CUDA 13.0) finds none; is the driver too old for it?"),
    ],
)
def test_causes_of_absence(monkeypatch, cuda, visible, has_driver, cause):
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(device.Path, "exists", lambda path: has_driver)
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert absence().startswith("no CUDA device: ")
    assert absence().endswith(cause)


@pytest.mark.usefixtures("same_threads")
def test_threads_are_what_was_set_again_and_again():
    assert [set_threads(count) for count in (1, 2, 1, 3)] == [1, 2, 1, 3]
    assert torch.get_num_threads() == 3


def test_hiding_leaves_nothing_to_see():
    code = "from runner.devices.visibility import hide_accelerators, is_accelerator_visible\n"
    code += "hide_accelerators(); print(is_accelerator_visible())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_device_that_is_still_shown_is_seen(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert visibility.is_accelerator_visible()


def test_the_probe_agrees_with_torch_wherever_it_is_asked(tmp_path, monkeypatch):
    (tmp_path / "runner").mkdir()  # a room of the same name in the folder that somebody happens to be in
    (tmp_path / "runner" / "__init__.py").write_text("raise SystemExit('another runner')")
    monkeypatch.chdir(tmp_path)
    found = probe()
    assert "failed" not in found.cause
    assert (found.kind is not None) == torch.accelerator.is_available()
    if found.kind is None:
        assert found == Probe(kind=None, name=None, count=0, cause=absence())
    else:
        assert found.count >= 1
        assert found.cause == ""


def test_a_probe_that_takes_too_long_says_so():
    found = probe(timeout_s=0.01)
    assert (found.kind, found.count) == (None, 0)
    assert found.cause.startswith("the search for one failed: ")
    assert "timed out" in found.cause


def test_a_probe_that_breaks_says_how(monkeypatch, tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.13 is missing')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert probe().cause == "the search for one failed: ImportError: libcudart.so.13 is missing"


def test_probing_does_not_load_torch_here():
    code = "import sys; from runner.devices.probe import probe; probe(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
