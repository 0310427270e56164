"""Several nodes of Ray on this machine: who runs what where, who joins late, who is lost, and who is busy."""

import io
import itertools
import shutil
import time
from collections import defaultdict
from types import SimpleNamespace

import pytest
import ray
from ray.cluster_utils import Cluster as Simulated
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from rich.console import Console

from analysis.strategy import next_wishes
from runner import cluster
from runner import run as driving
from runner.cluster import Cluster
from runner.environment import ROOT, usable_cores
from runner.executor import HELD, Need
from runner.place import choose_place
from runner.preflight import check, look
from runner.progress import Progress
from runner.run import open_trials, run
from runner.search import Search
from runner.store import Store
from sweeps.errors import ClusterError
from sweeps.study import read_records
from tests.runner.asking import MISDEEDS, make_sweep, make_trial, wait_until

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

SMALL_STORE = {"object_store_memory": 80_000_000}


@pytest.fixture(scope="module")
def simulated():
    """A head that runs nothing, two CPU nodes and one that declares a GPU; by name."""
    assert not ray.is_initialized()
    made = Simulated(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **SMALL_STORE})
    try:
        nodes = {
            "small": made.add_node(wait=False, num_cpus=1, labels={"size": "small"}, **SMALL_STORE),
            "big": made.add_node(wait=False, num_cpus=2, labels={"size": "big"}, **SMALL_STORE),
            "gpu": made.add_node(
                wait=False, num_cpus=2, num_gpus=1, resources={"accelerator_type:T4": 1}, **SMALL_STORE
            ),
        }
        made.wait_for_nodes()
        yield SimpleNamespace(cluster=made, address=made.address, ids={n: at.node_id for n, at in nodes.items()})
    finally:
        made.shutdown()


@pytest.fixture
def executor(simulated):
    made = Cluster(simulated.address)
    yield made
    made.close()


class Eventful:
    """A real executor in a world where something happens before and after a trial is started."""

    def __init__(self, executor, happen, before=lambda node: None):
        self.executor = executor
        self.happen, self.before = happen, before
        self.started = []

    def __getattr__(self, name):
        return getattr(self.executor, name)

    def start(self, trial, node):
        self.before(node)
        self.executor.start(trial, node)
        self.started.append((trial, node))
        self.happen(self.started)


def measured(folder, sweep, executor, wait_s=0.0):
    """Run a sweep; return its rows, the last of each trial in the end."""
    store = Store(folder, sweep)
    todo = open_trials(sweep.pairs(), store)
    with Progress(Console(file=io.StringIO()), folder / "log.txt", total=sweep.size) as progress:
        by_target = sweep.pairing == "by_target"
        asked = {"axis": sweep.axis, "by_target": by_target, "code_version": "v1", "wait_s": wait_s}
        run(sweep.pairs(), todo, store, executor, progress, **asked)
    store.close()
    return sorted(read_records(folder)[0].to_pylist(), key=lambda row: row["attempt"])


def by_name(simulated, rows):
    """Names of the nodes that served each target."""
    names = {node_id: name for name, node_id in simulated.ids.items()}
    found = defaultdict(set)
    for row in rows:
        found[row["target"]].add(names.get(row["node_id"], row["node_id"]))
    return dict(found)


def test_a_sweep_over_nodes_of_which_one_comes_late_and_is_lost(simulated, tmp_path, monkeypatch):
    monkeypatch.setattr(driving, "MOST_IN_VAIN", 0)  # several nodes on the same cores: every trial is disturbed
    coming, late = [], []
    held = tmp_path / "held"

    def is_late(node):
        return bool(coming) and node.node_id == coming[0].node_id

    def before(node):
        if is_late(node) and len(late) == 1:  # the next one cannot end before its node does
            held.write_text("")

    def happen(started):
        if len(started) == 2:
            coming.append(simulated.cluster.add_node(num_cpus=2, **SMALL_STORE))
        if is_late(started[-1][1]):
            late.append(started[-1][0])
            if len(late) == 2:  # the second one of its first pair
                simulated.cluster.remove_node(coming[0], allow_graceful=False)
                held.unlink()

    study = tmp_path / "study"
    study.mkdir()
    executor = Cluster(simulated.address, source=MISDEEDS.read_text())
    try:
        sweep = make_sweep(
            workload=f"{MISDEEDS}:Misdeed",
            parameters={"deed": "wait", "folder": str(tmp_path)},
            axes={"size": [2, 4, 8, 16]},
            passes=3,
        )
        rows = measured(study, sweep, Eventful(executor, happen, before))
        alive = lambda: {each["NodeID"] for each in ray.nodes() if each["Alive"]}  # noqa: E731
        wait_until(lambda: coming[0].node_id not in alive(), "Ray itself knows that it has gone", seconds=60)
    finally:
        executor.close()

    final = {row["trial_id"]: row for row in rows}
    assert {row["status"] for row in final.values()} == {"ok"}
    assert len(final) == sweep.size
    gone = coming[0].node_id
    answers = [[row for row in rows if row["trial_id"] == trial.trial_id] for trial in late]
    assert [[row["status"] for row in each] for each in answers] == [["ok", "ok"], ["node_lost", "ok"]]
    assert [[row["node_id"] == gone for row in each] for each in answers] == [[True, False], [True, False]]

    pairs, spans = defaultdict(set), defaultdict(list)
    for row in rows:
        if row["status"] == "node_lost":
            assert row["node_id"] == gone
            continue
        if row is final[row["trial_id"]]:
            pairs[row["pair_id"]].add(row["node_id"])
        spans[row["node_id"]].append((row["started_at"], row["finished_at"]))
        assert row["threads_observed"] == row["threads_requested"]
        cpus = 1 if row["node_id"] == simulated.ids["small"] else 2
        assert row["threads_requested"] == (1 if row["target"] == "cpu-1" else min(cpus, usable_cores()))
    assert all(len(nodes) == 1 for nodes in pairs.values()), "a pair is measured on one node"
    assert set(simulated.ids.values()) <= set(spans), "equal nodes share the pairs"
    for times in spans.values():
        times.sort()
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(times))


ASLEEP = """
import time
import torch


class Asleep:
    def __init__(self, *, seed, size):
        self.size = size

    def prepare(self, device, target):
        self.seconds = (0.064 * self.size if target == "old" else 3.2 + 0.032 * self.size) / 1000

    def step(self):
        time.sleep(self.seconds)
        return torch.zeros(())
"""


def test_a_search_keeps_several_nodes_busy_at_once(simulated, tmp_path, monkeypatch):
    """Their steps are asleep, so that nodes on the same cores do not disturb each other."""
    monkeypatch.setattr(driving, "MOST_IN_VAIN", 0)
    own = tmp_path / "asleep.py"
    own.write_text(ASLEEP)
    sweep = make_sweep(
        workload=f"{own}:Asleep",
        parameters={},
        axes={"size": {"from": 16, "to": 512}},
        targets=[{"name": name, "device": "cpu", "threads": 1} for name in ("old", "new")],
        strategy="adaptive",
        passes=3,
    )
    asked = []

    def decide(rows, pending, nodes):
        asked.append((len(pending), nodes))
        return next_wishes(sweep, rows.to_pandas(), pending=pending, nodes=nodes)

    executor = Cluster(simulated.address, source=ASLEEP)
    try:
        store = Store(tmp_path / "study", sweep)
        search = Search(sweep, store, decide)
        console = Console(file=io.StringIO())
        with Progress(console, tmp_path / "log.txt", total=search.at_most, searches=True) as progress:
            run([], [], store, executor, progress, axis="size", by_target=False, code_version="v1", search=search)
        store.close()
    finally:
        executor.close()

    assert search.stop
    assert set(search.statuses()) == {"ok"}
    assert asked[0] == (0, 3), "each node is given a pair at once"
    assert any(pending for pending, _ in asked), "nobody waits for the others"
    rows = read_records(tmp_path / "study")[0].to_pylist()
    nodes = defaultdict(set)
    for row in rows:
        nodes[row["pair_id"]].add(row["node_id"])
    assert all(len(each) == 1 for each in nodes.values()), "a pair is measured on one node"
    assert set().union(*nodes.values()) == set(simulated.ids.values())
    moments = sorted([(row["started_at"], 1) for row in rows] + [(row["finished_at"], -1) for row in rows])
    assert max(itertools.accumulate(step for _, step in moments)) == 3


def test_targets_run_where_they_say_and_what_nobody_has_is_unavailable(simulated, executor, tmp_path):
    targets = [
        {"name": "small", "device": "cpu", "where": {"size": "small"}},
        {"name": "big", "device": "cpu", "where": {"size": "big"}},
        {"name": "t4", "device": "gpu", "where": {"accelerator_type": "T4"}},
        {"name": "h100", "device": "gpu", "where": {"accelerator_type": "H100"}},
        "cpu",
    ]
    sweep = make_sweep(targets=targets)
    assert sweep.pairing == "by_target"
    rows = measured(tmp_path, sweep, executor)
    served = by_name(simulated, [row for row in rows if row["node_id"]])
    assert (served["small"], served["big"], served["t4"]) == ({"small"}, {"big"}, {"gpu"})
    assert served["cpu"] <= {"small", "big"}, "a CPU trial of a sweep by target is kept off the GPU machine"
    assert not any(row["paired"] for row in rows)
    missing = [row for row in rows if row["target"] == "h100"]
    assert {row["status"] for row in missing} == {"unavailable"}
    assert {row["error_message"] for row in missing} == {
        "none of the 3 nodes declares a GPU, accelerator_type: H100, which h100 needs"
    }


def node_called(simulated, executor, name):
    return next(node for node in executor.nodes() if node.node_id == simulated.ids[name])


@pytest.fixture
def somebody(simulated, executor):
    """Another user's task on one CPU of a node, until it is told to end."""

    @ray.remote(num_cpus=1, max_retries=0)
    def sit():
        time.sleep(600)

    sitting = []

    def sit_down(name):
        there = NodeAffinitySchedulingStrategy(simulated.ids[name], soft=False)
        sitting.append(sit.options(scheduling_strategy=there).remote())
        wait_until(lambda: node_called(simulated, executor, name).is_held, "Ray counts")

    def get_up():
        while sitting:
            ray.cancel(sitting.pop(), force=True)

    yield SimpleNamespace(sit_down=sit_down, get_up=get_up)
    get_up()


def test_a_node_that_somebody_else_uses_is_seen_and_used_when_it_is_free(simulated, executor, somebody):
    assert not any(node.is_held for node in executor.nodes())
    somebody.sit_down("big")
    assert [node.node_id for node in executor.nodes() if node.is_held] == [simulated.ids["big"]]
    somebody.get_up()
    wait_until(lambda: not node_called(simulated, executor, "big").is_held, "it is free again")


def test_a_trial_of_ours_does_not_make_a_node_look_busy(simulated, executor):
    node = node_called(simulated, executor, "big")
    executor.start(make_trial(), node)
    wait_until(lambda: not ray._private.state.available_resources_per_node()[node.node_id].get("CPU"), "it begins")
    assert not node_called(simulated, executor, "big").is_held
    while not executor.wait(0.25):
        pass
    until = time.monotonic() + cluster.SETTLE_S + 1
    while time.monotonic() < until:
        assert not node_called(simulated, executor, "big").is_held
        time.sleep(0.1)


def test_a_busy_node_is_told_and_given_up_after_the_wait(simulated, executor, somebody, tmp_path):
    somebody.sit_down("small")
    targets = [{"name": "small", "device": "cpu", "where": {"size": "small"}}, "cpu-1"]
    rows = measured(tmp_path, make_sweep(targets=targets), executor, wait_s=0.1)
    busy = [row for row in rows if row["target"] == "small"]
    assert {row["status"] for row in busy} == {"unavailable"}
    assert all("another user of the cluster has taken CPUs of" in row["error_message"] for row in busy)
    assert {row["status"] for row in rows if row["target"] == "cpu-1"} == {"ok"}
    assert "is busy: another user has taken CPUs of it;" in (tmp_path / "log.txt").read_text()


def test_a_trial_that_never_begins_is_taken_back(simulated, executor, somebody, monkeypatch):
    monkeypatch.setattr(cluster, "OVERDUE_S", 0.5)
    node = node_called(simulated, executor, "big")
    somebody.sit_down("big")
    executor.start(make_trial(deadline_s=0.5), node)
    (answer,) = wait_until(lambda: executor.wait(0.25), "it is given up")
    assert (answer.columns["status"], answer.columns["error_type"]) == ("unavailable", HELD)
    assert node_called(simulated, executor, "big").is_held


def test_every_node_says_who_it_is_a_busy_one_too(simulated, executor, somebody):
    somebody.sit_down("small")
    said = executor.inspect()
    assert len(said) == 3
    assert check(said, look()) == []
    assert {found["code"] for found in said.values()} == {look()["code"]}


def test_nodes_with_other_code_are_refused(simulated, monkeypatch, tmp_path):
    """What is sent to the nodes differs from what the driver runs."""
    for room in ("runner", "sweeps"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "runner" / "timing.py").open("a") as file:
        file.write("# another line\n")
    monkeypatch.setattr(cluster, "ROOT", tmp_path)
    with pytest.raises(ClusterError, match="has another version of runner/"):
        choose_place(simulated.address, local=False).open(accelerators=0, source=None)
    assert not ray.is_initialized()


def test_a_node_that_does_not_answer_is_a_warning(simulated, executor, monkeypatch):
    monkeypatch.setattr(cluster, "INSPECT_S", 0.0)
    warnings = check(executor.inspect(), look())
    assert len(warnings) == 3
    assert all("no answer within 0 s" in warning for warning in warnings)


def test_the_autoscaler_is_asked_by_labels(executor, monkeypatch):
    asked = []
    monkeypatch.setattr(ray.autoscaler.sdk, "request_resources", lambda **what: asked.append(what))
    needs = [
        Need(off_accelerators=True),
        Need(accelerator=True, where=(("accelerator_type", "T4"), ("zone", "a"))),
    ]
    assert executor.ask_for(needs)
    assert asked == [
        {
            "bundles": [{"CPU": 1}, {"CPU": 1, "GPU": 1, "accelerator_type:T4": 0.001}],
            "bundle_label_selectors": [{"pool": "!gpu"}, {"zone": "a"}],
        }
    ]
    monkeypatch.undo()
    assert executor.ask_for(needs), "Ray itself takes it"


def test_who_has_asked_the_autoscaler_for_nothing_takes_no_wish_of_others_back(simulated, monkeypatch):
    """There is one list of wishes for the whole cluster: a plan must not empty that of a sweep that waits."""
    asked = []
    monkeypatch.setattr(ray.autoscaler.sdk, "request_resources", lambda **what: asked.append(what["bundles"]))
    idle, waiting = Cluster(simulated.address), None
    idle.close()
    assert asked == []
    waiting = Cluster(simulated.address)
    waiting.ask_for([Need(accelerator=True)])
    waiting.close()
    assert asked == [[{"CPU": 1, "GPU": 1}], []]
