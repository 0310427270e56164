"""Further answers that the same rows give: what would move the change, best against best, the price of a start.

Each is a *block* of a report: a heading, sentences, and where it helps a table and a chart. A block that has nothing to
say is not there. One file each; here stands their order.
"""

from __future__ import annotations

import pandas as pd

from analysis.blocks import best, cold, hindrances, limits, maps, moves, prices, searched, step_costs, trainings
from analysis.blocks.block import Block, Map
from analysis.blocks.step_costs import costs_of
from analysis.conclusion import Conclusion, Group
from analysis.load import Study

__all__ = ["Block", "Map", "about_group", "about_study", "costs_of"]


def about_group(group: Group, study: Study, conclusion: Conclusion, costs: pd.DataFrame) -> tuple[Block, ...]:
    """Return the further answers about one comparison.

    Args:
        group: The comparison.
        study: Its study.
        conclusion: The conclusions that it is one of.
        costs: What `costs_of` made of that study.
    """
    blocks = (
        hindrances.what_would_help(group, study, conclusion.rows, costs),
        hindrances.twin(group, study, conclusion.rows),
        *cold.start(group, study),
        trainings.to_loss(group, study),
        trainings.tuning(group, study),
        *prices.blocks(group, study),
    )
    return tuple(block for block in blocks if block is not None)


def about_study(study: Study, conclusion: Conclusion, costs: pd.DataFrame) -> tuple[Block, ...]:
    """Return the further answers that several comparisons, or targets that are in none, give together."""
    if study.sweep.strategy == "largest":
        return tuple(limits.blocks(study))
    return (
        *limits.blocks(study),
        *cold.start_parts(study),
        *searched.blocks(study),
        *best.blocks(study),
        *maps.blocks(study),
        *moves.blocks(study, conclusion),
        *step_costs.blocks(study, costs),
    )
