"""What happens inside a trial's process: every way to end is an answer."""

import json
import math
import os
from dataclasses import dataclass
from datetime import datetime

import pytest
import torch

from runner import worker
from runner.devices.device import absence
from runner.environment import usable_cores
from runner.timing import now_ns
from runner.workloads import load
from sweeps.target import Target
from tests.runner.asking import MISDEEDS, make_request

pytestmark = pytest.mark.usefixtures("same_threads")


LINEAR = {"rows": 64, "features": 4, "classes": 2, "batch_size": 16}


def answer(*, declared_cpus=None, environment=None, source=None, workload="own.py:make", parameters=None, **asked):
    request = make_request(**asked)
    if source is not None or parameters is not None:
        request |= {"workload": workload, "source": source, "parameters": parameters or {}}
    rest = {"declared_cpus": declared_cpus, "environment": environment or {}, "asked_ns": now_ns()}
    found = worker.answer({**request, **rest})
    assert json.loads(json.dumps(found)).keys() == found.keys()  # it travels as JSON
    return found


def own(body, *, fields=""):
    return (
        "import torch\n"
        "class make:\n"
        f"    def __init__(self, *, seed): {fields or 'pass'}\n"
        "    def prepare(self, device, target): self.device, self.target = device, target\n"
        f"    def step(self): {body}\n"
    )


@dataclass(frozen=True, kw_only=True)
class PretendAccelerator:
    """Stands in for a GPU behind the contract of `Device`: its tensors lie on the CPU, and its waits are counted."""

    waits: list
    torch_device: torch.device = torch.device("cpu")
    is_accelerator: bool = True
    name: str = "Pretend GPU"
    memory_bytes: int = 8 * 2**30

    def synchronize(self):
        self.waits.append(None)


@pytest.fixture
def accelerator(monkeypatch):
    device = PretendAccelerator(waits=[])
    monkeypatch.setattr(worker, "open_device", lambda kind: device)
    return device


def test_an_answer_that_is_ok():
    found = answer(target="cpu-1")
    assert found["status"] == "ok"
    assert len(found["step_times_s"]) >= 10
    assert all(seconds > 0 for seconds in found["step_times_s"])
    assert found["steps_per_block"] >= 1
    assert found["warmup_steps"] >= 10
    assert found["warmup_s"] > found["first_step_s"] > 0
    assert found["process_start_s"] > 0
    assert found["loss_step_1"] == pytest.approx(math.log(2), rel=0.5)  # two classes, nothing learned yet
    assert found["loss_step_10"] == pytest.approx(math.log(2), rel=0.5)
    assert found["flops_per_step"] == 6 * 4 * (8 * 8 + 8 * 2) - 2 * 4 * 8 * 8
    assert found["h2d_bytes_per_step"] == 4 * 4 * 8 + 8 * 4
    assert found["parameter_bytes"] == 4 * (8 * 8 + 8 + 8 * 2 + 2)
    assert (found["ops_per_step"], found["syncs_per_step"]) == (18, 0)
    assert (found["device"], found["gpu_name"], found["gpu_memory_bytes"]) == ("cpu", None, None)
    assert found["null_reasons"] == {
        "epoch_times_s": "this workload is not trained as a whole",
        "loss_by_epoch": "this workload is not trained as a whole",
    }
    assert datetime.fromisoformat(found["started_at"]) < datetime.fromisoformat(found["finished_at"])


def test_threads_are_set_and_read_back():
    torch.set_num_threads(2)
    found = answer(target="cpu-1", deed="nothing")
    assert found["threads_requested"] == found["threads_observed"] == torch.get_num_threads() == 1
    found = answer(target="cpu", deed="nothing")
    assert found["threads_requested"] == found["threads_observed"] == torch.get_num_threads() == usable_cores()
    assert found["cores_usable"] == usable_cores()


def test_all_means_what_ray_declares_where_that_is_less():
    found = answer(target="cpu", declared_cpus=1, deed="nothing")
    assert (found["cores_usable"], found["threads_requested"], found["threads_observed"]) == (1, 1, 1)


def test_more_threads_than_cores_cannot_be_had():
    cores = usable_cores()
    found = answer(target=Target(name="many", device="cpu", threads=cores + 1), deed="nothing")
    assert found["status"] == "unavailable"
    assert found["error_message"] == f"{cores + 1} threads were asked for, and this node has {cores} usable cores"
    assert found["threads_requested"] == cores + 1
    assert "step_times_s" not in found


def test_threads_that_are_not_what_was_asked_make_the_row_invalid(monkeypatch):
    monkeypatch.setattr(worker, "set_threads", lambda count: count + 3)  # no library here disobeys
    found = answer(target="cpu-1", deed="nothing")
    assert (found["status"], found["error_type"]) == ("invalid", "Invalid")
    assert found["error_message"] == "1 threads were asked for, and torch has 4"
    assert found["threads_observed"] == 4


@pytest.mark.skipif(torch.accelerator.is_available(), reason="this machine has an accelerator")
@pytest.mark.parametrize("kind", ["gpu", "cuda", "mps"])
def test_a_gpu_that_is_not_here_is_unavailable_and_the_cause_is_told(kind):
    found = answer(target=kind, deed="nothing")
    assert (found["status"], found["error_type"]) == ("unavailable", "DeviceUnavailable")
    assert found["error_message"] == absence()
    assert "no CUDA device" in found["error_message"]


def test_a_cpu_trial_is_blind_whatever_ray_left_visible():
    variables = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    found = answer(target="cpu-1", deed="nothing", environment=dict.fromkeys(variables, "0,1"))
    assert found["status"] == "ok"
    assert [os.environ[variable] for variable in variables] == ["", "", ""]


def test_a_cpu_trial_that_can_still_see_a_gpu_is_invalid(monkeypatch):
    monkeypatch.setattr(worker, "is_accelerator_visible", lambda: True)
    found = answer(target="cpu-1", deed="nothing")
    assert (found["status"], found["error_message"]) == ("invalid", "a CPU trial can see an accelerator")
    assert "step_times_s" not in found


def test_an_accelerator_keeps_what_ray_made_visible_and_is_waited_for(accelerator, monkeypatch):
    monkeypatch.setattr(worker, "is_accelerator_visible", lambda: True)
    found = answer(target="gpu", environment={"CUDA_VISIBLE_DEVICES": "1"})
    assert found["status"] == "ok"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    assert (found["gpu_name"], found["gpu_memory_bytes"]) == ("Pretend GPU", 8 * 2**30)
    assert len(accelerator.waits) >= 2 * len(found["step_times_s"])
    assert found["warmup_s"] > 0.5  # an accelerator needs longer to reach its clocks


def test_whole_training_is_timed_from_fresh_weights():
    found = answer(workload="linear", parameters={**LINEAR, "epochs": 3})
    assert found["status"] == "ok"
    assert len(found["epoch_times_s"]) == 3
    assert found["null_reasons"] == {}
    fresh = load("linear", None, seed=0, parameters={**LINEAR, "epochs": 3})  # as if no timed steps had come before
    fresh.prepare(torch.device("cpu"), "cpu-1")
    assert found["loss_by_epoch"] == [fresh.epoch() for _ in range(3)]


def test_whole_training_can_be_left_out():
    found = answer(workload="linear", parameters={**LINEAR, "epochs": 0})
    assert found["status"] == "ok"
    assert "epoch_times_s" not in found
    assert set(found["null_reasons"]) == {"epoch_times_s", "loss_by_epoch"}


def test_an_error_is_an_answer_with_its_traceback():
    found = answer(deed="raise")
    assert (found["status"], found["error_type"]) == ("error", "ValueError")
    assert "raise error" in found["error_message"]  # the line of the file that raised
    assert str(MISDEEDS) in found["error_message"]
    assert found["error_message"].endswith("ValueError: 50 % of nothing\nand a second line")


def test_a_traceback_has_its_lines_where_the_file_is_not():
    found = answer(source=own("raise LookupError('no such row')"), workload="/nowhere/at/all/own.py:make")
    assert found["status"] == "error"
    assert 'File "/nowhere/at/all/own.py", line 5, in step' in found["error_message"]
    assert "def step(self): raise LookupError('no such row')" in found["error_message"]


def test_a_long_message_keeps_its_end():
    found = answer(source=own("raise ValueError('x' * 100_000 + ' the end')"))
    assert len(found["error_message"]) == worker.LONGEST_MESSAGE
    assert found["error_message"].endswith("x the end")


def test_a_message_that_is_no_text_can_be_stored():
    assert answer(deed="raise no text")["error_message"].endswith("OSError: file ?")


@pytest.mark.parametrize("deed", ["allocate", "MemoryError"])
def test_memory_that_cannot_be_had_is_oom(deed):
    found = answer(deed=deed)
    assert found["status"] == "oom"
    assert "step_times_s" not in found


@pytest.mark.parametrize(
    "raised",
    ["torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 20.00 GiB')",
     "RuntimeError('MPS backend out of memory (MPS allocated: 9 GB)')",
     "RuntimeError('CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)')"],
)  # fmt: skip
def test_accelerators_run_out_of_memory_in_their_own_words(raised):
    assert answer(source=own(f"raise {raised}"))["status"] == "oom"


def test_other_errors_of_torch_are_errors():
    found = answer(source=own("return torch.ones(2, 3) @ torch.ones(2, 3)"))
    assert (found["status"], found["error_type"]) == ("error", "RuntimeError")


def test_a_loss_of_two_numbers_is_an_error():
    found = answer(deed="two losses")
    assert found["status"] == "error"
    assert "2 elements" in found["error_message"]


def test_a_workload_sees_its_device_target_and_seed():
    source = own("raise ValueError(f'{self.device} {self.target} {self.seed}')", fields="self.seed = seed")
    assert answer(source=source, target="cpu-1")["error_message"].endswith("ValueError: cpu cpu-1 0")


@pytest.mark.parametrize("number", ["torch.tensor(12)", "12", "12.0", "__import__('numpy').int64(12)"])
def test_what_a_workload_says_of_itself_becomes_a_number(number):
    found = answer(source=own("return torch.ones(())", fields=f"self.flops_per_step = {number}"))
    assert (found["status"], found["flops_per_step"]) == ("ok", 12.0)
    for column in ("parameter_bytes", "ops_per_step", "syncs_per_step"):
        assert found[column] is None
        assert found["null_reasons"][column] == "the workload does not say"


def test_what_a_workload_says_of_itself_has_to_be_a_number():
    found = answer(source=own("return torch.ones(())", fields="self.flops_per_step = 'many'"))
    assert (found["status"], found["error_type"]) == ("error", "ValueError")


def test_a_workload_may_count_epochs_of_its_own():
    found = answer(source=own("return torch.ones(())", fields="self.epochs = 3"))
    assert found["status"] == "ok"
    assert "epoch_times_s" in found["null_reasons"]


def test_a_loss_that_is_not_a_number_is_no_failure():
    found = answer(source=own("return torch.tensor(float('nan'))"))
    assert found["status"] == "ok"
    assert math.isnan(found["loss_step_1"])


def test_few_long_steps_have_no_tenth_loss_and_say_why():
    source = "import time, torch\n" + own("time.sleep(0.35); return torch.ones(())").removeprefix("import torch\n")
    found = answer(source=source)
    assert found["status"] == "ok"
    assert len(found["step_times_s"]) >= 5
    assert (found["loss_step_1"], found["loss_step_10"]) == (1.0, None)
    assert found["null_reasons"]["loss_step_10"] == "fewer than 10 steps fitted into the warm-up"


def test_main_writes_one_answer_and_nothing_else(tmp_path):
    request = {**make_request(deed="raise"), "declared_cpus": None, "environment": {}, "asked_ns": now_ns()}
    path = tmp_path / "answer"
    worker.main(json.dumps(request), os.open(path, os.O_WRONLY | os.O_CREAT))
    assert json.loads(path.read_text())["status"] == "error"


def test_a_model_that_changes_the_threads_makes_the_row_invalid():
    found = answer(deed="more threads")
    assert found["status"] == "invalid"
    assert "ended with" in found["error_message"]
