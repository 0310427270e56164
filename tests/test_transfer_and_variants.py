"""The sweeps that ask how batches reach a device and in which variant it runs, as they are on a machine without one."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from runner.devices import compiler
from tests.examples import run_sweep

ROOT = Path(__file__).parent.parent
NO_COMPILER = compiler.missing(torch.device("cpu"))


def run(name, folder, *settings):
    """Run a sweep that ships without Ray and without an accelerator; return its conclusions and its rows."""
    given = [word for each in settings for word in ("--set", each)]
    run_sweep(name, folder, *given)
    found = json.loads((folder / "crossovers.json").read_text())
    return found["crossovers"], pq.read_table(folder / "trials").to_pylist()


@pytest.mark.skipif(torch.accelerator.is_available(), reason="this machine has an accelerator")
def test_a_cpu_copies_nothing_so_that_every_way_is_one_question(tmp_path):
    small = ("parameters.features=64", "parameters.width=16", "axes.batch_size=8,64", "passes=1")
    (answer,), rows = run("transfer", tmp_path / "study", *small)
    assert answer["transfer"] is None
    assert answer["verdict"] in ("undetermined", "tie", "always_baseline", "always_challenger", "crosses")
    assert sorted({(row["target"], row["batch_size"]) for row in rows}) == [
        ("cpu", 8),
        ("cpu", 64),
        ("cpu-1", 8),
        ("cpu-1", 64),
    ]
    assert {(row["status"], row["transfer"]) for row in rows} == {("ok", None)}
    assert dict(rows[0]["null_reasons"])["transfer"] == "means nothing for this trial"


@pytest.mark.skipif(torch.accelerator.is_available(), reason="this machine has an accelerator")
@pytest.mark.skipif(bool(NO_COMPILER), reason=NO_COMPILER)
def test_a_variant_has_its_price_up_front_in_its_row_and_in_the_report(tmp_path):
    small = ("parameters.width=8", "parameters.depth=1", "axes.batch_size=16", "passes=1")
    (answer,), rows = run("variants", tmp_path / "study", *small)
    assert "cpu-compile" in answer["sentence"]
    seen = {row["target"]: row for row in rows}
    assert {(row["status"], row["mode"]) for row in rows} == {("ok", "eager"), ("ok", "compile")}
    assert seen["cpu"]["mode_s"] is None
    assert 0 < seen["cpu-compile"]["mode_s"] < seen["cpu-compile"]["warmup_s"]
    table = [line.split(" | ") for line in (tmp_path / "study" / "report.md").read_text().splitlines() if " | " in line]
    assert ["| cpu-compile", "compiling or recording"] in [line[:2] for line in table]
