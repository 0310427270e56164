"""Several trainings in one trial: what they make of one row, and what is left when one of them fails: nothing."""

import mmap
import os
import threading

import pytest

from runner import process
from runner.devices.host_memory import CLEAR_REFS
from runner.environment import usable_cores
from runner.process import Nursery, answer_of, attend
from runner.side_by_side import Company, count_of, joined, room_for
from sweeps.target import Target
from tests.runner.asking import is_alive, make_request, wait_until

#: Writes down who it is; in its fifth step the training that is asked does what it is told.
SOURCE = """
import os, pathlib, signal, subprocess, time
import torch

def is_first():
    return os.getpgrp() == os.getpid()

DEEDS = {
    "nothing": lambda folder: None,
    "SIGKILL": lambda folder: os.kill(os.getpid(), signal.SIGKILL),
    "SIGSEGV": lambda folder: os.kill(os.getpid(), signal.SIGSEGV),
    "exit code 7": lambda folder: os._exit(7),
    "exit code 0": lambda folder: os._exit(0),
    "sys.exit": lambda folder: exit(3),
    "ValueError": lambda folder: int("no number"),
    "MemoryError": lambda folder: bytearray(2**62),
    "sleep": lambda folder: time.sleep(600),
    "grandchild": lambda folder: (folder / "grandchild").write_text(
        str(subprocess.Popen(["sleep", "600"], start_new_session=True).pid)
    ),
}

class make:
    epochs = 2

    def __init__(self, *, seed, folder, deed="nothing", who="another"):
        self.folder, self.deed, self.who, self.steps = pathlib.Path(folder), deed, who, 0

    def prepare(self, device, target):
        word = f"{os.getpid()} {os.getppid()} {os.getpgrp()} {torch.get_num_threads()}"
        (self.folder / f"word-{os.getpid()}").write_text(word)

    def step(self):
        self.steps += 1
        if self.steps == 5 and self.deed != "nothing" and (self.who == "another") != is_first():
            while len(list(self.folder.glob("word-*"))) < 2:  # the other one is there to be left
                time.sleep(0.01)
            DEEDS[self.deed](self.folder)
        time.sleep(0.001)
        return torch.zeros(())

    def epoch(self):
        time.sleep(0.01)
        (self.folder / f"cpu-{os.getpid()}").write_text(str(time.process_time()))
        return 1.0
"""


def many(at_once=2, **fields):
    return Target.model_validate({"name": "many", "device": "cpu", "threads": 1, "side_by_side": at_once, **fields})


def ask(folder, *, target=None, deadline_s=60.0, **parameters):
    request = make_request(target=target or many(), deadline_s=deadline_s)
    return request | {"workload": "own.py:make", "source": SOURCE, "parameters": {"folder": str(folder), **parameters}}


def words(folder):
    return [list(map(int, path.read_text().split())) for path in folder.glob("word-*")]


def is_nobody_left(folder):
    pids = {pid for pid, *_ in words(folder)}
    return not any(map(is_alive, pids))


two_cores = pytest.mark.skipif(usable_cores() < 2, reason="two trainings side by side need two cores")


@two_cores
def test_all_train_at_once_each_in_a_process_of_its_own(tmp_path):
    found = attend(ask(tmp_path))
    assert found["status"] == "ok"
    assert found["side_by_side"] == 2
    (first, parent, group, threads), (second, leader, *rest) = sorted(words(tmp_path), key=lambda w: w[0] != w[2])
    assert (parent, group, threads) == (process._nurseries["default"].process_id, first, 1)
    assert (leader, rest) == (first, [first, 1])
    assert second != first
    assert is_nobody_left(tmp_path)
    assert found["threads_observed"] == 1
    assert len(found["step_times_s"]) >= 10
    assert len(found["epoch_times_s"]) == len(found["loss_by_epoch"]) == 2


@two_cores
def test_a_trial_with_one_training_says_so(tmp_path):
    assert attend(ask(tmp_path, target=many(1)))["side_by_side"] == 1
    assert len(words(tmp_path)) == 1


@two_cores
@pytest.mark.skipif(not os.access(CLEAR_REFS, os.W_OK), reason="the kernel does not tell peaks of memory")
def test_memory_is_that_of_all():
    one, two = (attend(make_request(target=many(n))) for n in (1, 2))
    assert {one["status"], two["status"]} == {"ok"}
    assert 1.8 < two["peak_memory_bytes"] / one["peak_memory_bytes"] < 2.2
    assert 1.8 < two["memory_at_start_bytes"] / one["memory_at_start_bytes"] < 2.2


@two_cores
def test_cpu_time_is_that_of_all(tmp_path):
    found = attend(ask(tmp_path))
    assert len(own := [float(path.read_text()) for path in tmp_path.glob("cpu-*")]) == 2
    assert found["cpu_time_s"] >= sum(own) > max(own) > 0


@two_cores
@pytest.mark.parametrize("who", ["first", "another"])
@pytest.mark.parametrize(
    ("deed", "status", "error"),
    [
        ("SIGKILL", "crashed", "SIGKILL"),
        ("SIGSEGV", "crashed", "SIGSEGV"),
        ("exit code 7", "crashed", "exit code 7"),
        ("exit code 0", "crashed", "exit code 0"),
        ("sys.exit", "crashed", "exit code 1"),
        ("ValueError", "error", "ValueError"),
        ("MemoryError", "oom", "MemoryError"),
    ],
)
def test_what_becomes_of_one_becomes_of_the_trial_and_nothing_is_left(tmp_path, deed, status, error, who):
    found = attend(ask(tmp_path, deed=deed, who=who))
    assert (found["status"], found["error_type"]) == (status, error)
    assert len(words(tmp_path)) == 2
    assert is_nobody_left(tmp_path)
    if who == "another" and status == "crashed":
        assert "(training 2 of 2 side by side)" in found["error_message"]
    if deed == "ValueError":
        assert "no number" in found["error_message"]


@two_cores
@pytest.mark.parametrize("who", ["first", "another"])
def test_a_deadline_ends_all(tmp_path, who):
    found = attend(ask(tmp_path, deed="sleep", who=who, deadline_s=1.5))
    assert found["status"] == "timeout"
    assert len(words(tmp_path)) == 2
    assert is_nobody_left(tmp_path)


@two_cores
def test_what_one_has_started_ends_with_the_trial(tmp_path):
    assert attend(ask(tmp_path, deed="grandchild"))["status"] == "ok"
    assert not is_alive(int((tmp_path / "grandchild").read_text()))


@two_cores
def test_a_killed_nursery_takes_all_along(tmp_path):
    attend(ask(tmp_path))
    for word in tmp_path.iterdir():
        word.unlink()
    found = []
    thread = threading.Thread(target=lambda: found.append(attend(ask(tmp_path, deed="sleep"))))
    thread.start()
    wait_until(lambda: len(words(tmp_path)) == 2, "both train")
    os.kill(process.nurseries()[0], 9)
    thread.join(30)
    assert found[0]["status"] == "crashed"
    wait_until(lambda: is_nobody_left(tmp_path), "both have ended")


def test_more_than_there_are_cores_for_are_refused_before_anything_begins(tmp_path):
    found = attend(ask(tmp_path, target=many(5000)))
    assert found["status"] == "unavailable"
    assert found["error_message"] == (
        f"5000 trainings side by side, 1 thread each, were asked for, and this node has {usable_cores()} usable cores"
    )
    assert words(tmp_path) == []


@two_cores
def test_without_fork_there_are_none(tmp_path):
    nursery = Nursery("spawn")
    try:
        found = answer_of(nursery, ask(tmp_path))
    finally:
        nursery.close()
    assert found["status"] == "unavailable"
    assert "2 trainings side by side need a system that can fork" in found["error_message"]


def test_all_is_as_many_as_have_cores_of_their_own():
    asked = {"side_by_side": "all", "threads": 2}
    assert [count_of(asked, cores) for cores in (1, 2, 3, 4, 9)] == [1, 1, 1, 2, 4]
    assert count_of({"side_by_side": "all", "threads": "all"}, 8) == 1
    assert count_of({"side_by_side": 3, "threads": 2}, 4) == 3
    assert room_for({"threads": 2}, 4) == 2


def answer(step_s, **columns):
    return {
        "status": "ok",
        "step_times_s": step_s,
        "steps_per_block": 10,
        "epoch_times_s": [3.0 * step_s[0]],
        "interference": "clean",
        "run_delay_share": 0.0,
        "throttled_s": None,
        "finished_at": "b",
        "peak_memory_bytes": 100,
        "prepare_s": step_s[0],
        "loss_step_1": 0.5,
        "energy_j": None,
        **columns,
    }


def test_a_row_has_the_median_of_all_at_each_place():
    row = joined([answer([1.0, 2.0, 9.0]), answer([3.0, 2.0]), answer([8.0, 1.0, 1.0], steps_per_block=4)])
    assert row["step_times_s"] == [3.0, 2.0]
    assert row["steps_per_block"] == 4
    assert row["epoch_times_s"] == [9.0]
    assert row["prepare_s"] == 3.0
    assert row["peak_memory_bytes"] == 300
    assert row["loss_step_1"] == 0.5


def test_the_worst_interference_counts_and_the_last_end():
    rows = [answer([1.0]), answer([1.0], interference="contended", run_delay_share=0.4, finished_at="c")]
    row = joined(rows)
    assert (row["interference"], row["run_delay_share"], row["finished_at"]) == ("contended", 0.4, "c")
    assert row["throttled_s"] is None
    assert joined([answer([1.0]), answer([1.0], interference="unknown")])["interference"] == "unknown"


def test_energy_is_for_the_steps_of_the_row():
    first = answer([1.0, 1.0, 1.0, 1.0], energy_j=80.0)
    row = joined([first, answer([1.0, 1.0], steps_per_block=5)])
    assert row["energy_j"] / (len(row["step_times_s"]) * row["steps_per_block"]) == 80.0 / 40


def test_who_is_alone_waits_for_nobody():
    company = Company()
    assert company.size == 1
    company.meet("warm", lambda: pytest.fail("somebody was waited for"))


def test_somebody_works_until_the_last_has_come():
    shared = mmap.mmap(-1, 2)
    one, other = Company(shared, 0), Company(shared, 1)
    worked = []

    def work():
        worked.append("step")
        if len(worked) == 3:
            other.meet("warm", lambda: pytest.fail("the first has been here"))

    one.meet("warm", work)
    assert len(worked) == 3
    one.meet("warm", lambda: pytest.fail("was here before"))
