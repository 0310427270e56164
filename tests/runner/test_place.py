"""Where a sweep runs and why: what was asked, then the environment, then this machine."""

import pytest

from runner import place as places
from runner.executor import Node
from runner.local import Local
from runner.place import choose_place, has_accelerator

CLUSTERED = {"RAY_ADDRESS": "10.0.0.9:6379", "SWEEP_HOME": "/somewhere"}


@pytest.mark.parametrize(
    ("address", "local", "environment", "kind", "found", "why"),
    [
        ("10.0.0.1:6379", True, CLUSTERED, "local", None, "--local"),
        ("10.0.0.1:6379", False, CLUSTERED, "cluster", "10.0.0.1:6379", "--address"),
        ("auto", False, {}, "cluster", "auto", "--address"),
        (None, False, CLUSTERED, "cluster", "10.0.0.9:6379", "RAY_ADDRESS"),
        (None, False, {"SWEEP_HOME": "/somewhere"}, "cluster", "auto", "SWEEP_HOME"),
        (None, False, {"RAY_ADDRESS": "", "SWEEP_HOME": ""}, "embedded", None, "a Ray of its own"),
        (None, False, {}, "embedded", None, "a Ray of its own"),
    ],
)
def test_the_order_of_places(address, local, environment, kind, found, why):
    place = choose_place(address, local=local, environment=environment)
    assert (place.kind, place.address) == (kind, found)
    assert why in place.sentence
    assert place.sentence.startswith("Runs on ")
    if found:
        assert found in place.sentence or found == "auto"


def test_the_environment_of_this_process_counts(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.5:6379")
    assert choose_place(None, local=False).address == "10.0.0.5:6379"


def test_only_a_cluster_is_waited_for():
    assert choose_place(None, local=True).wait_s == choose_place(None, local=False, environment={}).wait_s == 0.0
    running = choose_place("auto", local=False).wait_s
    head = choose_place(None, local=False, environment={"SWEEP_HOME": "/somewhere"}).wait_s
    assert 0 < running < head  # on a head, machines are started for us


def test_the_local_place_opens_without_ray():
    executor = choose_place(None, local=True).open(accelerators=2, source=None)
    try:
        assert isinstance(executor, Local)
        assert [node.accelerators for node in executor.nodes()] == [2]
    finally:
        executor.close()


class Growing:
    """An executor whose nodes come one after another."""

    def __init__(self, *accelerators, waits=True):
        self.coming = list(accelerators)
        self.waits = waits
        self.asked = []
        self.up = []

    def nodes(self):
        if self.coming:
            name = str(len(self.up))
            self.up.append(Node(node_id=name, host=name, cpus=1, accelerators=self.coming.pop(0)))
        return list(self.up)

    def ask_for(self, needs):
        self.asked.append([need.told for need in needs])
        return self.waits


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(places.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(places.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))


def test_an_accelerator_that_is_there_is_found_without_asking():
    executor = Growing(1)
    assert has_accelerator(executor, 0.0)
    assert executor.asked == []


def test_an_accelerator_is_asked_for_once_and_waited_for():
    executor, told = Growing(0, 0, 0, 1), []
    assert has_accelerator(executor, 60.0, told.append)
    assert executor.asked == [["a GPU"]]
    assert told == ["No node declares a GPU yet; waiting up to 60 s for one (--wait)."]


def test_an_accelerator_that_comes_too_late():
    executor = Growing(0, 0, 0, 0, 0, 0, 1)
    assert not has_accelerator(executor, 3.0)
    assert executor.asked == [["a GPU"]]


def test_nobody_to_ask_means_no_waiting():
    executor = Growing(0, 1, waits=False)
    assert not has_accelerator(executor, 1e9)
    assert len(executor.up) == 1


def test_a_plan_asks_nobody_and_does_not_wait():
    executor = Growing(0, 1)
    assert not has_accelerator(executor, None)
    assert has_accelerator(executor, None)
    assert executor.asked == []
