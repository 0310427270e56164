"""What NVIDIA's management library (NVML) tells of a device: its clock, its heat, its energy, who else computes on it.

The Python package `nvidia-ml-py` is optional. It is only spoken to in a trial's own process, never in the nursery, and
never while steps are timed. Whatever it does not tell is None with a cause; nothing here is raised.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: Why clocks are held down, by the bit of NVML's "clocks event reasons". An idle device (1) and clocks that somebody
#: has set (2, 256) are no fault.
SLOWED = {
    0x4: "power_cap",
    0x8: "hardware_slowdown",
    0x10: "sync_boost",
    0x20: "software_thermal",
    0x40: "hardware_thermal",
    0x80: "power_brake",
    0x200: "board_limit",
    0x400: "reliability",
}


@dataclass(frozen=True, kw_only=True)
class State:
    """A device at one moment; None where that is not told.

    Attributes:
        clock_mhz: Of its processors.
        temperature_c: Degrees Celsius.
        throttle: What holds its clocks down, names joined by commas; empty if nothing does.
        foreign_processes: Processes that compute on it and are none of ours.
        energy_mj: Millijoules since the driver was loaded.
        causes: Why an attribute is None, by its name.
    """

    clock_mhz: int | None = None
    temperature_c: int | None = None
    throttle: str | None = None
    foreign_processes: int | None = None
    energy_mj: int | None = None
    causes: Mapping[str, str] = field(default_factory=dict)


class Monitor:
    """Looks at one device.

    Attributes:
        driver: Version of the driver; None if it is not told.
        cause: Why nothing can be told; empty if something can.
    """

    def __init__(self, uuid: str | None) -> None:
        """Find the device.

        Args:
            uuid: Its identity, which is the same for CUDA and NVML. The order of devices is not: CUDA counts only those
                that it may see, and may put the fastest first.
        """
        self.driver: str | None = None
        self.cause = ""
        try:
            self._nvml: Any = importlib.import_module("pynvml")
            self._nvml.nvmlInit()
            self.driver = _text(self._nvml.nvmlSystemGetDriverVersion())
            self._handle = self._find(uuid)
        except ModuleNotFoundError:
            self.cause = "the package nvidia-ml-py is not installed"
        except Exception as error:  # noqa: BLE001  (a counter that cannot be read fails no trial)
            self.cause = f"NVML: {error}"

    def read(self) -> State:
        """Look at the device now. Takes up to some milliseconds; call it outside a block."""
        questions: dict[str, Callable[[], int | str]] = {
            "clock_mhz": self._clock_mhz,
            "temperature_c": self._temperature_c,
            "throttle": self._throttle,
            "foreign_processes": self._foreign_processes,
            "energy_mj": self._energy_mj,
        }
        if self.cause:
            return State(causes=dict.fromkeys(questions, self.cause))
        told: dict[str, Any] = {}
        causes = {}
        for name, ask in questions.items():
            try:
                told[name] = ask()
            except Exception as error:  # noqa: BLE001  (as above)
                causes[name] = f"NVML: {error}"
        return State(**told, causes=causes)

    def _find(self, uuid: str | None) -> Any:
        if uuid is None:
            raise LookupError("torch does not tell which device this is")
        try:
            return self._nvml.nvmlDeviceGetHandleByUUID(uuid)
        except self._nvml.NVMLError:  # a part of a device (MIG) has a name of another kind
            return self._nvml.nvmlDeviceGetHandleByUUID(uuid.replace("GPU-", "MIG-", 1))

    def _clock_mhz(self) -> int:
        return int(self._nvml.nvmlDeviceGetClockInfo(self._handle, self._nvml.NVML_CLOCK_SM))

    def _temperature_c(self) -> int:
        return int(self._nvml.nvmlDeviceGetTemperature(self._handle, self._nvml.NVML_TEMPERATURE_GPU))

    def _throttle(self) -> str:
        names = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"  # new, old
        ask = next(getattr(self._nvml, name) for name in names if hasattr(self._nvml, name))
        bits = ask(self._handle)
        return ",".join(name for bit, name in SLOWED.items() if bits & bit)

    def _foreign_processes(self) -> int:
        running = {each.pid for each in self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)}
        if os.getpid() not in running:
            raise LookupError("the driver does not list this process: in a container it knows others by other numbers")
        try:
            import psutil
        except ModuleNotFoundError:
            raise LookupError("the package psutil is not installed, so ours cannot be told from others") from None
        ours = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
        return len(running - ours)

    def _energy_mj(self) -> int:
        return int(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle))


def _text(said: str | bytes) -> str:
    return said.decode() if isinstance(said, bytes) else said
