"""How many kernels an accelerator runs for a step, and for how long: a profiler's run of its own, after the timing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch.profiler import profile, supported_activities


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """What ran on the accelerator, copies and clearing of memory left out.

    Attributes:
        per_step: Kernels a step.
        time_s: Seconds a step, all kernels added up.
    """

    per_step: float
    time_s: float


def profile_kernels(step: Callable[[], object], synchronize: Callable[[], None], *, steps: int) -> Kernels | None:
    """Run some steps under torch's profiler.

    Returns:
        What it saw; None if it saw no kernel.
    """
    synchronize()
    with profile(activities=supported_activities()) as profiled:
        for _ in range(steps):
            step()
        synchronize()
    return _add_up(profiled.events() or [], steps)


def _add_up(events: Iterable[Any], steps: int) -> Kernels | None:
    """Add up a profiler's events. Marks that a program makes, as optimizers do, span kernels and are none."""
    kernels = [
        event.time_range.end - event.time_range.start  # microseconds
        for event in events
        if event.device_type.name != "CPU"
        and not getattr(event, "is_user_annotation", False)
        and not event.name.startswith(("Memcpy", "Memset"))
    ]
    return Kernels(per_step=len(kernels) / steps, time_s=sum(kernels) / 1e6 / steps) if kernels else None
