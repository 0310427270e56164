"""What the driver costs where a sweep is large, and how well it keeps nodes busy.

    python benchmarks/scale.py [--trials 10000] [--nodes 20]

Ray runs on simulated nodes of this machine, one CPU each. In the first part trials start no process: the task on the
node returns the answer that one real trial gave before, so that all the time is that of Ray, of the driver's loop and
of its store. A bare loop does the same without driver and store, half of it before the study and half of it after: as
many tasks, with the resources, the hard affinity to a node and the number in flight of trials. In the second part
trials are real, with a process each, and sleep for about a second, on `BUSY_NODES` nodes.

Prints one line of JSON:

- `rate_ratio`: trials a second of the study over those of the bare loop, both of which stand beside it;
- `growth_ratio`: time per trial in the study over that in one of a tenth of its size, measured before and after it;
- `peak_memory_bytes`: of this process, in which driver and bare loop run;
- `resume_s`: until it is clear that the finished study has nothing left to run;
- `busy_share`: time in trials (`started_at` to `finished_at`) over the time from the end of a node's first trial to the
  end of its last, of all nodes together; `gap_s` is the median time from the end of a trial to the beginning of the
  next one on its node;
- `overlaps`: trials that ran on one node at the same time.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import resource
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["RAY_AUTH_MODE"] = "disabled"  # a Ray for this benchmark alone: it asks for no token and leaves none

import ray
from ray.cluster_utils import Cluster as Simulated
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from rich.console import Console

from runner import process
from runner.cluster import Cluster
from runner.executor import Node
from runner.progress import Progress
from runner.run import open_trials, run
from runner.store import Store
from sweeps.definition import Sweep
from sweeps.study import read_records

PASSES = 10
TARGETS = ["cpu-1", "cpu"]
STORE = {"object_store_memory": 80_000_000}
BUSY_NODES = 2
#: Trials on each of these nodes.
BUSY_TRIALS = 40
LIMITS = {
    "rate_ratio": 0.7,
    "growth_ratio": 1.3,
    "peak_memory_bytes": 600e6,
    "resume_s": 10.0,
    "busy_share": 0.95,
    "overlaps": 0,
}
AT_LEAST = ("rate_ratio", "busy_share")
#: Its trials take about a second: 21 steps and what goes before them.
SLEEPY = """\
import time

import torch


class Sleepy:
    def prepare(self, device, target):
        pass

    def step(self):
        time.sleep(0.047)
        return torch.zeros(())


def make(*, seed, size):
    return Sleepy()
"""


class Canned(Cluster):
    """The executor with Ray, but for what runs on the node: an answer that is ready, and no process."""

    def __init__(self, address: str, answer: dict[str, Any]) -> None:
        """Connect.

        Args:
            address: Of the cluster.
            answer: Columns that every trial returns, with times of its own.
        """
        super().__init__(address)

        def run_trial(*_asked: object) -> dict[str, Any]:
            now = datetime.now(UTC).isoformat()
            return {**answer, "started_at": now, "finished_at": now}

        self._task = ray.remote(max_retries=0)(run_trial)

    def bare(self, count: int, nodes: list[Node]) -> float:
        """Run so many tasks as trials are run, with nothing else around them; return the seconds that this takes."""
        request = process.request_of(sweep_of(2 * PASSES).pairs()[0][0], None)
        running: dict[ray.ObjectRef[dict[str, Any]], Node] = {}

        def start(node: Node) -> None:
            there = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
            task = self._task.options(num_cpus=node.cpus, scheduling_strategy=there, name="bare")
            running[task.remote(request, node.cpus)] = node

        began = time.monotonic()
        for node in nodes[:count]:
            start(node)
        to_start = count - len(running)
        while running:
            for reference in ray.wait(list(running), num_returns=1)[0]:
                node = running.pop(reference)
                ray.get(reference)
                if to_start:
                    to_start -= 1
                    start(node)
        return time.monotonic() - began


@contextlib.contextmanager
def simulated(count: int) -> Iterator[str]:
    """Give the address of a cluster of so many nodes on this machine, whose head runs nothing."""
    made = Simulated(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **STORE})
    try:
        for _ in range(count):
            made.add_node(wait=False, num_cpus=1, **STORE)
        made.wait_for_nodes(timeout=600)
        yield made.address
    finally:
        made.shutdown()


def sweep_of(trials: int, **other: Any) -> Sweep:
    """Return a sweep of so many trials; a multiple of 20."""
    asked: dict[str, Any] = {
        "name": "scale",
        "workload": "mlp",
        "parameters": {"features": 8, "width": 8, "depth": 1, "classes": 2},
        "axes": {"batch_size": list(range(1, trials // (PASSES * len(TARGETS)) + 1))},
        "targets": TARGETS,
        "passes": PASSES,
    }
    return Sweep.model_validate(asked | other)


def real_answer() -> dict[str, Any]:
    """Run one trial; return its columns, as of a trial that was alone on its cores."""
    trial = sweep_of(2 * PASSES).pairs()[0][0]
    found = process.attend(process.request_of(trial, None))
    process.close()
    if found["status"] != "ok":
        sys.exit(f"a trial failed: {found['error_message']}")
    return {**found, "interference": "clean"}


def drive(folder: Path, sweep: Sweep, executor: Cluster) -> float:
    """Run a sweep into a new study as sweep.py does; return the seconds that the driver's loop takes."""
    plan = sweep.pairs()
    with contextlib.closing(Store(folder, sweep)) as store, (folder / "lines.txt").open("w") as lines:
        todo = open_trials(plan, store)
        with (
            contextlib.redirect_stdout(lines),
            Progress(Console(file=lines), folder / "log.txt", total=sweep.size) as progress,
        ):
            began = time.monotonic()
            run(plan, todo, store, executor, progress, axis=sweep.axis, by_target=False, code_version="benchmark")
            return time.monotonic() - began


def resume_s(folder: Path, sweep: Sweep) -> float:
    """Return the seconds until it is clear that a study has nothing left to run."""
    began = time.monotonic()
    with contextlib.closing(Store(folder, sweep)) as store:
        left = open_trials(sweep.pairs(), store)
    took_s = time.monotonic() - began
    if left:
        sys.exit(f"{sum(map(len, left))} trials have no final row")
    return took_s


def throughput(trials: int, nodes: int, folder: Path) -> dict[str, float]:
    """Compare the driver with a bare loop, on trials that take no time."""
    answer = real_answer()
    with simulated(nodes) as address, contextlib.closing(Canned(address, answer)) as executor:
        up = executor.nodes()
        executor.bare(2 * nodes, up)  # now every node has its worker
        small, whole = sweep_of(trials // 10), sweep_of(trials)
        quarter = whole.size // 4
        bare_s = executor.bare(quarter, up)
        small_s = drive(folder / "before", small, executor)
        bare_s += executor.bare(quarter, up)
        whole_s = drive(folder / "whole", whole, executor)
        bare_s += executor.bare(quarter, up)
        small_s += drive(folder / "after", small, executor)
        bare_s += executor.bare(quarter, up)
    rates = {"trials_per_s": whole.size / whole_s, "bare_per_s": 4 * quarter / bare_s}
    return {
        **rates,
        "rate_ratio": rates["trials_per_s"] / rates["bare_per_s"],
        "growth_ratio": (whole_s / whole.size) / (small_s / (2 * small.size)),
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "resume_s": resume_s(folder / "whole", whole),
        "trials": len(spans(folder / "whole")),
    }


@dataclass(frozen=True, kw_only=True)
class Span:
    """When a trial ran on a node."""

    node_id: str
    begun: datetime
    ended: datetime


def spans(folder: Path) -> list[Span]:
    """Return the trials of a study as they ran, in order of their beginning."""
    rows = read_records(folder, ["node_id", "started_at", "finished_at", "status"])[0].to_pylist()
    if failed := [row for row in rows if row["status"] != "ok"]:
        sys.exit(f"{len(failed)} trials failed: {failed[0]}")
    found = [Span(node_id=row["node_id"], begun=row["started_at"], ended=row["finished_at"]) for row in rows]
    return sorted(found, key=lambda span: span.begun)


def busyness(found: list[Span]) -> dict[str, float]:
    """Return which share of the time nodes were at work once their first trial had ended, and what lay between."""
    by_node: defaultdict[str, list[Span]] = defaultdict(list)
    for span in found:
        by_node[span.node_id].append(span)
    gaps = [
        (after.begun - before.ended).total_seconds()
        for ran in by_node.values()
        for before, after in itertools.pairwise(ran)
    ]
    whole_s = sum((ran[-1].ended - ran[0].ended).total_seconds() for ran in by_node.values())
    return {
        "busy_share": 1 - sum(gaps) / whole_s,
        "gap_s": statistics.median(gaps),
        "overlaps": sum(gap < 0 for gap in gaps),
        "busy_trials": len(found),
    }


def business(trials: int, folder: Path) -> dict[str, float]:
    """Keep nodes busy with real trials of about a second."""
    own = folder / "sleepy.py"
    own.write_text(SLEEPY)
    pairs = range(1, trials // len(TARGETS) + 1)
    sweep = sweep_of(trials, workload=f"{own}:make", parameters={}, axes={"size": list(pairs)}, passes=1)
    with simulated(BUSY_NODES) as address, contextlib.closing(Cluster(address, source=SLEEPY)) as executor:
        drive(folder / "busy", sweep, executor)
    return busyness(spans(folder / "busy"))


def is_met(name: str, value: float) -> bool:
    """Whether a figure is on the right side of its limit."""
    return value >= LIMITS[name] if name in AT_LEAST else value <= LIMITS[name]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=10_000, help="a multiple of 200 [default: 10000]")
    parser.add_argument("--nodes", type=int, default=20, help="simulated nodes [default: 20]")
    parser.add_argument("--busy-trials", type=int, default=BUSY_NODES * BUSY_TRIALS, help="[default: 80]")
    asked = parser.parse_args()
    # Read by Ray's nodes. Workers that wait for tasks without our environment would be as many again, for nothing.
    os.environ |= {"RAY_prestart_worker_first_driver": "0"}
    with tempfile.TemporaryDirectory() as folder:
        figures = throughput(asked.trials, asked.nodes, Path(folder)) | business(asked.busy_trials, Path(folder))
    from benchmarks.figures import conclude  # not before: it loads torch, and a driver does not

    ok = all(is_met(name, figures[name]) for name in LIMITS)
    conclude("scale", ok=ok, figures=figures, targets=LIMITS)


if __name__ == "__main__":
    main()
