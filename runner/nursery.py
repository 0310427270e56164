"""The nursery: a small process that has imported torch and forks a fresh child for each trial.

    python -m runner.nursery REQUESTS_FD ANSWERS_FD fork|spawn OWNER_PID

Importing torch takes seconds, forking a process that has done so takes 20 ms. Two things must never happen here,
because a child inherits neither safely: touching an accelerator, and running an operation on several threads.
A line of JSON in is a trial, a line of JSON out says what became of it. With `spawn` torch is not imported here and
each child is a plain new interpreter.

Nothing outlives its parent: the kernel kills a child when its nursery dies, and the nursery when its owner dies. What
a trial started ends with the trial, even where it has left the trial's process group.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

#: How a program of ours is started: no module is taken from the current folder, and what it prints is not held back.
PYTHON = [sys.executable, "-P", "-u", "-m"]
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LONGEST_OUTPUT_BYTES = 2_000


def die_with(parent: int, how: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel to end this process when its parent dies (Linux; elsewhere the closing pipe has to do)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, how)
    if os.getppid() != parent:  # it died before the request was made
        os._exit(1)


def prepare() -> bool:
    """Load what every trial needs, and return whether this process can be forked after that.

    Half of the cost of an import of torch hides in its first optimizer.
    """
    import torch

    import runner.worker  # noqa: F401
    from runner.devices.visibility import has_touched_accelerator

    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])
    gc.collect()
    gc.freeze()  # a child then neither walks nor copies the pages of what was loaded here
    return not has_touched_accelerator()


def serve(requests: BinaryIO, answers: BinaryIO, *, fork: bool) -> None:
    """Attend to one trial after another until the pipe of requests closes."""
    for line in requests:
        request = line.decode()
        report = _attend(request, json.loads(request)["deadline_s"], (requests, answers), fork=fork)
        answers.write(json.dumps(report).encode() + b"\n")
        answers.flush()


def _attend(request: str, deadline_s: float, pipes: tuple[BinaryIO, ...], *, fork: bool) -> dict[str, Any]:
    """Run one trial in a child of its own and say how it ended.

    Returns:
        `answer` (text, empty if it did not end well), `signal` and `exit` (0 if none), `timed_out`, `output` (last
        lines that it printed), `cpu_time_s`, `peak_memory_bytes`, `involuntary_switches`.
    """
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as output:
        nursery = os.getpid()
        child = os.fork()
        if child == 0:
            _begin(request, nursery, answer.fileno(), output.fileno(), pipes, fork=fork)
        timed_out = not _ends_within(child, deadline_s)
        # The child leads a group of its own, unless its time was up before it got that far.
        for end in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                end(child, signal.SIGKILL)
        _, status, used = os.wait4(child, 0)
        _end_orphans()
        answer.seek(0)
        output.seek(max(0, output.seek(0, os.SEEK_END) - LONGEST_OUTPUT_BYTES))
        return {
            "answer": answer.read().decode() if status == 0 and not timed_out else "",
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
            "exit": os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0,
            "timed_out": timed_out,
            "output": output.read().decode(errors="replace"),
            "cpu_time_s": used.ru_utime + used.ru_stime,
            "peak_memory_bytes": used.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
            "involuntary_switches": used.ru_nivcsw,
        }


def _begin(
    request: str, nursery: int, answer_fd: int, output_fd: int, pipes: tuple[BinaryIO, ...], *, fork: bool
) -> NoReturn:
    """Be the child: run the trial and end."""
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        die_with(nursery)
        for pipe in pipes:  # an end of it that lives on here would hide the death of the nursery
            pipe.close()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is a row, not a file of gigabytes
        with contextlib.suppress(OSError):  # where memory runs out, the kernel ends a trial and not who waits for it
            Path("/proc/self/oom_score_adj").write_text("1000")
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output_fd, 1)
        os.dup2(output_fd, 2)
        if fork:
            from runner.worker import main

            main(request, answer_fd)
        else:
            _spawn(request, answer_fd)
        code = 0
    except BaseException:  # noqa: BLE001  (the parent reads it from the output; nothing may escape into its code)
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _spawn(request: str, answer_fd: int) -> NoReturn:
    stdin = tempfile.TemporaryFile()  # noqa: SIM115  (the new program reads it)
    stdin.write(request.encode())
    stdin.seek(0)
    os.dup2(stdin.fileno(), 0)
    os.set_inheritable(answer_fd, True)
    os.execv(sys.executable, [*PYTHON, "runner.worker", str(answer_fd)])


def _ends_within(child: int, seconds: float) -> bool:
    """Wait until the child has ended, without collecting it; False when time is up first."""
    try:
        handle = os.pidfd_open(child)
    except (AttributeError, OSError):  # macOS, or a sandbox whose kernel lacks it
        return _is_seen_to_end(child, seconds)
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


def _is_seen_to_end(child: int, seconds: float) -> bool:
    """Do what `_ends_within` does, by looking again and again."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if _has_ended(child):
            return True
        time.sleep(0.01)
    return False


def _has_ended(child: int) -> bool:
    """Whether a child has ended; it is not collected."""
    if hasattr(os, "waitid"):
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    import psutil  # macOS before Python 3.13

    return psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def _end_orphans() -> None:
    """End every child, and what a trial has left in groups of its own: this process inherits it (Linux; see `main`)."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    while listed.is_file() and (left := listed.read_text().split()):
        for orphan in map(int, left):
            os.kill(orphan, signal.SIGKILL)
            os.waitpid(orphan, 0)


def _end(number: int, _: object) -> None:
    """Take along what was started here: the owner has died, or wants no more."""
    _end_orphans()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def main() -> None:
    """Serve the owner that started this process."""
    requests_fd, answers_fd, method, owner = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    signal.signal(signal.SIGTERM, _end)
    die_with(owner, signal.SIGTERM)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the owner decides
    fork = method == "fork" and prepare()
    with os.fdopen(requests_fd, "rb") as requests, os.fdopen(answers_fd, "wb") as answers:
        answers.write(b"fork\n" if fork else b"spawn\n")  # ready, and how trials will really begin
        answers.flush()
        serve(requests, answers, fork=fork)


if __name__ == "__main__":
    main()
