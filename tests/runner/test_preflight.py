"""Which nodes go with the driver, and what a run would do."""

from types import SimpleNamespace

import pytest
from ray.cluster_utils import Cluster as Simulated

from runner import cluster, preflight
from runner.cluster import Cluster
from runner.environment import code_version, usable_cores
from runner.executor import Need, Node
from runner.preflight import check, judge, look, plan
from sweeps.errors import ClusterError
from sweeps.target import Target
from tests.runner.asking import make_sweep, wait_until

OWN = {
    "code": "c0de",
    "ray": "2.60.0",
    "python": "3.11.7",
    "torch": "2.13.0",
    "cores": 4,
    "given_threads": None,
}
SMALL_STORE = {"object_store_memory": 80_000_000}
BOTH = {"targets": ["cpu", "gpu"], "axes": {"batch_size": [1, 2, 4]}, "passes": 2}
TWO_KINDS = [{"name": "small", "device": "cpu", "where": {"size": "s"}}, "cpu", "gpu"]


def node(name, *, accelerators=0, **labels):
    return Node(node_id=name, host=f"host-{name}", cpus=4, accelerators=accelerators, labels=labels)


def test_this_machine_goes_with_itself():
    found = look()
    assert found["code"] == code_version(None)
    assert found["cores"] == usable_cores()
    assert check({"here": found}, found) == [] or found["given_threads"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"code": "0ther"}, "host-a has another version of runner/ (0ther) than where this command runs (c0de); an "),
        ({"ray": "2.59.0"}, "host-a has another Ray (2.59.0) than where this command runs (2.60.0); install "),
        ({"python": "3.12.1"}, "host-a has another Python (3.12) than where this command runs (3.11); use one "),
        ({"torch": None}, "host-a has no PyTorch; install constraints.txt on all nodes"),
    ],
)
def test_what_cannot_be_measured_with_is_refused(change, told):
    with pytest.raises(ClusterError) as raised:
        check({"host-b": OWN, "host-a": {**OWN, **change}}, OWN)
    assert str(raised.value).startswith(told)
    assert "\n" not in str(raised.value)


def test_a_node_that_cannot_say_who_it_is_cannot_run_trials():
    with pytest.raises(ClusterError, match="host-a cannot run trials: ModuleNotFoundError: No module named 'psutil'"):
        check({"host-a": "ModuleNotFoundError: No module named 'psutil'"}, OWN)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"torch": "2.12.0"}, "host-a has PyTorch 2.12.0, not 2.13.0 as here"),
        ({"given_threads": "1"}, "Ray on host-a was started with OMP_NUM_THREADS=1"),
    ],
)
def test_what_is_odd_is_a_warning(change, told):
    (warning,) = check({"host-b": OWN, "host-a": {**OWN, **change}}, OWN)
    assert warning.startswith(told)


def test_another_patch_of_python_and_other_cores_are_no_news():
    assert check({"host-a": {**OWN, "python": "3.11.9", "cores": 64}}, OWN) == []


def test_a_node_that_joins_later_is_judged_and_ends_nothing():
    assert judge("host-a", OWN, OWN) == (True, "")
    is_fit, remark = judge("host-a", {**OWN, "torch": "2.12.0"}, OWN)
    assert is_fit
    assert remark.startswith("host-a has PyTorch 2.12.0")
    is_fit, remark = judge("host-a", {**OWN, "ray": "2.59.0"}, OWN)
    assert not is_fit
    assert remark.startswith("host-a has another Ray (2.59.0) than where this command runs (2.60.0)")
    assert judge("host-a", "no answer within 30 s", OWN)[0]
    assert not judge("host-a", "ModuleNotFoundError: No module named 'psutil'", OWN)[0]


@pytest.fixture
def late():
    """An executor on a cluster of one node, and a way to let another one join."""
    made = Simulated(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **SMALL_STORE})
    try:
        made.add_node(num_cpus=1, **SMALL_STORE)
        executor = Cluster(made.address)
        try:
            yield SimpleNamespace(executor=executor, join=lambda: made.add_node(num_cpus=1, **SMALL_STORE).node_id)
        finally:
            executor.close()
    finally:
        made.shutdown()


@pytest.mark.ray
@pytest.mark.timeout(600)
def test_a_node_that_joins_late_says_who_it_is_first_and_nobody_waits_for_it(late, monkeypatch):
    (first,) = late.executor.nodes()
    assert check(late.executor.inspect(), look()) == []
    looks = []
    real = late.executor._ask
    monkeypatch.setattr(late.executor, "_ask", lambda node: looks.append(node.node_id) or real(node))

    def listed():
        return {each.node_id: each for each in late.executor.nodes()}

    second = late.join()
    wait_until(lambda: listed() and looks, "it is seen")
    assert set(listed()) == {first.node_id}, "its answer is not waited for"
    joined = wait_until(lambda: listed().get(second), "it has answered", seconds=120)
    assert (joined.is_fit, joined.remark, joined.is_free) == (True, "", True)
    assert looks == [second], "it is asked once, and who was there before is not asked again"

    monkeypatch.setattr(cluster, "look", lambda: {**look(), "ray": "1.0.0"})
    third = late.join()
    refused = wait_until(lambda: listed().get(third), "it has answered", seconds=120)
    assert not refused.is_free
    assert "has another Ray" in refused.remark
    assert listed()[second].is_free

    monkeypatch.setattr(cluster, "INSPECT_S", 0.0)
    fourth = late.join()
    silent = wait_until(lambda: listed().get(fourth), "it is given up", seconds=120)
    assert silent.is_free
    assert "no answer within 0 s" in silent.remark


def planned(sweep, nodes, **seconds):
    return plan(sweep.pairs(), nodes, by_target=sweep.pairing == "by_target", seconds=seconds)


def test_a_plan_names_nodes_and_what_is_missing():
    assert planned(make_sweep(**BOTH), [node("a"), node("b")]) == [
        "cpu: 6 trials; host-a (4 CPUs), host-b (4 CPUs)",
        "gpu: 6 trials; no node declares a GPU",
        f"About {3 * preflight.RULE_OF_THUMB_S:g} s for 6 trials (no rows yet; 4 s a trial as a rule of thumb).",
    ]


def test_a_pair_is_planned_where_it_runs():
    lines = planned(make_sweep(**BOTH), [node("a"), node("g", accelerators=1)], cpu=2.0, gpu=1.0)
    assert lines == [
        "cpu: 6 trials; host-g (4 CPUs, 1 GPU)",
        "gpu: 6 trials; host-g (4 CPUs, 1 GPU)",
        "About 18 s for 12 trials (from the study's own rows of cpu, gpu).",
    ]


def test_a_sweep_by_target_is_planned_by_labels():
    sweep = make_sweep(**{**BOTH, "targets": TWO_KINDS})
    nodes = [node("a", size="s"), node("b", size="l"), node("g", accelerators=1)]
    lines = planned(sweep, nodes, small=10.0)
    assert lines[:3] == [
        "cpu: 6 trials; host-a (4 CPUs), host-b (4 CPUs)",
        "gpu: 6 trials; host-g (4 CPUs, 1 GPU)",
        "small: 6 trials; host-a (4 CPUs)",
    ]
    assert "(from the study's own rows of small; 4 s a trial as a rule of thumb for the others)" in lines[3]
    assert planned(sweep, [node("g", accelerators=1)])[0] == "cpu: 6 trials; host-g (4 CPUs, 1 GPU)"
    assert planned(sweep, [node("b")])[2] == "small: 6 trials; no node declares size: s"


def test_nothing_to_run_is_an_empty_plan():
    assert plan([], [node("a")], by_target=False, seconds={}) == []


def test_long_times_are_told_in_long_units():
    (_, _, told) = planned(make_sweep(**BOTH), [node("g", accelerators=1)], cpu=100.0, gpu=100.0)
    assert told.startswith("About 20 min")
    (_, _, told) = planned(make_sweep(**BOTH), [node("g", accelerators=1)], cpu=1e4, gpu=100.0)
    assert told.startswith("About 16.8 h")


def test_a_plan_says_what_the_trials_cost_where_prices_are_known():
    priced = [{"name": "cpu", "device": "cpu", "price_per_hour": 1.8}, {"name": "gpu", "device": "gpu"}]
    nodes = [node("g", accelerators=1)]
    lines = planned(make_sweep(**{**BOTH, "targets": priced}), nodes, cpu=100.0, gpu=100.0)
    assert lines[-1].startswith("That costs about 0.3 for the trials of cpu, at their price_per_hour;")
    priced[1]["price_per_hour"] = 3.6
    lines = planned(make_sweep(**{**BOTH, "targets": priced}), nodes, cpu=100.0, gpu=100.0)
    assert lines[-1].startswith("That costs about 0.9 for the trials, at their price_per_hour;")


def test_a_need_is_what_all_trials_of_a_job_need():
    small = Target(name="small", device="cpu", where={"size": "s"})
    cpu, gpu = Target.model_validate("cpu"), Target.model_validate("gpu")
    assert Need.of([cpu, gpu], by_target=False) == Need(accelerator=True)
    assert Need.of([small], by_target=True) == Need(where=(("size", "s"),))
    assert Need.of([cpu], by_target=True) == Need(off_accelerators=True)
    assert (Need.of([cpu], by_target=False).told, Need.of([gpu], by_target=True).told) == ("CPUs", "a GPU")


def test_a_node_serves_where_labels_agree():
    typed = Target(name="t4", device="gpu", where={"accelerator_type": "T4"})
    assert node("g", accelerators=1, accelerator_type="T4").serves(typed)
    assert not node("g", accelerators=1, accelerator_type="A10G").serves(typed)
    assert not node("g", accelerators=1).serves(typed)
    assert not node("c", accelerator_type="T4").serves(typed)
