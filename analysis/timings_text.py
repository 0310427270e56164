"""What is said about timings that somebody else measured: a block of text for each comparison, or JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from analysis.conclusion import PRACTICAL, Group
from analysis.contents import thresholds
from analysis.crossover import crossovers
from analysis.report import plain
from analysis.rounding import Scale, listed, number, seconds, shown, times
from analysis.sentence import Topic, interval_words, known, verdict_sentence
from analysis.summary import summarise
from analysis.timings import OK, Timings
from sweeps.errors import InputError

WIDTH = 80
NO_BREAK = "\N{NO-BREAK SPACE}"
#: Changes of the faster target beyond this many are counted.
NAMED = 6
#: With at least so many changes it is asked whose times jump there, and with this many times the other's jump, told.
RESTLESS_CHANGES = 4
RESTLESS = 3.0
#: A target whose time stays within the one factor while the other's grows by the other: was it waited for?
FLAT, GROWN, FLAT_SIZES = 1.25, 100.0, 3


def conclude_timings(timings: Timings) -> tuple[pd.DataFrame, tuple[Group, ...]]:
    """Draw the conclusions of a file.

    Returns:
        The rows of `analysis.crossovers` with the column `sentence`, and the groups that belong to them.

    Raises:
        InputError: Its rows cannot answer the question.
    """
    reading, frame = timings.reading, timings.frame
    asked: dict[str, Any] = {
        "axis": timings.axis,
        "baseline": reading.baseline,
        "challenger": reading.challenger,
        "group_by": list(reading.group_by) or None,
    }
    try:
        found, sizes = crossovers(frame, **asked), summarise(frame, **asked)
        practical = crossovers(frame, margin=PRACTICAL, **asked)
        practical_sizes = summarise(frame, margin=PRACTICAL, **asked)
    except ValueError as error:
        raise InputError(f"{timings.path}: {error}") from error
    topic = Topic(axis=reading.axis, baseline=reading.baseline, challenger=reading.challenger)
    groups = []
    parts = zip(*(_cut(part, reading.group_by) for part in (sizes, practical_sizes, frame)), strict=True)
    for row, other, (own_sizes, other_sizes, own) in zip(_rows(found), _rows(practical), parts, strict=True):
        why = list(row["reasons"])
        if reading.rate is None:
            why[1:1] = restless(row, own_sizes, topic) + flat(own_sizes, topic)
        label = ", ".join(f"{name} {shown(row[name])}" for name in reading.group_by if not pd.isna(row[name]))
        groups.append(
            Group(
                label=label,
                slug="",
                sentence=verdict_sentence(row, own_sizes, topic, f"With {label}" if label else ""),
                practical=verdict_sentence(other, other_sizes, topic.with_margin(PRACTICAL)),
                crossover=row | {"reasons": why},
                sizes=own_sizes,
                frame=own,
                parts=own.iloc[:0],
                topic=topic,
            )
        )
    told_too = {
        "reasons": [group.crossover["reasons"] for group in groups],
        "sentence": [group.sentence for group in groups],
    }
    return found.assign(**told_too), tuple(groups)


def restless(crossover: Mapping[str, Any], sizes: pd.DataFrame, topic: Topic) -> list[str]:
    """Say whose times jump, where the faster target changes again and again: a stall is no faster rival.

    Args:
        crossover: A row of `analysis.crossovers`.
        sizes: The rows of `analysis.summary.summarise` for the same group.
        topic: What was asked.

    Returns:
        One sentence, or none.
    """
    turns = crossover["changes"]
    if len(turns) < RESTLESS_CHANGES:
        return []
    at = sizes.set_index(topic.axis)[["baseline_s", "challenger_s"]]
    start, end = (at.loc[[turn[key] for turn in turns]].to_numpy() for key in ("bracket_low", "bracket_high"))
    factors = np.exp(np.nanmedian(np.abs(np.log(end) - np.log(start)), axis=0))
    seconds_each = np.nanmedian(np.abs(end - start), axis=0)
    for side, (name, other) in enumerate(((topic.baseline, topic.challenger), (topic.challenger, topic.baseline))):
        if np.log(factors[side]) > RESTLESS * np.log(factors[1 - side]):
            jump = f"{times(float(factors[side]))} or {seconds(float(seconds_each[side]))}"
            jumps = f"where the winner changes, it is the time of {name} that jumps, by {jump}"
            return [f"{jumps}, and that of {other} hardly does: look into {name} before believing in a threshold"]
    return []


def flat(sizes: pd.DataFrame, topic: Topic) -> list[str]:
    """Doubt a target whose time does not depend on the size, where the other's does by orders of magnitude.

    Args:
        sizes: The rows of `analysis.summary.summarise` for one group.
        topic: What was asked.

    Returns:
        One sentence, or none.
    """
    both = sizes.dropna(subset=["baseline_s", "challenger_s"])
    if len(both) < FLAT_SIZES:
        return []
    names = {"baseline_s": topic.baseline, "challenger_s": topic.challenger}
    spans = {name: (both[column].min(), both[column].max()) for column, name in names.items()}
    for name, other in ((topic.baseline, topic.challenger), (topic.challenger, topic.baseline)):
        (low, high), (least, most) = spans[name], spans[other]
        if high < FLAT * low and most > GROWN * least:
            grows = f"{other} takes {times(most / least)} as long at one size as at another"
            span = _span([seconds(low), seconds(high)])
            return [f"{name} takes {span} whatever the size, while {grows}: was {name} waited for?"]
    return []


def tell(timings: Timings) -> str:
    """Return what a person reads, at most 80 columns wide."""
    _, groups = conclude_timings(timings)
    return "\n\n".join("\n".join(_block(group, timings)) for group in groups) + "\n"


def to_json(timings: Timings) -> str:
    """Return the conclusions in the form of a study's `crossovers.json`."""
    found, _ = conclude_timings(timings)
    content = {
        "study": timings.path.name,
        "crossovers": [plain(row) for row in found.to_dict("records")],
        "warnings": list(timings.warnings),
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _rows(found: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in found.to_dict("records")]


def _cut(frame: pd.DataFrame, group_by: tuple[str, ...]) -> Iterator[pd.DataFrame]:
    """Cut a frame into its groups, in the order of the rows of `analysis.crossovers`."""
    if not group_by:
        return iter([frame])
    return (part for _, part in frame.groupby(list(group_by), sort=True, dropna=False, observed=True))


def _block(group: Group, timings: Timings) -> Iterator[str]:
    reading, trials = timings.reading, group.frame
    facts = {
        "crossover": _changes(group, reading.axis),
        "measured": [
            f"{name}: {_measured(trials[trials['target'] == name], timings)}"
            for name in (reading.baseline, reading.challenger)
        ],
        "thresholds": [
            f"every change of the faster one, within the noise or not: {_sign_changes(group)}",
            *(f"{fact.label}: {fact.value}" for fact in thresholds(group)),
        ],
        "reasons": [str(reason) for reason in group.crossover["reasons"]],
    }
    yield from _wrapped(group.sentence)
    for label, texts in facts.items():
        yield f"  {label}"
        for text in texts:
            yield from _item(text)


def _item(text: str) -> list[str]:
    return _wrapped(text, "    - ")


def _wrapped(text: str, bullet: str = "") -> list[str]:
    """Break a text into lines, indented below a bullet; a percentage stays whole."""
    unbroken, below = text.replace(" %", f"{NO_BREAK}%"), " " * len(bullet)
    lines = textwrap.wrap(unbroken, WIDTH, initial_indent=bullet, subsequent_indent=below, break_on_hyphens=False)
    return [line.replace(NO_BREAK, " ") for line in lines]


def _changes(group: Group, axis: str) -> list[str]:
    """Every change of the faster target: estimate, interval, bracket; or that there is none."""
    scale, topic = Scale.of(group.sizes[axis]), group.topic
    turns = list(group.crossover["changes"]) or [group.crossover]
    told = []
    for turn in turns[:NAMED]:
        estimate, low, high = (known(turn, key) for key in ("estimate", "bracket_low", "bracket_high"))
        winner = {"challenger_above": topic.challenger, "baseline_above": topic.baseline}.get(str(turn["direction"]))
        if winner is None:
            return [_open_end(turn, scale, axis)]
        at = "an estimate is not possible" if estimate is None else f"{axis} {scale.show(estimate)}"
        bracket = (
            f"measured between {axis} {number(low)} and {number(high)}" if low is not None and high is not None else ""
        )
        told.append(
            ", ".join(part for part in (f"{winner} from there on: {at}", interval_words(turn, scale), bracket) if part)
        )
    if len(turns) > NAMED:
        told.append(f"and {len(turns) - NAMED} more changes")
    return told


def _sign_changes(group: Group) -> str:
    """Between which sizes the measured times change places, whether or not that is beyond the noise."""
    topic, sizes = group.topic, group.sizes
    states = {"baseline": topic.baseline, "challenger": topic.challenger}
    winners = []
    for size, ratio, state in zip(sizes[topic.axis], sizes["log_ratio"], sizes["state"], strict=True):
        winner = topic.challenger if ratio < 0 else topic.baseline if ratio > 0 else states.get(str(state))
        if winner is not None:
            winners.append((number(float(size)), winner))
    turns = [
        f"{winner} between {before} and {size}"
        for (before, loser), (size, winner) in pairwise(winners)
        if winner != loser
    ]
    return listed(turns, NAMED) or "none"


def _open_end(turn: Mapping[str, Any], scale: Scale, axis: str) -> str:
    low, high = known(turn, "low"), known(turn, "high")
    if low is not None:
        return f"none found; if there is one, it lies above {axis} {scale.show(low, -1)}"
    if high is not None:
        return f"none found; if there is one, it lies below {axis} {scale.show(high, 1)}"
    return "none found"


def _measured(frame: pd.DataFrame, timings: Timings) -> str:
    """What was measured of one target: from the shortest to the longest time, sizes, and how often."""
    reading = timings.reading
    ok = frame[frame["status"] == OK]
    medians = ok["step_times_s"].map(np.median)
    counts = ok[reading.axis].value_counts()
    if ok.empty:
        return "nothing"
    few, many = int(counts.min()), int(counts.max())
    often = f"{few} to {many} times" if few < many else "once" if few == 1 else f"{few} times"
    rates = [f"{1 / value:.3g}" for value in (medians.max(), medians.min())] if reading.rate else []
    values = rates or [seconds(value) if value > 0 else "0 s" for value in (medians.min(), medians.max())]
    unit = f" {reading.rate}" if reading.rate else f" for one of {reading.per}" if reading.per else ""
    sizes = f"{len(counts)} size{'s' * (len(counts) != 1)}"
    return f"{_span(values)}{unit}, at {sizes}, each measured {often}"


def _span(ends: list[str]) -> str:
    return " to ".join(dict.fromkeys(ends))
