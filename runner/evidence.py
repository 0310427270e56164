"""What is gathered around the timed part of a trial, to show that its times mean what they say.

All of it is read before the first timed block and after the last. Between the two readings of the clock that make a
block nothing is asked of anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.devices import host_memory, rapl
from runner.devices.device import Device
from runner.devices.nvml import Monitor, State
from runner.interference import Counters, judge, read_counters

#: Counters of energy move every 20-100 ms, and some devices look at their power a quarter of the time only.
LEAST_FOR_ENERGY_S = 2.0
ON_CPU = "the trial ran on the CPU"
#: What is known of an accelerator before and after, by attribute of its state.
TWICE = {
    "clock_mhz": "gpu_clock_{}_mhz",
    "temperature_c": "gpu_temperature_{}_c",
    "throttle": "gpu_throttle_{}",
}


@dataclass(frozen=True, kw_only=True)
class Found:
    """Columns of a record, and why some of them are None."""

    columns: Mapping[str, Any]
    reasons: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class _Reading:
    counters: Counters
    accelerator: State
    packages: rapl.Counted


class Evidence:
    """Gathers the evidence of one trial."""

    def __init__(self, device: Device) -> None:
        """Get ready: call it before the model is built."""
        self._device = device
        self._monitor = Monitor(device.uuid) if device.is_accelerator else None
        device.reset_peak_memory()

    def before(self) -> None:
        """Read everything, the counters of the kernel last. Called again, it takes the place of the time before."""
        accelerator, packages = self._state(), rapl.read()
        self._before = _Reading(counters=read_counters(), accelerator=accelerator, packages=packages)

    def after(self) -> None:
        """Read everything, the counters of the kernel first."""
        counters, packages = read_counters(), rapl.read()
        self._after = _Reading(counters=counters, accelerator=self._state(), packages=packages)

    def found(self, *, timed_s: float, threads: int, cores: int, wait_policy: str) -> Found:
        """Compare what was read before and after.

        Args:
            timed_s: Seconds of all timed blocks.
            threads: CPU threads of the trial.
            cores: Cores that it could have used.
            wait_policy: Of its threads.
        """
        columns: dict[str, Any] = {}
        reasons: dict[str, str] = {}
        for part in (
            self._interference(threads, cores, wait_policy),
            self._accelerator(),
            self._memory(),
            self._energy(timed_s),
        ):
            columns |= part.columns
            reasons |= part.reasons
        return Found(columns=columns, reasons=reasons)

    def _state(self) -> State:
        return self._monitor.read() if self._monitor else State()

    def _interference(self, threads: int, cores: int, wait_policy: str) -> Found:
        seen = judge(
            self._before.counters,
            self._after.counters,
            threads=1 if self._device.is_accelerator else threads,  # one thread at a time feeds it
            cores=cores,
            wait_policy=wait_policy,
        )
        columns = {name: getattr(seen, name) for name in ("run_delay_share", "throttled_s", "steal_share")}
        reasons = {name: "the kernel does not tell" for name, value in columns.items() if value is None}
        return Found(columns={"interference": seen.verdict, **columns}, reasons=reasons)

    def _accelerator(self) -> Found:
        columns: dict[str, Any] = {"gpu_uuid": self._device.uuid}
        reasons = {"gpu_uuid": "torch does not tell"}
        columns["driver"] = self._monitor.driver if self._monitor else None
        reasons["driver"] = self._monitor.cause if self._monitor else ""
        for when, state in (("before", self._before.accelerator), ("after", self._after.accelerator)):
            for attribute, column in TWICE.items():
                columns[column.format(when)] = getattr(state, attribute)
                reasons[column.format(when)] = state.causes.get(attribute, "")
        states = self._before.accelerator, self._after.accelerator
        counts = [state.foreign_processes for state in states if state.foreign_processes is not None]
        columns["foreign_gpu_processes"] = max(counts, default=None)
        reasons["foreign_gpu_processes"] = states[0].causes.get("foreign_processes", "")
        if not self._monitor:
            reasons = dict.fromkeys(columns, ON_CPU)
        return _found(columns, reasons)

    def _memory(self) -> Found:
        peak = host_memory.peak_bytes()
        columns = {"peak_memory_bytes": peak} if peak is not None else {}  # else the nursery's figure stands
        device_peak = self._device.peak_memory_bytes()
        why = "its allocator does not tell" if self._device.is_accelerator else ON_CPU
        return _found({**columns, "device_peak_memory_bytes": device_peak}, {"device_peak_memory_bytes": why})

    def _energy(self, timed_s: float) -> Found:
        spent, why = self._spent_on_accelerator() if self._monitor else self._spent_on_packages()
        if spent is not None and timed_s < LEAST_FOR_ENERGY_S:
            spent, why = None, f"the timed part took less than {LEAST_FOR_ENERGY_S:g} s: too short for such counters"
        return _found({"energy_j": spent}, {"energy_j": why})

    def _spent_on_accelerator(self) -> tuple[float | None, str]:
        before, after = self._before.accelerator, self._after.accelerator
        if before.energy_mj is None or after.energy_mj is None:
            return None, {**after.causes, **before.causes}["energy_mj"]
        return (after.energy_mj - before.energy_mj) / 1e3, ""

    def _spent_on_packages(self) -> tuple[float | None, str]:
        spent = rapl.spent_j(self._before.packages, self._after.packages)
        return spent, "this machine shows no counter of its CPU's energy (RAPL)"


def _found(columns: Mapping[str, Any], reasons: Mapping[str, str]) -> Found:
    """Keep the reasons of those columns that are None."""
    return Found(columns=columns, reasons={name: why for name, why in reasons.items() if columns[name] is None})
