"""Whether gathering evidence changes the step that is measured.

    python benchmarks/instrumentation.py

In every round the same step of about 300 us on one thread is timed twice as in a trial, in alternating order: once with
all that a trial reads before and after its timed part, once without. `ratio` is the time with evidence over the time
without: the median of the rounds, with its 95 % interval from the ranks, so that a disturbed round weighs no more than
another.
`others_share` is how much of all cores other programs used meanwhile. Above `quiet_share` the machine was too busy for
a narrow interval to be expected; it is not called ok for that.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from scipy.special import bdtrik

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.figures import QUIET_SHARE, Others, Ratio, conclude, in_fresh_process, prepared, trial_of
from runner.devices.device import Cpu
from runner.evidence import Evidence
from runner.timing import CPU, Protocol, measure

ROUNDS = 100
#: The timed part of a trial at its shortest, of a workload that is warm.
TIMED_PART = Protocol(warmup_cap_s=1e-9, most=CPU.least)
TARGETS = {"ratio": 1.0, "half_width": 0.02, "quiet_share": QUIET_SHARE}


@dataclass(frozen=True, kw_only=True)
class Found:
    """Logarithms of time with evidence over time without, the typical step without, and what it all cost."""

    logs: list[float]
    step_s: float
    cpu_time_s: float


def rounds() -> Found:
    """Time a step with evidence and without in turn."""
    workload, _ = prepared(trial_of("linear", {"batch_size": 32, "loader": "slice"}))
    device = Cpu()
    evidence = Evidence(device)
    measure(workload.step, device.synchronize)  # and now it is warm
    logs, without = [], []
    for number in range(ROUNDS):
        seconds = {}
        for is_on in (True, False) if number % 2 else (False, True):
            before, after = (evidence.before, evidence.after) if is_on else (_nothing, _nothing)
            timing = measure(workload.step, device.synchronize, protocol=TIMED_PART, when_warm=before)
            after()
            seconds[is_on] = statistics.median(timing.step_times_s)
        logs.append(math.log(seconds[True] / seconds[False]))
        without.append(seconds[False])
    return Found(logs=logs, step_s=statistics.median(without), cpu_time_s=time.process_time())


def median_of(logs: list[float]) -> Ratio:
    """Return the median ratio and the interval of it that holds the truth with at least 95 %, whatever the noise."""
    ordered = sorted(logs)
    below = int(bdtrik(0.025, len(ordered), 0.5))  # so many lie below the interval, and as many above it
    low, high = ordered[below], ordered[-1 - below]
    return Ratio(middle=math.exp(statistics.median(ordered)), low=math.exp(low), high=math.exp(high))


def main() -> None:
    """Measure and print."""
    others = Others()
    found = in_fresh_process(rounds)
    ratio = median_of(found.logs)
    figures = {
        "ratio": ratio.middle,
        "ratio_low": ratio.low,
        "ratio_high": ratio.high,
        "half_width": (ratio.high - ratio.low) / 2,
        "rounds": ROUNDS,
        "step_s": found.step_s,
        "others_share": others.share(found.cpu_time_s),
    }
    ok = ratio.low <= TARGETS["ratio"] <= ratio.high and figures["half_width"] < TARGETS["half_width"]
    conclude("instrumentation", ok=ok, figures=figures, targets=TARGETS)


def _nothing() -> None:
    """Gather no evidence."""


if __name__ == "__main__":
    main()
