"""What operators, arithmetic and memory cost on a target: a law of its step times, fitted, with its error.

The law is t = operators x latency + FLOPs / rate + bytes / bandwidth. Its three terms are told only where the data can
tell them apart: along one axis they often grow together, so pool the sizes of several axes where they share a machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from analysis.explain import LADDER
from analysis.question import Floats
from analysis.rounding import listed, percent, rate, seconds
from analysis.step_times import reduce_step_times
from sweeps.ladder import HEADLINE
from sweeps.record import CONTENDED

#: A law of three terms that is fitted to fewer points says nothing.
LEAST_SIZES = 4
#: Nobody knows a time better than this, so no term is told from a difference smaller than that.
LEAST_NOISE = 0.01
#: A law that is typically further off than this, at sizes it has not seen, explains nothing.
UNEXPLAINED = 0.5
#: How often a step of SGD moves each parameter: read forward and backward, its gradient written and read, read and
#: written by the update.
TOUCHES = 6
#: What a step does, in the order of the terms of the law: column here, the columns of a row that tell it, and in words.
WORK = {
    "ops": (("ops_per_step",), "operators"),
    "flops": (("flops_per_step",), "FLOPs"),
    "bytes": (("parameter_bytes", "h2d_bytes_per_step"), "bytes"),
}
#: From what is left of a step when all else is gone to the whole step; kernels alone have no cost of operators.
RUNGS = (*[rung for rung in reversed(LADDER) if rung != "kernel"], HEADLINE)
#: What is timed on each of them, in words.
STEPS = {
    "nosync": "a step whose loss is not read",
    "resident": "a step with its data on the device",
    "preload": "a step with its batches ready",
    HEADLINE: "a whole step",
}
#: The column of sizes in here; no axis can have a name with a space.
SIZE = "the size"
ERRORS = ("error", "error_largest", "left_out", "left_out_largest")
CONSTANTS = ("latency_s", "flops_per_s", "bytes_per_s")


def fit_costs(
    frame: pd.DataFrame,
    *,
    axis: str,
    targets: Sequence[str],
    group_by: Sequence[str] = (),
) -> pd.DataFrame:
    """Fit the law to the step times of each target, by non-negative least squares on the relative error.

    What is fitted is the step with the most taken away that was measured at 4 sizes or more, without the profiler's
    rung: a loader's time, say, would pass for that of arithmetic.

    Args:
        frame: One row a trial: `<axis>`, `target`, `status`, `step_times_s`; `ops_per_step`, `flops_per_step`,
            `parameter_bytes`, `h2d_bytes_per_step` (without them there is no fit); if present `rung`, `interference`.
        axis: Column of sizes.
        targets: Whose costs to fit.
        group_by: Columns that split the frame into groups. Where sizes differ in two ways (say width and batch size)
            leave both out: rows that do different work are points of their own.

    Returns:
        One row a group and target that has any row: the columns of `group_by`, `target`; `rung`, the step that was
        fitted; `latency_s` (seconds an operator), `flops_per_s`, `bytes_per_s` (NaN where that term is zero or cannot
        be told apart from the others, by its 95 % interval); the relative error of the law, `error` in the median and
        `error_largest`, and the same for sizes that were left out of the fit, one at a time (`left_out`,
        `left_out_largest`; 0.1 is a factor of 1.1 either way); `sizes`, the number of points; `sentence`. Without a fit
        all numbers are NaN and the sentence says why.

    Raises:
        ValueError: A column is missing.
    """
    keys = list(group_by)
    needed = [axis, "target", "status", "step_times_s", *keys]
    if missing := [name for name in needed if name not in frame]:
        raise ValueError(f"the frame has no column {', '.join(map(repr, missing))}")
    points = _points(frame, [*keys, "target"], axis)
    rows: list[dict[str, Any]] = []
    groups = [own for _, own in points.groupby(keys, dropna=False, sort=True)] if keys else [points]
    for group in groups:
        for target in targets:
            own = group[group["target"] == target]
            if not own.empty:
                key = {name: own[name].iloc[0] for name in keys}
                rows.append({**key, "target": target, **_row(own, target)})
    return pd.DataFrame(rows, columns=[*keys, "target", "rung", *CONSTANTS, *ERRORS, "sizes", "sentence"])


def work_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what a step of each row does: `ops`, `flops` and `bytes`, NaN where that is not known.

    Bytes are those that a step moves at least: each parameter as often as SGD does, and the batch once. What is
    computed on the way is not counted.
    """
    columns = [column for needed, _ in WORK.values() for column in needed]
    known = rows.reindex(columns=columns).astype("float64")
    moved = TOUCHES * known["parameter_bytes"] + known["h2d_bytes_per_step"]
    return pd.DataFrame({"ops": known["ops_per_step"], "flops": known["flops_per_step"], "bytes": moved})


@dataclass(frozen=True, kw_only=True)
class _Law:
    """The three costs: seconds an operator, a FLOP, a byte.

    Attributes:
        costs: Shape (3,), never below zero.
        told: Which of them the data can tell, shape (3,).
        errors: The four errors, as `ERRORS` names them.
    """

    costs: Floats
    told: tuple[bool, ...]
    errors: tuple[float, ...]


def _points(frame: pd.DataFrame, keys: list[str], axis: str) -> pd.DataFrame:
    """Return one row a target, rung, size and work of a step: its time, the geometric mean of the trials' medians.

    Disturbed trials are left out where others remain.
    """
    ok = frame["status"].eq("ok").to_numpy(dtype=bool, na_value=False)
    rows = frame[ok]
    rows = rows.assign(rung=rows.get("rung", HEADLINE))
    rows = rows[rows["rung"].isin(RUNGS)]
    lists = rows["step_times_s"].to_numpy(dtype=object)
    time_s = reduce_step_times(lists, np.ones(len(rows), dtype=bool)).median_s
    sized = rows[[*keys, "rung", axis]].rename(columns={axis: SIZE})  # an axis may be called "flops"
    rows = pd.concat([sized, work_of(rows)], axis=1).assign(
        log_s=np.log(np.where(time_s > 0, time_s, np.nan)),
        disturbed=rows["interference"].eq(CONTENDED).fillna(False).astype(bool) if "interference" in rows else False,
    )
    rows = rows[rows["log_s"].notna() & rows[SIZE].notna()]
    at = [*keys, "rung", SIZE, *WORK]
    clean = ~rows["disturbed"]
    any_clean = clean.groupby([rows[name] for name in at], dropna=False, observed=True).transform("any")
    means = rows[clean | ~any_clean].groupby(at, dropna=False, observed=True)["log_s"].mean().reset_index()
    return means.assign(time_s=np.exp(means["log_s"])).drop(columns="log_s")


def _row(points: pd.DataFrame, target: str) -> dict[str, Any]:
    """Fit one target of one group, or say why not."""
    counts = points["rung"].value_counts()
    rung = next((rung for rung in RUNGS if counts.get(rung, 0) >= LEAST_SIZES), HEADLINE)
    own = points[points["rung"] == rung]
    none: dict[str, Any] = dict.fromkeys((*CONSTANTS, *ERRORS), np.nan) | {"rung": rung, "sizes": len(own)}
    if reason := _no_fit(own):
        return none | {"sentence": f"What a step costs on {target} is not fitted: {reason}."}
    law = _fit(own[list(WORK)].to_numpy(dtype=np.float64), own["time_s"].to_numpy(dtype=np.float64))
    errors = dict(zip(ERRORS, law.errors, strict=True))
    if not errors["left_out"] <= UNEXPLAINED:
        reason = f"a law of operators, FLOPs and bytes does not explain it, {_errors_in_words(errors)}"
        return none | errors | {"sentence": f"What {STEPS[rung]} costs on {target} is not told: {reason}."}
    told = [cost if known else np.nan for cost, known in zip(law.costs.tolist(), law.told, strict=True)]
    constants = dict(zip(CONSTANTS, (told[0], 1 / told[1], 1 / told[2]), strict=True))
    return none | errors | constants | {"sentence": _sentence(target, rung, law, constants, errors, len(own))}


def _no_fit(points: pd.DataFrame) -> str:
    """Say why these points cannot tell the law; empty where they can."""
    if len(points) < LEAST_SIZES:
        many = f"{len(points)} size{'s' * (len(points) != 1)}"
        return f"it was measured at {many}, and {LEAST_SIZES} are the least"
    unknown = [
        f"{words} ({', '.join(columns)})" for name, (columns, words) in WORK.items() if points[name].isna().any()
    ]
    if unknown:
        return f"its {listed(unknown)} are not known at all sizes"
    if all(points[name].nunique() == 1 for name in WORK):
        return "its operators, FLOPs and bytes are the same at all sizes"
    return ""


def _fit(work: Floats, time_s: Floats) -> _Law:
    """Fit the law and judge it.

    A term is told where its value exceeds the half width of its 95 % interval; what it shares with the other columns
    of work tells nothing about it, which is what widens that interval (the variance inflation of regression).

    Args:
        work: Shape (points, 3).
        time_s: Shape (points,).
    """
    costs = _solve(work, time_s)
    scaled = work / time_s[:, None]
    misfit = scaled @ costs - 1.0
    spare = max(len(time_s) - int((costs > 0).sum()), 1)
    noise = max(float(np.sqrt(np.sum(misfit**2) / spare)), LEAST_NOISE)
    told = []
    for term, cost in enumerate(costs):
        others = np.delete(scaled, term, axis=1)
        alone = scaled[:, term] - others @ np.linalg.lstsq(others, scaled[:, term], rcond=None)[0]
        half = float(special.stdtrit(spare, 0.975)) * noise
        told.append(bool(cost * np.linalg.norm(alone) > half))
    each = np.arange(len(time_s))
    left_out = np.array([work[one] @ _solve(work[each != one], time_s[each != one]) for one in each])
    errors = []
    for predicted in (work @ costs, left_out):
        with np.errstate(divide="ignore"):
            off = np.expm1(np.abs(np.log(predicted / time_s)))
        errors += [float(np.median(off)), float(off.max())]
    return _Law(costs=costs, told=tuple(told), errors=tuple(errors))


def _solve(work: Floats, time_s: Floats) -> Floats:
    """Return the costs, none below zero, with the least sum of squares of (predicted / measured - 1)."""
    from scipy.optimize import nnls

    scaled = work / time_s[:, None]
    # Operators, FLOPs and bytes differ by many orders of magnitude.
    norms = np.linalg.norm(scaled, axis=0)
    norms[norms == 0] = 1.0
    return np.asarray(nnls(scaled / norms, np.ones(len(time_s)))[0] / norms, dtype=np.float64)


def _sentence(
    target: str, rung: str, law: _Law, constants: Mapping[str, float], errors: Mapping[str, float], sizes: int
) -> str:
    latency_s, flops_per_s, bytes_per_s = (constants[name] for name in CONSTANTS)
    words = [
        f"{seconds(latency_s)} an operator",
        f"arithmetic at {rate(flops_per_s, 'FLOP/s') if np.isfinite(flops_per_s) else ''}",
        f"memory at {rate(bytes_per_s, 'B/s') if np.isfinite(bytes_per_s) else ''}",
    ]
    known = [text for text, is_told in zip(words, law.told, strict=True) if is_told]
    names = [name for _, name in WORK.values()]
    unclear = [name for name, is_told in zip(names, law.told, strict=True) if not is_told]
    law_words = "a law of operators, FLOPs and bytes"
    costs = (
        f"On {target} {STEPS[rung]} costs {listed(known)}" if known else f"On {target} {law_words} fits {STEPS[rung]}"
    )
    said = f"{costs}, at {sizes} sizes {_errors_in_words(errors)}."
    if unclear and known:
        said += f" What {listed(unclear)} cost beside that cannot be told."
    elif unclear:
        said += f" But what {listed(unclear)} cost each cannot be told apart at these sizes; a second axis would help."
    return said


def _errors_in_words(errors: Mapping[str, float]) -> str:
    typical, most, unseen, unseen_most = (_error(errors[name]) for name in ERRORS)
    return (
        f"typically off by {typical} and by {most} at most "
        f"(by {unseen} and {unseen_most} at a size that is left out of the fit)"
    )


def _error(fraction: float) -> str:
    if not np.isfinite(fraction):
        return "any factor"
    return (
        percent(round(fraction, 3) if fraction < 0.1 else round(fraction, 2))
        if fraction < 1
        else f"{1 + fraction:.3g}x"
    )
