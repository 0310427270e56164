"""What can be compared besides time: the money and the energy of a step, as rows that `analysis.crossovers` takes.

A row keeps its shape, and its `step_times_s` hold money or joules instead of seconds. "From what size does the
challenger cost less?" is then the same question with the same method, and `Measure` holds the words for its answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.outcomes import NO_ENERGY, NO_PRICE, RESOLUTION_S, TICKS

S_PER_HOUR = 3600.0
#: What counted the energy of a trial, by the device that it used.
COUNTERS = {
    "cpu": "the CPU's packages (RAPL), with all else that ran on them and without memory",
    "cuda": "the GPU's board (NVML), without the CPU that feeds it",
}


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What is compared, and how a sentence says that one target has less of it.

    Attributes:
        better: After what a target does: "trains this model *faster*".
        by: The same with a share in place of {}: "trains this model *10 % faster*".
        never: That the challenger is not, with a share in place of {}: "gpu *is never 10 % faster* than cpu".
        alike: Of two that are equal: "train this model *equally fast*".
        does: What goes before `better` where it is not said what is trained: "gpu *is* faster".
        does_not: The same of somebody who is not.
        of_training: Whether it is said what is trained, where that is known; else what is done is what stands here.
    """

    better: str
    by: str
    never: str
    alike: str
    does: str = "is"
    does_not: str = "is not"
    of_training: bool = True


TIME = Measure(better="faster", by="{} faster", never="is never {} faster", alike="equally fast")
MONEY = Measure(better="cheaper", by="{} cheaper", never="is never {} cheaper", alike="at the same cost")
ENERGY = Measure(
    better="with less energy",
    by="with {} less energy",
    never="never takes {} less energy",
    alike="with the same energy",
    does="works",
    does_not="does not work",
)


def priced(frame: pd.DataFrame, prices: Mapping[str, float | None]) -> pd.DataFrame:
    """Return rows whose `step_times_s` hold what a step costs.

    A limit in seconds is one in money too, so a target that ran into its limit is known to be dearer than one that
    finished for less.

    Args:
        frame: One row a trial, as `analysis.crossovers` takes it.
        prices: Money per hour by target, in one currency; None where it is unknown.

    Returns:
        The rows: `step_times_s` in money per step, `deadline_s` and the whole trial in proportion to what they cost.
        Those of a target without a price have the status `NO_PRICE`.
    """
    known = {name: price for name, price in prices.items() if price is not None}
    per_hour = frame["target"].astype(object).map(known).astype("float64").to_numpy()
    per_s = per_hour / S_PER_HOUR
    share = per_hour / max(known.values(), default=1.0)
    unknown = np.isnan(per_hour)
    resolution = np.full(len(frame), TICKS * RESOLUTION_S)
    if "resolution_s" in frame:
        own = pd.to_numeric(frame["resolution_s"]).to_numpy(dtype=np.float64, na_value=np.nan)
        resolution = np.where(np.isnan(own), resolution, own)
    changed: dict[str, Any] = {
        "step_times_s": _lists(
            [
                None if math.isnan(factor) or times is None or np.ndim(times) == 0 else np.asarray(times) * factor
                for times, factor in zip(frame["step_times_s"], per_s, strict=True)
            ],
            frame,
        ),
        "resolution_s": np.where(unknown, np.nan, resolution * per_s),
        "status": frame["status"].astype(object).where(~unknown, NO_PRICE),
    }
    if "deadline_s" in frame:
        changed["deadline_s"] = frame["deadline_s"].astype("float64") * share
    if {"started_at", "finished_at"} <= set(frame):
        started, finished = pd.to_datetime(frame["started_at"]), pd.to_datetime(frame["finished_at"])
        seconds = (finished - started).dt.total_seconds() * share
        changed["finished_at"] = started + pd.to_timedelta(seconds, unit="s")
    return frame.assign(**changed)


def in_energy(frame: pd.DataFrame) -> pd.DataFrame:
    """Return rows whose `step_times_s` hold one value: the joules of a step.

    Args:
        frame: One row a trial: `energy_j` of its timed part, `step_times_s` (one value a block) and `steps_per_block`.

    Returns:
        The rows. Those that did not measure their energy have the status `NO_ENERGY`, and so have those that ran into
        their limit: how long a trial takes says nothing about its energy.
    """
    blocks = np.array([0 if times is None or np.ndim(times) == 0 else len(times) for times in frame["step_times_s"]])
    steps = blocks * _numbers(frame, "steps_per_block")
    with np.errstate(divide="ignore", invalid="ignore"):
        per_step = _numbers(frame, "energy_j") / steps
    known = np.isfinite(per_step) & (frame["status"] == "ok").to_numpy()
    unknown = ~known & frame["status"].isin(["ok", "timeout"]).to_numpy()
    joules = [[value] if there else None for value, there in zip(per_step.tolist(), known, strict=True)]
    return frame.assign(
        step_times_s=_lists(joules, frame),
        status=frame["status"].astype(object).where(~unknown, NO_ENERGY),
        resolution_s=0.0,
    )


def has_energy(frame: pd.DataFrame, *, baseline: str, challenger: str) -> bool:
    """Return whether both targets have a trial that measured its energy: else there is nothing to compare."""
    known = frame[(frame["status"] == "ok") & (_numbers(frame, "energy_j") > 0)]
    return {baseline, challenger} <= set(known["target"])


def energy_words(frame: pd.DataFrame, *, baseline: str, challenger: str) -> str:
    """Say what counted the energy of each target, and that two such counters are not the same thing where they differ.

    Args:
        frame: One row a trial, with `energy_j`, and `device` where it is known.
        baseline: One target.
        challenger: The other.

    Returns:
        One sentence or two; empty where a target has no energy, or no row tells its device.
    """
    if not has_energy(frame, baseline=baseline, challenger=challenger):
        return ""
    known = frame[(frame["status"] == "ok") & (_numbers(frame, "energy_j") > 0)]
    device = known["device"] if "device" in known else pd.Series(None, index=known.index, dtype=object)
    sides = (baseline, challenger)
    devices = {name: sorted(set(device[known["target"] == name].dropna().astype(str))) for name in sides}
    if not all(devices.values()):
        return ""
    told = {name: " or ".join(COUNTERS.get(one, one) for one in own) for name, own in devices.items()}
    if told[baseline] == told[challenger]:
        return f"Energy is that of {told[baseline]}, for both."
    return (
        f"Energy is for {baseline} that of {told[baseline]}; for {challenger} that of {told[challenger]}. "
        "These are different parts of a machine, so this is no comparison of whole machines."
    )


def _numbers(frame: pd.DataFrame, column: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    if column not in frame:
        return np.full(len(frame), np.nan)
    return pd.to_numeric(frame[column], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _lists(values: list[Any], frame: pd.DataFrame) -> pd.Series[Any]:
    return pd.Series(values, index=frame.index, dtype=object)
