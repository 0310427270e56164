"""Two axes of sizes at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pandas as pd

from analysis.blocks.block import Block, Map
from analysis.conclusion import label_of, slug_of
from analysis.frontier import Frontier, frontier
from analysis.load import MACHINE, Study
from analysis.partners import spread
from analysis.rounding import Scale, listed, shown
from analysis.sentence import Topic
from analysis.strategy import asked_values, grid_of, is_size, map_axis, searches
from analysis.verdict import Verdict
from sweeps.definition import Sweep


def blocks(study: Study) -> Iterator[Block]:
    """Draw the frontier over each two axes that are sizes."""
    sweep, taken = study.sweep, set[str]()
    for up in list(sweep.axes)[1:]:
        if up not in study.group_by or not is_mapped(up, sweep):
            continue
        others = [name for name in study.group_by if name != up]
        found = frontier(
            spread(study.compared, others),
            axes=(sweep.axis, up),
            baseline=sweep.baseline,
            challenger=sweep.challenger,
            planned=_planned(study, (sweep.axis, up)),
            group_by=others,
            margin=sweep.margin,
            drift=study.drift,
        )
        if sweep.strategy == "adaptive":
            found = [_with_inferred(one, study) for one in found]
        for one in found:
            yield _map(one, (sweep.axis, up), study, taken)


def _with_inferred(found: Frontier, study: Study) -> Frontier:
    """Add to a map what the search that made it infers; where machines are told apart it is only what each measured."""
    own = [
        one
        for one in searches(study.sweep, study.frame)
        if MACHINE not in found.key and all(found.key.get(name, value) == value for name, value in one.key.items())
    ]
    if len(own) != 1:
        return found
    told = own[0].mapped().cells
    axes = list(grid_of(study.sweep).axes)
    cells = found.cells.drop(columns=[name for name in told if name not in axes]).merge(told, on=axes, how="left")
    return replace(found, cells=cells[list(found.cells.columns)])


def _map(found: Frontier, axes: tuple[str, str], study: Study, taken: set[str]) -> Block:
    sweep, (_, up) = study.sweep, axes
    topic = Topic(
        axis=sweep.axis,
        baseline=sweep.baseline,
        challenger=sweep.challenger,
        workload=sweep.workload,
        margin=sweep.margin,
        passes=sweep.passes if sweep.strategy == "grid" else 0,
    )
    label = label_of(found.key)
    sentence = _map_sentence(found, up, topic)
    return Block(
        heading=f"{sweep.axis} and {up} together" + (f": {label}" if label else ""),
        sentences=(sentence,),
        drawing=Map(frontier=found, axes=axes, topic=topic, title=sentence, slug=slug_of(label or up, taken)),
    )


def _map_sentence(found: Frontier, up: str, topic: Topic) -> str:
    """Say in one sentence how the change moves from row to row of a map."""
    scale = Scale.of(found.cells[topic.axis])
    turns: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for row in found.along.sort_values(up).to_dict("records"):
        at = shown(row[up])
        if row["verdict"] == Verdict.CROSSES and math.isfinite(row["estimate"]):
            turns.setdefault(str(row["direction"]), []).append(f"{scale.show(row['estimate'])} ({up} {at})")
        else:
            others.setdefault(str(row["verdict"]), []).append(at)
    words = {
        Verdict.CROSSES.value: "the winner changes where it cannot be estimated",
        Verdict.SEVERAL.value: "the winner changes several times",
        Verdict.TIE.value: "there is no difference that matters",
        Verdict.ALWAYS_BASELINE.value: _never(topic),
        Verdict.ALWAYS_CHALLENGER.value: f"{topic.challenger} is {topic.faster} wherever both ran",
        Verdict.UNDETERMINED.value: "it is not decided",
    }
    winners = {"challenger_above": topic.challenger, "baseline_above": topic.baseline}
    said = [
        f"{winners[way]} {topic.does} {topic.faster if way == 'challenger_above' else 'faster'} from {topic.axis} "
        f"{listed(places)} on"
        for way, places in turns.items()
    ]
    said += [f"at {up} {listed(places)} {words[verdict]}" for verdict, places in others.items()]
    text = "; ".join(said) + "."
    return text if turns else text[:1].upper() + text[1:]  # a target keeps its name


def _never(topic: Topic) -> str:
    if topic.margin > 0:
        return f"{topic.challenger} is nowhere {topic.faster}"
    return f"{topic.baseline} is faster wherever both ran"


def _planned(study: Study, axes: tuple[str, str]) -> pd.DataFrame:
    """Return every cell that the sweep asks for."""
    across, up = (asked_values(study.sweep, name) for name in axes)
    return pd.DataFrame(list(product(across, up)), columns=list(axes))


def is_mapped(name: str, sweep: Sweep) -> bool:
    """Whether an axis is drawn as a map with the one that is solved for."""
    return name == map_axis(sweep) if sweep.strategy == "adaptive" else is_size(name, sweep)
