"""By how much a family's twin moves the change: the same arithmetic without the branches, or without the loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.explain import PARTS, name_of
from analysis.rounding import Scale
from analysis.sentence import Topic, ends_of, interval_words, known
from analysis.shift import least_words, moved_words, shift
from analysis.verdict import Verdict
from sweeps.ladder import TWIN

#: A change needs sizes to lie between.
LEAST_SIZES = 2
ALWAYS = (Verdict.ALWAYS_BASELINE, Verdict.ALWAYS_CHALLENGER)


@dataclass(frozen=True, kw_only=True)
class Side:
    """A verdict: of the whole step, or of the twin's.

    Attributes:
        row: Its row of `analysis.crossovers`.
        sizes: The rows of `analysis.summary.summarise` that it comes from.
        told: Its sentence.
    """

    row: Mapping[str, Any]
    sizes: pd.DataFrame
    told: str


def lacking(workload: str) -> tuple[str, str]:
    """Return what the twin of a workload lacks, and the verb that goes with it: "the branches" and "move"."""
    words = name_of(TWIN, workload)
    is_plural = words.endswith("s") and words != PARTS[TWIN][1]
    return words, "move" if is_plural else "moves"


def twin_sentence(
    whole: Side, twin: Side, topic: Topic, *, workload: str = "", base: float | None = None, fewer: bool = False
) -> str:
    """Say where the change would be with the twin's step on both targets, and how far that is from where it is.

    Args:
        whole: The verdict of the whole step, at the sizes at which both targets have the twin.
        twin: That of the twin's step, at the same sizes.
        topic: What was asked.
        workload: The family; it says what its twin lacks.
        base: The base of an axis of exponents; None for one of sizes.
        fewer: Whether the whole step was compared at more sizes.
    """
    words, move = lacking(workload)
    compared = [float(n) for n in twin.sizes.loc[twin.sizes["state"] != "unknown", topic.axis]]
    if len(compared) < LEAST_SIZES:
        at = "at one size only" if compared else "at no size"
        return f"How far {words} {move} the change cannot be told: the targets were compared with the twin's step {at}."
    told = _Told(
        topic=topic,
        words=words,
        move=move,
        base=base,
        scale=Scale.of(twin.sizes[topic.axis]),
        ends=(compared[0], compared[-1]),
        fewer=fewer,
    )
    with_verdict, without_verdict = whole.row["verdict"], twin.row["verdict"]
    if shift(whole.row, twin.row, base=base) is not None:
        return told.both_cross(whole, twin)
    if with_verdict == Verdict.CROSSES and without_verdict in ALWAYS:
        return told.only_with(whole, twin)
    if with_verdict in ALWAYS and without_verdict == Verdict.CROSSES:
        return told.only_without(whole, twin)
    start = f"Without {words}: {twin.told}"
    return f"{start} So it is with {words}." if twin.told == whole.told else f"{start} With {words}: {whole.told}"


@dataclass(frozen=True, kw_only=True)
class _Told:
    """A twin about to be told.

    Attributes:
        words, move: What it lacks, and the verb to that.
        base: Of an axis of exponents.
        scale: How places on the axis are shown.
        ends: Smallest and largest size compared.
        fewer: Whether the whole step was compared at more sizes.
    """

    topic: Topic
    words: str
    move: str
    base: float | None
    scale: Scale
    ends: tuple[float, float]
    fewer: bool

    def both_cross(self, whole: Side, twin: Side) -> str:
        found = shift(twin.row, whole.row, base=self.base)
        assert found is not None  # noqa: S101  # both cross in the same direction
        effect = moved_words(found, f"{self.words} {self.move}")
        places = f"{self._at(twin.row)} instead of {self._at(whole.row)}"
        note = ", both over the sizes at which the twin was measured" if self.fewer else ""
        return f"Without {self.words} {self._change} would come at {self.topic.axis} {places}{note}: {effect}."

    def only_with(self, whole: Side, twin: Side) -> str:
        """The twin's step has no change between the smallest and the largest size."""
        effect = self._at_least(beyond=twin.row, crossing=whole.row, crossing_is_with=True)
        return (
            f"Without {self.words} {twin.told.rstrip('.')}, so {self._change} would not come in this range; with "
            f"{self.words} it comes at {self.topic.axis} {self._at(whole.row)}{self._note}: {effect}."
        )

    def only_without(self, whole: Side, twin: Side) -> str:
        """The whole step has no change between the smallest and the largest size."""
        effect = self._at_least(beyond=whole.row, crossing=twin.row, crossing_is_with=False)
        return (
            f"Without {self.words} {self._change} would come at {self.topic.axis} {self._at(twin.row)}; with "
            f"{self.words} {whole.told.rstrip('.')}{self._note}: {effect}."
        )

    def _at_least(self, *, beyond: Mapping[str, Any], crossing: Mapping[str, Any], crossing_is_with: bool) -> str:
        """Say how far at least it is from a change in the range to one beyond an end of it."""
        # Where the winner is the one that the change leads away from, it has yet to come: above the range.
        is_above = (beyond["verdict"] == Verdict.ALWAYS_CHALLENGER) == (crossing["direction"] == "baseline_above")
        end = self.ends[1] if is_above else self.ends[0]
        near = known(crossing, "high" if is_above else "low")
        subject = f"{self.words} {self.move} it"
        if near is None or not (end > near if is_above else end < near):
            return f"{subject} {'up' if is_above != crossing_is_with else 'down'}"
        first, second = (end, near) if crossing_is_with else (near, end)
        return f"{subject} {least_words(first, second, base=self.base)}"

    @property
    def _change(self) -> str:
        return f"the change ({self.topic.challenger} {self.topic.faster})" if self.topic.margin > 0 else "the change"

    @property
    def _note(self) -> str:
        return " (over the sizes at which the twin was measured)" if self.fewer else ""

    def _at(self, row: Mapping[str, Any]) -> str:
        estimate, span = known(row, "estimate"), interval_words(row, self.scale)
        if estimate is not None:
            return self.scale.show(estimate) + (f" ({span})" if span else "")
        low, high = ends_of(row)
        if low is None or high is None:
            return "an unknown size"
        return f"somewhere between {self.scale.show(low, -1)} and {self.scale.show(high, 1)}"
