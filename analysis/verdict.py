"""The rules that turn the states of the sizes of one group into a verdict, and its interval.

The first rule that fits decides: strong states that change sign twice, a tie, one change of decided states, both ends
decided and no change, anything else. No number is given beyond the sizes that were measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from analysis.censoring import BASELINE

TIE = 0.05  # targets whose log ratios stay within this, band included, are called equal


class Verdict(StrEnum):
    """What can be said of one group."""

    CROSSES = "crosses"
    SEVERAL = "several"
    TIE = "tie"
    ALWAYS_BASELINE = "always_baseline"
    ALWAYS_CHALLENGER = "always_challenger"
    UNDETERMINED = "undetermined"


class Direction(StrEnum):
    """Which target is faster at the larger sizes."""

    CHALLENGER_ABOVE = "challenger_above"
    BASELINE_ABOVE = "baseline_above"


class Cause(StrEnum):
    """Why nothing definite can be said."""

    NONE = ""
    NOTHING_COMPARED = "nothing compared"
    NOTHING_DECIDED = "nothing decided"
    OPEN_BELOW = "open below"
    OPEN_ABOVE = "open above"
    OPEN_BOTH = "open on both sides"
    DIP = "dip"


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Where the band between one node and the next meets zero; positions, NaN where it does not.

    Attributes:
        lower_first, lower_last: First and last position where its lower edge is at or below zero.
        upper_first, upper_last: First and last position where its upper edge is at or above zero.
        zero: Where the curve itself passes through zero.
        jump: Whether the curve jumps here.
        sparse: Whether the sizes lie too far apart for a curve between them to be believed.
    """

    lower_first: float
    lower_last: float
    upper_first: float
    upper_last: float
    zero: float
    jump: bool
    sparse: bool

    @property
    def loose(self) -> bool:
        """Whether no smooth curve says where in it anything is."""
        return self.jump or self.sparse


@dataclass(frozen=True, kw_only=True)
class Stop:
    """One size of a group at which something is known.

    Attributes:
        size: In the axis's unit.
        position: On the axis on which curves are drawn.
        state: BASELINE, CHALLENGER or UNDECIDED.
        strong: Whether the state is beyond doubt and material.
        value: Log ratio with the margin applied; NaN where only the sign is known.
        half: Half width of its band; NaN where only the sign is known.
        segment: The band from here to the next size that has a log ratio; None on the last, and where only the sign is
            known.
    """

    size: float
    position: float
    state: int
    strong: bool
    value: float
    half: float
    segment: Segment | None

    @property
    def measured(self) -> bool:
        """Whether there is a log ratio, and not the sign alone."""
        return not math.isnan(self.value)


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change of the faster target.

    Attributes:
        direction: Who is faster above.
        estimate: Position of the change; NaN where the curve through the sizes does not show it.
        low, high: Positions of the ends of its interval.
        start, end: Indices of the two stops that enclose it.
        jump: Whether the curve jumps inside the bracket, so that the interval is no narrower than that gap.
        sparse: Whether that is so because sizes lie too far apart.
    """

    direction: Direction
    estimate: float
    low: float
    high: float
    start: int
    end: int
    jump: bool
    sparse: bool


@dataclass(frozen=True, kw_only=True)
class OpenEnd:
    """An end of the range that is too close to call: a change, if there is one, lies beyond a position.

    Attributes:
        position: Where the band last excludes zero.
        stop: Index of the last stop that is decided.
    """

    position: float
    stop: int


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """The verdict on one group.

    Attributes:
        verdict: The rule that fits.
        changes: The one change of `crosses`, every change of `several`; else empty.
        cause: Why the verdict is `undetermined`.
        open_end: The end that is too close to call, if it is one end only.
        doubtful: Indices of stops that are decided, not strong, and at odds with their neighbours.
    """

    verdict: Verdict
    changes: tuple[Change, ...] = ()
    cause: Cause = Cause.NONE
    open_end: OpenEnd | None = None
    doubtful: tuple[int, ...] = ()


def conclude(stops: list[Stop], *, assumed: bool = False) -> Conclusion:
    """Apply the rules to the sizes of one group.

    Args:
        stops: The sizes at which something is known, ascending.
        assumed: Whether the spread between runs is assumed, for lack of repeats.

    Returns:
        The verdict, with its changes.
    """
    decided = [index for index, stop in enumerate(stops) if stop.state]
    strong = [index for index in decided if stops[index].strong]
    turns = _turns(stops, strong)
    if len(turns) >= 2:
        changes = tuple(_solve(stops, *_enclose(stops, first, last)) for first, last in turns)
        return Conclusion(verdict=Verdict.SEVERAL, changes=changes)
    if not stops:
        return Conclusion(verdict=Verdict.UNDETERMINED, cause=Cause.NOTHING_COMPARED)
    if all(stop.measured and abs(stop.value) + stop.half < TIE for stop in stops):
        return Conclusion(verdict=Verdict.TIE)
    turns = _turns(stops, decided)
    if len(turns) == 1:
        return Conclusion(verdict=Verdict.CROSSES, changes=(_solve(stops, *turns[0]),))
    if turns:
        doubtful = tuple(_doubtful(stops, decided))
        return Conclusion(verdict=Verdict.UNDETERMINED, cause=Cause.DIP, doubtful=doubtful)
    if not decided:
        return Conclusion(verdict=Verdict.UNDETERMINED, cause=Cause.NOTHING_DECIDED)
    conclusion = _one_sign(stops, decided[0], decided[-1])
    leaning = tuple(_leaning(stops, stops[decided[0]].state)) if assumed else ()
    if leaning and conclusion.cause is Cause.NONE:
        # No repeat says that such a size is noise: one run each cannot make the same target faster throughout.
        return Conclusion(verdict=Verdict.UNDETERMINED, cause=Cause.DIP, doubtful=leaning)
    return conclusion


def _leaning(stops: list[Stop], state: int) -> list[int]:
    """Stops that lean the other way by more than would pass as equal."""
    return [index for index, stop in enumerate(stops) if stop.measured and stop.value * state < -TIE]


def _turns(stops: list[Stop], chosen: list[int]) -> list[tuple[int, int]]:
    """Neighbours among the chosen stops whose states differ."""
    return [(first, last) for first, last in pairwise(chosen) if stops[first].state != stops[last].state]


def _doubtful(stops: list[Stop], decided: list[int]) -> list[int]:
    """Stops that are decided, but not strong, and differ from a neighbour among the decided."""
    differing = {index for turn in _turns(stops, decided) for index in turn}
    return [index for index in decided if index in differing and not stops[index].strong]


def _enclose(stops: list[Stop], first: int, last: int) -> tuple[int, int]:
    """Narrow the stretch between two stops of opposite state to the decided stops that enclose every change in it."""
    state = stops[first].state
    opposite = next(index for index in range(first + 1, last + 1) if stops[index].state == -state)
    start = next(index for index in range(opposite - 1, first - 1, -1) if stops[index].state == state)
    same = next(index for index in range(last - 1, first - 1, -1) if stops[index].state == state)
    end = next(index for index in range(same + 1, last + 1) if stops[index].state == -state)
    return start, end


def _solve(stops: list[Stop], start: int, end: int) -> Change:
    """Interval and estimate of the change between two decided stops: all positions whose band contains zero."""
    low_side = stops[start].state
    nodes = [index for index in range(start, end + 1) if stops[index].measured]
    segments = [(index, stops[index].segment) for index in nodes[:-1]]
    bands = [segment for _, segment in segments if segment is not None]
    low, high = stops[start].position, stops[end].position
    # An end known by its sign alone has no band: there the interval reaches to that size.
    if stops[start].measured and bands:
        low = min(_finite([_first_zero(band, low_side) for band in bands]), default=low)
    if stops[end].measured and bands:
        high = max(_finite([_last_zero(band, low_side) for band in bands]), default=high)
    jump = sparse = False
    for index, segment in segments:
        if segment is not None and segment.loose:
            jump, sparse = jump or segment.jump, sparse or segment.sparse
            low = min(low, stops[index].position)
            high = max(high, stops[nodes[nodes.index(index) + 1]].position)
    return Change(
        direction=Direction.CHALLENGER_ABOVE if low_side == BASELINE else Direction.BASELINE_ABOVE,
        estimate=_zero_of_curve([stops[index] for index in nodes]),
        low=low,
        high=high,
        start=start,
        end=end,
        jump=jump,
        sparse=sparse,
    )


def _first_zero(band: Segment, low_side: int) -> float:
    return band.lower_first if low_side == BASELINE else band.upper_first


def _last_zero(band: Segment, low_side: int) -> float:
    return band.upper_last if low_side == BASELINE else band.lower_last


def _finite(values: list[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def _zero_of_curve(nodes: list[Stop]) -> float:
    """Mean position of the zeros of the monotone cubic through the nodes; NaN if there is none.

    The log ratio of a launch floor and a power of the size is bent at its zero. A straight line between two sizes then
    errs to one side: by more than 1 % of the size on octaves, where the cubic errs by a tenth of that.
    """
    zeros = [node.position for node in nodes if node.value == 0]
    # The band of the last node leads out of the bracket.
    zeros += _finite([node.segment.zero for node in nodes[:-1] if node.segment is not None])
    return sum(zeros) / len(zeros) if zeros else math.nan


def _one_sign(stops: list[Stop], first: int, last: int) -> Conclusion:
    """All decided stops agree: the same target throughout, if both ends are decided; else an end is open."""
    state = stops[first].state
    open_below, open_above = first > 0, last < len(stops) - 1
    if not open_below and not open_above:
        winner = Verdict.ALWAYS_BASELINE if state == BASELINE else Verdict.ALWAYS_CHALLENGER
        return Conclusion(verdict=winner)
    if open_below and open_above:
        return Conclusion(verdict=Verdict.UNDETERMINED, cause=Cause.OPEN_BOTH)
    if open_above:
        band = stops[last].segment
        position = stops[last].position if band is None or band.loose else _first_zero(band, state)
        cause, end = Cause.OPEN_ABOVE, OpenEnd(position=position, stop=last)
    else:
        band = stops[first - 1].segment if stops[first].measured else None
        position = stops[first].position if band is None or band.loose else _last_zero(band, -state)
        cause, end = Cause.OPEN_BELOW, OpenEnd(position=position, stop=first)
    return Conclusion(verdict=Verdict.UNDETERMINED, cause=cause, open_end=end)
