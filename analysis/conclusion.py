"""The conclusions of a study: its crossovers, each with its sentence and all that belongs to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.at_once import headline_words
from analysis.crossover import crossovers
from analysis.explain import explain
from analysis.load import MACHINE, Study
from analysis.local import narrowed
from analysis.measures import TIME, Measure
from analysis.partners import spread
from analysis.recorded import sides_words
from analysis.rounding import listed, number, shown
from analysis.sentence import Topic, verdict_sentence
from analysis.step_times import trainings_at_once
from analysis.summary import summarise
from sweeps.definition import Sweep
from sweeps.errors import StudyError
from sweeps.ladder import HEADLINE

#: "A practical win" is this much faster, where the sweep itself asks for any win.
PRACTICAL = 0.1
SLUG_CHARACTERS = 60


@dataclass(frozen=True, kw_only=True)
class Group:
    """One comparison: a row of the crossovers and all that belongs to it.

    Attributes:
        label: What sets it apart, for example "width 64"; empty if there is only one.
        slug: The label as a part of a file name; empty if there is only one.
        sentence: The verdict in words.
        practical: The verdict for another margin, in words: at least 10 % faster, or where the sweep has a
            margin, any win.
        crossover: Its row of `analysis.crossovers`.
        sizes: Its rows of `summarise`.
        frame: Its trials.
        parts: Where the time of its steps goes: its rows of `explain`; none where no ladder was measured.
        topic: What was asked.
    """

    label: str
    slug: str
    sentence: str
    practical: str
    crossover: Mapping[str, Any]
    sizes: pd.DataFrame
    frame: pd.DataFrame
    parts: pd.DataFrame
    topic: Topic


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """The conclusions of a study.

    Attributes:
        crossovers: One row a group, as `analysis.crossovers` gives it, with its `sentence`.
        groups: The same, with all that belongs to each.
        rows: What they are drawn from: one row a trial of any rung; where a lever means nothing on a target, one for
            each of its values.
    """

    crossovers: pd.DataFrame
    groups: tuple[Group, ...]
    rows: pd.DataFrame


_NONE_COMPARED = pd.DataFrame({"sentence": pd.Series([], dtype="str")})


def conclude(study: Study) -> Conclusion:
    """Draw the conclusions of a study.

    Returns:
        The conclusions; none of a sweep that looks for what fits into memory, see `analysis.memory`.

    Raises:
        StudyError: Its rows cannot answer the question, for example because its sizes are no numbers.
    """
    sweep = study.sweep
    if sweep.strategy == "largest":  # each target has sizes of its own, and times of a few steps
        return Conclusion(crossovers=_NONE_COMPARED, groups=(), rows=study.compared.iloc[:0])
    rows = pd.concat([study.compared, study.rungs], ignore_index=True) if len(study.rungs) else study.compared
    names = [target.name for target in sweep.targets]
    rows = spread(rows[rows["target"].isin(names)], study.group_by)
    rows = rows.assign(target=pd.Categorical(rows["target"], categories=names))
    whole = rows["rung"] == HEADLINE
    rivals = {"axis": sweep.axis, "baseline": sweep.baseline, "challenger": sweep.challenger}
    try:
        parts = explain(
            rows if not whole.all() else rows.iloc[:0],
            **rivals,
            workload=sweep.workload,
            group_by=study.group_by,
            drift=study.drift,
        )
        found, groups = judge(
            rows[whole], study, (sweep.baseline, sweep.challenger), group_by=study.group_by, parts=parts
        )
    except ValueError as error:
        raise StudyError(f"{study.folder}: {error}") from error
    return Conclusion(crossovers=found, groups=groups, rows=rows)


def judge(
    frame: pd.DataFrame,
    study: Study,
    rivals: tuple[str, str],
    *,
    group_by: Sequence[str],
    parts: pd.DataFrame | None = None,
    measure: Measure = TIME,
) -> tuple[pd.DataFrame, tuple[Group, ...]]:
    """Conclude from rows of a study who of two targets wins from what size, group by group.

    Args:
        frame: One row a trial of the whole step.
        study: What was asked, and how long it took.
        rivals: Names of baseline and challenger in these rows.
        group_by: Columns that split them into groups.
        parts: Where the time of their steps goes, as `analysis.explain.explain` says it.
        measure: What stands in `step_times_s` of these rows.

    Returns:
        The rows of `analysis.crossovers` with the column `sentence`; and the groups in the same order.

    Raises:
        ValueError: The rows cannot answer, for example because sizes are no numbers.
    """
    sweep, (baseline, challenger) = study.sweep, rivals
    asked: dict[str, Any] = {
        "axis": sweep.axis,
        "baseline": baseline,
        "challenger": challenger,
        "group_by": list(group_by) or None,
        "drift": study.drift,
    }
    other_margin = 0.0 if sweep.margin > 0 else PRACTICAL
    found = concluding(sweep)(frame, margin=sweep.margin, **asked)
    sizes = summarise(frame, margin=sweep.margin, **asked)
    practical = concluding(sweep)(frame, margin=other_margin, **asked)
    practical_sizes = summarise(frame, margin=other_margin, **asked)
    groups = []
    taken: set[str] = set()
    for (_, row), (_, other) in zip(found.iterrows(), practical.iterrows(), strict=True):
        key = {name: row[name] for name in group_by}
        own = rows_of(frame, key)
        topic = Topic(
            axis=sweep.axis,
            baseline=baseline,
            challenger=challenger,
            workload=sweep.workload,
            margin=sweep.margin,
            passes=sweep.passes if sweep.strategy == "grid" else 0,
            absences=study.absences(own, rivals),
            invalid=frozenset(name for name in rivals if set(own.loc[own["target"] == name, "status"]) == {"invalid"}),
            measure=measure,
        )
        at_once = headline_words(own, rivals) if measure is TIME else []
        label = label_of(key)
        own_sizes = rows_of(sizes, key)
        sentence = verdict_sentence(_row(row), own_sizes, topic, _where(key))
        groups.append(
            Group(
                label=label,
                slug=slug_of(label, taken),
                sentence=" ".join([sentence, *_alone(own, topic), *at_once, *sides_words(own, topic)]),
                practical=verdict_sentence(_row(other), rows_of(practical_sizes, key), topic.with_margin(other_margin)),
                crossover=_row(row),
                sizes=own_sizes,
                frame=own,
                parts=pd.DataFrame() if parts is None else rows_of(parts, key),
                topic=topic,
            )
        )
    return found.assign(sentence=[group.sentence for group in groups]), tuple(groups)


def concluding(sweep: Sweep) -> Callable[..., pd.DataFrame]:
    """Return what draws the conclusions of a sweep: `analysis.crossovers`, or what stands for it after a search."""
    return narrowed if sweep.strategy == "adaptive" else crossovers


def _alone(frame: pd.DataFrame, topic: Topic) -> list[str]:
    """Say so where an accelerator's rival is one thread of a CPU that has more: to win there is not to beat the CPU."""
    said = []
    ok = frame[frame["status"] == "ok"]
    for name, rival in ((topic.baseline, topic.challenger), (topic.challenger, topic.baseline)):
        own, other = ok[ok["target"] == name], ok[ok["target"] == rival]
        one = own["device"].eq("cpu") & own["threads_observed"].eq(1) & own["cores_usable"].gt(1)
        one &= trainings_at_once(own) == 1
        if len(own) and one.all() and other["device"].ne("cpu").any():
            cores = listed(sorted({number(float(cores)) for cores in own["cores_usable"].dropna()}))
            said.append(f"({name} is one CPU thread on {cores} cores: a CPU that uses them all is another rival.)")
    return said


def rows_of(frame: pd.DataFrame, key: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows in which columns have these values; a null has its equals."""
    wanted = pd.Series(True, index=frame.index)
    for name, value in key.items():
        wanted &= frame[name].isna() if pd.isna(value) else frame[name] == value
    return frame[wanted]


def label_of(key: Mapping[str, Any]) -> str:
    """Return what sets a group apart, from its columns: "width 64, Example CPU"; empty if nothing does."""
    known = {name: value for name, value in key.items() if not pd.isna(value)}  # a null lever means nothing here
    parts = [shown(value) if name == MACHINE else f"{name} {shown(value)}" for name, value in known.items()]
    return ", ".join(parts)


def _where(key: Mapping[str, Any]) -> str:
    """Return how a sentence about the group begins: "With width 64 on Example CPU, 8 cores"."""
    axes = [f"{name} {shown(value)}" for name, value in key.items() if name != MACHINE and not pd.isna(value)]
    parts = [*(["with " + ", ".join(axes)] if axes else []), *([f"on {key[MACHINE]}"] if MACHINE in key else [])]
    text = " ".join(parts)
    return text[:1].upper() + text[1:]


def slug_of(label: str, taken: set[str]) -> str:
    """Return the label as a part of a file name that is not taken, and take it."""
    if not label:
        return ""
    plain = re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-.")[:SLUG_CHARACTERS].strip("-.") or "group"
    slug, count = plain, 2
    while slug in taken:
        slug, count = f"{plain}-{count}", count + 1
    taken.add(slug)
    return slug


def _row(series: pd.Series[Any]) -> dict[str, Any]:
    return {str(name): value for name, value in series.items()}
