"""Why a target is slower: what holds up the loser at each size whose step was taken apart, in a label and a sentence.

A label names the largest part of the loser's own step. It is no promise of what its removal gains: that is measured,
as far as the ladder goes, by `analysis.without`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.costs import work_of
from analysis.explain import PARTS, REMAINS
from analysis.rounding import listed, share, shown, times
from sweeps.ladder import HEADLINE, TWIN

#: Below this no part is called the one that binds.
MOST_OF_IT = 0.5
#: A law of costs that misses the time of a part by more than this factor does not explain it.
EXPLAINS_WITHIN = 1.5
#: Causes that are named when no single one binds.
NAMED = 3
MIXED = "mixed"
#: What remains of a step, where no law divides it.
UNTOLD = "computing (arithmetic or memory: the times do not tell which)"
UNTOLD_OF_HOST = "computing and the calls that start it (arithmetic or memory: the times do not tell which)"
#: A fraction between its ends, where nothing is divided.
ALL_OF_IT = (1.0, 1.0, 1.0)
#: A cause as the subject of a sentence; those of the ladder are called as everywhere.
CAUSES = {
    **{cause: PARTS[cause][0] for cause in ("loader", "transfer", "sync", "launch")},
    "compute": "computing",
    "memory": "moving bytes through memory",
}
#: What people do about a cause, and the lever that tries it.
REMEDIES = {
    "loader": "batches that are made at once or kept ready (loader: slice, gather or resident)",
    "transfer": "data that stay on the device (transfer: resident), or page-locked memory (transfer: pinned)",
    "sync": "reading the loss less often (sync_every), or at the end (sync: end)",
    "launch": "more work a step, such as larger batches, or fewer launches (mode: compile or cudagraph)",
    "compute": "less arithmetic, a coarser dtype or precision, or a faster device",
    "memory": "fewer bytes (a smaller dtype, sparse or fewer parameters), or a device with faster memory",
}
COLUMNS = ("target", "label", "part", "share", "share_low", "share_high", "shared", "to_try", "sentence")


def labels(
    parts: pd.DataFrame,
    sizes: pd.DataFrame,
    costs: pd.DataFrame,
    *,
    axis: str,
    baseline: str,
    challenger: str,
    frame: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Say, for each size whose step was taken apart, who loses there and what takes most of its step.

    What remains of a step when the ladder ends is divided into arithmetic, memory and, on a CPU, calling operators by
    the fitted law where that tells these apart and agrees with the measured time. Else it counts as computing, whatever
    that waits for: times alone do not tell.

    Args:
        parts: The rows of `analysis.explain` of one group.
        sizes: The rows of `analysis.summary.summarise` of that group.
        costs: The rows of `analysis.costs.fit_costs` that hold for that group, one a target; empty without a fit.
        axis: Column of sizes.
        baseline: First target.
        challenger: Second target.
        frame: Rows of that group that tell the work of a step (see `analysis.costs.work_of`), or None where it is not
            known.

    Returns:
        One row a size, ascending: the axis; `target`, the loser (empty where neither is clearly slower); `label`:
        loader-bound, transfer-bound, sync-bound, launch-bound, compute-bound, memory-bound (by a law only), or mixed
        where no part is half of the step; empty where the largest part is not significant or was disturbed; `part`,
        the largest; `share`, its fraction of the loser's step with its 95 % interval `share_low` to `share_high`;
        `shared`, whether the winner pays for that part too, so that it makes less than half of the difference;
        `to_try`, what people do about it; `sentence`.
    """
    told = []
    for size, own in parts[parts["part"] != TWIN].groupby(axis, sort=True):
        ladder = own.to_dict("records")
        (row,) = sizes[sizes[axis] == size].to_dict("records")
        loser, winner = _loser(row, baseline, challenger)
        work = _work(frame, axis, size, loser)
        causes = _causes([part for part in ladder if part["target"] == loser], work, _costs_of(costs, loser))
        lag_s = abs(row["challenger_s"] - row["baseline_s"])
        largest = causes[0] if causes else None
        label = "" if largest is None or not largest.significant else largest.label
        is_shared = bool(label) and largest is not None and _is_shared(largest.name, ladder, loser, winner, lag_s)
        told.append(
            {
                axis: size,
                "target": loser,
                "label": label,
                "part": largest.name if largest else "",
                "share": largest.share if largest else math.nan,
                "share_low": largest.low if largest else math.nan,
                "share_high": largest.high if largest else math.nan,
                "shared": is_shared,
                "to_try": REMEDIES[largest.name] if largest and label else "",
                "sentence": _sentence(
                    f"At {axis} {shown(size)}", row, loser, winner, causes, label, is_shared=is_shared
                ),
            }
        )
    return pd.DataFrame(told, columns=[axis, *COLUMNS])


@dataclass(frozen=True, kw_only=True)
class _Cause:
    """A cause, and the fraction of the loser's step that it takes, with its interval.

    Attributes:
        words: It, as the subject of a sentence.
        disturbed: Whether something else used the machine in pairs that tell it.
        assumed: Whether the spread between passes is assumed.
    """

    name: str
    words: str
    share: float
    low: float
    high: float
    significant: bool
    disturbed: bool
    assumed: bool

    @property
    def label(self) -> str:
        return f"{self.name}-bound" if self.share >= MOST_OF_IT else MIXED

    @property
    def noun(self) -> str:
        """What it is called in a list, where commas part the causes: "launching kernels"."""
        return self.words.removeprefix("the host, ").removeprefix("the device, ").split(",")[0].split(" (")[0]


def _loser(row: Mapping[Any, Any], baseline: str, challenger: str) -> tuple[str, str]:
    """Return who is slower and who is faster; twice nothing where that is not clear. A margin plays no part."""
    if row["log_ratio_low"] > 0:
        return challenger, baseline
    return (baseline, challenger) if row["log_ratio_high"] < 0 else ("", "")


def _work(frame: pd.DataFrame | None, axis: str, size: Any, target: str) -> Mapping[str, float]:
    """Return the operators, FLOPs and bytes of a step; NaN where they are not known or not the same in all rows."""
    if frame is None:
        return dict.fromkeys(("ops", "flops", "bytes"), math.nan)
    own = frame[(frame[axis] == size) & (frame["target"] == target)]
    work = work_of(own[own["rung"] == HEADLINE] if "rung" in own else own).dropna(how="all")
    return {str(name): float(values.iloc[0]) if values.nunique() == 1 else math.nan for name, values in work.items()}


def _costs_of(costs: pd.DataFrame, target: str) -> Mapping[str, float]:
    """Return the seconds of an operator, a FLOP and a byte, NaN where not told, and the error of the law.

    A law of the whole step says nothing about what is left of it: a loader's time passes for that of arithmetic.
    """
    own = costs[(costs["target"] == target) & (costs["rung"] != HEADLINE)] if len(costs) else costs
    if len(own) != 1:
        return {}
    row = own.iloc[0]
    return {
        "launch": float(row["latency_s"]),
        "compute": 1 / float(row["flops_per_s"]),
        "memory": 1 / float(row["bytes_per_s"]),
        "error": float(row["left_out"]),
    }


def _causes(ladder: Sequence[Mapping[Any, Any]], work: Mapping[str, float], costs: Mapping[str, float]) -> list[_Cause]:
    """Return the causes of one step, the largest first."""
    found: list[_Cause] = []
    for part in ladder:
        name = str(part["part"])
        divided = _divided(part, work, costs) if name in REMAINS else [(name, CAUSES[name], ALL_OF_IT)]
        for cause, words, (low, mid, high) in divided:
            ends = [part["share_low"] * low, part["share_high"] * high]
            found.append(
                _Cause(
                    name=cause,
                    words=words,
                    share=part["share"] * mid,
                    low=min(ends),
                    high=max(ends),
                    significant=bool(part["significant"]) and min(ends) > 0,
                    disturbed=bool(part["contended"]),
                    assumed=bool(part["assumed"]),
                )
            )
    return sorted(found, key=lambda cause: -cause.share)


def _divided(
    part: Mapping[Any, Any], work: Mapping[str, float], costs: Mapping[str, float]
) -> list[tuple[str, str, tuple[float, float, float]]]:
    """Divide what remains of a step among causes: each with its words, the fraction of it, and that one's ends.

    The ends of a fraction are as far from it as the law's error allows.
    """
    is_host = part["part"] == "rest"
    amount = {"launch": work["ops"], "compute": work["flops"], "memory": work["bytes"]}
    if not is_host:  # what launching kernels costs is a rung of its own
        del amount["launch"]
    terms = {cause: amount[cause] * costs.get(cause, math.nan) for cause in amount}
    terms = {cause: time_s for cause, time_s in terms.items() if math.isfinite(time_s)}
    lawful_s = sum(terms.values())
    if part["cost_s"] > 0 and 1 / EXPLAINS_WITHIN <= lawful_s / part["cost_s"] <= EXPLAINS_WITHIN:
        off = 1 + costs["error"]
        words = CAUSES | {"launch": "the host, calling operators,"}
        fractions = {cause: time_s / lawful_s for cause, time_s in terms.items()}
        return [(cause, words[cause], (one / off, one, min(one * off, 1.0))) for cause, one in fractions.items()]
    return [("compute", UNTOLD_OF_HOST if is_host else UNTOLD, ALL_OF_IT)]


def _is_shared(cause: str, ladder: Sequence[Mapping[Any, Any]], loser: str, winner: str, lag_s: float) -> bool:
    """Whether what the loser pays more than the winner for a part is, at most, less than half of what it is behind.

    The interval of the difference of the two costs is put together from theirs (Donner & Zou 2012, MOVER).
    """
    sides = {str(part["target"]): part for part in ladder if part["part"] == cause}
    if loser not in sides or winner not in sides:
        return False
    own, other = sides[loser], sides[winner]
    most = own["cost_s"] - other["cost_s"]
    most += np.hypot(own["cost_high_s"] - own["cost_s"], other["cost_s"] - other["cost_low_s"])
    return bool(most < MOST_OF_IT * lag_s)


def _sentence(
    where: str,
    row: Mapping[Any, Any],
    loser: str,
    winner: str,
    causes: Sequence[_Cause],
    label: str,
    *,
    is_shared: bool,
) -> str:
    """Say one row; see `labels` for its columns."""
    if math.isnan(row["log_ratio"]):
        known = f" ({row['known_sign']})" if row["known_sign"] else ""
        return f"{where} there is no pair to compare{known}."
    if not loser:
        return f"{where} neither target is clearly slower."
    start = f"{where} {loser} is {times(math.exp(abs(row['log_ratio'])))} slower than {winner}"
    if not causes:
        return f"{start}; its step was not taken apart."
    largest = causes[0]
    if largest.disturbed:
        return f"{start}, but something else used the machine meanwhile, so no cause can be told; measure again."
    if not label:
        return f"{start}, but no part of its step stands out from the noise."
    provisional = " Provisional: there were too few passes to see how runs differ." if largest.assumed else ""
    if label == MIXED:
        clear = [f"{one.noun} {share(one.share)} %" for one in causes if one.significant and one.share > 0]
        return f"{start}, and no single part takes more than half of its step: {listed(clear[:NAMED])}.{provisional}"
    interval = f"95 % interval {share(largest.low, -1)} to {share(largest.high, 1)} %"
    most = f"{share(largest.share)} %" if largest.share < 1.005 else f"all ({share(largest.share)} %)"
    said = f"{start}, and {label}: {largest.words} takes {most} of its step ({interval})."
    if is_shared:
        said += f" But {winner} pays for that too: it makes less than half of the difference."
    return said + provisional
