"""A study in an object store, against a real S3 server: written, read, claimed, and out of reach for a while."""

import os
import re
import socket
from datetime import UTC, datetime, timedelta

import pytest

from runner import claim as claiming
from runner import store as storing
from runner.claim import GONE_AFTER
from runner.store import Store, check
from sweeps.errors import StudyError
from sweeps.folder import Folder
from sweeps.study import read_records, read_sweep
from tests.object_store import KEYS, Wire, address, serve
from tests.runner.asking import make_record, make_sweep


@pytest.fixture(scope="module")
def port():
    with serve() as found:
        yield found


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(storing, "SECONDS_BETWEEN_OBJECTS", 0.05)


@pytest.fixture
def place(port, request):
    return address(port, f"for/{re.sub(r'[^a-z0-9]', '_', request.node.name)}")


@pytest.fixture
def sweep():
    return make_sweep(passes=2)


def records(sweep):
    return [make_record(trial) for pair in sweep.pairs() for trial in pair]


def test_a_study_is_written_read_and_taken_up_again(place, sweep):
    kept = Store(Folder.at(place), sweep)
    first, second, *rest = records(sweep)
    kept.add(first)
    assert kept.flush(now=True) == [first]
    kept.add(second)
    assert kept.flush(now=True) == [second]
    kept.close()
    folder = Folder.at(place)
    assert read_sweep(folder) == sweep
    rows, warnings = read_records(folder)
    assert (rows.num_rows, warnings) == (2, [])
    assert folder.names() == ["sweep.yaml", "trials"]
    assert len(folder.names("trials")) == 1, "one part is written again and again"
    again = Store(folder, sweep)
    assert again.final(first.trial_id)[0] == "ok"
    assert again.final(rest[0].trial_id)[0] == ""
    again.close()


def test_what_is_shown_has_no_settings_of_the_connection(place):
    assert str(Folder.at(place)).startswith("s3://studies/for/")
    assert "endpoint" not in str(Folder.at(place))


def test_a_file_to_append_to_is_put_back(place):
    folder = Folder.at(place)
    for line in ("one\n", "two\n"):
        with folder.kept_locally("log.txt") as path, path.open("a") as log:
            log.write(line)
    assert folder.read("log.txt") == b"one\ntwo\n"


def test_another_study_is_refused(place, sweep):
    Store(Folder.at(place), sweep).close()
    with pytest.raises(StudyError, match=r"--out s3://studies/.*: holds another study, with sweep made, not other"):
        check(Folder.at(place), sweep.model_copy(update={"name": "other"}))


def test_a_second_writer_is_refused_by_name_until_the_first_is_gone(place, sweep):
    first = Store(Folder.at(place), sweep)
    with pytest.raises(StudyError, match=f"process {os.getpid()} on {socket.gethostname()} .since .*. is writing"):
        Store(Folder.at(place), sweep)
    first.close()
    Store(Folder.at(place), sweep).close()


@pytest.mark.parametrize("silence", [timedelta(), GONE_AFTER + timedelta(seconds=1)])
def test_a_claim_of_another_machine_ends_when_it_is_not_seen_any_more(place, sweep, silence):
    seen = (datetime.now(UTC) - silence).isoformat(timespec="seconds")
    Folder.at(place).write(".lock", f"1\nelsewhere\n2026-01-02T03:04:05+00:00\n{seen}\n".encode())
    if silence:
        Store(Folder.at(place), sweep).close()
    else:
        with pytest.raises(StudyError, match="process 1 on elsewhere"):
            Store(Folder.at(place), sweep)


def test_a_claim_of_a_process_here_that_was_killed_is_no_claim(place, sweep):
    now = datetime.now(UTC).isoformat(timespec="seconds")
    Folder.at(place).write(".lock", f"{2**22 - 1}\n{socket.gethostname()}\n{now}\n{now}\n".encode())
    Store(Folder.at(place), sweep).close()


def test_rows_wait_while_the_store_is_out_of_reach(port, sweep):
    wire = Wire(port)
    kept = Store(Folder.at(address(wire.port, "cut")), sweep)
    first, second, third, *_ = records(sweep)
    kept.add(first)
    assert kept.flush(now=True) == [first]
    wire.cut()
    kept.add(second)
    kept._next_write = 0.0
    assert kept.flush() == []
    assert "cannot be written" in kept.trouble
    kept.add(third)
    wire.mend()
    assert kept.flush(now=True) == [second, third]
    assert kept.trouble == ""
    kept.close()
    rows, _ = read_records(Folder.at(address(port, "cut")))
    assert set(rows.column("trial_id").to_pylist()) == {record.trial_id for record in (first, second, third)}
    wire.close()


def test_a_store_that_stays_out_of_reach_ends_the_run(port, sweep, monkeypatch):
    monkeypatch.setattr(storing, "SECONDS_OUT_OF_REACH", 0.2)
    wire = Wire(port)
    kept = Store(Folder.at(address(wire.port, "gone")), sweep)
    kept.add(records(sweep)[0])
    wire.cut()
    with pytest.raises(StudyError, match="what was reported before is safe, and the same command runs the rest"):
        kept.flush(now=True)
    wire.mend()
    kept.close()
    wire.close()


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("s3://no-such-bucket/study", r"--out s3://no-such-bucket/study: cannot be written: .*; choose another --out"),
        ("s4://studies/study", "s4://studies/study: is no address of a folder"),
        ("s3://", "s3://: is no address of a folder"),
    ],
)
def test_a_place_that_cannot_be_written_is_named(port, sweep, place, why):
    known = place.startswith("s3://n")
    with pytest.raises(StudyError, match=why) as raised:
        check(Folder.at(address(port, "study", "no-such-bucket") if known else place), sweep)
    assert "\n" not in str(raised.value)


def test_a_writer_is_seen_however_long_its_trial_takes(place, sweep, monkeypatch):
    monkeypatch.setattr(claiming, "SEEN_EVERY_S", 0.0)
    kept = Store(Folder.at(place), sweep)
    first, *_, long_ago = Folder.at(place).read(".lock").splitlines()
    Folder.at(place).write(".lock", b"\n".join([first, b"elsewhere", b"then", b"never"]))
    assert kept.flush() == [], "no row has come meanwhile"
    assert Folder.at(place).read(".lock").splitlines()[-1] >= long_ago
    kept.close()
