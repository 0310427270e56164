"""A study folder read: final rows, groups, and every doubt that a reader has to know."""

import shutil
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from analysis import load as loading
from analysis.conclusion import conclude
from analysis.load import MACHINE, load
from analysis.report import write
from sweeps.errors import StudyError

OTHER = {"cpu_model": "Other CPU 9", "cores_usable": 4, "host": "node-2"}


def test_a_study_is_one_row_a_trial_with_its_sweep(make_study):
    study = load(make_study("plain"))
    assert study.name == "plain"
    assert (len(study.frame), study.planned) == (60, 60)
    assert dict(study.by_status) == {"ok": 60}
    assert study.group_by == ()
    assert study.warnings == ()
    assert study.drift is None


def test_the_highest_attempt_is_final_and_all_attempts_are_kept(make_study):
    folder = make_study()
    part = folder / "trials" / "part-0.parquet"
    again = pq.read_table(part)
    again = again.set_column(again.column_names.index("attempt"), "attempt", pa.array([2] * len(again), pa.int64()))
    again = again.set_column(again.column_names.index("status"), "status", pa.array(["oom"] * len(again)))
    pq.write_table(again, folder / "trials" / "part-1.parquet")
    study = load(folder)
    assert (len(study.records), len(study.frame)) == (120, 60)
    assert dict(study.by_status) == {"oom": 60}


def test_a_failure_is_counted_by_its_status(make_study):
    study = load(make_study(fail=lambda target, size, _: ("oom", "full") if (target, size) == ("gpu", 4096) else None))
    assert dict(study.by_status) == {"ok": 55, "oom": 5}


def test_an_unfinished_study_is_read_as_far_as_it_got(make_study):
    study = load(make_study(skip=lambda target, size, index: index > 1))
    assert (len(study.frame), study.planned) == (24, 60)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (shutil.rmtree, "no such folder"),
        (lambda folder: (folder / "sweep.yaml").unlink(), "is not a study"),
        (lambda folder: (folder / "sweep.yaml").write_text("axes: ["), "not plain YAML"),
        (lambda folder: (folder / "trials" / "part-0.parquet").unlink(), "no trial has been recorded yet"),
    ],
)
def test_what_is_no_study_is_refused_by_name(make_study, spoil, said):
    folder = make_study()
    spoil(folder)
    with pytest.raises(StudyError, match=said) as refused:
        load(folder)
    assert str(folder) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_damaged_and_foreign_files_are_named_and_the_rest_used(make_study):
    folder = make_study()
    whole = (folder / "trials" / "part-0.parquet").read_bytes()
    (folder / "trials" / "part-1.parquet").write_bytes(whole[: len(whole) // 2])
    (folder / "trials" / "notes.csv").write_text("a,b\n")
    pq.write_table(pa.table({"a": [1]}), folder / "trials" / "foreign.parquet")
    study = load(folder)
    assert len(study.frame) == 60
    assert [next(n for n in ("part-1", "notes.csv", "foreign") if n in w) for w in study.warnings] == [
        "foreign",
        "notes.csv",
        "part-1",
    ]


def test_rows_that_lack_an_axis_are_refused(make_study):
    folder = make_study()
    part = folder / "trials" / "part-0.parquet"
    pq.write_table(pq.read_table(part).drop_columns(["batch_size"]), part)
    with pytest.raises(StudyError, match="no column batch_size"):
        load(folder)


def test_a_file_that_lacks_newer_columns_is_read(make_study):
    folder = make_study()
    part = folder / "trials" / "part-0.parquet"
    pq.write_table(pq.read_table(part).drop_columns(["gpu_name", "code_version", "cuda"]), part)
    study = load(folder)
    assert study.frame["gpu_name"].isna().all()
    assert study.warnings == ()


def test_other_axes_are_groups_only_where_they_vary(make_study):
    axes = {"batch_size": [4, 4096], "width": [64, 256], "depth": [2]}
    assert load(make_study(axes=axes)).group_by == ("width",)


@pytest.mark.parametrize(
    ("column", "said"), [("code_version", "2 versions of measuring code"), ("torch", "2 versions of torch")]
)
def test_rows_of_two_versions_are_never_averaged(make_study, column, said):
    study = load(make_study(row=lambda target, size, index: {column: "other"} if index == 0 else {}))
    assert study.group_by == (MACHINE,)
    assert len(study.compared) == 60
    assert study.compared.groupby(MACHINE)["pass_index"].agg(set).tolist() == [{1, 2, 3, 4}, {0}]
    assert all(said.partition(" of ")[2] in name for name in set(study.compared[MACHINE]))
    assert said in study.warnings[0]
    assert "other: 12 trials); each is judged by itself" in study.warnings[0]


def test_two_targets_of_two_versions_are_one_group_and_doubted(make_study):
    study = load(make_study(row=lambda target, *_: {"torch": "other"} if target == "gpu" else {}))
    assert study.group_by == ()
    assert "2 versions of torch (2.13.0: 30 trials, other: 30 trials); they may not be comparable" in study.warnings[0]


def test_two_kinds_of_machine_are_never_averaged(make_study):
    study = load(make_study(row=lambda target, size, index: OTHER if index >= 3 else {}))
    assert study.group_by == (MACHINE,)
    assert set(study.compared[MACHINE]) == {
        "Example CPU 3000, 8 cores, Example GPU 40",
        "Other CPU 9, 4 cores, Example GPU 40",
    }
    assert "2 kinds of machine" in study.warnings[0]


def test_two_machines_of_one_kind_are_one_group(make_study):
    study = load(make_study(row=lambda target, size, index: {"host": f"node-{index}"}))
    assert study.group_by == ()
    assert study.warnings == ()


def test_a_cpu_trial_that_cannot_see_the_gpu_stays_with_its_partner(make_study):
    study = load(make_study(row=lambda target, size, index: OTHER if index >= 3 else {}))
    assert (study.compared.groupby("pair_id")[MACHINE].nunique() == 1).all()


def test_a_failed_trial_that_says_no_machine_stays_with_its_partner(make_study):
    unknown = {"host": None, "cpu_model": None, "cores_usable": None}

    def row(target, size, index):
        if (target, size) == ("cpu", 4096):
            return unknown
        return OTHER if index >= 3 else {}

    def fail(target, size, index):
        return ("timeout", "too slow") if (target, size) == ("cpu", 4096) else None

    study = load(make_study(row=row, fail=fail))
    assert study.compared[MACHINE].nunique() == 2
    assert len(study.compared) == 60


def test_a_cpu_machine_against_a_gpu_machine_is_one_group(make_study):
    study = load(make_study(row=lambda target, *_: OTHER if target == "cpu" else {}, pairing="by_target"))
    assert study.group_by == ()
    assert "not measured back to back" in study.warnings[0]


def test_rungs_are_kept_apart_from_whole_steps(make_study):
    def time_of(trial):
        return 1e-3 if trial.rung == "e2e" else 9e-3

    explained = [{"batch_size": 4}, {"batch_size": 4096}]
    study = load(make_study(time_of=time_of, explained=explained))
    assert set(study.frame["rung"]) == {"e2e"}
    assert set(study.rungs["rung"]) == {"preload", "resident", "kernel", "cold"}
    cold = 5 * 2  # at the first size alone
    assert (len(study.frame), len(study.answered), len(study.rungs)) == (60, 60, 2 * 5 * (1 + 3) + cold)
    assert len(study.records) == 110
    assert dict(study.by_status) == {"ok": 60}
    # Nine times slower and a long while later, and neither unsteady nor apart: they are other work.
    assert study.warnings == ()


def test_rungs_alone_are_no_study_yet(make_study):
    folder = make_study(explained=[{"batch_size": 4}])
    part = folder / "trials" / "part-0.parquet"
    rows = pq.read_table(part)
    pq.write_table(rows.filter(pc.not_equal(rows["rung"], "e2e")), part)
    with pytest.raises(StudyError, match="no trial of a whole step has been recorded yet"):
        load(folder)


def test_a_rung_belongs_to_the_machine_of_its_whole_step(make_study):
    def moved(target, size, index):
        return OTHER if index >= 3 else {}

    folder = make_study(row=moved, explained=[{"batch_size": 4}])
    study = load(folder)
    assert study.group_by == (MACHINE,)
    assert study.rungs.groupby(MACHINE).size().tolist() == [18, 12]
    part = folder / "trials" / "part-0.parquet"
    rows = pq.read_table(part).to_pandas()
    elsewhere = rows["rung"].ne("e2e") & rows["pass_index"].eq(0)
    rows.loc[elsewhere, ["cpu_model", "host"]] = ["Third CPU", "node-3"]
    pq.write_table(pa.Table.from_pandas(rows, schema=pq.read_schema(part), preserve_index=False), part)
    assert load(folder).rungs[MACHINE].isna().sum() == 6


def test_a_lever_that_means_nothing_on_a_target_is_asked_all_the_same(make_study):
    axes = {"batch_size": [4, 64], "transfer": ["pageable", "pinned"]}
    assert load(make_study(axes=axes)).warnings == ()


def test_rows_that_were_not_asked_are_told(make_study):
    folder = make_study()
    text = (folder / "sweep.yaml").read_text()
    (folder / "sweep.yaml").write_text(text.replace("  - 4096\n", ""))
    assert "10 trials are in the folder that its sweep.yaml does not ask for" in load(folder).warnings


def test_a_fixed_parameter_that_the_rows_do_not_have_is_told(make_study):
    """Somebody has edited sweep.yaml, and the report would name a size that nothing was measured at."""
    folder = make_study(parameters={"width": 256, "loader": "gather", "transfer": "pinned", "lr": 1})
    assert not any("does not ask for" in warning for warning in load(folder).warnings)
    text = (folder / "sweep.yaml").read_text()
    (folder / "sweep.yaml").write_text(text.replace("width: 256", "width: 512"))
    assert "60 trials are in the folder that its sweep.yaml does not ask for" in load(folder).warnings


def test_a_step_of_a_microsecond_has_a_time_where_thousands_make_a_block(make_study):
    quick = lambda trial: 2e-6 if trial.target.name == "cpu" else 4e-6  # noqa: E731
    for steps, verdict in ((5_000, "always_baseline"), (1, "undetermined")):
        folder = make_study(f"of-{steps}", time_of=quick, row=lambda *_, steps=steps: {"steps_per_block": steps})
        (group,) = conclude(load(folder)).groups
        assert group.crossover["verdict"] == verdict


def test_losses_that_nobody_knows_are_told(make_study):
    why = {"null_reasons": {"loss_step_1": "a step returns no number"}}
    folder = make_study(row=lambda target, *_: why if target == "gpu" else {})
    told = "the steps of 30 trials return no loss, so whether the targets do the same work was not looked at"
    assert told in load(folder).warnings


def test_a_sweep_of_minutes_gets_the_wider_allowance_for_drift(make_study):
    assert load(make_study(lasted=timedelta(minutes=3))).drift == 0.02


@pytest.mark.parametrize(
    ("fail", "said"),
    [
        (("unavailable", "no CUDA device"), "no CUDA device on node-1"),
        (("unavailable", "no CUDA device on node-1"), "no CUDA device on node-1"),
        (("oom", ""), "out of memory on node-1"),
    ],
)
def test_a_missing_target_comes_with_its_reason(make_study, fail, said):
    study = load(make_study(fail=lambda target, *_: fail if target == "gpu" else None))
    assert study.absences(study.frame, ("cpu", "gpu")) == {"gpu": said}


def test_a_target_that_was_never_run_says_so(make_study):
    study = load(make_study(skip=lambda target, *_: target == "gpu"))
    assert study.absences(study.frame, ("cpu", "gpu")) == {"gpu": "none has been run yet"}


def test_trials_that_should_take_the_same_time_and_do_not_are_doubted(make_study):
    def row(target, size, index):
        return {"step_times_s": [7.0, 8.0, 9.0]} if (target, size, index) == ("gpu", 64, 2) else {}

    (doubt,) = load(make_study(times={"cpu": lambda size: 0.5, "gpu": lambda size: 1.0}, noise=0.0, row=row)).warnings
    assert doubt.startswith("trials of the same target and size differ by up to 8.0x (gpu at batch_size 64)")


def test_pairs_that_were_not_measured_back_to_back_are_told(make_study):
    study = load(make_study())
    assert not any("back to back" in warning for warning in study.warnings)
    late = study.frame["target"].eq("gpu") & study.frame["pass_index"].eq(0)
    frame = study.frame.copy()
    for column in ("started_at", "finished_at"):
        frame.loc[late, column] += timedelta(days=1)
    (doubt,) = loading._apart(frame, study.sweep)
    assert doubt.startswith(f"{int(late.sum())} of {frame['pair_id'].nunique()} pairs were not measured back to back")


def test_what_a_terminal_would_obey_is_not_read(make_study):
    row = {"cpu_model": "\x1b[31mCPU\x1b]0;title\x07", "host": "a\nb"}
    folder = make_study(row=lambda *_: row, fail=lambda target, *_: ("error", "\x1b[1mx") if target == "gpu" else None)
    (folder / "trials" / "\x1b[31mhi.parquet").write_bytes(b"PAR1")
    study = load(folder)
    assert set(study.frame["cpu_model"]) == {"[31mCPU]0;title"}
    assert not any("\x1b" in warning for warning in study.warnings)
    assert any(warning.startswith("trials/[31mhi.parquet is damaged") for warning in study.warnings)
    write(folder)
    assert all("\x1b" not in (folder / f"report.{kind}").read_text() for kind in ("html", "md"))


@pytest.mark.parametrize(("share", "is_told"), [(0.4, False), (0.6, True)])
def test_a_study_whose_trials_were_mostly_disturbed_says_so(make_study, share, is_told):
    def row(target, size, index):
        return {"interference": "contended" if index < 5 * share else "clean"}

    told = [text for text in load(make_study(row=row)).warnings if "were disturbed by something else" in text]
    assert bool(told) == is_told
    assert all(text.startswith("36 of 60 trials were disturbed") for text in told)
