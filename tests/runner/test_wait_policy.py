"""What idle CPU threads do: read by OpenMP when it loads, so it belongs to the nursery."""

import os

import psutil
import pytest

from runner import process
from runner.process import Nursery, answer_of, attend
from sweeps.target import Target
from tests.runner.asking import make_request


def target(policy):
    return Target(name=f"cpu-{policy}", device="cpu", threads=1, wait_policy=policy)


@pytest.fixture
def exported(monkeypatch):
    """Somebody's profile sets all of it."""
    for name in process.WAIT_VARIABLES:
        monkeypatch.setenv(name, "ACTIVE" if name == "OMP_WAIT_POLICY" else "7")


@pytest.mark.usefixtures("exported")
@pytest.mark.parametrize(
    ("policy", "shown"),
    [
        ("default", ["GOMP_SPINCOUNT = '300000'"]),
        ("passive", ["OMP_WAIT_POLICY = 'PASSIVE'", "GOMP_SPINCOUNT = '0'"]),
        ("active", ["OMP_WAIT_POLICY = 'ACTIVE'", "GOMP_SPINCOUNT = '30000000000'"]),
    ],
)
def test_openmp_itself_says_what_it_does(monkeypatch, policy, shown):
    monkeypatch.setenv("OMP_DISPLAY_ENV", "VERBOSE")  # GNU's then prints, as it loads, what it has understood
    nursery = Nursery(wait_policy=policy)
    try:
        found = answer_of(nursery, make_request(deed="nothing", target=target(policy)))
        assert (found["status"], found["wait_policy"]) == ("ok", policy)
        said = os.pread(nursery._log.fileno(), 1 << 20, 0).decode()
    finally:
        nursery.close()
    if "GOMP_SPINCOUNT" not in said:
        pytest.skip("this torch brings another OpenMP than GNU's")
    assert [each for each in shown if each not in said] == []


def test_each_policy_has_a_nursery_of_its_own_and_all_end(no_nursery):
    us = psutil.Process()
    before = set(us.children(recursive=True))
    for policy in ("default", "passive", "default", "passive"):
        found = attend(make_request(deed="nothing", target=target(policy)))
        assert (found["status"], found["wait_policy"]) == ("ok", policy)
    assert len(set(us.children()) - before) == 2
    process.close()
    assert set(us.children(recursive=True)) <= before


def test_a_nursery_that_dies_leaves_that_of_another_policy_alone(no_nursery):
    for policy in ("default", "passive"):
        attend(make_request(deed="nothing", target=target(policy)))
    kept = process._nurseries["default"]._process.pid
    psutil.Process(process._nurseries["passive"]._process.pid).kill()
    assert attend(make_request(deed="nothing", target=target("passive")))["status"] == "crashed"
    assert attend(make_request(deed="nothing", target=target("default")))["status"] == "ok"
    assert process._nurseries["default"]._process.pid == kept
    assert attend(make_request(deed="nothing", target=target("passive")))["status"] == "ok"


def test_a_trial_in_a_nursery_of_another_policy_is_invalid():
    nursery = Nursery()
    try:
        found = answer_of(nursery, make_request(deed="nothing", target=target("passive")))
    finally:
        nursery.close()
    assert (found["status"], found["wait_policy"]) == ("invalid", "default")
    assert found["error_message"] == "wait_policy passive was asked for, and this process began with default"
