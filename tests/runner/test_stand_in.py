"""On an accelerator that stands in for one: what a trial waits for, what it measures, and what it says when it cannot.

Its work ends late, by a clock of its own, and its memory has an end: see `LateAccelerator`. Whole trials are run in
this process; what cannot be had here is only the device.
"""

import statistics
from functools import partial

import pytest
import torch

from runner import timing, worker
from runner.devices import cold, device
from runner.devices.ahead import Ahead
from runner.devices.device import absence
from runner.workloads.training import Training
from sweeps.ladder import COLD
from sweeps.target import Target
from tests.runner.asking import make_request
from tests.runner.pretend import LateAccelerator, PretendStream
from tests.runner.scripted import Loss
from tests.runner.small import losses, made_of, prepared

pytestmark = pytest.mark.usefixtures("same_threads")

UNWAITED = Target(name="unwaited", device="gpu", wait=False)


def ask(gpu, **asked):
    """Run one trial on the stand-in."""
    rung = asked.pop("rung", "e2e")
    request = make_request(**{"target": "gpu", **asked}) | {"rung": rung}
    return worker.answer({**request, "declared_cpus": None, "environment": {}, "asked_ns": gpu.now_ns})


@pytest.fixture
def stand_in(monkeypatch):
    """`stand_in(gpu)` is there from then on, and its clock is the only one."""

    def install(gpu):
        monkeypatch.setattr(worker, "open_device", gpu.open)
        monkeypatch.setattr(timing, "now_ns", gpu.clock)
        for name in ("measure", "elapsed_s"):
            monkeypatch.setattr(timing, name, partial(getattr(timing, name), clock=gpu.clock))
        return gpu

    return install


class Prescribed:
    """A workload of prescribed times and memory."""

    def __init__(self, gpu, *, preparing_s=0.0, step_s=0.003, size_bytes=0, rows_bytes=0):
        self.gpu, self.preparing_s, self.step_s = gpu, preparing_s, step_s
        self.size_bytes, self.rows_bytes = size_bytes, rows_bytes

    def prepare(self, device, target):
        self.gpu.allocate(self.size_bytes)
        self.gpu.give(self.preparing_s)

    def step(self):
        self.gpu.allocate(self.rows_bytes)
        self.gpu.give(self.step_s)
        self.gpu.free(self.rows_bytes)
        return Loss(1.0)


@pytest.fixture
def prescribed(stand_in, monkeypatch):
    """`prescribed(gpu, ...)` trains in a trial of its own, and is its answer."""

    def run(gpu, *, target="gpu", rung="e2e", **times):
        stand_in(gpu)
        monkeypatch.setattr(worker, "load", lambda *asked, **settings: Prescribed(gpu, **times))
        return ask(gpu, target=target, rung=rung)

    return run


# -- waiting


def test_steps_and_preparing_are_waited_for(prescribed):
    found = prescribed(LateAccelerator(opening_s=0.5), preparing_s=0.25, step_s=0.003)
    assert found["status"] == "ok"
    assert found["cold_context_s"] == pytest.approx(0.5, rel=1e-3)
    assert found["prepare_s"] == pytest.approx(0.5 + 0.25, rel=1e-3)
    assert found["first_step_s"] == pytest.approx(0.003, rel=0.01)
    assert found["step_times_s"] == pytest.approx([0.003] * len(found["step_times_s"]), rel=0.01)
    assert found["mode_s"] is None
    assert found["null_reasons"]["mode_s"] == "steps were run as they are written"


@pytest.mark.parametrize("asked", [{"rung": "nowait"}, {"target": UNWAITED}], ids=["rung", "target"])
def test_what_is_not_waited_for_is_the_time_of_the_call_alone(prescribed, asked):
    found = prescribed(LateAccelerator(launch_s=1e-5), step_s=0.003, **asked)
    assert statistics.median(found["step_times_s"]) == pytest.approx(1e-5)
    assert found["steps_per_block"] == 1


def test_a_start_is_taken_apart_and_each_part_is_waited_for(stand_in, monkeypatch):
    gpu = stand_in(LateAccelerator(opening_s=0.4))
    for name, seconds in (("ones", 0.01), ("conv2d", 0.3)):
        real = getattr(torch.nn.functional if name == "conv2d" else torch, name)
        costly = lambda *given, _real=real, _s=seconds, **how: (gpu.give(_s), _real(*given, **how))[1]  # noqa: E731
        monkeypatch.setattr(cold if name == "conv2d" else cold.torch, name, costly)
    product = torch.Tensor.__matmul__
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda one, other: (gpu.give(0.05), product(one, other))[1])
    found = ask(gpu, rung=COLD)
    assert found["status"] == "ok"
    stages = {name: found[f"cold_{name}_s"] for name in ("context", "first_kernel", "first_matmul", "first_conv")}
    assert stages == pytest.approx(
        {"context": 0.4, "first_kernel": 0.01, "first_matmul": 0.05, "first_conv": 0.3}, rel=1e-3
    )
    assert "step_times_s" not in found
    assert "prepare_s" not in found


def test_a_start_is_not_cold_where_the_device_was_open(prescribed, monkeypatch):
    monkeypatch.setattr(worker, "has_touched_accelerator", lambda: True)
    found = prescribed(LateAccelerator(opening_s=0.5))
    assert (found["status"], found["cold_context_s"], found["cold_first_kernel_s"]) == ("ok", None, None)
    assert found["null_reasons"]["cold_context_s"] == "the device was open when the trial began"


# -- memory


def test_peak_memory_is_that_of_the_device(prescribed):
    found = prescribed(LateAccelerator(), size_bytes=5_000_000, rows_bytes=1_000_000)
    assert (found["status"], found["device_peak_memory_bytes"]) == ("ok", 6_000_000)


@pytest.mark.parametrize(
    ("needed", "peak"),
    [({"size_bytes": 9_000_000}, 0), ({"size_bytes": 5_000_000, "rows_bytes": 4_000_000}, 5_000_000)],
    ids=["preparing", "in a step"],
)
def test_what_does_not_fit_is_out_of_memory_and_says_how_far_it_got(prescribed, needed, peak):
    found = prescribed(LateAccelerator(memory_bytes=8_000_000), **needed)
    assert (found["status"], found["error_type"]) == ("oom", "OutOfMemoryError")
    assert found["device_peak_memory_bytes"] == peak
    assert "step_times_s" not in found


def test_a_limit_of_memory_is_kept_and_one_beyond_the_device_cannot_be_had(prescribed):
    limited = Target(name="limited", device="gpu", max_memory=4 * 2**20)
    big, small = {"size_bytes": 5 * 2**20}, {"size_bytes": 3 * 2**20}
    assert prescribed(LateAccelerator(), target=limited, **big)["status"] == "oom"
    found = prescribed(LateAccelerator(), target=limited, **small)
    assert (found["status"], found["max_memory_bytes"]) == ("ok", 4 * 2**20)
    found = prescribed(LateAccelerator(memory_bytes=2 * 2**20), target=limited)
    assert (found["status"], found["error_type"]) == ("unavailable", "DeviceUnavailable")


# -- absence


@pytest.mark.skipif(torch.accelerator.is_available(), reason="this machine has an accelerator")
@pytest.mark.parametrize(
    ("cuda", "visible", "has_driver", "cause"),
    [
        (None, None, False, "is a CPU-only build"),
        ("13.0", "", True, "CUDA_VISIBLE_DEVICES='' hides it"),
        ("13.0", None, False, "no driver of a GPU is loaded on this machine"),
        ("13.0", "0", True, "is the driver too old for it?"),
    ],
)
def test_a_device_that_is_not_there_is_unavailable_by_its_cause(monkeypatch, cuda, visible, has_driver, cause):
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(device.Path, "exists", lambda path: has_driver)
    for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    request = make_request(target="gpu", deed="nothing")
    found = worker.answer({**request, "declared_cpus": None, "environment": {}, "asked_ns": timing.now_ns()})
    assert (found["status"], found["error_message"]) == ("unavailable", absence())
    assert cause in found["error_message"]


# -- how batches reach it


#: Of one training: what its steps compute, and what its batches take to be copied from page-locked memory.
COMPUTE_S, COPY_S = 0.010, 0.006
BATCH = {"batch_size": 16, "features": 64, "width": 8, "depth": 1, "classes": 2, "loader": "gather"}
BATCH_BYTES = 16 * (4 * 64 + 8)


@pytest.fixture
def copying(stand_in, monkeypatch):
    """Have the trainings that ship run on a stand-in: their copies and their steps take its time, and happen late."""

    def install(gpu, *, compute_s=COMPUTE_S, copy_s=COPY_S):
        stand_in(gpu)
        locked = {}  # by where they lie
        real = {name: getattr(torch.Tensor, name) for name in ("to", "copy_", "pin_memory")}
        empty, train = torch.empty, Training._train

        def keep(tensor):
            locked[tensor.untyped_storage().data_ptr()] = tensor
            return tensor

        def send(source, place, *, waits):
            is_locked = source.untyped_storage().data_ptr() in locked
            seconds = copy_s * source.nbytes / BATCH_BYTES * (1 if is_locked else 2)
            gpu.give(seconds, lambda: real["copy_"](place, source))
            if waits or not is_locked:
                gpu.wait_for(gpu.current)
            return place

        def to(tensor, *where, **how):
            if "non_blocking" not in how:
                return real["to"](tensor, *where, **how)
            return send(tensor, torch.full_like(tensor, 1 if tensor.dtype == torch.int64 else torch.nan), waits=False)

        def copy_(place, source, non_blocking=False):
            return send(source, place, waits=not non_blocking)

        def lock(tensor):
            return keep(tensor.clone())

        def room(*shape, pin_memory=False, **how):
            made = empty(*shape, **how)
            return keep(made) if pin_memory else made

        def train_late(made):
            loss, batch = torch.full((), torch.nan), (made._inputs, made._labels)

            def work():
                (made._inputs, made._labels), now = batch, (made._inputs, made._labels)
                real["copy_"](loss, train(made))
                made._inputs, made._labels = now

            gpu.give(compute_s, work)
            return loss

        monkeypatch.setattr(torch.Tensor, "to", to)
        monkeypatch.setattr(torch.Tensor, "copy_", copy_)
        monkeypatch.setattr(torch.Tensor, "pin_memory", lock)
        monkeypatch.setattr(torch, "empty", room)
        monkeypatch.setattr(torch, "empty_like", torch.zeros_like)  # rather than what happens to lie there
        monkeypatch.setattr(torch, "Stream", gpu.stream)
        monkeypatch.setattr(torch.accelerator, "current_stream", lambda *_: gpu.current)
        monkeypatch.setattr(Training, "_train", train_late)
        return gpu

    return install


def step_of(gpu, transfer):
    found = ask(gpu, **BATCH, transfer=transfer)
    assert found["status"] == "ok", found["error_message"]
    return statistics.median(found["step_times_s"]), found


def test_what_each_way_to_bring_a_batch_takes(copying):
    gpu = copying(LateAccelerator())
    found = {way: step_of(gpu, way)[0] for way in ("pageable", "pinned", "overlapped", "resident")}
    assert found["pageable"] == pytest.approx(COMPUTE_S + 2 * COPY_S, rel=0.05)
    assert found["pinned"] == pytest.approx(COMPUTE_S + COPY_S, rel=0.05)
    assert found["overlapped"] == pytest.approx(COMPUTE_S, rel=0.05)  # the copy is hidden
    assert found["resident"] == pytest.approx(COMPUTE_S, rel=0.05)


def test_a_copy_that_is_longer_than_a_step_is_hidden_as_far_as_the_step_goes(copying):
    gpu = copying(LateAccelerator(), compute_s=0.01, copy_s=0.03)
    assert step_of(gpu, "overlapped")[0] == pytest.approx(0.03, rel=0.05)
    assert step_of(gpu, "pinned")[0] == pytest.approx(0.04, rel=0.05)


def test_every_way_trains_on_the_same_batches(copying):
    gpu = copying(LateAccelerator())
    seen = {way: step_of(gpu, way)[1] for way in ("pageable", "pinned", "overlapped", "resident")}
    assert len({(found["loss_step_1"], found["loss_step_10"]) for found in seen.values()}) == 1


@pytest.fixture
def ordinary():
    """Losses of the same training on the CPU."""

    def run(count, **asked):
        return losses(prepared("mlp", **asked), count)

    return run


def ready(made):
    """Make a training ready as a trial does."""
    made.ahead = Ahead(torch.device("cpu"))
    made.prepare(torch.device("cpu"), "gpu")


ORDERS = pytest.mark.parametrize("copies_first", [True, False], ids=["copies first", "copies last"])


@ORDERS
@pytest.mark.parametrize("asked", [{"loader": "gather"}, {"loader": "slice"}, {"loader": "gather", "rung": "preload"}])
@pytest.mark.parametrize("is_static", [False, True], ids=["", "static"])
def test_a_batch_is_there_when_it_is_trained_on_and_stays_until_then(copying, ordinary, copies_first, asked, is_static):
    """In either order that the device may choose: copies as soon as they are allowed to, or as late as they may be."""
    expected = ordinary(20, rows=56, **asked)
    gpu = copying(LateAccelerator(copies_first=copies_first))
    made = made_of("mlp", rows=56, transfer="overlapped", accelerator=True, **asked)
    ready(made)
    if is_static:
        made.use_static_inputs()
    given = [made.step() for _ in range(20)]
    gpu.synchronize()
    assert [loss.item() for loss in given] == expected


@ORDERS
def test_an_epoch_ends_with_its_short_batch(copying, copies_first):
    ordinary = prepared("mlp", loader="gather", rows=56)
    expected = [ordinary.epoch() for _ in range(3)]
    gpu = copying(LateAccelerator(copies_first=copies_first))
    made = made_of("mlp", loader="gather", rows=56, transfer="overlapped", accelerator=True)
    ready(made)
    seen = []
    read = torch.stack

    def stack(values):
        gpu.synchronize()  # as reading them does
        return read(values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "stack", stack)
        seen = [made.epoch() for _ in range(3)]
    assert seen == expected


@pytest.mark.parametrize("who_waits", ["the copies", "the training"])
def test_a_missing_wait_would_be_seen(copying, ordinary, monkeypatch, who_waits):
    """The stand-in is no better than what it notices: with one of the two waits alone the losses are others."""
    expected = ordinary(20, loader="slice", rows=56)
    gpu = copying(LateAccelerator(copies_first=who_waits == "the training"))
    made = made_of("mlp", loader="slice", rows=56, transfer="overlapped", accelerator=True)
    ready(made)
    wait, training = PretendStream.wait_stream, gpu.current

    def wait_if_told(stream, other):
        if (stream is training) == (who_waits == "the training"):
            wait(stream, other)

    monkeypatch.setattr(PretendStream, "wait_stream", wait_if_told)
    given = [made.step() for _ in range(20)]
    gpu.synchronize()
    assert [loss.item() for loss in given] != expected


def test_a_device_without_a_second_stream_cannot_copy_ahead(stand_in, monkeypatch):
    gpu = stand_in(LateAccelerator())
    found = ask(gpu, **BATCH, transfer="overlapped")
    assert found["status"] == "unavailable"
    assert found["error_message"].startswith(
        "transfer overlapped needs a second stream, and torch makes none for cpu: "
    )
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda *_: torch.Stream("cpu"))
    found = ask(gpu, **BATCH, transfer="overlapped")
    assert found["status"] == "unavailable"
    assert found["error_message"] == "transfer overlapped needs a second stream, and cpu has one only"
