"""The largest size that fits, through the whole program: against a truth that is known, and with the node unharmed."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from runner.devices.host_memory import killed_for_memory
from sweeps.study import read_records

ROOT = Path(__file__).parent.parent
MIB = 2**20
#: Each unit of size is a mebibyte, touched.
OWN = """\
import torch

class Known:
    def __init__(self, *, seed, size):
        self.size = size

    def prepare(self, device, target):
        self.loss = torch.zeros(())

    def step(self):
        return self.loss + sum(block[0] for block in [torch.ones(2**18) for _ in range(self.size)])
"""
SWEEP = """\
name: known
question: How many mebibytes are a limit of 150 MiB?
workload: own.py:Known
axes: {size: {from: 32, to: 1024}}
strategy: largest
targets:
  - {name: cpu-1, device: cpu, threads: 1, max_memory: 150 MiB}
  - {name: cpu, device: cpu, max_memory: 150 MiB}
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit what a process allocates")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("known")
    (folder / "own.py").write_text(OWN)
    (folder / "known.yaml").write_text(SWEEP)
    return folder


def command(*arguments):
    return [sys.executable, str(ROOT / "sweep.py"), *arguments]


def run(folder, *arguments):
    """Run the command to its end."""
    done = subprocess.run(command(*arguments), cwd=folder, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def fits(study):
    return {fit["target"]: fit for fit in json.loads((study / "crossovers.json").read_text())["fits"]}


def rows(study):
    table, warnings = read_records(study)
    assert warnings == []
    return table.to_pylist()


@pytest.mark.ray
@pytest.mark.timeout(400)
def test_the_limit_is_found_within_a_tenth_and_nobody_else_is_harmed(place):
    killed = killed_for_memory()
    holds = "import time; held = bytearray(50_000_000); print('holds', flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", holds], stdout=subprocess.PIPE, text=True) as bystander:
        try:
            assert bystander.stdout.readline() == "holds\n"
            said = run(place, "known.yaml", "--out", "study")
            assert bystander.poll() is None
        finally:
            bystander.kill()
    assert killed_for_memory() == killed
    found = fits(place / "study")
    assert set(found) == {"cpu-1", "cpu"}
    for fit in found.values():
        assert 0.9 * 150 <= fit["fits"] < fit["fails"] <= 1.1 * 150
        assert fit["limit_bytes"] == 150 * MIB
    for row in rows(place / "study"):
        assert (row["status"], row["error_type"]) in {("ok", None), ("oom", "RuntimeError")}
        assert row["max_memory_bytes"] == 150 * MIB
    last = said.splitlines()[-3:]
    assert re.fullmatch(r"On cpu-1 \(150 MiB\) size \d+ fits and \d+ does not\.", last[0])
    assert re.fullmatch(r"On cpu \(150 MiB\) size \d+ fits and \d+ does not\.", last[1])
    assert last[2].startswith("Report: ")
    assert "undetermined" not in said


@pytest.mark.timeout(400)
def test_a_search_that_was_killed_goes_on_and_asks_nothing_twice(place):
    with subprocess.Popen(
        command("known.yaml", "--local", "--out", "killed", "--no-report"), cwd=place, stdout=subprocess.PIPE, text=True
    ) as driver:
        seen = 0
        while seen < 4:
            line = driver.stdout.readline()
            assert line, "the run ended before it could be killed"
            seen += line.startswith("done ")
        family = psutil.Process(driver.pid).children(recursive=True)
        os.kill(driver.pid, signal.SIGKILL)
    psutil.wait_procs(family, timeout=30)
    before = {row["trial_id"] for row in rows(place / "killed")}
    assert len(before) >= 4
    said = run(place, "known.yaml", "--local", "--out", "killed")
    assert f"known: {len(before)} trials done before" in said
    after = rows(place / "killed")
    assert len({row["trial_id"] for row in after}) == len(after), "a size was asked twice"
    assert all(0.9 * 150 <= fit["fits"] < fit["fails"] <= 1.1 * 150 for fit in fits(place / "killed").values())
    assert "none to run" in run(place, "known.yaml", "--local", "--out", "killed", "--no-report")
