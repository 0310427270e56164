"""The driver killed with SIGKILL, again and again: nothing that was reported is lost, nothing is run twice."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parent.parent
#: Parts of Ray that hold no trial and no node; some take a minute to notice that they are alone.
HARMLESS = ("dashboard", "DashboardAgent", "RuntimeEnvAgent", "monitor.py", "log_monitor.py")

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]


def start(folder):
    command = [sys.executable, "sweep.py", "smoke", "--out", str(folder), "--targets", "cpu-1,cpu", "--no-report"]
    command += ["--set", "axes.batch_size=2,3,4,5,6,7", "--set", "parameters.width=8", "--set", "pairing=same_node"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def family(driver):
    return psutil.Process(driver.pid).children(recursive=True)


def reported(lines):
    return {line.split()[1]: line.split()[2] for line in lines if line.startswith("done ")}


def rows(folder):
    parts = [pq.read_table(part) for part in sorted((folder / "trials").glob("*.parquet"))]
    return [row for part in parts for row in part.select(["trial_id", "status", "attempt"]).to_pylist()]


def kill_after(driver, lines_wanted, extra_s):
    """Kill the driver once it has printed so many `done` lines and a little later; return what it had printed."""
    lines = []
    while len(reported(lines)) < lines_wanted:
        line = driver.stdout.readline()
        assert line, "the run ended before it could be killed"
        lines.append(line)
    time.sleep(extra_s)
    others = family(driver)
    os.kill(driver.pid, signal.SIGKILL)
    with driver:  # closes its pipe
        lines += driver.stdout.readlines()
    return reported(lines), others


def test_killed_runs_add_up_to_one_whole_study(tmp_path):
    folder = tmp_path / "study"
    moment = random.Random(20)
    seen, watched = {}, []
    try:
        for wanted in (0, 1, 3, 2):
            said, others = kill_after(start(folder), wanted, moment.uniform(0.0, 1.5))
            watched += others
            assert not set(said) & set(seen), "a trial that was reported is run again"
            seen |= said
            kept = {row["trial_id"]: row["status"] for row in rows(folder)} if folder.exists() else {}
            assert seen.items() <= kept.items(), "a row that was reported is lost"
        with start(folder) as last:
            lines = last.stdout.readlines()
        assert last.returncode == 0, lines
        seen |= reported(lines)
        time.sleep(10)
        left = [p for p in watched if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
        assert [p.cmdline() for p in left if not any(word in " ".join(p.cmdline()) for word in HARMLESS)] == []
    finally:
        for process in watched:
            if process.is_running():  # psutil compares the start time: a reused number is not ours
                process.kill()
    final = rows(folder)
    attempts = Counter((row["trial_id"], row["attempt"]) for row in final)
    assert max(attempts.values()) == 1, "something was measured twice"
    assert {trial for trial, _ in attempts} == set(seen)
    assert len(seen) == 6 * 2 * 2
    assert {row["status"] for row in final} == {"ok"}
