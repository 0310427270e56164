"""What a fresh process a trial costs, and whether forking it changes what is measured.

    python benchmarks/fresh_process.py

Runs the same one-thread trial in forked children of one nursery and in plain new interpreters, one of each in turn, and
prints one line of JSON. `process_start_s` is the median from asking for a forked process to its first line, without
the first. `ratio` is forked over plain step time with its 95 % interval (t, on the log ratios of neighbours);
`others_share` is how much of all cores other programs used meanwhile: under 0.02 counts as a quiet machine.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from pathlib import Path

import psutil
from scipy.special import stdtrit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from runner.process import Nursery, answer_of, request_of
from sweeps.definition import Sweep

PAIRS = 12
QUIET_SHARE = 0.02
TARGETS = {"process_start_s": 0.04, "ratio_deviation_when_quiet": 0.05}


def main() -> None:
    """Measure and print."""
    sweep = Sweep.model_validate(
        {"name": "fresh_process", "workload": "mlp", "axes": {"batch_size": [4]}, "targets": ["cpu-1", "cpu"]}
    )
    trial = next(trial for trial in sweep.pairs()[0] if trial.target.name == "cpu-1")
    request = request_of(trial, None)
    forking, spawning = Nursery("fork"), Nursery("spawn")
    starts: list[float] = []
    ratios: list[float] = []
    try:
        answer_of(forking, request)  # the first waits for the import of torch
        began, used_before, own_s = time.monotonic(), _used_s(), 0.0
        for number in range(PAIRS):
            order = [forking, spawning] if number % 2 else [spawning, forking]
            found = {nursery.start_method: answer_of(nursery, request) for nursery in order}
            if failed := [f for f in found.values() if f["status"] != "ok"]:
                sys.exit(f"a trial failed: {failed[0]['error_message']}")
            starts.append(found["fork"]["process_start_s"])
            ratios.append(math.log(_typical_s(found["fork"]) / _typical_s(found["spawn"])))
            own_s += sum(f["cpu_time_s"] for f in found.values())
        wall_s = (time.monotonic() - began) * (psutil.cpu_count() or 1)
        others = max(0.0, _used_s() - used_before - own_s) / wall_s
    finally:
        forking.close()
        spawning.close()
    middle = statistics.mean(ratios)
    half = float(stdtrit(PAIRS - 1, 0.975)) * statistics.stdev(ratios) / math.sqrt(PAIRS)
    figures = {
        "process_start_s": round(statistics.median(starts), 4),
        "ratio": round(math.exp(middle), 4),
        "ratio_low": round(math.exp(middle - half), 4),
        "ratio_high": round(math.exp(middle + half), 4),
        "pairs": PAIRS,
        "others_share": round(others, 4),
    }
    starts_in_time = figures["process_start_s"] <= TARGETS["process_start_s"]
    same = abs(figures["ratio"] - 1) <= TARGETS["ratio_deviation_when_quiet"]
    ok = starts_in_time and (same or others > QUIET_SHARE)
    print(json.dumps({"name": "fresh_process", "ok": ok, "figures": figures, "targets": TARGETS}))


def _typical_s(found: dict[str, list[float]]) -> float:
    return statistics.median(found["step_times_s"])


def _used_s() -> float:
    """Seconds that all programs together have used of all cores since the machine started."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


if __name__ == "__main__":
    main()
