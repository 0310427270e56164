"""The cases of docs/cases.md: each command there runs, at the sizes that it shows, and comes to a verdict."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from runner.devices.probe import probe
from sweeps.study import read_records

ROOT = Path(__file__).parent.parent
DOCUMENT = (ROOT / "docs" / "cases.md").read_text(encoding="utf-8")
COMMANDS = {
    Path(words[2]).stem: words[1:] for words in map(shlex.split, re.findall(r"^python .*$", DOCUMENT, re.MULTILINE))
}
VERDICTS = ("crosses", "several", "tie", "always_baseline", "always_challenger", "undetermined")


def run(arguments, folder):
    return subprocess.run(
        [sys.executable, *arguments, "--local", "--out", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def test_every_case_has_a_command():
    named = re.findall(r"^\| .*? \| \[?`(\w+)(?:\.yaml)?`", DOCUMENT, re.MULTILINE)
    assert named == list(COMMANDS)
    assert len(named) == 6


@pytest.mark.parametrize(
    ("case", "groups"),
    [
        ("dropout_width", [{}]),
        ("optimizer", [{"optimizer": "AdamW"}, {"optimizer": "SGD"}]),
        ("tiny_steps", [{"turns": 10}, {"turns": 100}]),
        ("sequence", [{"batch_size": 1}, {"batch_size": 64}]),
        ("reading", [{"sync_every": 1}, {"sync_every": 10}]),
        ("doubling", [{}]),
    ],
)
def test_a_case_runs(case, groups, tmp_path):
    done = run(COMMANDS[case], tmp_path / "study")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    rows = read_records(tmp_path / "study")[0].to_pylist()
    headline = [row for row in rows if row["rung"] == "e2e"]
    assert {row["status"] for row in rows} == {"ok"}
    assert {row["rung"] for row in rows} == ({"e2e", "twin", "cold"} if case == "sequence" else {"e2e"})
    assert len({row["trial_id"] for row in headline}) == 2 * 2 * len(groups)  # sizes, targets
    assert all(row["loss_step_1"] is not None and min(row["step_times_s"]) > 0 for row in headline)
    found = json.loads((tmp_path / "study" / "crossovers.json").read_text())["crossovers"]
    names = groups[0].keys()
    assert sorted(({name: each[name] for name in names} for each in found), key=str) == sorted(groups, key=str)
    assert {each["verdict"] for each in found} <= set(VERDICTS)


@pytest.mark.skipif(not probe().cause, reason="this machine has an accelerator")
def test_a_gpu_that_is_not_waited_for_is_unavailable_where_there_is_none(tmp_path):
    arguments = COMMANDS["tiny_steps"]
    cut = arguments.index("--targets")
    done = run([*arguments[:cut], *arguments[cut + 2 :], "--set", "axes.turns=10"], tmp_path / "study")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    rows = read_records(tmp_path / "study")[0].to_pylist()
    found = {(row["target"], row["rung"], row["status"]) for row in rows}
    assert found == {("cpu", "e2e", "ok"), ("gpu", "e2e", "unavailable"), ("gpu-unwaited", "nowait", "unavailable")}
    assert (
        "gpu-unwaited"
        not in json.loads((tmp_path / "study" / "crossovers.json").read_text())["crossovers"][0]["sentence"]
    )
