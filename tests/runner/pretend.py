"""Stand-ins for hardware that is not here: an accelerator behind the contract of `Device`, and NVIDIA's library."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from types import SimpleNamespace

import torch


@dataclass(frozen=True, kw_only=True)
class PretendAccelerator:
    """Its tensors lie on the CPU, and its waits are counted."""

    waits: list = field(default_factory=list)
    resets: list = field(default_factory=list)
    torch_device: torch.device = torch.device("cpu")
    is_accelerator: bool = True
    name: str = "Pretend GPU"
    memory_bytes: int = 8 * 2**30
    uuid: str | None = "GPU-one"
    peak: int | None = 5_000_000

    def synchronize(self):
        self.waits.append(None)

    def reset_peak_memory(self):
        self.resets.append(None)

    def peak_memory_bytes(self):
        return self.peak


class PretendNvml:
    """The module `pynvml`, as far as it is used: two devices, and what a test says of them."""

    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0

    class NVMLError(Exception):
        pass

    def __init__(self, **told):
        self.devices = {"GPU-zero": {}, "GPU-one": {"clock": 1980, "heat": 61, "bits": 0, "mj": 1000}}
        self.processes = [os.getpid()]
        self.broken = set()
        self.devices["GPU-one"] |= told

    def _tell(self, name, handle, what):
        if name in self.broken:
            raise self.NVMLError("Not Supported")
        return self.devices[handle][what]

    def nvmlInit(self):  # noqa: N802
        if "nvmlInit" in self.broken:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlSystemGetDriverVersion(self):  # noqa: N802
        return b"580.1"

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        if uuid not in self.devices:
            raise self.NVMLError("Not Found")
        return uuid

    def nvmlDeviceGetClockInfo(self, handle, kind):  # noqa: N802
        assert kind == self.NVML_CLOCK_SM
        return self._tell("clock", handle, "clock")

    def nvmlDeviceGetTemperature(self, handle, kind):  # noqa: N802
        assert kind == self.NVML_TEMPERATURE_GPU
        return self._tell("heat", handle, "heat")

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):  # noqa: N802
        return self._tell("bits", handle, "bits")

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):  # noqa: N802
        return self._tell("mj", handle, "mj")

    def nvmlDeviceGetComputeRunningProcesses(self, handle):  # noqa: N802
        assert handle == "GPU-one"
        return [SimpleNamespace(pid=pid) for pid in self.processes]
