"""Rows of an accelerator that another study has recorded: what fits, what is taken over, and what is refused."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runner.recorded import find, name_of
from runner.store import Store
from sweeps.definition import Sweep
from sweeps.errors import InputError, StudyError
from sweeps.folder import Folder
from sweeps.study import read_records, read_sweep
from tests.elsewhere import BEGUN, record_elsewhere


def asked(**keys):
    usual = {"name": "mine", "workload": "mlp", "axes": {"batch_size": [2, 4, 8]}, "targets": ["cpu", "gpu"]}
    return Sweep.model_validate(usual | {"passes": 2} | keys)


def seconds(trial):
    return 1e-3 if trial.target.name == "gpu" else 1e-4 * trial.parameters["batch_size"]


@pytest.fixture
def there(tmp_path):
    """Return a function that records a sweep elsewhere, under studies/h/mine."""
    return lambda sweep=None, **options: record_elsewhere(
        tmp_path / "studies" / "h" / "mine", sweep or asked(), seconds, **options
    )


@pytest.fixture
def out(tmp_path):
    return Folder.at(tmp_path / "results")


def on_gpu(sweep):
    return {trial.trial_id for pair in sweep.pairs() for trial in pair if trial.target.name == "gpu"}


def taken(out, recorded):
    """Take over what is recorded; return how many trials that were, and the rows that are there now."""
    store = Store(out, recorded.asked)
    try:
        count = recorded.take_into(store, code_version="here")
    finally:
        store.close()
    return count, read_records(out)[0].to_pylist()


def test_the_accelerators_rows_are_found_by_what_was_asked(there, out):
    recorded = find(str(there()), asked(), out)
    assert recorded.trial_ids == on_gpu(asked())
    assert recorded.missing == []
    assert recorded.why_missing() == ""
    assert recorded.name == "h/mine"
    assert recorded.told.startswith("Recorded in h/mine on 2026-01-02: 6 trials of gpu on Made-up GPU 40.")
    assert recorded.asked.pairing == "by_target"
    assert {trial.target.name for pair in recorded.pairs for trial in pair} == {"cpu"}
    assert not out.exists(), "nothing is written"


def test_rows_are_taken_over_as_they_are_but_unpaired_and_marked(there, out):
    place = there()
    count, rows = taken(out, find(str(place), asked(), out))
    assert count == len(rows) == 6
    originals = {row["trial_id"]: row for row in read_records(place)[0].to_pylist()}
    for row in rows:
        original = originals[row["trial_id"]]
        assert original["paired"] is True
        assert (row.pop("paired"), row.pop("recorded_in")) == (False, "h/mine")
        assert row == {name: original[name] for name in row}
    assert [name.startswith("recorded-h-mine-") for name in out.names("trials")] == [True]
    assert read_sweep(out).pairing == "by_target"


def test_a_second_time_nothing_is_taken_over_and_what_is_new_is(there, out):
    few = there(keep=lambda trial: trial.pass_index == 0)
    assert taken(out, find(str(few), asked(), out))[0] == 3
    assert taken(out, find(str(few), asked(), out))[0] == 0
    assert len(out.names("trials")) == 2, "one part of rows taken over, one that says what is missing"
    count, rows = taken(out, find(str(there()), asked(), out))
    assert count == 3
    final = {row["trial_id"]: row for row in sorted(rows, key=lambda row: row["attempt"])}
    assert {row["status"] for row in final.values()} == {"ok"}


def test_what_is_not_recorded_is_unavailable_with_the_cause_and_said_once(there, out):
    place = there(keep=lambda trial: trial.pass_index == 0 and trial.parameters["batch_size"] != 4)
    wanted = asked(passes=3)
    recorded = find(str(place), wanted, out)
    assert len(recorded.missing) == 7
    assert recorded.why_missing() == (
        "h/mine has no answer for 7 of 9 trials of gpu (nothing at batch_size 4, pass 2, 3)"
    )
    for _ in range(2):
        _, rows = taken(out, recorded)
        absent = [row for row in rows if row["status"] == "unavailable"]
        assert len(absent) == 7
        assert {row["error_type"] for row in absent} == {"NotRecorded"}
        assert {row["recorded_in"] for row in absent} == {""}
        assert (
            "h/mine, which this study takes its accelerator's rows from, has none of it" in absent[0]["error_message"]
        )


def test_every_attempt_of_a_trial_is_taken_over_and_what_is_no_answer_is_not(there, out):
    ends = {0: "ok", 1: "node_lost"}
    place = there(fields=lambda trial: {"status": ends[trial.pass_index]})
    part = place / "trials" / "part-0.parquet"
    rows = pq.read_table(part)
    second = rows.set_column(rows.column_names.index("attempt"), "attempt", pa.array([2] * len(rows), pa.int64()))
    pq.write_table(pa.concat_tables([rows, second]), part)
    recorded = find(str(place), asked(), out)
    assert {trial.pass_index for trial in recorded.missing} == {1}
    _, rows = taken(out, recorded)
    assert sorted(row["attempt"] for row in rows if row["status"] == "ok") == [1, 1, 1, 2, 2, 2]


def test_a_ladder_is_run_where_the_recorded_study_has_one(there, out):
    wanted = asked(explain=True)
    explained = [{"batch_size": size} for size in (2, 8)]
    recorded = find(str(there(wanted, explained=explained)), wanted, out)
    mine = [trial for pair in recorded.ladder for trial in pair]
    assert {trial.target.name for trial in mine} == {"cpu"}
    assert {trial.parameters["batch_size"] for trial in mine} == {2, 8}
    _, rows = taken(out, recorded)
    assert {row["rung"] for row in rows} > {"e2e", "resident", "kernel"}
    assert find(str(there(wanted)), wanted, out).ladder == []


def test_a_study_that_has_taken_rows_over_can_be_taken_from_and_keeps_where_they_are_from(there, out, tmp_path):
    taken(out, find(str(there()), asked(), out))
    third = Folder.at(tmp_path / "third")
    _, rows = taken(third, find(out, asked(), third))
    assert {row["recorded_in"] for row in rows} == {"h/mine"}


def test_rows_are_widened_to_the_types_of_the_study_that_takes_them(there, out):
    lr = {"axes": {"batch_size": [2, 4, 8], "lr": [1]}}
    wider = asked(axes={"batch_size": [2, 4, 8], "lr": [1, 0.5]})
    recorded = find(str(there(asked(**lr))), wider, out)
    count, rows = taken(out, recorded)
    assert count == 6
    table, warnings = read_records(out)
    assert warnings == []
    assert table.schema.field("lr").type == pa.float64()
    assert {row["lr"] for row in rows} == {1.0, 0.5}


def test_two_accelerators_are_both_taken_over(there, out):
    wanted = asked(targets=["cpu", "gpu", "gpu-graph"])
    recorded = find(str(there(wanted)), wanted, out)
    assert recorded.told.startswith("Recorded in h/mine on 2026-01-02: 12 trials of gpu, gpu-graph on")


def test_an_accelerator_that_the_other_study_did_not_have_is_missing_and_the_other_is_taken(there, out):
    recorded = find(str(there()), asked(targets=["cpu", "gpu", "gpu-graph"]), out)
    assert len(recorded.trial_ids) == 6
    assert recorded.why_missing() == "h/mine has no answer for 6 of 12 trials of gpu-graph"


def test_days_and_kinds_are_all_named(there, out):
    def fields(trial):
        return {"gpu_name": "Other GPU", "started_at": BEGUN.replace(day=9)} if trial.pass_index else {}

    told = find(str(there(fields=fields)), asked(), out).told
    assert "on 2026-01-02 to 2026-01-09: 6 trials of gpu on Made-up GPU 40 and Other GPU." in told


# ------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"workload": "cnn"}, "has not done this work: workload mlp here, cnn there"),
        ({"seed": 3}, "has not done this work: seed 0 here, 3 there"),
        ({"parameters": {"width": 64}}, "has not done this work: width 256 here, 64 there"),
        ({"axes": {"batch_size": [16, 32]}}, "has not done this work: axis batch_size 2, 4, 8 here, 16, 32 there"),
        (
            {"axes": {"width": [64, 128]}, "parameters": {"batch_size": 16}},
            "width 256 here, 64, 128 there; axis batch_size 2, 4, 8 here, 16 there",
        ),
        (
            {"targets": ["cpu", {"name": "gpu", "device": "gpu", "precision": "tf32"}]},
            "target gpu (device: gpu) here, device: gpu, precision: tf32 there",
        ),
        ({"targets": ["cpu", "cuda"]}, "has not done this work: target gpu here, cuda there"),
        ({"targets": ["cpu-1", "cpu"]}, "it has no rows of an accelerator; its targets: cpu-1, cpu"),
    ],
)
def test_other_work_is_refused_and_what_differs_is_named(there, out, other, expected):
    with pytest.raises(StudyError, match=r"^--against .*/studies/h/mine: ") as refused:
        find(str(there(asked(**other))), asked(), out)
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not out.exists()


def test_rows_without_an_answer_are_refused_with_their_cause(there, out):
    fields = lambda _: {"status": "unavailable", "error_message": "torch sees no GPU"}  # noqa: E731
    with pytest.raises(StudyError, match=r"none of its rows of gpu is an answer \(unavailable: torch sees no GPU\)"):
        find(str(there(fields=fields)), asked(), out)


def test_rows_of_a_schema_that_names_trials_otherwise_are_refused(there, out):
    fields = lambda trial: {"schema_version": 1, "trial_id": f"old-{trial.trial_id}"}  # noqa: E731
    with pytest.raises(StudyError, match="rows are of schema 1, which names trials in another way: record it again"):
        find(str(there(fields=fields)), asked(), out)


def test_an_empty_study_is_refused(there, out):
    with pytest.raises(StudyError, match=r"no trial has been recorded there$"):
        find(str(there(keep=lambda _: False)), asked(), out)


def test_a_damaged_part_is_named_and_the_rest_is_taken(there, out):
    place = there()
    (place / "trials" / "part-1.parquet").write_bytes(b"PAR1 cut off")
    recorded = find(str(place), asked(), out)
    assert len(recorded.trial_ids) == 6
    assert ["part-1.parquet is damaged" in warning for warning in recorded.warnings] == [True]
    (place / "trials" / "part-0.parquet").unlink()
    with pytest.raises(StudyError, match=r"no trial has been recorded there .*part-1\.parquet is damaged"):
        find(str(place), asked(), out)


def test_the_study_itself_is_refused_however_it_is_written(there, tmp_path):
    place = there()
    (tmp_path / "link").symlink_to(place)
    with pytest.raises(StudyError, match="is the study that is written here; choose another --out"):
        find(str(place), asked(), Folder.at(tmp_path / "link"))


@pytest.mark.parametrize("kind", ["nothing", "no study"])
def test_what_is_no_study_is_refused(tmp_path, out, kind):
    if kind == "no study":
        (tmp_path / "there").mkdir()
    with pytest.raises(StudyError, match=r"^--against .*there: (no such folder|is not a study)"):
        find(str(tmp_path / "there"), asked(), out)


def test_a_sweep_without_an_accelerator_has_nothing_to_take_over(there, out):
    with pytest.raises(InputError, match=r"none of the targets here \(cpu-1, cpu\) needs an accelerator"):
        find(str(there()), asked(targets=["cpu-1", "cpu"]), out)


def test_a_search_cannot_be_answered_by_recorded_rows(there, out):
    usual = {"name": "mine", "workload": "mlp", "axes": {"batch_size": {"from": 2, "to": 8}}, "targets": ["cpu", "gpu"]}
    with pytest.raises(
        InputError, match=r"strategy: adaptive looks .* --set strategy=grid --set axes\.batch_size=2,4,8$"
    ):
        find(str(there()), Sweep.model_validate(usual | {"strategy": "adaptive"}), out)


def test_rows_of_two_recorded_studies_are_not_mixed(there, out, tmp_path):
    taken(out, find(str(there()), asked(), out))
    other = record_elsewhere(tmp_path / "studies" / "k" / "mine", asked(), seconds)
    with pytest.raises(StudyError, match="has rows of gpu recorded in h/mine; choose another --out"):
        find(str(other), asked(), out)


def test_rows_that_were_measured_for_the_study_itself_are_not_mixed_with_recorded_ones(there, out):
    record_elsewhere(out, asked(), seconds)
    with pytest.raises(StudyError, match="has rows of gpu measured for itself; choose another --out"):
        find(str(there()), asked(), out)


def test_a_recorded_study_is_called_by_the_end_of_its_place():
    names = [name_of(Folder.at(place)) for place in ("/home/somebody/studies/h100/mlp", "/mlp")]
    assert names == ["h100/mlp", "mlp"]
