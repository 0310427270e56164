"""Records: one flat row, one schema, units that stay with the columns."""

import dataclasses
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from sweeps.record import (
    COLUMNS,
    CONTINUED_SINCE,
    DONE,
    FAILED,
    SCHEMA_VERSION,
    STATUSES,
    Record,
    first_line,
    schema,
    table,
)

ASKED = {
    "sweep": "mine",
    "trial_id": "t",
    "config_id": "c",
    "pair_id": "p",
    "pair_order": 0,
    "paired": True,
    "pass_index": 0,
    "rung": "e2e",
    "workload": "mlp",
    "target": "cpu",
    "status": "ok",
}


def record(**fields):
    return Record(**(ASKED | fields))


def test_a_row_is_flat_with_the_parameters_in_it():
    row = record(parameters={"batch_size": 4, "name": "x"}).row()
    assert row["batch_size"] == 4
    assert set(row) == COLUMNS - {"parameters"} | {"batch_size", "name"}
    assert row["schema_version"] == SCHEMA_VERSION
    assert row["attempt"] == 1


def test_a_table_holds_every_column_in_its_type():
    moment = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
    full = record(
        parameters={"batch_size": 4},
        step_times_s=[0.5, 0.25],
        null_reasons={"cuda": "no GPU"},
        started_at=moment,
        peak_memory_bytes=2**40,
    )
    found = table([full]).to_pylist()[0]
    assert found["step_times_s"] == [0.5, 0.25]
    assert dict(found["null_reasons"]) == {"cuda": "no GPU"}
    assert found["started_at"] == moment
    assert found["peak_memory_bytes"] == 2**40
    assert found["epoch_times_s"] is None


def test_a_failure_is_a_row_too():
    found = table([record(status="crashed", error_type="SIGSEGV")])
    assert found.schema.equals(table([record()]).schema)


def test_every_column_has_a_meaning_and_what_is_measured_in_something_has_its_unit():
    for each in schema([{"batch_size": 4}]):
        assert each.metadata[b"meaning"]
        unit = each.metadata.get(b"unit", b"").decode()
        for ending, expected in (("_s", "s"), ("_bytes", "B"), ("_bytes_per_step", "B"), ("flops_per_step", "FLOP")):
            if each.name.endswith(ending):
                assert unit == expected, each.name


@pytest.mark.parametrize(
    ("values", "kind", "stored"),
    [
        ([1, 2], pa.int64(), [1, 2]),
        ([1, 2.5], pa.float64(), [1.0, 2.5]),
        (["a", "b"], pa.string(), ["a", "b"]),
        ([True, False], pa.string(), ["true", "false"]),
        ([1, "b"], pa.string(), ["1", "b"]),
        ([2**53], pa.int64(), [2**53]),
    ],
)
def test_a_parameter_has_one_type_in_a_part(values, kind, stored):
    found = table([record(parameters={"x": value}) for value in values])
    assert found.schema.field("x").type == kind
    assert found.column("x").to_pylist() == stored


def test_rows_may_have_different_parameters():
    found = table([record(parameters={"x": 1}), record(parameters={"y": 2})])
    assert found.select(["x", "y"]).to_pylist() == [{"x": 1, "y": None}, {"x": None, "y": 2}]


def test_no_record_is_still_a_table():
    assert table([]).num_rows == 0


def test_a_study_of_schema_2_can_be_continued():
    """Schema 3 has a column more, and names trials as schema 2 does."""
    assert (SCHEMA_VERSION, CONTINUED_SINCE) == (4, 2)
    assert "prepare_s" in COLUMNS
    assert table([record(prepare_s=0.25)]).column("prepare_s").to_pylist() == [0.25]


def test_statuses():
    assert set(STATUSES) - DONE == {"unavailable", "node_lost"}
    assert set(STATUSES) >= FAILED
    assert FAILED.isdisjoint({"ok", "oom", "unavailable", "skipped_larger"})


def test_a_record_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        record().status = "error"


def test_the_first_line_of_a_message_is_what_went_wrong():
    traceback = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nValueError: bad\nmore\n'
    assert first_line(traceback) == "ValueError: bad"
    assert first_line("killed by signal 9\nlater") == "killed by signal 9"
    assert first_line(None) == ""
    assert first_line("a\x00\x1b[31mb") == "a[31mb"
    assert len(first_line("x" * 1000)) == 160
