"""How long it takes, by what has been measured."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from runner.outlook import Outlook, durations, in_words
from tests.runner.asking import lasting, make_record, make_sweep


@pytest.fixture
def trials():
    sweep = make_sweep(axes={"batch_size": [1, 2, 3, 4]}, passes=2)
    return [trial for pair in sweep.pairs() for trial in pair]


@pytest.fixture
def outlook(trials):
    made = Outlook()
    for trial in trials:  # 8 of cpu, 8 of cpu-1
        made.plan(trial)
    return made


def of(trials, target):
    return [trial for trial in trials if trial.target.name == target]


def test_the_rest_takes_as_long_as_what_has_ended_and_is_shared_by_the_nodes(outlook, trials):
    assert outlook.left_s() is None
    outlook.begin(trials[0], "a")
    outlook.end(lasting(of(trials, "cpu")[0], 2.0))
    assert outlook.left_s() == 15 * 2.0, "a target of which nothing is known is like the other"
    outlook.end(lasting(of(trials, "cpu-1")[0], 4.0))
    outlook.end(lasting(of(trials, "cpu-1")[1], 8.0))
    assert outlook.left_s() == 7 * 2.0 + 6 * 6.0
    outlook.begin(trials[3], "b")
    assert outlook.left_s() == (7 * 2.0 + 6 * 6.0) / 2
    outlook.lose("b")
    outlook.plan(of(trials, "cpu")[0], -7)
    assert outlook.left_s() == 6 * 6.0


def test_nodes_of_different_kinds_work_at_the_same_time(outlook, trials):
    cpu, cpu_1 = (dataclasses.replace(of(trials, target)[0], paired=False) for target in ("cpu", "cpu-1"))
    for trial, node in ((cpu, "a"), (cpu, "b"), (cpu_1, "c")):
        outlook.begin(trial, node)
    outlook.end(lasting(cpu, 4.0))
    outlook.end(lasting(cpu_1, 1.0))
    assert outlook.left_s() == max(7 * 4.0 / 2, 7 * 1.0)


def test_what_never_ran_takes_no_time(outlook, trials):
    outlook.begin(trials[0], "a")
    outlook.end(make_record(of(trials, "cpu-1")[0], "skipped_larger"))
    assert outlook.left_s() is None
    outlook.end(lasting(of(trials, "cpu")[0], 4.0))
    assert outlook.left_s() == 14 * 4.0


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.0, "0 s"), (89.2, "90 s"), (90.0, "2 min"), (5399.0, "90 min"), (9000.0, "2.5 h")]
)
def test_durations_in_words(seconds, words):
    assert in_words(seconds) == words


def test_durations_are_those_of_the_rows():
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    ended = [1, 2, 30, None]
    rows = [{"target": "cpu", "started_at": begun, "finished_at": s and begun + timedelta(seconds=s)} for s in ended]
    assert durations(rows) == {"cpu": 2.0}
    assert durations([]) == {}
