"""The interval of one change from a straight line through the pairs around it.

Close to a change the log ratio is straight, so that every pair nearby tells of the same place. Where pairs were
measured for that purpose the line says more than a curve through the sizes, which has to allow for what lies between
them. The interval is Fieller's (1954, inverse prediction): all positions at which the line may be zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from analysis.censoring import UNDECIDED
from analysis.crossover import crossovers
from analysis.evidence import Evidence, gather
from analysis.outcomes import timed_trials
from analysis.question import Floats, Question, ask
from analysis.ratios import LEAST_CLEAN, compare
from analysis.reasons import NARROWER
from analysis.trials import Points, Trials, read_trials
from analysis.verdict import Change, Stop, Verdict, conclude

#: Allowance for drift, a standard deviation of the log ratio: pairs near a change are measured within minutes.
DRIFT = 0.02
REACH = 0.3  # pairs this far from the change on either side, in u, belong to the line
LEAST_PAIRS = 8
LEAST_SD = 0.015  # of one pair: eight of them may agree by luck


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """The pairs of one group, one value each.

    Attributes:
        position: On the axis, u.
        value: Log ratio with the margin applied; above 0 the baseline is faster.
    """

    position: Floats
    value: Floats


@dataclass(frozen=True, kw_only=True)
class Line:
    """A straight line through the pairs around a change.

    Attributes:
        zero: Position at which the line is zero.
        low, high: 95 % interval of that position; infinite where the slope is not beyond doubt.
        slope: Log ratio per unit of u.
        slope_error: Its standard error.
        sd: Standard deviation of one pair around the line, at least `LEAST_SD`.
        pairs: Their number.
    """

    zero: float
    low: float
    high: float
    slope: float
    slope_error: float
    sd: float
    pairs: int

    @property
    def closed(self) -> bool:
        """Whether the interval has two ends."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def half_width(self, *, pairs: int, drift: float) -> float:
        """Forecast the half width of the interval, as ln(1 + fraction), with so many pairs on both sides of the change.

        Args:
            pairs: Their number, more than 2.
            drift: Allowance on the log ratio for slow drift.
        """
        t = float(special.stdtrit(pairs - 2, 0.975))
        return math.hypot(t * self.sd / math.sqrt(pairs), 1.96 * drift) / abs(self.slope)

    def narrowest(self, *, drift: float) -> float:
        """Half width, as ln(1 + fraction), that no number of pairs gets below: the slope may be as steep as it can."""
        steepest = abs(self.slope) + float(special.stdtrit(self.pairs - 2, 0.975)) * self.slope_error
        return 1.96 * drift / steepest


def read_pairs(points: Points, trials: Trials, question: Question, *, group: int = 0) -> Pairs:
    """Join the trials of one group into pairs.

    Args:
        points: The sizes of all groups.
        trials: The trials that count.
        question: What is asked.
        group: Number of the group.

    Returns:
        One value a pair; none where trials are not paired. Pairs of a busy machine are left out where `analysis.ratios`
        leaves them out.
    """
    if points.unpaired[group]:
        return Pairs(position=np.empty(0), value=np.empty(0))
    rows = np.flatnonzero(timed_trials(trials) & (trials.passed >= 0) & (points.group[trials.point] == group))
    first, second = rows[:-1], rows[1:]
    # Trials are sorted by point, pass and side, so partners are neighbours.
    same = (trials.point[first] == trials.point[second]) & (trials.passed[first] == trials.passed[second])
    baseline, challenger = first[same], second[same]
    point, contended = trials.point[baseline], trials.contended[baseline] | trials.contended[challenger]
    clean = np.bincount(point[~contended], minlength=len(points.size))
    kept = ~(contended & (clean[point] >= LEAST_CLEAN))
    value = np.log(trials.median_s[challenger]) - np.log(trials.median_s[baseline]) + question.shift
    return Pairs(position=question.position(points.size[point[kept]]), value=value[kept])


def fit_line(pairs: Pairs, around: float, *, drift: float) -> Line | None:
    """Fit the line through the pairs around a change.

    Args:
        pairs: All pairs of the group.
        around: Position of the change, roughly.
        drift: Allowance on the log ratio for slow drift (a standard deviation).

    Returns:
        The line, or None where fewer than `LEAST_PAIRS` pairs are near, all at one size, or the line is level.
    """
    near = np.abs(pairs.position - around) <= REACH
    u, value = pairs.position[near], pairs.value[near]
    n = len(u)
    if n < LEAST_PAIRS or np.ptp(u) == 0:
        return None
    middle, mean = float(u.mean()), float(value.mean())
    spread = float(((u - middle) ** 2).sum())
    slope = float(((u - middle) * (value - mean)).sum()) / spread
    if slope == 0:
        return None
    left = value - mean - slope * (u - middle)
    sd = max(math.sqrt(float((left**2).sum()) / (n - 2)), LEAST_SD)
    t = float(special.stdtrit(n - 2, 0.975))
    shift, share = -mean / slope, (t * sd / slope) ** 2 / spread
    low, high = -math.inf, math.inf
    if share < 1:
        centre = shift / (1 - share)
        arm = t * sd / (abs(slope) * (1 - share)) * math.sqrt((1 - share) / n + shift**2 / spread)
        allowance = 1.96 * drift / abs(slope)
        low = middle + shift - math.hypot(shift - (centre - arm), allowance)
        high = middle + shift + math.hypot(centre + arm - shift, allowance)
    return Line(
        zero=middle + shift,
        low=low,
        high=high,
        slope=slope,
        slope_error=sd / math.sqrt(spread),
        sd=sd,
        pairs=n,
    )


def line_of(change: Change, evidence: Evidence, pairs: Pairs) -> Line | None:
    """Fit the line of a change that has a bracket, if it may be believed there.

    Args:
        change: A change of the verdict.
        evidence: What is known of the group.
        pairs: Its pairs.

    Returns:
        The line, of which the zero lies in the bracket; None where the curve jumps or its sizes lie too far apart,
        where the line goes the wrong way, or where there are too few pairs.
    """
    start, end = evidence.stops[change.start], evidence.stops[change.end]
    if change.jump or change.sparse or UNDECIDED in (start.state, end.state):
        return None
    around = (start.position + end.position) / 2 if math.isnan(change.estimate) else change.estimate
    line = fit_line(pairs, around, drift=evidence.drift)
    if line is not None:
        line = fit_line(pairs, line.zero, drift=evidence.drift)  # now around where it is zero
    if line is None or not start.position <= line.zero <= end.position or line.slope * (end.state - start.state) < 0:
        return None
    return line


def within_bracket(line: Line, change: Change, stops: list[Stop]) -> tuple[float, float]:
    """Return the interval of a line, as positions; it cannot reach beyond the decided sizes of its change.

    Args:
        line: A closed one.
        change: Its change.
        stops: The sizes of the group.
    """
    return max(line.low, stops[change.start].position), min(line.high, stops[change.end].position)


def narrowed(
    frame: pd.DataFrame,
    *,
    axis: str | tuple[str, float],
    baseline: str,
    challenger: str,
    group_by: Sequence[str] | None = None,
    margin: float = 0.0,
    drift: float | None = DRIFT,
) -> pd.DataFrame:
    """Conclude from the records of adaptive searches, with the interval of the line through the pairs near a change.

    Args:
        frame: As `analysis.crossovers` takes it.
        axis: Column of sizes, or `(column, base)` where it holds exponents.
        baseline: Target that is compared against.
        challenger: Target that is to overtake it.
        group_by: Columns that split the frame into groups, or None for one group.
        margin: Fraction of the baseline's time that the challenger must save.
        drift: Allowance for slow drift on the log ratio, as `analysis.crossovers` takes it.

    Returns:
        What `analysis.crossovers` returns. Of each change that has enough pairs close by, `estimate`, `low` and `high`
        are those of the straight line through these pairs, and a reason says so.

    Raises:
        ValueError: As `analysis.crossovers` does.
    """
    question = ask(
        frame, axis=axis, baseline=baseline, challenger=challenger, group_by=group_by, margin=margin, drift=drift
    )
    answer = crossovers(
        frame, axis=axis, baseline=baseline, challenger=challenger, group_by=group_by, margin=margin, drift=drift
    )
    numbers = {name: answer[name].to_numpy(copy=True) for name in ("estimate", "low", "high")}
    reasons = [list(each) for each in answer["reasons"]]
    points, trials = read_trials(frame, question)
    for group, evidence in enumerate(gather(points, trials, compare(points, trials, question), question)):
        conclusion = conclude(evidence.stops, assumed=evidence.assumed)
        if not conclusion.changes:
            continue
        pairs, used = read_pairs(points, trials, question, group=group), []
        for number, change in enumerate(conclusion.changes):
            line = line_of(change, evidence, pairs)
            if line is None or not line.closed:
                continue
            used.append(line.pairs)
            ends = (line.zero, *within_bracket(line, change, evidence.stops))
            for name, position in zip(numbers, ends, strict=True):
                size = question.size_at(position)
                if conclusion.verdict is Verdict.SEVERAL:
                    answer["changes"].iloc[group][number][name] = size
                else:
                    numbers[name][group] = size
        if used:
            why, *others = reasons[group]
            # More sizes would narrow the curve through them, which is not what such an interval is made from.
            reasons[group] = [why, _told(used), *(other for other in others if not other.startswith(NARROWER))]
    return answer.assign(reasons=pd.Series(reasons, index=answer.index, dtype=object), **numbers)


def _told(pairs: list[int]) -> str:
    """Say where intervals come from that are those of lines through so many pairs."""
    if len(pairs) == 1:
        return f"the interval is that of a straight line through the {pairs[0]} pairs close to the change"
    return (
        f"the intervals are those of straight lines through the {min(pairs)} to {max(pairs)} pairs close to each change"
    )
