"""The driver loop: skip what is done, keep the nodes busy, collect, store.

A *job* is what has to run back to back on one node: a whole pair, or a single trial in a sweep by target. Each node
has one job at a time and one trial of it at a time.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from runner.ceilings import Ceilings
from runner.common_fault import CommonFault
from runner.executor import HELD, Answer, Executor, Need, Node
from runner.listener import Listener
from runner.parity import difference, losses_of
from runner.store import Store
from sweeps.ladder import COLD
from sweeps.own import short_name
from sweeps.record import COLUMNS, DONE, Record
from sweeps.trial import Trial

if TYPE_CHECKING:
    from runner.search import Search

#: How long to wait for an answer before looking for new nodes and writing what is due. An answer ends the wait; a
#: shorter tick would only take time from trials that run on the driver's machine.
TICK_S = 1.0
#: After so many repeats in a row that were disturbed again, repeating only makes the sweep longer.
MOST_IN_VAIN = 3
#: Columns that say why where they are null.
NULLABLE = tuple(
    each.name
    for each in dataclasses.fields(Record)
    if each.default is None and each.name not in ("error_type", "error_message", "null_reasons")
)
#: Columns that stay null in a row although nothing went wrong, and why.
NULL_WITHOUT = {
    "cuda": "this torch is built without CUDA",
    **dict.fromkeys(
        (
            *("gpu_name", "gpu_memory_bytes", "gpu_uuid", "driver", "device_peak_memory_bytes"),
            *("gpu_clock_before_mhz", "gpu_temperature_before_c", "gpu_throttle_before", "foreign_gpu_processes"),
            *("gpu_clock_after_mhz", "gpu_temperature_after_c", "gpu_throttle_after"),
        ),
        "the trial ran on the CPU",
    ),
    **dict.fromkeys(("kernels_per_step", "kernel_time_s"), "counted in the rung kernel only"),
    **dict.fromkeys(("cold_first_matmul_s", "cold_first_conv_s"), "timed in the rung cold only"),
    "node_id": "run without Ray",
    "ray": "run without Ray",
}


@dataclass(frozen=True)
class _Job:
    place: int  # in the plan: earlier jobs go first
    trials: list[Trial]
    whole: list[Trial]  # those that had to run before as well: a lost node takes them all along


def open_trials(plan: list[list[Trial]], store: Store, retry: frozenset[str] = frozenset()) -> list[list[Trial]]:
    """Return the plan without what is done, pair by pair in order.

    Args:
        plan: What is asked: `Sweep.pairs` or `Sweep.ladder`.
        store: What has been answered.
        retry: Statuses that are asked again although they are final.
    """
    kept = ([t for t in pair if _is_open(store.final(t.trial_id)[0], retry)] for pair in plan)
    return [pair for pair in kept if pair]


def statuses(plan: list[list[Trial]], store: Store) -> Counter[str]:
    """Count the planned trials by their final status; "" for one that has no row."""
    return Counter(store.final(trial.trial_id)[0] for pair in plan for trial in pair)


def run(
    plan: list[list[Trial]],
    todo: list[list[Trial]],
    store: Store,
    executor: Executor,
    progress: Listener,
    *,
    axis: str,
    by_target: bool,
    code_version: str,
    wait_s: float = 0.0,
    absence: str = "",
    until: float = math.inf,
    search: Search | None = None,
    repeats: bool = True,
) -> int:
    """Run what is open, keep every answer, and return how many there were.

    Args:
        plan: What is asked.
        todo: What of it is to be run: see `open_trials`.
        store: Where answers go. They are reported after they are on disk.
        executor: Who runs trials.
        progress: Who tells people.
        axis: The axis whose values are sizes: where one was too large, larger ones are skipped.
        by_target: Whether each trial may run on a node of its own; else the trials of a pair share one.
        code_version: Goes into each row.
        wait_s: How long to wait for nodes of a kind that is missing.
        absence: Why this machine has no accelerator, if that is known.
        until: Moment of `time.monotonic` after which nothing more is begun.
        repeats: Whether trials that were disturbed are measured once more.
        search: Who says what else to run whenever a node is free and the rest of `todo` has been begun.

    Raises:
        StudyError: The study can no longer be written. What was reported is safe.
        KeyboardInterrupt: Passed on, after what has ended is on disk.
    """
    driver = _Driver(todo, store, executor, progress, axis, by_target, code_version, wait_s, absence, until, search)
    driver.repeats = repeats
    progress.planned(trial for pair in todo for trial in pair)
    asked = {trial.trial_id for pair in todo for trial in pair}
    for pair in plan:
        for trial in pair:
            if trial.trial_id not in asked:
                driver.ceilings.note(trial, store.final(trial.trial_id)[0])
    try:
        driver.drive()
    finally:
        progress.stored(store.flush(now=True))
    return driver.ran


class _Driver:
    """State of one run: the queues, and what each node is at."""

    def __init__(
        self,
        todo: list[list[Trial]],
        store: Store,
        executor: Executor,
        progress: Listener,
        axis: str,
        by_target: bool,
        code_version: str,
        wait_s: float,
        absence: str,
        until: float,
        search: Search | None,
    ) -> None:
        self._store, self._executor, self._progress = store, executor, progress
        self._code_version, self._wait_s, self._absence, self._until = code_version, wait_s, absence, until
        self.ceilings, self._common_fault = Ceilings(axis), CommonFault()
        self._by_target = by_target
        self._queues: defaultdict[Need, deque[_Job]] = defaultdict(deque)
        self._places = itertools.count()
        for pair in todo:
            self._enqueue_pair(pair)
        self._search = search
        self._asked_at: tuple[int, ...] = ()  # how things stood when the search was asked last
        self._kept = 0  # rows
        self._again: defaultdict[str, deque[Trial]] = defaultdict(deque)  # by node: disturbed trials to repeat
        self._repeated: set[str] = set()
        self._in_vain = 0  # repeats in a row that were disturbed too
        self._answered: set[str] = set()  # trials that have one, and not only a lost node
        self._moved: set[int] = set()  # places of jobs that have been given to another node once
        self._busy: dict[str, _Job] = {}  # by node: what follows the trial that runs there
        self._is_in_trouble = False
        self._told: set[tuple[str, str]] = set()  # nodes, and what has been said of them
        self._wait_until: float | None = None
        self._waited_in_vain: set[Need] = set()
        self._gpu_nodes_do_cpu_work = False  # in a sweep by target, until it is clear that no CPU machine comes
        self.repeats = True  # of disturbed trials
        self.ran = 0

    def drive(self) -> None:
        while self._busy or self._has_open() or any(self._again.values()) or self._search is not None:
            nodes = self._executor.nodes()
            self._stop_early(nodes)
            self._again = defaultdict(
                deque, {n.node_id: self._again[n.node_id] for n in nodes}
            )  # lost nodes lose theirs
            self._tell_of(nodes)
            self._fill(nodes)
            while self._look_further(nodes):
                self._fill(nodes)
            self._give_up_on_missing(nodes)
            self._progress.stored(self._store.flush())  # while the nodes are at work again
            self._tell_of_trouble()
            answers = self._executor.wait(TICK_S)
            for answer in answers:
                self._take(answer)
            if not answers and not self._busy and self._has_open():
                time.sleep(TICK_S)  # for nodes to come

    def _has_open(self) -> bool:
        return any(self._queues.values())

    def _fill(self, nodes: list[Node]) -> None:
        """Give each node that is free something to do, as long as there is something for it."""
        for node in nodes:
            while node.node_id not in self._busy and node.is_free and (job := self._next_job(node)):
                self._begin(job, node)

    def _look_further(self, nodes: list[Node]) -> bool:
        """Ask a search for more when all that it has asked for is begun; return whether there is more to begin."""
        if self._search is None or self._has_open():
            return False
        repeats = sum(map(len, self._again.values()))
        stands = (self._kept, len(self._busy), repeats, room := self._room(nodes))
        if not room or stands == self._asked_at:  # deciding takes time, which others could measure in
            return False
        self._asked_at = stands
        pairs = self._search.more(room, {trial.trial_id for job in self._busy.values() for trial in job.whole})
        self._progress.looked_further(self._search.state, self._search.reasons)
        for pair in pairs:
            self._enqueue_pair(pair)
        if not (pairs or self._busy or repeats):
            self._search = None
        return bool(pairs)

    def _room(self, nodes: list[Node]) -> int:
        """Return how many pairs of the search can begin at once; 1 where nobody serves them, which is then told."""
        if self._search is None:
            return 0
        up = [node for node in nodes if node.is_free]
        idle = [node for node in up if node.node_id not in self._busy]
        if not idle:
            return 0 if self._busy else 1
        targets = self._search.targets
        jobs = [[target] for target in targets] if self._by_target else [targets]
        needs = Counter(Need.of(job, by_target=self._by_target) for job in jobs)
        served = {need: count for need, count in needs.items() if any(self._fits(need, node) for node in up)}
        fitting = {need: sum(self._fits(need, node) for node in idle) for need in served}
        return min((max(min(1, fitting[need]), fitting[need] // count) for need, count in served.items()), default=1)

    def _enqueue_pair(self, pair: list[Trial]) -> None:
        for trials in [[trial] for trial in pair] if self._by_target else [pair]:
            self._enqueue(_Job(next(self._places), trials, trials))

    def _stop_early(self, nodes: list[Node]) -> None:
        """Begin nothing more when time is up, or when everything fails alike."""
        if not (self._has_open() or any(self._again.values()) or self._search is not None):
            return
        if fault := self._common_fault.found(node.node_id for node in nodes if node.is_fit):
            why = f"The first trials all ended in the same way ({fault}), so the rest is not run."
        elif time.monotonic() >= self._until:
            why = "The time is up: what runs is finished, and the same command runs the rest."
        else:
            return
        self._queues.clear()
        self._again.clear()
        self._search = None
        self._progress.say(why)

    def _tell_of_trouble(self) -> None:
        """Say once that an object store cannot be reached, and once that it can be again."""
        if bool(self._store.trouble) != self._is_in_trouble:
            self._is_in_trouble = bool(self._store.trouble)
            held = "trials go on, and their rows are written when it can be"
            self._progress.say(
                f"{self._store.trouble}; {held}" if self._is_in_trouble else "The study can be written again."
            )

    def _tell_of(self, nodes: list[Node]) -> None:
        """Say once of a node that it is busy, and once what else people should know of it."""
        for node in nodes:
            busy = f"{node.host} is busy: another user has taken CPUs of it; it is used when they are free"
            for text in (busy if node.is_held else "", node.remark):
                if text and (node.node_id, text) not in self._told:
                    self._told.add((node.node_id, text))
                    self._progress.say(text)

    def _enqueue(self, job: _Job, *, first: bool = False) -> None:
        queue = self._queues[self._need_of(job)]
        queue.appendleft(job) if first else queue.append(job)

    def _need_of(self, job: _Job) -> Need:
        return Need.of((trial.target for trial in job.trials), by_target=self._by_target)

    def _next_job(self, node: Node) -> _Job | None:
        fitting = [queue for need, queue in self._queues.items() if queue and self._fits(need, node)]
        first = min(fitting, key=lambda queue: queue[0].place, default=None)
        again = self._again[node.node_id]
        if again and (first is None or first[0].trials[0].pass_index > again[0].pass_index):
            return _Job(-1, [again.popleft()], [])
        return first.popleft() if first else None

    def _fits(self, need: Need, node: Node) -> bool:
        if need.off_accelerators and node.accelerators and not self._gpu_nodes_do_cpu_work:
            return False
        return node.has(need)

    def _begin(self, job: _Job, node: Node) -> None:
        """Begin the next trial of a job that is worth it; the node stays free if there is none."""
        rest = list(job.trials)
        while rest:
            trial = rest.pop(0)
            if cause := self.ceilings.cause(trial):
                self._keep(trial, {"status": "skipped_larger", "error_type": "TooLarge", "error_message": cause})
                continue
            self._busy[node.node_id] = _Job(job.place, rest, job.whole)
            self._progress.started(trial, node)
            self._executor.start(trial, node)
            return

    def _take(self, answer: Answer) -> None:
        self.ran += 1
        is_lost = answer.columns["status"] == "node_lost" or answer.columns.get("error_type") == HELD
        if is_lost and answer.trial.trial_id in self._answered:  # a repeat: the answer that there is stays
            self._progress.skipped(answer.trial)
        else:
            self._keep(answer.trial, answer.columns)
        self._common_fault.note(answer.node.node_id, answer.columns)
        self._look_for_interference(answer)
        job = self._busy.pop(answer.node.node_id)
        if not is_lost:
            self._answered.add(answer.trial.trial_id)
        if not is_lost and (not job.trials or answer.node in self._executor.nodes()):
            self._begin(job, answer.node)
        else:
            self._move(job, answer.trial)

    def _move(self, job: _Job, last: Trial) -> None:
        """Give a job whose node has gone to another one: all of it, since a pair is measured on one node; but once."""
        if job.place in self._moved or not job.whole:
            if job.trials:
                self._enqueue(job, first=True)
            return
        self._moved.add(job.place)
        self._enqueue(_Job(job.place, job.whole, job.whole), first=True)
        self._progress.moved(last, again=len(job.whole) - len(job.trials))

    def _look_for_interference(self, answer: Answer) -> None:
        """Measure a trial that was disturbed once more, on the same node late in its pass; the second time it stays."""
        trial, disturbed = answer.trial, answer.columns.get("interference") == "contended"
        if trial.for_memory:
            return  # memory is the same on busy cores
        if trial.trial_id in self._repeated:
            self._in_vain = self._in_vain + 1 if disturbed else 0
            if self._in_vain == MOST_IN_VAIN:
                self._again.clear()
                self._progress.say("Something else keeps the cores busy: disturbed trials are no longer repeated.")
        elif disturbed and self.repeats and self._in_vain < MOST_IN_VAIN:
            self._repeated.add(trial.trial_id)
            self._again[answer.node.node_id].append(trial)
            self._progress.repeated(trial)

    def _keep(self, trial: Trial, columns: dict[str, Any]) -> None:
        _, attempt, _ = self._store.final(trial.trial_id)
        if columns["status"] == "ok" and columns.pop("compare_losses", True) and not trial.for_memory:
            columns = self._compare(trial, columns)
        self.ceilings.note(trial, columns["status"])
        record = record_of(trial, columns, attempt=attempt + 1, code_version=self._code_version)
        self._store.add(record)
        self._kept += 1

    def _compare(self, trial: Trial, columns: dict[str, Any]) -> dict[str, Any]:
        """Make the answer invalid if its losses are not those of the other targets of the pair."""
        own = losses_of({**trial.parameters, **columns, "target": trial.target.name})
        for other in self._store.losses(trial.pair_id, trial.rung):
            if other.target != own.target and (text := difference(own, other)):
                return {**columns, "status": "invalid", "error_type": "OtherWork", "error_message": text}
        return columns

    def _give_up_on_missing(self, nodes: list[Node]) -> None:
        """Deal with jobs that no node can serve: ask for nodes, wait, then say that they are unavailable."""
        free = [node for node in nodes if node.is_free]
        stuck = {
            need: queue
            for need, queue in self._queues.items()
            if queue and not any(self._fits(need, node) for node in free)
        }
        self._waited_in_vain = {
            need for need in self._waited_in_vain if not any(self._fits(need, node) for node in free)
        }
        if not stuck:
            self._wait_until = None
            return
        if self._wait_until is None:
            targets = {trial.target.name for queue in stuck.values() for job in queue for trial in job.trials}
            waits = not stuck.keys() <= self._waited_in_vain and self._executor.ask_for(list(stuck))
            self._wait_until = time.monotonic() + (self._wait_s if waits else 0.0)
            if waits and self._wait_s:
                self._progress.waiting(sorted(targets), self._wait_s)
        if time.monotonic() < self._wait_until:
            return
        if free and not self._gpu_nodes_do_cpu_work and any(need.off_accelerators for need in stuck):
            self._gpu_nodes_do_cpu_work = True  # there are GPU machines only
        self._waited_in_vain |= stuck.keys()
        for need, queue in stuck.items():
            while queue and not any(self._fits(need, node) for node in free):
                self._split(queue.popleft(), nodes)
        self._wait_until = None

    def _split(self, job: _Job, nodes: list[Node]) -> None:
        """Let the trials of a job that some node serves run; the others become rows that say why not."""
        for trial in job.trials:
            if trial.trial_id in self._answered:  # on a node that has gone since: better this answer than none
                self._progress.skipped(trial)
                continue
            if any(node.serves(trial.target) for node in nodes if node.is_free):
                self._enqueue(_Job(job.place, [trial], [trial]))
                continue
            cause = self._cause(trial, nodes)
            if self._store.final(trial.trial_id)[::2] == ("unavailable", cause):
                self._progress.skipped(trial)  # the same answer as last time: one row says it
            else:
                self._keep(trial, {"status": "unavailable", "error_type": "NoNode", "error_message": cause})

    def _cause(self, trial: Trial, nodes: list[Node]) -> str:
        target = trial.target
        if unfit := [node.remark for node in nodes if not node.is_fit and node.serves(target)]:
            return unfit[0]
        if not nodes:
            return f"no node that runs trials came up within {self._wait_s:g} s"
        if held := sorted({node.host for node in nodes if node.serves(target)}):
            return f"another user of the cluster has taken CPUs of {', '.join(held)}, for {self._wait_s:g} s and more"
        if self._absence and not target.where:
            return self._absence
        need = Need.of([target], by_target=False)
        return f"none of the {len(nodes)} nodes declares {need.told}, which {target.name} needs"


def record_of(trial: Trial, columns: Mapping[str, Any], *, attempt: int, code_version: str) -> Record:
    """Join what was asked and what was found into a row.

    Args:
        trial: What was asked.
        columns: What was found: columns by name, times as ISO texts.
        attempt: How often it has been asked.
        code_version: Of the code that measured.
    """
    known = {name: value for name, value in columns.items() if name in COLUMNS and value is not None}
    for name in ("started_at", "finished_at"):
        if name in known:
            known[name] = datetime.fromisoformat(known[name])
    known.setdefault("device", trial.target.device)
    reasons = dict(known.pop("null_reasons", {}))
    known |= {
        "sweep": trial.sweep,
        "trial_id": trial.trial_id,
        "config_id": trial.config_id,
        "pair_id": trial.pair_id,
        "pair_order": trial.pair_order,
        "paired": trial.paired,
        "pass_index": trial.pass_index,
        "rung": trial.rung,
        "attempt": attempt,
        "workload": short_name(trial.workload),
        "target": trial.target.name,
        "deadline_s": trial.deadline_s,
        "code_version": code_version,
    }
    for name in NULLABLE:
        if name not in known:
            why = NULL_WITHOUT.get(name) if known["status"] == "ok" else f"the trial ended as {known['status']}"
            unknown = "the rung cold trains nothing" if trial.rung == COLD else "not known on this machine"
            reasons.setdefault(name, why or unknown)
    for name, value in trial.parameters.items():
        if value is None:
            reasons.setdefault(name, "means nothing for this trial")
    return Record(**known, parameters=trial.parameters, null_reasons=reasons)


def _is_open(status: str, retry: frozenset[str]) -> bool:
    return status not in DONE or status in retry
