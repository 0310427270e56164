"""The nursery and its children, as real processes: how a trial can end, and that nothing of it is left."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from runner.environment import ROOT
from runner.nursery import LONGEST_OUTPUT_BYTES, _ends_within
from runner.process import Nursery
from runner.timing import now_ns
from tests.runner.asking import is_alive, make_request, wait_until


@pytest.fixture(scope="module")
def forking():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONUNBUFFERED", raising=False)  # last words have to come through without it
        nursery = Nursery("fork")
    yield nursery
    nursery.close()


@pytest.fixture(scope="module")
def spawning():
    nursery = Nursery("spawn")
    yield nursery
    nursery.close()


@pytest.fixture(params=["forking", "spawning"])
def nursery(request):
    return request.getfixturevalue(request.param)


def run(nursery, deed="nothing", **asked):
    request = make_request(deed=deed, **asked)
    return nursery.run({**request, "declared_cpus": None, "environment": {}, "asked_ns": now_ns()})


def words(folder):
    return [json.loads(path.read_text()) for path in sorted(folder.glob("word-*.json"))]


def grandchild(folder):
    return int((folder / "grandchild").read_text())


def test_each_trial_is_a_fresh_process_of_one_nursery(nursery, tmp_path):
    for _ in range(2):
        report = run(nursery, "tell", folder=str(tmp_path))
        assert json.loads(report["answer"])["status"] == "ok"
        assert (report["signal"], report["exit"], report["timed_out"], report["output"]) == (0, 0, False, "")
        assert report["cpu_time_s"] > 0
        assert report["peak_memory_bytes"] > 50_000_000  # torch alone needs more
        assert report["involuntary_switches"] >= 0
    first, second = words(tmp_path)
    assert first["pid"] != second["pid"]
    assert first["nursery"] == second["nursery"] == nursery._process.pid
    assert not is_alive(first["pid"])
    assert not is_alive(second["pid"])
    assert first["core"] == 0  # a crash leaves no file
    assert first["cuda_is_initialized"] is False
    # An end of the nursery's pipes in a child that lives on would hide the nursery's death.
    pipes = {str(Path(f"/proc/self/fd/{each}").readlink()) for each in (nursery._requests, nursery._answers)}
    assert pipes.isdisjoint(first["descriptors"])


@pytest.mark.parametrize("deed", ["sleep", "block", "ignore signals"])
def test_a_deadline_ends_whatever_the_trial_does(forking, deed):
    report = run(forking, deed, deadline_s=0.5)
    assert report["timed_out"]
    assert report["answer"] == ""
    assert json.loads(run(forking)["answer"])["status"] == "ok"


def test_a_deadline_ends_a_spawned_trial_that_still_imports(spawning):
    report = run(spawning, deadline_s=0.1)
    assert (report["timed_out"], report["signal"], report["answer"]) == (True, signal.SIGKILL, "")


def test_a_deadline_that_ends_before_the_child_has_begun(forking):
    for _ in range(20):  # of ten minutes each, if it fails
        assert run(forking, "sleep", deadline_s=1e-6)["timed_out"]
    assert psutil.Process(forking._process.pid).children() == []


@pytest.mark.parametrize("deed", ["SIGKILL", "SIGSEGV", "SIGABRT"])
def test_a_signal_is_told_with_the_last_words(forking, deed):
    report = run(forking, deed)
    assert report["signal"] == signal.Signals[deed]
    assert report["answer"] == ""
    assert report["output"] == "last words\n"


def test_a_real_segmentation_fault(nursery):
    assert run(nursery, "read nowhere")["signal"] == signal.SIGSEGV


@pytest.mark.parametrize("code", [0, 7])
def test_an_exit_without_an_answer(forking, code):
    report = run(forking, f"exit code {code}")
    assert (report["signal"], report["exit"], report["answer"]) == (0, code, "")
    assert report["output"] == "last words\n"


def test_a_process_that_dies_after_its_answer_is_not_believed(forking):
    """What it wrote may be half an answer."""
    report = run(forking, "die after the answer")
    assert (report["signal"], report["answer"]) == (signal.SIGKILL, "")


def test_a_workload_that_leaves_python(forking):
    report = run(forking, "sys.exit")
    assert (report["exit"], report["answer"]) == (1, "")
    assert report["output"].endswith("SystemExit: 3\n")


def test_much_output_does_no_harm(forking):
    assert json.loads(run(forking, "print much")["answer"])["status"] == "ok"
    report = run(forking, "print much and die")
    assert len(report["output"]) <= LONGEST_OUTPUT_BYTES
    assert report["output"].endswith("xxx\nthe last line\n")


def test_output_that_is_no_text(forking):
    assert run(forking, "print bytes")["output"] == "\ufffd\ufffd\n"


def test_a_trial_reads_nothing_from_the_terminal(forking):
    answer = json.loads(run(forking, "read stdin")["answer"])
    assert (answer["status"], answer["error_type"]) == ("error", "EOFError")


def test_a_thread_that_is_still_running_does_not_keep_the_trial(nursery):
    assert json.loads(run(nursery, "thread", deadline_s=60.0)["answer"])["status"] == "ok"


@pytest.mark.parametrize(
    "deed",
    ["grandchild", "grandchild, own session", "grandchild, sleep", "grandchild, own session, sleep",
     "grandchild, own session, die", "family"],
)  # fmt: skip
def test_grandchildren_end_with_the_trial(forking, tmp_path, deed):
    report = run(forking, deed, folder=str(tmp_path), deadline_s=3.0 if "sleep" in deed else 60.0)
    assert report["timed_out"] == ("sleep" in deed)
    assert not is_alive(grandchild(tmp_path))
    assert psutil.Process(forking._process.pid).children() == []  # not even dead ones


def test_grandchildren_end_with_a_nursery_that_is_ended(tmp_path):
    nursery = Nursery("fork")
    try:
        nursery._read_line(300)
        request = make_request(deed="grandchild, own session, sleep", folder=str(tmp_path))
        asked = {**request, "declared_cpus": None, "environment": {}, "asked_ns": now_ns()}
        os.write(nursery._requests, json.dumps(asked).encode() + b"\n")
        wait_until(lambda: (tmp_path / "grandchild").is_file() and (tmp_path / "grandchild").read_text(), "it begins")
        assert is_alive(grandchild(tmp_path))
    finally:
        nursery.close()
    wait_until(lambda: not is_alive(grandchild(tmp_path)), "it ends")


def test_a_child_dies_with_its_nursery(tmp_path):
    """Its own: the nursery is killed."""
    nursery = Nursery("fork")
    try:
        nursery._read_line(300)
        request = make_request(deed="tell and sleep", folder=str(tmp_path))
        asked = {**request, "declared_cpus": None, "environment": {}, "asked_ns": now_ns()}
        os.write(nursery._requests, json.dumps(asked).encode() + b"\n")
        while not words(tmp_path):
            time.sleep(0.02)
        child = words(tmp_path)[0]["pid"]
        assert is_alive(child)
    finally:
        nursery.close()
    until = time.monotonic() + 30
    while is_alive(child):
        assert time.monotonic() < until, "the trial lives on"
        time.sleep(0.02)


def test_the_nursery_has_one_thread_and_no_descriptor_too_many_after_all_that(forking):
    run(forking)
    process = psutil.Process(forking._process.pid)
    before = process.num_fds()
    for _ in range(3):
        run(forking, deadline_s=0.01)
        run(forking, "exit code 7")
    assert process.num_fds() == before
    assert process.num_threads() == 1
    assert not any("libcuda.so" in each.path for each in process.memory_maps())


def test_preparing_touches_no_gpu_and_starts_no_threads():
    code = (
        "import gc, psutil, sys, torch\n"
        "threads = psutil.Process().num_threads()\n"  # a library may start one as it is loaded
        "from runner.nursery import prepare; prepare()\n"
        "print(psutil.Process().num_threads() == threads, torch.cuda.is_initialized())\n"
        "print('runner.worker' in sys.modules, gc.get_freeze_count() > 10_000)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "True", "True"]


def test_a_nursery_that_has_touched_a_gpu_spawns_and_says_so():
    code = (
        "from runner.devices import visibility; visibility.has_touched_accelerator = lambda: True\n"
        "from runner import nursery; nursery.main()"
    )
    requests, asking = os.pipe()
    answering, answers = os.pipe()
    command = [sys.executable, "-c", code, str(requests), str(answers), "fork", str(os.getpid())]
    with subprocess.Popen(command, cwd=ROOT, pass_fds=(requests, answers)), os.fdopen(answering, "rb") as lines:
        os.close(requests)
        os.close(answers)
        assert lines.readline() == b"spawn\n"
        os.close(asking)  # its owner has no more trials: it ends


def test_the_modules_of_the_current_folder_are_not_taken_for_ours(tmp_path, monkeypatch):
    for name in ("runner", "torch", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken from the current folder')")
    monkeypatch.chdir(tmp_path)
    for method in ("fork", "spawn"):
        nursery = Nursery(method)
        try:
            report = run(nursery, "tell", folder=str(tmp_path))
            assert json.loads(report["answer"])["status"] == "ok"
        finally:
            nursery.close()
    assert {word["cwd"] for word in words(tmp_path)} == {str(tmp_path)}  # a workload reads files beside itself


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_waiting_for_a_child_without_collecting_it(monkeypatch, has_pidfd):
    if not has_pidfd:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    with subprocess.Popen(["sleep", "600"]) as child:
        assert _ends_within(child.pid, 0.05) is False
        child.kill()
        assert _ends_within(child.pid, 30) is True
        assert _ends_within(child.pid, 30) is True
        assert child.wait() == -signal.SIGKILL


def test_a_kernel_without_pidfd(monkeypatch):
    def refused(pid):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refused, raising=False)
    with subprocess.Popen(["true"]) as child:
        assert _ends_within(child.pid, 30) is True
