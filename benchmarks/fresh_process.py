"""What a fresh process a trial costs, and whether forking it changes what is measured.

    python benchmarks/fresh_process.py

Runs the same one-thread trial in forked children of one nursery and in plain new interpreters, one of each in turn, and
prints one line of JSON. `process_start_s` is the median from asking for a forked process to its first line, without
the first. `ratio` is forked over plain step time with its 95 % interval (t, on the log ratios of neighbours);
`others_share` is how much of all cores other programs used meanwhile: under 0.02 counts as a quiet machine.
"""

from __future__ import annotations

import math
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.figures import QUIET_SHARE, Others, conclude, ratio_of, trial_of
from runner.process import Nursery, answer_of, request_of

PAIRS = 12
TARGETS = {"process_start_s": 0.04, "ratio_deviation_when_quiet": 0.05}


def main() -> None:
    """Measure and print."""
    request = request_of(trial_of("mlp", {"batch_size": 4}), None)
    forking, spawning = Nursery("fork"), Nursery("spawn")
    starts: list[float] = []
    ratios: list[float] = []
    try:
        answer_of(forking, request)  # the first waits for the import of torch
        others, own_s = Others(), 0.0
        for number in range(PAIRS):
            order = [forking, spawning] if number % 2 else [spawning, forking]
            found = {nursery.start_method: answer_of(nursery, request) for nursery in order}
            if failed := [f for f in found.values() if f["status"] != "ok"]:
                sys.exit(f"a trial failed: {failed[0]['error_message']}")
            starts.append(found["fork"]["process_start_s"])
            ratios.append(math.log(_typical_s(found["fork"]) / _typical_s(found["spawn"])))
            own_s += sum(f["cpu_time_s"] for f in found.values())
        others_share = others.share(own_s)
    finally:
        forking.close()
        spawning.close()
    ratio = ratio_of(ratios)
    figures = {
        "process_start_s": statistics.median(starts),
        "ratio": ratio.middle,
        "ratio_low": ratio.low,
        "ratio_high": ratio.high,
        "pairs": PAIRS,
        "others_share": others_share,
    }
    starts_in_time = figures["process_start_s"] <= TARGETS["process_start_s"]
    same = abs(figures["ratio"] - 1) <= TARGETS["ratio_deviation_when_quiet"]
    ok = starts_in_time and (same or others_share > QUIET_SHARE)
    conclude("fresh_process", ok=ok, figures=figures, targets=TARGETS)


def _typical_s(found: dict[str, list[float]]) -> float:
    return statistics.median(found["step_times_s"])


if __name__ == "__main__":
    main()
