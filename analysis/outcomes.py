"""How the final trials of each size ended: counted, and in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.question import Bools, Ints
from analysis.trials import UNUSABLE, Trials

RESOLUTION_S = 1e-6  # a clock tick
TICKS = 10  # a median of fewer ticks is not a time
NOT_RUN = "not run"
ASKED_AGAIN = ("node_lost", "unavailable")  # statuses that are no answers
TOO_QUICK = "below resolution"  # in words: finished, but in steps too short for the clock
#: Statuses of trials that finished, and have nothing to compare.
NO_RATE = "rate of 0"
NO_PRICE = "no price"
NO_ENERGY = "energy not measured"
NO_FIRST_STEP = "first step not recorded"
NO_TRAINING = "no whole training"
NOTHING_TO_COMPARE = frozenset({NO_RATE, NO_PRICE, NO_ENERGY, NO_FIRST_STEP, NO_TRAINING, UNUSABLE})


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """Numbers of final trials, each of shape (points, 2): baseline, challenger.

    Attributes:
        final: All of them that have an answer: a trial whose machine was lost or missing is asked again.
        finished: Those that are ok and have usable times.
        too_quick: Those of them whose steps are below the clock's resolution.
        timeout: Those that ran into their limit.
        oom: Those that ran out of memory.
    """

    final: Ints
    finished: Ints
    too_quick: Ints
    timeout: Ints
    oom: Ints


def timed_trials(trials: Trials) -> Bools:
    """Tell which trials have a time: usable, and not below the clock's resolution.

    Args:
        trials: The trials that count.

    Returns:
        One value a trial.
    """
    shortest = np.where(np.isnan(trials.resolution_s), TICKS * RESOLUTION_S, trials.resolution_s)
    median = np.nan_to_num(trials.median_s)
    return np.asarray((median >= shortest) & (median > 0))


def count_outcomes(trials: Trials, n_points: int) -> Outcomes:
    """Count how the trials ended.

    Args:
        trials: The trials that count.
        n_points: Number of points.

    Returns:
        The counts, by point and side.
    """
    finished = ~np.isnan(trials.median_s)
    return Outcomes(
        final=count_by_side(trials, ~np.isin(trials.status.astype(str), ASKED_AGAIN), n_points),
        finished=count_by_side(trials, finished, n_points),
        too_quick=count_by_side(trials, finished & ~timed_trials(trials), n_points),
        timeout=count_by_side(trials, np.asarray(trials.status == "timeout"), n_points),
        oom=count_by_side(trials, np.asarray(trials.status == "oom"), n_points),
    )


def count_by_side(trials: Trials, chosen: Bools, n_points: int) -> Ints:
    """Count chosen trials.

    Args:
        trials: The trials that count.
        chosen: Which of them to count.
        n_points: Number of points.

    Returns:
        Counts of shape (points, 2): baseline, challenger.
    """
    place = trials.point[chosen] * 2 + trials.side[chosen]
    return np.bincount(place, minlength=2 * n_points).reshape(n_points, 2)


def describe_outcomes(trials: Trials, n_points: int) -> list[list[str]]:
    """Say how the final trials of each point ended.

    Args:
        trials: The trials that count.
        n_points: Number of points.

    Returns:
        For each point two texts, of the baseline and of the challenger: "ok", "timeout", "2 ok, 1 timeout", "not run".
    """
    finished = ~np.isnan(trials.median_s)
    status = np.where(finished & ~timed_trials(trials), TOO_QUICK, trials.status)
    codes, names = pd.factorize(status)
    place = (trials.point * 2 + trials.side) * max(len(names), 1) + codes
    found, number = np.unique(place, return_counts=True)
    parts: list[list[tuple[str, int]]] = [[] for _ in range(2 * n_points)]
    for key, count in zip(found.tolist(), number.tolist(), strict=True):
        where, code = divmod(key, len(names))
        parts[where].append((str(names[code]), count))
    texts = [_in_words(part) for part in parts]
    return [list(pair) for pair in zip(texts[::2], texts[1::2], strict=True)]


def why_no_value(name: str, outcome: str) -> str:
    """Say why a target without a value has none: it did not finish, or did and has nothing to compare.

    Args:
        name: The target.
        outcome: One text of `describe_outcomes`.

    Returns:
        Such as "gpu did not finish (2 oom, 1 timeout)" or "gpu has nothing to compare (rate of 0)".
    """
    kinds = {part.lstrip("0123456789").strip() if ", " in outcome else part for part in outcome.split(", ")}
    ended = "has nothing to compare" if kinds <= NOTHING_TO_COMPARE else "did not finish"
    return f"{name} {ended} ({outcome})"


def _in_words(parts: list[tuple[str, int]]) -> str:
    if len(parts) < 2:
        return parts[0][0] if parts else NOT_RUN
    return ", ".join(f"{count} {name}" for name, count in sorted(parts, key=lambda part: (part[0] != "ok", part)))
