"""What every executor has to do; test_local.py and test_cluster.py ask it of theirs, with real trials."""

import json
import socket
from datetime import datetime

import pytest
import torch

from runner.environment import machine, usable_cores
from runner.executor import Need
from runner.run import record_of
from sweeps.target import Target
from tests.runner.asking import is_alive, make_trial


def answer_to(executor, trial):
    """Run one trial; return its answer."""
    (node,) = executor.nodes()
    executor.start(trial, node)
    answers = []
    while not answers:
        answers = executor.wait(0.25)
    (answer,) = answers
    assert answer.trial is trial
    assert answer.node == node
    return answer


def columns_of(executor, **asked):
    return answer_to(executor, make_trial(**asked)).columns


def words(folder):
    return [json.loads(path.read_text()) for path in sorted(folder.glob("word-*.json"))]


class ExecutorContract:
    """A subclass has a fixture `executor` on this machine that was given the text of misdeeds.py."""

    def test_this_machine_is_its_one_node(self, executor):
        (node,) = executor.nodes()
        assert executor.nodes() == [node]
        assert (node.host, node.cpus) == (socket.gethostname(), usable_cores())
        assert node.serves(Target(name="cpu", device="cpu"))

    def test_nothing_is_waited_for_where_nothing_runs(self, executor):
        assert executor.wait(600.0) == []

    def test_there_is_nobody_to_ask_for_machines(self, executor):
        assert executor.ask_for([Need(accelerator=True)]) is False

    def test_a_trial_is_answered_with_columns_of_a_record(self, executor):
        answer = answer_to(executor, make_trial(target="cpu-1"))
        record = record_of(answer.trial, answer.columns, attempt=1, code_version="v1")
        assert record.status == "ok"
        assert len(record.step_times_s) >= 10
        assert (record.host, record.torch) == (machine()["host"], machine()["torch"])
        assert (record.device, record.start_method) == ("cpu", "fork")
        assert record.started_at < record.finished_at
        assert record.peak_memory_bytes > 0

    def test_threads_are_those_asked_for_after_any_other_trial(self, executor):
        wanted = {"cpu-1": 1, "cpu": usable_cores()}
        for target in ("cpu", "cpu-1", "cpu", "cpu-1"):
            found = columns_of(executor, deed="nothing", target=target)
            assert found["status"] == "ok"
            assert found["threads_requested"] == found["threads_observed"] == wanted[target]

    def test_each_trial_is_a_fresh_process(self, executor, tmp_path):
        for _ in range(2):
            assert columns_of(executor, deed="tell", folder=str(tmp_path))["status"] == "ok"
        first, second = words(tmp_path)
        assert first["pid"] != second["pid"]
        assert first["nursery"] == second["nursery"]
        assert not is_alive(first["pid"])

    def test_a_cpu_trial_sees_no_gpu(self, executor, tmp_path):
        columns_of(executor, deed="tell", folder=str(tmp_path))
        assert words(tmp_path)[0]["environment"]["CUDA_VISIBLE_DEVICES"] == ""

    @pytest.mark.skipif(torch.accelerator.is_available(), reason="this machine has an accelerator")
    def test_a_gpu_that_was_declared_and_is_not_there_is_unavailable(self, executor):
        (node,) = executor.nodes()
        assert node.accelerators == 1
        assert node.serves(Target(name="gpu", device="gpu"))
        found = columns_of(executor, target="gpu")
        assert found["status"] == "unavailable"
        assert "no CUDA device" in found["error_message"]
        assert found["device"] == "gpu"

    @pytest.mark.parametrize(
        ("deed", "status", "kind"),
        [
            ("raise", "error", "ValueError"),
            ("SIGKILL", "crashed", "SIGKILL"),
            ("exit code 7", "crashed", "exit code 7"),
            ("allocate", "oom", "RuntimeError"),
            ("sleep", "timeout", "Timeout"),
        ],
    )
    def test_a_trial_that_fails_is_answered_and_the_next_one_works(self, executor, deed, status, kind):
        found = columns_of(executor, deed=deed, deadline_s=0.5 if deed == "sleep" else 60.0)
        assert (found["status"], found["error_type"]) == (status, kind)
        assert found["error_message"]
        assert datetime.fromisoformat(found["finished_at"])
        assert columns_of(executor, deed="nothing")["status"] == "ok"

    def test_it_prints_nothing(self, executor, capfd):
        columns_of(executor, deed="print much")
        columns_of(executor, deed="SIGSEGV")
        assert capfd.readouterr() == ("", "")
