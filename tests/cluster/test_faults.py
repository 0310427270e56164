"""The whole program and real Ray when parts of it die, are stopped, or never come."""

import os
import shutil
import signal
import subprocess
import sys

import psutil
import pytest
import ray
from ray.cluster_utils import Cluster as Simulated

from runner.cluster import Cluster
from runner.environment import ROOT
from tests.cluster.heads import head
from tests.runner.asking import is_alive, wait_until
from tests.runner.test_faults import Place, check_rest

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

SMALL_STORE = {"object_store_memory": 80_000_000}


# --------------------------------------------------------------------------------------------------------- one machine


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_run_with_a_ray_of_its_own_in_good_order(tmp_path, number):
    place = Place(tmp_path)
    with place.held() as held:
        ours = psutil.Process(held.driver.pid).children(recursive=True)
        os.killpg(held.driver.pid, number)
        code, reported, err = held.ends()
        wait_until(lambda: not any(is_alive(each.pid) for each in ours), "Ray ends with it", seconds=120)
    assert code == 130, err
    assert err.startswith("Interrupted. Everything that was reported is kept: the same command runs the rest")
    assert len(err.splitlines()) == 1
    assert reported == {row["trial_id"] for row in place.rows()}, "what has ended is kept and reported"
    assert {row["status"] for row in place.rows()} == {"ok"}
    check_rest(place, reported, "--local")


# ------------------------------------------------------------------------------------------------ a cluster without GPU


@pytest.fixture(scope="module")
def cluster_of_cpus(tmp_path_factory):
    flags = ("--num-cpus=1", "--include-dashboard=false")
    with head(tmp_path_factory.mktemp("cpus"), *flags) as address:
        yield address


def test_a_signal_while_a_sweep_waits_for_an_accelerator_ends_it_in_good_order(cluster_of_cpus, tmp_path):
    command = [sys.executable, "sweep.py", "default", "--address", cluster_of_cpus, "--wait", "500"]
    with subprocess.Popen(
        [*command, "--out", str(tmp_path / "study")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as driver:
        try:
            said = next(line for line in driver.stdout if line.startswith("No node declares a GPU yet"))
            assert said == "No node declares a GPU yet; waiting up to 500 s for one (--wait).\n"
            driver.send_signal(signal.SIGTERM)
            _, err = driver.communicate(timeout=120)
        finally:
            driver.kill()
    assert driver.returncode == 130, err
    assert err.startswith("Interrupted.")
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "study").exists()


def test_a_sweep_for_a_gpu_ends_with_its_cpu_part_and_the_cause(cluster_of_cpus, tmp_path):
    place = Place(tmp_path, sizes=(1, 2))
    flags = ("--address", cluster_of_cpus, "--wait", "0", "--targets", "one,gpu", "--set", "challenger=gpu")
    ran = place.run(*flags)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "waiting up to" not in ran.stdout
    by_target = {name: [row for row in place.rows() if row["target"] == name] for name in ("one", "gpu")}
    assert {row["status"] for row in by_target["one"]} == {"ok"}
    assert {(row["status"], row["error_message"]) for row in by_target["gpu"]} == {
        ("unavailable", "none of the 1 nodes declares a GPU, which gpu needs")
    }


def test_an_interrupted_run_leaves_the_cluster_to_the_next(cluster_of_cpus, tmp_path):
    place = Place(tmp_path)
    flags = ("--address", cluster_of_cpus, "--wait", "600")
    with place.held(*flags) as held:
        held.driver.send_signal(signal.SIGTERM)
        code, reported, err = held.ends()
    assert code == 130, err
    check_rest(place, reported, *flags)


def test_memory_that_runs_out_on_a_node_is_oom_by_ray_s_own_monitor(tmp_path):
    """Its threshold is what any machine uses at any moment, so it ends the worker of each trial."""
    place = Place(tmp_path, sizes=(1, 2), passes=2)
    given = {"RAY_memory_usage_threshold": "0.0001", "RAY_memory_monitor_refresh_ms": "250"}
    with head(tmp_path, "--num-cpus=1", "--include-dashboard=false", **given) as address:
        ran = place.run("--address", address)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = place.final().values()
    assert {row["status"] for row in found if row["size"] == 1} == {"oom"}
    assert {row["status"] for row in found if row["size"] == 2 and row["pass_index"]} == {"skipped_larger"}
    for row in found:
        if row["status"] == "oom":
            assert row["error_type"] == "OutOfMemoryError"
            assert "memory" in row["error_message"]
            assert len(row["error_message"].splitlines()) == 2, "and not what Ray says of others on the machine"


# ------------------------------------------------------------------------------------------------------ several nodes


@pytest.fixture
def two_nodes():
    """Two nodes of which one that is silent is given up within half a minute."""
    assert not ray.is_initialized()
    impatient = {
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 1000,
        "health_check_timeout_ms": 5000,  # a node that is only slow on busy cores is not silent
        "health_check_failure_threshold": 5,
    }
    flags = {"num_cpus": 0, "include_dashboard": False, "_system_config": impatient}
    made = Simulated(initialize_head=True, head_node_args={**flags, **SMALL_STORE})
    try:
        for _ in range(2):
            made.add_node(wait=False, num_cpus=1, **SMALL_STORE)
        made.wait_for_nodes()
        yield made
    finally:
        made.shutdown()


def test_a_node_that_is_cut_off_is_lost_and_its_pair_is_measured_elsewhere(two_nodes, tmp_path):
    """Its connections stay, and nobody answers there: what a cable that is pulled looks like."""
    place = Place(tmp_path)
    with place.held("--address", two_nodes.address, "--set", "deadline_s=600") as held:
        processes = psutil.Process(held.trial).parents()  # nursery, worker, raylet
        raylet = next(each for each in processes if each.name() == "raylet")
        silent = [raylet, *raylet.children(recursive=True)]
        try:
            for each in silent:
                each.suspend()
            wait_until(lambda: "node_lost" in log(place), "the node is given up", seconds=300)
            place.release()
            code = held.driver.wait(300)
        finally:
            for each in reversed(silent):
                each.kill()
        assert code == 0, held.ends()
    rows = place.rows()
    (lost,) = [row for row in rows if row["status"] == "node_lost"]
    final = place.final()
    assert (len(final), {row["status"] for row in final.values()}) == (place.trials, {"ok"})
    assert final[lost["trial_id"]]["attempt"] > lost["attempt"]
    assert final[lost["trial_id"]]["node_id"] != lost["node_id"]


def log(place):
    return (place.study / "log.txt").read_text()


def test_a_node_that_has_just_died_is_no_reason_to_refuse_the_others(two_nodes):
    dead, alive = two_nodes.worker_nodes
    executor = Cluster(two_nodes.address)
    try:
        assert len(executor.nodes()) == 2
        two_nodes.remove_node(dead, allow_graceful=False)
        said = executor.inspect()
        assert len(said) == 1
        assert not any(isinstance(each, str) for each in said.values())
        assert [node.node_id for node in executor.nodes()] == [alive.node_id]
    finally:
        executor.close()


# -------------------------------------------------------------------------------------------------------- pretend hosts

HEAD, *WORKERS = 1, 2, 3


@pytest.fixture
def cables(hosts):
    """A Ray cluster on the hosts whose head has the project; returns what pulls the cable of one."""
    unset = "unset OMP_NUM_THREADS; export RAY_AUTH_MODE=disabled RAY_USAGE_STATS_ENABLED=0"
    flags = "--object-store-memory=80000000 --disable-usage-stats"
    environment = [f"--exclude={sys.prefix.removeprefix(str(ROOT))}"] if sys.prefix.startswith(f"{ROOT}/") else []
    subprocess.run(
        ["rsync", "-a", "--filter=:- .gitignore", "--exclude=.git", "--exclude=/results", *environment,
         f"{ROOT}/", f"{hosts.home(HEAD)}/crossover/"],
        check=True,
    )  # fmt: skip
    start = f"{unset}; ray start --head --port=6379 --num-cpus=0 --include-dashboard=false {flags}"
    commands = {HEAD: start}
    commands |= dict.fromkeys(WORKERS, f"{unset}; ray start --address={hosts.address(HEAD)}:6379 --num-cpus=1 {flags}")
    for host, command in commands.items():
        started = hosts.run(host, command, timeout_s=180)
        assert started.returncode == 0, started.stdout

    def pull(host):
        inside = ["nsenter", f"--target={hosts._network.pid}", "--net"]
        subprocess.run([*inside, "ip", "link", "set", f"cable{host}", "down"], check=True)

    return pull


@pytest.mark.cluster
def test_a_host_whose_cable_is_pulled_is_lost_and_its_pair_is_measured_elsewhere(cables, hosts, tmp_path):
    home = hosts.home(HEAD)
    place = Place(tmp_path, words="/root/words")
    for name in ("faults.yaml", "work.py"):
        shutil.copy(tmp_path / name, home)
    for host in WORKERS:
        (hosts.home(host) / "words").mkdir()
    command = "cd ~/crossover && RAY_AUTH_MODE=disabled python sweep.py ~/faults.yaml --address auto --out ~/study"
    command = f"({command} --set deadline_s=600 --no-report; echo $? >~/code) >~/said 2>&1 </dev/null &"
    hosts.run(HEAD, command, timeout_s=60)
    place.study = home / "study"
    for host in WORKERS:
        wait_until((hosts.home(host) / "words" / "waits").exists, "a trial is held there", seconds=300)
    cables(WORKERS[0])
    wait_until(lambda: "node_lost" in log(place), "the host is given up", seconds=300)
    (hosts.home(WORKERS[1]) / "words" / "released").touch()
    wait_until((home / "code").exists, "the run ends", seconds=300)
    assert (home / "code").read_text() == "0\n", (home / "said").read_text()
    (lost,) = [row for row in place.rows() if row["status"] == "node_lost"]
    final = place.final()
    assert (len(final), {row["status"] for row in final.values()}) == (place.trials, {"ok"})
    assert lost["host"] == f"host{WORKERS[0]}"
    assert final[lost["trial_id"]]["host"] == f"host{WORKERS[1]}"
