"""The frame of summaries: one row a group and size, for charts, tables and the verdict alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.censoring import BASELINE, CHALLENGER, UNDECIDED, describe_known_signs
from analysis.outcomes import describe_outcomes
from analysis.question import ask
from analysis.ratios import compare
from analysis.trials import Points, read_trials

STATES = {BASELINE: "baseline", CHALLENGER: "challenger", UNDECIDED: "undecided"}


def summarise(
    frame: pd.DataFrame,
    *,
    axis: str | tuple[str, float],
    baseline: str,
    challenger: str,
    group_by: Sequence[str] | None = None,
    margin: float = 0.0,
    drift: float | None = None,
) -> pd.DataFrame:
    """Summarise two targets at every size, also where only one of them ran or every trial failed.

    Args:
        frame: One row a trial: `<axis>`, `target`, `status`, `step_times_s` (a list, seconds); used if present:
            `pass_index`, `paired`, `attempt`, `trial_id`, `rung`, `interference`, `deadline_s`, `started_at`,
            `finished_at`, `resolution_s` (below that the clock of a row tells no time; 10 us where it is not given).
        axis: Column of sizes, or `(column, base)` where it holds exponents.
        baseline: Target that is compared against.
        challenger: Target that is to overtake it.
        group_by: Columns that split the frame into groups, or None for one group.
        margin: Fraction of the baseline's time that the challenger must save; it moves the states, not the ratios.
        drift: Allowance for slow drift on the log ratio, or None for the default.

    Returns:
        One row a group and size, sorted by group and then by size: the columns of `group_by`, the axis, and
        for each side typical, lowest and highest seconds per step (`baseline_s`, `baseline_low_s`, `baseline_high_s`,
        `challenger_...`; NaN where none) of the trials that were compared, or of all where none could be; `pairs`, and
        how many of these something else disturbed (`contended`);
        `log_ratio` with its 95 % band `log_ratio_low`, `log_ratio_high` (NaN where no pair; above 0 the baseline is
        faster); `state` (baseline, challenger, undecided, unknown), `strong` (beyond doubt, and by more than 3 %),
        `known_sign` (why the faster target is known without a ratio, else empty), `baseline_status` and
        `challenger_status` (such as "2 ok, 1 timeout").

    Raises:
        ValueError: If a column is missing, a target is unknown, the axis is not numeric, or a number is out of range.
    """
    question = ask(
        frame,
        axis=axis,
        baseline=baseline,
        challenger=challenger,
        group_by=group_by,
        margin=margin,
        drift=drift,
    )
    points, trials = read_trials(frame, question)
    ratios = compare(points, trials, question)
    status = describe_outcomes(trials, len(points.group))
    columns: dict[str, object] = {
        name: points.keys[name].take(points.group).reset_index(drop=True) for name in question.group_by
    }
    columns[question.axis] = points.size.astype(np.int64) if _fits_integers(points) else points.size
    for side, name in enumerate(("baseline", "challenger")):
        columns[f"{name}_s"] = ratios.typical_s[:, side]
        columns[f"{name}_low_s"] = ratios.lowest_s[:, side]
        columns[f"{name}_high_s"] = ratios.highest_s[:, side]
    columns["pairs"] = ratios.pairs
    columns["contended"] = ratios.contended_in
    columns["log_ratio"] = ratios.ratio
    columns["log_ratio_low"] = ratios.ratio - ratios.half
    columns["log_ratio_high"] = ratios.ratio + ratios.half
    columns["state"] = pd.Series(
        [
            STATES[state] if informed else "unknown"
            for state, informed in zip(ratios.state.tolist(), ratios.informed.tolist(), strict=True)
        ],
        dtype="str",
    )
    columns["strong"] = ratios.strong
    columns["known_sign"] = pd.Series(describe_known_signs(ratios.known, ratios.outcomes, question), dtype="str")
    columns["baseline_status"] = pd.Series([pair[0] for pair in status], dtype="str")
    columns["challenger_status"] = pd.Series([pair[1] for pair in status], dtype="str")
    return pd.DataFrame(columns)


def _fits_integers(points: Points) -> bool:
    """Whether the sizes can be shown as whole numbers without losing any."""
    return points.whole and bool(np.all(np.abs(points.size) < 2**53))
