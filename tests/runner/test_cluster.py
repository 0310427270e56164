"""The executor with Ray keeps the contract, on one embedded Ray for all of these tests."""

import os
import signal
import socket
import tempfile
import time
from contextlib import chdir, contextmanager
from pathlib import Path

import psutil
import pytest
import ray
from ray import exceptions

from runner import cluster, process
from runner.cluster import Cluster
from runner.environment import usable_cores
from sweeps.errors import ClusterError
from tests.runner.asking import MISDEEDS, is_alive, make_trial, wait_until
from tests.runner.executor_contract import ExecutorContract, answer_to, columns_of, words

pytestmark = pytest.mark.ray


@contextmanager
def recorded():
    """Everything that this process and those that it starts write to stdout and stderr, as bytes."""
    saved = [os.dup(1), os.dup(2)]
    with tempfile.TemporaryFile() as record:
        os.dup2(record.fileno(), 1)
        os.dup2(record.fileno(), 2)
        said = []
        try:
            yield said
        finally:
            for number, own in enumerate(saved, start=1):
                os.dup2(own, number)
                os.close(own)
            record.seek(0)
            said.append(record.read())


@pytest.fixture(scope="module")
def executor(tmp_path_factory):
    assert not ray.is_initialized()
    before = set(psutil.Process().children(recursive=True))
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "runner").mkdir()  # a room of the same name in the folder that somebody happens to be in
    (folder / "runner" / "__init__.py").write_text("raise SystemExit('another runner')")
    with chdir(folder):
        with recorded() as said:
            made = Cluster(None, accelerators=1, source=MISDEEDS.read_text())
        assert said == [b""]
        yield made
        # Closing ends a trial that is still running, and everything else that was started.
        folder = tmp_path_factory.mktemp("closing")
        made.start(make_trial(deed="tell and sleep", folder=str(folder), deadline_s=600.0), made.nodes()[0])
        (word,) = wait_until(lambda: words(folder), "the trial begins")
        started = set(psutil.Process().children(recursive=True)) - before
        with recorded() as said:
            made.close()
        assert said == [b""]
        wait_until(lambda: not is_alive(word["pid"]), "the trial is stopped")
        wait_until(lambda: not any(is_alive(each.pid) for each in started), "Ray ends", seconds=60)
        assert not ray.is_initialized()


@contextmanager
def running(executor, folder, **asked):
    """A trial that sleeps on the node; yields the word that it left, and its answers in the end."""
    trial = make_trial(deed="tell and sleep", folder=str(folder), deadline_s=600.0, **asked)
    executor.start(trial, executor.nodes()[0])
    (word,) = wait_until(lambda: words(folder), "the trial begins", seconds=60)
    worker = psutil.Process(word["nursery"]).parent()
    answers = []
    yield word, worker, answers
    if is_alive(word["pid"]):
        os.kill(word["pid"], signal.SIGKILL)
    while not answers:
        answers += executor.wait(0.25)
    assert [answer.trial for answer in answers] == [trial]


class TestCluster(ExecutorContract):
    def test_a_trial_is_in_the_folder_that_the_driver_was_started_from(self, executor, tmp_path):
        columns_of(executor, deed="tell", folder=str(tmp_path))
        assert words(tmp_path)[0]["cwd"] == str(Path.cwd())

    def test_its_rows_name_ray_and_the_node(self, executor):
        found = columns_of(executor, deed="nothing")
        assert found["ray"] == ray.__version__
        assert found["node_id"] == executor.nodes()[0].node_id
        assert found["host"] == socket.gethostname()


def test_the_ray_worker_never_loads_torch_and_carries_the_name_of_the_trial(executor, tmp_path):
    with running(executor, tmp_path) as (_, worker, _):
        assert "made: misdeeds.py:Misdeed deed=tell and sleep" in " ".join(worker.cmdline())
        assert not any("libtorch" in each.path for each in worker.memory_maps())
        assert any("_raylet" in each.path for each in worker.memory_maps())  # it is a worker


def test_a_trial_has_all_cpus_of_its_node_and_a_cpu_trial_no_gpu(executor, tmp_path):
    with running(executor, tmp_path, target="cpu-1"):
        wait_until(lambda: not ray.available_resources().get("CPU"), "Ray counts")
        assert ray.available_resources()["GPU"] == 1.0


def test_a_gpu_trial_asks_for_one_gpu_and_all_cpus(executor, monkeypatch):
    given = []
    real = ray.remote_function.RemoteFunction.options

    def options(task, **settings):
        given.append(settings)
        return real(task, **settings)

    monkeypatch.setattr(ray.remote_function.RemoteFunction, "options", options)
    answer_to(executor, make_trial(target="gpu"))
    answer_to(executor, make_trial(deed="nothing"))
    assert [each["num_gpus"] for each in given] == [1, None]
    assert [each["num_cpus"] for each in given] == [usable_cores()] * 2
    assert all(not each["scheduling_strategy"].soft for each in given)


def test_a_gpu_trial_keeps_what_ray_lets_it_see(monkeypatch, tmp_path):
    """The one thing that a trial takes over from the environment of the Ray worker."""
    monkeypatch.chdir(tmp_path)  # the task goes elsewhere
    run_trial, _ = cluster._tasks(str(cluster.ROOT))
    seen = []
    monkeypatch.setattr(process, "attend", lambda request, **given: seen.append(given) or {})
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    run_trial({}, 4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    run_trial({}, 4)
    assert seen == [
        {"declared_cpus": 4, "environment": {"CUDA_VISIBLE_DEVICES": "3"}},
        {"declared_cpus": 4, "environment": {}},
    ]


def test_ray_itself_never_repeats_a_trial(executor):
    assert executor._task._max_retries == 0
    assert not executor._task._retry_exceptions


def test_a_killed_worker_is_a_crashed_row_and_the_run_goes_on(executor, tmp_path, capfd):
    with running(executor, tmp_path) as (word, worker, answers):
        worker.kill()
        wait_until(lambda: not is_alive(word["nursery"]), "the nursery dies with the worker")
        wait_until(lambda: not is_alive(word["pid"]), "the trial dies with the nursery")
    found = answers[0].columns
    assert (found["status"], found["error_type"]) == ("crashed", "WorkerCrashedError")
    assert found["host"] == socket.gethostname()
    assert columns_of(executor, deed="nothing")["status"] == "ok"
    assert capfd.readouterr() == ("", "")


def test_a_killed_trial_is_a_crashed_row_and_the_worker_goes_on(executor, tmp_path):
    with running(executor, tmp_path) as (word, worker, answers):
        os.kill(word["pid"], signal.SIGKILL)
    found = answers[0].columns
    assert (found["status"], found["error_type"]) == ("crashed", "SIGKILL")
    assert found["error_message"].startswith("the trial's process ended by SIGKILL without an answer; the machine may")
    assert columns_of(executor, deed="nothing")["status"] == "ok"
    assert is_alive(worker.pid)


def test_a_deadline_ends_a_blocking_call(executor):
    found = columns_of(executor, deed="block", deadline_s=0.5)
    assert (found["status"], found["error_type"]) == ("timeout", "Timeout")


def test_a_killed_nursery_is_a_crashed_row_and_the_worker_goes_on(executor, tmp_path):
    with running(executor, tmp_path) as (word, worker, answers):
        os.kill(word["nursery"], signal.SIGKILL)
        wait_until(lambda: not is_alive(word["pid"]), "the trial dies with the nursery")
    found = answers[0].columns
    assert (found["status"], found["error_type"]) == ("crashed", "NurseryDied")
    assert columns_of(executor, deed="nothing")["status"] == "ok"
    assert is_alive(worker.pid)


def test_waiting_ends_when_the_time_is_up(executor, tmp_path):
    with running(executor, tmp_path):
        assert executor.wait(0.05) == []


def test_a_trial_on_a_node_that_has_gone_is_lost(executor):
    (node,) = executor.nodes()
    gone = type(node)(node_id="0123456789abcdef" * 3 + "01234567", host="gone", cpus=1, accelerators=0)
    trial = make_trial(deed="nothing")
    executor.start(trial, gone)
    answers = wait_until(lambda: executor.wait(0.25), "Ray gives up")
    assert (answers[0].columns["status"], answers[0].node) == ("node_lost", gone)


def test_a_node_that_was_cut_off_for_a_while_is_used_again(executor, monkeypatch):
    (node,) = executor.nodes()
    monkeypatch.setattr(executor, "_gone", {node.node_id: time.monotonic()})
    monkeypatch.setattr(cluster, "LOOK_EVERY_S", 0.0)
    executor._look_next = 0.0
    assert executor.nodes() == []
    monkeypatch.setattr(cluster, "GONE_S", 0.0)
    assert executor.nodes() == [node]


def test_what_ray_raises_has_no_colours(executor, monkeypatch):
    @ray.remote(max_retries=0)
    def broken(request, cpus):
        raise ValueError("50 % of nothing")

    monkeypatch.setattr(executor, "_task", broken)
    found = answer_to(executor, make_trial(deed="nothing")).columns
    assert (found["status"], found["error_type"]) == ("error", "RayTaskError(ValueError)")
    assert "\x1b" not in found["error_message"]
    assert found["error_message"].endswith("ValueError: 50 % of nothing")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (exceptions.NodeDiedError("the node has died"), "node_lost"),
        (exceptions.TaskUnschedulableError("no such node"), "node_lost"),
        (exceptions.OutOfMemoryError("the memory monitor"), "oom"),
        (exceptions.WorkerCrashedError(), "crashed"),
        (exceptions.TaskCancelledError(), "crashed"),
    ],
)
def test_what_ray_raises_becomes_a_status(error, status):
    assert cluster._status(error) == status


def test_a_cluster_that_is_not_there_is_said_at_once():
    with socket.socket() as taken:  # bound and not listening: nobody answers there
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ClusterError) as raised:
            Cluster(address)
    assert str(raised.value) == f"cannot connect to Ray at {address}: [Errno 111] Connection refused"


@pytest.mark.parametrize("address", ["127.0.0.1:99999", "nowhere.invalid:6379"])
def test_an_address_that_cannot_be_is_said(address):
    with pytest.raises(ClusterError, match=f"cannot connect to Ray at {address}: .+"):
        Cluster(address)


def test_an_address_of_another_kind_is_said():
    with pytest.raises(ClusterError, match="that is the address of Ray's jobs and dashboard; give the cluster's own"):
        Cluster("http://127.0.0.1:8265")
    with pytest.raises(ClusterError, match=r"cannot connect to Ray at ray://127.0.0.1:1: .+refused"):
        Cluster("ray://127.0.0.1:1")


def test_ray_that_ends_the_process_is_an_error_like_any_other(monkeypatch):
    def end(**settings):
        raise SystemExit(15)

    monkeypatch.setattr(ray, "init", end)
    monkeypatch.setattr(cluster, "_reach", lambda address: None)
    with pytest.raises(ClusterError, match="cannot connect to Ray at auto: no answer"):
        Cluster("auto")


def test_two_trials_on_one_node_are_both_answered(executor):
    """Ray keeps the second waiting, for each asks for all CPUs."""
    (node,) = executor.nodes()
    trials = [make_trial(deed="nothing"), make_trial(deed="raise")]
    for trial in trials:
        executor.start(trial, node)
    answers = []
    while len(answers) < 2:
        answers += executor.wait(0.25)
    found = {answer.trial.trial_id: answer.columns["status"] for answer in answers}
    assert found == {trials[0].trial_id: "ok", trials[1].trial_id: "error"}
