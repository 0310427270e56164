"""Money and energy in place of time."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from analysis.blocks.block import Block
from analysis.conclusion import Group, judge
from analysis.load import Study
from analysis.measures import ENERGY, MONEY, Measure, energy_words, has_energy, in_energy, priced
from analysis.rounding import listed, number


def blocks(group: Group, study: Study) -> Iterator[Block]:
    """Say from what size the challenger is cheaper, and from what size it needs less energy, where that is known."""
    sweep = study.sweep
    rivals = (sweep.baseline, sweep.challenger)
    prices = {target.name: target.price_per_hour for target in sweep.targets}
    if all(prices[name] for name in rivals):
        told = listed(f"{name} {number(float(prices[name] or 0))} an hour" for name in rivals)
        yield _other_measure(priced(group.frame, prices), study, MONEY, "In money", f"At these prices: {told}.")
    if has_energy(group.frame, baseline=rivals[0], challenger=rivals[1]):
        note = energy_words(group.frame, baseline=rivals[0], challenger=rivals[1])
        yield _other_measure(in_energy(group.frame), study, ENERGY, "In energy", note)


def _other_measure(frame: pd.DataFrame, study: Study, measure: Measure, heading: str, note: str) -> Block:
    _, (found,) = judge(frame, study, (study.sweep.baseline, study.sweep.challenger), group_by=(), measure=measure)
    return Block(heading=heading, sentences=(found.sentence,), notes=(note,))
