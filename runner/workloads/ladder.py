"""What a rung of the ladder of causes takes away from a training; `sweeps.ladder` says what each is for."""

from __future__ import annotations

from dataclasses import replace

from runner.workloads.levers import Levers


def levers_on(rung: str, levers: Levers) -> Levers:
    """Return the levers of a rung.

    Args:
        rung: Of `sweeps.ladder.RUNGS`; those that take nothing away leave the levers alone.
        levers: Of the whole step. On a CPU (no transfer) batches that are ready on the host are ready on the device.
    """
    if rung == "preload" or (rung in ("nosync", "kernel") and levers.transfer is None):
        ready = replace(levers, loader="preload", loader_workers=None)
    elif rung in ("resident", "nosync", "kernel"):
        ready = replace(levers, loader="resident", loader_workers=None, transfer="resident")
    else:
        return levers
    return ready if rung in ("preload", "resident") else replace(ready, sync="end", sync_every=None)
