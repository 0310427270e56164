"""What happens inside a trial's process: every way to end is an answer."""

import json
import math
import os
import statistics
import sys
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import pytest
import torch

from runner import evidence, timing, worker
from runner.devices.device import Cpu, absence
from runner.devices.kernels import Kernels
from runner.environment import usable_cores
from runner.interference import Counters
from runner.timing import now_ns
from runner.workloads import load
from sweeps.families import FAMILIES
from sweeps.target import Target
from tests.runner.asking import MISDEEDS, make_request
from tests.runner.pretend import PretendAccelerator, PretendNvml
from tests.runner.scripted import Machine

pytestmark = pytest.mark.usefixtures("same_threads")


LINEAR = {**FAMILIES["linear"].usual, "rows": 64, "features": 4, "classes": 2, "batch_size": 16}


def answer(
    *, declared_cpus=None, environment=None, source=None, workload="own.py:make", parameters=None, rung="e2e", **asked
):
    request = {**make_request(**asked), "rung": rung}
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
class ScriptedAccelerator(PretendAccelerator):
    """Its work ends when the machine's clock says so, long after the step has returned."""

    machine: Machine

    def synchronize(self):
        self.machine.synchronize()


class ScriptedWorkload:
    def __init__(self, machine, *, late, **more):
        self.machine, self.late = machine, late
        vars(self).update(more)

    def step(self):
        loss = self.machine.step()
        if not self.late:  # on a CPU the work is done when the call returns
            self.machine.synchronize()
        return loss

    def prepare(self, device, target):
        pass


@pytest.fixture
def scripted(monkeypatch):
    """Run a whole trial of a machine's steps by the machine's own clock: `scripted(machine, ...)` is its answer."""

    def run(machine, *, late=True, target="gpu", rung="e2e", **more):
        device = ScriptedAccelerator(machine=machine) if late else Cpu()
        monkeypatch.setattr(worker, "open_device", lambda kind: device)
        monkeypatch.setattr(worker, "load", lambda *asked, **settings: ScriptedWorkload(machine, late=late, **more))
        monkeypatch.setattr(timing, "measure", partial(timing.measure, clock=machine.clock))
        return answer(target=target, rung=rung)

    return run


@pytest.fixture
def accelerator(monkeypatch):
    device = PretendAccelerator()
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
    assert {
        name: found["null_reasons"].get(name) for name in ("epoch_times_s", "kernel_time_s", "gpu_clock_after_mhz")
    } == {
        "epoch_times_s": "this workload is not trained as a whole",
        "kernel_time_s": "counted for the rung kernel only",
        "gpu_clock_after_mhz": "the trial ran on the CPU",
    }
    assert all(found["null_reasons"].values())
    assert (found["mode"], found["precision"], found["wait_policy"]) == ("eager", "ieee", "default")
    assert found["compare_losses"] is True
    assert found["peak_memory_bytes"] >= found["memory_at_start_bytes"] - 1_000_000 > 50_000_000
    assert datetime.fromisoformat(found["started_at"]) < datetime.fromisoformat(found["finished_at"])


def test_a_search_that_looks_roughly_gets_so_many_values():
    request = {**make_request(batch_size=2), "most_steps": 3}
    found = worker.answer({**request, "declared_cpus": None, "environment": {}, "asked_ns": now_ns()})
    assert found["status"] == "ok", found
    assert len(found["step_times_s"]) == 3
    assert isinstance(found["loss_step_1"], float)
    assert isinstance(found["loss_step_10"], float)


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
    assert not {"epoch_times_s", "loss_by_epoch"} & set(found["null_reasons"])
    fresh = load("linear", None, seed=0, parameters={**LINEAR, "epochs": 3})  # as if no timed steps had come before
    fresh.prepare(torch.device("cpu"), "cpu-1")
    assert found["loss_by_epoch"] == [fresh.epoch() for _ in range(3)]


def test_whole_training_can_be_left_out():
    found = answer(workload="linear", parameters={**LINEAR, "epochs": 0})
    assert found["status"] == "ok"
    assert "epoch_times_s" not in found
    assert {"epoch_times_s", "loss_by_epoch"} <= set(found["null_reasons"])


def test_only_the_whole_step_is_trained_as_a_whole():
    found = answer(workload="linear", parameters={**LINEAR, "epochs": 3}, rung="nosync")
    assert found["status"] == "ok"
    assert "epoch_times_s" not in found


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


def test_a_late_device_is_waited_for(scripted):
    found = scripted(Machine(0.003, launch_s=0.00001))
    assert found["status"] == "ok"
    assert found["step_times_s"] == pytest.approx([(0.00001 + 7 * 0.003) / 7] * len(found["step_times_s"]))


@pytest.mark.parametrize(
    "asked",
    [{"rung": "nowait"}, {"target": Target(name="unwaited", device="gpu", wait=False)}],
    ids=["rung", "target"],
)
def test_a_late_device_that_is_not_waited_for_seems_300_times_as_quick(scripted, asked):
    machine = Machine(0.003, launch_s=0.00001)
    found = scripted(machine, **asked)
    assert found["status"] == "ok"
    assert found["step_times_s"] == pytest.approx([0.00001] * len(found["step_times_s"]))
    # A timed block is one step from a device with nothing to do, and is waited for after the clock has been read.
    assert found["steps_per_block"] == 1
    blocks = len(found["step_times_s"])
    timed = [each for each in machine.events if each in ("clock", "step", "wait")][-(4 * blocks + 1) :]
    assert timed[: 4 * blocks] == ["wait", "clock", "step", "clock"] * blocks
    assert machine.events[-1] == "wait"
    assert machine.now_ns == machine.done_ns


def test_preparing_ends_when_the_device_has_done_what_it_was_given(scripted, monkeypatch):
    machine = Machine(0.25, launch_s=0.01)
    monkeypatch.setattr(timing, "now_ns", machine.clock)
    found = scripted(machine, prepare=lambda device, target: machine.step())
    assert found["prepare_s"] == pytest.approx(0.26)
    assert found["first_step_s"] == pytest.approx(0.26)  # and nothing of it is counted twice


def test_preparing_is_timed_only_where_it_succeeds():
    source = (
        "import time, torch\n"
        "class make:\n"
        "    def __init__(self, *, seed): pass\n"
        "    def prepare(self, device, target): time.sleep(0.1)\n"
        "    def step(self): return torch.zeros(())\n"
    )
    found = answer(source=source)
    assert found["status"] == "ok"
    assert found["prepare_s"] >= 0.1
    assert found["warmup_s"] >= found["first_step_s"]
    broken = answer(source=source.replace("time.sleep", "time.nap"))
    assert broken["status"] == "error"
    assert "prepare_s" not in broken


def test_a_first_step_of_five_seconds_stands_apart(scripted):
    found = scripted(Machine(lambda number: 5.0 if number == 1 else 0.003), late=False, target="cpu-1")
    assert (found["status"], found["first_step_s"]) == ("ok", 5.0)
    assert found["step_times_s"] == pytest.approx([0.003] * 10)
    assert found["warmup_s"] > 5.0


def test_a_first_block_of_thirty_times_the_rest_and_a_dip_are_kept(scripted):
    slow, quick = range(74, 81), range(102, 109)
    machine = Machine(lambda number: 0.09 if number in slow else 0.0001 if number in quick else 0.003)
    found = scripted(machine, late=False, target="cpu-1")
    times = found["step_times_s"]
    assert (times[0], times[4]) == (pytest.approx(0.09), pytest.approx(0.0001))
    assert statistics.median(times) == pytest.approx(0.003)


def test_a_trial_whose_every_moment_is_disturbed_keeps_its_times_and_says_so(scripted, monkeypatch):
    readings = iter(
        Counters(at_ns=at * 10**9, delay_ns={"1": at * 10**9 // 2}, throttled_s=0.0, stolen=(0, at * 100))
        for at in (1, 2)
    )
    monkeypatch.setattr(evidence, "read_counters", lambda: next(readings))
    found = scripted(Machine(0.003), late=False, target="cpu-1")
    assert (found["status"], found["interference"], found["run_delay_share"]) == ("ok", "contended", 0.5)
    assert found["step_times_s"] == pytest.approx([0.003] * 10)


def test_an_accelerator_that_is_too_hot_keeps_its_times_and_says_so(scripted, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", PretendNvml(bits=0x40, heat=91))
    found = scripted(Machine(0.003))
    assert found["status"] == "ok"
    assert (found["gpu_throttle_before"], found["gpu_throttle_after"]) == ("hardware_thermal", "hardware_thermal")
    assert (found["gpu_temperature_after_c"], found["foreign_gpu_processes"]) == (91, 0)
    assert found["device_peak_memory_bytes"] == 5_000_000
    assert found["step_times_s"]


def test_a_counter_that_fails_fails_no_trial(scripted, monkeypatch):
    library = PretendNvml()
    library.broken |= {"clock", "heat", "bits", "mj"}
    monkeypatch.setitem(sys.modules, "pynvml", library)
    found = scripted(Machine(0.003))
    assert found["status"] == "ok"
    assert found["null_reasons"]["gpu_clock_before_mhz"] == "NVML: Not Supported"


def test_blocks_hold_whole_cycles_of_the_workload(scripted):
    found = scripted(
        Machine(lambda number: 0.011 if number % 5 == 0 else 0.001), late=False, target="cpu-1", steps_per_cycle=5
    )
    assert found["steps_per_block"] == 5
    assert found["step_times_s"] == pytest.approx([0.003] * len(found["step_times_s"]))


def test_energy_is_asked_of_all_timed_steps(scripted, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", PretendNvml())
    assert scripted(Machine(0.4))["energy_j"] == 0.0  # five steps of them
    assert "less than 2 s" in scripted(Machine(0.003))["null_reasons"]["energy_j"]


def test_kernels_are_counted_on_their_rung_after_the_timing(scripted, monkeypatch):
    machine, asked = Machine(0.003), []

    def profiled(step, synchronize, *, steps):
        asked.append((steps, machine.events.count("clock") % 2))
        return Kernels(per_step=27.0, time_s=0.002)

    monkeypatch.setattr(worker, "profile_kernels", profiled)
    found = scripted(machine, rung="kernel")
    assert (found["kernels_per_step"], found["kernel_time_s"]) == (27.0, 0.002)
    assert asked == [(10, 0)]
    scripted(Machine(1.0), rung="kernel")
    assert asked[1:] == [(5, 0)]  # long steps are not repeated for ever
    assert scripted(Machine(0.003))["kernels_per_step"] is None
    assert len(asked) == 2


def test_the_profiler_sees_no_kernel_on_a_cpu(scripted):
    found = scripted(Machine(0.003), rung="kernel")
    assert found["status"] == "ok"
    assert found["null_reasons"]["kernels_per_step"] == "the profiler saw no kernel of an accelerator"


def test_tf32_cannot_be_had_on_a_device_that_has_none(accelerator):
    found = answer(target=Target(name="tf32", device="gpu", precision="tf32"), deed="nothing")
    assert (found["status"], found["error_type"]) == ("unavailable", "DeviceUnavailable")
    assert found["error_message"] == "precision tf32 is for CUDA devices, and this one is cpu"


def test_a_precision_that_is_not_what_was_asked_makes_the_row_invalid(monkeypatch):
    monkeypatch.setattr(worker, "set_precision", lambda asked, device: "cudnn.conv tf32, cuda.matmul ieee")
    found = answer(deed="nothing")
    assert found["status"] == "invalid"
    assert found["error_message"] == "precision ieee was asked for, and torch has cudnn.conv tf32, cuda.matmul ieee"
    assert found["precision"] == "cudnn.conv tf32, cuda.matmul ieee"


def test_a_model_that_changes_the_precision_makes_the_row_invalid():
    found = answer(deed="less precision")
    assert found["status"] == "invalid"
    assert "began with precision ieee and ended with" in found["error_message"]
    assert "mkldnn.matmul tf32" in found["error_message"]


def test_a_wait_policy_that_is_not_what_was_asked_makes_the_row_invalid():
    found = answer(target=Target(name="passive", device="cpu", wait_policy="passive"), deed="nothing")
    assert (found["status"], found["wait_policy"]) == ("invalid", "default")


@pytest.mark.parametrize(("said", "expected"), [("False", False), ("True", True)])
def test_a_workload_can_say_that_its_losses_are_its_own(said, expected):
    found = answer(source=own("return torch.ones(())", fields=f"self.compare_losses = {said}"))
    assert found["compare_losses"] is expected


def test_a_figure_that_a_workload_does_not_know_has_its_reason():
    fields = "self.ops_per_step = None; self.unknown_figures = {'ops_per_step': 'nobody has counted them'}"
    found = answer(source=own("return torch.ones(())", fields=fields))
    assert found["null_reasons"]["ops_per_step"] == "nobody has counted them"
    assert found["null_reasons"]["syncs_per_step"] == "the workload does not say"
