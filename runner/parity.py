"""Do two targets do the same work? From one seed they have to reach the same losses, but for rounding.

The tolerances are about ten times the largest differences that were seen between the variants (seven families, plain
SGD). They tell other work from the same, not one precision from another: rounded inputs can change a loss by less
than another order of summation does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Steps that are compared, and the columns with their losses.
STEPS = {1: "loss_step_1", 10: "loss_step_10"}
#: Largest relative difference at each of the steps: of the same kind of device, of different ones, and where one side
#: computes with fewer bits.
SAME_DEVICE = {1: 1e-6, 10: 1e-5}
OTHER_DEVICE = {1: 1e-5, 10: 1e-4}
TF32 = {1: 1e-3, 10: 2e-3}
BFLOAT16 = {1: 1e-2, 10: 2e-2}


@dataclass(frozen=True, kw_only=True)
class Losses:
    """What one trial says of its work.

    Attributes:
        target: Its name.
        device: The device that was used.
        precision: Of its float32 products.
        dtype: Of its numbers, where that is a parameter of the workload.
        by_step: Loss by step, for the steps that have one.
    """

    target: str
    device: str
    precision: str
    dtype: str
    by_step: Mapping[int, float]


def losses_of(row: Mapping[str, Any]) -> Losses:
    """Read a row of a study, or columns that are to become one."""
    return Losses(
        target=str(row.get("target")),
        device=str(row.get("device")),
        precision=str(row.get("precision")),
        dtype=str(row.get("dtype")),
        by_step={step: row[column] for step, column in STEPS.items() if row.get(column) is not None},
    )


def difference(one: Losses, other: Losses) -> str:
    """Say at which step the losses differ by more than rounding can explain; empty if they do not.

    The first line is for tables, the second tells more.
    """
    allowed = _tolerances(one, other)
    for step in sorted(set(one.by_step) & set(other.by_step)):
        mine, theirs = one.by_step[step], other.by_step[step]
        if math.isnan(mine) and math.isnan(theirs):
            continue
        apart = abs(mine - theirs) / (max(abs(mine), abs(theirs)) or 1.0)
        if not apart <= allowed[step]:
            by = "" if math.isnan(apart) else f"by {apart:.2g} of it, where rounding explains {allowed[step]:g}; "
            return (
                f"loss {mine:.7g} at step {step}, but {theirs:.7g} on {other.target}: they do not do the same work "
                f"(or see compare_losses in docs/own-model.md)\n{by}if it is meant, such as by masks that the device "
                "draws, set compare_losses = False on the workload"
            )
    return ""


def _tolerances(one: Losses, other: Losses) -> Mapping[int, float]:
    if "bfloat16" in (one.dtype, other.dtype):
        return BFLOAT16
    if "tf32" in (one.precision, other.precision):
        return TF32
    return SAME_DEVICE if one.device == other.device else OTHER_DEVICE
