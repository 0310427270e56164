"""`sweep.py --against STUDY`: a machine's own CPU trials against an accelerator's rows that were recorded elsewhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.load import load as load_study
from sweeps.study import read_records, read_sweep
from sweeps.sweep_file import load
from tests.elsewhere import record_elsewhere
from tests.object_store import KEYS, address, serve

#: An interval of 95 % misses the truth now and then, but not by much.
WITHIN = 1.1

ROOT = Path(__file__).parent.parent
#: A step on the CPU takes size / 100 ms. The accelerator's rows say 1 ms + size / 400 ms: they meet at 133.
OWN = """\
import random
import time

import torch


class Work:
    def __init__(self, *, seed, size, rung="e2e"):
        self.seconds = size * (1e-5 if rung == "e2e" else 0.8e-5)
        self.jitter, self.loss = random.Random(), torch.zeros(())

    def prepare(self, device, target):
        assert target == "cpu", "nothing but the CPU's trials is run here"
        self.due = time.monotonic()

    def step(self):
        now = time.monotonic()
        self.due = max(self.due, now - 0.1) + self.seconds * self.jitter.lognormvariate(0, 0.03)
        time.sleep(max(0.0, self.due - now))
        return self.loss
"""
SWEEP = """\
name: own
question: From what size does that GPU beat this CPU?
workload: own.py:Work
axes: {size: [25, 50, 100, 200, 400, 800]}
targets: [{name: cpu, device: cpu, threads: 1}, gpu]
passes: 3
"""
MEET = 1e-3 / 7.5e-6

pytestmark = pytest.mark.timeout(600)


def seconds(trial):
    size = trial.parameters["size"]
    whole = 1e-3 + 2.5e-6 * size if trial.target.name == "gpu" else 1.0
    return whole * (1 if trial.rung == "e2e" else 0.5)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("against")
    (folder / "own.py").write_text(OWN)
    (folder / "own.yaml").write_text(SWEEP)
    asked = load(str(folder / "own.yaml"))
    record_elsewhere(folder / "studies" / "h" / "own", asked, seconds)
    apart = load(str(folder / "own.yaml"), settings=["explain=true", "axes.size=25,100,800", "passes=2"])
    record_elsewhere(folder / "studies" / "apart" / "own", apart, seconds, explained=[{"size": 25}, {"size": 800}])
    record_elsewhere(folder / "studies" / "other-work" / "own", asked, seconds, fields=lambda _: {"loss_step_1": 1.0})
    return folder


@pytest.fixture(scope="module")
def run(place):
    def run(*arguments, **environment):
        return subprocess.run(
            [sys.executable, str(ROOT / "sweep.py"), *arguments, "--local"],
            cwd=place,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


def rows(study):
    table, warnings = read_records(study)
    assert warnings == []
    return table.to_pylist()


@pytest.fixture(scope="module")
def first(run):
    done = run("--against", "studies/h/own")
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def again(first, run):
    return run("--against", "studies/h/own")


def test_only_the_cpus_trials_are_run_and_the_first_lines_say_why(first, place):
    assert "18 trials, 0 done before, 18 to run" in first.stdout
    assert (
        "Recorded in h/own on 2026-01-02: 18 trials of gpu on Made-up GPU 40. They are taken over, and none of gpu is "
        "run here." in first.stdout
    )
    assert "No accelerator" not in first.stdout
    found = {(row["target"], row["recorded_in"], row["host"] == "far-away") for row in rows(place / "results" / "own")}
    assert found == {("gpu", "h/own", True), ("cpu", "", False)}


def test_without_a_name_the_sweep_is_that_of_the_recorded_study(first, place):
    here, there = (read_sweep(place / folder / "own") for folder in ("results", "studies/h"))
    assert here == there.model_copy(update={"pairing": "by_target"})


def test_the_ordinary_analysis_finds_the_known_crossing(first, place):
    (found,) = json.loads((place / "results" / "own" / "crossovers.json").read_text())["crossovers"]
    assert (found["verdict"], found["direction"]) == ("crosses", "challenger_above")
    assert found["low"] / WITHIN <= MEET <= found["high"] * WITHIN
    assert found["high"] < 2 * found["low"]
    assert "gpu is Made-up GPU 40, recorded in h/own on 2026-01-02" in found["sentence"]
    assert found["sentence"] in first.stdout


def test_whose_rows_they_are_is_warned_of(first):
    assert "Warning: the rows of gpu are taken over from the study h/own (Made-up GPU 40 on 2026-01-02)" in first.stdout
    assert "come from other versions (torch 2.9.0 there" in first.stdout
    assert "older rows come from other measuring code" not in first.stdout


def test_a_second_run_runs_nothing(again, first, place):
    assert again.returncode == 0, again.stdout + again.stderr
    assert "18 trials, 18 done before, 0 to run" in again.stdout
    assert "older rows come from other measuring code" not in again.stdout
    assert len(list((place / "results" / "own" / "trials").glob("recorded-h-own-*.parquet"))) == 1


def test_the_study_stands_by_itself(again, run, place):
    """It can be asked again, and reported on, without the other study and without the flag."""
    aside = (place / "studies" / "h").rename(place / "studies" / "gone")
    done = run("own.yaml", "--no-report")
    aside.rename(place / "studies" / "h")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "36 trials, 36 done before, 0 to run" in done.stdout
    study = load_study(place / "results" / "own")
    assert any("taken over from the study h/own" in warning for warning in study.warnings)
    assert not any("back to back" in warning for warning in study.warnings)


def test_more_than_is_recorded_is_said_and_unavailable(run, place):
    done = run("own.yaml", "--against", "studies/h/own", "--set", "axes.size=25,30", "--out", "more", "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning: h/own has no answer for 3 of 6 trials of gpu (nothing at size 30)" in done.stdout
    absent = [row for row in rows(place / "more") if row["status"] == "unavailable"]
    assert {(row["target"], row["size"], row["error_type"]) for row in absent} == {("gpu", 30, "NotRecorded")}


def test_what_would_run_can_be_asked(run, place):
    done = run("--against", "studies/h/own", "--out", "planned", "--plan")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "18 trials, 0 done before, 18 to run" in done.stdout
    assert "gpu: " not in done.stdout
    assert not (place / "planned").exists()


def test_steps_are_taken_apart_where_the_recorded_ones_are(run, place):
    done = run("--against", "studies/apart/own", "--out", "apart")
    assert done.returncode == 0, done.stdout + done.stderr
    taken = [row for row in rows(place / "apart") if row["rung"] not in ("e2e", "cold") and row["status"] == "ok"]
    assert {(row["target"], row["rung"], row["size"]) for row in taken} == {
        (target, rung, size)
        for target in ("cpu", "gpu")
        for rung in ("preload", "resident", "nosync")
        for size in (25, 800)
    }
    report = (place / "apart" / "report.md").read_text()
    assert "What holds the slower one back" in report


def test_other_losses_there_make_the_rows_here_invalid(run, place):
    small = ["--set", "axes.size=25", "--set", "passes=1"]
    done = run("own.yaml", "--against", "studies/other-work/own", *small, "--out", "losses", "--no-report")
    assert done.returncode == 3
    mine = [row for row in rows(place / "losses") if row["target"] == "cpu"]
    assert {(row["status"], row["error_type"]) for row in mine} == {("invalid", "OtherWork")}
    assert "they do not do the same work" in mine[0]["error_message"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--against", "nowhere"], "--against nowhere: no such folder"),
        (["--against", "."], "--against .: is not a study (it has no sweep.yaml)"),
        (["--against", "studies/h/own", "--out", "studies/h/own"], "is the study that is written here"),
        (["own.yaml", "--against", "studies/h/own", "--set", "seed=1"], "not done this work: seed 1 here, 0 there"),
        (["batch_size", "--against", "studies/h/own"], "has not done this work: workload mlp here, own.py:Work there"),
        (
            ["--against", "studies/h/own", "--targets", "cpu,cuda"],
            "has not done this work: target cuda here, gpu there",
        ),
        (["--against", "studies/h/own", "--set", "nonsense=1"], "sweep.py: --set nonsense=1: nonsense: unknown key"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line_and_leaves_no_trace(run, place, arguments, expected):
    out = ["--out", "refused"] if "--out" not in arguments else []
    done = run(*arguments, *out)
    assert done.returncode == 2
    assert expected in done.stderr
    assert done.stderr.startswith("sweep.py: ")
    assert done.stderr.count("\n") == 1
    assert not (place / "refused").exists()


def test_a_recorded_study_and_ones_own_may_lie_in_an_object_store(run, place, monkeypatch):
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with serve() as port:
        there, here = (address(port, prefix) for prefix in ("recorded/own", "mine/own"))
        small = load(str(place / "own.yaml"), settings=["axes.size=25,400", "passes=1"])
        record_elsewhere(there, small, seconds)
        done = run("--against", there, "--out", here)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Recorded in recorded/own on 2026-01-02: 2 trials of gpu" in done.stdout
        found = {(row["target"], row["size"], row["recorded_in"]) for row in rows(here)}
        origins = {"cpu": "", "gpu": "recorded/own"}
        assert found == {(name, size, origin) for name, origin in origins.items() for size in (25, 400)}
        done = run("--against", there, "--out", here, "--no-report")
        assert "2 trials, 2 done before, 0 to run" in done.stdout


def test_the_help_teaches_it_by_an_example():
    shown = subprocess.run(
        [sys.executable, str(ROOT / "sweep.py"), "--help"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert "python sweep.py --against studies/" in shown
