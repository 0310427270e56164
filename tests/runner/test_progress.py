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

from runner import progress as showing
from runner.environment import ROOT
from runner.executor import Node
from runner.progress import Progress
from tests.runner import asking
from tests.runner.asking import make_record, make_sweep

NODE = Node(node_id="a", host="node-7", cpus=2, accelerators=0)
OTHER = Node(node_id="b", host="node-8", cpus=2, accelerators=0)
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


def lasting(trial, seconds, status="ok", *, node=NODE):
    """A record of a trial that took so long on a node."""
    return asking.lasting(trial, seconds, status, node_id=node.node_id, host=node.host)


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
    assert text.count("ValueError: 50 % of [nothing]\n    and a second line\n") == 2
    assert f" not run {trials[2].trial_id} " in text
    assert text.endswith(" 100 % [bold]plain[/]\n")
    stamped = [line for line in text.splitlines() if re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d{4} \w", line)]
    assert len(stamped) == 8
    assert text.count(" Trials by node: node-7 1\n") == 2


def test_a_terminal_shows_count_failures_and_what_runs_where(log, trials, terminal, screen, capsys):
    with Progress(terminal, log, total=4) as progress:
        progress.started(trials[0], NODE)
        progress.started(trials[1], NODE)
        progress._live.refresh()
        assert f"node-7 (0 done): {trials[1].label}" in seen(screen)
        assert "0/4" in seen(screen)
        progress.stored([make_record(trials[0])])
        progress._live.refresh()
        assert "1/4" in seen(screen)
        assert "oom" not in seen(screen)
        progress.stored([make_record(trials[1], "oom", error_message="out of memory")])
        progress._live.refresh()
        assert "2/4" in seen(screen)
        assert "1 oom" in seen(screen)
        assert "node-7 (2 done): idle" in seen(screen)
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
    assert "17 unavailable" in seen(screen)
    assert log.read_text().count("no CUDA device: no driver") == len(trials) == 16


def test_a_terminal_shows_every_node_and_the_time_that_is_left(log, trials, terminal, screen):
    with Progress(terminal, log, total=16) as progress:
        progress.planned(trials)
        progress.started(trials[0], NODE)
        progress.started(trials[1], OTHER)
        progress._live.refresh()
        assert " left" not in seen(screen), "nothing is known yet"
        # As the driver does it: the next one begins before the answer is on disk.
        progress.started(trials[2], NODE)
        progress.stored([lasting(trials[0], 100.0), lasting(trials[1], 140.0, "crashed", node=OTHER)])
        screen.truncate(0)
        progress._live.refresh()
        assert f"node-7 (1 done): {trials[2].label}" in seen(screen)
        assert "node-8 (1 done): idle" in seen(screen)
        assert "1 crashed" in seen(screen)
        assert "about 14 min left" in seen(screen)  # 14 trials of 120 s on two nodes
        progress.started(trials[3], OTHER)
        progress.stored([lasting(trials[3], 0.1, "node_lost", node=OTHER)])
        progress.stored([lasting(trials[2], 140.0)])
        screen.truncate(0)
        progress._live.refresh()
        assert "node-8 (1 done): lost" in seen(screen)
        assert "1 crashed, 1 node_lost" in seen(screen)
    assert " left" not in seen(screen).rpartition(" 4/16 ")[2], "when all is over"


def test_nodes_are_counted_once_at_the_end_for_those_who_watch_and_those_who_do_not(
    log, trials, terminal, screen, capsys
):
    for console in (terminal, Console()):
        with Progress(console, log, total=3) as progress:
            for trial, node in zip(trials[:3], [NODE, OTHER, NODE], strict=True):
                progress.started(trial, node)
                progress.stored([lasting(trial, 1.0, node=node)])
    line = "Trials by node: node-7 2, node-8 1"
    assert seen(screen).count(line) == 1
    assert capsys.readouterr().out.splitlines()[3:] == [line]
    assert log.read_text().count(f" {line}\n") == 2


def test_one_node_is_no_news(log, trials, capsys):
    with Progress(Console(), log, total=1) as progress:
        progress.started(trials[0], NODE)
        progress.stored([lasting(trials[0], 1.0)])
    assert capsys.readouterr().out == f"done {trials[0].trial_id} ok\n"


def test_nodes_of_one_host_are_told_apart(log, trials, capsys):
    twin = Node(node_id="0123456789abcdef", host="node-7", cpus=2, accelerators=0)
    with Progress(Console(), log, total=2) as progress:
        progress.started(trials[0], NODE)
        progress.started(trials[1], twin)
        progress.stored([lasting(trials[0], 1.0), lasting(trials[1], 1.0, node=twin)])
    assert capsys.readouterr().out.splitlines()[-1] == "Trials by node: node-7 (a) 1, node-7 (01234567) 1"


def test_the_log_sums_up_now_and_then(log, trials, monkeypatch, capsys):
    monkeypatch.setattr(showing, "SUM_UP_EVERY_S", 0.0)
    with Progress(Console(), log, total=16) as progress:
        progress.planned(trials)
        progress.started(trials[0], NODE)
        progress.stored([])
        progress.stored([lasting(trials[0], 10.0, "timeout")])
    text = log.read_text()
    assert " 0 of 16 trials; by node: node-7 0\n" in text
    assert " 1 of 16 trials; 1 timeout; about 3 min left; by node: node-7 1\n" in text
    assert "by node" not in capsys.readouterr().out


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


def test_names_of_faces_are_no_faces(log, terminal, screen):
    with Progress(terminal, log, total=1) as progress:
        progress.say("RuntimeError: :smile:")
    assert "RuntimeError: :smile:" in seen(screen)


def test_nothing_in_the_log_is_obeyed_by_a_terminal_or_begins_a_line_of_its_own(log, trials, capsys):
    with Progress(Console(), log, total=1) as progress:
        progress.say("\x1b[31mred\x07")
        progress.stored([make_record(trials[0], "error", error_message="first\ndone 0123 ok\x1b[0m")])
    text = log.read_text()
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\n    done 0123 ok" in text
    assert not any(line.startswith("done") for line in text.splitlines())


@pytest.mark.parametrize(("columns", "has_bar"), [(40, False), (80, True)])
def test_a_narrow_terminal_keeps_the_numbers(log, trials, screen, columns, has_bar):
    narrow = Console(file=screen, force_terminal=True, width=columns, legacy_windows=False, _environ={})
    with Progress(narrow, log, total=20) as progress:
        progress.stored([make_record(trials[0], "oom", error_message="x"), make_record(trials[1])])
    assert " 2/20" in seen(screen)
    assert ("━" in seen(screen)) == has_bar


STATE = "between batch_size 610 and 790 (12 pairs); next 655"


def test_a_search_has_no_total_and_says_what_it_knows(log, trials, terminal, screen):
    with Progress(terminal, log, total=120, searches=True) as progress:
        progress.looked_further(STATE, ["batch_size 655: close to the change"])
        for trial in trials[:2]:
            progress.started(trial, NODE)
        progress.stored([lasting(trials[0], 100.0)])
        progress._live.refresh()
        shown = seen(screen)
        assert "1 of at most 120" in shown
        assert "/120" not in shown
        assert " left" not in shown, "nobody knows"
        assert STATE in shown
        screen.truncate(0)
        progress.looked_further("between batch_size 640 and 700 (13 pairs)", [])
        progress._live.refresh()
        assert "between batch_size 640 and 700 (13 pairs)" in seen(screen)
        assert STATE not in seen(screen).rpartition("640")[2]
    text = log.read_text()
    assert " next batch_size 655: close to the change\n" in text
    assert f" {STATE}\n" in text


def test_plain_lines_say_what_a_search_knows_when_that_changes(log, capsys):
    with Progress(Console(), log, total=120, searches=True) as progress:
        for state in ("a", "a", "b", "b", "a"):
            progress.looked_further(state, [])
    assert capsys.readouterr().out.splitlines() == ["a", "b", "a"]


def test_the_log_of_a_search_sums_up_how_far_it_is(log, trials, monkeypatch):
    monkeypatch.setattr(showing, "SUM_UP_EVERY_S", 0.0)
    with Progress(Console(), log, total=120, searches=True) as progress:
        progress.looked_further(STATE, [])
        progress.started(trials[0], NODE)
        progress.stored([lasting(trials[0], 10.0)])
    assert f" 1 of at most 120 trials; {STATE}; by node: node-7 1\n" in log.read_text()


@pytest.mark.parametrize("columns", [60, 80])
def test_what_a_search_knows_fits_a_narrow_terminal(log, trials, screen, columns):
    narrow = Console(file=screen, force_terminal=True, width=columns, legacy_windows=False, _environ={})
    with Progress(narrow, log, total=120, searches=True) as progress:
        progress.looked_further(STATE + " and much more than that" * 4, [])
        progress.stored([make_record(trials[0], "oom", error_message="x"), make_record(trials[1])])
        screen.truncate(0)
        progress._live.refresh()
        lines = seen(screen).strip("\0").splitlines()
        assert max(map(len, lines)) <= columns
        assert any("2 of at most 120" in line for line in lines)
        assert any(line.startswith("between batch_size 610 and 790 (12 pairs); next 655") for line in lines)


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
