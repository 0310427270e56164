"""Signs of a driver: seen where they are, from outside the process."""

import _ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runner.check import traces as module
from runner.check.traces import traces

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").is_file(), reason="this kernel does not tell")


@pytest.fixture
def process():
    """`process(code)` is the number of a Python that has run it and waits."""
    begun = []

    def begin(code):
        child = subprocess.Popen(
            [sys.executable, "-c", f"{code}\nprint(flush=True)\ninput()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        begun.append(child)
        child.stdout.readline()
        return child.pid

    yield begin
    for child in begun:
        child.communicate(b"\n")


def test_a_process_that_has_used_no_driver_shows_none(process):
    assert traces(process("import torch")) == []


def test_a_library_of_the_driver_that_is_loaded_is_seen(process, tmp_path):
    some = _ctypes.__file__
    shutil.copy(some, tmp_path / "libcuda.so.1")
    shutil.copy(some, tmp_path / "libnvidia-ml.so.1")
    shutil.copy(some, tmp_path / "libcudart.so.13")  # no part of the driver: torch loads it when it is imported
    code = f"import ctypes, pathlib\nfor path in pathlib.Path({str(tmp_path)!r}).iterdir():\n    ctypes.CDLL(str(path))"
    assert traces(process(code)) == ["libcuda.so.1", "libnvidia-ml.so.1"]


def test_a_file_of_the_driver_that_is_open_is_seen(process, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FILES", (str(tmp_path / "nvidia"),))
    (tmp_path / "nvidiactl").touch()
    (tmp_path / "other").touch()
    code = f"held = [open({str(tmp_path)!r} + '/' + name) for name in ('nvidiactl', 'other')]"
    assert traces(process(code)) == [str(tmp_path / "nvidiactl")]


def test_of_a_process_that_is_gone_nothing_is_known():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert traces(child.pid) is None


def test_one_may_look_at_oneself():
    assert traces(os.getpid()) is not None
