"""Reading a study: whatever else lies in its folder is named and left out, never fatal."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sweeps.definition import Sweep
from sweeps.errors import StudyError
from sweeps.record import Record, table
from sweeps.study import read_records, read_sweep

SWEEP = Sweep.model_validate(
    {"name": "mine", "workload": "mlp", "axes": {"batch_size": [2, 4]}, "targets": ["cpu-1", "cpu"]}
)


def records(*numbers, **fields):
    asked = {"sweep": "mine", "config_id": "c", "pair_id": "p", "pair_order": 0, "paired": True, "pass_index": 0}
    asked |= {"rung": "e2e", "workload": "mlp", "target": "cpu", "status": "ok", "parameters": {"batch_size": 2}}
    return [Record(**(asked | {"trial_id": f"t{number}"} | fields)) for number in numbers]


@pytest.fixture
def study(tmp_path):
    (tmp_path / "trials").mkdir()
    (tmp_path / "sweep.yaml").write_text(SWEEP.dump())
    pq.write_table(table(records(1, 2)), tmp_path / "trials" / "a.parquet")
    return tmp_path


def ids(rows):
    return rows.column("trial_id").to_pylist()


def test_the_parts_are_one_table(study):
    pq.write_table(table(records(3)), study / "trials" / "b.parquet")
    rows, warnings = read_records(study)
    assert ids(rows) == ["t1", "t2", "t3"]
    assert warnings == []
    assert read_records(study, ["trial_id", "no_such"])[0].column_names == ["trial_id"]


def test_parts_of_different_types_and_columns_are_one_table(study):
    pq.write_table(table(records(3, parameters={"batch_size": 2.5, "lr": 0.1})), study / "trials" / "b.parquet")
    rows, warnings = read_records(study)
    assert rows.select(["trial_id", "batch_size", "lr"]).to_pylist()[1:] == [
        {"trial_id": "t2", "batch_size": 2.0, "lr": None},
        {"trial_id": "t3", "batch_size": 2.5, "lr": 0.1},
    ]
    assert warnings == []


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_part_that_was_cut_off(study, share):
    whole = (study / "trials" / "a.parquet").read_bytes()
    (study / "trials" / "b.parquet").write_bytes(whole[: int(len(whole) * share)])
    rows, (warning,) = read_records(study)
    assert ids(rows) == ["t1", "t2"]
    assert warning.startswith("trials/b.parquet is damaged or cut off (")
    assert "\n" not in warning


def test_a_part_with_a_hole_in_it(study):
    whole = bytearray((study / "trials" / "a.parquet").read_bytes())
    whole[4 : len(whole) // 2] = bytes(len(whole) // 2 - 4)
    (study / "trials" / "b.parquet").write_bytes(whole)
    rows, (warning,) = read_records(study)
    assert ids(rows) == ["t1", "t2"]
    assert warning.startswith("trials/b.parquet")


def test_every_single_damaged_byte_is_survived(study):
    """Change one byte at a time: the rows of the other part are read, and what is wrong is a warning."""
    whole = (study / "trials" / "a.parquet").read_bytes()
    for place in range(0, len(whole), len(whole) // 300):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        (study / "trials" / "b.parquet").write_bytes(damaged)
        rows, warnings = read_records(study, ["trial_id", "status", "attempt", "error_message"])
        assert ids(rows)[:2] == ["t1", "t2"], place
        assert rows.num_rows == 4 or warnings, place


@pytest.mark.parametrize(
    ("name", "content"),
    [("rows.csv", b"a,b\n1,2\n"), ("notes.txt", b""), ("b.PARQUET.bak", b"x"), ("part", b"PAR1")],
)
def test_a_stray_file_is_named(study, name, content):
    (study / "trials" / name).write_bytes(content)
    rows, warnings = read_records(study)
    assert ids(rows) == ["t1", "t2"]
    assert warnings == [f"trials/{name} is not a Parquet file of this study; it was left out"]


def test_a_folder_and_a_dead_link_are_named(study):
    (study / "trials" / "b.parquet").mkdir()
    (study / "trials" / "c.parquet").symlink_to(study / "gone")
    rows, warnings = read_records(study)
    assert ids(rows) == ["t1", "t2"]
    assert [warning.split()[0] for warning in warnings] == ["trials/b.parquet", "trials/c.parquet"]


def test_a_foreign_parquet_file_is_named(study):
    pq.write_table(pa.table({"trial_id": ["x"], "price": [1.5]}), study / "trials" / "b.parquet")
    rows, warnings = read_records(study)
    assert ids(rows) == ["t1", "t2"]
    assert warnings == ["trials/b.parquet holds no records of this program; it was left out"]


@pytest.mark.parametrize(
    "columns",
    [
        {"trial_id": [7]},
        {"status": [1.5]},
        {"attempt": ["first"]},
        {"step_times_s": ["fast"]},
        {"started_at": ["yesterday"]},
        {"batch_size": [[1, 2]]},
    ],
)
def test_a_foreign_file_with_our_columns_in_other_types_is_named(study, columns):
    foreign = {"schema_version": [1], "trial_id": ["x"], "status": ["ok"], "target": ["cpu"]} | columns
    pq.write_table(pa.table(foreign), study / "trials" / "b.parquet")
    rows, (warning,) = read_records(study)
    assert ids(rows) == ["t1", "t2"]
    assert warning.startswith("trials/b.parquet ")


def test_hidden_files_are_nobody_s_business(study):
    (study / "trials" / ".writing-b.parquet").write_bytes(b"x")
    assert read_records(study)[1] == []


def test_nothing_to_read_is_an_empty_table_with_every_column(tmp_path):
    rows, warnings = read_records(tmp_path)
    assert (rows.num_rows, warnings) == (0, [])
    assert {"trial_id", "step_times_s"} <= set(rows.column_names)
    assert read_records(tmp_path, ["status"])[0].column_names == ["status"]


def test_the_sweep_of_a_study(study):
    assert read_sweep(study) == SWEEP


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (lambda folder: None, "no such folder"),
        (lambda folder: folder.write_text("a file"), "no such folder"),
        (lambda folder: folder.mkdir(), "is not a study"),
        (lambda folder: (folder.mkdir(), (folder / "sweep.yaml").write_text("")), "sweep.yaml: is empty"),
        (lambda folder: (folder.mkdir(), (folder / "sweep.yaml").write_text("a: [")), "line 1 is not plain YAML"),
        (lambda folder: (folder.mkdir(), (folder / "sweep.yaml").write_text("name: a")), "this key is missing"),
        (lambda folder: (folder.mkdir(), (folder / "sweep.yaml").mkdir()), "is not a study"),
    ],
)
def test_a_folder_that_is_no_study(tmp_path, prepare, why):
    prepare(tmp_path / "x")
    with pytest.raises(StudyError, match=why):
        read_sweep(tmp_path / "x")


def test_a_part_whose_parameter_is_of_another_kind_is_named_and_the_rest_used(study):
    """Only a hand can have put it there; within a study all parts have the same types."""
    whole, _ = read_records(study)
    odd = pa.table(
        {"schema_version": [1], "trial_id": ["odd"], "status": ["ok"], "target": ["cpu"], "batch_size": ["x"]}
    )
    pq.write_table(odd, study / "trials" / "zz.parquet")
    rows, (warning,) = read_records(study)
    assert rows.num_rows == whole.num_rows
    assert warning.startswith("trials/zz.parquet does not fit the other files (")
