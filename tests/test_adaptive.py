"""Searches against a truth that is known beforehand: prescribed step times, measured through real Ray."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import psutil
import pytest
import ray
from rich.console import Console

from analysis.conclusion import conclude
from analysis.load import load
from analysis.strategy import next_wishes
from runner.place import choose_place
from runner.progress import Progress
from runner.run import run
from runner.search import Search
from runner.store import Store
from sweeps.definition import Sweep
from tests.examples import ROOT

#: An interval of 95 % misses the truth now and then, but not by much.
WITHIN = 1.1

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

#: A step takes its time asleep, so that it takes no longer where others keep the cores busy. The new way wins from size
#: 100 on, and with two sizes where 6.25 times their product is above that.
WORKLOAD = """
import random
import time

import torch


class Asleep:
    def __init__(self, *, seed, size=None, across=None, along=None):
        self.size = across * along * 6.25 if size is None else size
        self.jitter = random.Random()

    def prepare(self, device, target):
        self.seconds = (0.064 * self.size if target == "old" else 3.2 + 0.032 * self.size) / 1000

    def step(self):
        until = time.monotonic() + self.seconds * self.jitter.lognormvariate(0, 0.03)
        time.sleep(max(0.0, until - time.monotonic() - 1e-4))
        while time.monotonic() < until:
            pass
        return torch.zeros(())
"""
ONE_THREAD = [{"name": name, "device": "cpu", "threads": 1} for name in ("old", "new")]


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """What a sweep file would say."""
    own = tmp_path_factory.mktemp("own") / "asleep.py"
    own.write_text(WORKLOAD)
    return {
        "name": "truth",
        "workload": f"{own}:Asleep",
        "axes": {"size": {"from": 16, "to": 512}},
        "targets": ONE_THREAD,
        "strategy": "adaptive",
        "half_width": 0.2,
    }


@pytest.fixture(scope="module")
def executor():
    assert not ray.is_initialized()
    with contextlib.closing(choose_place(None, local=False).open(accelerators=0, source=WORKLOAD)) as made:
        yield made


def measured(folder, executor, asked):
    """Run a sweep, a search or a grid; return how it ended, its conclusion and its rows."""
    sweep = Sweep.model_validate(asked)
    store = Store(folder, sweep)
    is_grid = sweep.strategy == "grid"
    plan = sweep.pairs() if is_grid else []
    search = None if is_grid else Search(sweep, store, lambda *known: decide(sweep, *known))
    with Progress(Console(file=io.StringIO()), folder / "log.txt", total=sweep.size, searches=not is_grid) as progress:
        settings = {"axis": sweep.axis, "by_target": False, "code_version": "v1", "search": search}
        run(plan, plan, store, executor, progress, **settings)
    store.close()
    study = load(folder)
    rows = study.records
    return SimpleNamespace(
        stop="" if search is None else search.stop,
        found=conclude(study).crossovers,
        rows=rows,
        seconds=(rows["finished_at"] - rows["started_at"]).dt.total_seconds().sum(),
    )


def decide(sweep, rows, pending, nodes):
    return next_wishes(sweep, rows.to_pandas(), pending=pending, nodes=nodes)


def pairs_of(rows):
    return len(set(zip(rows["size"], rows["pass_index"], strict=True)))


def holds(row, size):
    return row["verdict"] == "crosses" and row["low"] <= size <= row["high"]


def found_of(each):
    (row,) = each.found.to_dict("records")
    return row


def test_a_search_finds_the_crossing_in_less_time_than_the_grid(executor, asked, tmp_path):
    grid = {"strategy": "grid", "half_width": 0.1, "axes": {"size": {"from": 16, "to": 512, "factor": 2}}}
    full = measured(tmp_path / "grid", executor, asked | grid)
    searches = [measured(tmp_path / str(seed), executor, asked | {"seed": seed}) for seed in range(1, 6)]
    shares = [each.seconds / full.seconds for each in searches]
    print("share of the grid's measured time:", *(f"{share:.2f}" for share in shares))
    for seed, each in enumerate(searches, start=1):
        row = found_of(each)
        print(f"seed {seed}: {pairs_of(each.rows)} pairs, {row['low']:.4g} to {row['high']:.4g}; {each.stop}")
        assert row["low"] / WITHIN <= 100 <= row["high"] * WITHIN, row
        assert row["direction"] == "challenger_above"
        assert each.stop
    # An interval holds the truth in 95 % of cases, so that one of five may miss it, but not by much.
    assert sum(holds(found_of(each), 100) for each in searches) >= 4
    assert max(shares) < 1


def test_sizes_that_would_take_too_long_are_not_measured_to_be_sure(executor, asked, tmp_path):
    limited = {"axes": {"size": {"from": 16, "to": 8192}}, "deadline_s": 1.5}
    found = measured(tmp_path / "slow", executor, asked | limited)
    (row,) = found.found.to_dict("records")
    assert holds(row, 100), row
    assert found.rows["size"].max() < 8192
    assert found.rows["status"].eq("timeout").sum() <= 2, "that of one pair"


def test_a_map_is_searched_where_its_line_runs(executor, asked, tmp_path):
    axes = {"across": {"from": 1, "to": 64}, "along": {"from": 1, "to": 16}}
    found = measured(tmp_path / "map", executor, asked | {"axes": axes})
    assert found.stop
    cells = {(row["across"], row["along"]) for row in found.rows.to_dict("records")}
    assert 10 <= len(cells) < 7 * 5
    assert {cell[0] for cell in cells} <= {1, 2, 4, 8, 16, 32, 64}
    rows = found.found.set_index("along").to_dict("index")
    for along, row in rows.items():
        if row["verdict"] == "crosses":
            assert row["bracket_low"] <= 16 / along <= row["bracket_high"], (along, row)
    assert sum(row["verdict"] == "crosses" for row in rows.values()) >= 2


# -------------------------------------------------------------------------------------------- the whole program


def begin(file, folder, *more):
    command = [sys.executable, "sweep.py", str(file), "--out", str(folder), *more]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def finish(file, folder, *more):
    with begin(file, folder, *more) as driver:
        lines = driver.stdout.readlines()
    return driver.returncode, lines


def reported(lines):
    return [line.split()[1] for line in lines if line.startswith("done ")]


def test_a_search_that_is_killed_goes_on_where_it_was(asked, tmp_path):
    file, folder = tmp_path / "truth.yaml", tmp_path / "study"
    file.write_text(json.dumps(asked))  # which is YAML too
    driver = begin(file, folder)
    lines = []
    while len(reported(lines)) < 13:  # in the middle of a pair
        lines.append(driver.stdout.readline())
        assert lines[-1], "it ended before it could be killed"
    others = psutil.Process(driver.pid).children(recursive=True)
    os.kill(driver.pid, signal.SIGKILL)
    with driver:
        lines += driver.stdout.readlines()
    _, gone = psutil.wait_procs(others, timeout=60)
    for process in gone:  # parts of Ray that take longer to notice
        process.kill()

    code, more = finish(file, folder)
    assert code == 0, more
    (before,) = re.findall(r"truth: (\d+) trials done before, at most", "".join(more))
    assert int(before) >= len(set(reported(lines)))
    assert not set(reported(lines)) & set(reported(more)), "what was reported is measured anew"
    attempts = Counter(zip(*(load(folder).records[name] for name in ("trial_id", "attempt")), strict=True))
    assert max(attempts.values()) == 1
    (row,) = json.loads((folder / "crossovers.json").read_text())["crossovers"]
    assert (row["verdict"], row["direction"]) == ("crosses", "challenger_above")
    assert 50 <= row["low"] < row["high"] <= 200, row
    assert any("The search ends: " in line for line in more)

    code, last = finish(file, folder, "--no-report")
    assert (code, reported(last)) == (0, [])
    assert any("none to run: " in line for line in last)
    code, planned = finish(file, folder, "--plan", "--set", "axes.size={from: 16, to: 4096}")
    assert code == 0
    assert "It begins with 3 pairs at size 1024, 2048, 4096;\n" in "".join(planned)
    settings = ["strategy=grid", "half_width=0.1", "axes.size=16,32"]
    assert finish(file, folder, *(word for each in settings for word in ("--set", each)))[0] == 2


def test_a_search_is_planned_and_its_sizes_are_taken_apart(tmp_path):
    file, folder = tmp_path / "small.yaml", tmp_path / "study"
    small = {"features": 8, "width": 8, "depth": 1, "classes": 2, "loader": "dataloader"}
    axes = {"batch_size": {"from": 2, "to": 16}}
    asked = {"name": "small", "workload": "mlp", "parameters": small, "axes": axes, "targets": ["cpu-1", "cpu"]}
    file.write_text(json.dumps(asked | {"strategy": "adaptive", "max_pairs": 6, "explain": True, "passes": 1}))
    code, planned = finish(file, folder, "--local", "--plan")
    assert (code, folder.exists()) == (0, False)
    assert "small: 0 trials done before, at most 12 to run (strategy: adaptive).\n" in planned
    assert "  It begins with 4 pairs at batch_size 2, 4, 8, 16;\n" in planned
    code, lines = finish(file, folder, "--local", "--no-report")
    assert code == 0, lines
    assert len(reported(lines)) >= 8
    study = load(folder)
    assert study.frame["status"].eq("ok").all()
    assert len(study.rungs)
    assert set(study.rungs["batch_size"]) <= set(study.frame["batch_size"])
