"""Studies that older versions of the program wrote: one is kept for each past schema, and read like a new one."""

import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from analysis import report
from analysis.load import load
from sweeps.record import COLUMNS, SCHEMA_VERSION, Record, table

STUDIES = Path(__file__).parent.parent / "studies"


def test_every_past_schema_has_a_study():
    assert {path.name for path in STUDIES.iterdir()} == {f"schema-{version}" for version in range(1, SCHEMA_VERSION)}


@pytest.fixture(params=sorted(path.name for path in STUDIES.iterdir()))
def study(request, tmp_path):
    return Path(shutil.copytree(STUDIES / request.param, tmp_path / "old"))


def test_it_is_read_whole_with_null_for_what_it_did_not_know(study):
    found = load(study)
    assert len(found.frame) == found.planned
    assert set(found.frame) >= COLUMNS - {"parameters"}
    assert (found.frame["schema_version"] < SCHEMA_VERSION).all()
    assert found.frame["precision"].isna().all()


def test_it_has_a_report_with_its_verdict(study):
    written = report.write(study)
    assert written.sentences == (
        "From batch_size 110 on (95 % interval 5 to 198), cpu trains this mlp model at least 10 % faster than cpu-1.",
    )
    assert (study / "report.html").stat().st_size > 10_000


def test_old_and_new_rows_are_one_table(study):
    old = load(study)
    first = old.frame.iloc[0]
    asked = {name: first[name] for name in ("sweep", "config_id", "pair_id", "workload", "target", "rung")}
    new = Record(
        **asked,
        trial_id="new",
        pair_order=0,
        paired=True,
        pass_index=3,
        status="ok",
        precision="ieee",
        step_times_s=[0.001],
        parameters={"batch_size": 64, "loader": "slice", "clip_norm": None},
    )
    pq.write_table(table([new]), study / "trials" / "new.parquet")
    both = load(study).records
    assert len(both) == len(old.records) + 1
    (row,) = both[both["trial_id"] == "new"].to_dict("records")
    assert (row["precision"], row["loader"], row["schema_version"]) == ("ieee", "slice", SCHEMA_VERSION)
    assert both.loc[both["trial_id"] != "new", "loader"].isna().all()
    assert pd.api.types.is_integer_dtype(both["batch_size"])
