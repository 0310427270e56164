"""Studies that older versions of the program wrote: one is kept for each past schema, and read like a new one."""

import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from analysis import report
from analysis.breakeven import break_even
from analysis.load import load
from analysis.predict import predict
from runner.store import check
from sweeps.errors import StudyError
from sweeps.record import COLUMNS, CONTINUED_SINCE, SCHEMA_VERSION, Record, table
from sweeps.study import read_sweep

STUDIES = Path(__file__).parent.parent / "studies"
NAMES = sorted(path.name for path in STUDIES.iterdir())
#: The first schema that has a column.
SINCE = {"step_times_s": 1, "warmup_s": 1, "precision": 2, "wait_policy": 2, "prepare_s": 3, "cold_context_s": 4}
VERDICTS = {
    "schema-1": "From batch_size 110 on (95 % interval 5 to 198), cpu trains this mlp model at least 10 % faster than "
    "cpu-1.",
    "schema-2": "cpu is never 10 % faster than cpu-1 at training this mlp model from batch_size 4 to 4096.",
    "schema-3": "From batch_size 60 on (95 % interval 11 to 111), cpu trains this mlp model at least 10 % faster than "
    "cpu-1.",
}


def version_of(name):
    return int(name.removeprefix("schema-"))


def test_every_past_schema_has_a_study():
    assert set(NAMES) == {f"schema-{version}" for version in range(1, SCHEMA_VERSION)}


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def study(name, tmp_path):
    return Path(shutil.copytree(STUDIES / name, tmp_path / "old"))


def test_it_is_read_whole_with_null_for_what_it_did_not_know(name, study):
    found = load(study)
    assert len(found.frame) == found.planned
    assert set(found.frame) >= COLUMNS - {"parameters"}
    assert set(found.records["schema_version"]) == {version_of(name)}
    for column, since in SINCE.items():
        assert found.frame[column].isna().all() == (version_of(name) < since), column


def test_it_has_a_report_with_its_verdict(name, study):
    written = report.write(study)
    assert written.sentences == (VERDICTS[name],)
    assert (study / "report.html").stat().st_size > 10_000


def test_old_and_new_rows_are_one_table(name, study):
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
        prepare_s=0.5,
        parameters={"batch_size": 64, "loader": "slice", "clip_norm": None},
    )
    pq.write_table(table([new]), study / "trials" / "new.parquet")
    both = load(study).records
    assert len(both) == len(old.records) + 1
    (row,) = both[both["trial_id"] == "new"].to_dict("records")
    assert (row["prepare_s"], row["loader"], row["schema_version"]) == (0.5, "slice", SCHEMA_VERSION)
    assert both.loc[both["trial_id"] != "new", "prepare_s"].isna().all() == (version_of(name) < SINCE["prepare_s"])
    assert pd.api.types.is_integer_dtype(both["batch_size"])


def test_it_is_continued_only_where_trials_are_named_as_they_are_now(name, study):
    if version_of(name) >= CONTINUED_SINCE:
        check(study, read_sweep(study))
        planned = {trial.trial_id for pair in read_sweep(study).pairs() for trial in pair}
        assert set(load(study).frame["trial_id"]) == planned
    else:
        with pytest.raises(StudyError, match=f"its rows are of schema {version_of(name)}"):
            check(study, read_sweep(study))


def test_it_is_asked_what_came_later(name, study):
    read = load(study)
    assert predict(read, {"batch_size": 300}).inside
    found = break_even(read.frame, axis="batch_size", baseline="cpu-1", challenger="cpu")
    assert found["prepared"].any() == (version_of(name) >= SINCE["prepare_s"])
