"""The ladder of causes: the same training with one thing after another taken away, each rung a trial of its own.

What a rung takes less than the one before is what that thing costs. Only `e2e`, the whole step, enters a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping

from sweeps.families import FAMILIES
from sweeps.parameter import Value
from sweeps.target import Target

HEADLINE = "e2e"
#: Timed without waiting for the device: a diagnostic of wrong benchmarks, and wrong itself.
UNWAITED = "nowait"
RUNGS: Mapping[str, str] = {
    HEADLINE: "the whole step",
    "preload": "batches are ready on the host",
    "resident": "batches are ready on the device, nothing is copied",
    "nosync": "as before, and the loss is not read",
    "kernel": "as before, and a profiler adds up the time that the device computes",
    "twin": "the whole step of the family that does the same arithmetic more simply",
    UNWAITED: "the whole step, not waited for",
}


def rungs_of(workload: str, parameters: Mapping[str, Value | None], target: Target) -> tuple[str, ...]:
    """Return the rungs below the whole step that differ from the one before, in order.

    Args:
        workload: A family; there is none for a user's own, whose step cannot be taken apart, nor for one that is not
            trained.
        parameters: Of the configuration.
        target: Where it runs: a CPU has nothing to copy to, and no kernels of its own.
    """
    if workload not in FAMILIES or "loader" not in parameters or not target.wait:
        return ()
    differs = {
        "preload": parameters["loader"] != "resident" and parameters["transfer"] != "resident",
        "resident": target.needs_accelerator and parameters["loader"] != "resident",
        "nosync": parameters["sync"] == "every_step",
        "kernel": target.needs_accelerator and target.mode == "eager",
        "twin": FAMILIES[workload].twin is not None,
    }
    return tuple(rung for rung, is_one in differs.items() if is_one)
