"""Which target to use at a size, by what factor: read off the curves and bands that the verdict comes from.

Nothing is said outside the range that was measured and compared; there the nearest measured point has to do.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.bands import band_at, find_crossings
from analysis.conclusion import Conclusion, Group, conclude
from analysis.load import KIND, MACHINE, Study, kinds_of_machine
from analysis.rounding import listed, number, percent, shown, times
from analysis.sentence import WINNERS, Topic, ratio, ratio_range
from sweeps.errors import InputError, did_you_mean, show
from sweeps.parameter import Value
from sweeps.record import COLUMNS

#: Columns of a study's rows that are neither of the record nor parameters.
ADDED = frozenset({KIND, MACHINE, "resolution_s"})
#: How a lever is asked for that means nothing in the rows asked about.
NOTHING = "none"
#: A list of legal values longer than this is shortened.
MOST_LISTED = 12


@dataclass(frozen=True, kw_only=True)
class Point:
    """What a size shows.

    Attributes:
        size: In the unit of the axis.
        use: Target to use; empty where it is too close to call.
        speedup: Seconds of the baseline / seconds of the challenger: above 1 the challenger is faster; NaN where only
            the winner is known.
        speedup_low, speedup_high: Its 95 % interval.
        why: Why the winner is known without a factor, such as "cpu timed out"; else empty.
    """

    size: float
    use: str
    speedup: float
    speedup_low: float
    speedup_high: float
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What can be said of one size.

    Attributes:
        values: All that was asked: the size, the values of the other axes, the machine.
        baseline, challenger: The two targets.
        margin: What the challenger has to be faster, to be used.
        inside: Whether the size lies in the range that was compared; nothing is said elsewhere.
        found: What is said; None outside.
        nearest: The nearest size that was compared, and what it showed; None where none was.
        sentence: All of it in words.
    """

    values: Mapping[str, Value | None]
    baseline: str
    challenger: str
    margin: float
    inside: bool
    found: Point | None
    nearest: Point | None
    sentence: str

    @property
    def use(self) -> str:
        """Target to use; empty where that is not known."""
        return self.found.use if self.found else ""


#: Why a ratio between two sizes may be anything between those at them.
JUMPS = "the ratio jumps, and may be anything between"
FAR_APART = "the sizes lie too far apart for a curve between them, so that the ratio may be anything between"


@dataclass(frozen=True, kw_only=True)
class _Read:
    """What the curve says at a position: a log ratio with its band, and why it says little there, if it does."""

    ratio: float
    low: float
    high: float
    doubt: str


def predict(study: Study, values: Mapping[str, Value]) -> Prediction:
    """Say which target to use at a size, and by what factor, from what a study has measured.

    The interval is that of the typical ratio at the size, not of a single run.

    Args:
        study: The study.
        values: The size, by the name of the axis; a value for each other axis, and `machine` where there are several
            kinds. What is the same throughout the study may be given too.

    Raises:
        InputError: A value is missing, or is none of those that were measured.
        StudyError: The rows cannot answer the question.
    """
    asked = _Asked(study, conclude(study), values)
    group, size, topic = asked.group, asked.size, asked.group.topic
    compared = group.sizes[group.sizes["state"] != "unknown"]
    found: Point | None = None
    nearest: Point | None = None
    more: list[str] = []
    if compared.empty:
        said = f"Nothing was compared there. {group.sentence}"
    else:
        places = compared[topic.axis].to_numpy(dtype=np.float64)
        nearest = _point(compared.iloc[int(np.argmin(np.abs(np.log(places / size))))], topic)
        if places[0] <= size <= places[-1]:
            found, more = _inside(compared, size, topic)
            more = [*_tried(group.sizes, size, topic), *more]
            said = _words(found, topic, asked.place_of(size))
        else:
            said = _outside(group.sizes, size, topic)
            more = [f"The nearest measured point: {_words(nearest, topic, asked.place_of(nearest.size))}"]
    if found and found.use and group.crossover["verdict"] == "undetermined":
        more = [*more, f"Of the whole range the study is not sure: {group.crossover['reasons'][0]}."]
    return Prediction(
        values=asked.values,
        baseline=topic.baseline,
        challenger=topic.challenger,
        margin=topic.margin,
        inside=found is not None,
        found=found,
        nearest=nearest,
        sentence=" ".join([said, *more]),
    )


def fixed_values(study: Study) -> dict[str, list[Value]]:
    """Return what no comparison of a study is split by, by name: what was fixed, with defaults, and the machine.

    Returns:
        The values that the rows have: one where it is the same in all rows that have it; none where it means nothing.
    """
    frame, keys = study.frame, [study.sweep.axis, *study.group_by]
    names = [name for name in frame if name not in COLUMNS | ADDED and name not in keys]
    found = {str(name): frame[name].dropna().unique().tolist() for name in names}
    if MACHINE not in keys:
        found[MACHINE] = [str(kind) for kind in kinds_of_machine(frame).dropna().unique()]
    return found


def to_json(prediction: Prediction) -> str:
    """Return a prediction as JSON text; what is not known is null."""
    fields = asdict(prediction)
    found, nearest = (_plain(fields[name]) for name in ("found", "nearest"))
    told = {name: fields[name] for name in ("values", "baseline", "challenger", "margin", "inside")}
    return json.dumps(
        {**told, "use": prediction.use or None, "found": found, "nearest": nearest, "sentence": prediction.sentence},
        indent=2,
        ensure_ascii=False,
    )


def _inside(compared: pd.DataFrame, size: float, topic: Topic) -> tuple[Point, list[str]]:
    """Return what is known at a size within the range, and what to say besides."""
    places = compared[topic.axis].to_numpy(dtype=np.float64)
    exact = np.flatnonzero(places == size)
    if exact.size:
        return _point(compared.iloc[int(exact[0])], topic), []
    after = int(np.searchsorted(places, size))
    before = compared.iloc[after - 1], compared.iloc[after]
    between = f"{topic.axis} {number(places[after - 1])} and {number(places[after])}"
    if all(row["pairs"] > 0 for row in before):
        read = _read(compared[compared["pairs"] > 0], size, topic)
        found = _judged(size, read.ratio, read.low, read.high, topic)
        if read.doubt:
            return found, [f"Between {between}, where it was measured, {read.doubt}."]
        return found, [f"Measured at {between}; between them it is read off the curve."]
    lacking = [number(float(row[topic.axis])) for row in before if row["pairs"] == 0]
    where = "either" if len(lacking) == len(before) else lacking[0]
    states = {str(row["state"]) for row in before}
    winner = states.pop() if len(states) == 1 else ""
    use = {"baseline": topic.baseline, "challenger": topic.challenger}.get(winner, "")
    why = next(str(row["known_sign"]) for row in before if row["pairs"] == 0)
    return (
        Point(size=size, use=use, speedup=math.nan, speedup_low=math.nan, speedup_high=math.nan, why=why),
        [f"Compared at {between}, without a ratio at {where}."],
    )


def _read(nodes: pd.DataFrame, size: float, topic: Topic) -> _Read:
    position = np.log(nodes[topic.axis].to_numpy(dtype=np.float64))
    value = nodes["log_ratio"].to_numpy(dtype=np.float64)
    half = value - nodes["log_ratio_low"].to_numpy(dtype=np.float64)
    at = math.log(size)
    middle, low, high = band_at(position, value, half, at)
    segment = int(np.searchsorted(position, at, side="right")) - 1
    crossings = find_crossings(np.zeros(len(position), dtype=np.int64), position, value, half)
    if not crossings.loose[segment]:
        return _Read(ratio=middle, low=low, high=high, doubt="")
    ends = slice(segment, segment + 2)
    return _Read(
        ratio=middle,
        low=float((value - half)[ends].min()),
        high=float((value + half)[ends].max()),
        doubt=JUMPS if crossings.jump[segment] else FAR_APART,
    )


def _judged(size: float, ratio: float, low: float, high: float, topic: Topic) -> Point:
    """Return a point of which a log ratio is known; the challenger is used where it keeps the margin."""
    shift = -math.log1p(-topic.margin)
    use = topic.challenger if high + shift < 0 else topic.baseline if low + shift > 0 else ""
    return Point(size=size, use=use, speedup=math.exp(-ratio), speedup_low=math.exp(-high), speedup_high=math.exp(-low))


def _point(row: pd.Series[Any], topic: Topic) -> Point:
    """Return what a measured size showed."""
    size = float(row[topic.axis])
    if row["pairs"] > 0:
        return _judged(size, row["log_ratio"], row["log_ratio_low"], row["log_ratio_high"], topic)
    use = {"baseline": topic.baseline, "challenger": topic.challenger}.get(str(row["state"]), "")
    why = str(row["known_sign"])
    return Point(size=size, use=use, speedup=math.nan, speedup_low=math.nan, speedup_high=math.nan, why=why)


def _words(found: Point, topic: Topic, place: str) -> str:
    where = f"At {place}"
    base, chal = topic.baseline, topic.challenger
    needed = times(1 / (1 - topic.margin))
    faster = f"{topic.faster} ({needed})" if topic.margin > 0 else topic.faster
    if math.isnan(found.speedup):
        if not found.use:
            return f"{where} the winner is not known."
        said = f"{chal} {topic.does_not} {faster} than {base}"
        if found.use == chal or topic.margin == 0:
            said = f"{found.use} {topic.does} {faster} than {base if found.use == chal else chal}"
        return f"{where}, {said}; by what factor is not known ({found.why})."
    low, middle, high = (-math.log(value) for value in (found.speedup_high, found.speedup, found.speedup_low))
    interval = f"95 % interval {ratio_range(low, high, topic)}"
    if not found.use:
        doubt = (
            f"whether {chal} {topic.does} {faster} than {base}"
            if topic.margin > 0
            else f"which of {base} and {chal} {topic.does} faster"
        )
        return f"{where} it is too close to call {doubt}: {ratio(middle, topic)}, {interval}."
    if topic.margin > 0 and found.use == base:
        return f"{where}, {chal} {topic.does_not} {faster} than {base}: {ratio(middle, topic)}, {interval}."
    loser = base if found.use == chal else chal
    kept = f", at least the {needed} ({percent(topic.margin)} less time) that is asked for" if topic.margin > 0 else ""
    by = times(math.exp(abs(middle)))
    return f"{where}, {found.use} {topic.does} {by} faster than {loser} ({interval}){kept}."


def _outside(sizes: pd.DataFrame, size: float, topic: Topic) -> str:
    compared = sizes.loc[sizes["state"] != "unknown", topic.axis]
    low, high = number(float(compared.min())), number(float(compared.max()))
    reach = f"from {low} to {high}" if low != high else f"at {low} only"
    where = f"{topic.axis} {number(size)}"
    said = f"{where} is outside what was measured and compared ({reach}), so nothing is said of it."
    return " ".join([said, *_tried(sizes, size, topic)])


def _tried(sizes: pd.DataFrame, size: float, topic: Topic) -> list[str]:
    """Say of a size that was not compared that it was tried, and how that ended."""
    return [
        f"That size was tried, and there is no pair to compare ({'; '.join(ended)})."
        for tried in sizes[(sizes[topic.axis] == size) & (sizes["state"] == "unknown")].to_dict("records")
        for ended in [[f"{getattr(topic, side)}: {tried[f'{side}_status']}" for side in WINNERS]]
    ]


def _plain(point: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a point as JSON takes it: no NaN, and null for an empty text."""
    if point is None:
        return None
    return {
        name: None if value == "" or (isinstance(value, float) and not math.isfinite(value)) else value
        for name, value in point.items()
    }


class _Asked:
    """The values that were given, checked against what the study holds."""

    def __init__(self, study: Study, conclusion: Conclusion, values: Mapping[str, Value]) -> None:
        self._study, self._given = study, dict(values)
        self._axis, self._names = study.sweep.axis, list(study.group_by)
        self._keys = conclusion.crossovers[self._names]
        self._groups, self._fixed = conclusion.groups, fixed_values(study)
        self._check_names()
        self._check_fixed()
        rows = self._matching()
        missing = [name for name in self._names if name not in self._given and rows[name].nunique(dropna=False) > 1]
        if self._axis not in self._given or missing:
            raise InputError(self._ask_for([self._axis] * (self._axis not in self._given) + missing, rows))
        self.size = self._size()
        self.group: Group = conclusion.groups[rows.index[0]]
        self._key = {name: _native(rows[name].iloc[0]) for name in self._names}
        self.values: dict[str, Value | None] = {self._axis: _whole(self.size), **self._key}

    def place_of(self, size: float) -> str:
        """Return a size with what else was asked: "batch_size 300 and width 64 on Example CPU"."""
        parts = [f"{self._axis} {number(size)}"]
        parts += [f"{name} {shown(v)}" for name, v in self._key.items() if name != MACHINE and v is not None]
        machine = self._key.get(MACHINE)
        return listed(parts) + (f" on {machine}" if machine else "")

    def _check_names(self) -> None:
        known = [self._axis, *self._names, *self._fixed]
        for name in self._given:
            if name not in known:
                raise InputError(
                    f"{name}: is nothing that {self._study.name} varies or fixes; it asks for "
                    f"{listed([self._axis, *self._names])}.{did_you_mean(str(name), known)}"
                )

    def _check_fixed(self) -> None:
        for name, values in self._fixed.items():
            if name not in self._given:
                continue
            if not any(_is_meant(self._given[name], value, part=name == MACHINE) for value in values):
                there = f"{name} {listed(map(shown, values), MOST_LISTED)} only" if values else f"no {name}"
                raise InputError(f"{name}={self._given[name]}: was not measured; this study holds {there}")

    def _matching(self) -> pd.DataFrame:
        """Return the keys of the groups that go with what was given."""
        rows = self._keys
        for name in self._names:
            if name not in self._given:
                continue
            asked = self._given[name]
            exact = [_is_meant(asked, _native(value), part=False) for value in rows[name]]
            if name == MACHINE and not any(exact):
                exact = [_is_meant(asked, _native(value), part=True) for value in rows[name]]
            if not any(exact):
                raise InputError(f"{name}={asked}: was not measured there; it can be {self._legal(rows, name)}")
            rows = rows[exact]
            if name == MACHINE and rows[name].nunique() > 1:
                raise InputError(f"{name}={asked}: is part of several; it can be {self._legal(rows, name)}")
        return rows

    def _ask_for(self, missing: list[str], rows: pd.DataFrame) -> str:
        parts = []
        for name in missing:
            if name == self._axis:
                parts.append(f"{name}=..., {self._reach(rows)}")
            else:
                parts.append(f"{name}=..., one of {self._legal(rows, name)}")
        return f"to predict from {self._study.name}, give also {'; '.join(parts)}"

    def _reach(self, rows: pd.DataFrame) -> str:
        """Say between what sizes some group of these was compared."""
        tables = [self._groups[place].sizes for place in rows.index]
        sizes = pd.concat([table.loc[table["state"] != "unknown", self._axis] for table in tables])
        if sizes.empty:
            return "though no size could be compared"
        return f"from {number(float(sizes.min()))} to {number(float(sizes.max()))}"

    def _legal(self, rows: pd.DataFrame, name: str) -> str:
        values = [_native(value) for value in rows[name]]
        return listed(dict.fromkeys(NOTHING if value is None else shown(value) for value in values), MOST_LISTED)

    def _size(self) -> float:
        given = self._given[self._axis]
        try:
            size = math.nan if isinstance(given, bool) else float(given)
        except ValueError:
            size = math.nan
        if not 0 < size < math.inf:
            raise InputError(f"{self._axis}={show(given)}: must be a number above 0")
        return size


def _is_meant(asked: Value, value: Value | None, *, part: bool) -> bool:
    """Whether what was given names a value: equal as a number or as text, or for `part` contained in it."""
    if value is None:
        return str(asked).lower() == NOTHING
    try:
        return not isinstance(asked, bool) and float(asked) == float(value)
    except ValueError:
        text, known = str(asked).lower(), str(value).lower()
        return text in known if part else text == known


def _native(value: Any) -> Value | None:
    """Return a cell of a frame as a plain value; None where it is null."""
    if pd.isna(value):
        return None
    plain: Value = value.item() if hasattr(value, "item") else value
    return plain


def _whole(size: float) -> Value:
    return int(size) if size.is_integer() else size
