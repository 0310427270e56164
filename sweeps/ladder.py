"""The ladder of causes: the same training with one thing after another taken away, each rung a trial of its own.

What a rung takes less than the one before is what that thing costs. Only `e2e`, the whole step, enters a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping

from sweeps.families import FAMILIES
from sweeps.own import is_own, takes_rung
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
#: What a user's own factory that takes a rung is asked for: kernels are counted by us, and a twin would be another one.
OWN_RUNGS = ("preload", "resident", "nosync")


def has_rungs(workload: str) -> bool:
    """Whether steps of a workload can be taken apart: those of trainings that ship, and own ones that take `rung`.

    Raises:
        InputError: There is no such workload of the user's own.
    """
    if is_own(workload):
        return takes_rung(workload)
    return "loader" in FAMILIES[workload].parameters


def rungs_of(workload: str, parameters: Mapping[str, Value | None], target: Target) -> tuple[str, ...]:
    """Return the rungs below the whole step that differ from the one before, in order.

    Args:
        workload: A family or a user's own; there is none for what cannot be taken apart. What an own one leaves out on
            which target is only known to itself, so it is asked for the same everywhere.
        parameters: Of the configuration.
        target: Where it runs: a CPU has nothing to copy to, and no kernels of its own.

    Raises:
        InputError: There is no such workload of the user's own.
    """
    if not target.wait or not has_rungs(workload):
        return ()
    if is_own(workload):
        return OWN_RUNGS
    differs = {
        "preload": parameters["loader"] != "resident" and parameters["transfer"] != "resident",
        "resident": target.needs_accelerator and parameters["loader"] != "resident",
        "nosync": parameters["sync"] == "every_step",
        "kernel": target.needs_accelerator and target.mode == "eager",
        "twin": FAMILIES[workload].twin is not None,
    }
    return tuple(rung for rung, is_one in differs.items() if is_one)
