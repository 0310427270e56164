"""The ladder of causes: the same training with one thing after another taken away, each rung a trial of its own.

What a rung takes less than the one before is what that thing costs. Only `e2e`, the whole step, enters a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping

from sweeps.errors import InputError, did_you_mean, show
from sweeps.families import FAMILIES
from sweeps.own import is_own, rungs_named, short_name, takes_rung
from sweeps.parameter import Value
from sweeps.way import Way

HEADLINE = "e2e"
#: Timed without waiting for the device: a diagnostic of wrong benchmarks, and wrong itself.
UNWAITED = "nowait"
#: What a start is made of, taken apart further than a training can: it would pay less in its own first step.
COLD = "cold"
RUNGS: Mapping[str, str] = {
    HEADLINE: "the whole step",
    "preload": "batches are ready on the host",
    "resident": "batches are ready on the device, nothing is copied",
    "nosync": "as before, and the loss is not read",
    "kernel": "as before, and a profiler adds up the time that the device computes",
    "twin": "the whole step of the family that does the same arithmetic more simply",
    UNWAITED: "the whole step, not waited for",
    COLD: "no step at all: opening the device, its first kernel, product of matrices and convolution",
}
TWIN = "twin"
#: What a user's own factory that takes a rung is asked for, unless it names what it has. Kernels are counted by us.
OWN_RUNGS = ("preload", "resident", "nosync")


def has_rungs(workload: str) -> bool:
    """Whether steps of a workload can be taken apart: those of trainings that ship, and own ones that take `rung`.

    Raises:
        InputError: There is no such workload of the user's own.
    """
    if is_own(workload):
        return bool(own_rungs(workload))
    return "loader" in FAMILIES[workload].parameters


def own_rungs(workload: str, source: str | None = None) -> tuple[str, ...]:
    """Return the rungs below the whole step that a user's own factory makes, in order.

    They are those that it names, `rung: Literal["e2e", "preload", "twin"]`, and without such names `OWN_RUNGS`: a twin
    is there only where somebody has written one.

    Args:
        workload: `FILE.py:factory` or `package.module:factory`.
        source: Text of its file, which then need not exist on this machine.

    Raises:
        InputError: There is no such factory, or it names a rung that there is not.
    """
    if not takes_rung(workload, source):
        return ()
    named = rungs_named(workload, source)
    if named is None:
        return OWN_RUNGS
    legal = (HEADLINE, *OWN_RUNGS, TWIN)
    if unknown := [name for name in named if name not in legal]:
        raise InputError(
            f"workload: {short_name(workload)} names a rung {show(unknown[0])}; {', '.join(legal)}."
            + did_you_mean(unknown[0], legal)
        )
    return tuple(name for name in legal[1:] if name in named)


def rungs_of(workload: str, parameters: Mapping[str, Value | None], target: Way) -> tuple[str, ...]:
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
        return own_rungs(workload)
    differs = {
        "preload": parameters["loader"] != "resident" and parameters["transfer"] != "resident",
        "resident": target.needs_accelerator and parameters["loader"] != "resident",
        "nosync": parameters["sync"] == "every_step",
        "kernel": target.needs_accelerator and target.mode == "eager",
        TWIN: FAMILIES[workload].twin is not None,
    }
    return tuple(rung for rung, is_one in differs.items() if is_one)
