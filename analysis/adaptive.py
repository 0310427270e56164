"""Where to measure next: from the records so far to the next pairs, each with its reason, or to the reason to stop.

A grid spends most of its time far from the change. Here the whole range is looked at once, coarsely, so that no change
is overlooked, and the rest of the pairs go where the answer is:

1. scan: one short pair at every octave, both ends included;
2. settle: more pairs where the two targets are close, and at both ends until they are decided;
3. shrink: sizes inside the bracket of a change until it spans a factor of about two;
4. polish: pairs on either side of each change until its interval is as narrow as was asked.

It ends early where both targets take the same time, where one wins throughout, and where the curves cross so flatly
that no number of pairs would do. Nothing is remembered: the same records, pairs under way and seed give the same
answer, so that a search goes on after an interruption as if there had been none.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pandas as pd

from analysis.censoring import BASELINE, UNDECIDED
from analysis.evidence import Evidence, gather
from analysis.local import DRIFT, LEAST_PAIRS, REACH, Line, Pairs, line_of, read_pairs, within_bracket
from analysis.question import Question, ask, sizes_of
from analysis.ratios import compare
from analysis.rounding import Scale, number, percent
from analysis.trials import Points, Trials, read_trials
from analysis.verdict import TIE, Change, Conclusion, Stop, Verdict, conclude

OCTAVE = math.log(2)
LEAST_SIZES = 3
CLOSE = 0.25  # log ratios below this are measured again before they are believed
STEADY = 0.1  # a lead that shrinks by less from one octave to the next may do so by chance
FAR_APART = 0.5  # beyond this one pair is enough at the large end, which costs the most
SETTLED_PAIRS, LOW_END_PAIRS, HIGH_END_PAIRS, MOST_SETTLE_PAIRS = 3, 3, 2, 6
FLAT = 0.10  # a log ratio that changes by less than this over the whole range has no crossing worth the pairs
NARROW_BRACKET = 0.75  # in u, a factor of 2.1
#: Polishing measures this far from the change on either side, in u. Simulated: at 0.2 a curve with its corner at the
#: change bends the line so much that its interval held the truth in .75 of cases, at 0.13 in .94.
ASIDE = 0.13
NEAR_ENOUGH = 0.08  # a size that was measured this near to the place wanted is used again
MOST_POLISH_PAIRS = 20  # on one change
#: Timed steps of a trial: to see roughly, and to polish. With 3 steps, 2 % of which are slow, one search in ten has a
#: median that is wrong by a factor, and then the spread of all its pairs is.
SHORT_STEPS, LONG_STEPS = 5, 7
SIGNIFICANT_DIGITS = 4  # of a new size on a continuous axis
NOT_AGAIN = frozenset({"oom", "timeout", "skipped_larger", "unavailable"})  # asking once more would end the same way


@dataclass(frozen=True, kw_only=True)
class Range:
    """The sizes that may be asked, in the axis's own unit.

    Attributes:
        low, high: Smallest and largest, both included.
        whole: Whether sizes are whole numbers.
        values: The only sizes there are; empty where every size from `low` to `high` is one.
    """

    low: float
    high: float
    whole: bool = False
    values: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"range from {self.low:g} to {self.high:g}: it must begin below its end")
        if self.values and (min(self.values), max(self.values)) != (self.low, self.high):
            raise ValueError(f"values go from {min(self.values):g} to {max(self.values):g}, and the range does not")
        if self.whole and any(value != round(value) for value in (self.low, self.high, *self.values)):
            raise ValueError("whole numbers were asked for, and the range holds others")


@dataclass(frozen=True, kw_only=True)
class Search:
    """What is searched for.

    Attributes:
        axis: Column of sizes, or `(column, base)` where it holds exponents.
        range: The sizes that may be asked.
        baseline: Target that is compared against.
        challenger: Target that is to overtake it.
        margin: Fraction of the baseline's time that the challenger must save.
        half_width: Target for each interval: 0.1 is +-10 % of the size; on an axis of exponents, +-0.1 of its unit.
        max_pairs: Pairs in all.
        nodes: Machines that each measure one pair at a time.
        seed: Of the random order of the scan.
    """

    axis: str | tuple[str, float]
    range: Range
    baseline: str
    challenger: str
    margin: float = 0.0
    half_width: float = 0.10
    max_pairs: int = 60
    nodes: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.half_width > 0:
            raise ValueError(f"half_width is {self.half_width!r}: it must be above 0, such as 0.1 for +-10 %")
        if self.max_pairs < LEAST_SIZES or self.nodes < 1:
            raise ValueError(f"max_pairs is {self.max_pairs} and nodes {self.nodes}: at least {LEAST_SIZES} and 1")
        if isinstance(self.axis, str) and not self.range.low > 0:
            raise ValueError(f"range from {self.range.low:g}: sizes must be above 0 (for exponents: column, base)")

    def asked_of(self, frame: pd.DataFrame, *, drift: float | None) -> Question:
        """Return what records are asked.

        Raises:
            ValueError: If a column is missing, a target is unknown, or the axis is not numeric.
        """
        return ask(
            frame,
            axis=self.axis,
            baseline=self.baseline,
            challenger=self.challenger,
            group_by=None,
            margin=self.margin,
            drift=drift,
        )

    @property
    def target(self) -> float:
        """The half width asked for, in u."""
        return math.log1p(self.half_width) if isinstance(self.axis, str) else self.half_width * math.log(self.axis[1])


@dataclass(frozen=True, kw_only=True)
class Request:
    """One pair to measure: both targets at one size, back to back on one machine.

    Attributes:
        size: In the axis's unit.
        pass_index: Which pair of that size it is, from 0.
        steps: Timed steps of each trial, at most.
        stage: scan, settle, shrink or polish.
        why: The reason, for people.
    """

    size: float
    pass_index: int
    steps: int
    stage: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What to do now.

    Attributes:
        requests: Pairs to begin now, at most as many as there are free nodes. Without any and without a reason to stop,
            the pairs under way have to be waited for.
        stop: Why nothing more is worth measuring; else empty.
        pairs: Pairs measured so far.
        verdict: The present verdict.
        intervals: The present interval of each change, in the axis's unit; an end that is not known is NaN.
    """

    requests: tuple[Request, ...]
    stop: str
    pairs: int
    verdict: Verdict
    intervals: tuple[tuple[float, float], ...]


def advise(frame: pd.DataFrame, search: Search, *, pending: Sequence[Request] = ()) -> Advice:
    """Say where to measure next.

    Args:
        frame: The records so far, one row a trial, as `analysis.crossovers` takes them. Every row counts as an answer:
            whoever wants lost trials to be asked once more leaves their rows out.
        search: What is searched for.
        pending: Pairs under way, of which not all rows are there.

    Returns:
        The next pairs, or the reason to stop.

    Raises:
        ValueError: If a column is missing, a target is unknown, or the axis is not numeric.
    """
    known = _read(frame, search, pending)
    requests, stop = _decide(known)
    free = min(search.nodes - len(pending), search.max_pairs - known.total)
    if requests and search.max_pairs <= known.total:
        requests, stop = [], f"{known.total} pairs were measured, which is the most that was asked for"
        if lines := [line for line in known.lines if line is not None]:
            stop += f"; {_within_reach(min(lines, key=lambda line: abs(line.slope)), search)} is within reach"
    return Advice(
        requests=tuple(requests[: max(free, 0)]),
        stop="" if pending else stop,
        pairs=known.total - len(pending),
        verdict=known.conclusion.verdict,
        intervals=tuple(known.sizes_at(known.interval(change)) for change in known.conclusion.changes),
    )


# ------------------------------------------------------------------------------------------------------ what is known


@dataclass(frozen=True, kw_only=True)
class _Known:
    """All that the records say, and the pairs under way."""

    search: Search
    question: Question
    evidence: Evidence
    conclusion: Conclusion
    pairs: Pairs
    lines: tuple[Line | None, ...]  # one a change
    passes: dict[float, set[int]]  # by size: pairs that are complete or under way
    unfinished: tuple[Request, ...]  # pairs of which only one target has a row
    pending: tuple[Request, ...]
    too_large: float  # position from which on a trial takes too long or too much memory
    sizes: list[float] = field(default_factory=list)  # asked so far, ascending

    @property
    def total(self) -> int:
        return sum(map(len, self.passes.values()))

    def position(self, size: float) -> float:
        return float(self.question.position(np.array([size]))[0])

    def asked(self, size: float) -> int:
        return len(self.passes.get(size, ()))

    def interval(self, change: Change) -> tuple[float, float]:
        """The interval of a change, in u: that of its line where it is closed, else that of the curve."""
        line = self.lines[self.conclusion.changes.index(change)]
        if line is None or not line.closed:
            return change.low, change.high
        return within_bracket(line, change, self.evidence.stops)

    def sizes_at(self, interval: tuple[float, float]) -> tuple[float, float]:
        low, high = interval
        return self.question.size_at(low), self.question.size_at(high)

    def new_size(self, position: float, above: float, below: float) -> float | None:
        """The legal size nearest to a position and between two others, that nobody has asked; None if there is none."""
        legal, exact = self.search.range, self.question.size_at(position)
        nearest = (round(exact) + step for step in (-1, 0, 1)) if legal.whole else (_rounded(exact),)
        free = [
            float(size)
            for size in legal.values or nearest
            if legal.low <= size <= legal.high and size not in self.passes and above < self.position(size) < below
        ]
        return min(free, key=lambda size: abs(self.position(size) - position), default=None)

    def request(self, size: float, stage: str, why: str, *, ahead: int = 0) -> Request:
        """The next pair at a size, or the one `ahead` of it."""
        taken = self.passes.get(size, set())
        free = [index for index in range(len(taken) + ahead + 1) if index not in taken]
        steps = LONG_STEPS if stage == "polish" else SHORT_STEPS
        return Request(size=size, pass_index=free[ahead], steps=steps, stage=stage, why=why)


def _read(frame: pd.DataFrame, search: Search, pending: Sequence[Request]) -> _Known:
    question = search.asked_of(frame, drift=DRIFT)
    points, trials = read_trials(frame, question)
    (evidence,) = gather(points, trials, compare(points, trials, question), question)
    conclusion = conclude(evidence.stops, assumed=evidence.assumed)
    pairs = read_pairs(points, trials, question)
    passes, unfinished = _passes(frame, question, pending)
    return _Known(
        search=search,
        question=question,
        evidence=evidence,
        conclusion=conclusion,
        pairs=pairs,
        lines=tuple(line_of(change, evidence, pairs) for change in conclusion.changes),
        passes=passes,
        unfinished=unfinished,
        pending=tuple(pending),
        too_large=_too_large(points, trials, evidence, question),
        sizes=sorted(passes),
    )


def _passes(
    frame: pd.DataFrame, question: Question, pending: Sequence[Request]
) -> tuple[dict[float, set[int]], tuple[Request, ...]]:
    """By size the pairs that are complete or under way; and those of which one target is missing, to be finished."""
    sides: dict[tuple[float, int], dict[str, int]] = {}
    if not frame.empty:
        wanted = frame["target"].isin(question.targets)
        if "rung" in frame.columns:
            wanted &= frame["rung"] == "e2e"
        rows = frame[wanted]
        sizes, steps = sizes_of(rows, question).tolist(), map(np.size, rows["step_times_s"])
        for size, index, target, count in zip(sizes, rows["pass_index"], rows["target"], steps, strict=True):
            sides.setdefault((size, int(index)), {})[str(target)] = int(count)
    under_way = {(request.size, request.pass_index) for request in pending}
    passes: dict[float, set[int]] = {}
    for size, index in [*(pair for pair, found in sides.items() if len(found) == 2), *under_way]:
        passes.setdefault(size, set()).add(index)
    half = [
        Request(
            size=size,
            pass_index=index,
            steps=min(max(*found.values(), SHORT_STEPS), LONG_STEPS),  # as many as its partner has
            stage="finish",
            why="only one target has been measured",
        )
        for (size, index), found in sorted(sides.items())
        if len(found) == 1 and (size, index) not in under_way
    ]
    return passes, tuple(half)


def _too_large(points: Points, trials: Trials, evidence: Evidence, question: Question) -> float:
    """Position from which on nothing is asked: a trial failed for its size there, or is sure to run into its limit.

    The forecast prolongs what the slower target took at the two largest sizes, and counts only where that one does not
    catch up: a larger size would only show the same. Where it does, a change may lie ahead, and a target that hardly
    grows is easily forecast to run into a limit that it will never reach. The faster one doing so would be news anyway.
    """
    ended = zip(evidence.sizes, evidence.finished, evidence.timeouts, evidence.ooms, strict=True)
    failed = (
        size
        for size, finished, timeouts, ooms in ended
        if any((timeouts[side] or ooms[side]) and not finished[side] for side in (0, 1))
    )
    first = next(failed, math.inf)
    limit = float(question.position(np.array([first]))[0]) if first < math.inf else math.inf
    stops = [stop for stop in evidence.stops if stop.measured][-2:]
    if len(stops) < 2 or stops[-1].state == UNDECIDED:
        return limit
    loser = 1 if stops[-1].state == BASELINE else 0
    timed = (trials.side == loser) & (trials.elapsed_s > 0) & (trials.deadline_s > 0) & ~np.isnan(trials.median_s)
    at = [timed & (points.size[trials.point] == stop.size) for stop in stops]
    if not all(one.any() for one in at):
        return limit
    gap = stops[1].position - stops[0].position
    growth = math.log(np.median(trials.median_s[at[1]]) / np.median(trials.median_s[at[0]])) / gap
    spare = math.log(float(trials.deadline_s[timed].min()) / float(np.median(trials.elapsed_s[at[1]])))
    if growth <= 0:
        return limit
    lead = stops[1].value * stops[1].state
    catches_up = lead - stops[0].value * stops[1].state < -STEADY * gap / OCTAVE
    return limit if catches_up or lead < CLOSE else min(limit, stops[1].position + max(0.0, spare) / growth)


def _rounded(size: float) -> float:
    """A size that people can read."""
    return float(f"{size:.{SIGNIFICANT_DIGITS}g}")


# ------------------------------------------------------------------------------------------------------------- stages


def _decide(known: _Known) -> tuple[list[Request], str]:
    """The pairs that are worth measuring now, the most urgent first; or the reason to stop."""
    if known.unfinished:  # alone: the same pair must not be asked a second time for another reason
        return list(known.unfinished), ""
    rough = _scan(known)
    if not rough or known.search.nodes > 1:
        rough += _settle(known, scanned=not rough)
    if rough or any(request.stage in ("finish", "scan", "settle") for request in known.pending):
        return rough, ""
    if stop := _nothing_to_narrow(known):
        return [], stop
    narrowed = [_narrow(known, *each) for each in zip(known.conclusion.changes, known.lines, strict=True)]
    # Of several changes the one with the fewest pairs comes first: its next pair has the lowest number.
    requests = [request for one in sorted(narrowed, key=lambda one: one.near) for request in one.requests]
    return requests, "" if requests else "; ".join(dict.fromkeys(one.stop for one in narrowed))


def _scan(known: _Known) -> list[Request]:
    """One short pair at every octave of the range, ends included: what is asked are the gaps between sizes.

    So a range that has grown is scanned where it is new. The lower half comes in random order, the upper half, where
    the time goes, from below: the first size that takes too long or too much memory saves the larger ones. With several
    nodes the largest sizes come first, since the longest pair decides when the scan ends.
    """
    legal = known.search.range
    ends = [known.position(legal.low), known.position(legal.high)]
    gap = min(OCTAVE, (ends[1] - ends[0]) / (LEAST_SIZES - 1))
    places = {known.position(size) for size in known.sizes if legal.low <= size <= legal.high}
    new = [size for size in (legal.low, legal.high) if size not in known.passes]
    for left, right in pairwise(sorted({*places, *ends})):
        parts = math.ceil((right - left) / gap - 0.1)  # whole numbers lie a little off their octave
        above = left
        for place in np.linspace(left, right, parts + 1)[1:-1].tolist():
            size = known.new_size(place, above, right)
            if size is not None:
                new.append(size)
                above = known.position(size)
    new = [size for size in new if known.position(size) < known.too_large]
    middle = known.question.size_at(sum(ends) / 2)

    def turn(size: float) -> tuple[float, float]:
        if known.search.nodes > 1:
            return -size, 0.0
        # Each size draws for itself: the order of those that are left stays when others are answered.
        chance = random.Random(f"{known.search.seed}/{float(size)!r}").random()
        return (size, 0.0) if size > middle else (-math.inf, chance)

    new.sort(key=turn)
    return [known.request(size, "scan", "to see the whole range") for size in new]


def _settle(known: _Known, *, scanned: bool) -> list[Request]:
    """More pairs where the targets are close, where sizes contradict each other, and at the ends of the range."""
    stops = known.evidence.stops
    wanted: dict[float, tuple[int, str]] = {}
    polished = [
        _centre(known, change, line) for change, line in zip(known.conclusion.changes, known.lines, strict=True)
    ]
    if scanned:
        for size, outcome in zip(known.evidence.sizes, known.evidence.outcomes, strict=True):
            if not any(stop.size == size for stop in stops) and not any(
                one in text for text in outcome for one in NOT_AGAIN
            ):
                wanted[size] = 2, "no answer yet that can be compared"
        for stop in stops:
            if abs(stop.value) < CLOSE and not any(abs(stop.position - place) <= REACH for place in polished):
                wanted[stop.size] = SETTLED_PAIRS, "both targets are close here"
        for stop in _contradicting(known):
            if not any(abs(stop.position - place) <= REACH for place in polished):
                wanted[stop.size] = MOST_SETTLE_PAIRS, "it disagrees with its neighbours"
    for place, least in ((0, LOW_END_PAIRS), (-1, HIGH_END_PAIRS)):
        if stops and (scanned or stops[place].size in (known.search.range.low, known.search.range.high)):
            end = stops[place]
            if end.measured and not (place and end.state and abs(end.value) > FAR_APART):
                pairs = least if end.state else MOST_SETTLE_PAIRS
                wanted[end.size] = max((pairs, "the end of the range has to be certain"), wanted.get(end.size, (0, "")))
    is_settled = scanned and all(pairs <= known.asked(size) for size, (pairs, _) in wanted.items())
    if is_settled and not known.conclusion.changes and known.conclusion.verdict is not Verdict.TIE:
        unsure = [stop for stop in stops if stop.measured and not stop.state]
        wanted = {stop.size: (SETTLED_PAIRS, "too noisy to be decided by fewer pairs") for stop in unsure}
    requests = [
        (ahead, known.request(size, "settle", why, ahead=ahead))
        for size, (pairs, why) in wanted.items()
        for ahead in range(pairs - known.asked(size))
    ]
    return [request for _, request in sorted(requests, key=lambda pair: (pair[0], -pair[1].size))]


def _contradicting(known: _Known) -> list[Stop]:
    """Sizes on either side of each change, where the means change sign more often than the verdict can tell."""
    leaning = [stop for stop in known.evidence.stops if not abs(stop.value) <= TIE]
    turns = [pair for pair in pairwise(leaning) if _sign(pair[0]) != _sign(pair[1])]
    if len(turns) <= max(1, len(known.conclusion.changes)):
        return []
    return [stop for pair in turns for stop in pair if stop.measured and not stop.strong]


def _nothing_to_narrow(known: _Known) -> str:
    """Why there is no change whose interval could be narrowed; empty if there is one."""
    conclusion, stops = known.conclusion, known.evidence.stops
    low, high = known.search.baseline, known.search.challenger
    margin = known.search.margin
    legal, sizes = known.search.range, known.evidence.sizes
    is_whole = all(known.evidence.informed) and {legal.low, legal.high} <= {*sizes}
    throughout = "throughout" if is_whole else "wherever both could be compared"
    match conclusion.verdict:
        case Verdict.TIE:
            return f"{low} and {high} take the same time at every size"
        case Verdict.ALWAYS_BASELINE if margin > 0:
            return f"{high} is nowhere {percent(margin)} faster, and certainly not at both ends"
        case Verdict.ALWAYS_BASELINE:
            return f"{low} is faster {throughout}, and certainly so at both ends"
        case Verdict.ALWAYS_CHALLENGER:
            much = f"at least {percent(margin)} " if margin > 0 else ""
            return f"{high} is {much}faster {throughout}, and certainly so at both ends"
    measured = [stop for stop in stops if stop.measured]
    if len(measured) >= LEAST_SIZES and len(measured) == len(stops):
        u = np.array([stop.position for stop in measured])
        slope = float(np.polyfit(u - u.mean(), [stop.value for stop in measured], 1)[0])
        most = max(abs(stop.value) for stop in measured)
        if conclusion.verdict is not Verdict.SEVERAL and abs(slope) * (u[-1] - u[0]) < FLAT and most < CLOSE:
            return (
                f"{low} and {high} differ too little from one end of the range to the other for a crossing to be found"
            )
    return "" if conclusion.changes else "more pairs at the same sizes would not decide it"


@dataclass(frozen=True, kw_only=True)
class _Narrowed:
    """The next pairs for one change; or why it is not narrowed any further. `near` are the pairs close to it so far."""

    near: int
    requests: list[Request] = field(default_factory=list)
    stop: str = ""


def _narrow(known: _Known, change: Change, line: Line | None) -> _Narrowed:
    """Close in on one change."""
    low, high = known.interval(change)
    centre = _centre(known, change, line)
    sides = _sides(known, centre)
    near = sum(
        known.asked(size) for size in known.sizes if size in sides or abs(known.position(size) - centre) <= REACH
    )
    if (high - low) / 2 <= known.search.target:
        return _Narrowed(near=near, stop="the interval is as narrow as was asked for")
    if wanted := _shrink(known, change):
        return _Narrowed(near=near, requests=wanted)
    if line is not None and line.narrowest(drift=DRIFT) > known.search.target:
        flat = f"the curves cross too flatly for {_in_words(known.search.target, known.search)}"
        return _Narrowed(near=near, stop=f"{flat}; {_within_reach(line, known.search)} is within reach")
    if near >= MOST_POLISH_PAIRS or not sides:
        reach = "" if line is None else f"; {_within_reach(line, known.search)} is within reach"
        return _Narrowed(near=near, stop=f"{near} pairs were measured close to the change{reach}")
    needed = LEAST_PAIRS
    if line is not None:
        more = range(near + 1, MOST_POLISH_PAIRS)
        forecast = (pairs for pairs in more if line.half_width(pairs=pairs, drift=DRIFT) <= known.search.target)
        needed = next(forecast, MOST_POLISH_PAIRS)
    count = {size: known.asked(size) for size in sides}
    place = Scale.of(known.sizes).show(known.question.size_at(centre))
    requests: list[Request] = []
    for _ in range(needed - near if known.pending else max(1, needed - near)):
        size = min(sides, key=lambda one: count[one])
        ahead = count[size] - known.asked(size)
        requests.append(known.request(size, "polish", f"close to the change near {place}", ahead=ahead))
        count[size] += 1
    return _Narrowed(near=near, requests=requests)


def _shrink(known: _Known, change: Change) -> list[Request]:
    """Sizes inside a wide bracket: where the curve is zero, or that split it evenly where no curve says where."""
    stops = known.evidence.stops[change.start : change.end + 1]
    turns = [(a, b) for a, b in pairwise(stops) if _sign(a) * _sign(b) < 0]
    start, end = (turns[0][0], turns[-1][1]) if turns else (stops[0], stops[-1])
    span = end.position - start.position
    least = 2 * known.search.target if change.jump or change.sparse else NARROW_BRACKET
    if span <= least:
        return []
    nodes = known.search.nodes
    places = np.linspace(start.position, end.position, nodes + 2)[1:-1].tolist()
    zero = change.estimate if not math.isnan(change.estimate) else _prolonged(known.evidence.stops, change)
    if nodes == 1 and not (change.jump or math.isnan(zero)):
        places = [min(max(zero, start.position + span / 4), end.position - span / 4)]
    taken = sorted({start.position, end.position, *(known.position(size) for size in known.sizes)})
    requests: dict[float, Request] = {}
    for place in (place for place in places if place < known.too_large):
        above = max((one for one in taken if one <= place), default=start.position)
        below = min((one for one in taken if one > place), default=end.position)
        size = known.new_size(place, above, below) if below - above > least else None
        if size is not None and size not in requests:
            requests[size] = known.request(
                size, "shrink", f"between {number(start.size)} and {number(end.size)} the winner changes"
            )
    return list(requests.values())


def _sign(stop: Stop) -> float:
    return float(np.sign(stop.value)) if stop.measured else float(stop.state)


def _prolonged(stops: list[Stop], change: Change) -> float:
    """Where the line through the two measured sizes nearest to a change is zero, if that lies in its bracket."""
    start, end = stops[change.start], stops[change.end]
    before = [stop for stop in stops[: change.end] if stop.measured][-2:]
    after = [stop for stop in stops[change.start + 1 :] if stop.measured][:2]
    for pair in (before, after):
        if len(pair) == 2 and pair[0].value != pair[1].value:
            rise = (pair[1].value - pair[0].value) / (pair[1].position - pair[0].position)
            zero = pair[0].position - pair[0].value / rise
            if start.position < zero < end.position:
                return zero
    return math.nan


def _centre(known: _Known, change: Change, line: Line | None) -> float:
    """Where a change is, as far as is known."""
    start, end = known.evidence.stops[change.start], known.evidence.stops[change.end]
    places = [math.nan if line is None else line.zero, change.estimate, _prolonged(known.evidence.stops, change)]
    return next((place for place in places if not math.isnan(place)), (start.position + end.position) / 2)


def _sides(known: _Known, centre: float) -> list[float]:
    """The sizes below and above a change at which to measure: one that is there already if it lies near enough."""
    range_low, range_high = known.position(known.search.range.low), known.position(known.search.range.high)
    # Beyond the range, and where only the sign can be had, there is nothing to measure.
    signs = [stop.position for stop in known.evidence.stops if not stop.measured]
    floor = max((place for place in signs if place < centre), default=-math.inf)
    ceiling = min((place for place in (*signs, known.too_large) if place > centre), default=math.inf)
    found = []
    for side, bound in ((-1, floor), (1, ceiling)):
        place = centre + side * min(ASIDE, abs(bound - centre) / 2)
        place = min(max(place, range_low), range_high)
        there = [
            size
            for size in known.sizes
            if abs(known.position(size) - place) <= NEAR_ENOUGH
            and (known.position(size) - centre) * side >= 0
            and floor < known.position(size) < ceiling
        ]
        if there:
            found.append(min(there, key=lambda size: abs(known.position(size) - place)))
            continue
        limits = (floor, centre) if side < 0 else (centre, ceiling)
        size = known.new_size(place, max(limits[0], range_low - 1e-9), min(limits[1], range_high + 1e-9))
        if size is None:  # whole numbers, or the only sizes there are, lie this far apart
            beyond = [
                one
                for one in known.sizes
                if (known.position(one) - centre) * side > 0 and floor < known.position(one) < ceiling
            ]
            size = min(beyond, key=lambda one: abs(known.position(one) - centre), default=None)
        if size is not None:
            found.append(size)
    return list(dict.fromkeys(found))


def _within_reach(line: Line, search: Search) -> str:
    """The half width that the most pairs on one change would give, in words."""
    return _in_words(line.half_width(pairs=MOST_POLISH_PAIRS, drift=DRIFT), search)


def _in_words(half: float, search: Search) -> str:
    """A half width in u, as people give it."""
    if isinstance(search.axis, str):
        return f"+-{100 * math.expm1(half):.2g} %"
    return f"+-{half / math.log(search.axis[1]):.2g}"
