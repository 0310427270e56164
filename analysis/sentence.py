"""From one crossover to one sentence that a non-expert understands.

Terminal, chart, `report.html`, `report.md` and `crossovers.json` all show what is made here, so that the same
verdict never reads differently in two places.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from analysis.measures import TIME, Measure
from analysis.rounding import NOTHING, Scale, listed, number, percent, times
from sweeps.own import short_name

#: Two times closer than this are called equal in the table: a way of speaking, not a test.
EQUAL_WITHIN = 0.005
#: A list of sizes longer than this is shortened.
NAMED_SIZES = 4
#: Changes of the winner beyond this many are counted and not listed.
NAMED_TURNS = 6
#: The fewest passes that are advised to somebody whose answer is not decided.
ADVISED_PASSES = 5

WINNERS = ("baseline", "challenger")


@dataclass(frozen=True, kw_only=True)
class Topic:
    """What was asked, as far as words for people need it.

    Attributes:
        axis: Name of the axis that is solved for.
        baseline: Name of the target to beat.
        challenger: Name of the target that may beat it.
        workload: Family, or the user's own `FILE.py:factory`; empty for times of any work that somebody else measured.
        margin: Fraction; 0.1 asks from where the challenger is at least 10 % faster.
        passes: Replicates that were planned; 0 where a search decides how many there are.
        absences: By target, why none of its trials finished.
        invalid: Those of these targets whose trials ran, and did not do what was asked.
        measure: What is compared: time, money, or energy.
    """

    axis: str
    baseline: str
    challenger: str
    workload: str = ""
    margin: float = 0.0
    passes: int = 1
    absences: Mapping[str, str] = field(default_factory=dict)
    invalid: frozenset[str] = frozenset()
    measure: Measure = TIME

    def with_margin(self, margin: float) -> Topic:
        """Return the same topic with another margin."""
        return replace(self, margin=margin)

    @property
    def trained(self) -> str:
        """What is trained: "this mlp model", or for a user's own "this workload (model.py:make)"."""
        name = short_name(self.workload)
        return f"this {name} model" if name.isidentifier() else f"this workload ({name})"

    @property
    def names_training(self) -> bool:
        """Whether sentences say what is trained."""
        return bool(self.workload) and self.measure.of_training

    @property
    def does(self) -> str:
        """What goes before "faster": "trains this mlp model", or of any work "is"."""
        return f"trains {self.trained}" if self.names_training else self.measure.does

    @property
    def does_not(self) -> str:
        """What goes before "faster" of somebody who is not."""
        return f"does not train {self.trained}" if self.names_training else self.measure.does_not

    @property
    def more(self) -> str:
        """What to measure for a clearer answer."""
        if self.workload and not self.passes:
            return "a grid with more passes (in a folder of its own)"
        return f"more passes (--set passes={max(2 * self.passes, ADVISED_PASSES)})" if self.workload else "more repeats"

    @property
    def faster(self) -> str:
        """What the challenger has to be: "faster", or with a margin "at least 10 % faster"."""
        return self.measure.by.format(f"at least {percent(self.margin)}") if self.margin > 0 else self.better

    @property
    def better(self) -> str:
        """What a target is that takes less: "faster", "cheaper", "with less energy"."""
        return self.measure.better


def verdict_sentence(crossover: Mapping[str, Any], sizes: pd.DataFrame, topic: Topic, where: str = "") -> str:
    """Say one crossover in one sentence.

    Args:
        crossover: A row of `analysis.crossovers`.
        sizes: The rows of `analysis.summary.summarise` for the same group.
        topic: What was asked.
        where: Which group this is, for example "With width 64"; empty if there is only one.
    """
    told = _Told(crossover, sizes, topic)
    say = {
        "crosses": told.crosses,
        "several": told.several,
        "tie": told.tie,
        "always_baseline": told.always_baseline,
        "always_challenger": told.always_challenger,
        "undetermined": told.undetermined,
    }
    text = say[str(crossover["verdict"])]()
    return f"{where}: {text}" if where else text


def interval_words(turn: Mapping[str, Any], scale: Scale) -> str:
    """Return "95 % interval 29 to 48" for a crossover or one of its changes; empty where that is not closed."""
    low, high = known(turn, "low"), known(turn, "high")
    if low is None or high is None:
        return ""
    return f"95 % interval {scale.show(low, -1)} to {scale.show(high, 1)}"


def ends_of(turn: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return where a change must lie: its interval where that is closed, else the measured sizes around it."""
    low, high = known(turn, "low"), known(turn, "high")
    if low is not None and high is not None:
        return low, high
    return known(turn, "bracket_low"), known(turn, "bracket_high")


def known(turn: Mapping[str, Any], key: str) -> float | None:
    """Return a number of a crossover, or None where it is NaN: open, or not applicable."""
    value = turn.get(key)
    return None if value is None or not math.isfinite(value) else float(value)


def ratio(log_ratio: float, topic: Topic) -> str:
    """Say how two times compare: "gpu 2.3x faster"; or what is measured instead of time.

    Args:
        log_ratio: ln(challenger time / baseline time).
        topic: Whose names to use.
    """
    if not math.isfinite(log_ratio):
        return NOTHING
    if abs(log_ratio) < EQUAL_WITHIN:
        return "equal"
    winner = topic.challenger if log_ratio < 0 else topic.baseline
    return f"{winner} {topic.measure.by.format(times(math.exp(abs(log_ratio))))}"


def ratio_range(low: float, high: float, topic: Topic) -> str:
    """Say the ends of a log ratio's band: "2.1x to 2.6x", with both names where they disagree on the winner."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    if (low < 0) == (high < 0):
        near, far = sorted((math.exp(abs(low)), math.exp(abs(high))))
        return f"{times(near, -1)} to {times(far, 1)}"
    return f"{topic.challenger} {times(math.exp(-low), 1)} to {topic.baseline} {times(math.exp(high), 1)}"


class _Told:
    """One crossover about to be told: a method for each verdict."""

    def __init__(self, crossover: Mapping[str, Any], sizes: pd.DataFrame, topic: Topic) -> None:
        self.row = crossover
        self.topic = topic
        self.base, self.chal = topic.baseline, topic.challenger
        self.states = [(float(size), str(state)) for size, state in zip(sizes[topic.axis], sizes["state"], strict=True)]
        self.scale = Scale.of(size for size, _ in self.states)

    def crosses(self) -> str:
        start = f"From {self._turn(self.row, named=True)}"
        if self.row["direction"] == "challenger_above":
            return f"{start}, {self._wins('challenger')}."
        if self.topic.margin > 0:
            return f"{start}, {self._wins('baseline')} any more."
        return f"{start}, {self._wins('baseline')}, which wins only below that."

    def several(self) -> str:
        turns = list(self.row["changes"])
        to_challenger = [turn["direction"] == "challenger_above" for turn in turns]
        if len(turns) > NAMED_TURNS:
            than = f" than {self.base}" if self.topic.margin > 0 else ""
            what = f"{self.chal} {self.topic.does} {self.topic.faster}{than}"
            low, high = known(turns[0], "bracket_low"), known(turns[-1], "bracket_high")
            ends = f" between {self.topic.axis} {number(low)} and {number(high)}" if low and high else ""
            return f"Whether {what} changes {len(turns)} times{ends}: there is no one size from which on it does."
        begins = "baseline" if to_challenger[0] else "challenger"
        if self.topic.margin > 0:
            parts = [
                f"{'yes' if up else 'no'} from {self._turn(turn)}"
                for up, turn in zip(to_challenger, turns, strict=True)
            ]
            first = "no" if begins == "baseline" else "yes"
            return (
                f"Whether {self._wins('challenger')} changes {len(turns)} times along {self.topic.axis}: "
                f"{first} at the smallest sizes, {listed(parts)}."
            )
        parts = [
            f"{self.chal if up else self.base} from {self._turn(turn)}"
            for up, turn in zip(to_challenger, turns, strict=True)
        ]
        first = self.base if begins == "baseline" else self.chal
        return (
            f"Which of {self.base} and {self.chal} {self.topic.does} {self.topic.better} changes {len(turns)} times "
            f"along {self.topic.axis}: {first} at the smallest sizes, {listed(parts)}."
        )

    def tie(self) -> str:
        if self.topic.margin > 0:
            return (
                f"{self.chal} {self.topic.does} {self._by(self.topic.measure.by)} than {self.base}, "
                f"give or take 5 %, {self._range()}, so there is no size from which it is at least that."
            )
        do = f"train {self.topic.trained}" if self.topic.names_training else "are"
        return f"{self.base} and {self.chal} {do} {self.topic.measure.alike}, within 5 %, {self._range()}."

    def always_baseline(self) -> str:
        if self.topic.margin > 0:
            at = f"at training {self.topic.trained} " if self.topic.names_training else ""
            return (
                f"{self.chal} {self._by(self.topic.measure.never)} than {self.base} "
                f"{at}{self._range()}{self._doubts()}."
            )
        return f"{self._wins('baseline')} {self._everywhere()}{self._doubts()}."

    def always_challenger(self) -> str:
        return f"{self._wins('challenger')} {self._everywhere()}{self._doubts()}."

    def undetermined(self) -> str:
        compared = [(size, state) for size, state in self.states if state != "unknown"]
        decided = [(size, state) for size, state in compared if state in WINNERS]
        winners = {state for _, state in decided}
        if not compared:
            return self._nothing_to_compare()
        if len(winners) > 1:
            return (
                f"Not decided: the winner between {self.base} and {self.chal} seems to change more than once "
                f"{self._range()}, but not clearly; {self.topic.more} would tell."
            )
        if not decided:
            doubt = (
                f"whether {self._wins('challenger')}"
                if self.topic.margin > 0
                else f"which of {self.base} and {self.chal} {self.topic.does} {self.topic.better}"
            )
            return f"Not decided: {doubt} is too close to call {self._range()}; {self.topic.more} would tell."
        wins, axis = self._wins(winners.pop()), self.topic.axis
        at_low, at_high = compared[0] == decided[0], compared[-1] == decided[-1]
        if at_low and not at_high:
            edge = known(self.row, "low") or decided[-1][0]
            clear, open_, more = f"up to {axis} {self.scale.show(edge, -1)}", "above that", " or larger sizes"
        elif at_high and not at_low:
            edge = known(self.row, "high") or decided[0][0]
            clear, open_, more = (
                f"from {axis} {self.scale.show(edge, 1)} on",
                "below that",
                " or smaller sizes",
            )
        else:
            clear = f"at {axis} {listed([number(size) for size, _ in decided], NAMED_SIZES)}"
            open_, more = "elsewhere", ""
        return f"Not decided: {wins} {clear}, but {open_} it is too close to call; {self.topic.more}{more} would tell."

    def _nothing_to_compare(self) -> str:
        absent = self.topic.absences
        missing = [target for target in (self.base, self.chal) if target in absent]
        ended = "is valid" if missing and self.topic.invalid.issuperset(missing) else "finished"
        if len(missing) == 1:
            other = self.chal if missing[0] == self.base else self.base
            return (
                f"No {missing[0]} trial {ended}: {absent[missing[0]]}; so nothing can be said about "
                f"{missing[0]} against {other}."
            )
        if missing:
            why = listed(dict.fromkeys(absent[target] for target in missing))
            return f"No trial {ended}: {why}; so nothing can be said about {self.chal} against {self.base}."
        return (
            f"Not decided: at no {self.topic.axis} is there a pair to compare: {self.base} and {self.chal} have not "
            "both finished in the same pass, or their steps are too quick for the clock."
        )

    def _wins(self, state: str) -> str:
        """Return "gpu trains this mlp model faster than cpu", or with a margin what the state says about that."""
        if self.topic.margin > 0:
            does = self.topic.does if state == "challenger" else self.topic.does_not
            return f"{self.chal} {does} {self.topic.faster} than {self.base}"
        winner, loser = (self.chal, self.base) if state == "challenger" else (self.base, self.chal)
        return f"{winner} {self.topic.does} {self.topic.better} than {loser}"

    def _by(self, words: str) -> str:
        """Return how a measure says a share, with the margin in its place."""
        return words.format(percent(self.topic.margin))

    def _turn(self, turn: Mapping[str, Any], *, named: bool = False) -> str:
        """Return "batch_size 37 on (95 % interval 29 to 48)", as precise as the numbers allow."""
        axis, on = (f"{self.topic.axis} ", " on") if named else ("", "")
        span = interval_words(turn, self.scale)
        estimate = known(turn, "estimate")
        if estimate is not None:
            return f"{axis}{self.scale.show(estimate)}{on}" + (f" ({span})" if span else "")
        low, high = ends_of(turn)
        if low is not None and high is not None:
            return f"somewhere between {axis}{self.scale.show(low, -1)} and {self.scale.show(high, 1)}{on}"
        return f"an unknown {self.topic.axis}{on}"

    def _range(self) -> str:
        """Return "from batch_size 4 to 4096", and how many sizes could not be compared."""
        compared = [size for size, state in self.states if state != "unknown"] or list(self.scale.sizes)
        low, high = number(compared[0]), number(compared[-1])
        text = f"at {self.topic.axis} {low}" if low == high else f"from {self.topic.axis} {low} to {high}"
        if len(compared) < len(self.states):
            text += f" (compared at {len(compared)} of {len(self.states)} sizes)"
        return text

    def _everywhere(self) -> str:
        compared = sum(state != "unknown" for _, state in self.states)
        return f"everywhere {self._range()}" if compared > 1 else self._range()

    def _doubts(self) -> str:
        close = [number(size) for size, state in self.states if state == "undecided"]
        return f", though too close to call at {listed(close, NAMED_SIZES)}" if close else ""
