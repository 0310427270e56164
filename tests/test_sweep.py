"""The command from end to end without Ray: what it prints, keeps and returns, run by run."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from runner.environment import usable_cores
from sweeps.definition import Sweep
from sweeps.study import read_records
from sweeps.sweep_file import catalog, load, read

ROOT = Path(__file__).parent.parent
PLACE = "Runs on this machine without Ray (--local)."

OWN = """\
import ctypes, os, sys, time
import torch

class Work:
    def __init__(self, *, seed, size, deed="work"):
        self.deed = deed

    def prepare(self, device, target):
        self.loss = torch.zeros(())
        if self.deed == "print":
            print("x" * 3_000_000, flush=True)
            print("y" * 3_000_000, file=sys.stderr, flush=True)

    def step(self):
        if self.deed == "raise":
            raise KeyError("no such batch")
        if self.deed == "crash":
            ctypes.string_at(0)
        if self.deed == "exit":
            os._exit(7)
        if self.deed == "sleep":
            time.sleep(60)
        if self.deed == "allocate":
            torch.empty(10**15)
        time.sleep(0.001)
        return self.loss
"""
SWEEP = """\
name: own
question: Which of two equal targets is faster?
workload: own.py:Work
axes: {size: [1, 2]}
targets: [{name: old, device: cpu, threads: 1}, {name: new, device: cpu, threads: 1}]
passes: 1
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "own.py").write_text(OWN)
    (folder / "own.yaml").write_text(SWEEP)
    return folder


def command(*arguments):
    return [sys.executable, str(ROOT / "sweep.py"), *arguments]


@pytest.fixture(scope="module")
def run(place):
    """Return a function that runs the command to its end, beside the sweep file."""

    def run(*arguments, **environment):
        return subprocess.run(
            command(*arguments),
            cwd=place,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    return run


def done(finished):
    """Return the status of each trial that a run reported, by identity."""
    lines = [line.split() for line in finished.stdout.splitlines() if line.startswith("done ")]
    assert all(len(words) == 3 for words in lines)
    times = Counter(words[1] for words in lines)
    assert {words[2] for words in lines if times[words[1]] > 1} <= {"ok"}, "only a disturbed trial is repeated"
    return {words[1]: words[2] for words in lines}


def rows(study):
    """Every row but the repeats of trials that were disturbed, which a busy machine adds."""
    table, warnings = read_records(study)
    assert warnings == []
    found = table.to_pylist()
    fine = {(row["trial_id"], row["attempt"]) for row in found if row["status"] == "ok"}
    return [row for row in found if (row["trial_id"], row["attempt"] - 1) not in fine]


# ------------------------------------------------------------------------------------------- one study, run by run


@pytest.fixture(scope="module")
def first(run):
    return run("own.yaml", "--local", "--out", "study", "--no-report")


@pytest.fixture(scope="module")
def again(first, run):
    return run("own.yaml", "--local", "--out", "study")


@pytest.fixture(scope="module")
def extended(again, run):
    return run("own.yaml", "--local", "--out", "study", "--no-report", "--set", "axes.size=2,4", "--set", "passes=2")


def test_the_first_line_says_where_it_runs_and_why(first):
    assert first.stdout.splitlines()[0] == PLACE


def test_a_run_reports_each_trial_in_a_plain_line(first, place):
    asked = load(str(place / "own.yaml"))
    assert first.returncode == 0, first.stdout + first.stderr
    assert done(first) == {trial.trial_id: "ok" for pair in asked.pairs() for trial in pair}
    assert "4 trials, 0 done before, 4 to run" in first.stdout
    assert "4 trials: 4 ok." in first.stdout
    assert first.stderr == ""


def test_without_a_report_there_is_none(first):
    assert "eport" not in first.stdout


def test_the_log_tells_what_ran_where(first, place):
    log = (place / "study" / "log.txt").read_text()
    for trial_id in done(first):
        assert re.search(rf"^\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d.* start {trial_id} own\.py:Work size=", log, re.MULTILINE)
        assert re.search(rf" done {trial_id} ok$", log, re.MULTILINE)


def test_asking_again_runs_nothing_and_reports(again, place):
    assert again.returncode == 0, again.stdout + again.stderr
    assert done(again) == {}
    assert "4 trials, 4 done before, 0 to run" in again.stdout
    assert again.stdout.splitlines()[-1] == f"Report: {Path('study') / 'report.html'}"
    assert (place / "study" / "report.html").is_file()


def test_the_verdict_names_no_winner_among_equals(again, place):
    (found,) = json.loads((place / "study" / "crossovers.json").read_text())["crossovers"]
    assert found["verdict"] in ("tie", "undetermined")


def test_more_values_and_passes_run_only_what_is_new(first, extended, place):
    assert extended.returncode == 0, extended.stdout + extended.stderr
    assert "8 trials, 2 done before, 6 to run" in extended.stdout
    assert len(done(extended)) == 6
    assert done(extended).keys().isdisjoint(done(first))
    counted = Counter((row["size"], row["pass_index"]) for row in rows(place / "study"))
    assert counted == {(1, 0): 2, (2, 0): 2, (2, 1): 2, (4, 0): 2, (4, 1): 2}


def test_the_study_holds_the_resolved_sweep(extended, place):
    kept = read((place / "study" / "sweep.yaml").read_bytes(), "sweep.yaml")
    assert (kept.axes, kept.passes) == ({"size": [1, 2, 4]}, 2)
    assert kept.question == "Which of two equal targets is faster?"
    assert Sweep.model_validate(kept.model_dump()) == kept


def test_every_row_says_what_was_asked_and_found(extended, place):
    for row in rows(place / "study"):
        assert (row["sweep"], row["workload"], row["status"], row["attempt"]) == ("own", "own.py:Work", "ok", 1)
        assert row["threads_requested"] == row["threads_observed"] == 1
        assert len(row["step_times_s"]) >= 10
        assert min(row["step_times_s"]) >= 0.001
        assert row["process_start_s"] > 0
        assert row["started_at"] < row["finished_at"]
        assert row["ray"] is row["gpu_name"] is None
        assert dict(row["null_reasons"])["ray"] == "run without Ray"
        nulls = {name for name, value in row.items() if value is None} - {"error_type", "error_message"}
        assert nulls <= set(dict(row["null_reasons"])), "every null says why"


def test_the_pairs_ran_back_to_back(extended, place):
    pairs = {}
    for row in sorted(rows(place / "study"), key=lambda row: row["started_at"]):
        pairs.setdefault(row["pair_id"], []).append((row["pair_order"], row["target"], row["host"]))
    order = [row["pair_id"] for row in sorted(rows(place / "study"), key=lambda row: row["started_at"])]
    assert order == [pair for pair in dict.fromkeys(order) for _ in range(2)]
    for trials in pairs.values():
        assert [number for number, _, _ in trials] == [0, 1]
        assert {target for _, target, _ in trials} == {"old", "new"}


def test_trials_open_as_one_table_everywhere(extended, place):
    trials = place / "study" / "trials"
    assert len(list(trials.glob("*.parquet"))) == 2, "one part for each of the runs that ran something"
    assert [path for path in trials.iterdir() if path.suffix != ".parquet"] == []
    names = ["trial_id", "attempt", "size", "target", "step_times_s", "status"]

    def sorted_rows(found):
        return sorted(found, key=lambda row: (row["trial_id"], row["attempt"]))

    arrow = sorted_rows(ds.dataset(trials).to_table(columns=names).to_pylist())
    frame = pd.read_parquet(trials, columns=names)
    frame["step_times_s"] = frame["step_times_s"].map(list)
    relation = duckdb.read_parquet(f"{trials}/*.parquet").project(", ".join(names))
    assert len({row["trial_id"] for row in arrow}) == 10, "one that was disturbed is in there twice"
    assert sorted_rows(frame.to_dict("records")) == arrow
    assert sorted_rows(dict(zip(names, row, strict=True)) for row in relation.fetchall()) == arrow


def test_units_stand_with_the_columns(extended, place):
    for part in (place / "study" / "trials").iterdir():
        described = pq.read_schema(part)
        units = {field.name: field.metadata.get(b"unit") for field in described}
        assert units["step_times_s"] == b"s"
        assert units["peak_memory_bytes"] == b"B"
        assert units["flops_per_step"] == b"FLOP"
        assert units["status"] is None
        assert described.field("step_times_s").metadata[b"meaning"]


# --------------------------------------------------------------------------------------- what can happen to a trial


@pytest.fixture(scope="module")
def misdeeds(run):
    deeds = "--set", "axes.deed=work,raise,crash,exit,allocate,print"
    return run("own.yaml", "--local", "--out", "misdeeds", "--set", "axes.size=1", *deeds)


@pytest.fixture(scope="module")
def late(misdeeds, run):
    asked = ("--set", "axes.size=1", "--set", "axes.deed=sleep,work", "--set", "deadline_s=1")
    return run("own.yaml", "--local", "--out", "misdeeds", "--no-report", *asked)


@pytest.fixture(scope="module")
def mended(late, run, place):
    (place / "own.py").write_text(OWN.replace("raise KeyError", "self.fault = KeyError"))
    asked = ("--set", "axes.size=1", "--set", "axes.deed=raise,crash,work")
    finished = run("own.yaml", "--local", "--out", "misdeeds", "--no-report", "--retry", "error,timeout", *asked)
    (place / "own.py").write_text(OWN)
    return finished


@pytest.fixture(scope="module")
def answers(mended, place):
    """Return the first row of each deed."""
    return {row["deed"]: row for row in rows(place / "misdeeds") if row["attempt"] == 1 and row["target"] == "old"}


@pytest.mark.parametrize(
    ("deed", "status", "kind", "message"),
    [
        ("work", "ok", None, None),
        ("print", "ok", None, None),
        ("raise", "error", "KeyError", "no such batch"),
        ("crash", "crashed", "SIGSEGV", "ended by SIGSEGV without an answer"),
        ("exit", "crashed", "exit code 7", "ended by exit code 7 without an answer"),
        ("allocate", "oom", "RuntimeError", "tried to allocate"),
        ("sleep", "timeout", "Timeout", "stopped at the deadline of 1 s"),
    ],
)
def test_whatever_a_workload_does_becomes_a_row(answers, deed, status, kind, message):
    row = answers[deed]
    assert (row["status"], row["error_type"]) == (status, kind)
    assert message is None or message in row["error_message"]
    assert (row["step_times_s"] is None) == (status != "ok")


def test_an_error_brings_its_traceback_with_the_user_s_line(answers):
    assert 'own.py", line' in answers["raise"]["error_message"]
    assert "KeyError" in answers["raise"]["error_message"]


def test_a_run_with_failures_finishes_and_says_so(misdeeds):
    assert misdeeds.returncode == 3, misdeeds.stdout + misdeeds.stderr
    assert Counter(done(misdeeds).values()) == {"ok": 4, "error": 2, "crashed": 4, "oom": 2}
    assert "12 trials: 4 crashed, 2 error, 4 ok, 2 oom." in misdeeds.stdout
    assert "xxxx" not in misdeeds.stdout
    assert "Traceback" not in misdeeds.stdout + misdeeds.stderr


def test_failures_are_final_and_a_deadline_can_be_changed(misdeeds, late):
    assert late.returncode == 3
    assert Counter(done(late).values()) == {"timeout": 2}
    assert "4 trials, 2 done before, 2 to run" in late.stdout


def test_retry_asks_again_for_these_statuses_only(misdeeds, mended, place):
    assert mended.returncode == 3, "what crashed is not asked again, and counts"
    assert Counter(done(mended).values()) == {"ok": 2}
    assert "6 trials, 4 done before, 2 to run" in mended.stdout
    again = [row for row in rows(place / "misdeeds") if row["attempt"] == 2]
    assert {(row["deed"], row["status"], row["target"]) for row in again} == {
        ("raise", "ok", "old"),
        ("raise", "ok", "new"),
    }
    assert {row["trial_id"] for row in again} < set(done(misdeeds))


def test_a_change_of_the_measuring_code_is_warned_about_and_visible(late, mended, place):
    assert "other measuring code" not in late.stdout
    assert "Warning: older rows come from other measuring code (" in mended.stdout
    versions = {(row["attempt"], row["code_version"]) for row in rows(place / "misdeeds")}
    assert len(versions) == 2


# ------------------------------------------------------------------------------------------- a sweep that ships


@pytest.fixture(scope="module")
def smoke(run):
    tiny = ("--set", "axes.batch_size=2,4", "--set", "parameters.width=8", "--set", "parameters.features=8")
    return run(
        "smoke", "--local", "--targets", "cpu-1,cpu-2,gpu", *tiny, "--set", "passes=1", RAY_ADDRESS="elsewhere:1"
    )


def test_a_sweep_that_ships_makes_a_whole_study_in_results(smoke, place):
    study = place / "results" / "smoke"
    assert smoke.returncode == 0, smoke.stdout + smoke.stderr
    assert smoke.stdout.splitlines()[0] == PLACE
    names = {path.relative_to(study).parts[0] for path in study.rglob("*")}
    reported = {"report.html", "report.md", "crossovers.json", "charts"}
    assert names == {".lock", "trials", "sweep.yaml", "log.txt", *reported}
    assert {path.suffix for path in (study / "charts").iterdir()} == {".svg", ".png"}
    assert smoke.stdout.splitlines()[-1] == f"Report: {Path('results') / 'smoke' / 'report.html'}"


def test_real_training_on_the_threads_that_were_asked(smoke, place):
    found = [row for row in rows(place / "results" / "smoke") if row["target"] != "gpu"]
    assert len(found) == 4
    cores = usable_cores()
    for row in found:
        wanted = int(row["target"].removeprefix("cpu-"))
        assert row["status"] == ("ok" if wanted <= cores else "unavailable")
        assert row["threads_requested"] == wanted
        assert not row["paired"], "smoke is a sweep by target"
        if row["status"] == "ok":
            assert row["threads_observed"] == wanted
            assert row["device"] == "cpu"
            assert row["loss_step_1"] > 0
            assert row["parameter_bytes"] == 4 * (8 * 8 + 8 * 10 + 8 + 10)


def test_a_device_that_is_not_there_is_an_answer_with_its_cause(smoke, place):
    found = [row for row in rows(place / "results" / "smoke") if row["target"] == "gpu"]
    assert len(found) == 2
    assert len({row["status"] for row in found}) == 1
    if found[0]["status"] == "ok":  # where there is one
        assert all(row["gpu_name"] for row in found)
    else:
        assert found[0]["status"] == "unavailable"
        assert all(row["error_message"] for row in found)
        assert f"No accelerator: {found[0]['error_message']}." in smoke.stdout


def test_the_same_seed_is_the_same_training_on_every_target(smoke, place):
    losses = {}
    for row in rows(place / "results" / "smoke"):
        if row["status"] == "ok":
            losses.setdefault(row["batch_size"], []).append((row["loss_step_1"], row["loss_step_10"]))
    for values in losses.values():
        assert values == [pytest.approx(values[0], rel=1e-4)] * len(values)


# ------------------------------------------------------------------------------------------------ ended from outside


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_it_reported(place, number):
    study = place / f"interrupted-{number.name}"
    asked = command("own.yaml", "--local", "--out", str(study), "--set", "passes=20")
    with subprocess.Popen(asked, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as driver:
        lines = [driver.stdout.readline()]
        while not lines[-1].startswith("done "):
            lines.append(driver.stdout.readline())
            assert lines[-1], driver.stderr.read()
        driver.send_signal(number)
        out, err = driver.communicate(timeout=120)
    assert driver.returncode == 130, err
    assert "Everything that was reported is kept: the same command runs the rest" in err
    assert "Traceback" not in err
    reported = {line.split()[1] for line in [*lines, *out.splitlines()] if line.startswith("done ")}
    assert reported
    assert reported <= {row["trial_id"] for row in rows(study)}


def test_a_run_whose_time_is_up_at_once_has_nothing_to_report(run):
    stopped = run("own.yaml", "--local", "--out", "no-time", "--max-minutes", "0")
    assert (stopped.returncode, stopped.stderr) == (3, "")
    assert stopped.stdout.splitlines()[-2:] == [
        "The time is up: what runs is finished, and the same command runs the rest.",
        "4 trials: 4 not run.",
    ]


# ------------------------------------------------------------------------------------------------------ asking for help


def test_list_shows_each_sweep_with_its_question(run):
    shown = run("--list")
    assert shown.returncode == 0
    assert shown.stdout.splitlines() == [f"{name:12} {load(name).question}" for name in catalog()]


def test_help_shows_what_exists_and_nothing_else(run):
    shown = run("--help", COLUMNS="200")
    assert shown.returncode == 0
    known = {"--out", "--set", "--targets", "--list", "--address", "--local", "--retry", "--wait", "--help"}
    known |= {"--max-minutes", "--plan", "--verbose", "--against"}
    flags = set(re.findall(r"(?<![\w-])--[a-z-]+", shown.stdout))
    assert flags - {"--report", "--no-report"} == known


def test_a_cluster_that_cannot_be_reached_is_named_with_the_reason_for_asking_it(run):
    for arguments, environment, why in (
        (("--address", "nonsense"), {}, "Runs on the Ray cluster nonsense (--address)."),
        ((), {"RAY_ADDRESS": "nonsense"}, "Runs on the Ray cluster nonsense (RAY_ADDRESS is set)."),
    ):
        finished = run("own.yaml", "--out", "nowhere", *arguments, **environment)
        assert finished.returncode == 2
        assert finished.stdout.splitlines()[0] == why
        assert "cannot connect to Ray at nonsense" in finished.stderr
