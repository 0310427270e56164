"""Further answers that the same rows give: what would move the change, best against best, the price of a start.

Each is a *block* of a report: a heading, sentences, and where it helps a table and a chart. A block that has nothing to
say is not there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pandas as pd

from analysis import memory, whole_training
from analysis.breakeven import break_even, break_even_words, cold_and_warm, count_steps
from analysis.conclusion import Conclusion, Group, concluding, judge, label_of, rows_of, slug_of
from analysis.costs import CONSTANTS, fit_costs
from analysis.frontier import Frontier, frontier
from analysis.load import MACHINE, Study, stored_values
from analysis.measures import ENERGY, MONEY, Measure, energy_words, has_energy, in_energy, priced
from analysis.partners import spread
from analysis.rivals import bars, best_of
from analysis.rounding import NOTHING, Scale, lasting, listed, number, percent, rate, seconds, shown
from analysis.sentence import Topic, ratio, ratio_range
from analysis.shift import shift, shift_words
from analysis.spent import cost_words, spent, spent_on_map
from analysis.starts import TIMED_WHERE, stages, start_rows, start_words
from analysis.step_times import trainings_at_once
from analysis.strategy import NOT_FINISHED, answers, asked_values, grid_of, is_size, map_axis, searches
from analysis.twin import lacking
from analysis.verdict import Verdict
from analysis.why import labels
from analysis.without import without
from sweeps.definition import Sweep
from sweeps.ladder import HEADLINE, TWIN

#: Parameters that change how a step is done and nothing that it computes: their values are variants of one way to run.
HOW = ("transfer", "loader", "loader_workers", "foreach", "fused")
#: What the best way to run on a CPU is called, and the best on an accelerator; no target can have a name like that.
BEST = {False: "best cpu", True: "best gpu"}
HOW_CHOSEN = (
    "At each size the fastest way to run on either side is the bar. Which one that is in a pass is chosen by the other "
    "passes, so that a lucky trial does not set it."
)
WHERE = "Where the measurements went"
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
    drawing: Group | Map | memory.Limits | whole_training.Curves | None = None


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
    blocks = (
        _what_would_help(group, study, conclusion.rows, costs),
        _twin(group, study, conclusion.rows),
        *_start(group, study),
        _to_loss(group, study),
        _tuning(group, study),
        *_prices(group, study),
    )
    return tuple(block for block in blocks if block is not None)


def about_study(study: Study, conclusion: Conclusion, costs: pd.DataFrame) -> tuple[Block, ...]:
    """Return the further answers that several comparisons, or targets that are in none, give together."""
    if study.sweep.strategy == "largest":
        return tuple(_memory(study))
    return (
        *_memory(study),
        *_start_parts(study),
        *_went(study),
        *_best(study),
        *_maps(study),
        *_moves(study, conclusion),
        *_costs(study, costs),
    )


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
    sentences = [*limits.loc[limits["label"] != "", "sentence"], *moved.loc[moved["without"] != TWIN, "sentence"]]
    if not sentences:
        return None
    return Block(heading="What holds the slower one back, and what would help", sentences=tuple(map(str, sentences)))


def _twin(group: Group, study: Study, rows: pd.DataFrame) -> Block | None:
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


def _start(group: Group, study: Study) -> Iterator[Block]:
    """Say after how many steps who starts later has paid that back, and who wins from a cold start and once warm."""
    sweep = study.sweep
    repaid = _repaid(group, study)
    if repaid is not None:
        table, asked = repaid
        yield _repaid_block(table, axis=sweep.axis, asked=asked)
    known = group.frame.loc[group.frame["first_step_s"].notna() & group.frame["status"].eq("ok"), "target"]
    if {sweep.baseline, sweep.challenger} <= {*known}:
        told = cold_and_warm(group.frame, topic=group.topic, drift=study.drift, concluding=concluding(sweep)).iloc[0]
        yield Block(
            heading="From a cold start, and once warm",
            sentences=(
                f"First step, from the beginning of a trial: {told['cold_sentence']}",
                f"Once warm: {told['warm_sentence']}",
            ),
        )


def _is_mixed(sweep: Sweep) -> bool:
    """Whether a CPU is compared with an accelerator."""
    return sweep.target(sweep.baseline).needs_accelerator != sweep.target(sweep.challenger).needs_accelerator


def _repaid(group: Group, study: Study) -> tuple[pd.DataFrame, dict[str, str]] | None:
    """Return what `break_even` says of the target that starts later, and who is who in that.

    An accelerator is taken to start later than a CPU. Of two others one has to, decidedly: its longer start is beyond
    the noise at most of the sizes where it is faster once warm.
    """
    sweep = study.sweep
    rivals = (sweep.baseline, sweep.challenger)
    if any(sweep.target(name).side_by_side != 1 for name in rivals):
        return None  # several start in the time of one
    host_first = sorted(rivals, key=lambda name: sweep.target(name).needs_accelerator)
    for first, later in [host_first] if _is_mixed(sweep) else [rivals, rivals[::-1]]:
        asked = {"baseline": first, "challenger": later}
        table = break_even(group.frame, axis=sweep.axis, drift=study.drift, **asked)
        known = table[table["extra_s"].notna()]
        if len(known) and (_is_mixed(sweep) or known["extra_low_s"].median() > 0):
            return table, asked
    return None


def _repaid_block(table: pd.DataFrame, *, axis: str, asked: Mapping[str, str]) -> Block:
    known = table[table["extra_s"].notna()]
    start = "longer start" if known["prepared"].all() else "longer warm-up"
    return Block(
        heading=f"When {asked['challenger']} has paid back its start",
        sentences=(break_even_words(table, axis=axis, **asked),),
        header=(axis, start, "repaid after so many steps", "that is, since both began", "epochs"),
        rows=tuple(
            (
                number(float(row[axis])),
                _with_ends(row, ("extra_s", "extra_low_s", "extra_high_s"), _longer),
                *(
                    _with_ends(row, tuple(f"repaid_{unit}{end}" for end in ENDS), words)
                    for unit, words in REPAID.items()
                ),
            )
            for row in known.to_dict("records")
        ),
    )


def _start_parts(study: Study) -> Iterator[Block]:
    """Tell what a start is made of on each target."""
    sweep = study.sweep
    rows = pd.concat([study.frame, study.rungs], ignore_index=True) if len(study.rungs) else study.frame
    if rows["cold_context_s"].isna().all():
        return
    found = stages(rows, axis=sweep.axis, targets=[target.name for target in sweep.targets if target.wait])
    sized = found["size"].dropna()
    where = f" at {sweep.axis} {number(float(sized.min()))}, where a start weighs most" if len(sized) else ""
    yield Block(
        heading="What a start is made of",
        sentences=tuple(start_words(found, sweep.axis)),
        header=("target", "stage", "median", "range over trials", "first trial, if apart", "trials"),
        rows=start_rows(found),
        notes=(
            TIMED_WHERE,
            f"The rest is what it was{where}. Compiling is part of the first step, recording of the first few.",
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


def _to_loss(group: Group, study: Study) -> Block | None:
    """Say from what size the challenger comes to the stated loss sooner, beside the same for a step."""
    sweep, goal = study.sweep, study.sweep.goal_loss
    if goal is None:
        return None
    heading, rivals = f"Time to a loss of {number(goal)}", (sweep.baseline, sweep.challenger)
    frame = whole_training.in_time_to_loss(group.frame, goal)
    if not any(whole_training.descents(group.frame)):
        return Block(heading=heading, sentences=("Nothing was trained as a whole, so it is not known.",))
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


def _tuning(group: Group, study: Study) -> Block | None:
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
        sentences=(found.sentence,),
        header=(sweep.axis, *header),
        rows=tuple(rows),
        notes=(whole_training.CONFIGURATION,),
    )


def _an_hour(row: Mapping[Any, Any]) -> str:
    many, low, high = (number(float(f"{row[key]:.3g}")) for key in ("per_hour", "per_hour_low", "per_hour_high"))
    return many + (f" ({low} to {high})" if low != high else "") + f"; {seconds(row['each_s'])} each"


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
    if variants and sweep.strategy == "adaptive":
        return  # each variant was measured near its own change, so that hardly a size has all of them
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


def _went(study: Study) -> Iterator[Block]:
    """Say where an adaptive sweep has measured, why it stopped, and what a grid would have cost."""
    sweep = study.sweep
    if sweep.strategy != "adaptive":
        return
    found = [one for one in searches(sweep, answers(study.frame)) if len(one.rows)]
    is_map = bool(map_axis(sweep))
    costs = [spent_on_map(one.rows, grid_of(sweep)) if is_map else spent(one.rows, one.question) for one in found]
    told = [one.ask() for one in found]
    words = cost_words(costs, "every cell" if is_map else "every octave", ended=all(one.stop for one in told))
    if len(found) == 1:
        (one,) = told
        end = f"The search has stopped: {one.stop}." if one.stop else f"{NOT_FINISHED[:1].upper()}{NOT_FINISHED[1:]}."
        yield Block(
            heading=WHERE,
            sentences=(words, *([f"The map: {one.state}."] if is_map else []), end),
            header=(sweep.axis, "pairs", "took", "measured") if costs[0].places else (),
            rows=tuple((number(at.size), str(at.pairs), lasting(at.seconds), at.why) for at in costs[0].places),
        )
    elif found:
        yield Block(
            heading=WHERE,
            sentences=(words,),
            header=("search", "pairs", "took", "a grid would have taken", "why it stopped"),
            rows=tuple(
                (one.label, str(cost.pairs), lasting(cost.seconds), lasting(cost.grid_seconds), end.stop or NOT_FINISHED)
                for one, cost, end in zip(found, costs, told, strict=True)
            ),
        )


def _memory(study: Study) -> Iterator[Block]:
    """Say what fits into memory, where that was asked or where something did not fit."""
    found = memory.found_in(study)
    if not found:
        return
    sizes = [name for name in study.group_by if name in study.sweep.axes and is_size(name, study.sweep)]
    drawn = memory.charts(found, study, sizes)
    yield Block(
        heading="What fits into memory",
        sentences=memory.told(found, study),
        header=memory.header(study),
        rows=tuple(memory.row(fit, study) for fit in found),
        notes=(memory.HOW_LARGE,),
        drawing=drawn[0] if len(drawn) == 1 else None,
    )
    for one in drawn if len(drawn) > 1 else ():
        heading = f"The largest {one.axes[0]} over {one.axes[1]}" + (f": {one.label}" if one.label else "")
        yield Block(heading=heading, sentences=(one.title,), drawing=one)


def _maps(study: Study) -> Iterator[Block]:
    """Draw the frontier over each two axes that are sizes."""
    sweep, taken = study.sweep, set[str]()
    for up in list(sweep.axes)[1:]:
        if up not in study.group_by or not _is_mapped(up, sweep):
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


def _moves(study: Study, conclusion: Conclusion) -> Iterator[Block]:
    """Say how far the change moves from the first value of an axis to each other one, all else equal."""
    sweep = study.sweep
    for name in [axis for axis in study.group_by if axis in sweep.axes]:
        if _is_mapped(name, sweep):
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


def _unlike(study: Study) -> list[str]:
    """Return what tells apart steps that cost differently for the same work: machines and levers, and no sizes."""
    return [name for name in study.group_by if name == MACHINE or not is_size(name, study.sweep)]


def _is_mapped(name: str, sweep: Sweep) -> bool:
    """Whether an axis is drawn as a map with the one that is solved for."""
    return name == map_axis(sweep) if sweep.strategy == "adaptive" else is_size(name, sweep)
