"""How steps are run: as written, compiled, replayed. Compiling is done in earnest, in a trial's own process."""

import os
import shutil
import statistics
import types

import pytest
import torch

from runner import mode
from runner.devices import compiler
from runner.devices.device import DeviceUnavailable
from runner.mode import enter_mode, is_in_mode
from runner.process import Nursery, answer_of
from runner.workloads.lstm_fused import LstmFused
from runner.workloads.lstm_loop import LstmLoop
from sweeps.target import Target
from tests.runner.asking import make_request

CPU, CUDA, MPS = torch.device("cpu"), torch.device("cuda:0"), torch.device("mps")
compiled = Target(name="cpu-compiled", device="cpu", threads=1, mode="compile")
can_compile = pytest.mark.skipif(bool(compiler.missing(CPU)), reason=compiler.missing(CPU))


def test_recurrent_layers_are_not_compiled_and_that_is_said():
    workload = types.SimpleNamespace(model=torch.nn.Linear(1, 1), cannot_compile="recurrent layers stay as they are")
    with pytest.raises(DeviceUnavailable, match="recurrent layers stay as they are"):
        enter_mode("compile", workload, CPU, threads=1)
    assert LstmLoop.cannot_compile == LstmFused.cannot_compile != ""


@pytest.fixture
def nursery():
    nursery = Nursery()
    yield nursery
    nursery.close()


@can_compile
def test_a_compiled_training_is_the_same_training_with_a_long_first_step(nursery):
    eager, first = (answer_of(nursery, make_request(target=target, deadline_s=250.0)) for target in ("cpu-1", compiled))
    assert (eager["status"], eager["mode"]) == ("ok", "eager")
    assert (first["status"], first.get("error_message"), first["mode"]) == ("ok", None, "compile")
    assert first["first_step_s"] > 10 * eager["first_step_s"]
    assert first["first_step_s"] / 2 < first["mode_s"] < first["warmup_s"]  # what torch counts is nearly all of it
    assert (eager["mode_s"], eager["null_reasons"]["mode_s"]) == (None, "steps were run as they are written")
    assert first["first_step_s"] > 100 * statistics.median(first["step_times_s"])  # it is not in the blocks
    assert first["warmup_s"] - first["first_step_s"] < first["first_step_s"]
    for step in ("loss_step_1", "loss_step_10"):
        assert first[step] == pytest.approx(eager[step], rel=1e-5)


@can_compile
def test_a_torch_that_is_told_to_compile_nothing_makes_the_row_invalid(monkeypatch):
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")  # somebody's profile; read as torch is loaded
    nursery = Nursery()
    try:
        found = answer_of(nursery, make_request(target=compiled))
    finally:
        nursery.close()
    assert found["status"] == "invalid"
    assert found["error_message"] == "mode compile was asked for, and its steps ran as they are written"


def test_a_cpu_without_a_compiler_cannot_compile(nursery, tmp_path):
    found = answer_of(nursery, make_request(target=compiled), environment={"PATH": str(tmp_path), "CXX": ""})
    assert found["status"] == "unavailable"
    assert found["error_message"].startswith("mode compile needs a C++ compiler for the CPU, and there is no ")


def test_a_workload_without_a_model_cannot_be_compiled(nursery):
    found = answer_of(nursery, make_request(target=compiled, deed="nothing"))
    assert found["status"] == "unavailable"
    assert found["error_message"] == "mode compile needs a workload with a `model`, and this one has none"


@pytest.mark.parametrize(
    ("device", "present", "missing"),
    [
        (CPU, {"g++", "clang++"}, ""),
        (CPU, set(), "C++ compiler"),
        (CUDA, {"gcc"}, ""),
        (CUDA, {"clang"}, ""),
        (CUDA, set(), "C compiler for Triton"),
        (MPS, set(), ""),
    ],
)
def test_what_compiling_needs_beside_torch(monkeypatch, device, present, missing):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(compiler.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(shutil, "which", lambda name: name if name in present else None)
    found = compiler.missing(device)
    assert missing in found
    assert bool(found) == bool(missing)


def test_a_cuda_device_needs_triton_for_compiling(monkeypatch):
    monkeypatch.setattr(compiler.importlib.util, "find_spec", lambda name: None)
    assert compiler.missing(CUDA) == "mode compile needs the package triton for a CUDA device"


def test_a_compiler_of_another_name(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: name if name == "/opt/c++" else None)
    monkeypatch.setenv("CXX", "/opt/c++")
    assert compiler.missing(CPU) == ""
    monkeypatch.setenv("CXX", "/opt/gone")
    assert "no /opt/gone" in compiler.missing(CPU)


class Trained:
    """A workload in two parts."""

    def __init__(self, **more):
        self.places = "anywhere"
        vars(self).update(more)

    def use_static_inputs(self):
        self.places = "one place"

    def train(self):
        return torch.zeros(())


def test_nothing_is_changed_for_eager():
    workload = Trained()
    before = dict(vars(workload))
    enter_mode("eager", workload, CPU, threads=1)
    assert vars(workload) == before
    assert is_in_mode("eager", workload)


@pytest.mark.parametrize("device", [CPU, MPS])
def test_only_cuda_records_steps(device):
    with pytest.raises(DeviceUnavailable, match=f"mode cudagraph is for CUDA devices, and this one is {device.type}"):
        enter_mode("cudagraph", Trained(), device, threads=1)


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (types.SimpleNamespace(step=lambda: None), "needs a workload with `train` and `use_static_inputs`"),
        (Trained(cannot_capture="the model reads values"), "mode cudagraph: the model reads values"),
    ],
)
def test_a_workload_that_cannot_be_recorded_says_why(workload, message):
    with pytest.raises(DeviceUnavailable, match=message):
        enter_mode("cudagraph", workload, CUDA, threads=1)


def test_what_a_step_calls_is_replaced_by_the_recorder(monkeypatch):
    class Recorder:
        def __init__(self, train):
            self.given, self.is_recorded = train, False

    monkeypatch.setattr(mode, "Captured", Recorder)
    workload = Trained(cannot_capture=None)
    original = workload.train
    enter_mode("cudagraph", workload, CUDA, threads=1)
    assert workload.places == "one place"
    assert workload.train.given == original
    assert not is_in_mode("cudagraph", workload)
    workload.train.is_recorded = True
    assert is_in_mode("cudagraph", workload)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
@pytest.mark.parametrize("how", ["compile", "cudagraph"])
def test_a_real_device_in_the_mode_trains_as_it_does_without(nursery, how):
    targets = [Target(name=name, device="cuda", mode=name) for name in ("eager", how)]
    eager, other = (
        answer_of(nursery, make_request(target=each, deadline_s=250.0), environment=dict(os.environ))
        for each in targets
    )
    assert (other["status"], other["mode"]) == ("ok", how)
    for step in ("loss_step_1", "loss_step_10"):
        assert other[step] == pytest.approx(eager[step], rel=1e-5)
