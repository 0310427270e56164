"""A limit of memory: what goes beyond fails in the trial alone, with one thread and with several."""

import dataclasses
import resource
import sys
from functools import partial

import pandas as pd
import pytest

from analysis.largest import fits_of
from analysis.strategy import next_wishes
from runner import process, timing, worker
from runner.devices import host_memory, memory_limit
from runner.devices.device import Cpu, DeviceUnavailable
from runner.environment import usable_cores
from runner.run import record_of
from runner.timing import now_ns
from sweeps.record import table
from sweeps.target import Target
from tests.runner.asking import make_sweep, make_trial
from tests.runner.pretend import LateAccelerator
from tests.runner.scripted import Loss

MIB = 2**20
#: Takes so many MiB, and touches them.
KNOWN = """\
import torch

class Known:
    def __init__(self, *, seed, size, untouched=0):
        self.size, self.untouched = size, untouched

    def prepare(self, device, target):
        self.loss = torch.zeros(())
        torch.empty(self.untouched, dtype=torch.uint8)

    def step(self):
        return self.loss + sum(block[0] for block in [torch.ones(2**18) for _ in range(self.size)])
"""
#: Keeps a block of so many MiB while it makes the next one, as gradients are kept.
KEEPS = """\
import torch

class Keeps:
    def __init__(self, *, seed, size):
        self.size = size

    def prepare(self, device, target):
        self.loss, self.kept = torch.zeros(()), None

    def step(self):
        self.kept = torch.ones(self.size * 2**18)
        return self.loss
"""
#: Says what torch's other libraries say when they are refused memory, or dies of it as C++ does.
REFUSED = """\
import os, sys
import torch

class Refused:
    def __init__(self, *, seed, words, dies=False):
        self.words, self.dies = words, dies

    def prepare(self, device, target):
        if self.dies:
            print(self.words, file=sys.stderr, flush=True)
            os.abort()
        raise RuntimeError(self.words)
"""

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit what a process allocates")


def ask(target, *, source=KNOWN, for_memory=False, factory="Known", **parameters):
    trial = dataclasses.replace(make_trial(), workload=f"known.py:{factory}", parameters=parameters, target=target)
    trial = dataclasses.replace(trial, for_memory=for_memory, most_steps=1)
    return process.attend(process.request_of(trial, source))


def limited(size_bytes, threads="all"):
    return Target(name="limited", device="cpu", threads=threads, max_memory=size_bytes)


@linux_only
@pytest.mark.parametrize("threads", [1, usable_cores()])
@pytest.mark.parametrize("most", [100, 300])
def test_the_limit_is_where_it_was_asked_for(threads, most):
    fits, fails = (ask(limited(most * MIB, threads), size=size) for size in (int(0.9 * most), int(1.02 * most)))
    assert (fits["status"], fits["max_memory_bytes"]) == ("ok", most * MIB), fits
    assert (fails["status"], fails["error_type"], fails["max_memory_bytes"]) == ("oom", "RuntimeError", most * MIB)
    assert "DefaultCPUAllocator" in fails["error_message"]
    assert 0.9 * most * MIB <= fits["peak_memory_bytes"] - fits["memory_at_start_bytes"] <= 1.2 * most * MIB


@linux_only
def test_what_fits_does_not_depend_on_the_order_of_allocations():
    asked = {"source": KEEPS, "factory": "Keeps", "for_memory": True}
    fits = [ask(limited(60 * MIB, 1), size=size, **asked)["status"] for size in (9, 16, 20, 28, 32, 40)]
    assert fits == ["ok", "ok", "ok", "ok", "oom", "oom"]


@linux_only
def test_the_nursery_and_the_next_trial_have_no_limit():
    assert ask(limited(20 * MIB), size=100)["status"] == "oom"
    found = ask(Target.model_validate("cpu-1"), size=100)
    assert (found["status"], found.get("max_memory_bytes")) == ("ok", None)
    assert found["null_reasons"]["max_memory_bytes"] == "no limit was asked for"


@linux_only
def test_a_search_for_memory_has_a_limit_for_the_sake_of_the_node():
    found = ask(Target.model_validate("cpu-1"), size=10, for_memory=True)
    assert found["status"] == "ok"
    available = host_memory.available_bytes()
    assert 0.4 * available < found["max_memory_bytes"] < 1.2 * available  # others take and free memory meanwhile
    # Asked for and never touched, so that the test itself takes nothing.
    found = ask(Target.model_validate("cpu-1"), size=0, untouched=int(0.95 * available), for_memory=True)
    assert found["status"] == "oom"


@linux_only
def test_more_than_the_node_can_spare_cannot_be_had():
    found = ask(limited(2**50), size=1)
    assert found["status"] == "unavailable"
    assert found["error_message"].startswith("max_memory 1024 TiB was asked for, and of what this node has left")


@linux_only
@pytest.mark.parametrize("words", ["std::bad_alloc", "could not create a primitive", "can't start new thread"])
def test_other_libraries_are_understood(words):
    assert ask(limited(100 * MIB), source=REFUSED, factory="Refused", words=words)["status"] == "oom"


def test_without_a_limit_only_words_of_memory_count():
    plain = Target.model_validate("cpu-1")
    asked = {"source": REFUSED, "factory": "Refused"}
    assert ask(plain, **asked, words="could not create a primitive")["status"] == "error"
    assert ask(plain, **asked, words="std::bad_alloc")["status"] == "oom"


def test_a_process_that_cpp_ends_for_memory_is_oom():
    words = "terminate called after throwing an instance of 'std::bad_alloc'"
    found = ask(Target.model_validate("cpu-1"), source=REFUSED, factory="Refused", words=words, dies=True)
    assert (found["status"], found["error_type"]) == ("oom", "bad_alloc")
    assert words in found["error_message"]


class Rows:
    """A training on the stand-in that takes a mebibyte a row."""

    def __init__(self, gpu, rows):
        self.gpu, self.rows = gpu, rows

    def prepare(self, device, target):
        pass

    def step(self):
        self.gpu.allocate(self.rows * MIB)
        self.gpu.give(0.003)
        self.gpu.free(self.rows * MIB)
        return Loss(1.0)


def test_a_search_on_an_accelerator_finds_what_its_memory_holds(monkeypatch, same_threads):
    here, records = [], []

    def now():
        return here[-1].clock()

    targets = ["gpu", {"name": "half", "device": "gpu", "max_memory": 24 * MIB}]
    sweep = make_sweep(strategy="largest", targets=targets, axes={"batch_size": {"from": 1, "to": 1024}}, passes=3)
    for name in ("measure", "elapsed_s"):
        monkeypatch.setattr(timing, name, partial(getattr(timing, name), clock=now))
    monkeypatch.setattr(timing, "now_ns", now)
    monkeypatch.setattr(worker, "load", lambda *_, parameters, **more: Rows(here[-1], parameters["batch_size"]))
    while wishes := next_wishes(sweep, table(records).to_pandas() if records else pd.DataFrame()).wishes:
        for wish in wishes:
            (trial,) = sweep.pair_at(wish.values, 0, targets=wish.targets, most_steps=wish.most_steps)
            here.append(LateAccelerator(memory_bytes=48 * MIB))
            monkeypatch.setattr(worker, "open_device", here[-1].open)
            asked = {"declared_cpus": None, "environment": {}, "asked_ns": here[-1].now_ns}
            answer = worker.answer({**process.request_of(trial, None), **asked})
            answer.pop("compare_losses", None)
            records.append(record_of(trial, answer, attempt=1, code_version="v1"))
    assert {record.status for record in records} == {"ok", "oom"}
    rows = table(records).to_pandas()
    whole, half = fits_of(rows, axis="batch_size", targets=["gpu", "half"])
    assert (whole.fits, whole.fails, whole.peak_bytes, whole.limit_bytes) == (48, 49, 48 * MIB, 48 * MIB)
    assert (half.fits, half.fails, half.peak_bytes, half.limit_bytes) == (24, 25, 24 * MIB, 24 * MIB)


# ------------------------------------------------------------------------------------------------ the limit itself


@linux_only
def test_it_is_lifted_and_leaves_what_there_was():
    before = resource.getrlimit(resource.RLIMIT_DATA)
    memory_limit.lift_limit()
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    taken = host_memory.status_bytes("VmData")
    memory_limit.set_limit(500 * MIB)
    try:
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        assert hard == before[1]
        assert abs(soft - taken - 500 * MIB) < 50 * MIB
    finally:
        memory_limit.lift_limit()
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_a_system_that_does_not_tell_has_no_such_limit(monkeypatch, tmp_path):
    monkeypatch.setattr(host_memory, "STATUS", tmp_path / "none")
    with pytest.raises(DeviceUnavailable, match="max_memory needs Linux"):
        memory_limit.set_limit(100 * MIB)


def test_a_cpu_has_no_memory_of_its_own():
    with pytest.raises(DeviceUnavailable):
        Cpu().limit_memory(MIB)


@pytest.mark.parametrize(
    ("line", "files", "expected"),
    [
        ("4:memory:/one", {"memory.limit_in_bytes": 1000, "memory.usage_in_bytes": 700, "memory.stat": 50}, 350),
        ("0::/one", {"memory.max": 1000, "memory.current": 700, "memory.stat": 50}, 350),
        ("0::/one", {"memory.max": "max", "memory.current": 700, "memory.stat": 50}, 5 * 1024),
        ("4:memory:/one", {"memory.limit_in_bytes": 100, "memory.usage_in_bytes": 700, "memory.stat": 0}, 0),
        ("4:cpu:/one", {}, 5 * 1024),
    ],
)
def test_what_is_left_is_that_of_the_machine_and_of_every_group(monkeypatch, tmp_path, line, files, expected):
    (tmp_path / "membership").write_text(line + "\n")
    (tmp_path / "meminfo").write_text("MemTotal:  9 kB\nMemAvailable:      5 kB\n")
    (tmp_path / "one").mkdir()
    for name, number in files.items():
        text = f"cache 1\ninactive_file {number}\ntotal_inactive_file {number}\n" if name == "memory.stat" else number
        (tmp_path / "one" / name).write_text(f"{text}\n")
    monkeypatch.setattr(host_memory, "MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(host_memory, "TOTALS", tmp_path / "meminfo")
    monkeypatch.setattr(host_memory, "CGROUPS_1", tmp_path)
    monkeypatch.setattr(host_memory, "CGROUPS_2", tmp_path)
    assert host_memory.available_bytes() == expected


def test_in_process_the_limit_is_lifted_when_the_trial_fails(same_threads):
    trial = dataclasses.replace(make_trial(target=limited(10 * MIB, 1)), most_steps=1)
    big = dataclasses.replace(trial, parameters={**trial.parameters, "features": 2**20, "batch_size": 64})
    asked = {"declared_cpus": None, "environment": {}, "asked_ns": now_ns()}
    before = resource.getrlimit(resource.RLIMIT_DATA)
    assert worker.answer({**process.request_of(big, None), **asked})["status"] == "oom"
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
