"""The conclusions of a study: its crossovers, each with its sentence and all that belongs to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.crossover import crossovers
from analysis.explain import explain
from analysis.load import MACHINE, Study
from analysis.partners import spread
from analysis.rounding import shown
from analysis.sentence import Topic, verdict_sentence
from analysis.summary import summarise
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
    """The crossovers of a study, each with its sentence, as a frame and group by group."""

    crossovers: pd.DataFrame
    groups: tuple[Group, ...]


def conclude(study: Study) -> Conclusion:
    """Draw the conclusions of a study.

    Raises:
        StudyError: Its rows cannot answer the question, for example because its sizes are no numbers.
    """
    sweep = study.sweep
    rows = pd.concat([study.compared, study.rungs], ignore_index=True) if len(study.rungs) else study.compared
    names = [target.name for target in sweep.targets]
    rows = spread(rows[rows["target"].isin(names)], study.group_by)
    rows = rows.assign(target=pd.Categorical(rows["target"], categories=names))
    whole = rows["rung"] == HEADLINE
    frame = rows[whole]
    asked: dict[str, Any] = {
        "axis": sweep.axis,
        "baseline": sweep.baseline,
        "challenger": sweep.challenger,
        "group_by": list(study.group_by) or None,
        "drift": study.drift,
    }
    other_margin = 0.0 if sweep.margin > 0 else PRACTICAL
    try:
        found = crossovers(frame, margin=sweep.margin, **asked)
        sizes = summarise(frame, margin=sweep.margin, **asked)
        practical = crossovers(frame, margin=other_margin, **asked)
        practical_sizes = summarise(frame, margin=other_margin, **asked)
        told = asked | {"group_by": study.group_by, "workload": sweep.workload}
        parts = explain(rows if not whole.all() else frame.iloc[:0], **told)
    except ValueError as error:
        raise StudyError(f"{study.folder}: {error}") from error
    groups = []
    taken: set[str] = set()
    for (_, row), (_, other) in zip(found.iterrows(), practical.iterrows(), strict=True):
        key = {name: row[name] for name in study.group_by}
        own = _rows_of(frame, key)
        topic = Topic(
            axis=sweep.axis,
            baseline=sweep.baseline,
            challenger=sweep.challenger,
            workload=sweep.workload,
            margin=sweep.margin,
            passes=sweep.passes,
            absences=study.absences(own),
            invalid=frozenset(name for name in names if set(own.loc[own["target"] == name, "status"]) == {"invalid"}),
        )
        label = _label(key)
        own_sizes = _rows_of(sizes, key)
        groups.append(
            Group(
                label=label,
                slug=_slug(label, taken),
                sentence=verdict_sentence(_row(row), own_sizes, topic, _where(key)),
                practical=verdict_sentence(
                    _row(other), _rows_of(practical_sizes, key), topic.with_margin(other_margin)
                ),
                crossover=_row(row),
                sizes=own_sizes,
                frame=own,
                parts=_rows_of(parts, key),
                topic=topic,
            )
        )
    return Conclusion(crossovers=found.assign(sentence=[g.sentence for g in groups]), groups=tuple(groups))


def _rows_of(frame: pd.DataFrame, key: Mapping[str, Any]) -> pd.DataFrame:
    wanted = pd.Series(True, index=frame.index)
    for name, value in key.items():
        wanted &= frame[name].isna() if pd.isna(value) else frame[name] == value
    return frame[wanted]


def _label(key: Mapping[str, Any]) -> str:
    known = {name: value for name, value in key.items() if not pd.isna(value)}  # a null lever means nothing here
    parts = [shown(value) if name == MACHINE else f"{name} {shown(value)}" for name, value in known.items()]
    return ", ".join(parts)


def _where(key: Mapping[str, Any]) -> str:
    """Return how a sentence about the group begins: "With width 64 on Example CPU, 8 cores"."""
    axes = [f"{name} {shown(value)}" for name, value in key.items() if name != MACHINE and not pd.isna(value)]
    parts = [*(["with " + ", ".join(axes)] if axes else []), *([f"on {key[MACHINE]}"] if MACHINE in key else [])]
    text = " ".join(parts)
    return text[:1].upper() + text[1:]


def _slug(label: str, taken: set[str]) -> str:
    """Return the label as a part of a file name that no other group has."""
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
