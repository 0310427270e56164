"""Whole trainings: who comes to a stated loss sooner, and who tries more configurations an hour."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis import whole_training
from analysis.blocks.block import Block
from analysis.conclusion import Group, judge
from analysis.load import Study
from analysis.rounding import NOTHING, number, seconds, shown
from analysis.sentence import ratio, ratio_range
from analysis.step_times import trainings_at_once


def to_loss(group: Group, study: Study) -> Block | None:
    """Say from what size the challenger comes to the stated loss sooner, beside the same for a step."""
    sweep, goal = study.sweep, study.sweep.goal_loss
    if goal is None:
        return None
    heading, rivals = f"Time to a loss of {number(goal)}", (sweep.baseline, sweep.challenger)
    frame = whole_training.in_time_to_loss(group.frame, goal)
    if not any(whole_training.descents(group.frame)):
        return Block(heading=heading, sentences=("Nothing was trained as a whole, so it is not known.",), answers=True)
    _, (found,) = judge(frame, study, rivals, group_by=(), measure=whole_training.to_loss(goal))
    rows = []
    for row in found.sizes.to_dict("records"):
        at = group.frame[group.frame[sweep.axis] == row[sweep.axis]]
        cells = []
        for role, name in zip(("baseline", "challenger"), rivals, strict=True):
            own = at[at["target"] == name]
            cells.append(whole_training.epochs_words(own, goal) or NOTHING)
            cells.append(_until_loss(row, role, frame.loc[own.index]))
        compared = ratio(row["log_ratio"], group.topic)
        if not math.isfinite(row["log_ratio"]):
            compared = str(row["known_sign"]).replace("timed out", "did not come so low in that time") or NOTHING
        band = ratio_range(row["log_ratio_low"], row["log_ratio_high"], group.topic)
        rows.append((number(float(row[sweep.axis])), *cells, compared + (f" ({band})" if band else "")))
    named = [column for name in rivals for column in (f"{name}: epochs", f"{name}: time")]
    return Block(
        heading=heading,
        sentences=(found.sentence, f"A single step: {group.sentence}"),
        header=(sweep.axis, *named, "compared"),
        rows=tuple(rows),
        notes=(whole_training.UNTIL_LOSS.format(number(goal)),),
        drawing=_curves(group, found, goal),
        answers=True,
    )


def _until_loss(row: Mapping[Any, Any], role: str, own: pd.DataFrame) -> str:
    """Return the time of a target to the loss, or how long it trained without coming there."""
    if math.isfinite(row[f"{role}_s"]):
        low, high = row[f"{role}_low_s"], row[f"{role}_high_s"]
        spread_s = f" ({seconds(low)} to {seconds(high)})" if low < high else ""
        return seconds(row[f"{role}_s"]) + spread_s
    spent_s = own.loc[own["status"] == "timeout", "deadline_s"] / trainings_at_once(own[own["status"] == "timeout"])
    return f"over {seconds(float(spent_s.min()))}" if len(spent_s) else NOTHING


def _curves(group: Group, found: Group, goal: float) -> whole_training.Curves | None:
    """Return the trainings of the size that lies nearest to the change, or to the middle of the sizes without one."""
    axis, rivals = group.topic.axis, (group.topic.baseline, group.topic.challenger)
    whole = group.frame.assign(descent=pd.Series(whole_training.descents(group.frame), group.frame.index, dtype=object))
    whole = whole[whole["descent"].notna() & whole["target"].isin(rivals)]
    shared = whole.groupby(axis)["target"].nunique()
    sizes = sorted(float(size) for size in shared[shared == shared.max()].index)
    change = found.crossover["estimate"]
    near = change if math.isfinite(change) else sizes[len(sizes) // 2]
    size = min(sizes, key=lambda each: abs(math.log(each / near)))
    own = whole[whole[axis] == size]
    return whole_training.Curves(
        title=f"{group.topic.trained[:1].upper()}{group.topic.trained[1:]} at {axis} {number(size)}: loss against time",
        slug=group.slug,
        goal=goal,
        descents={
            name: tuple(own.loc[own["target"] == name, "descent"]) for name in rivals if (own["target"] == name).any()
        },
    )


def tuning(group: Group, study: Study) -> Block | None:
    """Say from what size one target tries more configurations an hour than the other, where some run side by side."""
    sweep = study.sweep
    if all(target.side_by_side == 1 for target in sweep.targets):
        return None
    frame = whole_training.per_configuration(group.frame)
    names = [target.name for target in sweep.targets if target.wait]
    table = whole_training.configurations_per_hour(frame, axis=sweep.axis, targets=names)
    if table.empty:
        told = "Nothing was trained as a whole, so nobody knows how many configurations an hour can be tried."
        return Block(heading="Tuning", sentences=(told,))
    rivals = (sweep.baseline, sweep.challenger)
    _, (found,) = judge(frame, study, rivals, group_by=(), measure=whole_training.TUNING)
    at_once = table.groupby("target")["side_by_side"].max()
    header = [f"{name}, {at_once[name]} at once" if at_once[name] > 1 else name for name in names if name in at_once]
    rows = []
    for size, own in table.groupby(sweep.axis, sort=True):
        cells = {row["target"]: _an_hour(row) for row in own.to_dict("records")}
        rows.append((shown(size), *(cells.get(name, NOTHING) for name in names if name in at_once)))
    return Block(
        heading="Tuning",
        sentences=(found.sentence, f"A single step: {group.sentence}"),
        header=(sweep.axis, *header),
        rows=tuple(rows),
        notes=(whole_training.CONFIGURATION,),
        answers=True,
    )


def _an_hour(row: Mapping[Any, Any]) -> str:
    many, low, high = (number(float(f"{row[key]:.3g}")) for key in ("per_hour", "per_hour_low", "per_hour_high"))
    return many + (f" ({low} to {high})" if low != high else "") + f"; {seconds(row['each_s'])} each"
