"""Where the crossover would be with a cause taken away: measured, by taking a rung of the ladder for the whole step.

The ladder takes one thing after another away, and so does this: what is said without copying is without loading too.
The twin stands apart: it is a whole step again, of the family that does the same arithmetic more simply.
Nothing is promised: a training that is rewritten to load or copy less may still pay for something in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.crossover import COLUMNS, crossovers
from analysis.explain import FINER_CLOCK, LADDER, descend, with_kernel_times
from analysis.outcomes import RESOLUTION_S, TICKS
from analysis.question import ask
from analysis.ratios import LEAST_SPARE
from analysis.rounding import listed
from analysis.sentence import Topic, verdict_sentence
from analysis.shift import Shift, shift, shift_words
from analysis.summary import summarise
from analysis.twin import Side, twin_sentence
from sweeps.ladder import HEADLINE, TWIN

#: A crossover needs sizes to lie between.
LEAST_SIZES = 2
CAUSES = tuple(LADDER.values())
#: What is not done any more, and what is so instead.
GONE = {
    "loader": ("loading", "batches are ready on the host"),
    "transfer": ("copying to the device", "the data are there"),
    "sync": ("reading the loss", "nothing waits for it"),
    "launch": ("launching kernels", "what the device computes is all that counts for it"),
}
#: Two verdicts on the same sizes: that of the whole step, and that of what is left.
WHOLE, LEFT = "whole", "left"
#: Columns that tell them apart while they are made; no parameter has such a name.
CASE, STEP = "_case", "_step"


def without(
    rows: pd.DataFrame,
    *,
    axis: str | tuple[str, float],
    baseline: str,
    challenger: str,
    workload: str = "",
    group_by: Sequence[str] = (),
    margin: float = 0.0,
    drift: float | None = None,
) -> pd.DataFrame:
    """Conclude once more with each cause taken away, wherever the ladder was measured at two sizes or more.

    A target that has no such cause keeps its step: a CPU copies nothing to a device, so against an accelerator that
    has its data there stands a CPU whose batches are ready, and against kernels alone one that does not read its loss.

    Args:
        rows: One row a trial of any rung: `<axis>`, `target`, `rung`, `pass_index`, `status`, `step_times_s`, and for
            the rung `kernel` `kernel_time_s` (seconds of kernels per step); what `analysis.crossovers` uses if present
            is used here too.
        axis: Column of sizes, or `(column, base)` where it holds exponents.
        baseline: Target that is compared against.
        challenger: Target that is to overtake it.
        workload: The family; it says what its twin lacks.
        group_by: Columns that split the rows into groups.
        margin: Fraction of the baseline's time that the challenger must save.
        drift: Allowance for slow drift on a log ratio, as `analysis.crossovers` takes it.

    Returns:
        One row a group and cause, in the order of the ladder: the columns of `group_by`; `without` (loader, transfer,
        sync, launch, each with those before it; twin, also where it has too few sizes); the columns of
        `analysis.crossovers` for what is left of the steps; `factor` with its 95 % interval `factor_low` to
        `factor_high`, the crossing of what is left divided by that of the whole step over the same sizes (below 1 it is
        lower; on an axis of exponents their difference; NaN where not both cross the same way, or where an end is
        open); `sentence`. Without a ladder no row.

    Raises:
        ValueError: A column is missing, the axis is not numeric, or a number is out of range.
    """
    column, base = (axis, None) if isinstance(axis, str) else axis
    keys = list(group_by)
    columns = [*keys, "without", *COLUMNS, "factor", "factor_low", "factor_high", "sentence"]
    if rows.columns.empty:
        return pd.DataFrame(columns=columns)
    _check(rows, axis=axis, baseline=baseline, challenger=challenger, group_by=keys, margin=margin, drift=drift)
    rows = _on_own_clock(rows[rows["target"].isin([baseline, challenger])])
    compared = list(_compared(rows, column, (baseline, challenger), keys))
    if not compared:
        return pd.DataFrame(columns=columns)
    frame = pd.concat([one.assign(**{CASE: case}) for case, (one, *_) in enumerate(compared)], ignore_index=True)
    asked: dict[str, Any] = {
        "axis": axis,
        "baseline": baseline,
        "challenger": challenger,
        "group_by": [CASE, STEP],
        "margin": margin,
        "drift": drift,
    }
    verdicts = {(row[CASE], row[STEP]): row for row in _records(crossovers(frame, **asked))}
    sizes = dict(list(summarise(frame, **asked).groupby([CASE, STEP])))
    topic = Topic(axis=column, baseline=baseline, challenger=challenger, margin=margin)
    told = []
    for case, (one, gone, fewer) in enumerate(compared):
        whole, left = verdicts[case, WHOLE], verdicts[case, LEFT]
        whole_sizes, left_sizes = sizes[case, WHOLE], sizes[case, LEFT]
        too_few = left_sizes["state"].ne("unknown").sum() < LEAST_SIZES
        if too_few and gone != [TWIN]:
            continue
        found = None if too_few else shift(whole, left, base=base)
        before = Side(row=whole, sizes=whole_sizes, told=verdict_sentence(whole, whole_sizes, topic))
        after = Side(row=left, sizes=left_sizes, told=verdict_sentence(left, left_sizes, topic))
        if gone == [TWIN]:
            said = [twin_sentence(before, after, topic, workload=workload, base=base, fewer=fewer)]
        else:
            said = _sentences(before, after, gone, found, column, fewer=fewer)
        said += [] if too_few else _doubts(left_sizes, whole_sizes)
        ends = (np.nan,) * 3 if found is None else (found.factor, found.low, found.high)
        factor = dict(zip(("factor", "factor_low", "factor_high"), ends, strict=True))
        key = {name: one[name].iloc[0] for name in keys} | {"without": gone[-1]}
        told.append(left | key | factor | {"sentence": " ".join(said)})
    return pd.DataFrame(told, columns=columns)


def _sentences(
    whole: Side, left: Side, gone: Sequence[str], found: Shift | None, axis: str, *, fewer: bool
) -> list[str]:
    """Say the verdict on what is left of the steps, and how it stands to that on the whole ones."""
    step = "the whole step over the sizes that were taken apart" if fewer else "the whole step"
    if found is not None:
        compared = shift_words(found, axis=axis, first=step, second="what is left")
    elif left.told == whole.told:
        compared = f"So it is with {step}."
    else:
        compared = f"{step[0].upper()}{step[1:]}: {whole.told}"
    return [f"{_where(gone)}: {left.told}", compared]


def _compared(
    rows: pd.DataFrame, axis: str, targets: Sequence[str], keys: Sequence[str]
) -> Iterator[tuple[pd.DataFrame, list[str], bool]]:
    """Yield, for each group and cause that has a ladder, the trials that are compared and all that is gone from them.

    And last, whether the whole step was compared at more sizes, so that its verdict over these may be another.

    The trials are those of the whole step and those of the rung, at the sizes at which both targets have the rung.
    """
    groups = [own for _, own in rows.groupby(list(keys), dropna=False, sort=True)] if keys else [rows]
    for own in groups:
        ladders = {name: descend(set(own.loc[own["target"] == name, "rung"])) for name in targets}
        gone: list[str] = []
        for cause in CAUSES:
            if not any(part == cause for down in ladders.values() for part, *_ in down):
                continue
            gone.append(cause)
            left = pd.Series(False, index=own.index)
            for name, down in ladders.items():
                rung = ([HEADLINE] + [rung for part, _, rung in down if part in gone])[-1]
                left |= (own["target"] == name) & (own["rung"] == rung)
            if (found := _with_whole(own, left, axis, targets)) is not None:
                yield found[0], list(gone), found[1]
        if (found := _with_whole(own, own["rung"] == TWIN, axis, targets)) is not None:
            yield found[0], [TWIN], found[1]


def _with_whole(
    own: pd.DataFrame, left: pd.Series[bool], axis: str, targets: Sequence[str]
) -> tuple[pd.DataFrame, bool] | None:
    """Return trials of what is left with those of the whole step at the same sizes, and whether it has more sizes."""
    has = [set(own.loc[left & (own["target"] == name), axis]) for name in targets]
    here = own[axis].isin(has[0] & has[1])
    both = [
        own[here & which].assign(**{STEP: step}) for which, step in ((own["rung"] == HEADLINE, WHOLE), (left, LEFT))
    ]
    if any(one.empty for one in both):
        return None
    whole = own[~here & own["rung"].eq(HEADLINE) & own["status"].eq("ok")]
    fewer = bool(whole.groupby(axis)["target"].nunique().eq(len(targets)).any())
    return pd.concat(both, ignore_index=True).drop(columns="rung"), fewer


def _check(rows: pd.DataFrame, **asked: Any) -> None:
    """Raise ValueError if the rows cannot answer the question, or do not tell their rungs."""
    ask(rows, **asked)
    needed = ["rung", *(["kernel_time_s"] if "rung" in rows and rows["rung"].eq("kernel").any() else [])]
    missing = [name for name in needed if name not in rows]
    if missing:
        raise ValueError(f"the frame has no column {missing[0]!r}; it has: {', '.join(map(str, rows.columns))}")


def _on_own_clock(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the time of kernels as that of their rung, told by the profiler's finer clock."""
    told = with_kernel_times(rows)
    is_kernel = told["rung"].eq("kernel")
    if not is_kernel.any():
        return told
    tick = told["resolution_s"].astype("float64") if "resolution_s" in told else pd.Series(np.nan, index=told.index)
    finer = tick.fillna(TICKS * RESOLUTION_S) / FINER_CLOCK
    return told.assign(resolution_s=tick.where(~is_kernel, finer))


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def _where(gone: Sequence[str]) -> str:
    """Return how the sentence begins: "Without loading and copying to the device (the data are there)"."""
    return f"Without {listed(GONE[cause][0] for cause in gone)} ({GONE[gone[-1]][1]})"


def _doubts(*tables: pd.DataFrame) -> list[str]:
    """Say what weakens the comparison of two verdicts, given the sizes of each."""
    doubts = []
    if any((own["pairs"] - 1).clip(lower=0).sum() < LEAST_SPARE for own in tables):
        doubts.append("Provisional: there were too few passes to see how runs differ, so that is assumed.")
    if any(own["contended"].any() for own in tables):
        doubts.append("Something else used the machine meanwhile; measure again.")
    return doubts
