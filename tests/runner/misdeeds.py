"""A workload that does, on its first step, what it is told to: most of it nothing that a workload should do."""

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch

SLEEP = ["sleep", "600"]


def _tell(folder):
    """Leave word of what a trial's process is like."""
    word = {
        "pid": os.getpid(),
        "nursery": os.getppid(),
        "environment": dict(os.environ),
        "cwd": str(Path.cwd()),
        "descriptors": sorted(str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()),
        "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
        "threads": torch.get_num_threads(),
        "cuda_is_initialized": torch.cuda.is_initialized(),
    }
    beside = folder / f".word-{os.getpid()}"
    beside.write_text(json.dumps(word))
    beside.replace(folder / f"word-{time.monotonic_ns()}.json")


def _start(folder, **settings):
    child = subprocess.Popen(SLEEP, **settings)
    (folder / "grandchild").write_text(str(child.pid))


def _start_and_sleep(folder, **settings):
    _start(folder, **settings)
    time.sleep(600)


def _start_and_die(folder, **settings):
    _start(folder, **settings)
    os._exit(1)


def _start_a_family(folder):
    """A grandchild in a session of its own, with a child in yet another."""
    code = "import subprocess, sys, pathlib; p = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
    code += "pathlib.Path(sys.argv[1]).write_text(str(p.pid)); p.wait()"
    subprocess.Popen([sys.executable, "-c", code, str(folder / "grandchild")], start_new_session=True)
    while not (folder / "grandchild").is_file() or not (folder / "grandchild").read_text():
        time.sleep(0.01)


def _kill(number):
    print("last words")
    os.kill(os.getpid(), number)


def _exit(code):
    print("last words")
    os._exit(code)


def _work_in_parallel(folder):
    """Tell how many threads an operation is shared between: those that are new afterwards, and this one."""
    tasks = Path("/proc/self/task")
    before = {each.name for each in tasks.iterdir()}
    torch.ones(1 << 22).mul_(2).sum()
    new = [each for each in tasks.iterdir() if each.name not in before]
    ran = [each for each in new if int((each / "schedstat").read_text().split()[0]) > 0]
    word = {"nursery": os.getppid(), "threads": torch.get_num_threads(), "ran": 1 + len(ran)}
    (folder / f"word-{time.monotonic_ns()}.json").write_text(json.dumps(word))


class _Deadly:
    """A stdout that ends the process when it is flushed: after the answer was written."""

    def write(self, text):
        pass

    def flush(self):
        os.kill(os.getpid(), signal.SIGKILL)


def _print_much():
    print("x" * 50_000_000)
    print("the last line")


def _raise(error):
    raise error


def _write_everywhere():
    for descriptor in range(3, 64):
        with contextlib.suppress(OSError):
            os.write(descriptor, b"not an answer")


def _wait(folder):
    """Wait until it is held no more."""
    while (folder / "held").exists():
        time.sleep(0.01)


DEEDS = {
    "nothing": lambda folder: None,
    "more threads": lambda folder: torch.set_num_threads(torch.get_num_threads() + 1),
    "wait": _wait,
    "tell": _tell,
    "work in parallel": _work_in_parallel,
    "less precision": lambda folder: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "tf32"),
    "write everywhere": lambda folder: _write_everywhere(),
    "sleep": lambda folder: time.sleep(600),
    "block": lambda folder: ctypes.PyDLL(None).sleep(600),  # in C, and no Python thread can run meanwhile
    "ignore signals": lambda folder: (signal.signal(signal.SIGTERM, signal.SIG_IGN), time.sleep(600)),
    "SIGKILL": lambda folder: _kill(signal.SIGKILL),
    "SIGSEGV": lambda folder: _kill(signal.SIGSEGV),
    "SIGABRT": lambda folder: _kill(signal.SIGABRT),
    "read nowhere": lambda folder: ctypes.string_at(0),
    "exit code 7": lambda folder: _exit(7),
    "exit code 0": lambda folder: _exit(0),
    "die after the answer": lambda folder: setattr(sys, "stdout", _Deadly()),
    "sys.exit": lambda folder: sys.exit(3),
    "raise": lambda folder: _raise(ValueError("50 % of nothing\nand a second line")),
    "raise no text": lambda folder: _raise(OSError("file \udcff")),
    "allocate": lambda folder: torch.empty(2**45),
    "MemoryError": lambda folder: bytearray(2**62),
    "read stdin": lambda folder: input(),
    "print much": lambda folder: _print_much(),
    "print much and die": lambda folder: (_print_much(), os._exit(1)),
    "print bytes": lambda folder: (os.write(1, b"\xff\xfe\n"), os._exit(1)),
    "thread": lambda folder: threading.Thread(target=time.sleep, args=(600,)).start(),
    "grandchild": _start,
    "grandchild, own session": lambda folder: _start(folder, start_new_session=True),
    "grandchild, sleep": _start_and_sleep,
    "grandchild, own session, sleep": lambda folder: _start_and_sleep(folder, start_new_session=True),
    "grandchild, own session, die": lambda folder: _start_and_die(folder, start_new_session=True),
    "family": _start_a_family,
    "tell and sleep": lambda folder: (_tell(folder), time.sleep(600)),
    "two losses": lambda folder: torch.ones(2),
}


class Misdeed:
    """Does the deed before the first step; every step is the mean of a few numbers."""

    def __init__(self, *, seed, deed="nothing", folder="", size=4):
        self.deed, self.folder, self.size = deed, Path(folder), size
        self.values = torch.full((size,), float(seed))

    def prepare(self, device, target):
        self.returned = DEEDS[self.deed](self.folder)

    def step(self):
        return self.returned if isinstance(self.returned, torch.Tensor) else self.values.mean()
