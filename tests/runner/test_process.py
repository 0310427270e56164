"""The owner's side of a nursery: what becomes of a trial as columns, and of everybody when one of them is killed."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from datetime import datetime

import psutil
import pytest

from runner import process
from runner.environment import ROOT, machine, usable_cores
from runner.process import Nursery, NurseryDied, answer_of, attend, request_of
from tests.runner.asking import is_alive, make_request, make_trial, wait_until


def words(folder):
    return [json.loads(path.read_text()) for path in sorted(folder.glob("word-*.json"))]


def nursery_pid():
    return process._nurseries["default"]._process.pid


def test_a_request_is_plain_and_says_nothing_of_the_place():
    request = request_of(make_trial(target="cpu-1"), None)
    assert json.loads(json.dumps(request)) == request
    target = {"name": "cpu-1", "device": "cpu", "threads": 1, "mode": "eager", "precision": "ieee", "wait": True}
    assert target.items() <= request["target"].items()
    assert request["rung"] == "e2e"
    assert request["workload"] == "mlp"
    assert request["deadline_s"] == 60.0
    assert request["most_steps"] is None
    assert request_of(dataclasses.replace(make_trial(), most_steps=5), None)["most_steps"] == 5


def test_a_trial_that_is_ok_has_the_columns_of_child_machine_and_process():
    found = attend(make_request())
    assert found["status"] == "ok"
    assert len(found["step_times_s"]) >= 10
    assert found["start_method"] == process.START_METHOD
    assert found["device"] == "cpu"
    assert found["threads_requested"] == found["threads_observed"] == 1
    assert found["cpu_time_s"] > 0
    assert found["peak_memory_bytes"] > 50_000_000
    assert machine().items() <= found.items()
    started, finished = (datetime.fromisoformat(found[name]) for name in ("started_at", "finished_at"))
    assert started < finished
    assert started.utcoffset().total_seconds() == 0


def test_the_second_trial_waits_for_no_import():
    attend(make_request(deed="nothing"))
    times = [attend(make_request(deed="nothing"))["process_start_s"] for _ in range(3)]
    alone = subprocess.run(
        [sys.executable, "-c", "import time, sys; t = time.monotonic(); import torch; print(time.monotonic() - t)"],
        capture_output=True,
        check=True,
    )
    assert 0 < min(times) < float(alone.stdout)


def test_forked_and_spawned_trials_answer_alike():
    found = {}
    for method in ("fork", "spawn"):
        nursery = Nursery(method)
        try:
            found[method] = answer_of(nursery, make_request())
        finally:
            nursery.close()
    assert {method: each["start_method"] for method, each in found.items()} == {"fork": "fork", "spawn": "spawn"}
    for column in ("status", "loss_step_1", "loss_step_10", "threads_observed", "flops_per_step"):
        assert found["fork"][column] == found["spawn"][column]


@pytest.mark.parametrize("deed", ["SIGKILL", "SIGSEGV", "SIGABRT", "exit code 7", "exit code 0"])
def test_a_trial_that_ends_without_an_answer_has_crashed(deed):
    found = attend(make_request(deed=deed))
    assert (found["status"], found["error_type"]) == ("crashed", deed)
    first, *_ = found["error_message"].splitlines()
    assert first.startswith(f"the trial's process ended by {deed} without an answer")
    assert "last words" in found["error_message"]
    assert ("memory" in found["error_message"]) == (deed == "SIGKILL")  # that is how a full machine ends a process
    assert found["finished_at"] >= found["started_at"]
    assert found["peak_memory_bytes"] > 0


def test_a_deadline_is_a_timeout_that_names_the_setting():
    found = attend(make_request(deed="block", deadline_s=0.5))
    assert (found["status"], found["error_type"]) == ("timeout", "Timeout")
    assert found["error_message"] == "stopped at the deadline of 0.5 s (deadline_s in the sweep)"
    assert found["device"] == "cpu"


def test_an_error_is_an_answer():
    found = attend(make_request(deed="raise"))
    assert (found["status"], found["error_type"]) == ("error", "ValueError")
    assert found["error_message"].endswith("ValueError: 50 % of nothing\nand a second line")


def test_an_unknown_signal_has_a_number():
    assert process._signal_name(signal.SIGKILL) == "SIGKILL"
    assert process._signal_name(99) == "signal 99"


def test_threads_are_not_left_to_the_environment(no_nursery, monkeypatch, tmp_path):
    for name in ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    found = attend(make_request(deed="tell", folder=str(tmp_path), target="cpu"))
    assert found["status"] == "ok"
    (word,) = words(tmp_path)
    assert word["threads"] == found["threads_observed"] == usable_cores()
    assert not {"OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "MKL_NUM_THREADS"} & set(word["environment"])


def test_variables_are_for_one_trial_alone(monkeypatch, tmp_path):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    asked = make_request(deed="tell", folder=str(tmp_path))
    attend(asked, environment={"CUDA_VISIBLE_DEVICES": "3", "MARK": "one"})
    attend(asked)
    first, second = words(tmp_path)
    assert first["environment"]["MARK"] == "one"
    assert "MARK" not in second["environment"]
    assert first["environment"]["CUDA_VISIBLE_DEVICES"] == ""  # it is a CPU trial
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_declared_cpus_limit_all():
    assert attend(make_request(target="cpu"), declared_cpus=1)["threads_observed"] == 1


def test_a_killed_nursery_costs_one_row(tmp_path):
    attend(make_request(deed="nothing"))
    victim = nursery_pid()
    found = []
    asked = make_request(deed="tell and sleep", folder=str(tmp_path))
    thread = threading.Thread(target=lambda: found.append(attend(asked)))
    thread.start()
    child = wait_until(lambda: words(tmp_path), "the trial begins")[0]["pid"]
    os.kill(victim, signal.SIGKILL)
    thread.join(60)
    (row,) = found
    assert (row["status"], row["error_type"]) == ("crashed", "NurseryDied")
    assert row["error_message"] == "the process that starts trials was killed by SIGKILL"
    assert (row["device"], row["host"]) == ("cpu", machine()["host"])
    wait_until(lambda: not is_alive(child), "the trial dies with its nursery")
    assert attend(make_request(deed="nothing"))["status"] == "ok"
    assert nursery_pid() != victim


def test_a_nursery_that_was_killed_between_trials_costs_one_row():
    attend(make_request(deed="nothing"))
    victim = psutil.Process(nursery_pid())
    victim.kill()
    wait_until(lambda: victim.status() == psutil.STATUS_ZOMBIE, "it dies")
    assert attend(make_request(deed="nothing"))["status"] == "crashed"
    assert attend(make_request(deed="nothing"))["status"] == "ok"


def test_a_nursery_that_cannot_start_says_why(no_nursery, monkeypatch, tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.13 is missing')")
    monkeypatch.setattr(process, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    found = attend(make_request())
    assert found["status"] == "crashed"
    assert found["error_message"] == (
        "the process that starts trials was ended with exit code 1: ImportError: libcudart.so.13 is missing"
    )


def test_a_nursery_that_hangs_is_given_up(monkeypatch):
    attend(make_request(deed="nothing"))
    victim = nursery_pid()
    os.kill(victim, signal.SIGSTOP)
    monkeypatch.setattr(process, "GRACE_S", 0.2)
    found = attend(make_request(deed="nothing", deadline_s=0.1))
    assert found["status"] == "crashed"
    assert "no answer" in found["error_message"]
    assert not is_alive(victim)
    monkeypatch.undo()
    assert attend(make_request(deed="nothing"))["status"] == "ok"


def test_an_interrupted_trial_does_not_answer_for_the_next(tmp_path):
    attend(make_request(deed="nothing"))

    def interrupt(number, frame):
        raise KeyboardInterrupt

    def when_it_runs():
        wait_until(lambda: words(tmp_path), "the trial begins")
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    thread = threading.Thread(target=when_it_runs)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            attend(make_request(deed="tell and sleep", folder=str(tmp_path)))
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    (word,) = words(tmp_path)
    wait_until(lambda: not is_alive(word["pid"]), "the trial is stopped")
    assert attend(make_request(deed="exit code 7"))["error_type"] == "exit code 7"


def test_closing_leaves_no_process_and_no_descriptor():
    process.close()
    us = psutil.Process()
    descriptors, children = us.num_fds(), set(us.children(recursive=True))
    attend(make_request(deed="nothing"))
    process.close()
    process.close()  # twice is once
    assert set(us.children(recursive=True)) <= children
    assert us.num_fds() == descriptors


def test_reading_from_a_nursery_that_has_gone(no_nursery):
    nursery = Nursery()
    nursery._process.terminate()
    with pytest.raises(NurseryDied, match="killed by SIGTERM"):
        nursery.run(make_request())
    nursery.close()


OWNER = """
import sys
from runner import process
from tests.runner.asking import make_request

asked = make_request(deed="tell and sleep", folder=sys.argv[1], deadline_s=600.0)
process.attend(make_request(deed="nothing"))
print("torch" in sys.modules, flush=True)
process.attend(asked)
"""


def test_a_killed_owner_takes_everything_with_it_and_has_never_imported_torch(tmp_path):
    with subprocess.Popen([sys.executable, "-c", OWNER, tmp_path], cwd=ROOT, stdout=subprocess.PIPE) as owner:
        try:
            assert owner.stdout.readline() == b"False\n"
            (word,) = wait_until(lambda: words(tmp_path), "the trial begins")
            assert word["nursery"] in [child.pid for child in psutil.Process(owner.pid).children()]
        finally:
            owner.kill()
    wait_until(lambda: not is_alive(word["nursery"]), "the nursery dies with its owner")
    wait_until(lambda: not is_alive(word["pid"]), "the trial dies with them")


def test_an_owner_that_ends_well_leaves_no_nursery(tmp_path):
    code = "import sys; from runner import process; from tests.runner.asking import make_request\n"
    code += "process.attend(make_request(deed='tell', folder=sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, tmp_path], cwd=ROOT, check=True)
    (word,) = words(tmp_path)
    assert not is_alive(word["nursery"])


def test_an_answer_that_is_no_answer_is_a_crash():
    found = attend(make_request(deed="write everywhere"))
    assert (found["status"], found["error_type"]) == ("crashed", "BrokenAnswer")
