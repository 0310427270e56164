"""Who is faster at a size where one target has no time: it timed out, or its steps are below the clock's resolution.

Nothing but the sign is known there: a limit is never used as a time, and running out of memory says nothing about time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.outcomes import RESOLUTION_S, TICKS, TOO_QUICK, Outcomes, timed_trials
from analysis.question import Bools, Floats, Ints, Question
from analysis.trials import Trials

BASELINE, UNDECIDED, CHALLENGER = 1, 0, -1  # who is faster: the sign of the log ratio


@dataclass(frozen=True, kw_only=True)
class _Bounds:
    """What is known instead of a time, each of shape (points, 2); NaN where nothing is.

    Attributes:
        limit: Smallest limit that a trial ran into, seconds.
        spent: Longest whole trial that finished, seconds; its limit where the seconds are not known.
        quickest: Smallest median of the trials that have one, seconds per step.
        ceiling: What a median below resolution is certainly under, seconds per step.
    """

    limit: Floats
    spent: Floats
    quickest: Floats
    ceiling: Floats


def find_known_signs(trials: Trials, outcomes: Outcomes, question: Question) -> Ints:
    """Find the points at which the faster target is known without a ratio.

    Args:
        trials: The trials that count.
        outcomes: How they ended.
        question: What is asked.

    Returns:
        BASELINE, CHALLENGER, or 0 where it is not known; one value a point.
    """
    bounds = _bounds(trials, len(outcomes.final))
    known = np.zeros(len(outcomes.final), dtype=np.int64)
    for loser, winner, sign in ((0, 1, CHALLENGER), (1, 0, BASELINE)):
        known[_timed_out(loser, winner, outcomes, bounds, question)] = sign
        known[_too_quick(loser, winner, outcomes, bounds, question)] = sign
    return known


def describe_known_signs(known: Ints, outcomes: Outcomes, question: Question) -> list[str]:
    """Say, for each point, why the faster target is known without a ratio; empty where it is not.

    Args:
        known: BASELINE, CHALLENGER or 0.
        outcomes: How the trials ended.
        question: What is asked.

    Returns:
        One text a point, such as "cpu timed out".
    """
    texts = [""] * len(known)
    for point in np.flatnonzero(known).tolist():
        winner, loser = (0, 1) if known[point] == BASELINE else (1, 0)
        timed_out = outcomes.timeout[point, loser] > 0
        texts[point] = (
            f"{question.targets[loser]} timed out" if timed_out else f"{question.targets[winner]} {TOO_QUICK}"
        )
    return texts


def _bounds(trials: Trials, n_points: int) -> _Bounds:
    place = trials.point * 2 + trials.side

    def extreme(better: np.ufunc, values: Floats, chosen: Bools) -> Floats:
        result = np.full(2 * n_points, np.nan)
        better.at(result, place[chosen], values[chosen])
        return result.reshape(n_points, 2)

    finished, timed = ~np.isnan(trials.median_s), timed_trials(trials)
    spent = np.where(np.isnan(trials.elapsed_s), trials.deadline_s, trials.elapsed_s)
    tick = np.where(np.isnan(trials.resolution_s), RESOLUTION_S, trials.resolution_s)
    # Where nobody knows the clock, a zero may be anything.
    below = np.where(tick > 0, np.fmax(TICKS * tick, trials.median_s + tick), np.inf)
    return _Bounds(
        limit=extreme(np.fmin, trials.deadline_s, np.asarray(trials.status == "timeout")),
        spent=extreme(np.fmax, spent, finished),
        quickest=extreme(np.fmin, trials.median_s, timed),
        ceiling=extreme(np.fmax, below, finished & ~timed),
    )


def _timed_out(loser: int, winner: int, outcomes: Outcomes, bounds: _Bounds, question: Question) -> Bools:
    """Every trial of the loser ran into a limit under which the winner finished.

    Where no seconds are known the limits are taken as equal.
    """
    lost = (outcomes.final[:, loser] > 0) & (outcomes.timeout[:, loser] == outcomes.final[:, loser])
    won = (outcomes.finished[:, winner] > 0) & (outcomes.timeout[:, winner] == 0)
    limit = np.where(np.isnan(bounds.limit[:, loser]), 1.0, bounds.limit[:, loser])
    unknown = np.isnan(bounds.limit[:, loser]) | np.isnan(bounds.spent[:, winner])
    spent = np.where(unknown, limit, bounds.spent[:, winner])
    share = question.shares
    return np.asarray(lost & won & (spent * share[winner] <= limit * share[loser]))


def _too_quick(loser: int, winner: int, outcomes: Outcomes, bounds: _Bounds, question: Question) -> Bools:
    """Every finished trial of the winner is too quick for the clock, and every one of the loser is not."""
    won = (outcomes.too_quick[:, winner] > 0) & (outcomes.too_quick[:, winner] == outcomes.finished[:, winner])
    lost = outcomes.too_quick[:, loser] == 0
    complete = (outcomes.timeout == 0).all(axis=1)
    ceiling, quickest, share = bounds.ceiling[:, winner], bounds.quickest[:, loser], question.shares
    with np.errstate(invalid="ignore"):
        clear = (quickest > ceiling) & (ceiling * share[winner] < quickest * share[loser])
    return np.asarray(won & lost & complete & clear)
