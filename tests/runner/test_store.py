"""The store: what was reported is on disk, what is on disk is whole, and a study holds one question."""

import dataclasses
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runner import store
from runner.environment import ROOT
from runner.run import open_trials
from runner.store import Store, check
from sweeps.errors import StudyError
from sweeps.study import read_records, read_sweep
from tests.runner.asking import TINY, make_record, make_sweep

MANY = {"axes": {"batch_size": list(range(1, 151))}, "passes": 2}


def trials_of(sweep):
    return [trial for pair in sweep.pairs() for trial in pair]


def parts(folder):
    return sorted((folder / "trials").iterdir())


def rows(folder):
    table, warnings = read_records(folder)
    assert warnings == []
    return table.to_pylist()


@pytest.fixture
def sweep():
    return make_sweep()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "results" / "made"


def test_opening_makes_a_study_without_rows(folder, sweep):
    kept = Store(folder, sweep)
    assert sorted(each.name for each in folder.iterdir()) == [".lock", "sweep.yaml", "trials"]
    assert parts(folder) == []
    assert read_sweep(folder) == sweep
    assert kept.warnings == []
    assert kept.final("0123456789abcdef") == ("", 0, "")
    assert kept.flush(now=True) == []


def test_a_row_is_reported_when_it_is_on_disk(folder, sweep):
    kept = Store(folder, sweep)
    first, second, third, _ = (make_record(trial) for trial in trials_of(sweep))
    kept.add(first)
    assert kept.flush() == [first]
    assert [row["trial_id"] for row in rows(folder)] == [first.trial_id]
    kept.add(second)
    assert kept.flush() == []  # it is too early for another write
    kept.add(third)
    assert [row["trial_id"] for row in rows(folder)] == [first.trial_id]
    assert kept.flush(now=True) == [second, third]
    assert kept.flush(now=True) == []
    assert [row["trial_id"] for row in rows(folder)] == [each.trial_id for each in (first, second, third)]
    assert len(parts(folder)) == 1


def test_writes_keep_a_distance_in_time(folder, sweep, monkeypatch):
    kept = Store(folder, sweep)
    now = 1000.0
    monkeypatch.setattr(store.time, "monotonic", lambda: now)
    reported = []
    for trial in trials_of(sweep):
        kept.add(make_record(trial))
        reported.append(len(kept.flush()))
        now += 0.2
    assert reported == [1, 0, 0, 3]  # at 0 s and 0.6 s


def test_a_full_part_is_left_alone(folder):
    sweep = make_sweep(**MANY)
    kept = Store(folder, sweep)
    trials = trials_of(sweep)
    for trial in trials[:255]:
        kept.add(make_record(trial))
    kept.flush(now=True)
    kept.add(make_record(trials[255]))
    kept.flush(now=True)
    (full,) = parts(folder)
    before = full.stat()
    for trial in trials[256:300]:
        kept.add(make_record(trial))
        kept.flush(now=True)
    after = full.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert sorted(pq.ParquetFile(each).metadata.num_rows for each in parts(folder)) == [44, 256]
    assert {row["trial_id"] for row in rows(folder)} == {trial.trial_id for trial in trials[:300]}


def test_a_row_is_made_once_however_often_its_part_is_written(folder, monkeypatch):
    made = []
    real = store.table
    monkeypatch.setattr(store, "table", lambda records, alike: made.append(len(records)) or real(records, alike))
    sweep = make_sweep(**MANY)
    kept = Store(folder, sweep)
    trials = trials_of(sweep)[:300]
    for trial in trials:
        kept.add(make_record(trial))
        if len(kept._open) % 100 == 0:
            kept.flush(now=True)
    kept.flush(now=True)
    assert made == [100, 100, 100]
    assert [row["trial_id"] for row in rows(folder)] == [trial.trial_id for trial in trials]
    assert len(parts(folder)) == 1


def test_a_parameter_that_only_later_rows_have_is_a_column_of_the_whole_part(folder, sweep):
    kept = Store(folder, sweep)
    for place, trial in enumerate(trials_of(sweep)):
        extra = {"momentum": 0.9} if place == 2 else {}
        kept.add(make_record(dataclasses.replace(trial, parameters={**trial.parameters, **extra})))
        kept.flush(now=True)
    (part,) = parts(folder)
    assert pq.read_table(part).column("momentum").to_pylist() == [None, None, 0.9, None]


def test_a_reader_sees_a_whole_study_at_any_moment(folder):
    sweep = make_sweep(**MANY)
    kept = Store(folder, sweep)
    counts, warnings, stop = [], [], threading.Event()

    def read():
        while not stop.is_set():
            table, said = read_records(folder, ["trial_id"])
            counts.append(table.num_rows)
            warnings.extend(said)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for trial in trials_of(sweep)[:100]:
            kept.add(make_record(trial))
            kept.flush(now=True)
    finally:
        stop.set()
        reader.join()
    assert warnings == []
    assert counts == sorted(counts)
    assert counts[-1] > 0


WRITER = """
import sys
from pathlib import Path
from runner.store import Store
from tests.runner.asking import make_record, make_sweep
from tests.runner.test_store import MANY, trials_of

sweep = make_sweep(**MANY)
kept = Store(Path(sys.argv[1]), sweep)
for trial in trials_of(sweep):
    if not kept.final(trial.trial_id)[0]:
        kept.add(make_record(trial))
        for record in kept.flush(now=True):
            print("done", record.trial_id, flush=True)
"""


def test_a_writer_that_is_killed_loses_nothing_that_it_reported(folder):
    reported = []
    for lines in (3, 40, 130):
        with subprocess.Popen([sys.executable, "-c", WRITER, folder], cwd=ROOT, stdout=subprocess.PIPE) as writer:
            reported += [writer.stdout.readline() for _ in range(lines)]
            os.kill(writer.pid, signal.SIGKILL)
            reported += [line for line in writer.stdout.readlines() if line.endswith(b"\n")]
        found = [row["trial_id"] for row in rows(folder)]
        assert len(found) == len(set(found))
        assert {line.split()[1].decode() for line in reported} <= set(found)


def test_what_a_killed_run_left_behind_is_removed_and_never_read(folder, sweep):
    Store(folder, sweep)
    left = folder / ".writing-20260102T030405Z-abcdef01.parquet"
    left.write_bytes(b"PAR1 half of a par")
    assert rows(folder) == []
    Store(folder, sweep)
    assert not left.exists()


def test_a_run_that_was_killed_before_it_had_noted_its_sweep_can_begin_again(folder, sweep):
    folder.mkdir(parents=True)
    (folder / ".writing-sweep.yaml").write_text("name: ma")
    check(folder, sweep)
    Store(folder, sweep)
    assert sorted(each.name for each in folder.iterdir()) == [".lock", "sweep.yaml", "trials"]


def test_a_run_that_was_killed_before_it_had_made_room_for_trials_can_go_on(folder, sweep):
    Store(folder, sweep)
    (folder / "trials").rmdir()
    Store(folder, sweep)
    assert (folder / "trials").is_dir()


def test_the_highest_attempt_is_final_wherever_it_stands(folder, sweep):
    trial, other, *_ = trials_of(sweep)
    for attempts in ((3,), (1, 2)):  # the last part holds older attempts
        kept = Store(folder, sweep)
        for attempt in attempts:
            kept.add(make_record(trial, "node_lost", attempt=attempt, error_message=f"attempt {attempt}"))
        kept.flush(now=True)
        del kept  # as its process ends: it holds the study
    assert len(parts(folder)) == 2
    again = Store(folder, sweep)
    assert again.final(trial.trial_id) == ("node_lost", 3, "attempt 3")
    assert again.final(other.trial_id) == ("", 0, "")
    again.add(make_record(trial, attempt=4))
    assert again.final(trial.trial_id) == ("ok", 4, "")


def test_foreign_files_are_named_and_the_rest_is_used(folder, sweep):
    kept = Store(folder, sweep)
    record = make_record(trials_of(sweep)[0])
    kept.add(record)
    kept.flush(now=True)
    del kept
    (folder / "trials" / "notes.csv").write_text("a,b\n1,2\n")
    (folder / "trials" / "cut.parquet").write_bytes(parts(folder)[0].read_bytes()[:500])
    again = Store(folder, sweep)
    assert again.final(record.trial_id)[0] == "ok"
    assert [warning.split()[0] for warning in again.warnings] == ["trials/cut.parquet", "trials/notes.csv"]


def test_a_longer_sweep_extends_the_study_and_a_shorter_one_does_not_shrink_it(folder):
    Store(folder, make_sweep())
    Store(folder, make_sweep(axes={"batch_size": [4, 8]}, targets=["cpu", "cpu-2"], passes=3))
    Store(folder, make_sweep())
    joined = read_sweep(folder)
    assert joined.axes == {"batch_size": [2, 4, 8]}
    assert {target.name for target in joined.targets} == {"cpu-1", "cpu", "cpu-2"}
    assert joined.passes == 3


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("sweep made, not other", {"name": "other"}),
        ("workload mlp, not linear", {"workload": "linear", "parameters": {}, "axes": {"batch_size": [2]}}),
        ("axes batch_size, not width", {"parameters": {"batch_size": 2}, "axes": {"width": [2]}}),
        ("parameters", {"parameters": {**TINY, "width": 9}}),
        ("seed 0, not 5", {"seed": 5}),
    ],
)
def test_another_question_is_refused(folder, sweep, what, changes):
    Store(folder, sweep)
    before = (folder / "sweep.yaml").read_bytes()
    for refuse in (check, Store):
        with pytest.raises(StudyError) as raised:
            refuse(folder, make_sweep(**changes))
        assert what in str(raised.value)
        assert str(folder) in str(raised.value)
        assert "choose another --out" in str(raised.value)
    assert (folder / "sweep.yaml").read_bytes() == before


def test_more_of_the_same_question_is_not_refused(folder, sweep):
    Store(folder, sweep)
    check(folder, make_sweep(margin=0.2, deadline_s=5, axes={"batch_size": [64]}, targets=["cpu", "cpu-3"]))


def test_a_folder_with_other_things_in_it_is_refused(tmp_path, sweep):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(StudyError, match="is not empty and not a study"):
        Store(tmp_path, sweep)
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("place", ["file", "file/study", "file/a/b"])
def test_a_folder_that_cannot_be_made_is_refused(tmp_path, sweep, place):
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="cannot be written: Not a directory"):
        check(tmp_path / place, sweep)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_not_ours_is_refused(tmp_path, sweep):
    tmp_path.chmod(0o500)
    with pytest.raises(StudyError, match="cannot be written: "):
        check(tmp_path / "study", sweep)


def test_checking_writes_nothing(folder, sweep):
    check(folder, sweep)
    assert not folder.exists()
    assert not folder.parent.exists()


def test_a_damaged_sweep_is_a_study_error(folder, sweep):
    Store(folder, sweep)
    (folder / "sweep.yaml").write_text("name: [")
    with pytest.raises(StudyError, match=r"sweep\.yaml"):
        Store(folder, sweep)


def test_a_disk_that_fails_stops_the_run_and_the_rows_wait(folder, sweep):
    kept = Store(folder, sweep)
    record = make_record(trials_of(sweep)[0])
    kept.add(record)
    (folder / "trials").rmdir()
    for _ in range(2):
        with pytest.raises(StudyError) as raised:
            kept.flush(now=True)
        assert "cannot be written: No such file or directory; what was reported before is safe" in str(raised.value)
    (folder / "trials").mkdir()
    assert kept.flush(now=True) == [record]
    assert [row["trial_id"] for row in rows(folder)] == [record.trial_id]


def test_the_versions_of_the_code_in_a_study(folder, sweep):
    kept = Store(folder, sweep)
    assert kept.code_versions == set()
    first, second, *_ = trials_of(sweep)
    kept.add(make_record(first, code_version="v1"))
    kept.add(make_record(second, code_version="v2"))
    kept.flush(now=True)
    assert kept.code_versions == {"v1", "v2"}


def test_a_second_run_of_the_same_study_is_refused_while_the_first_goes_on(folder, sweep):
    first = Store(folder, sweep)
    with pytest.raises(StudyError, match=f"process {os.getpid()} on {socket.gethostname()} .since .*. is writing"):
        Store(folder, sweep)
    del first
    Store(folder, sweep)


def test_a_study_whose_axis_gets_fractions_stays_one_table(folder, tmp_path):
    own = tmp_path / "own.py"
    own.write_text("def make(*, seed, size): ...")
    asked = {"workload": f"{own}:make", "parameters": {}}
    for sizes in ([1, 2], [1, 1.5, 2, 3.5]):
        sweep = make_sweep(**asked, axes={"size": sizes}, targets=["cpu", "cpu-1"])
        store = Store(folder, sweep)
        for pair in open_trials(sweep.pairs(), store):
            for trial in pair:
                store.add(make_record(trial))
        store.flush(now=True)
        store.close()
    whole = pq.read_table(folder / "trials")  # refuses parts of unequal types
    assert sorted(set(whole.column("size").to_pylist())) == [1.0, 1.5, 2.0, 3.5]
    assert {pq.read_schema(part).field("size").type for part in parts(folder)} == {pa.float64()}
    assert pq.read_schema(parts(folder)[0]).field("cpu_time_s").metadata[b"unit"] == b"s"


def test_a_study_of_older_identities_is_not_continued(tmp_path):
    """Its rows would be measured again beside themselves."""
    old = shutil.copytree(ROOT / "tests" / "studies" / "schema-1", tmp_path / "old")
    with pytest.raises(StudyError, match=r"its rows are of schema 1, .* can be reported on .* but not continued"):
        check(old, read_sweep(old))
