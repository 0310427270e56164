"""What operators, arithmetic and bytes cost."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd

from analysis.blocks.block import Block
from analysis.conclusion import Conclusion
from analysis.costs import CONSTANTS, fit_costs
from analysis.load import MACHINE, Study
from analysis.rounding import NOTHING, percent, rate, seconds, shown
from analysis.strategy import is_size

RATES = (("flops_per_s", "FLOP/s"), ("bytes_per_s", "B/s"))


def costs_of(study: Study, conclusion: Conclusion) -> pd.DataFrame:
    """Return what `analysis.costs.fit_costs` finds in a study, the sizes of all its axes together."""
    sweep = study.sweep
    return fit_costs(
        conclusion.rows,
        axis=sweep.axis,
        targets=[sweep.baseline, sweep.challenger],
        group_by=unlike(study),
    )


def blocks(study: Study, costs: pd.DataFrame) -> Iterator[Block]:
    """Tell what operators, arithmetic and bytes cost on each target, as far as the times can tell these apart."""
    groups = unlike(study)
    if costs["error"].isna().all():
        return
    told = costs[costs[list(CONSTANTS)].notna().any(axis=1)]
    yield Block(
        heading="What a step is made of",
        sentences=tuple(map(str, costs["sentence"])),
        header=("target", "an operator", "arithmetic", "memory", "typical error at sizes left out"),
        rows=tuple(
            (
                ", ".join([str(row["target"]), *(f"{name} {shown(row[name])}" for name in groups)]),
                seconds(row["latency_s"]),
                *(rate(row[key], unit) if math.isfinite(row[key]) else NOTHING for key, unit in RATES),
                percent(row["left_out"]),
            )
            for row in told.to_dict("records")
        ),
    )


def unlike(study: Study) -> list[str]:
    """Return what tells apart steps that cost differently for the same work: machines and levers, and no sizes."""
    return [name for name in study.group_by if name == MACHINE or not is_size(name, study.sweep)]
