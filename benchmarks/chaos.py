"""What is left of a study when everything around it dies: trials, Ray workers, whole nodes, and the driver itself.

    python benchmarks/chaos.py [--trials 200] [--kills 5] [--restarts 5] [--nodes 4] [--seed 0] [--hold]

Runs sweep.py on simulated nodes, with trials of about half a second that sleep instead of computing, and kills with
SIGKILL: a trial's process, the Ray worker above it, everything of a node (another one joins), and the driver, which is
started again. The seed decides what is killed in which order, and when. A kill counts only where the study has a row
that says so: `crashed` by SIGKILL, `crashed` with its worker, `node_lost`; one that came too late is made again. With
--hold all trials but the first wait until everything has been killed: so few of them are enough on any machine.

Prints one line of JSON. `landed_*` are these rows and `restarts` the drivers that were killed; the targets of these are
least numbers. The rest is counted too, and has to be 0:

- `trials_without_row`; `rows_twice`: a trial and an attempt that stand in two rows;
- `rows_lost`: of those that the driver had reported by a `done` line, in the end and after each of its deaths;
- `unreadable`: files of the study that could not be read at one of the `looks` at them, while they were written;
- `overlaps`: trials that were measured on one node at the same time;
- `processes_left`: what lives on after the cluster has been shut down.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
# A Ray for this benchmark alone: it asks for no token, leaves none in ~/.ray, and reports to nobody.
os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_SCHEDULER_EVENTS": "0"}

from ray.cluster_utils import Cluster

from benchmarks.figures import conclude
from runner.environment import ROOT
from runner.nursery import PR_SET_CHILD_SUBREAPER
from sweeps.study import TRIALS, read_records
from sweeps.sweep_file import load

#: A trial sleeps so long a step: with the protocol's 20 ms blocks it takes about half a second.
WORKLOAD = """\
import json, os, time
from pathlib import Path

import torch


class Sleep:
    def __init__(self, *, seed, size, folder):
        self.folder = Path(folder)

    def prepare(self, device, target):
        self.loss = torch.zeros(())
        beside = self.folder / f".{os.getpid()}"
        beside.write_text(json.dumps({"trial": os.getpid(), "nursery": os.getppid()}))
        beside.replace(self.folder / f"{time.monotonic_ns()}.json")
        try:
            (self.folder / "first").touch(exist_ok=False)
        except FileExistsError:
            while (self.folder / "held").exists():
                time.sleep(0.01)

    def step(self):
        time.sleep(0.02)
        return self.loss
"""
#: How each kill shows in the study: status, and the error's type where it has to be that one.
EVIDENCE = {"child": ("crashed", "SIGKILL"), "worker": ("crashed", "WorkerCrashedError"), "node": ("node_lost", "")}
OBJECT_STORE_BYTES = 80_000_000
TARGETS_A_PAIR = 2
LOOK_EVERY_S = 0.05
#: Share of the driver's deaths for which it has to have reported a row.
MOSTLY = 0.7
#: Ray's own processes can take this long to notice that they are alone.
LAST_ONES_S = 90.0


@dataclass(frozen=True, kw_only=True)
class Running:
    """The processes of a trial that is running now."""

    trial: psutil.Process
    worker: psutil.Process
    raylet: psutil.Process


class Watcher:
    """Reads each part of a study whenever it has changed, as long as it is watched."""

    def __init__(self, folder: Path) -> None:
        self.looks = 0
        self.unreadable: list[str] = []
        self._folder = folder
        self._parts: dict[Path, tuple[tuple[int, int], list[dict[str, Any]]]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._stop.set()
        self._thread.join()

    def landed(self, kind: str) -> int:
        """Return how many rows tell of a kill of this kind."""
        status, error = EVIDENCE[kind]
        rows = [row for _, part in list(self._parts.values()) for row in part]
        return sum(row["status"] == status and row["error_type"] == (error or row["error_type"]) for row in rows)

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            for path in sorted((self._folder / TRIALS).glob("*.parquet")):
                self._look(path)

    def _look(self, path: Path) -> None:
        found = path.stat()
        seen = (found.st_ino, found.st_mtime_ns)
        if path in self._parts and self._parts[path][0] == seen:
            return
        self.looks += 1
        try:
            columns = ["trial_id", "attempt", "status", "error_type"]
            self._parts[path] = seen, pq.read_table(path, columns=columns).to_pylist()
        except (pa.ArrowException, OSError) as error:
            self.unreadable.append(f"{path.name}: {error}")


class Driver:
    """One run of sweep.py on the cluster, and what it says."""

    def __init__(self, sweep_file: Path, study: Path, address: str) -> None:
        command = [sys.executable, str(ROOT / "sweep.py"), str(sweep_file), "--out", str(study)]
        command += ["--address", address, "--no-report", "--wait", "600"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def reported(self) -> list[tuple[str, str]]:
        """Trial and status of each row that it says is on disk."""
        words = [line.split() for line in self.lines if line.startswith("done ")]
        return [(trial_id, status) for _, trial_id, status in words]

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.poll() is None

    def end(self, how: signal.Signals | None = None) -> int:
        """Wait for its end, or bring it about; return its exit code when all that it has said is known."""
        if how:
            self.process.send_signal(how)
        code = self.process.wait()
        self._reader.join()
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None  # noqa: S101  (it was asked for)
        with self.process.stdout as lines:
            for line in lines:
                self.lines.append(line)


@dataclass(kw_only=True)
class Chaos:
    """A study, the cluster that it runs on, and what happens to both."""

    folder: Path
    cluster: Cluster
    hold: bool
    chance: random.Random
    reported: list[tuple[str, str]] = field(default_factory=list)  # by drivers that have ended
    rows_lost: int = 0
    restarts: int = 0
    misses: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        if self.hold:
            (self.words / "held").touch()
        self.watcher = Watcher(self.study)
        self.driver = self._start()

    @property
    def study(self) -> Path:
        """Where the rows are."""
        return self.folder / "study"

    @property
    def rows_reported(self) -> int:
        """How many rows all drivers have said to be on disk."""
        return len(self.reported) + len(self.driver.reported)

    @property
    def words(self) -> Path:
        """Where trials say that they run."""
        return self.folder / "words"

    def release(self) -> None:
        """Let trials end that have been held."""
        (self.words / "held").unlink(missing_ok=True)

    def wait_for(self, trials: int) -> bool:
        """Wait until so many rows have been reported by all drivers; False if the driver ends before."""
        while self.rows_reported < trials:
            if not self.driver.is_running:
                return False
            time.sleep(LOOK_EVERY_S)
        return True

    def kill(self, kind: str) -> bool:
        """Kill until a row says that it has hit; False if the driver ends before."""
        before = self.watcher.landed(kind)
        while running := self._running():
            self._kill(kind, running)
            # The row of the trial is there before so many others are, if it was hit.
            others = len(self.driver.reported) + 2 * TARGETS_A_PAIR * len(self.cluster.worker_nodes)
            while self.driver.is_running and len(self.driver.reported) < others:
                if self.watcher.landed(kind) > before:
                    return True
                time.sleep(LOOK_EVERY_S)
            self.misses[kind] += 1
        return False

    def restart(self) -> None:
        """Kill the driver at some moment and start it again: while it runs trials, or while it is getting ready."""
        if self.hold:
            self._running()
        elif self.chance.random() < MOSTLY:
            self.wait_for(self.rows_reported + 1)
            time.sleep(self.chance.uniform(0.0, 0.5))
        else:
            time.sleep(self.chance.uniform(0.0, 8.0))
        if self.driver.is_running:
            self.driver.end(signal.SIGKILL)
            self.restarts += 1
        self.take_down()
        self.driver = self._start()

    def take_down(self) -> None:
        """Keep what the driver has reported, and compare it with what is on disk."""
        self.reported += self.driver.reported
        rows, warnings = read_records(self.study) if self.study.exists() else (pa.table({}), [])
        self.watcher.unreadable += warnings
        kept = Counter((row["trial_id"], row["status"]) for row in rows.to_pylist())
        self.rows_lost += sum((Counter(self.reported) - kept).values())

    def _start(self) -> Driver:
        return Driver(self.folder / "chaos.yaml", self.study, self.cluster.address)

    def _running(self) -> Running | None:
        """Wait for a trial that has just begun, or is held; None if the driver ends before."""
        known = set() if self.hold else set(self.words.glob("*.json"))
        while self.driver.is_running:
            for word in sorted(set(self.words.glob("*.json")) - known, reverse=True):
                known.add(word)
                if running := _running(**json.loads(word.read_text())):
                    return running
            time.sleep(0.005)
        return None

    def _kill(self, kind: str, running: Running) -> None:
        if kind == "child":
            _end([running.trial])
        elif kind == "worker":
            _end([running.worker])
        else:
            # As if the plug was pulled: nobody of the node is left to tell of the others.
            _end([running.raylet, *running.raylet.children(recursive=True)])
            lost = next(node for node in self.cluster.worker_nodes if _raylet_of(node) == running.raylet.pid)
            self.cluster.remove_node(lost, allow_graceful=False)
            add_node(self.cluster)


def _running(trial: int, nursery: int) -> Running | None:
    """Return the processes of a trial; None if it has ended."""
    try:
        child, parent = psutil.Process(trial), psutil.Process(nursery)
        worker = parent.parent()
        raylet = worker.parent() if worker else None
        if child.ppid() != nursery or not (worker and raylet and raylet.name() == "raylet"):
            return None
        return Running(trial=child, worker=worker, raylet=raylet)
    except psutil.NoSuchProcess:
        return None


def add_node(cluster: Cluster) -> None:
    """Let a node of one CPU join."""
    cluster.add_node(wait=False, num_cpus=1, object_store_memory=OBJECT_STORE_BYTES)


def write_sweep(folder: Path, trials: int) -> None:
    """Write a sweep of so many trials, rounded up to whole passes of ten sizes, and its workload."""
    passes = -(-trials // (10 * TARGETS_A_PAIR))
    (folder / "words").mkdir()
    (folder / "sleep.py").write_text(WORKLOAD)
    asked = {
        "name": "chaos",
        "question": "Is anything lost?",
        "workload": "sleep.py:Sleep",
        "parameters": {"folder": str(folder / "words")},
        "axes": {"size": list(range(1, 11))},
        "targets": [{"name": name, "device": "cpu", "threads": 1} for name in ("one", "other")],
        "baseline": "one",
        "challenger": "other",
        "passes": passes,
        "deadline_s": 600,
    }
    (folder / "chaos.yaml").write_text(json.dumps(asked))  # JSON is YAML too


def plan(chance: random.Random, *, trials: int, kills: int, restarts: int) -> Iterator[tuple[int, str]]:
    """Yield what is to be killed, and after how many reported rows: in its first three fifths."""
    kinds = [*(kind for kind in EVIDENCE for _ in range(kills)), *(["driver"] * restarts)]
    chance.shuffle(kinds)
    moments = sorted(chance.randint(1, trials * 3 // 5) for _ in kinds)
    yield from zip(moments, kinds, strict=True)


def run(*, trials: int, kills: int, restarts: int, nodes: int, seed: int, hold: bool, folder: Path) -> dict[str, float]:
    """Run a sweep through all of it; return the figures."""
    began = time.monotonic()
    write_sweep(folder, trials)
    planned = {t.trial_id for pair in load(str(folder / "chaos.yaml")).pairs() for t in pair}
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES},
    )
    try:
        for _ in range(nodes):
            add_node(cluster)
        cluster.wait_for_nodes()
        chance = random.Random(seed)
        chaos = Chaos(folder=folder, cluster=cluster, hold=hold, chance=chance)
        try:
            for moment, kind in plan(chance, trials=len(planned), kills=kills, restarts=restarts):
                if not chaos.wait_for(1 if hold else moment):
                    print(f"the sweep ended before a {kind} could be killed", flush=True)
                    break
                chaos.restart() if kind == "driver" else chaos.kill(kind)
                print(f"{time.monotonic() - began:6.1f} s, {chaos.rows_reported} rows: {kind} killed", flush=True)
            chaos.release()
            code = chaos.driver.end()
            chaos.take_down()
        finally:
            chaos.driver.end(signal.SIGKILL)
            chaos.watcher.stop()
    finally:
        cluster.shutdown()
    rows = read_records(chaos.study)[0].to_pylist()
    for line in chaos.watcher.unreadable:
        print(line, flush=True)
    for (status, error), number in sorted(Counter((row["status"], row["error_type"] or "") for row in rows).items()):
        print(f"{number:6} {status} {error}", flush=True)
    return {
        "trials": len(planned),
        "rows": len(rows),
        **{f"landed_{kind}": chaos.watcher.landed(kind) for kind in EVIDENCE},
        **{f"missed_{kind}": chaos.misses[kind] for kind in EVIDENCE},
        "restarts": chaos.restarts,
        "exit_code": code,
        "reported": len(chaos.reported),
        "looks": chaos.watcher.looks,
        "trials_without_row": len(planned - {row["trial_id"] for row in rows}),
        "rows_twice": len(rows) - len({(row["trial_id"], row["attempt"]) for row in rows}),
        "rows_lost": chaos.rows_lost,
        "unreadable": len(chaos.watcher.unreadable),
        "overlaps": overlaps(rows),
        "processes_left": processes_left(),
        "wall_s": time.monotonic() - began,
    }


def overlaps(rows: list[dict[str, Any]]) -> int:
    """Count the trials that began on a node before the one before them had ended there."""
    spans: defaultdict[str, list[tuple[datetime, datetime]]] = defaultdict(list)
    for row in rows:
        if row["status"] == "ok":
            spans[row["node_id"]].append((row["started_at"], row["finished_at"]))
    pairs = (pair for times in spans.values() for pair in itertools.pairwise(sorted(times)))
    return sum(after[0] < before[1] for before, after in pairs)


def processes_left() -> int:
    """Count what lives on below this process after some time: all that was ever started here comes back to it."""
    until = time.monotonic() + LAST_ONES_S
    while left := [each for each in psutil.Process().children(recursive=True) if _is_alive(each)]:
        if time.monotonic() > until:
            for process in left:
                print(f"left: {process.pid} {' '.join(process.cmdline())[:200]}", flush=True)
            _end(left)
            break
        time.sleep(0.5)
    return len(left)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description="What is left of a study when everything around it dies.")
    for name, default in (("trials", 200), ("kills", 5), ("restarts", 5), ("nodes", 4), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--hold", action="store_true")
    asked = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    with tempfile.TemporaryDirectory() as folder:
        figures = run(**vars(asked), folder=Path(folder))
    least = {**{f"landed_{kind}": asked.kills for kind in EVIDENCE}, "restarts": asked.restarts}
    none = ("trials_without_row", "rows_twice", "rows_lost", "unreadable", "overlaps", "processes_left")
    ok = all(figures[key] >= number for key, number in least.items()) and not any(figures[key] for key in none)
    conclude("chaos", ok=ok, figures=figures, targets={**least, **dict.fromkeys(none, 0)})


def _raylet_of(node: Any) -> int:
    """Return the process of a node of Ray's that leads the others."""
    process: int = node.all_processes["raylet"][0].process.pid
    return process


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _end(processes: list[psutil.Process]) -> None:
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


if __name__ == "__main__":
    main()
