"""The whole check, as `make gpu-check` runs it: where only torch, numpy and pyarrow are, and on a late accelerator."""

import json
import re
import subprocess
import sys
import venv
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from runner.check import __main__ as command
from runner.check.plan import COLD_STARTS, COLD_STUDY, questions
from tests.runner.check.bare import ROOT, amiss, make_bare, run_bare
from tests.runner.check.late.sitecustomize import OPERATOR_NS

LATE = Path(__file__).with_name("late")
STUDIES = ("tutorial", "mlp", "cnn")
MOST_BYTES = 2_000_000

no_accelerator = pytest.mark.skipif(torch.accelerator.is_available(), reason="this machine has an accelerator")


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python with torch, numpy and pyarrow, and nothing else that is ours."""
    made = make_bare(tmp_path_factory.mktemp("bare"))
    assert amiss(made) == []
    return made


def rows_of(folder, *studies):
    parts = [part for study in studies or STUDIES for part in sorted((folder / study / "trials").iterdir())]
    return [row for part in parts for row in pq.read_table(part).to_pylist()]


def checks_of(folder):
    told = json.loads((folder / "checks.json").read_text())
    return told, {line["key"]: line for line in told["checks"]}


def promises_of(checks):
    """Return which promises hold; the losses of the tenth step are apart, for busy cores may leave time for fewer."""
    promises = {key: line["agrees"] for key, line in checks.items() if line["is_promise"]}
    assert promises.pop("loss 10") is not False
    return promises


def asked(device):
    """Return the identity of every trial of a check."""
    plans = [plan for q in questions(device) for plan in (q.pairs(0), q.ladder())]
    plans += [q.cold_starts() for q in questions(device) if q.name == COLD_STUDY]
    return [trial.trial_id for plan in plans for pair in plan for trial in pair]


@pytest.fixture(scope="module")
def rehearsed(python, tmp_path_factory):
    """A rehearsal by `make`, once stopped after its first seconds and then run to its end: folder, and both runs."""
    folder = tmp_path_factory.mktemp("rehearsal") / "out"
    stopped = run_bare(python, "-m", "runner.check", "--device", "cpu", "--out", folder, "--seconds", "4.5")
    then = [(folder / name).read_text() for name in ("checks.md", "checks.json")]
    rows = {row["trial_id"]: row for row in rows_of(folder)}
    whole = run_bare("make", "gpu-check", f"PYTHON={python}", "DEVICE=cpu", f"OUT={folder}")
    return folder, (stopped, then, rows), whole


def test_a_rehearsal_needs_nothing_but_torch_numpy_and_pyarrow(rehearsed):
    folder, _, whole = rehearsed
    assert (whole.returncode, whole.stderr) == (0, "")
    rows = rows_of(folder)
    assert sorted(row["trial_id"] for row in rows) == sorted(asked("cpu"))
    assert {row["status"] for row in rows} == {"ok"}
    assert {row["start_method"] for row in rows} == {"fork"}
    told, checks = checks_of(folder)
    assert told["ended"] == "Everything was measured."
    keys = ("ended otherwise", "not forked", "signs in the nursery", "error, ieee", "loss 1")
    assert promises_of(checks) == dict.fromkeys(keys, True)


def test_rows_say_what_they_lack_and_why(rehearsed):
    folder, *_ = rehearsed
    for row in rows_of(folder):
        reasons = dict(row["null_reasons"])
        assert row["cores_physical"] is None
        assert reasons["cores_physical"] == "the package psutil is not installed"
        assert {name for name, value in row.items() if value is None} - {"error_type", "error_message"} <= set(reasons)
        assert row["memory_at_start_bytes"] > 50_000_000  # without psutil the kernel is asked
        assert row["memory_bytes"] > 2**30
        assert bool(row["cpu_model"]) == ("model name" in Path("/proc/cpuinfo").read_text())


@pytest.mark.parametrize("study", STUDIES)
def test_each_study_opens_in_the_analysis(rehearsed, study):
    folder, *_ = rehearsed
    done = subprocess.run(
        [sys.executable, "-m", "analysis", folder / study],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    (crossover,) = json.loads((folder / study / "crossovers.json").read_text())["crossovers"]
    assert crossover["verdict"] in {
        *("crosses", "several", "tie", "always_baseline", "always_challenger", "undetermined"),
    }
    assert crossover["pairs"] == len(questions("cpu")[STUDIES.index(study)].sizes)
    assert (folder / study / "report.html").stat().st_size > 10_000


def test_the_log_tells_the_story_by_itself(rehearsed):
    folder, _, whole = rehearsed
    log = (folder / "log.txt").read_text()
    assert log.endswith(whole.stdout)
    stages = [line.partition("--- ")[2] for line in whole.stdout.splitlines() if "--- " in line]
    assert stages == ["cold starts", "calibration", "pass 1", "steps taken apart", "what was found"]
    for line in (
        rf"torch {re.escape(torch.__version__)}, Python 3",
        r"not installed, so some columns of the rows will be null: pynvml, psutil, cpuinfo",
        r"mlp 4 on cpu, cold, pass 1: context .*, first product .*, first convolution ",
        r"operation, waited for: [\d.]+ [mun]?s",
        r"copy to the device, pageable: 256 MiB, [\d.]+ GB/s",
        r"product of matrices, ieee: \d+, [\d.e-]+ TFLOP/s",
        r"tutorial 512 on cpu-1, preload, pass 1: [\d.]+ [mu]?s a step",
        r"cnn, batch 16: cpu-1 .*, cpu .* a step",
        r"holds: yes; losses of the first step, one core against all: largest difference: 0 \(7 pairs\)",
        r"Everything was measured\.",
    ):
        assert re.search(line, log), line


def test_the_page_sets_what_was_found_beside_what_was_expected(rehearsed):
    folder, *_ = rehearsed
    page = (folder / "checks.md").read_text()
    told, checks = checks_of(folder)
    for line in checks.values():
        assert f"| {line['what']} | {line['expected']} | {line['found']} |" in page
    for question in questions("cpu"):
        assert f"## {question.name}: {question.question}" in page
        assert all(f"\n| {size} | " in page for size in question.sizes)
    assert told["machine"]["torch"] == torch.__version__
    assert {each["name"] for each in told["calibration"]} > {"copy to the host, pageable", "memory, read and written"}


def test_a_check_is_small_and_leaves_nothing_behind(rehearsed):
    folder, *_ = rehearsed
    files = [path for path in folder.rglob("*") if path.is_file() and "charts" not in path.parts]
    assert sum(path.stat().st_size for path in files if not path.name.startswith("report.")) < MOST_BYTES
    assert [path.name for path in files if path.name.startswith(".")] == []


def test_when_its_time_is_up_it_stops_and_says_what_was_not_run(rehearsed):
    _, (stopped, (page, told), rows), _ = rehearsed
    assert (stopped.returncode, stopped.stderr) == (3, "")
    assert len(rows) < len(asked("cpu"))
    ended = json.loads(told)["ended"]
    assert ended.startswith("Stopped early, as the time was up: ")
    assert ended.endswith("The same command measures the rest.")
    assert re.search(r"\d+ of 14 whole steps were not run, \d+ of 16 steps taken apart were not run", ended)
    assert ended in page
    assert ended in stopped.stdout


def test_the_same_command_measures_the_rest(rehearsed):
    folder, (_, _, rows), _ = rehearsed
    later = {row["trial_id"]: row for row in rows_of(folder)}
    assert all(later[trial_id]["started_at"] == row["started_at"] for trial_id, row in rows.items())


def test_and_when_there_is_no_rest_it_only_says_what_was_found(rehearsed, python):
    folder, *_ = rehearsed
    before, (_, checks) = rows_of(folder), checks_of(folder)
    again = run_bare(python, "-m", "runner.check", "--device", "cpu", "--out", folder)
    assert (again.returncode, again.stderr) == (0, "")
    assert "measured by an earlier run of this command" in again.stdout
    assert rows_of(folder) == before
    assert checks_of(folder)[1] == checks


def test_a_check_that_is_ended_keeps_what_it_has(python, tmp_path):
    folder = tmp_path / "out"
    words = (python, "-u", "-m", "runner.check", "--device", "cpu", "--out", folder)
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as check:
        for line in check.stdout:
            if "cold, pass 1" in line:
                check.terminate()
                break
        _, said = check.communicate(timeout=60)
    assert check.returncode == 130
    assert said == "gpu-check: stopped; what was measured is kept, and the same command measures the rest\n"
    assert rows_of(folder, "mlp")[0]["rung"] == "cold"
    assert "Stopped by hand; the same command measures the rest." in (folder / "checks.md").read_text()


@pytest.fixture(scope="module")
def late(python, tmp_path_factory):
    """`late(opening_s)` checks an accelerator whose work ends late, and that takes so long to open; rows and page."""

    def check(opening_s):
        folder = tmp_path_factory.mktemp("late")
        done = run_bare(
            python,
            *("-m", "runner.check", "--device", "gpu", "--out", folder),
            PYTHONPATH=str(LATE),
            LATE_OPENING_S=str(opening_s),
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        return rows_of(folder), *checks_of(folder), done.stdout

    return check


def test_an_accelerator_is_waited_for_wherever_it_is_timed(late):
    rows, told, checks, _ = late(0.25)
    assert (told["title"], told["ended"]) == ("gpu-check: Late GPU", "Everything was measured.")
    on_gpu = [row for row in rows if row["target"] == "gpu"]
    stepped = [row for row in on_gpu if row["rung"] != "cold"]
    assert {row["rung"] for row in stepped} == {"e2e", "preload", "resident", "nosync", "kernel"}
    for row in stepped:
        assert min(row["step_times_s"]) > row["ops_per_step"] * OPERATOR_NS / 1e9
        assert row["first_step_s"] > row["ops_per_step"] * OPERATOR_NS / 1e9
        assert row["gpu_name"] == "Late GPU"
    assert len(on_gpu) - len(stepped) == COLD_STARTS
    assert all(row["cold_context_s"] > 0.25 for row in on_gpu)
    assert {row["gpu_name"] for row in rows if row["target"] != "gpu"} == {None}
    assert checks["launch"]["low"] > OPERATOR_NS / 1e9
    assert checks["waited"]["low"] > OPERATOR_NS / 1e9
    assert checks["loss 1"]["agrees"] is True
    promises = promises_of(checks)
    assert promises.pop("events, long") is None  # its tensors lie on a CPU, which has no events
    assert set(promises.values()) == {True}


def test_where_a_context_takes_long_steps_are_not_taken_apart(late):
    rows, told, _, said = late(1.6)
    assert {row["rung"] for row in rows} == {"e2e", "cold"}
    assert re.fullmatch(
        r"Everything was measured\. Steps were not taken apart, as a context takes 1\.\d+ s\.", told["ended"]
    )
    assert told["ended"] in said


@no_accelerator
def test_without_an_accelerator_it_says_why_and_how_to_rehearse(python, tmp_path):
    done = run_bare(python, "-m", "runner.check", "--device", "gpu", "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "")
    cause = f"gpu-check: no CUDA device: this torch {torch.__version__} is a CPU-only build"
    assert done.stderr.startswith(cause if torch.version.cuda is None else "gpu-check: no CUDA device: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_named(python):
    done = run_bare("make", "gpu-check", f"PYTHON={python}", "DEVICE=cpu", "OUT=/proc/no/such/folder")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("gpu-check: --out /proc/no/such/folder: cannot be written: ")
    assert "Traceback" not in done.stderr


def test_what_somebody_else_keeps_in_a_folder_stays_alone(python, tmp_path):
    (tmp_path / "letter").write_text("mine")
    done = run_bare(python, "-m", "runner.check", "--device", "cpu", "--out", tmp_path)
    assert done.returncode == 2
    assert done.stderr == f"gpu-check: --out {tmp_path}: is not empty, and no check has made it; choose another --out\n"
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


def test_a_check_of_another_device_is_not_mixed_in(rehearsed, python):
    folder, *_ = rehearsed
    done = run_bare(python, "-m", "runner.check", "--device", "gpu", "--out", folder, PYTHONPATH=str(LATE))
    assert done.returncode == 2
    assert done.stderr == (
        f"gpu-check: --out {folder}/tutorial: another check has made this study; choose another --out\n"
    )


def test_a_torch_that_is_too_old_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["check", "--device", "cpu"])
    monkeypatch.setattr(command, "version", lambda name: "2.8.1+cu126")
    assert command.main() == 2
    assert capsys.readouterr().err == "gpu-check: torch 2.8.1+cu126 is too old; 2.9 or newer is needed\n"


def test_a_python_without_torch_is_told_which_one_to_name(tmp_path):
    venv.EnvBuilder(with_pip=False, symlinks=True).create(tmp_path)
    python = tmp_path / "bin" / "python"
    done = run_bare(python, "-m", "runner.check", "--device", "cpu", "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == f"gpu-check: {python} has no torch, numpy, pyarrow; name another Python: make gpu-check PYTHON=...\n"
    )
