"""A study with a cut-off part, a foreign Parquet file and a stray CSV in `trials/`: named, and the rest is used."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parent.parent
OWN = """\
import time
import torch

class Work:
    def __init__(self, *, seed, size):
        self.loss = torch.zeros(())

    def prepare(self, device, target):
        pass

    def step(self):
        time.sleep(0.001)
        return self.loss
"""
SWEEP = """\
name: own
workload: own.py:Work
axes: {size: [1, 2]}
targets: [{name: old, device: cpu, threads: 1}, {name: new, device: cpu, threads: 1}]
passes: 1
"""
NAMES = ("cut.parquet", "prices.parquet", "rows.csv")


def python(*arguments, place):
    return subprocess.run(
        [sys.executable, *arguments], cwd=place, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two runs, so two parts; then the second is cut off, and two files that are not ours are added."""
    place = tmp_path_factory.mktemp("damaged")
    (place / "own.py").write_text(OWN)
    (place / "own.yaml").write_text(SWEEP)
    for sizes in ("1", "1,2"):
        asked = ("own.yaml", "--local", "--out", "study", "--no-report", "--set", f"axes.size={sizes}")
        done = python(str(ROOT / "sweep.py"), *asked, place=place)
        assert done.returncode == 0, done.stdout + done.stderr
    trials = place / "study" / "trials"
    _, second = sorted(trials.iterdir(), key=lambda path: path.stat().st_mtime)
    whole = second.read_bytes()
    second.rename(trials / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    pq.write_table(pa.table({"price": [1.5], "trial_id": ["x"]}), trials / "prices.parquet")
    (trials / "rows.csv").write_text("size,seconds\n1,2\n")
    return place / "study"


@pytest.fixture(scope="module")
def analysed(study):
    return python("-m", "analysis", str(study), place=ROOT)


@pytest.fixture(scope="module")
def resumed(analysed, study):
    return python(str(ROOT / "sweep.py"), "own.yaml", "--local", "--out", "study", place=study.parent)


def test_the_analysis_names_them_and_concludes_from_the_rest(analysed, study):
    assert analysed.returncode == 0, analysed.stdout + analysed.stderr
    for name in NAMES:
        assert f"trials/{name} " in analysed.stderr
    assert "Traceback" not in analysed.stderr
    assert analysed.stdout.splitlines()[-1].endswith("report.html")
    assert all(name in (study / "report.md").read_text() for name in NAMES)


def test_the_next_run_names_them_and_runs_what_is_lost(resumed, study):
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    warnings = [line for line in resumed.stdout.splitlines() if line.startswith("Warning: ")]
    for name in NAMES:
        assert any(f"trials/{name} " in line for line in warnings)
    assert "4 trials, 2 done before, 2 to run" in resumed.stdout
    assert len({line.split()[1] for line in resumed.stdout.splitlines() if line.startswith("done ")}) == 2


def test_what_is_not_ours_is_left_alone(resumed, study):
    assert set(NAMES) <= {path.name for path in (study / "trials").iterdir()}
    assert (study / "trials" / "rows.csv").read_text() == "size,seconds\n1,2\n"
    assert pq.read_table(study / "trials" / "prices.parquet").num_rows == 1
