"""Who measured, and how many cores a trial may really use."""

import os
import socket
import subprocess
import sys
from importlib.metadata import version

import psutil
import pytest

from runner import environment
from runner.environment import ROOT, code_version, machine, usable_cores
from sweeps.record import COLUMNS


def test_a_machine_is_described_by_columns_of_a_record():
    found = machine()
    assert set(found) <= COLUMNS
    assert found["host"] == socket.gethostname()
    assert found["cores_logical"] == os.cpu_count()
    assert found["memory_bytes"] == psutil.virtual_memory().total
    assert found["torch"] == version("torch")
    assert found["python"] == "{}.{}.{}".format(*sys.version_info)
    assert found["os"].startswith("Linux" if sys.platform == "linux" else "macOS")
    assert found["cpu_model"]
    assert machine() is found  # asked once


def test_describing_the_machine_loads_neither_torch_nor_ray():
    code = "import sys; from runner.environment import machine; machine(); print({'torch', 'ray'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_a_process_that_is_held_on_one_cpu_has_one_core():
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    code += "from runner.environment import usable_cores; print(usable_cores(), usable_cores(64))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "1 1\n"


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """A tree of control groups: `groups({folder: {file: text}}, membership)`."""

    def make(files, membership):
        for place, text in files.items():
            path = tmp_path / "groups" / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "membership").write_text(membership)
        monkeypatch.setattr(environment, "CGROUPS", tmp_path / "groups")
        monkeypatch.setattr(environment, "MEMBERSHIP", tmp_path / "membership")
        monkeypatch.setattr(environment, "_allowed_cores", lambda: 8)

    return make


V2 = "0::/a/b\n"
V1 = "12:memory:/a/b\n3:cpu,cpuacct:/a/b\n2:cpuset:/a/b\n0::/\n"


@pytest.mark.parametrize(
    ("membership", "files", "cores"),
    [
        pytest.param(V2, {}, 8, id="no files"),
        pytest.param(V2, {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "max 100000\n"}, 8, id="no quota"),
        pytest.param(V2, {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "150000 100000\n"}, 1, id="1.5 further out"),
        pytest.param(V2, {"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "150000 100000\n"}, 1, id="the least counts"),
        pytest.param(V2, {"a/b/cpu.max": "150000 50000\n", "a/cpu.max": "600000 100000\n"}, 3, id="another period"),
        pytest.param(V2, {"cpu.max": "200000 100000\n"}, 2, id="at the root, as in a container"),
        pytest.param(V2, {"a/b/cpu.max": "10000 100000\n"}, 1, id="a tenth of a core is still one"),
        pytest.param(V2, {"a/b/cpu.max": "what is this"}, 8, id="unreadable"),
        pytest.param("0::/\n", {"cpu.max": "300000 100000\n"}, 3, id="namespace"),
        pytest.param("0::/../c\n", {"cpu.max": "300000 100000\n"}, 3, id="outside its namespace"),
        pytest.param("0::/gone\n", {"cpu.max": "300000 100000\n"}, 3, id="a folder that is not shown"),
        pytest.param(V1, {"cpu/a/b/cpu.cfs_quota_us": "-1", "cpu/a/b/cpu.cfs_period_us": "100000"}, 8, id="v1: none"),
        pytest.param(V1, {"cpu/a/b/cpu.cfs_quota_us": "25000", "cpu/a/b/cpu.cfs_period_us": "10000"}, 2, id="v1: 2.5"),
        pytest.param(V1, {"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4, id="v1: container"),
        pytest.param(V1, {"cpu/a/b/cpu.cfs_quota_us": "250000"}, 8, id="v1: no period"),
        pytest.param("", {}, 8, id="no groups at all"),
    ],
)
def test_quotas(groups, membership, files, cores):
    groups(files, membership)
    assert usable_cores() == cores


def test_the_least_of_affinity_quota_and_what_ray_declares(groups):
    groups({"a/b/cpu.max": "450000 100000\n"}, V2)
    assert [usable_cores(declared) for declared in (None, 1, 3, 16)] == [4, 1, 3, 4]


def test_a_system_without_control_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "MEMBERSHIP", tmp_path / "nothing")
    assert usable_cores() == environment._allowed_cores()


def test_siblings_on_one_core_count_once(monkeypatch):
    listed = {"cpu0": "0,2\n", "cpu1": "1,3\n", "cpu2": "0,2\n", "cpu3": "1,3\n"}
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2}, raising=False)
    monkeypatch.setattr(environment.Path, "is_file", lambda path: True)
    monkeypatch.setattr(environment.Path, "read_text", lambda path: listed[path.parts[-3]])
    assert environment._allowed_cores() == 2


def test_a_system_without_affinity(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert environment._allowed_cores() == psutil.cpu_count(logical=False)


def test_the_version_of_the_code_changes_with_it(tmp_path, monkeypatch):
    room = tmp_path / "runner" / "devices"
    room.mkdir(parents=True)
    (tmp_path / "runner" / "timing.py").write_text("one")
    (room / "device.py").write_text("two")
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    versions = [code_version(None), code_version("own"), code_version("other")]
    (room / "device.py").write_text("three")
    versions.append(code_version(None))
    (room / "device.py").rename(room / "moved.py")
    versions.append(code_version(None))
    assert len(set(versions)) == 5
    (room / "notes.txt").write_text("no code")
    (tmp_path / "elsewhere.py").write_text("does not measure")
    assert code_version(None) == versions[-1]
    assert code_version("") == code_version(None)


def test_the_version_of_the_real_code_is_short_and_stable():
    assert code_version(None) == code_version(None)
    assert len(code_version(None)) == 12
    assert int(code_version("x"), 16) >= 0
