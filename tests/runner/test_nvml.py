"""What NVIDIA's library tells. A stand-in speaks for the device; the real package, without one, is asked too."""

import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

from runner.devices import nvml
from runner.devices.nvml import Monitor, State
from tests.runner.pretend import PretendNvml

ATTRIBUTES = {"clock_mhz", "temperature_c", "throttle", "foreign_processes", "energy_mj"}


@pytest.fixture
def library(monkeypatch):
    library = PretendNvml()
    monkeypatch.setitem(sys.modules, "pynvml", library)
    return library


def test_a_device_is_found_by_its_identity_and_says_how_it_is(library):
    monitor = Monitor("GPU-one")
    assert (monitor.driver, monitor.cause) == ("580.1", "")
    assert monitor.read() == State(clock_mhz=1980, temperature_c=61, throttle="", foreign_processes=0, energy_mj=1000)


@pytest.mark.parametrize(
    ("bits", "names"),
    [
        (0x0, ""),
        (0x1, ""),  # idle
        (0x2 | 0x100, ""),  # clocks that somebody has set
        (0x4, "power_cap"),
        (0x8, "hardware_slowdown"),
        (0x20, "software_thermal"),
        (0x40, "hardware_thermal"),
        (0x80, "power_brake"),
        (0x1 | 0x4 | 0x20, "power_cap,software_thermal"),
    ],
)
def test_what_holds_the_clocks_down_has_a_name(library, bits, names):
    library.devices["GPU-one"]["bits"] = bits
    assert Monitor("GPU-one").read().throttle == names


def test_an_older_library_has_another_name_for_these(monkeypatch):
    library = PretendNvml(bits=4)
    ask = library.nvmlDeviceGetCurrentClocksEventReasons
    monkeypatch.delattr(PretendNvml, "nvmlDeviceGetCurrentClocksEventReasons")
    library.nvmlDeviceGetCurrentClocksThrottleReasons = ask
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert Monitor("GPU-one").read().throttle == "power_cap"


def test_processes_of_others_are_counted_and_our_own_are_not(library):
    library.processes = [os.getpid(), os.getppid(), 2**22 + 1, 2**22 + 2]  # no process has such numbers
    assert Monitor("GPU-one").read().foreign_processes == 2


@pytest.mark.parametrize("listed", [[], [2**22 + 1]])
def test_where_the_driver_counts_processes_otherwise_their_number_is_not_known(library, listed):
    library.processes = listed
    found = Monitor("GPU-one").read()
    assert found.foreign_processes is None
    assert "does not list this process" in found.causes["foreign_processes"]
    assert found.clock_mhz == 1980


@pytest.mark.parametrize(
    ("broken", "attribute"),
    [("clock", "clock_mhz"), ("heat", "temperature_c"), ("bits", "throttle"), ("mj", "energy_mj")],
)
def test_what_a_device_cannot_tell_has_its_cause_and_the_rest_is_told(library, broken, attribute):
    library.broken.add(broken)
    found = Monitor("GPU-one").read()
    assert found.causes == {attribute: "NVML: Not Supported"}
    assert {name for name in ATTRIBUTES if getattr(found, name) is None} == {attribute}


def test_a_part_of_a_device_is_found_by_a_name_of_its_own(library):
    library.devices["MIG-part"] = library.devices["GPU-one"]
    assert Monitor("GPU-part").cause == ""


@pytest.mark.parametrize(
    ("uuid", "broken", "cause"),
    [
        ("GPU-gone", None, "NVML: Not Found"),
        ("GPU-one", "nvmlInit", "NVML: Driver Not Loaded"),
        (None, None, "NVML: torch does not tell which device this is"),
    ],
)
def test_a_device_that_is_not_found_tells_nothing_and_why(library, uuid, broken, cause):
    library.broken.add(broken)
    monitor = Monitor(uuid)
    assert monitor.cause == cause
    assert monitor.read() == State(causes=dict.fromkeys(ATTRIBUTES, cause))


def test_without_the_package_nothing_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)  # how Python marks what cannot be imported
    assert Monitor("GPU-one").cause == "the package nvidia-ml-py is not installed"


def test_a_package_that_breaks_as_it_is_imported_fails_nothing(monkeypatch, tmp_path):
    (tmp_path / "pynvml.py").write_text("raise OSError('a library is missing')")
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert Monitor("GPU-one").cause == "NVML: a library is missing"


has_package = pytest.mark.skipif(not importlib.util.find_spec("pynvml"), reason="nvidia-ml-py is not installed")


@has_package
def test_the_real_package_has_every_name_that_is_used():
    import pynvml

    used = set(re.findall(r"self\._nvml\.(\w+)", Path(nvml.__file__).read_text()))
    assert len(used) > 8
    assert {name for name in used if not hasattr(pynvml, name)} == set()
    assert hasattr(pynvml, "nvmlDeviceGetCurrentClocksEventReasons")
    assert [bit for bit, name in nvml.SLOWED.items() if name == "power_brake"] == [
        pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown
    ]


@has_package
@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a driver")
def test_the_real_package_without_a_driver_says_so():
    monitor = Monitor("GPU-00000000-0000-0000-0000-000000000000")
    assert monitor.cause.startswith("NVML: ")
    assert monitor.read().clock_mhz is None
