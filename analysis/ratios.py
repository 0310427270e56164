"""The log ratio of the two targets at each size, with its band: from trials to one row a point.

A log ratio is ln(challenger's seconds) - ln(baseline's seconds): above zero the baseline is faster. The band comes from
moderated variances (Smyth 2004, "Linear models and empirical Bayes methods"): the few pairs of one size borrow from the
spread of all sizes of their group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from analysis.censoring import UNDECIDED, find_known_signs
from analysis.outcomes import Outcomes, count_by_side, count_outcomes, timed_trials
from analysis.question import Bools, Floats, Ints, Question
from analysis.trials import Points, Trials

LEAST_CLEAN = 3  # contended pairs are left out where this many clean pairs of the size remain
PRIOR_DF = 4  # weight of the pooled variance, in pairs, against the size's own
LEAST_SPARE = 3  # with fewer spare pairs in a group the spread between processes is assumed
ASSUMED_SD, ASSUMED_DF = 0.04, 5.0  # that assumption, on the log ratio
ROUGH_FLOOR, ROUGH_DEFAULT = 0.05, 0.10  # assumed SD within processes where trials have too few steps
ROUGH_LEAST_SIZES = 4
DRIFT_FEW, DRIFT_MANY, FEW_PAIRS = 0.01, 0.02, 5
MATERIAL = 0.03  # a strong state differs by more than this
ROUNDING = 1e-12  # and by more than what the time unit does to the last digits


@dataclass(frozen=True, kw_only=True)
class Ratios:
    """What is known at each point; all arrays have one value a point unless said.

    Attributes:
        pairs: Number of pairs used; for unpaired groups the smaller number of trials.
        ratio: Mean log ratio, without margin; NaN where there is no pair.
        half: Half width of its 95 % band.
        known: BASELINE or CHALLENGER where the faster target is known without a ratio, else 0.
        state: BASELINE, CHALLENGER or UNDECIDED, with the margin applied.
        informed: Whether the point has a ratio or a known sign.
        strong: Whether the state is beyond doubt and material.
        typical_s, lowest_s, highest_s: Seconds per step, shape (points, 2), by side; NaN where none.
        outcomes: How the trials ended.
        unmatched: Timed trials without a partner in their pass, where both sides have any.
        contended_out, contended_in: Contended pairs that were left out, and that were used; trials where unpaired.
        drift: Allowance for drift, one value a group.
        assumed: Whether the spread between processes is assumed, one value a group.
    """

    pairs: Ints
    ratio: Floats
    half: Floats
    known: Ints
    state: Ints
    informed: Bools
    strong: Bools
    typical_s: Floats
    lowest_s: Floats
    highest_s: Floats
    outcomes: Outcomes
    unmatched: Ints
    contended_out: Ints
    contended_in: Ints
    drift: Floats
    assumed: Bools


@dataclass(frozen=True, kw_only=True)
class _Samples:
    """Values that enter a mean: one a pair, or one a trial of an unpaired group."""

    point: Ints
    value: Floats
    spread: Floats


@dataclass(frozen=True, kw_only=True)
class _Moments:
    """Mean of the samples at each point, the variance of that mean and its degrees of freedom; assumed is by group."""

    count: Ints
    mean: Floats
    variance: Floats
    df: Floats
    assumed: Bools


@dataclass(frozen=True, kw_only=True)
class _Joined:
    """The moments of the log ratio, and which trials went into them."""

    moments: _Moments
    used: Bools
    contended_out: Ints
    contended_in: Ints


def compare(points: Points, trials: Trials, question: Question) -> Ratios:
    """Compare the two targets at every point.

    Args:
        points: The sizes of all groups.
        trials: The trials that count.
        question: What is asked.

    Returns:
        One value a point: log ratios, bands, states, and the counts that explain them.
    """
    n = len(points.group)
    timed, loose = timed_trials(trials), points.unpaired[points.group]
    joined = _join_pairs(points, trials, timed & ~loose[trials.point])
    if loose.any():
        joined = _merge(joined, _join_sides(points, trials, timed & loose[trials.point]), points)
    moments, outcomes = joined.moments, count_outcomes(trials, n)
    drift = _drift(moments.count, points, question)
    error, allowance = np.sqrt(moments.variance), drift[points.group]
    half = np.hypot(special.stdtrit(moments.df, 0.975) * error, 1.96 * allowance)
    half_99 = np.hypot(special.stdtrit(moments.df, 0.995) * error, 2.576 * allowance)

    known = np.where(moments.count > 0, UNDECIDED, find_known_signs(trials, outcomes, question))
    value = np.nan_to_num(moments.mean + question.shift)
    decided = np.where(np.abs(value) > half, np.sign(value), UNDECIDED).astype(np.int64)
    strong = (np.abs(value) > half_99) & (np.abs(value) > MATERIAL + ROUNDING)
    alone = timed & (moments.count == 0)[trials.point]
    typical, lowest, highest = _typical(trials, joined.used | alone, n)
    # Where one side has no time at all its outcome is the story, and not that the others lack a partner.
    lone_side = (outcomes.finished == outcomes.too_quick).any(axis=1)
    unmatched = count_by_side(trials, timed & ~joined.used, n).sum(axis=1) - 2 * joined.contended_out
    return Ratios(
        pairs=moments.count,
        ratio=moments.mean,
        half=half,
        known=known,
        state=np.where(known != UNDECIDED, known, decided),
        informed=(moments.count > 0) | (known != UNDECIDED),
        strong=strong | (known != UNDECIDED),
        typical_s=typical,
        lowest_s=lowest,
        highest_s=highest,
        outcomes=outcomes,
        unmatched=np.where(loose | lone_side, 0, unmatched),
        contended_out=joined.contended_out,
        contended_in=joined.contended_in,
        drift=drift,
        assumed=moments.assumed,
    )


def _join_pairs(points: Points, trials: Trials, timed: Bools) -> _Joined:
    """Join the trials of one point and pass, and compare them pair by pair."""
    n = len(points.group)
    rows = np.flatnonzero(timed & (trials.passed >= 0))
    first, second = rows[:-1], rows[1:]
    # Trials are sorted by point, pass and side, so partners are neighbours.
    same = (trials.point[first] == trials.point[second]) & (trials.passed[first] == trials.passed[second])
    baseline, challenger = first[same], second[same]
    point = trials.point[baseline]
    contended = trials.contended[baseline] | trials.contended[challenger]
    dropped = _droppable(point, contended, n)
    kept_baseline, kept_challenger = baseline[~dropped], challenger[~dropped]
    samples = _Samples(
        point=point[~dropped],
        value=np.log(trials.median_s[kept_challenger]) - np.log(trials.median_s[kept_baseline]),
        spread=trials.spread[kept_challenger] + trials.spread[kept_baseline],
    )
    used = np.zeros(len(timed), dtype=bool)
    used[kept_baseline] = used[kept_challenger] = True
    return _Joined(
        moments=_moments(samples, points, rough_share=1.0),
        used=used,
        contended_out=np.bincount(point[dropped], minlength=n),
        contended_in=np.bincount(point[contended & ~dropped], minlength=n),
    )


def _join_sides(points: Points, trials: Trials, timed: Bools) -> _Joined:
    """Compare all trials of one target with all of the other, where nothing pairs them."""
    n = len(points.group)
    sides: list[_Moments] = []
    used = np.zeros(len(timed), dtype=bool)
    contended_out, contended_in = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for side in (0, 1):
        rows = np.flatnonzero(timed & (trials.side == side))
        dropped = _droppable(trials.point[rows], trials.contended[rows], n)
        contended_out += np.bincount(trials.point[rows[dropped]], minlength=n)
        rows = rows[~dropped]
        contended_in += np.bincount(trials.point[rows[trials.contended[rows]]], minlength=n)
        samples = _Samples(
            point=trials.point[rows],
            value=np.log(trials.median_s[rows]),
            spread=trials.spread[rows],
        )
        # Half of what the curve of the log ratio would be allowed to wobble belongs to each side.
        sides.append(_moments(samples, points, rough_share=0.5))
        used[rows] = True
    low, high = sides
    moments = _Moments(
        count=np.minimum(low.count, high.count),
        mean=high.mean - low.mean,
        variance=low.variance + high.variance,
        df=np.minimum(low.df, high.df),
        assumed=low.assumed | high.assumed,
    )
    return _Joined(moments=moments, used=used, contended_out=contended_out, contended_in=contended_in)


def _merge(paired: _Joined, unpaired: _Joined, points: Points) -> _Joined:
    """Take each group from where it was joined."""
    loose = points.unpaired[points.group]
    return _Joined(
        moments=_Moments(
            count=np.where(loose, unpaired.moments.count, paired.moments.count),
            mean=np.where(loose, unpaired.moments.mean, paired.moments.mean),
            variance=np.where(loose, unpaired.moments.variance, paired.moments.variance),
            df=np.where(loose, unpaired.moments.df, paired.moments.df),
            assumed=np.where(points.unpaired, unpaired.moments.assumed, paired.moments.assumed),
        ),
        used=paired.used | unpaired.used,
        contended_out=paired.contended_out + unpaired.contended_out,
        contended_in=paired.contended_in + unpaired.contended_in,
    )


def _droppable(point: Ints, contended: Bools, n_points: int) -> Bools:
    clean = np.bincount(point[~contended], minlength=n_points)
    return contended & (clean[point] >= LEAST_CLEAN)


def _moments(samples: _Samples, points: Points, *, rough_share: float) -> _Moments:
    """Mean and moderated variance of the samples at each point.

    With fewer than three spare samples in a group there is too little to pool: the spread between processes is then
    assumed, and that within them taken from their steps. Where one or two spare samples show more, that counts.
    """
    n, n_groups = len(points.group), len(points.unpaired)
    count = np.bincount(samples.point, minlength=n)
    per = np.maximum(count, 1)
    mean = np.bincount(samples.point, weights=samples.value, minlength=n) / per
    square = np.bincount(samples.point, weights=(samples.value - mean[samples.point]) ** 2, minlength=n)
    spare = np.bincount(points.group, weights=np.maximum(count - 1, 0), minlength=n_groups)
    pooled = np.bincount(points.group, weights=square, minlength=n_groups) / np.maximum(spare, 1)
    assumed = spare < LEAST_SPARE

    own_df = PRIOR_DF + per - 1.0
    moderated = (PRIOR_DF * pooled[points.group] + square) / own_df
    df = np.minimum(own_df, spare[points.group])
    if assumed.any():
        rough = rough_share * _rough_deviation(mean, count, points) ** 2
        within = np.where(np.isnan(samples.spread), rough[points.group[samples.point]], samples.spread)
        within = np.bincount(samples.point, weights=within, minlength=n) / per
        seen = np.where(spare > 0, pooled, 0.0)[points.group]
        moderated = np.where(assumed[points.group], np.maximum(within + ASSUMED_SD**2, seen), moderated)
        df = np.where(assumed[points.group], ASSUMED_DF, df)
    none = count == 0
    return _Moments(
        count=count,
        mean=np.where(none, np.nan, mean),
        variance=np.where(none, np.nan, moderated / per),
        df=df,
        assumed=assumed,
    )


def _rough_deviation(mean: Floats, count: Ints, points: Points) -> Floats:
    """Standard deviation, a group, of what second differences leave of the means of neighbouring sizes.

    A second difference of independent values has sqrt(6) times their deviation, and the median of its size is
    0.6745 deviations.
    """
    nodes = np.flatnonzero(count > 0)
    group, value = points.group[nodes], mean[nodes]
    n_groups = len(points.unpaired)
    bend = np.abs(value[:-2] - 2 * value[1:-1] + value[2:])
    same = group[:-2] == group[2:]
    median = pd.Series(bend[same]).groupby(group[1:-1][same]).median().reindex(range(n_groups)).to_numpy()
    rough = np.fmax(ROUGH_FLOOR, median / (0.6745 * np.sqrt(6)))
    return np.where(np.bincount(group, minlength=n_groups) >= ROUGH_LEAST_SIZES, rough, ROUGH_DEFAULT)


def _drift(pairs: Ints, points: Points, question: Question) -> Floats:
    """Allowance for drift that moves all sizes of a sweep together, which no repeat inside the sweep shows."""
    n_groups = len(points.unpaired)
    if question.drift is not None:
        return np.full(n_groups, question.drift)
    most = np.zeros(n_groups, dtype=np.int64)
    np.maximum.at(most, points.group, pairs)
    return np.where((most <= FEW_PAIRS) & ~points.unpaired, DRIFT_FEW, DRIFT_MANY)


def _typical(trials: Trials, shown: Bools, n: int) -> tuple[Floats, Floats, Floats]:
    """Geometric mean, smallest and largest of the medians shown, each of shape (points, 2)."""
    place = (trials.point * 2 + trials.side)[shown]
    medians = trials.median_s[shown]
    number = np.bincount(place, minlength=2 * n)
    mean = np.bincount(place, weights=np.log(medians), minlength=2 * n) / np.maximum(number, 1)
    lowest, highest = np.full(2 * n, np.nan), np.full(2 * n, np.nan)
    np.fmin.at(lowest, place, medians)
    np.fmax.at(highest, place, medians)
    # The mean of logs may miss a lone value by a rounding error; it may not leave the range.
    typical = np.clip(np.exp(mean), lowest, highest)
    return typical.reshape(n, 2), lowest.reshape(n, 2), highest.reshape(n, 2)
