"""What holds the slower target back, where the change would be without it, and how far a twin moves it."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.blocks.block import Block
from analysis.blocks.step_costs import unlike
from analysis.conclusion import Group, rows_of
from analysis.load import Study
from analysis.twin import lacking
from analysis.why import labels
from analysis.without import without
from sweeps.ladder import HEADLINE, TWIN


def what_would_help(group: Group, study: Study, rows: pd.DataFrame, costs: pd.DataFrame) -> Block | None:
    """Say what limits the slower target, and where the change would be without it."""
    if group.parts.empty:
        return None
    asked: dict[str, Any] = {
        "axis": study.sweep.axis,
        "baseline": study.sweep.baseline,
        "challenger": study.sweep.challenger,
    }
    key = {name: group.crossover[name] for name in study.group_by}
    own = rows_of(rows, key)
    moved = without(own, margin=study.sweep.margin, drift=study.drift, **asked)
    own_costs = rows_of(costs, {name: key[name] for name in unlike(study)})
    limits = labels(group.parts, group.sizes, own_costs, frame=own, **asked)
    sentences = [*limits.loc[limits["label"] != "", "sentence"], *moved.loc[moved["without"] != TWIN, "sentence"]]
    if not sentences:
        return None
    return Block(heading="What holds the slower one back, and what would help", sentences=tuple(map(str, sentences)))


def twin(group: Group, study: Study, rows: pd.DataFrame) -> Block | None:
    """Say how far what the twin of a family lacks moves the change: its branches, its loop."""
    if group.parts.empty or not group.parts["part"].eq(TWIN).any():
        return None
    sweep = study.sweep
    own = rows_of(rows, {name: group.crossover[name] for name in study.group_by})
    found = without(
        own[own["rung"].isin([HEADLINE, TWIN])],
        axis=sweep.axis,
        baseline=sweep.baseline,
        challenger=sweep.challenger,
        workload=sweep.workload,
        margin=sweep.margin,
        drift=study.drift,
    )
    if found.empty:
        return None
    words, move = lacking(sweep.workload)
    return Block(heading=f"How far {words} {move} the change", sentences=tuple(map(str, found["sentence"])))
