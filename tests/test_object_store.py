"""The whole program on a study in an object store: run, report, run again, report elsewhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.folder import Folder
from sweeps.study import read_records
from tests.object_store import KEYS, address, serve

ROOT = Path(__file__).parent.parent
TINY = [
    *("smoke", "--local", "--targets", "cpu-1,cpu", "--set", "axes.batch_size=2,4", "--set", "passes=1"),
    *("--set", "parameters.width=8"),
]


@pytest.fixture(scope="module")
def place():
    with serve() as port:
        yield address(port, "team/first")


def run(*arguments):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | KEYS,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_study_in_a_bucket_is_a_whole_study(place, monkeypatch):
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    first = run("sweep.py", *TINY, "--out", place)
    assert first.returncode == 0, first.stdout + first.stderr
    assert first.stdout.splitlines()[-1] == "Report: s3://studies/team/first/report.html"
    folder = Folder.at(place)
    made = {"sweep.yaml", "trials", "log.txt", "report.html", "report.md", "crossovers.json", "charts"}
    assert set(folder.names()) == made
    assert read_records(folder)[0].num_rows >= 4
    assert folder.read("log.txt").decode().count("done ") >= 4
    again = run("sweep.py", *TINY, "--out", place)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "4 trials, 4 done before, 0 to run." in again.stdout
    told = run("-m", "analysis", place, "--json")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["study"] == "first"
    assert json.loads(folder.read("crossovers.json"))["study"] == "first"


def test_a_bucket_that_is_not_there_is_one_message(place):
    refused = run("sweep.py", *TINY, "--out", place.replace("s3://studies/", "s3://nowhere/"))
    assert refused.returncode == 2
    assert refused.stderr.startswith("sweep.py: --out s3://nowhere/team/first: cannot be written: ")
    assert len(refused.stderr.splitlines()) == 1
