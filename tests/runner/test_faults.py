"""The whole program without Ray when something outside of it fails: memory, the disk, its folder, its patience."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from runner.devices import host_memory
from runner.environment import ROOT
from sweeps.study import read_records
from tests.runner.asking import is_alive, wait_until

WORK = """\
import ctypes, os, time
from pathlib import Path

import torch


class Work:
    def __init__(self, *, seed, size, folder, deed=""):
        self.size, self.folder, self.deed = size, Path(folder), deed

    def prepare(self, device, target):
        try:
            (self.folder / "first").touch(exist_ok=False)
        except FileExistsError:  # all others are held until they are released
            if not (self.folder / "released").exists():
                (self.folder / f".{os.getpid()}").write_text(str(os.getpid()))
                (self.folder / f".{os.getpid()}").replace(self.folder / "waits")
            while not (self.folder / "released").exists():
                time.sleep(0.01)
        if self.deed == "raise":
            raise KeyError("no such batch")
        if self.deed == "fill memory" and self.size > 1:
            filled = [bytearray(os.urandom(1 << 20)) * 32 for _ in range(1000)]
        if self.deed == "block":
            ctypes.PyDLL(None).sleep(600)
        self.loss = torch.zeros(())

    def step(self):
        return self.loss
"""
SWEEP = """\
name: faults
question: What is left?
workload: work.py:Work
parameters: {{folder: {folder}, deed: {deed}}}
axes: {{size: {sizes}}}
targets: [{{name: one, device: cpu, threads: 1}}, {{name: other, device: cpu, threads: 1}}]
baseline: one
challenger: other
passes: {passes}
"""
SPACE_BYTES = 4_000_000
MEMORY_BYTES = 1_500_000_000


class Place:
    """A folder with a sweep whose trials are held from the second on, and the command that runs it."""

    def __init__(self, folder, *, deed="''", sizes=(1, 2, 3, 4, 5, 6), passes=1, words=None):
        self.folder, self.study = folder, folder / "study"
        self.trials = len(sizes) * passes * 2
        self.words = folder / "words"
        self.words.mkdir()
        (folder / "work.py").write_text(WORK)
        text = SWEEP.format(folder=words or self.words, deed=deed, sizes=list(sizes), passes=passes)
        (folder / "faults.yaml").write_text(text)

    def command(self, *flags):
        sweep = [sys.executable, str(ROOT / "sweep.py"), str(self.folder / "faults.yaml")]
        return [*sweep, "--out", str(self.study), "--no-report", *flags]

    def release(self):
        (self.words / "released").touch()

    def run(self, *flags, before=(), **settings):
        self.release()
        return subprocess.run(
            [*before, *self.command(*flags)], capture_output=True, text=True, timeout=240, check=False, **settings
        )

    @contextlib.contextmanager
    def held(self, *flags, before=()):
        """The command at a moment when one trial has been reported, and the next one runs until it is released."""
        driver = subprocess.Popen(
            [*before, *self.command(*flags)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a group of its own, as a shell gives it
        )
        with driver:
            try:
                lines = []
                while not done(lines):
                    lines.append(driver.stdout.readline())
                    assert lines[-1], driver.stderr.read()
                wait_until((self.words / "waits").exists, "a trial is held", seconds=120)
                yield Held(driver, int((self.words / "waits").read_text()), lines)
            finally:
                driver.kill()

    def rows(self):
        table, warnings = read_records(self.study)
        assert warnings == []
        return table.to_pylist()

    def final(self):
        return {row["trial_id"]: row for row in sorted(self.rows(), key=lambda row: row["attempt"])}


class Held:
    """A driver, and the process of the trial that it waits for."""

    def __init__(self, driver, trial, lines):
        self.driver, self.trial, self._lines = driver, trial, lines

    def ends(self):
        """Return exit code, trials that were reported, and what was said on stderr."""
        out, err = self.driver.communicate(timeout=240)
        wait_until(lambda: not is_alive(self.trial), "the trial is over")
        return self.driver.returncode, done([*self._lines, *out.splitlines()]), err


def done(lines):
    return {line.split()[1] for line in lines if line.startswith("done ")}


def check_rest(place, reported, *flags):
    """The same command runs what is missing, and only that; of a repeat of a disturbed trial there may be two rows."""
    before = place.rows()
    assert reported <= {row["trial_id"] for row in before}
    again = place.run(*flags)
    assert again.returncode == 0, again.stdout + again.stderr
    final, rows = place.final(), place.rows()
    assert (len(final), {row["status"] for row in final.values()}) == (place.trials, {"ok"})
    assert max(Counter((row["trial_id"], row["attempt"]) for row in rows).values()) == 1
    assert not done(again.stdout.splitlines()) & {row["trial_id"] for row in before}


# ------------------------------------------------------------------------------------------------ ended from outside


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_terminal_that_ends_the_whole_group_ends_it_in_good_order(tmp_path, number):
    place = Place(tmp_path)
    with place.held("--local") as held:
        os.killpg(held.driver.pid, number)
        code, reported, err = held.ends()
    assert code == 130, err
    assert err.startswith("Interrupted. Everything that was reported is kept: the same command runs the rest")
    assert len(err.splitlines()) == 1
    assert reported == {row["trial_id"] for row in place.rows()}, "what has ended is kept and reported"
    assert {row["status"] for row in place.rows()} == {"ok"}, "the trial that was ended with it is no answer"
    check_rest(place, reported, "--local")


# --------------------------------------------------------------------------------------------------- the folder fails


@pytest.fixture
def small_disk(tmp_path):
    """A real disk of a few megabytes where the study will be."""
    folder = tmp_path / "study"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SPACE_BYTES}", "tmpfs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"nothing can be mounted here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def fill(file):
    """Append to a file until its disk is full."""
    with file.open("ab", buffering=0) as filler, contextlib.suppress(OSError):
        while filler.write(b"x\n" * 32768):
            pass


def check_refusal(code, err, why):
    assert code == 2, err
    (line,) = err.splitlines()
    assert line.startswith("sweep.py: ")
    assert f"cannot be written: {why}; what was reported before is safe, and the same command runs the rest" in line


def test_a_full_disk_is_one_message_and_loses_nothing(small_disk, tmp_path):
    place = Place(tmp_path)
    with place.held("--local") as held:
        for name in ("filler", "log.txt"):  # the log as well: its last page may have room
            fill(small_disk / name)
        place.release()
        code, reported, err = held.ends()
    check_refusal(code, err, "No space left on device")
    assert reported <= {row["trial_id"] for row in place.rows()}
    still_full = place.run("--local")
    assert (still_full.returncode, len(still_full.stderr.splitlines())) == (2, 1), still_full.stderr
    assert "No space left on device" in still_full.stderr
    (small_disk / "filler").unlink()
    check_rest(place, reported, "--local")


def test_a_study_that_is_removed_while_it_is_written_is_one_message(tmp_path):
    place = Place(tmp_path)
    with place.held("--local") as held:
        shutil.rmtree(place.study)
        place.release()
        code, _, err = held.ends()
    check_refusal(code, err, "No such file or directory")
    assert place.run("--local").returncode == 0


#: Root may write anywhere, unless it has given that right away.
HARMLESS = ("setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override") if os.geteuid() == 0 else ()


def test_a_study_that_becomes_unwritable_is_one_message_and_loses_nothing(tmp_path):
    if HARMLESS and not shutil.which(HARMLESS[0]):
        pytest.skip("root may write anywhere, and there is no setpriv to make it like others")
    place = Place(tmp_path)
    folders = [place.study, place.study / "trials"]
    with place.held("--local", before=HARMLESS) as held:
        for folder in folders:
            folder.chmod(0o500)
        place.release()
        code, reported, err = held.ends()
    check_refusal(code, err, "Permission denied")
    refused = place.run("--local", before=HARMLESS)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1), refused.stderr
    for folder in folders:
        folder.chmod(0o700)
    check_rest(place, reported, "--local")


# ---------------------------------------------------------------------------------------------------- trials that fail


@pytest.fixture
def little_memory():
    """A real control group with a limit to its memory; returns what makes a process enter it."""
    name = f"crossover-test-{os.getpid()}"
    # Of the first version and of the second: the limit, and that no memory is swapped out instead.
    kinds = {
        host_memory.CGROUPS_1 / name: {"memory.limit_in_bytes": MEMORY_BYTES, "memory.swappiness": 0},
        host_memory.CGROUPS_2 / name: {"memory.max": MEMORY_BYTES, "memory.swap.max": 0},
    }
    for folder, (limit, *others) in ((folder, list(files.items())) for folder, files in kinds.items()):
        with contextlib.suppress(OSError):
            if not (folder.parent / "cgroup.procs").is_file():
                continue
            folder.mkdir()
            try:
                (folder / limit[0]).write_text(str(limit[1]))
                for file, number in others:
                    with contextlib.suppress(OSError):  # there is no swap
                        (folder / file).write_text(str(number))
                yield lambda folder=folder: (folder / "cgroup.procs").write_text(str(os.getpid()))
            finally:
                wait_until(lambda folder=folder: not (folder / "cgroup.procs").read_text(), "all have left it")
                folder.rmdir()
            return
    pytest.skip("control groups that limit memory cannot be made here")


def test_a_trial_that_the_kernel_ends_for_its_memory_is_oom_and_larger_ones_are_skipped(little_memory, tmp_path):
    place = Place(tmp_path, deed="fill memory", sizes=(1, 2, 3), passes=2)
    ran = place.run("--local", preexec_fn=little_memory)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = place.final().values()
    by_size = {size: [row for row in found if row["size"] == size] for size in (1, 2, 3)}
    assert {row["status"] for row in by_size[1]} == {"ok"}
    assert {row["status"] for row in by_size[2]} == {"oom"}
    assert {row["status"] for row in by_size[3] if row["pass_index"] == 1} == {"skipped_larger"}
    for row in by_size[2]:
        assert row["error_type"] == "SIGKILL"
        assert row["error_message"].startswith("the kernel ended the trial's process, for the memory of this machine")
        assert 0.5 * MEMORY_BYTES < row["peak_memory_bytes"] <= 1.1 * MEMORY_BYTES


def test_a_fault_of_all_trials_ends_the_sweep_with_its_cause(tmp_path):
    place = Place(tmp_path, deed="raise")
    ran = place.run("--local")
    assert (ran.returncode, ran.stderr) == (3, ""), ran.stdout
    assert "The first trials all ended in the same way (error: KeyError: 'no such batch'), so the rest" in ran.stdout
    rows = place.rows()
    assert 4 <= len(rows) < place.trials
    assert {row["status"] for row in rows} == {"error"}
    assert all('work.py", line' in row["error_message"] for row in rows), "with its traceback"


def test_a_trial_past_its_deadline_in_a_blocking_call_is_a_timeout_and_larger_ones_are_skipped(tmp_path):
    place = Place(tmp_path, deed="block", sizes=(1, 2), passes=2)
    ran = place.run("--local", "--set", "deadline_s=2")
    assert (ran.returncode, ran.stderr) == (3, ""), ran.stdout
    found = place.final().values()
    assert {row["status"] for row in found if row["size"] == 1} == {"timeout"}
    assert {row["status"] for row in found if row["size"] == 2 and row["pass_index"]} == {"skipped_larger"}


def test_the_kernel_ends_a_trial_before_whoever_waits_for_it(tmp_path):
    place = Place(tmp_path)
    with place.held("--local") as held:
        chosen = {pid: int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in (held.trial, held.driver.pid)}
    assert chosen[held.trial] == 1000 > chosen[held.driver.pid]


@pytest.mark.parametrize(
    ("membership", "files", "count"),
    [
        (
            "4:memory:/a/b\n1:cpu:/x\n",
            {"one/a/b/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"},
            3,
        ),
        ("4:memory:/unseen\n", {"one/memory.oom_control": "oom_kill 4\n"}, 4),
        (
            "0::/a/b\n",
            {"two/a/b/memory.events": "low 0\noom 7\noom_kill 5\n", "two/a/memory.events": "oom_kill 9\n"},
            5,
        ),
        ("0::/\n", {"machine": "pgfault 1\noom_kill 6\n"}, 6),
        ("0::/\n", {}, 0),
    ],
    ids=["first version", "a container", "second version", "no group", "nobody counts"],
)
def test_who_counts_what_the_kernel_has_ended_for_its_memory(tmp_path, monkeypatch, membership, files, count):
    (tmp_path / "membership").write_text(membership)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    places = {"MEMBERSHIP": "membership", "CGROUPS_1": "one", "CGROUPS_2": "two", "MACHINE": "machine"}
    for constant, name in places.items():
        monkeypatch.setattr(host_memory, constant, tmp_path / name)
    assert host_memory.killed_for_memory() == count
