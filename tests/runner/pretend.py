"""Stand-ins for hardware that is not here: an accelerator behind the contract of `Device`, and NVIDIA's library."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace

import torch

from runner.devices.device import DeviceUnavailable


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


class PretendStream:
    """Work in the order in which it was given; it takes its time, and what it does to data is done when it has to be.

    So a program that forgets to wait for what it needs finds the data as they were before, however quick the device.
    """

    def __init__(self, device):
        self.device, self.done_ns = device, 0
        self._given, self._done, self._works = 0, 0, deque()

    def give(self, seconds, work):
        self.done_ns = max(self.device.now_ns, self.done_ns) + round(seconds * 1e9)
        self._given += 1
        self._works.append(work)

    def wait_stream(self, other):
        """Go on once the other one has done what it has been given so far."""
        self.done_ns, given = max(self.done_ns, other.done_ns), other._given
        self.give(0.0, lambda: other.do(given))

    def do(self, count=None):
        while self._done < (self._given if count is None else count):
            self._done += 1
            self._works.popleft()()

    def __enter__(self):
        self._before, self.device.current = self.device.current, self
        return self

    def __exit__(self, *_):
        self.device.current = self._before


class LateAccelerator:
    """An accelerator whose work ends long after the call that gave it, and whose memory has an end.

    Its clock moves when it is given work and when it is waited for, and never else. Its tensors lie on the CPU.

    Args:
        opening_s: Until it has been opened.
        launch_s: What giving it one work takes the host.
        memory_bytes: What can be allocated.
        copies_first: Of works that wait for each other in no way, those of other streams than the first come first;
            else last. Both may happen on a device.
    """

    torch_device = torch.device("cpu")
    is_accelerator = True
    name = "Late GPU"
    uuid = None

    def __init__(self, *, opening_s=0.0, launch_s=1e-5, memory_bytes=2**30, copies_first=False):
        self.now_ns, self.waits, self.memory_bytes = 0, 0, memory_bytes
        self._opening_s, self._launch_s, self._copies_first = opening_s, launch_s, copies_first
        self._most, self._taken, self._peak = memory_bytes, 0, 0
        self.current = PretendStream(self)
        self._streams = [self.current]

    def open(self, kind):
        assert kind == "gpu"
        self.give(self._opening_s)
        return self

    def clock(self):
        return self.now_ns

    def stream(self, *_):
        """Make another stream."""
        self._streams.append(PretendStream(self))
        return self._streams[-1]

    def give(self, seconds, work=lambda: None):
        """Have the device do something, on the stream of the moment, and do not wait."""
        self.now_ns += round(self._launch_s * 1e9)
        self.current.give(seconds, work)

    def wait_for(self, stream):
        stream.do()
        self.now_ns = max(self.now_ns, stream.done_ns)

    def synchronize(self):
        self.waits += 1
        for stream in reversed(self._streams) if self._copies_first else self._streams:
            self.wait_for(stream)

    def allocate(self, size_bytes):
        if self._taken + size_bytes > self._most:
            raise torch.OutOfMemoryError(
                f"out of memory. Tried to allocate {size_bytes} bytes, {self._taken} are taken"
            )
        self._taken += size_bytes
        self._peak = max(self._peak, self._taken)

    def free(self, size_bytes):
        self._taken -= size_bytes

    def reset_peak_memory(self):
        self._peak = self._taken

    def peak_memory_bytes(self):
        return self._peak

    def limit_memory(self, size_bytes):
        if size_bytes > self.memory_bytes:
            raise DeviceUnavailable(f"max_memory: {size_bytes} bytes, and this device has {self.memory_bytes}")
        self._most = size_bytes


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
