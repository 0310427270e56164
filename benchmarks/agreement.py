"""Whether our clock and torch.utils.benchmark.Timer say the same of the same step.

    python benchmarks/agreement.py

Families at two sizes, each in a fresh process: in every round one block as a trial times it and one of Timer, in
alternating order, with the same threads and the same object. Before any time is looked at, the kernel's counters say
which rounds were contended; a cell with too few others is not compared by medians. `median_ratio` is our median over
Timer's where nothing interfered, `contended_median_ratio` the same where something did, `quartile_ratio` that of the
lower quartiles of all rounds. `late_device_factor` is how many times too short a step seems that is not waited for: the
device of that check finishes its work after the call has returned, and the truth is known.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch.utils.benchmark import Timer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.figures import conclude, in_fresh_process, prepared, trial_of
from runner.devices.device import Cpu
from runner.environment import usable_cores
from runner.interference import judge, read_counters
from runner.timing import CPU, Protocol, measure
from sweeps.trial import Trial

#: So many rounds a cell; where something interfered with more than half of them, up to the second number, until half of
#: the first are undisturbed. How the times compare plays no part in that.
ROUNDS, MOST_ROUNDS = 80, 240
#: With fewer rounds that nothing interfered with, their median says little.
LEAST_ROUNDS = 20
#: One block of a warm workload, of the length and by the code of a trial.
ONE_BLOCK = Protocol(warmup_cap_s=1e-9, least=1, most=1)

#: A step of the late device: the call returns after the first, the work is done after the second.
CALL_S, WORK_S = 50e-6, 300e-6
#: Blocks so short that other programs leave some alone, and enough of them.
SHORT_BLOCKS = Protocol(block_s=0.004, block_least_s=0.002, precision=0.0)

TARGETS = {
    "median_deviation": 0.05,
    "quartile_deviation": 0.10,
    "contended_share": 0.5,
    "late_device_factor": round(WORK_S / CALL_S, 6),
    "late_device_deviation": 0.1,
}


def cells() -> dict[str, Trial]:
    """Return what is timed, by the name of its figures."""
    linear = {"loader": "slice"}  # a DataLoader begins a new epoch now and then, in a block of one or of the other
    cnn = {"channels": 8, "image": 16}
    transformer = {"width": 64, "sequence": 32}
    lstm = {"hidden": 64, "sequence": 16}
    asked: dict[str, list[dict[str, int | str]]] = {
        "linear": [{"batch_size": size, **linear} for size in (32, 512)],
        "mlp": [{"batch_size": size} for size in (4, 256)],
        "cnn": [{"batch_size": size, **cnn} for size in (4, 16)],
        "transformer": [{"batch_size": size, **transformer} for size in (2, 8)],
        "lstm_fused": [{"batch_size": size, **lstm} for size in (4, 32)],
    }
    found = {
        f"{family}_{parameters['batch_size']}": trial_of(family, parameters)
        for family, sizes in asked.items()
        for parameters in sizes
    }
    return found | {"mlp_256_all_cores": trial_of("mlp", {"batch_size": 256}, target="cpu")}


@dataclass(frozen=True, kw_only=True)
class Round:
    """Seconds a step by both clocks, and whether something interfered with either."""

    ours_s: float
    timers_s: float
    contended: bool


def rounds_of(trial: Trial) -> list[Round]:
    """Time the step of a trial by both clocks in turn."""
    workload, threads = prepared(trial)
    synchronize = Cpu().synchronize
    steps = measure(workload.step, synchronize, protocol=CPU).steps_per_block  # and now it is warm
    timer = Timer("step()", globals={"step": workload.step}, num_threads=threads)
    clocks: list[Callable[[], float]] = [
        lambda: measure(workload.step, synchronize, protocol=ONE_BLOCK).step_times_s[0],
        lambda: timer.timeit(steps).median,
    ]
    found: list[Round] = []
    while not _is_enough(found):
        before = read_counters()
        order = (0, 1) if len(found) % 2 else (1, 0)
        seconds = {which: clocks[which]() for which in order}
        seen = judge(before, read_counters(), threads=threads, cores=usable_cores())
        found.append(Round(ours_s=seconds[0], timers_s=seconds[1], contended=seen.verdict == "contended"))
    return found


class LateDevice:
    """A stand-in for an accelerator: a step's call returns while its work is still to be done."""

    def __init__(self) -> None:
        self._done_at = time.perf_counter()

    def step(self) -> None:
        """Keep the host busy for `CALL_S`, and the device for `WORK_S` after what it already has to do."""
        began = time.perf_counter()
        self._done_at = max(self._done_at, began) + WORK_S
        while time.perf_counter() < began + CALL_S:
            pass

    def synchronize(self) -> None:
        """Wait until the work is done."""
        time.sleep(max(0.0, self._done_at - time.perf_counter()))


def late_device_factor() -> float:
    """Return how many times too short a step seems that is not waited for."""
    device = LateDevice()
    waited = measure(device.step, device.synchronize, protocol=SHORT_BLOCKS).step_times_s
    unwaited = measure(device.step, Cpu().synchronize, protocol=SHORT_BLOCKS).step_times_s
    return min(waited) / min(unwaited)  # both are prescribed: what takes longer has been disturbed


def figures_of(rounds: Sequence[Round]) -> dict[str, float]:
    """Return the ratios of ours to Timer's, of each kind of rounds that there are enough of."""
    clean, contended = ([r for r in rounds if r.contended is kind] for kind in (False, True))
    found = {"contended_share": len(contended) / len(rounds), "quartile_ratio": _ratio(rounds, _lower_quartile)}
    if len(clean) >= LEAST_ROUNDS:
        found["median_ratio"] = _ratio(clean, statistics.median)
    if len(contended) >= LEAST_ROUNDS:
        found["contended_median_ratio"] = _ratio(contended, statistics.median)
    return found


def main() -> None:
    """Measure and print."""
    factor = in_fresh_process(late_device_factor)
    found: dict[str, dict[str, float]] = {}
    every: list[Round] = []
    for name, trial in cells().items():
        rounds = in_fresh_process(rounds_of, trial)
        every += rounds
        found[name] = figures_of(rounds)
        print(f"{name:18}", *(f"{key} {value:.3f}" for key, value in found[name].items()), flush=True)
    contended = statistics.mean(each.contended for each in every)
    medians = [each["median_ratio"] for each in found.values() if "median_ratio" in each]
    quartiles = [each["quartile_ratio"] for each in found.values()]
    ok = (
        contended <= TARGETS["contended_share"]
        and _are_near(medians, TARGETS["median_deviation"])
        and _are_near(quartiles, TARGETS["quartile_deviation"])
        and _are_near([factor / TARGETS["late_device_factor"]], TARGETS["late_device_deviation"])
    )
    figures = {
        "contended_share": contended,
        "rounds": len(every),
        "cells": len(found),
        "cells_compared": len(medians),
        "late_device_factor": factor,
    }
    of_cells = {f"{name}_{key}": value for name, each in found.items() for key, value in each.items()}
    conclude("agreement", ok=ok, figures=figures | of_cells, targets=TARGETS)


def _is_enough(rounds: Sequence[Round]) -> bool:
    clean = sum(not each.contended for each in rounds)
    return len(rounds) >= (ROUNDS if clean >= ROUNDS / 2 else MOST_ROUNDS)


def _ratio(rounds: Sequence[Round], estimate: Callable[[list[float]], float]) -> float:
    return estimate([r.ours_s for r in rounds]) / estimate([r.timers_s for r in rounds])


def _lower_quartile(values: list[float]) -> float:
    return statistics.quantiles(values, n=4, method="inclusive")[0]


def _are_near(ratios: list[float], deviation: float) -> bool:
    return all(abs(ratio - 1) <= deviation for ratio in ratios)


if __name__ == "__main__":
    main()
