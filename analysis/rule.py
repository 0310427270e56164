"""The conclusions of a study as a small table to use in code: from what size to what size which target, and how sure.

It holds nothing outside the range that was measured and compared; its ends are where the bands of the verdict meet
zero.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.bands import Crossings, find_crossings
from analysis.conclusion import Group, conclude
from analysis.load import MACHINE, Study, kinds_of_machine
from analysis.predict import fixed_values
from analysis.sentence import WINNERS, Topic, known
from sweeps.errors import StudyError
from sweeps.own import short_name


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A part of the axis.

    Attributes:
        start, end: In the unit of the axis, both included.
        use: Target to use, the more likely one where it is not sure; empty where nothing tells. Where a sure stretch
            meets an unsure one, the sure one holds at their common end.
        sure: Whether the 95 % band excludes that the other target is the right one, all along.
    """

    start: float
    end: float
    use: str
    sure: bool


def rule(study: Study) -> dict[str, Any]:
    """Return the table of a study, as plain values.

    Returns:
        `study`, `question`, `workload`, `parameters` (all that was the same
        throughout, defaults too), `axis`, `baseline`, `challenger`, `margin`, and
        `rules`: a list of `where` (values of the other axes), `machine` (null where it is not known), `from`, `to`,
        `use` (null where nothing tells) and `sure`, along the axis for one group after another.

    Raises:
        StudyError: The rows cannot answer the question.
    """
    conclusion, sweep = conclude(study), study.sweep
    rows = []
    for number, group in enumerate(conclusion.groups):
        key = {name: _native(conclusion.crossovers[name].iloc[number]) for name in study.group_by}
        place = {
            "where": {name: value for name, value in key.items() if name != MACHINE},
            "machine": key.get(MACHINE) or _machine(group.frame, group.topic),
        }
        rows += [
            {**place, "from": part.start, "to": part.end, "use": part.use or None, "sure": part.sure}
            for part in stretches(group)
        ]
    return {
        "study": study.name,
        "question": sweep.question,
        "workload": short_name(sweep.workload),
        "parameters": {**sweep.parameters, **_fixed(study)},
        "axis": sweep.axis,
        "baseline": sweep.baseline,
        "challenger": sweep.challenger,
        "margin": sweep.margin,
        "rules": rows,
    }


def write(study: Study, path: Path) -> None:
    """Write the table of a study to a JSON file.

    Raises:
        StudyError: The rows cannot answer the question, or the file cannot be written.
    """
    text = json.dumps(rule(study), indent=2, ensure_ascii=False) + "\n"
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StudyError(f"--rule {path}: cannot be written: {error.strerror or error}") from error


def stretches(group: Group) -> list[Stretch]:
    """Cut the range of a group into stretches of one target, from the smallest size that was compared to the largest.

    Where decided sizes contradict one another in a way that the verdict does not believe, nothing is sure.
    """
    topic, sizes = group.topic, group.sizes[group.sizes["state"] != "unknown"]
    states = [str(state) for state in sizes["state"]]
    doubtful = group.crossover["verdict"] == "undetermined" and set(WINNERS) <= set(states)
    found: list[Stretch] = []
    for part in _with_intervals(list(_parts(sizes, topic)), group):
        sure = part.sure and not doubtful
        if part.start == part.end and not sure and len(sizes) > 1:
            continue  # a size that is no more certain than what surrounds it
        if found and (found[-1].use, found[-1].sure) == (part.use, sure):
            found[-1] = Stretch(start=found[-1].start, end=part.end, use=part.use, sure=sure)
        else:
            found.append(Stretch(start=part.start, end=part.end, use=part.use, sure=sure))
    return found


def _with_intervals(parts: list[Stretch], group: Group) -> list[Stretch]:
    """Cut the bracket of each change where its interval ends, which an adaptive sweep knows better than its bands.

    Both sizes of a bracket are decided, so that the parts outside it stay as they are.
    """
    rivals = group.topic.baseline, group.topic.challenger
    row = group.crossover
    turns = {"crosses": [row], "several": list(row["changes"])}.get(str(row["verdict"]), [])
    for turn in turns:
        low, zero, high = (known(turn, name) for name in ("low", "estimate", "high"))
        start, end = known(turn, "bracket_low"), known(turn, "bracket_high")
        if low is None or zero is None or high is None or start is None or end is None:
            continue
        below, above = rivals if turn["direction"] == "challenger_above" else rivals[::-1]
        inside = [
            Stretch(start=start, end=low, use=below, sure=True),
            Stretch(start=low, end=zero, use=below, sure=False),
            Stretch(start=zero, end=high, use=above, sure=False),
            Stretch(start=high, end=end, use=above, sure=True),
        ]
        parts = [
            *(part for part in parts if part.end <= start),
            *(part for part in inside if part.start < part.end),
            *(part for part in parts if part.start >= end),
        ]
    return parts


def _parts(sizes: pd.DataFrame, topic: Topic) -> Iterator[Stretch]:
    """Yield the stretches between neighbouring sizes, cut where the band meets zero."""
    names = {"baseline": topic.baseline, "challenger": topic.challenger}
    places = sizes[topic.axis].to_numpy(dtype=np.float64).tolist()
    uses = [names.get(str(state), "") for state in sizes["state"]]
    value = sizes["log_ratio"].to_numpy(dtype=np.float64) - math.log1p(-topic.margin)
    half = (sizes["log_ratio"] - sizes["log_ratio_low"]).to_numpy(dtype=np.float64)
    leaning = ["" if math.isnan(one) else topic.baseline if one > 0 else topic.challenger for one in value.tolist()]
    if len(places) == 1:
        yield Stretch(start=places[0], end=places[0], use=uses[0] or leaning[0], sure=bool(uses[0]))
    measured = (sizes["pairs"] > 0).to_numpy()
    nodes = np.flatnonzero(measured)
    crossings = find_crossings(
        np.zeros(len(nodes), dtype=np.int64), np.log(np.array(places)[nodes]), value[nodes], half[nodes]
    )
    for first, last in pairwise(range(len(places))):
        yield from _at(places[first], uses[first])
        start, end = places[first], places[last]
        same = uses[first] if uses[first] == uses[last] else ""
        segment = int(np.searchsorted(nodes, first))
        if not (measured[first] and measured[last]) or (crossings.loose[segment] and same):
            yield Stretch(start=start, end=end, use=same, sure=bool(same))
            continue
        low, zero, high = _unsure(crossings, segment, start, end)
        if math.isnan(low):
            yield Stretch(start=start, end=end, use=same, sure=bool(same))
            continue
        if low > start:
            yield Stretch(start=start, end=low, use=uses[first], sure=True)
        if low < zero < high:
            yield Stretch(start=low, end=zero, use=leaning[first], sure=False)
            yield Stretch(start=zero, end=high, use=leaning[last], sure=False)
        else:
            near = first if zero >= high or math.isnan(zero) else last
            yield Stretch(start=low, end=high, use=leaning[near], sure=False)
        if high < end:
            yield Stretch(start=high, end=end, use=uses[last], sure=True)
    if len(places) > 1:
        yield from _at(places[-1], uses[-1])


def _at(size: float, use: str) -> Iterator[Stretch]:
    """A measured size of which its band, or a limit, is sure is so even between stretches that are not."""
    if use:
        yield Stretch(start=size, end=size, use=use, sure=True)


def _unsure(crossings: Crossings, segment: int, start: float, end: float) -> tuple[float, float, float]:
    """Return, as sizes, where the band of a segment holds zero and where its curve is zero; NaN where nowhere.

    Where no smooth curve says where, it is all of the segment.
    """
    # NaN where one of the two edges does not reach zero, and then the band does not hold it.
    low = float(np.maximum(crossings.lower_first[segment], crossings.upper_first[segment]))
    high = float(np.minimum(crossings.lower_last[segment], crossings.upper_last[segment]))
    zero = math.exp(crossings.zero[segment])
    if crossings.loose[segment]:
        return start, zero, end
    if not low <= high:
        return math.nan, zero, math.nan
    return _size_at(low, start, end), zero, _size_at(high, start, end)


def _size_at(position: float, start: float, end: float) -> float:
    """Return the size at a position; logarithm and back may miss a measured size by a rounding error, and leave it."""
    size = math.exp(position)
    return next((near for near in (start, end) if math.isclose(size, near, rel_tol=1e-12)), size)


def _fixed(study: Study) -> dict[str, Any]:
    """Return the parameters that are the same in all rows that have them."""
    found = fixed_values(study)
    return {name: values[0] for name, values in found.items() if name != MACHINE and len(values) == 1}


def _machine(frame: pd.DataFrame, topic: Topic) -> str | None:
    """Return the kind of machine that the two targets ran on, or both kinds; None where no row says one."""
    kinds = kinds_of_machine(frame)
    own = [kinds[frame["target"].eq(name)].dropna().unique().tolist() for name in (topic.baseline, topic.challenger)]
    return " against ".join(dict.fromkeys(str(kind) for side in own for kind in side)) or None


def _native(value: Any) -> Any:
    if pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value
