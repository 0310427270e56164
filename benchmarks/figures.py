"""What the benchmarks share: the trial they look at, a process of its own for it, a ratio's interval, the last line."""

from __future__ import annotations

import gc
import json
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import psutil
import torch
from scipy.special import stdtrit

from runner import nursery
from runner.devices.threads import set_threads
from runner.environment import usable_cores
from runner.workloads import Workload, load
from sweeps.definition import Sweep
from sweeps.trial import Trial

Answer = TypeVar("Answer")

#: A machine of which others use no more than this share of all cores counts as quiet.
QUIET_SHARE = 0.02


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """A ratio with its 95 % interval."""

    middle: float
    low: float
    high: float


class Others:
    """How much of all cores other programs have used since this was made."""

    def __init__(self) -> None:
        self._began, self._before = time.monotonic(), _used_s()

    def share(self, own_s: float) -> float:
        """Return the share, from 0 to 1.

        Args:
            own_s: Seconds of CPU time that the benchmark itself has used meanwhile.
        """
        wall_s = (time.monotonic() - self._began) * (psutil.cpu_count() or 1)
        return max(0.0, _used_s() - self._before - own_s) / wall_s


def ratio_of(logs: Sequence[float]) -> Ratio:
    """Return the mean ratio and its interval, by t.

    Args:
        logs: Logarithms of ratios of neighbours in time, at least two.
    """
    middle = statistics.mean(logs)
    half = float(stdtrit(len(logs) - 1, 0.975)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Ratio(middle=math.exp(middle), low=math.exp(middle - half), high=math.exp(middle + half))


def trial_of(workload: str, parameters: Mapping[str, int | float | str], *, target: str = "cpu-1") -> Trial:
    """Return a trial of a family, every parameter that is not given at its default.

    Args:
        workload: The family.
        parameters: At least one; the first is a number.
        target: `cpu-1` or `cpu`.
    """
    axis, *fixed = parameters
    asked = {
        "name": "benchmark",
        "workload": workload,
        "parameters": {name: parameters[name] for name in fixed},
        "axes": {axis: [parameters[axis]]},
        "targets": ["cpu-1", "cpu"],
    }
    return next(trial for trial in Sweep.model_validate(asked).pairs()[0] if trial.target.name == target)


def prepared(trial: Trial) -> tuple[Workload, int]:
    """Set this process up as that of a CPU trial; return the workload, ready for its steps, and the threads."""
    threads = usable_cores() if trial.target.threads == "all" else trial.target.threads
    if (found := set_threads(threads)) != threads:
        raise RuntimeError(f"{threads} threads were asked for, and torch has {found}")
    workload = load(trial.workload, None, seed=trial.seed, parameters=trial.parameters)
    workload.prepare(torch.device("cpu"), trial.target.name)
    return workload, threads


def in_fresh_process(work: Callable[..., Answer], *arguments: object) -> Answer:
    """Call a function in a process like that of a trial: a fork of this one, which must never compute itself.

    Returns:
        What the function returns, which has to be something that can be pickled.
    """
    if not gc.get_freeze_count():
        nursery.prepare()
    answers, answer = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=lambda: answer.send(work(*arguments)))
    child.start()
    answer.close()
    try:
        found: Answer = answers.recv()
    finally:
        child.join()
    return found


def conclude(name: str, *, ok: bool, figures: Mapping[str, float], targets: Mapping[str, float]) -> None:
    """Print the last line of a benchmark."""
    rounded = {key: round(value, 4) for key, value in figures.items()}
    print(json.dumps({"name": name, "ok": ok, "figures": rounded, "targets": dict(targets)}))


def _used_s() -> float:
    """Seconds that all programs together have used of all cores since the machine started."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)
