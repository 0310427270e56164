"""Further answers that the same rows give: what would move the change, best against best, the price of a start.

Each is a *block* of a report: a heading, sentences, and where it helps a table and a chart. A block that has nothing to
say is not there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pandas as pd

from analysis.breakeven import break_even, break_even_words, cold_and_warm, count_steps
from analysis.conclusion import Conclusion, Group, judge, label_of, rows_of, slug_of
from analysis.costs import CONSTANTS, fit_costs
from analysis.frontier import Frontier, frontier
from analysis.load import MACHINE, Study, stored_values
from analysis.measures import ENERGY, MONEY, Measure, energy_words, has_energy, in_energy, priced
from analysis.partners import spread
from analysis.rivals import bars, best_of
from analysis.rounding import NOTHING, Scale, listed, number, percent, rate, seconds, shown
from analysis.sentence import Topic, ratio, ratio_range
from analysis.shift import shift, shift_words
from analysis.verdict import Verdict
from analysis.why import labels
from analysis.without import without
from sweeps.definition import Sweep
from sweeps.families import FAMILIES

#: Parameters that change how a step is done and nothing that it computes: their values are variants of one way to run.
HOW = ("transfer", "loader", "loader_workers", "foreach", "fused")
#: What the best way to run on a CPU is called, and the best on an accelerator; no target can have a name like that.
BEST = {False: "best cpu", True: "best gpu"}
HOW_CHOSEN = (
    "At each size the fastest way to run on either side is the bar. Which one that is in a pass is chosen by the other "
    "passes, so that a lucky trial does not set it."
)
#: With fewer values than this an axis is no map: the change moves from one of them to the other.
LEAST_ROWS = 3
ENDS = ("", "_low", "_high")
RATES = (("flops_per_s", "FLOP/s"), ("bytes_per_s", "B/s"))


@dataclass(frozen=True, kw_only=True)
class Map:
    """A chart of two axes: what it shows, and what was asked."""

    frontier: Frontier
    axes: tuple[str, str]
    topic: Topic
    title: str
    slug: str


@dataclass(frozen=True, kw_only=True)
class Block:
    """An answer as text.

    Attributes:
        heading: What it is about.
        sentences: The answer, the most important first.
        header: Names of the columns of its table; without a table none.
        rows: The cells of its table.
        notes: What to know about it.
        drawing: What its chart shows, if it has one.
    """

    heading: str
    sentences: tuple[str, ...]
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
    drawing: Group | Map | None = None


def _repaid_steps(value: float, toward: int) -> str:
    return "at once" if value == 0 else count_steps(value, toward)


def _repaid_s(value: float, _toward: int) -> str:
    return "at once" if value == 0 else seconds(value)


def _repaid_epochs(value: float, _toward: int) -> str:
    return "at once" if value == 0 else number(float(f"{value:.3g}"))


def _longer(value: float, _toward: int) -> str:
    return "none" if value <= 0 else seconds(value)


#: The units in which a start is repaid, and how a number of them is told.
REPAID: Mapping[str, Callable[[float, int], str]] = {
    "steps": _repaid_steps,
    "s": _repaid_s,
    "epochs": _repaid_epochs,
}


def about_group(group: Group, study: Study, conclusion: Conclusion, costs: pd.DataFrame) -> tuple[Block, ...]:
    """Return the further answers about one comparison.

    Args:
        group: The comparison.
        study: Its study.
        conclusion: The conclusions that it is one of.
        costs: What `costs_of` made of that study.
    """
    blocks = (_what_would_help(group, study, conclusion.rows, costs), _start(group, study), *_prices(group, study))
    return tuple(block for block in blocks if block is not None)


def about_study(study: Study, conclusion: Conclusion, costs: pd.DataFrame) -> tuple[Block, ...]:
    """Return the further answers that several comparisons, or targets that are in none, give together."""
    return (*_best(study), *_maps(study), *_moves(study, conclusion), *_costs(study, costs))


def costs_of(study: Study, conclusion: Conclusion) -> pd.DataFrame:
    """Return what `analysis.costs.fit_costs` finds in a study, the sizes of all its axes together."""
    sweep = study.sweep
    return fit_costs(
        conclusion.rows,
        axis=sweep.axis,
        targets=[sweep.baseline, sweep.challenger],
        group_by=_unlike(study),
    )


def _what_would_help(group: Group, study: Study, rows: pd.DataFrame, costs: pd.DataFrame) -> Block | None:
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
    own_costs = rows_of(costs, {name: key[name] for name in _unlike(study)})
    limits = labels(group.parts, group.sizes, own_costs, frame=own, **asked)
    sentences = [*limits.loc[limits["label"] != "", "sentence"], *moved["sentence"]]
    if not sentences:
        return None
    return Block(heading="What holds the slower one back, and what would help", sentences=tuple(map(str, sentences)))


def _start(group: Group, study: Study) -> Block | None:
    """Say after how many steps the challenger has paid back its slower start."""
    sweep = study.sweep
    hosts, accelerators = (
        [name for name in (sweep.baseline, sweep.challenger) if sweep.target(name).needs_accelerator == is_one]
        for is_one in (False, True)
    )
    if not (hosts and accelerators):
        return None  # both start alike
    asked = {"axis": sweep.axis, "baseline": hosts[0], "challenger": accelerators[0]}
    table = break_even(group.frame, drift=study.drift, **asked)
    known = table[table["extra_s"].notna()]
    if known.empty:
        return None
    start = "longer start" if known["prepared"].all() else "longer warm-up"
    turned = cold_and_warm(group.frame, topic=group.topic, drift=study.drift)["sentence"]
    return Block(
        heading=f"When {accelerators[0]} has paid back its start",
        sentences=(break_even_words(table, **asked), *(str(sentence) for sentence in turned if sentence)),
        header=(sweep.axis, start, "repaid after so many steps", "that is, since both began", "epochs"),
        rows=tuple(
            (
                number(float(row[sweep.axis])),
                _with_ends(row, ("extra_s", "extra_low_s", "extra_high_s"), _longer),
                *(
                    _with_ends(row, tuple(f"repaid_{unit}{end}" for end in ENDS), words)
                    for unit, words in REPAID.items()
                ),
            )
            for row in known.to_dict("records")
        ),
    )


def _with_ends(row: Mapping[Any, Any], names: Sequence[str], words: Callable[[float, int], str]) -> str:
    """Return a value with its interval as a cell of a table, rounded as in the sentence above it."""
    value, low, high = (float(row[name]) for name in names)
    if not math.isfinite(value):
        return NOTHING
    told, ends = words(value, 1), [words(low, -1), words(high, 1)]
    is_open = not (math.isfinite(low) and math.isfinite(high))
    return told if is_open or {told} == set(ends) else f"{told} ({' to '.join(ends)})"


def _prices(group: Group, study: Study) -> Iterator[Block]:
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


def _best(study: Study) -> Iterator[Block]:
    """Compare the best way to run on a CPU with the best on an accelerator, where there are several of either."""
    sweep = study.sweep
    ways: dict[bool, list[str]] = {False: [], True: []}
    for target in sweep.targets:
        if target.wait:
            ways[target.needs_accelerator].append(target.name)
    first = sweep.target(sweep.baseline).needs_accelerator
    sides = {BEST[is_gpu]: ways[is_gpu] for is_gpu in (first, not first)}
    variants = [name for name in study.group_by if name in HOW]
    if not all(sides.values()) or (not variants and all(len(own) == 1 for own in sides.values())):
        return
    others = [name for name in study.group_by if name not in variants]
    best = best_of(spread(study.compared, others), axis=sweep.axis, sides=sides, group_by=others, variants=variants)
    names = tuple(sides)
    _, groups = judge(best, study, (names[0], names[1]), group_by=others)
    told = bars(best, axis=sweep.axis, group_by=others)
    for group in groups:
        own = rows_of(told, {name: group.crossover[name] for name in others})
        by_size = {name: own[own["target"] == name].set_index(sweep.axis)["variants"] for name in names}
        roles = dict(zip(("baseline", "challenger"), names, strict=True))
        rows = tuple(
            (
                number(float(row[sweep.axis])),
                *(
                    f"{seconds(row[f'{role}_s'])}: {by_size[name].get(row[sweep.axis], NOTHING)}"
                    for role, name in roles.items()
                ),
                ratio(row["log_ratio"], group.topic),
                ratio_range(row["log_ratio_low"], row["log_ratio_high"], group.topic),
            )
            for row in group.sizes.to_dict("records")
        )
        yield Block(
            heading="Best against best" + (f": {group.label}" if group.label else ""),
            sentences=(group.sentence,),
            header=(sweep.axis, *names, "compared", "95 % band"),
            rows=rows,
            notes=(HOW_CHOSEN,),
            drawing=group,
        )


def _maps(study: Study) -> Iterator[Block]:
    """Draw the frontier over each two axes that are sizes."""
    sweep, taken = study.sweep, set[str]()
    for up in list(sweep.axes)[1:]:
        if up not in study.group_by or not _is_size(up, sweep):
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
        for one in found:
            yield _map(one, (sweep.axis, up), study, taken)


def _moves(study: Study, conclusion: Conclusion) -> Iterator[Block]:
    """Say how far the change moves from the first value of an axis to each other one, all else equal."""
    sweep = study.sweep
    for name in [axis for axis in study.group_by if axis in sweep.axes]:
        if _is_size(name, sweep):
            continue
        order = {value: place for place, value in enumerate(stored_values(sweep, name))}
        places = conclusion.crossovers[name].map(order).sort_values(kind="stable")
        rows = conclusion.crossovers.loc[places.index]
        others = [other for other in study.group_by if other != name]
        sentences = []
        for _, own in rows.groupby(others, dropna=False) if others else [((), rows)]:
            first, *rest = ({str(key): value for key, value in row.items()} for row in own.to_dict("records"))
            where = label_of({other: first[other] for other in others})
            for row in rest:
                if (found := shift(first, row)) is not None:
                    words = [f"{name} {shown(each[name])}" for each in (first, row)]
                    said = shift_words(found, axis=sweep.axis, first=words[0], second=words[1])
                    sentences.append(f"{where}: {said}" if where else said)
        if sentences:
            yield Block(heading=f"How far {name} moves the change", sentences=tuple(sentences))


def _costs(study: Study, costs: pd.DataFrame) -> Iterator[Block]:
    """Tell what operators, arithmetic and bytes cost on each target, as far as the times can tell these apart."""
    groups = _unlike(study)
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


def _map(found: Frontier, axes: tuple[str, str], study: Study, taken: set[str]) -> Block:
    sweep, (_, up) = study.sweep, axes
    topic = Topic(
        axis=sweep.axis,
        baseline=sweep.baseline,
        challenger=sweep.challenger,
        workload=sweep.workload,
        margin=sweep.margin,
        passes=sweep.passes,
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
    across, up = (stored_values(study.sweep, name) for name in axes)
    return pd.DataFrame(list(product(across, up)), columns=list(axes))


def _unlike(study: Study) -> list[str]:
    """Return what tells apart steps that cost differently for the same work: machines and levers, and no sizes."""
    return [name for name in study.group_by if name == MACHINE or not _is_size(name, study.sweep)]


def _is_size(name: str, sweep: Sweep) -> bool:
    """Whether an axis is one of sizes, over which a map makes sense, and no lever."""
    if any(isinstance(value, str | bool) for value in sweep.axes[name]) or len(sweep.axes[name]) < LEAST_ROWS:
        return False
    family = FAMILIES.get(sweep.workload)
    return family is None or (name in family.parameters and name not in family.usual)
