"""What is gathered around the timed part: what it says, and that it is never gathered during it."""

import sys
from pathlib import Path

import pytest
import torch

from runner import evidence
from runner.devices import host_memory, rapl
from runner.devices.device import Cpu
from runner.evidence import ON_CPU, Evidence
from runner.interference import Counters
from sweeps.record import COLUMNS
from tests.runner.pretend import PretendAccelerator, PretendNvml
from tests.runner.scripted import Machine

ON_GPU = {
    "gpu_uuid", "driver", "gpu_clock_before_mhz", "gpu_clock_after_mhz", "gpu_temperature_before_c",
    "gpu_temperature_after_c", "gpu_throttle_before", "gpu_throttle_after", "foreign_gpu_processes",
}  # fmt: skip


@pytest.fixture
def library(monkeypatch):
    library = PretendNvml()
    monkeypatch.setitem(sys.modules, "pynvml", library)
    return library


@pytest.fixture
def packages(monkeypatch, tmp_path):
    """Counters of two packages and their parts: `packages(first, second)` sets them, in microjoules."""
    monkeypatch.setattr(rapl, "POWERCAP", tmp_path)
    for place, name in {"0": "package-0", "1": "package-1", "0:0": "core", "2": "psys"}.items():
        folder = tmp_path / f"intel-rapl:{place}"
        folder.mkdir()
        (folder / "name").write_text(f"{name}\n")
        (folder / "max_energy_range_uj").write_text("9999999\n")
        (folder / "energy_uj").write_text("777\n")

    def count(first, second):
        (tmp_path / "intel-rapl:0" / "energy_uj").write_text(f"{first}\n")
        (tmp_path / "intel-rapl:1" / "energy_uj").write_text(f"{second}\n")

    return count


def found(gathered, *, timed_s=3.0, threads=1, cores=2, wait_policy="default"):
    return gathered.found(timed_s=timed_s, threads=threads, cores=cores, wait_policy=wait_policy)


def gather(device, between=lambda: None, **settings):
    gathered = Evidence(device)
    gathered.before()
    between()
    gathered.after()
    return found(gathered, **settings)


def test_every_column_is_one_of_a_record_and_every_null_has_its_reason(library):
    for device in (Cpu(), PretendAccelerator(), PretendAccelerator(uuid=None, peak=None)):
        gathered = gather(device)
        assert set(gathered.columns) <= COLUMNS
        assert {name for name, value in gathered.columns.items() if value is None} == set(gathered.reasons)
        assert all(gathered.reasons.values())
        assert ON_GPU | {"interference", "energy_j", "device_peak_memory_bytes"} <= set(gathered.columns)


def test_on_a_cpu_nothing_is_known_of_an_accelerator_and_nobody_is_asked(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    gathered = gather(Cpu())
    assert {gathered.reasons[name] for name in ON_GPU | {"device_peak_memory_bytes"}} == {ON_CPU}


def test_an_accelerator_before_and_after(library):
    device = PretendAccelerator()

    def work():
        library.devices["GPU-one"] |= {"clock": 1410, "heat": 83, "bits": 0x4 | 0x20, "mj": 601_000}
        library.processes.append(2**22 + 1)

    gathered = gather(device, work)
    assert {name: gathered.columns[name] for name in ON_GPU} == {
        "gpu_uuid": "GPU-one",
        "driver": "580.1",
        "gpu_clock_before_mhz": 1980,
        "gpu_clock_after_mhz": 1410,
        "gpu_temperature_before_c": 61,
        "gpu_temperature_after_c": 83,
        "gpu_throttle_before": "",
        "gpu_throttle_after": "power_cap,software_thermal",
        "foreign_gpu_processes": 1,
    }
    assert gathered.columns["energy_j"] == 600.0
    assert gathered.columns["device_peak_memory_bytes"] == 5_000_000
    assert len(device.resets) == 1


def test_a_device_that_is_held_down_all_the_time_says_so(library):
    library.devices["GPU-one"]["bits"] = 0x40
    columns = gather(PretendAccelerator()).columns
    assert (columns["gpu_throttle_before"], columns["gpu_throttle_after"]) == ("hardware_thermal", "hardware_thermal")


def test_what_the_library_cannot_tell_is_null_with_its_words(library):
    library.broken |= {"heat", "mj"}
    gathered = gather(PretendAccelerator())
    names = "gpu_temperature_before_c", "gpu_temperature_after_c", "energy_j"
    assert {gathered.reasons[name] for name in names} == {"NVML: Not Supported"}
    assert gathered.columns["gpu_clock_after_mhz"] == 1980


def test_without_the_library_the_device_is_still_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    gathered = gather(PretendAccelerator())
    assert gathered.columns["gpu_uuid"] == "GPU-one"
    assert {gathered.reasons[name] for name in ON_GPU - {"gpu_uuid"}} == {"the package nvidia-ml-py is not installed"}
    assert gathered.reasons["energy_j"] == "the package nvidia-ml-py is not installed"


def test_the_last_reading_before_the_blocks_counts(library):
    gathered = Evidence(PretendAccelerator())
    gathered.before()
    library.devices["GPU-one"]["clock"] = 1000
    gathered.before()
    gathered.after()
    assert found(gathered).columns["gpu_clock_before_mhz"] == 1000


@pytest.mark.parametrize("device", [Cpu(), PretendAccelerator()])
def test_energy_of_a_short_part_is_not_known(library, packages, device):
    packages(0, 0)
    assert gather(device, timed_s=2.0).columns["energy_j"] == 0.0
    gathered = gather(device, timed_s=1.99)
    assert gathered.columns["energy_j"] is None
    assert gathered.reasons["energy_j"] == "the timed part took less than 2 s: too short for such counters"


def test_energy_of_a_cpu_is_that_of_its_packages_even_where_a_counter_begins_anew(packages):
    packages(1_000_000, 9_000_000)
    gathered = gather(Cpu(), lambda: packages(3_500_000, 500_000))
    assert gathered.columns["energy_j"] == pytest.approx(2.5 + 1.5)


@pytest.mark.parametrize("text", ["not a number", None])
def test_energy_that_may_not_be_read_is_not_known(packages, tmp_path, text):
    for place in "01":
        path = tmp_path / f"intel-rapl:{place}" / "energy_uj"
        path.unlink()
        path.mkdir() if text is None else path.write_text(text)  # root may read everything, but no folder
    gathered = gather(Cpu())
    assert gathered.columns["energy_j"] is None
    assert "RAPL" in gathered.reasons["energy_j"]


@pytest.mark.parametrize(
    ("device", "threads", "policy", "verdict", "share"),
    [
        (Cpu(), 1, "default", "contended", 0.5),
        (Cpu(), 4, "default", "contended", 0.125),
        (Cpu(), 1, "passive", "suspect", 0.5),  # sleepers are woken on cores that are taken: no proof of a neighbour
        (PretendAccelerator(), 4, "default", "contended", 0.5),  # one thread at a time feeds it
    ],
)
def test_waiting_for_a_core_is_judged_by_what_the_threads_do(
    library, monkeypatch, device, threads, policy, verdict, share
):
    readings = iter(
        Counters(at_ns=at * 10**9, delay_ns={"1": at * 10**9 // 2}, throttled_s=0.0, stolen=(0, at * 100))
        for at in (1, 2)
    )
    monkeypatch.setattr(evidence, "read_counters", lambda: next(readings))
    columns = gather(device, threads=threads, cores=8, wait_policy=policy).columns
    assert (columns["interference"], columns["run_delay_share"]) == (verdict, share)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="this kernel does not forget a peak")
def test_the_peak_of_memory_is_that_since_the_reset():
    held = torch.ones(50_000_000)  # 200 MB
    held = None
    host_memory.reset_peak()
    start = host_memory.resident_bytes()
    assert host_memory.peak_bytes() < start + 50_000_000
    held = torch.ones(25_000_000)
    del held
    # The kernel counts by the dozen pages, and so a little late.
    assert 95_000_000 <= host_memory.peak_bytes() - start < 150_000_000
    assert gather(Cpu()).columns["peak_memory_bytes"] >= start + 95_000_000


def test_a_kernel_that_does_not_tell_the_peak_leaves_the_figure_of_the_nursery(monkeypatch, tmp_path):
    for name in ("CLEAR_REFS", "STATUS"):
        monkeypatch.setattr(host_memory, name, tmp_path / "no such folder" / name)
    host_memory.reset_peak()
    assert host_memory.peak_bytes() is None
    assert "peak_memory_bytes" not in gather(Cpu()).columns


class Spy:
    """Notes every call of a function, in Python or in C, by the name of what is called and the file that calls."""

    def __init__(self, events):
        self.events = events

    def __call__(self, frame, event, argument):
        if event == "call":
            self.events.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}")
        elif event == "c_call":
            self.events.append(f"{Path(frame.f_code.co_filename).name}:{argument.__name__}")


def test_nothing_is_gathered_between_the_two_readings_of_the_clock(library):
    machine = Machine(lambda number: 0.02 if number <= 12 else 0.0001)  # the first timed block is too short
    gathered = Evidence(PretendAccelerator())
    spy = Spy(machine.events)
    sys.setprofile(spy)
    try:
        measured = machine.measure(when_warm=gathered.before)
        gathered.after()
    finally:
        sys.setprofile(None)
    assert found(gathered).columns["gpu_clock_after_mhz"] == 1980
    events = machine.events
    readings = [index for index, each in enumerate(events) if each == "clock"]
    assert len(readings) >= 2 * (len(measured.step_times_s) + 12)
    for start, stop in zip(readings[::2], readings[1::2], strict=True):
        files = {each.partition(":")[0] for each in events[start:stop] if ":" in each}
        assert files <= {"timing.py", "scripted.py", "test_evidence.py"}  # the machine, and how long its steps take
    asked = [index for index, each in enumerate(events) if each == "evidence.py:before"]
    assert len(asked) > 1  # again, as the first block did not count
    assert "evidence.py:after" in events[readings[-1] :]
    assert any(each.startswith("nvml.py") for each in events)
    assert any(each.startswith("interference.py") for each in events)
    assert any(each.startswith("pretend.py") for each in events)
