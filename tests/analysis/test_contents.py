"""What a report says beside its charts."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.conclusion import conclude
from analysis.contents import gather
from analysis.load import load


def contents_of(folder):
    study = load(folder)
    return gather(study, conclude(study))


def fact(facts, label):
    (found,) = (each.value for each in facts if each.label == label)
    return found


def test_a_row_of_the_table_tells_times_ratio_and_winner(make_study):
    folder = make_study(noise=0.0)
    first, *_, last = contents_of(folder).sections[0].rows
    assert (first.size, first.baseline, first.challenger) == ("4", "40.0 µs", "904 µs")
    assert (first.comparison, first.decision, first.pairs, first.trials) == ("cpu 22.6x faster", "cpu", "5", "")
    assert (last.size, last.comparison, last.decision) == ("4096", "gpu 8.2x faster", "gpu")
    assert not contents_of(folder).sections[0].any_not_ok


def test_the_spread_is_that_of_the_trials(make_study):
    row = contents_of(make_study(noise=0.05)).sections[0].rows[-1]
    low, high = (float(part.split()[0]) for part in row.baseline_spread.split(" to "))
    assert low < float(row.baseline.split()[0]) < high


def test_with_a_margin_the_table_answers_that_question(make_study):
    contents = contents_of(make_study(margin=0.1))
    assert contents.decision_header == "gpu at least 10 % faster?"
    assert [row.decision for row in contents.sections[0].rows] == ["no", "no", "no", "yes", "yes", "yes"]


def test_a_known_sign_stands_where_no_ratio_is_known(make_study):
    folder = make_study(fail=lambda target, size, _: ("timeout", "x") if (target, size) == ("cpu", 4096) else None)
    last = contents_of(folder).sections[0].rows[-1]
    assert (last.baseline, last.comparison, last.decision) == ("–", "cpu timed out", "gpu")
    assert last.trials == "cpu: timeout"


def test_progress_counts_what_finished_failed_and_is_missing(make_study):
    def fail(target, size, index):
        return ("oom", "full") if (target, size, index) == ("gpu", 4096, 0) else None

    contents = contents_of(make_study(fail=fail, skip=lambda target, size, index: index == 4))
    assert contents.progress == ("47 of 60 planned trials finished (1 oom, 12 not run yet).")
    assert contents.unfinished
    assert contents_of(make_study("whole")).progress == "60 of 60 planned trials finished."
    assert not contents_of(make_study("whole2")).unfinished


def test_other_thresholds_are_named_side_by_side(make_study):
    facts = contents_of(make_study(noise=0.0)).sections[0].thresholds
    assert fact(facts, "first size at which gpu was faster") == "batch_size 256"
    assert fact(facts, "first size at which that is beyond the noise") == "batch_size 256"
    assert fact(facts, "smallest size from which it was so at every larger one") == "batch_size 256"
    assert fact(facts, "a practical win, at least 10 % faster").startswith("From batch_size 11")


def test_a_dip_parts_first_win_from_lasting_win(make_study):
    def gpu(size):
        return 1e-5 * size * (1.5 if size in {4, 64} else 0.5)

    facts = (
        contents_of(make_study(times={"cpu": lambda size: 1e-5 * size, "gpu": gpu}, noise=0.0)).sections[0].thresholds
    )
    assert fact(facts, "first size at which gpu was faster") == "batch_size 16"
    assert fact(facts, "smallest size from which it was so at every larger one") == "batch_size 256"


@pytest.mark.parametrize(
    ("factor", "said"), [(0.5, "at or below batch_size 4, the smallest size compared"), (2.0, "none in the range")]
)
def test_a_threshold_outside_the_range_is_not_invented(make_study, factor, said):
    times = {"cpu": lambda size: 1e-5 * size, "gpu": lambda size: factor * 1e-5 * size}
    facts = contents_of(make_study(times=times)).sections[0].thresholds
    assert [each.value for each in facts[:3]] == [said] * 3


def test_causes_of_failure_are_counted_by_message(make_study):
    def fail(target, size, index):
        if target == "gpu" and size >= 1024:
            return ("oom", f"CUDA out of memory\nat {index}")
        return ("error", "boom") if (target, size, index) == ("cpu", 4, 0) else None

    oom, error = contents_of(make_study(fail=fail)).causes
    assert (oom.target, oom.status, oom.count, oom.sizes) == ("gpu", "oom", 10, "1024 and 4096")
    assert (oom.message, oom.hosts) == ("CUDA out of memory", "node-1")
    assert (error.count, error.message) == (1, "boom")


def test_the_method_names_every_choice(make_study):
    contents = contents_of(make_study(margin=0.1, seed=7, deadline_s=30, parameters={"width": 64}))
    method = contents.method
    assert fact(method, "fixed parameters") == "features = 256, width = 64, depth = 2, classes = 10"
    assert fact(method, "levers") == (
        "rows = 0, epochs = 0, loader = slice, transfer = pageable, sync = end, dtype = float32, optimizer = SGD, "
        "lr = 0.01"
    )
    assert fact(method, "axis batch_size") == "4, 16, 64, 256, 1024 and 4096"
    assert fact(method, "timed").startswith("10 blocks of 4 steps a trial, after 10 steps of warm-up")
    assert fact(method, "deadline") == "30 s a trial"
    assert fact(method, "margin").startswith("10 %")
    assert fact(method, "seed") == "7"
    assert fact(method, "measured").startswith("2026-01-02 03:04:05 to 2026-01-02 ")
    assert fact(contents.targets, "gpu") == (
        "challenger: device gpu, threads all, mode eager, precision ieee, wait policy default; "
        "ran on cuda with 8 threads"
    )


def test_levers_are_told_as_the_trials_had_them(make_study):
    asked = {"loader": "dataloader", "sync": "every_step", "optimizer": "Adam", "weight_decay": 0.1, "clip_norm": 10}
    method = contents_of(make_study(axes={"batch_size": [4, 64], "lr": [0.1, 1]}, parameters=asked)).method
    assert fact(method, "levers") == (
        "rows = 0, epochs = 0, loader = dataloader, loader_workers = 0, transfer = pageable, sync = every_step, "
        "sync_every = 1, dtype = float32, optimizer = Adam, clip_norm = 10, weight_decay = 0.1"
    )
    assert fact(method, "axis lr") == "0.1 and 1"


def test_how_a_target_is_used_is_told(make_study):
    targets = ["cpu-passive", "gpu-graph", {"name": "tf32", "device": "gpu", "precision": "tf32"}]
    contents = contents_of(make_study(targets=targets, time_of=lambda trial: 1e-3))
    asked = [each.value.partition(";")[0] for each in contents.targets]
    assert asked == [
        "baseline: device cpu, threads all, mode eager, precision ieee, wait policy passive",
        "challenger: device gpu, threads all, mode cudagraph, precision ieee, wait policy default",
        "device gpu, threads all, mode eager, precision tf32, wait policy default",
    ]


def parts_of(trial):
    """A step of 1 ms whose loader takes 40 % of it."""
    return {"e2e": 1e-3, "twin": 5e-4}.get(trial.rung, 6e-4)


EXPLAINED = [{"batch_size": size} for size in (4, 4096)]


def test_where_the_time_goes_is_told_in_sentences_and_rows(make_study):
    folder = make_study(workload="lstm_loop", time_of=parts_of, explained=EXPLAINED, noise=0.0)
    ladder = contents_of(folder).sections[0].ladder
    assert "On cpu at batch_size 4 the loop takes 50 % of a step" in ladder.sentences[0]
    assert any("the loader takes 40 % of a step" in sentence for sentence in ladder.sentences)
    first = ladder.rows[0]
    assert (first.size, first.target, first.part, first.significant) == ("4", "cpu", "loader", "yes")
    assert (first.share, first.share_range, first.cost) == ("40 %", "38 to 42 %", "400 µs")
    assert (first.cost_range, first.pairs) == ("388 µs to 412 µs", "5")
    assert {row.part for row in ladder.rows} >= {"loader", "the loop", "all the rest"}
    assert {row.size for row in ladder.rows} == {"4", "4096"}
    assert [note for note in ladder.notes if "lstm_fused, which does the same arithmetic" in note]


def test_without_a_ladder_there_is_no_such_section(make_study):
    assert contents_of(make_study()).sections[0].ladder is None


def test_a_ladder_measured_once_is_called_provisional(make_study):
    folder = make_study(time_of=parts_of, explained=EXPLAINED, passes=1)
    assert "assumed" in contents_of(folder).sections[0].ladder.notes[0]


def test_rungs_are_not_counted_but_those_that_failed_are_told(make_study):
    folder = make_study(time_of=parts_of, explained=EXPLAINED)
    plain = contents_of(make_study("plain", time_of=parts_of))
    contents = contents_of(folder)
    assert contents.progress == plain.progress == "60 of 60 planned trials finished."
    assert not contents.unfinished
    assert contents.causes == ()
    assert contents.machines[0].trials > 60

    part = folder / "trials" / "part-0.parquet"
    rows = pq.read_table(part).to_pandas()
    failed = rows["rung"].eq("preload") & rows["target"].eq("cpu")
    rows.loc[failed, ["status", "error_message"]] = ["oom", "no room"]
    schema = pq.read_schema(part)
    pq.write_table(pa.Table.from_pandas(rows, schema=schema, preserve_index=False), part)
    contents = contents_of(folder)
    assert contents.progress == plain.progress
    (cause,) = contents.causes
    assert (cause.target, cause.status, cause.count, cause.sizes) == ("cpu (preload)", "oom", 10, "4 and 4096")


DIFFERS = "its loss at step 1, 2.31, differs from that of cpu, 2.20, by 5 %: the two do not do the same work"


def test_trials_that_did_other_work_are_told_everywhere(make_study):
    def fail(target, size, index):
        return ("invalid", DIFFERS) if target == "gpu" and size == 4096 else None

    study = load(make_study(fail=fail))
    contents = gather(study, conclude(study))
    assert study.warnings == (f"5 trials of gpu are invalid and left out of every comparison: {DIFFERS}",)
    assert contents.warnings == study.warnings
    assert contents.progress == "55 of 60 planned trials finished (5 invalid)."
    (cause,) = contents.causes
    assert (cause.target, cause.status, cause.count, cause.sizes, cause.message) == (
        "gpu",
        "invalid",
        5,
        "4096",
        DIFFERS,
    )
    assert any("no trial of gpu is valid at 4096" in reason for reason in contents.sections[0].reasons)
    row = contents.sections[0].rows[-1]
    assert (row.challenger, row.decision, row.trials) == ("–", "not known", "gpu: invalid")


def test_where_no_trial_did_the_same_work_there_is_no_verdict(make_study):
    study = load(make_study(fail=lambda target, *_: ("invalid", DIFFERS) if target == "gpu" else None))
    (group,) = conclude(study).groups
    assert group.crossover["verdict"] == "undetermined"
    assert (
        group.sentence == f"No gpu trial is valid: {DIFFERS} on node-1; so nothing can be said about gpu against cpu."
    )


def test_the_drift_that_was_allowed_is_told(make_study):
    assert fact(contents_of(make_study()).method, "drift allowance").startswith("1 % up to 5 pairs")
    short = contents_of(make_study("short", lasted=timedelta(minutes=2)))
    assert fact(short.method, "drift allowance").startswith("2 %: the whole sweep lasted minutes")


def test_machines_are_told_with_what_they_ran(make_study):
    (machine,) = contents_of(make_study()).machines
    assert (machine.host, machine.cpu, machine.memory) == ("node-1", "Example CPU 3000", "32 GiB")
    assert machine.cores == "8 usable, 8 physical"
    assert machine.accelerator == "Example GPU 40, 40 GiB"
    assert machine.software == "Linux 6.1, Python 3.11.9, torch 2.13.0, CUDA 13.0, Ray 2.60.0"
    assert (machine.code, machine.trials) == ("abc123", 60)


def test_what_a_machine_does_not_tell_is_called_not_known(make_study):
    unknown = {"cpu_model": None, "cores_physical": None, "memory_bytes": None, "ray": None, "gpu_name": None}
    (machine,) = contents_of(make_study(row=lambda *_: unknown)).machines
    assert (machine.cpu, machine.memory, machine.accelerator) == ("not known", "not known", "none used")
    assert machine.cores == "8 usable, not known physical"
    assert machine.software.endswith("without Ray")


def test_trials_that_reached_no_machine_name_none(make_study):
    nowhere = {"host": None}
    assert contents_of(make_study(row=lambda *_: nowhere, fail=lambda *_: ("unavailable", "no node"))).machines == ()


def test_the_commands_do_not_name_folders_of_this_machine(make_study, monkeypatch):
    folder = make_study("my study")
    assert contents_of(folder).commands == (
        "python sweep.py 'my study/sweep.yaml' --out 'my study-again'",
        "python -m analysis report 'my study'",
    )
    monkeypatch.chdir(folder.parent)
    assert contents_of(Path("my study")).commands[1] == "python -m analysis report 'my study'"


def test_a_study_without_an_accelerator_says_so(make_study):
    times = {"cpu-1": lambda size: 1e-5 * size, "cpu": lambda size: 5e-4 + 2e-6 * size}
    assert contents_of(make_study("cpus", times=times)).note.startswith("No accelerator took part")
    assert contents_of(make_study("both")).note == ""
