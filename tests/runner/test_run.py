"""The driver loop, with an executor that answers at once behind the contract of the real ones. The store is real."""

import dataclasses
import io
import math
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby

import pytest
from rich.console import Console

from runner import run as driving
from runner import store as storing
from runner.executor import HELD, Answer, Node
from runner.progress import Progress
from runner.run import open_trials, record_of, run, statuses
from runner.search import Search
from runner.store import Store
from sweeps.errors import StudyError
from sweeps.study import read_records
from tests.runner.asking import TINY, make_sweep, make_trial


def node(name, *, accelerators=0, cpus=4):
    return Node(node_id=name, host=f"host-{name}", cpus=cpus, accelerators=accelerators)


class Pretend:
    """An executor whose trials end as `answer` says when they are waited for, one a call, in the order of starting."""

    def __init__(self, nodes, answer=lambda trial, node: "ok", *, waits=False, between=lambda executor: None):
        self.up = list(nodes)
        self.answer = answer
        self.waits = waits
        self.between = between  # what happens in the world whenever the driver looks for nodes
        self.asked = []
        self.started = []  # (trial, name of its node)
        self.running = []

    def nodes(self):
        self.between(self)
        return list(self.up)

    def ask_for(self, needs):
        self.asked.append([need.told for need in needs])
        return self.waits

    def start(self, trial, node):
        assert node in self.up, "the node has gone"
        assert node.node_id not in [other.node_id for _, other in self.running], "a node has two trials at once"
        self.started.append((trial, node.node_id))
        self.running.append((trial, node))

    def wait(self, timeout_s):
        if not self.running:
            return []
        trial, node = self.running.pop(0)
        status = self.answer(trial, node)
        columns = {"status": status, "host": node.host, "node_id": node.node_id, "ray": "2.60.0"}
        if status == "disturbed":
            columns |= {"status": "ok", "interference": "contended"}
        if status == "node_lost":
            self.up = [other for other in self.up if other != node]
        return [Answer(trial=trial, node=node, columns=columns)]

    def close(self):
        pass

    def of(self, target):
        return [name for trial, name in self.started if trial.target.name == target]


class Watched(Progress):
    """Progress that looks at the disk whenever a record is reported."""

    def __init__(self, folder, total):
        super().__init__(Console(file=io.StringIO()), folder / "log.txt", total=total)
        self.folder = folder
        self.reported = []
        self.waited = []
        self.passed_over = 0

    def stored(self, records):
        on_disk = {row["trial_id"] for row in rows(self.folder)}
        assert {record.trial_id for record in records} <= on_disk
        self.reported += records
        super().stored(records)

    def waiting(self, targets, seconds):
        self.waited.append((list(targets), seconds))
        super().waiting(targets, seconds)

    def skipped(self, trial):
        self.passed_over += 1
        super().skipped(trial)


def rows(folder):
    table, warnings = read_records(folder)
    assert warnings == []
    return table.to_pylist()


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(driving, "TICK_S", 0.001)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "made"


@dataclass
class Outcome:
    ran: int
    statuses: Counter


def drive(folder, sweep, executor, *, retry=frozenset(), **settings):
    store = Store(folder, sweep)
    todo = open_trials(sweep.pairs(), store, retry)
    with Watched(folder, sum(map(len, todo))) as progress:
        settings = {"code_version": "v1", "axis": sweep.axis, "by_target": sweep.pairing == "by_target", **settings}
        try:
            ran = run(sweep.pairs(), todo, store, executor, progress, **settings)
            return Outcome(ran, statuses(sweep.pairs(), store)), progress
        finally:
            store.close()


PLAIN = {"axis": "batch_size", "by_target": False, "code_version": "v1"}
SIX = {"axes": {"batch_size": [1, 2, 3, 4, 5, 6]}, "passes": 2}
WITH_GPU = {**SIX, "targets": ["cpu", "gpu"]}
BY_TARGET = {**WITH_GPU, "pairing": "by_target"}


def test_the_plan_is_run_once_in_its_order_on_one_node(folder):
    sweep = make_sweep(**SIX)
    executor = Pretend([node("a")])
    outcome, progress = drive(folder, sweep, executor)
    planned = [trial for pair in sweep.pairs() for trial in pair]
    assert [trial for trial, _ in executor.started] == planned
    assert [record.trial_id for record in progress.reported] == [trial.trial_id for trial in planned]
    assert outcome.ran == 24
    assert outcome.statuses == {"ok": 24}
    # Passes one after another, every size once in each, targets in turn within a pair.
    assert [len(list(group)) for _, group in groupby(planned, lambda trial: trial.pass_index)] == [12, 12]
    assert [len(list(group)) for _, group in groupby(planned, lambda trial: trial.pair_id)] == [2] * 12
    sizes = [[pair[0].parameters["batch_size"] for pair in sweep.pairs() if pair[0].pass_index == p] for p in (0, 1)]
    assert sorted(sizes[0]) == sorted(sizes[1]) == [1, 2, 3, 4, 5, 6]
    assert sizes[0] != sizes[1]


def test_rows_say_what_was_asked_and_where_it_ran(folder):
    sweep = make_sweep(**SIX)
    drive(folder, sweep, Pretend([node("a")]))
    found = {row["trial_id"]: row for row in rows(folder)}
    for trial in (trial for pair in sweep.pairs() for trial in pair):
        row = found[trial.trial_id]
        assert (row["sweep"], row["workload"], row["target"]) == ("made", "mlp", trial.target.name)
        assert (row["pair_id"], row["pair_order"], row["pass_index"]) == (
            trial.pair_id,
            trial.pair_order,
            trial.pass_index,
        )
        assert (row["batch_size"], row["width"], row["paired"]) == (trial.parameters["batch_size"], 8, True)
        assert (row["attempt"], row["code_version"], row["deadline_s"]) == (1, "v1", sweep.deadline_s)
        assert (row["host"], row["node_id"]) == ("host-a", "a")


def test_two_nodes_share_the_pairs_and_a_pair_stays_on_one(folder):
    executor = Pretend([node("a"), node("b")])
    outcome, _ = drive(folder, make_sweep(**SIX), executor)
    assert outcome.statuses == {"ok": 24}
    places = {}
    for trial, name in executor.started:
        places.setdefault(trial.pair_id, []).append(name)
    assert all(len(names) == 2 and len(set(names)) == 1 for names in places.values())
    assert Counter(names[0] for names in places.values()) == {"a": 6, "b": 6}
    for name in ("a", "b"):  # back to back there
        own = [trial.pair_id for trial, place in executor.started if place == name]
        assert [len(list(group)) for _, group in groupby(own)] == [2] * 6


def test_a_node_that_comes_later_is_used(folder):
    def between(executor):
        if len(executor.started) == 6:
            executor.up = [node("a"), node("b")]

    executor = Pretend([node("a")], between=between)
    drive(folder, make_sweep(**SIX), executor)
    assert {name for _, name in executor.started} == {"a", "b"}
    assert len(executor.started) == 24


@pytest.mark.parametrize("status", ["node_lost", "ok"])
def test_a_node_that_is_lost_in_the_middle_of_a_pair_hands_the_whole_pair_to_another(folder, status):
    """It can take its trial with it, or be gone when the answer is in. A pair is measured on one node."""

    def answer(trial, at):
        if at.node_id != "a":
            return "ok"
        executor.up = [node("b")]
        return status

    executor = Pretend([node("a"), node("b")], answer)
    sweep = make_sweep(**SIX)
    outcome, _ = drive(folder, sweep, executor)
    assert outcome.statuses == {"ok": 24}
    assert outcome.ran == 25
    pair = sweep.pairs()[0]
    assert executor.started[0] == (pair[0], "a")
    assert [name for _, name in executor.started].count("a") == 1
    later = [trial for trial, name in executor.started if name == "b"]
    assert later[2:4] == pair, "after the pair that b has, before those that have not begun"
    final = [row for row in rows(folder) if row["pair_id"] == pair[0].pair_id and row["node_id"] == "b"]
    assert {row["trial_id"] for row in final} == {trial.trial_id for trial in pair}


def test_a_pair_is_moved_once_and_then_left_to_the_next_run(folder):
    sweep = make_sweep(**SIX)
    lost = sweep.pairs()[2][0].trial_id
    gone = lambda trial, at: "node_lost" if trial.trial_id == lost else "ok"  # noqa: E731
    outcome, _ = drive(folder, sweep, Pretend([node("a"), node("b"), node("c")], gone))
    assert outcome.statuses == {"ok": 23, "node_lost": 1}
    executor = Pretend([node("a")])
    outcome, _ = drive(folder, sweep, executor)
    assert [trial.trial_id for trial, _ in executor.started] == [lost]
    assert (outcome.ran, outcome.statuses) == (1, {"ok": 24})
    assert sorted((row["attempt"], row["status"]) for row in rows(folder) if row["trial_id"] == lost) == [
        (1, "node_lost"),
        (2, "node_lost"),
        (3, "ok"),
    ]


def test_what_is_done_is_not_run_again(folder):
    sweep = make_sweep(**SIX)
    endings = ["ok", "error", "crashed", "invalid", "oom", "oom"]  # the last is skipped, or was before the other
    drive(folder, sweep, Pretend([node("a")], lambda trial, _: endings[trial.parameters["batch_size"] - 1]))
    executor = Pretend([node("a")])
    outcome, _ = drive(folder, sweep, executor)
    assert executor.started == []
    assert outcome.ran == 0
    assert outcome.statuses["oom"] + outcome.statuses["skipped_larger"] == 8
    assert {status: outcome.statuses[status] for status in endings[:4]} == dict.fromkeys(endings[:4], 4)


def test_statuses_can_be_asked_again(folder):
    sweep = make_sweep(**SIX)
    drive(folder, sweep, Pretend([node("a")], lambda trial, _: "ok" if trial.target.name == "cpu" else "error"))
    executor = Pretend([node("a")])
    outcome, _ = drive(folder, sweep, executor, retry=frozenset({"error"}))
    assert {trial.target.name for trial, _ in executor.started} == {"cpu-1"}
    assert outcome.statuses == {"ok": 24}


def ended(folder, sweep, axis="batch_size"):
    """Final status by target, pass and size."""
    store = Store(folder, sweep)
    store.close()
    trials = [trial for pair in sweep.pairs() for trial in pair]
    return {(t.target.name, t.pass_index, t.parameters[axis]): store.final(t.trial_id) for t in trials}


@pytest.mark.parametrize("status", ["oom", "timeout"])
def test_what_is_larger_than_what_was_too_large_is_skipped(folder, status):
    too_large = lambda trial, _: status if trial.target.name == "cpu" and trial.parameters["batch_size"] > 3 else "ok"  # noqa: E731
    sweep = make_sweep(**SIX)
    executor = Pretend([node("a")], too_large)
    outcome, _ = drive(folder, sweep, executor)
    found = ended(folder, sweep)
    assert {key: s for key, (s, *_) in found.items() if key[0] == "cpu-1" or key[2] <= 3} == {
        key: "ok" for key in found if key[0] == "cpu-1" or key[2] <= 3
    }
    skipped = {key: message for key, (s, _, message) in found.items() if s == "skipped_larger"}
    tried = [trial.parameters["batch_size"] for trial, _ in executor.started if trial.target.name == "cpu"]
    larger = [size for size in tried if size > 3]
    assert larger == sorted(larger, reverse=True), "a size is tried only where no smaller one was too large"
    assert len(skipped) == 6 - len(larger)
    what = {"oom": "ran out of memory", "timeout": "hit the deadline"}[status]
    assert set(skipped.values()) <= {
        f"cpu {what} at batch_size {size} already; --retry {status},skipped_larger asks both again"
        for size in (4, 5, 6)
    }
    assert outcome.ran == 24 - len(skipped)


def test_skipping_takes_no_time(folder, monkeypatch):
    """A skipped trial leaves its node free: the next one is looked for at once and not after a tick."""
    drive(folder, make_sweep(axes={"batch_size": [1]}), Pretend([node("a")], lambda *_: "oom"))
    pauses = []
    monkeypatch.setattr(driving.time, "sleep", pauses.append)
    outcome, _ = drive(folder, make_sweep(axes={"batch_size": list(range(1, 50))}), Pretend([node("a")]))
    assert outcome.statuses == {"oom": 2, "skipped_larger": 96}
    assert len(pauses) <= 1


def test_what_was_too_large_in_an_earlier_run_counts_until_it_is_asked_again(folder):
    oom = lambda trial, _: "oom" if trial.target.name == "cpu" else "ok"  # noqa: E731
    drive(folder, make_sweep(axes={"batch_size": [2]}), Pretend([node("a")], oom))
    grown = make_sweep(axes={"batch_size": [1, 2, 4]})
    executor = Pretend([node("a")])
    outcome, _ = drive(folder, grown, executor)
    assert outcome.statuses == {"ok": 4, "oom": 1, "skipped_larger": 1}
    assert executor.of("cpu") == ["a"]
    outcome, _ = drive(folder, grown, Pretend([node("a")]), retry=frozenset({"oom", "skipped_larger"}))
    assert outcome.statuses == {"ok": 6}


def test_another_configuration_is_not_too_large(folder):
    oom = lambda trial, _: "oom" if trial.parameters["width"] == 8 else "ok"  # noqa: E731
    parameters = {name: value for name, value in TINY.items() if name != "width"}
    sweep = make_sweep(axes={"batch_size": [1, 2], "width": [4, 8]}, parameters=parameters)
    outcome, _ = drive(folder, sweep, Pretend([node("a")], oom))
    assert outcome.statuses["ok"] == 4


def test_a_fault_that_all_have_in_common_stops_the_sweep(folder):
    outcome, _ = drive(folder, make_sweep(**SIX), Pretend([node("a"), node("b")], lambda *_: "error"))
    assert outcome.statuses["error"] < 10
    assert outcome.statuses[""] + outcome.statuses["error"] == 24
    assert "all ended in the same way (error: )" in (folder / "log.txt").read_text()
    again, _ = drive(folder, make_sweep(**SIX), Pretend([node("a")]))
    assert again.statuses["ok"] == outcome.statuses[""]


@pytest.mark.parametrize(
    "answer",
    [
        lambda trial, at: "error" if at.node_id == "a" else "ok",
        lambda trial, at: "error" if trial.target.name == "cpu" else "ok",
        lambda trial, at: "timeout",
    ],
    ids=["one node", "one target", "no fault of the code"],
)
def test_a_fault_of_some_does_not(folder, answer):
    outcome, _ = drive(folder, make_sweep(**SIX), Pretend([node("a"), node("b")], answer))
    assert outcome.statuses[""] == 0


def test_when_time_is_up_nothing_more_is_begun(folder):
    sweep = make_sweep(**SIX)
    executor = Pretend([node("a")])
    executor.between = lambda executor: len(executor.started) == 3 and clock.append(1)
    clock = []
    moment = driving.time.monotonic
    driving_time = type("Time", (), {"monotonic": lambda: math.inf if clock else moment(), "sleep": driving.time.sleep})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(driving, "time", driving_time)
        outcome, _ = drive(folder, sweep, executor, until=moment() + 1e6)
    assert outcome.statuses == {"ok": 4, "": 20}, "the pair that had begun is finished"
    assert "The time is up" in (folder / "log.txt").read_text()
    again, _ = drive(folder, sweep, Pretend([node("a")]))
    assert again.statuses == {"ok": 24}


def test_a_longer_sweep_runs_what_is_new(folder):
    drive(folder, make_sweep(**SIX), Pretend([node("a")]))
    executor = Pretend([node("a")])
    drive(folder, make_sweep(axes={"batch_size": [6, 7]}, passes=3), executor)
    assert Counter((t.parameters["batch_size"], t.pass_index) for t, _ in executor.started) == {
        (7, 0): 2,
        (7, 1): 2,
        (6, 2): 2,
        (7, 2): 2,
    }


def test_pairs_with_a_gpu_run_where_one_is(folder):
    executor = Pretend([node("c"), node("g", accelerators=1)])
    outcome, _ = drive(folder, make_sweep(**WITH_GPU), executor)
    assert set(executor.of("cpu")) == set(executor.of("gpu")) == {"g"}
    assert outcome.statuses == {"ok": 24}


def test_a_missing_gpu_node_is_asked_for_and_waited_for(folder):
    looks = []

    def between(executor):
        looks.append(None)
        if len(looks) == 20:
            executor.up.append(node("g", accelerators=1))

    executor = Pretend([node("c")], waits=True, between=between)
    outcome, progress = drive(folder, make_sweep(**BY_TARGET), executor, wait_s=600.0)
    assert outcome.statuses == {"ok": 24}
    assert set(executor.of("gpu")) == {"g"}
    assert set(executor.of("cpu")) == {"c"}
    assert executor.of("cpu")[:10] == [name for _, name in executor.started[:10]]  # CPU trials did not wait
    assert executor.asked == [["a GPU"]]
    assert progress.waited == [(["gpu"], 600.0)]


def test_a_gpu_node_that_never_comes_is_a_row_with_a_cause_and_the_cpu_trials_run(folder):
    executor = Pretend([node("c"), node("d")], waits=True)
    outcome, progress = drive(folder, make_sweep(**WITH_GPU), executor, wait_s=0.02)
    assert outcome.statuses == {"ok": 12, "unavailable": 12}
    assert outcome.ran == 12
    assert {name for _, name in executor.started} == {"c", "d"}
    missing = [row for row in rows(folder) if row["status"] == "unavailable"]
    assert {row["target"] for row in missing} == {"gpu"}
    assert {row["error_message"] for row in missing} == {"none of the 2 nodes declares a GPU, which gpu needs"}
    assert {row["error_type"] for row in missing} == {"NoNode"}
    assert dict(missing[0]["null_reasons"])["step_times_s"] == "the trial ended as unavailable"
    assert len(progress.waited) == 1


def test_where_nobody_can_start_machines_nothing_is_waited_for(folder):
    outcome, progress = drive(folder, make_sweep(**WITH_GPU), Pretend([node("c")]), wait_s=600.0)
    assert outcome.statuses == {"ok": 12, "unavailable": 12}
    assert progress.waited == []


def test_a_known_cause_of_absence_is_told(folder):
    drive(folder, make_sweep(**WITH_GPU), Pretend([node("c")]), absence="no CUDA device: no driver")
    assert {row["error_message"] for row in rows(folder) if row["status"] == "unavailable"} == {
        "no CUDA device: no driver"
    }


def test_the_same_unavailable_answer_is_stored_once_and_another_is_stored(folder):
    sweep = make_sweep(**WITH_GPU)
    drive(folder, sweep, Pretend([node("c")]), absence="no driver")
    for _ in range(2):
        outcome, progress = drive(folder, sweep, Pretend([node("c")]), absence="no driver")
        assert len(rows(folder)) == 24
        assert progress.passed_over == 12
        assert progress.reported == []
        assert (outcome.ran, outcome.statuses) == (0, {"ok": 12, "unavailable": 12})
    _, progress = drive(folder, sweep, Pretend([node("c")]), absence="driver too old")
    assert len(rows(folder)) == 36
    assert {record.attempt for record in progress.reported} == {2}
    outcome, _ = drive(folder, sweep, Pretend([node("g", accelerators=1)]))
    assert outcome.statuses == {"ok": 24}


def test_a_cluster_without_any_node_answers_that(folder):
    outcome, _ = drive(folder, make_sweep(**WITH_GPU), Pretend([], waits=True), wait_s=0.02)
    assert (outcome.ran, outcome.statuses) == (0, {"unavailable": 24})
    assert {row["error_message"] for row in rows(folder)} == {"no node that runs trials came up within 0.02 s"}


def test_by_target_keeps_cpu_trials_off_gpu_machines(folder):
    executor = Pretend([node("g", accelerators=1), node("c")])
    outcome, _ = drive(folder, make_sweep(**BY_TARGET), executor)
    assert set(executor.of("cpu")) == {"c"}
    assert set(executor.of("gpu")) == {"g"}
    assert outcome.statuses == {"ok": 24}
    assert not any(row["paired"] for row in rows(folder))


def test_by_target_waits_for_a_cpu_machine(folder):
    looks = []

    def between(executor):
        looks.append(None)
        if len(looks) == 20:
            executor.up.append(node("c"))

    executor = Pretend([node("g", accelerators=1)], waits=True, between=between)
    drive(folder, make_sweep(**BY_TARGET), executor, wait_s=600.0)
    assert set(executor.of("cpu")) == {"c"}
    assert executor.asked == [["CPUs"]]


def test_by_target_uses_a_gpu_machine_for_cpu_trials_where_there_is_no_other(folder):
    executor = Pretend([node("g", accelerators=1)])
    outcome, _ = drive(folder, make_sweep(**BY_TARGET), executor)
    assert set(executor.of("cpu")) == {"g"}
    assert outcome.statuses == {"ok": 24}


def test_a_gpu_machine_that_is_lost_for_good(folder):
    executor = Pretend(
        [node("c"), node("g", accelerators=1)],
        lambda trial, _: "node_lost" if len(executor.of("gpu")) == 3 and trial.target.name == "gpu" else "ok",
    )
    outcome, _ = drive(folder, make_sweep(**BY_TARGET), executor)
    assert outcome.statuses == {"ok": 14, "unavailable": 10}


def test_an_answer_of_a_node_that_is_lost_later_is_better_than_none(folder):
    """The accelerator's node goes while the second trial of a pair runs there: the first one's answer stays."""
    gone = lambda trial, _: "node_lost" if len(executor.started) == 2 else "ok"  # noqa: E731
    executor = Pretend([node("g", accelerators=1)], gone, between=lambda e: None)
    sweep = make_sweep(**WITH_GPU)
    outcome, _ = drive(folder, sweep, executor)
    assert outcome.statuses == {"ok": 1, "unavailable": 23}


def test_an_interrupted_run_keeps_what_has_ended(folder):
    sweep = make_sweep(**SIX)

    def interrupted(trial, _):
        if len(executor.started) == 8:
            raise KeyboardInterrupt
        return "ok"

    executor = Pretend([node("a")], interrupted)
    store = Store(folder, sweep)
    progress = Watched(folder, 24)
    with pytest.raises(KeyboardInterrupt), progress:
        run(sweep.pairs(), open_trials(sweep.pairs(), store), store, executor, progress, **PLAIN)
    store.close()
    assert len(rows(folder)) == 7
    assert [record.trial_id for record in progress.reported] == [t.trial_id for t, _ in executor.started[:7]]
    again = Pretend([node("a")])
    outcome, _ = drive(folder, sweep, again)
    assert (outcome.ran, outcome.statuses) == (17, {"ok": 24})
    assert len(rows(folder)) == 24
    done = {trial.trial_id for trial, _ in executor.started[:7]}
    assert done.isdisjoint(trial.trial_id for trial, _ in again.started)


def test_a_disk_that_fails_ends_the_run_as_an_error_of_the_study(folder):
    sweep = make_sweep(**SIX)

    def full(trial, _):
        if len(executor.started) == 8:
            for part in (folder / "trials").iterdir():
                part.rename(folder / part.name)
            (folder / "trials").rmdir()
        return "ok"

    executor = Pretend([node("a")], full)
    store = Store(folder, sweep)
    progress = Watched(folder, 24)
    with pytest.raises(StudyError, match="what was reported before is safe"), progress:
        run(sweep.pairs(), open_trials(sweep.pairs(), store), store, executor, progress, **PLAIN)


def test_a_trial_without_a_row_is_counted_as_such(folder):
    sweep = make_sweep(**SIX)
    store = Store(folder, sweep)
    with Watched(folder, 4) as progress:
        todo = open_trials(sweep.pairs(), store)[:2]
        assert run(sweep.pairs(), todo, store, Pretend([node("a")]), progress, **PLAIN) == 4
    assert statuses(sweep.pairs(), store) == {"ok": 4, "": 20}


class Trained(Pretend):
    """Trials with losses: `losses` says which, by target and attempt."""

    def __init__(self, losses):
        super().__init__([node("a")])
        self.losses = losses

    def wait(self, timeout_s):
        answers = super().wait(timeout_s)
        for answer in answers:
            answer.columns.update({"device": "cpu", "precision": "ieee", **self.losses(answer.trial)})
        return answers


def by_target(trial, one, other):
    return {"loss_step_1": one if trial.target.name == "cpu-1" else other}


def test_targets_that_reach_other_losses_do_not_do_the_same_work(folder):
    executor = Trained(lambda trial: by_target(trial, 2.5, 2.5 if trial.parameters["batch_size"] < 3 else 2.6))
    outcome, _ = drive(folder, make_sweep(**SIX), executor)
    assert outcome.statuses == {"ok": 16, "invalid": 8}
    wrong = [row for row in rows(folder) if row["status"] == "invalid"]
    assert {row["batch_size"] for row in wrong} == {3, 4, 5, 6}
    assert all(row["pair_order"] == 1 for row in wrong), "the second one of a pair is compared with the first"
    assert {row["error_type"] for row in wrong} == {"OtherWork"}
    named = [row for row in wrong if row["target"] == "cpu"]
    assert named[0]["error_message"].startswith("loss 2.6 at step 1, but 2.5 on cpu-1: they do not do the same work")
    assert "compare_losses = False" in named[0]["error_message"]


def test_losses_of_a_run_before_this_one_count_too(folder):
    drive(folder, make_sweep(**SIX), Trained(lambda trial: by_target(trial, 2.5, 2.5)))
    grown = make_sweep(**SIX, targets=["cpu-1", "cpu", "cpu-2"])
    executor = Trained(lambda trial: {"loss_step_1": 2.6})
    outcome, _ = drive(folder, grown, executor)
    assert executor.of("cpu") == []
    assert outcome.statuses == {"ok": 24, "invalid": 12}


def test_a_workload_may_say_that_its_losses_differ_by_design(folder):
    losses = lambda trial: {**by_target(trial, 2.5, 9.0), "compare_losses": False}  # noqa: E731
    outcome, _ = drive(folder, make_sweep(**SIX), Trained(losses))
    assert outcome.statuses == {"ok": 24}


def test_rungs_are_compared_with_their_like(folder):
    sweep = make_sweep(explain=True, parameters={**TINY, "sync": "every_step"})
    ladder = sweep.ladder([{"batch_size": 2}])
    store = Store(folder, sweep)
    losses = {"preload": 1.0, "nosync": 2.0, "cold": None}
    executor = Trained(lambda trial: {"loss_step_1": losses[trial.rung]})
    with Watched(folder, 6) as progress:
        assert run(ladder, open_trials(ladder, store), store, executor, progress, **PLAIN) == 6
    assert statuses(ladder, store) == {"ok": 6}
    assert {row["rung"] for row in rows(folder)} == set(losses)


def test_a_record_joins_question_and_answer():
    trial = make_trial(target="cpu-1")
    begun = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    columns = {
        "status": "ok",
        "started_at": begun.isoformat(),
        "finished_at": (begun + timedelta(seconds=2)).isoformat(),
        "step_times_s": [0.1, 0.2],
        "gpu_name": None,
        "null_reasons": {"flops_per_step": "the workload does not say"},
        "answered_by_a_newer_version": 7,
    }
    record = record_of(trial, columns, attempt=3, code_version="v9")
    assert (record.trial_id, record.attempt, record.code_version) == (trial.trial_id, 3, "v9")
    assert (record.started_at, record.finished_at - record.started_at) == (begun, timedelta(seconds=2))
    assert (record.parameters, record.target, record.device) == (trial.parameters, "cpu-1", "cpu")
    assert record.null_reasons["flops_per_step"] == "the workload does not say"
    assert record.null_reasons["gpu_name"] == "the trial ran on the CPU"
    assert record.null_reasons["ray"] == "run without Ray"


@pytest.mark.parametrize("status", ["ok", "crashed", "unavailable"])
def test_every_null_has_a_reason_and_nothing_else_has(status):
    record = record_of(make_trial(), {"status": status, "host": "here"}, attempt=1, code_version="v1")
    nulls = {name for name, value in record.row().items() if value is None}
    assert set(record.null_reasons) == nulls - {"error_type", "error_message"}
    assert "host" not in record.null_reasons
    assert all(record.null_reasons.values())


def test_a_disturbed_trial_is_measured_once_more_late_in_its_pass_on_its_node(folder):
    sweep = make_sweep(axes={"batch_size": [2, 4, 8, 16]}, passes=2)
    first = sweep.pairs()[0][0].trial_id
    seen = Counter()

    def answer(trial, _):
        seen[trial.trial_id] += 1
        return "disturbed" if trial.trial_id == first and seen[first] == 1 else "ok"

    executor = Pretend([node("a"), node("b")], answer)
    drive(folder, sweep, executor)
    places = [n for n, (trial, _) in enumerate(executor.started) if trial.trial_id == first]
    assert len(places) == 2
    assert executor.started[places[0]][1] == executor.started[places[1]][1], "on its own node"
    between = executor.started[places[0] + 1 : places[1]]
    assert {trial.pass_index for trial, name in between if name == executor.started[places[0]][1]} == {0}
    kept = [(row["attempt"], row["interference"]) for row in rows(folder) if row["trial_id"] == first]
    assert sorted(kept) == [(1, "contended"), (2, None)]
    assert max(seen.values()) == 2
    assert sum(seen.values()) == sweep.size + 1


def test_a_trial_that_is_disturbed_twice_stays_as_it_is(folder):
    sweep = make_sweep()
    first = sweep.pairs()[0][0].trial_id
    executor = Pretend([node("a")], lambda trial, _: "disturbed" if trial.trial_id == first else "ok")
    drive(folder, sweep, executor)
    assert Counter(trial.trial_id for trial, _ in executor.started)[first] == 2


def test_on_a_machine_that_is_busy_throughout_repeating_ends(folder):
    sweep = make_sweep(axes={"batch_size": list(range(1, 21))}, passes=2)
    executor = Pretend([node("a")], lambda *_: "disturbed")
    drive(folder, sweep, executor)
    assert len(executor.started) == sweep.size + driving.MOST_IN_VAIN


def test_what_was_to_be_repeated_on_a_lost_node_is_left_as_it_is(folder):
    sweep = make_sweep(passes=1)
    first = sweep.pairs()[0][0].trial_id

    def lose(executor):
        if len(executor.started) >= 2 and not executor.running:
            executor.up = [node("b")]

    executor = Pretend(
        [node("a")], lambda trial, _: "disturbed" if trial.trial_id == first else "ok", between=lose, waits=True
    )
    drive(folder, sweep, executor)
    assert Counter(trial.trial_id for trial, _ in executor.started)[first] == 1


def labelled(name, **labels):
    return Node(node_id=name, host=f"host-{name}", cpus=4, accelerators=0, labels=labels)


WHERE = [
    {"name": "small", "device": "cpu", "where": {"size": "s"}},
    {"name": "large", "device": "cpu", "where": {"size": "l", "zone": "z"}},
]


def test_targets_run_on_nodes_with_their_labels(folder):
    executor = Pretend([labelled("a", size="s"), labelled("b", size="l", zone="z"), labelled("c", size="l")])
    outcome, _ = drive(folder, make_sweep(**{**SIX, "targets": WHERE}), executor)
    assert outcome.statuses == {"ok": 24}
    assert (set(executor.of("small")), set(executor.of("large"))) == ({"a"}, {"b"})
    assert not any(row["paired"] for row in rows(folder))


def test_labels_that_no_node_has_are_asked_for_and_then_unavailable(folder):
    executor = Pretend([labelled("a", size="s"), labelled("c", size="l")], waits=True)
    outcome, _ = drive(folder, make_sweep(**{**SIX, "targets": WHERE}), executor, wait_s=0.02)
    assert outcome.statuses == {"ok": 12, "unavailable": 12}
    assert executor.asked == [["size: l, zone: z"]]
    missing = {row["error_message"] for row in rows(folder) if row["status"] == "unavailable"}
    assert missing == {"none of the 2 nodes declares size: l, zone: z, which large needs"}


def busy(name):
    return Node(node_id=name, host=f"host-{name}", cpus=4, accelerators=0, is_held=True)


def test_a_node_that_somebody_else_uses_is_used_when_it_is_free(folder):
    def between(executor):
        if len(executor.started) == 6:
            executor.up = [node("a"), node("b")]

    executor = Pretend([node("a"), busy("b")], between=between)
    outcome, _ = drive(folder, make_sweep(**SIX), executor)
    assert outcome.statuses == {"ok": 24}
    assert {name for _, name in executor.started[:6]} == {"a"}
    assert {name for _, name in executor.started} == {"a", "b"}
    assert (folder / "log.txt").read_text().count("host-b is busy") == 1


def unfit(name):
    return dataclasses.replace(node(name), is_fit=False, remark=f"host-{name} has another Ray")


def test_a_node_that_does_not_go_with_the_driver_runs_nothing_and_is_told_once(folder):
    executor = Pretend([node("a"), unfit("b")])
    outcome, _ = drive(folder, make_sweep(**SIX), executor)
    assert outcome.statuses == {"ok": 24}
    assert {name for _, name in executor.started} == {"a"}
    assert (folder / "log.txt").read_text().count("host-b has another Ray") == 1


def test_where_no_node_goes_with_the_driver_that_is_the_reason(folder):
    outcome, _ = drive(folder, make_sweep(**SIX), Pretend([unfit("b")]))
    assert outcome.statuses == {"unavailable": 24}
    assert {row["error_message"] for row in rows(folder)} == {"host-b has another Ray"}


def test_a_node_that_is_only_odd_is_used_and_told(folder):
    odd = dataclasses.replace(node("b"), remark="host-b has PyTorch 2.12.0")
    executor = Pretend([node("a"), odd])
    drive(folder, make_sweep(**SIX), executor)
    assert {name for _, name in executor.started} == {"a", "b"}
    assert (folder / "log.txt").read_text().count("host-b has PyTorch 2.12.0") == 1


def test_nodes_work_on_while_rows_are_written(folder, monkeypatch):
    """The next trial of a node is begun before the row of the last one goes to disk."""
    begun = []
    real = Store.flush

    def flush(store, *, now=False):
        if not now:
            begun.append(len(executor.running))
        return real(store, now=now)

    monkeypatch.setattr(Store, "flush", flush)
    executor = Pretend([node("a"), node("b")])
    drive(folder, make_sweep(**SIX), executor)
    assert begun[:-1] == [2] * 23, "both nodes, but for the very last trial"
    assert begun[-1] == 1


def test_where_all_nodes_are_busy_the_wait_ends_with_that_reason(folder):
    executor = Pretend([busy("b")], waits=True)
    outcome, progress = drive(folder, make_sweep(**SIX), executor, wait_s=0.02)
    assert (outcome.ran, outcome.statuses) == (0, {"unavailable": 24})
    assert len(progress.waited) == 1
    assert {row["error_message"] for row in rows(folder)} == {
        "another user of the cluster has taken CPUs of host-b, for 0.02 s and more"
    }


def test_a_trial_that_never_began_is_given_to_another_node(folder):
    class Taken(Pretend):
        def wait(self, timeout_s):
            answers = super().wait(timeout_s)
            for answer in answers:
                if answer.node.node_id == "a":
                    answer.columns.update({"status": "unavailable", "error_type": HELD})
                    self.up = [node("b"), busy("a")]
            return answers

    executor = Taken([node("a"), node("b")])
    outcome, _ = drive(folder, make_sweep(**SIX), executor)
    assert outcome.statuses == {"ok": 24}
    assert [name for _, name in executor.started].count("a") == 1


def test_a_repeat_that_is_lost_leaves_the_answer_that_there_is(folder):
    sweep = make_sweep(passes=1)
    first = sweep.pairs()[0][0].trial_id
    seen = Counter()

    def answer(trial, _):
        seen[trial.trial_id] += 1
        return ("disturbed" if seen[first] == 1 else "node_lost") if trial.trial_id == first else "ok"

    outcome, _ = drive(folder, sweep, Pretend([node("a"), node("b")], answer))
    assert seen[first] == 2
    assert outcome.statuses == {"ok": 4}
    assert [row["status"] for row in rows(folder) if row["trial_id"] == first] == ["ok"]


# ------------------------------------------------------------------------------------------------------- searches


@dataclass(frozen=True, kw_only=True)
class Wanted:
    values: dict
    pass_index: int = 0
    most_steps: int | None = 5
    targets: tuple = ()
    why: str = "to see"

    @property
    def key(self):
        return tuple(self.values.items()), self.pass_index, self.targets


@dataclass(frozen=True)
class Told:
    wishes: list
    stop: str
    state: str


class Asker:
    """Decides as a search does, but what to ask for is a list: as many of it as nodes are free, in order."""

    def __init__(self, wanted, *, batch=False):
        self.wanted = [each if isinstance(each, Wanted) else Wanted(values={"batch_size": each}) for each in wanted]
        self.batch = batch  # whether the next are asked for only when all answers are there
        self.calls = []

    def __call__(self, rows, pending, nodes):
        found = rows.select(["batch_size", "pass_index", "target"]).to_pylist() if rows.num_rows else []
        answered = Counter((row["batch_size"], row["pass_index"]) for row in found)
        self.calls.append((len(answered), len(pending), nodes))
        seen = [*pending, *(each for each in self.wanted if answered[each.values["batch_size"], each.pass_index])]
        left = [each for each in self.wanted if each not in seen]
        halves = [each for each in self.wanted if answered[each.values["batch_size"], each.pass_index] == 1]
        now = [each for each in halves if each not in pending] + left
        if self.batch and pending:
            now = []
        return Told(now[:nodes], "" if left or pending or halves else "all is seen", f"{len(answered)} seen")


SEARCHED = {"strategy": "adaptive", "axes": {"batch_size": list(range(1, 41))}, "passes": 3}


def search_for(folder, asker, executor, *, retry=frozenset(), sweep=None, **settings):
    """Run a search; return it and the progress that followed it."""
    sweep = sweep or make_sweep(**SEARCHED)
    store = Store(folder, sweep)
    try:
        search = Search(sweep, store, asker, retry=retry)
        with Watched(folder, search.at_most) as progress:
            settings = {"code_version": "v1", "axis": sweep.axis, "by_target": sweep.pairing == "by_target", **settings}
            run([], [], store, executor, progress, search=search, **settings)
            return search, progress
    finally:
        store.close()


def asked_sizes(executor):
    return list(dict.fromkeys(trial.parameters["batch_size"] for trial, _ in executor.started))


def test_a_search_is_asked_for_a_pair_when_the_node_is_free_and_ends_when_it_says_so(folder):
    asker, executor = Asker([7, 3, 40, 1]), Pretend([node("a")])
    search, progress = search_for(folder, asker, executor)
    assert asked_sizes(executor) == [7, 3, 40, 1]
    assert len(executor.started) == 8
    assert {trial.most_steps for trial, _ in executor.started} == {5}
    assert asker.calls == [(0, 0, 1), (1, 0, 1), (2, 0, 1), (3, 0, 1), (4, 0, 1)], "never in the middle of a pair"
    assert search.stop == "all is seen"
    assert search.statuses() == {"ok": 8}
    assert len(progress.reported) == 8
    log = (folder / "log.txt").read_text()
    assert "next batch_size 40: to see" in log
    assert "2 seen; next 40" in log


@pytest.mark.parametrize("batch", [False, True])
def test_free_nodes_get_a_pair_each_at_once(folder, batch):
    asker, executor = Asker(range(1, 13), batch=batch), Pretend([node("a"), node("b"), node("c")])
    search, _ = search_for(folder, asker, executor)
    assert (search.stop, search.statuses()) == ("all is seen", {"ok": 24})
    assert asker.calls[0] == (0, 0, 3)
    assert [name for _, name in executor.started[:3]] == ["a", "b", "c"]
    places = {}
    for trial, name in executor.started:
        places.setdefault(trial.pair_id, set()).add(name)
    assert all(len(names) == 1 for names in places.values())
    assert len(places) == 12
    if batch:
        assert [nodes for _, pending, nodes in asker.calls if not pending] == [3, 3, 3, 3, 3]


def test_a_node_that_comes_later_is_used_by_a_search(folder):
    def between(executor):
        if len(executor.started) == 6:
            executor.up = [node("a"), node("b")]

    executor = Pretend([node("a")], between=between)
    search, _ = search_for(folder, Asker(range(1, 13)), executor)
    assert {name for _, name in executor.started} == {"a", "b"}
    assert search.statuses() == {"ok": 24}


def test_only_nodes_that_serve_the_pair_count_as_free(folder):
    sweep = make_sweep(**SEARCHED, targets=["cpu", "gpu"])
    asker = Asker([1, 2, 3])
    executor = Pretend([node("a"), node("g", accelerators=1), node("b")])
    search_for(folder, asker, executor, sweep=sweep)
    assert {name for _, name in executor.started} == {"g"}
    assert {nodes for *_, nodes in asker.calls} == {1}


def test_in_a_search_by_target_each_trial_is_a_job_of_its_own(folder):
    sweep = make_sweep(**SEARCHED, targets=["cpu", "gpu"], pairing="by_target")
    asker = Asker([1, 2, 3, 4])
    executor = Pretend([node("a"), node("g", accelerators=1), node("b")])
    search, _ = search_for(folder, asker, executor, sweep=sweep)
    assert search.statuses() == {"ok": 8}
    assert set(executor.of("gpu")) == {"g"}
    assert set(executor.of("cpu")) <= {"a", "b"}
    assert {nodes for *_, nodes in asker.calls} == {1}, "as many pairs as the GPU can take"
    alike = Asker([1, 2, 3, 4])
    search, _ = search_for(folder / "x", alike, Pretend([node("a")]), sweep=make_sweep(**SEARCHED, pairing="by_target"))
    assert search.statuses() == {"ok": 8}


def test_a_second_run_of_a_search_that_has_ended_runs_nothing(folder):
    search_for(folder, Asker([1, 2]), Pretend([node("a")]))
    executor = Pretend([node("a")])
    search, _ = search_for(folder, Asker([1, 2]), executor)
    assert (executor.started, search.stop, search.statuses()) == ([], "all is seen", {"ok": 4})
    assert (search.done_before, search.at_most) == (4, 116)


def test_a_half_pair_is_completed_and_nothing_is_measured_twice(folder):
    def stop(trial, _):
        if len(executor.started) == 4:
            raise KeyboardInterrupt
        return "ok"

    executor = Pretend([node("a")], stop)
    with pytest.raises(KeyboardInterrupt):
        search_for(folder, Asker([1, 2, 3]), executor)
    first = [trial.trial_id for trial, _ in executor.started[:3]]
    again = Pretend([node("a")])
    search, _ = search_for(folder, Asker([1, 2, 3]), again)
    assert again.started[0][0].trial_id == executor.started[3][0].trial_id
    assert not set(first) & {trial.trial_id for trial, _ in again.started}
    assert search.statuses() == {"ok": 6}


def test_what_is_final_but_asked_again_is_asked_once(folder):
    search_for(
        folder, Asker([1, 2]), Pretend([node("a")], lambda trial, _: "ok" if trial.target.name == "cpu" else "error")
    )
    executor = Pretend([node("a")], lambda *_: "error")
    search, _ = search_for(folder, Asker([1, 2]), executor, retry=frozenset({"error"}))
    assert executor.of("cpu") == []
    assert [trial.parameters["batch_size"] for trial, _ in executor.started] == [1, 2]
    assert search.statuses() == {"ok": 2, "error": 2}


def test_a_pair_whose_node_is_lost_is_under_way_until_another_has_measured_it(folder):
    def answer(trial, at):
        return "node_lost" if at.node_id == "a" else "ok"

    asker, kept = Asker(range(1, 9)), []

    def decide(rows, pending, nodes):
        first = [row["status"] for row in rows.to_pylist() if row["batch_size"] == 1] if rows.num_rows else []
        if first and first.count("ok") < 2:
            kept.append(any(each.values["batch_size"] == 1 for each in pending))
        return asker(rows, pending, nodes)

    executor = Pretend([node("a"), node("b"), node("c")], answer)
    search, _ = search_for(folder, decide, executor)
    assert search.statuses() == {"ok": 16}
    assert kept
    assert all(kept)


def test_what_is_lost_for_good_counts_in_this_run_and_is_asked_again_by_the_next(folder):
    executor = Pretend([node("a"), node("b"), node("c")], lambda trial, _: "node_lost")
    search, _ = search_for(folder, Asker([1]), executor)
    assert search.stop == "all is seen"
    assert search.statuses()["node_lost"] >= 1
    search, _ = search_for(folder, Asker([1]), Pretend([node("a")]))
    assert search.statuses() == {"ok": 2}


def test_a_rival_that_cannot_be_had_ends_a_search_soon_and_is_waited_for_once(folder):
    sweep = make_sweep(**SEARCHED, targets=["cpu", "gpu"])
    executor = Pretend([node("a")], waits=True)
    search, progress = search_for(folder, Asker(range(1, 41)), executor, sweep=sweep, wait_s=0.02)
    assert search.stop.startswith("gpu is not available (none of the 1 nodes declares a GPU, which gpu needs)")
    assert search.statuses() == {"ok": 2, "unavailable": 2}
    assert len(progress.waited) == 1
    executor = Pretend([node("g", accelerators=1)])
    search, _ = search_for(folder, Asker([1, 2, 3]), executor, sweep=sweep)
    assert search.statuses() == {"ok": 6}
    assert len(executor.of("gpu")) == 3
    assert len(executor.of("cpu")) == 1, "what is there is not measured again"


@pytest.mark.parametrize(("sound", "is_given_up"), [((), True), ((2,), False)])
def test_a_rival_that_never_ends_well_ends_a_search_and_is_the_reason(folder, sound, is_given_up):
    sweep = make_sweep(**SEARCHED)

    def answer(trial, _):
        fails = trial.target.name == sweep.challenger and trial.parameters["batch_size"] not in sound
        return "error" if fails else "ok"

    search, _ = search_for(folder, Asker(range(1, 11)), Pretend([node("a")], answer), sweep=sweep)
    first = f"{sweep.challenger} ended as error in each of the first 4 pairs"
    assert search.stop.startswith(first) if is_given_up else search.stop == "all is seen"
    assert search.statuses().total() == (8 if is_given_up else 20)


def test_a_search_without_any_node_ends_too(folder):
    search, _ = search_for(folder, Asker(range(1, 41)), Pretend([]), wait_s=0.0)
    assert search.statuses() == {"unavailable": 4}


def test_a_fault_that_all_have_in_common_stops_a_search(folder):
    search, _ = search_for(folder, Asker(range(1, 41)), Pretend([node("a")], lambda *_: "error"))
    assert search.statuses()["error"] < 8
    assert search.stop == ""
    assert "all ended in the same way" in (folder / "log.txt").read_text()


def test_when_time_is_up_a_search_has_not_ended(folder):
    executor = Pretend([node("a")])
    search, _ = search_for(folder, Asker([1, 2]), executor, until=-math.inf)
    assert (executor.started, search.stop) == ([], "")
    assert "The time is up" in (folder / "log.txt").read_text()


def test_sizes_above_one_that_was_too_large_are_skipped_in_a_search(folder):
    executor = Pretend([node("a")], lambda trial, _: "oom" if trial.parameters["batch_size"] >= 20 else "ok")
    search, _ = search_for(folder, Asker([10, 20, 30, 40]), executor)
    assert search.stop == "all is seen"
    assert search.statuses() == {"ok": 2, "oom": 2, "skipped_larger": 4}


def test_a_disturbed_trial_of_a_search_is_repeated_before_the_next_pair(folder):
    seen = Counter()

    def answer(trial, _):
        seen[trial.trial_id] += 1
        return "disturbed" if len(seen) == 1 and seen[trial.trial_id] == 1 else "ok"

    executor = Pretend([node("a")], answer)
    search, _ = search_for(folder, Asker([1, 2]), executor)
    assert [trial.parameters["batch_size"] for trial, _ in executor.started] == [1, 1, 1, 2, 2]
    assert search.statuses() == {"ok": 4}


def test_rows_that_answer_another_question_are_not_those_of_a_search(folder):
    grid = make_sweep(axes={"batch_size": [2, 4, 64]}, targets=["cpu-1", "cpu", "cpu-2"])
    drive(folder, grid, Pretend([node("a")]))
    asker, executor = Asker([2, 3]), Pretend([node("a")])
    span = make_sweep(strategy="adaptive", axes={"batch_size": {"from": 1, "to": 40}}, passes=3)
    search, _ = search_for(folder, asker, executor, sweep=span)
    assert search.done_before == 4
    assert asked_sizes(executor) == [3]


def test_rows_of_parts_that_are_full_are_not_forgotten(folder, monkeypatch):
    monkeypatch.setattr(storing, "ROWS_PER_PART", 4)
    monkeypatch.setattr(storing, "SECONDS_BETWEEN_WRITES", 0.0)
    asker = Asker(range(1, 12))
    search, _ = search_for(folder, asker, Pretend([node("a")]))
    assert search.statuses() == {"ok": 22}
    assert [answered for answered, *_ in asker.calls] == list(range(12))


def test_a_search_that_asks_for_what_is_measured_does_not_go_on_for_ever(folder):
    stubborn = lambda rows, pending, nodes: Told([Wanted(values={"batch_size": 1})], "", "")  # noqa: E731
    search, _ = search_for(folder, stubborn, Pretend([node("a")]))
    assert "batch_size 1 was asked for although it is measured" in search.stop
    assert search.statuses() == {"ok": 2}
