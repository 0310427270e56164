"""What a person sees: plain lines where nobody watches, a bar on a terminal, and everything in log.txt."""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest
from rich.console import Console

from runner.environment import ROOT
from runner.executor import Node
from runner.progress import Progress
from tests.runner.asking import make_record, make_sweep

NODE = Node(node_id="a", host="node-7", cpus=2, accelerators=0)
TRACEBACK = (
    'Traceback (most recent call last):\n  File "own.py", line 5, in step\n    raise ValueError\n'
    "ValueError: 50 % of [nothing]\nand a second line"
)


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.txt"


@pytest.fixture
def trials():
    sweep = make_sweep(axes={"batch_size": [1, 2, 3, 4]}, passes=2)
    return [trial for pair in sweep.pairs() for trial in pair]


@pytest.fixture
def screen():
    return io.StringIO()


@pytest.fixture
def terminal(screen):
    return Console(file=screen, force_terminal=True, width=200, _environ={"TERM": "xterm"})


def seen(screen):
    """What was written to a terminal, without its control codes."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).replace("\r", "\n")


def test_plain_lines_are_one_a_trial_and_one_a_new_fault(log, trials, capsys):
    with Progress(Console(), log, total=4) as progress:
        for trial in trials[:3]:
            progress.started(trial, NODE)
        progress.stored([make_record(trials[0]), make_record(trials[1], "oom", error_message="out of memory")])
        progress.stored([])
        progress.stored([make_record(trials[2], "error", error_message=TRACEBACK)])
        progress.skipped(trials[3])
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert [line for line in lines if line.startswith("done ")] == [
        f"done {trials[0].trial_id} ok",
        f"done {trials[1].trial_id} oom",
        f"done {trials[2].trial_id} error",
    ]
    assert [line.split()[0] for line in lines if not line.startswith("done ")] == ["oom", "error"]  # and why
    assert printed.err == ""


def test_waiting_is_said_once_as_a_plain_line(log, capsys):
    with Progress(Console(), log, total=4) as progress:
        progress.waiting(["gpu", "[b]"], 600.0)
    assert capsys.readouterr().out == "No node serves gpu, [b] yet; waiting up to 600 s for one (--wait)\n"


def test_the_log_tells_all_with_times_and_is_added_to(log, trials):
    for trial in trials[:2]:
        with Progress(Console(), log, total=1) as progress:
            progress.started(trial, NODE)
            progress.stored([make_record(trial, "error", error_message=TRACEBACK)])
    with Progress(Console(), log, total=1) as progress:
        progress.skipped(trials[2])
        progress.say("100 % [bold]plain[/]")
    text = log.read_text()
    for trial in trials[:2]:
        assert f" start {trial.trial_id} {trial.label}, on node-7\n" in text
        assert f" done {trial.trial_id} error Traceback" in text
    assert text.count("ValueError: 50 % of [nothing]\nand a second line\n") == 2
    assert f" not run {trials[2].trial_id} " in text
    assert text.endswith(" 100 % [bold]plain[/]\n")
    stamped = [line for line in text.splitlines() if re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d{4} \w", line)]
    assert len(stamped) == 6


def test_a_terminal_shows_count_failures_and_what_runs_where(log, trials, terminal, screen, capsys):
    with Progress(terminal, log, total=4) as progress:
        progress.started(trials[0], NODE)
        progress.started(trials[1], NODE)
        progress._live.refresh()
        assert f"{trials[0].label}, on node-7" in seen(screen)
        assert f"{trials[1].label}, on node-7" in seen(screen)
        assert "0/4" in seen(screen)
        progress.stored([make_record(trials[0])])
        progress._live.refresh()
        assert "1/4" in seen(screen)
        assert "not ok" not in seen(screen)
        progress.stored([make_record(trials[1], "oom", error_message="out of memory")])
        progress._live.refresh()
        assert "2/4" in seen(screen)
        assert "1 not ok" in seen(screen)
        progress.skipped(trials[2])
        progress._live.refresh()
        assert "3/4" in seen(screen)
    assert f"oom {trials[1].label}, on node-7: out of memory" in seen(screen)
    assert "done " not in seen(screen)
    assert capsys.readouterr().out == ""


def test_what_has_ended_is_no_longer_shown_as_running(log, trials, terminal, screen):
    with Progress(terminal, log, total=4) as progress:
        progress.started(trials[0], NODE)
        progress.stored([make_record(trials[0])])
        screen.truncate(0)
        progress._live.refresh()
        assert trials[0].label not in seen(screen)
        progress.started(trials[1], NODE)
        screen.truncate(0)
    assert trials[1].label not in seen(screen)  # nor when all is over


def test_the_same_failure_is_shown_once_a_target(log, trials, terminal, screen):
    with Progress(terminal, log, total=17) as progress:
        for trial in trials:
            progress.started(trial, NODE)
            progress.stored([make_record(trial, "unavailable", error_message="no CUDA device: no driver")])
        progress.stored([make_record(trials[0], "unavailable", error_message="no CUDA device: it is hidden")])
    assert seen(screen).count("no CUDA device: no driver") == 2  # cpu and cpu-1
    assert seen(screen).count("no CUDA device: it is hidden") == 1
    assert "17 not ok" in seen(screen)
    assert log.read_text().count("no CUDA device: no driver") == len(trials) == 16


@pytest.mark.parametrize(
    ("status", "message", "line"),
    [
        ("error", TRACEBACK, "ValueError: 50 % of [nothing]"),
        ("crashed", "the trial's process ended by SIGSEGV without an answer; its last output: a\nb", "by SIGSEGV"),
        ("unavailable", "no CUDA device: [hidden]", "no CUDA device: [hidden]"),
        ("invalid", None, ""),
    ],
)
def test_a_failure_is_told_in_one_line_that_says_most(log, trials, terminal, screen, status, message, line):
    with Progress(terminal, log, total=1) as progress:
        progress.started(trials[0], NODE)
        progress.stored([make_record(trials[0], status, error_message=message)])
    (told,) = [each for each in seen(screen).splitlines() if each.startswith(f"{status} ")]
    assert line in told
    assert "Traceback" not in seen(screen)
    assert "second line" not in seen(screen)


def test_markup_in_what_is_said_is_not_obeyed(log, terminal, screen):
    with Progress(terminal, log, total=1) as progress:
        progress.say("axes [1, 2] of [/nothing] [bold]x[/bold]")
    assert "axes [1, 2] of [/nothing] [bold]x[/bold]" in seen(screen)


def test_an_error_that_passes_through_stops_the_bar_and_closes_the_log(log, terminal, screen):
    progress = Progress(terminal, log, total=1)
    with pytest.raises(KeyboardInterrupt), progress:
        raise KeyboardInterrupt
    assert not progress._live.is_started
    assert screen.getvalue().rindex("\x1b[?25h") > screen.getvalue().rindex("\x1b[?25l")  # the cursor is back
    assert all(handler.stream is None for handler in progress._log.handlers)


SCRIPT = """
import sys
from pathlib import Path
from rich.console import Console
from runner.progress import Progress
from tests.runner.asking import make_record, make_sweep

trial = make_sweep().pairs()[0][0]
with Progress(Console(), Path(sys.argv[1]), total=1) as progress:
    progress.stored([make_record(trial)])
print("after", flush=True)
"""


@pytest.mark.parametrize(("columns", "term", "plain"), [(100, "xterm", False), (100, "dumb", True), (0, "xterm", True)])
def test_a_real_terminal(log, columns, term, plain):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30 if columns else 0, columns, 0, 0))
    environment = {name: text for name, text in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, log], cwd=ROOT, env={**environment, "TERM": term}, stdout=theirs, stderr=theirs
    ) as shown:
        os.close(theirs)
        text = b""
        while b"after" not in text:
            text += os.read(ours, 4096)
        assert shown.wait() == 0
    os.close(ours)
    assert (b"done " in text) == plain
    assert (b"1/1" in text) == (not plain)
