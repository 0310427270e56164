"""Where the time of a step goes: from the rungs of the ladder of causes to the cost of each part.

A rung is the same training with one thing more taken away, so what it takes less than the one before is what that thing
costs. Rungs are compared pass by pass and with the same bands as targets are (`analysis.summary`): what a verdict
would not believe is not believed here.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from analysis.ratios import LEAST_SPARE
from analysis.rounding import listed, seconds, share, shown
from analysis.summary import summarise
from sweeps.families import FAMILIES
from sweeps.ladder import HEADLINE, TWIN

#: What is gone from each rung that was there in the one before, in their order.
LADDER = {"preload": "loader", "resident": "transfer", "nosync": "sync", "kernel": "launch"}
#: The parts of a step in words: as the subject of a sentence, and in a table.
PARTS = {
    "loader": ("the loader", "loader"),
    "transfer": ("the copy to the device", "copy to the device"),
    "sync": ("reading the loss", "reading the loss"),
    "launch": ("the host, launching kernels,", "host, launching kernels"),
    "kernels": ("the device, computing,", "device, computing"),
    "rest": ("all the rest", "all the rest"),
    TWIN: ("what the twin lacks", "what the twin lacks"),
}
#: Parts that are what remains: there is nothing to be significant about.
REMAINS = ("kernels", "rest")
#: The profiler's clock ticks in nanoseconds and not in microseconds, so its times may be that much smaller.
FINER_CLOCK = 1e3


def explain(
    frame: pd.DataFrame,
    *,
    axis: str,
    baseline: str,
    challenger: str,
    workload: str = "",
    group_by: Sequence[str] = (),
    drift: float | None = None,
) -> pd.DataFrame:
    """Say what each part of a step costs, wherever the ladder was measured.

    Args:
        frame: One row a trial of any rung: `<axis>`, `target`, `rung`, `pass_index`, `status`, `step_times_s`, and for
            the rung `kernel` `kernel_time_s` (seconds of kernels per step); what `analysis.crossovers` uses if present
            is used here too.
        axis: Column of sizes.
        baseline: First target to explain.
        challenger: Second target to explain.
        workload: The family; it names its twin.
        group_by: Columns that split the frame into groups.
        drift: Allowance for slow drift on a log ratio, as `analysis.crossovers` takes it.

    Returns:
        One row a group, size, target and part, in this order: the columns of `group_by`, the axis, `target`, `part`
        (loader, transfer, sync, launch, then kernels or rest, which is what remains; twin), `pairs` compared;
        `share` of the whole step with its 95 % interval `share_low` to `share_high` (fractions, below 0 where a step is
        slower without the part); `step_s`, the whole step, and `cost_s`, `cost_low_s`, `cost_high_s`, the part of it
        (seconds); `contended`, the pairs among them that something else disturbed; `significant`, whether the interval
        excludes 0 and no pair was; `assumed`, whether the spread between passes is
        assumed because there were too few; `sentence`.

    Raises:
        ValueError: A column is missing or the axis is not numeric.
    """
    parts = []
    for target in (baseline, challenger):
        own = with_kernel_times(frame[frame["target"] == target])
        ladder = _Ladder(frame=own, axis=axis, groups=tuple(group_by), drift=drift)
        parts += [found.assign(target=target) for found in ladder.parts()]
    keys = [*group_by, axis]
    columns = [*keys, "target", "part", "pairs", "contended", "share", "share_low", "share_high", "step_s"]
    columns += ["cost_s", "cost_low_s", "cost_high_s", "significant", "assumed", "sentence"]
    if not parts:
        return pd.DataFrame(columns=columns)
    table = pd.concat(parts, ignore_index=True)
    for end in ("", "_low", "_high"):
        table[f"cost{end}_s"] = table[f"share{end}"] * table["step_s"]
    clear = (table["share_low"] > 0) | (table["share_high"] < 0)
    table["significant"] = clear & (table["contended"] == 0)
    order = {"target": [baseline, challenger], "part": list(PARTS)}
    rank = {name: table[name].map(values.index) for name, values in order.items()}
    table = table.assign(**{f"{name}_rank": value for name, value in rank.items()})
    table = table.sort_values([*keys, "target_rank", "part_rank"], ignore_index=True)
    table["sentence"] = [_sentence(row, axis, workload) for row in table.to_dict("records")]
    return table[columns]


def headlines(parts: pd.DataFrame, workload: str = "") -> list[str]:
    """Return what a reader should know first: for each target the largest share of each part, the largest first.

    Args:
        parts: The rows of one group.
        workload: The family; it names its twin.

    Returns:
        Sentences; then the parts that could not be told from what else used the machine, and those for which nothing
        was significant at any size.
    """
    asked = parts[~parts["part"].isin(REMAINS)]
    clear = asked[asked["significant"]]
    clear = clear.assign(size_of_it=clear["share"].abs()).sort_values("size_of_it", ascending=False, kind="stable")
    told = clear.drop_duplicates(["target", "part"])
    known = set(zip(told["target"], told["part"], strict=True))
    sentences = [str(sentence) for sentence in told["sentence"]]
    fewest = asked.groupby(["target", "part"], sort=False)["contended"].min().reset_index()
    others = [
        (str(target), str(part), contended > 0)
        for target, part, contended in fewest.itertuples(index=False)
        if (target, part) not in known
    ]
    undisturbed = "" if asked["contended"].eq(0).all() else " that was not disturbed"
    for words, is_disturbed in (
        ("Something else used the machine meanwhile, so these cannot be told; measure again", True),
        (f"Not significant at any size{undisturbed}", False),
    ):
        unclear: dict[str, list[str]] = {}
        for target, part, was_disturbed in others:
            if was_disturbed == is_disturbed:
                unclear.setdefault(part, []).append(target)
        named = [f"{name_of(part, workload)} ({', '.join(targets)})" for part, targets in unclear.items()]
        if named:
            sentences.append(f"{words}: {listed(named)}.")
    return sentences


def name_of(part: str, workload: str) -> str:
    """Return what a part is called in tables and lists; what a twin lacks has a name of its own in each family."""
    family = FAMILIES.get(workload)
    return family.twin_words if part == TWIN and family and family.twin else PARTS[part][1]


def descend(rungs: Collection[str]) -> list[tuple[str, str, str]]:
    """Return the steps down a ladder: the part that is taken away, the rung before and the rung without it.

    Args:
        rungs: Those that were measured, in any order; the whole step is always one.
    """
    there = [HEADLINE, *(rung for rung in LADDER if rung in rungs)]
    # Where the data are on the device anyway, no copy is left for the rung `resident` to take away.
    return [
        ("loader" if (before, rung) == (HEADLINE, "resident") else LADDER[rung], before, rung)
        for before, rung in pairwise(there)
    ]


def with_kernel_times(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the time of the kernels as the time of the rung `kernel`."""
    is_kernel = frame["rung"].eq("kernel")
    if not is_kernel.any():
        return frame
    times = [
        ([kernels_s] if np.isfinite(kernels_s) else None) if profiled else step_times
        for profiled, kernels_s, step_times in zip(
            is_kernel, frame["kernel_time_s"].astype("float64"), frame["step_times_s"], strict=True
        )
    ]
    return frame.assign(step_times_s=pd.Series(times, index=frame.index, dtype=object))


@dataclass(frozen=True, kw_only=True)
class _Ladder:
    """The rungs of one target."""

    frame: pd.DataFrame
    axis: str
    groups: tuple[str, ...]
    drift: float | None

    @property
    def keys(self) -> list[str]:
        return [*self.groups, self.axis]

    def parts(self) -> list[pd.DataFrame]:
        """Compare each rung with the one before it, and the last and the twin with the whole step."""
        if self.frame.empty:
            return []
        # A rung that was asked for and failed still is the one before: what the next lacks more is not told then.
        point = self.frame.groupby(self.keys, dropna=False, sort=False).ngroup()
        asked = {at: set(own) for at, own in self.frame["rung"].groupby(point)}
        steps: dict[tuple[str, str, str], list[int]] = {}
        for at, rungs in asked.items():
            down = descend(rungs)
            for step in down:
                steps.setdefault(step, []).append(at)
            if down:
                last = down[-1][-1]
                steps.setdefault(("kernels" if last == "kernel" else "rest", last, ""), []).append(at)
            if TWIN in rungs:
                steps.setdefault((TWIN, HEADLINE, TWIN), []).append(at)
        return [
            self._part(self.frame[point.isin(points)], before, rung).assign(part=part)
            for (part, before, rung), points in steps.items()
        ]

    def _part(self, rows: pd.DataFrame, before: str, rung: str) -> pd.DataFrame:
        """Return the share of the step that is in one rung and not in the next; without a next, all of it.

        The share is the part of the rung before that is saved, times that rung's part of the whole step. Where both
        are uncertain their intervals are multiplied, which is wide rather than narrow.
        """
        if not rung:
            found = self._compared(rows, HEADLINE, before)
            return self._table(found, [np.exp(found[f"log_ratio{end}"]) for end in ("_low", "", "_high")])
        saved = self._compared(rows, before, rung)
        if before == HEADLINE:
            return self._table(saved, [1 - np.exp(saved[f"log_ratio{end}"]) for end in ("_high", "", "_low")])
        scale = self._compared(rows, HEADLINE, before)
        both = saved.merge(scale, on=self.keys, suffixes=("", "_scale"))
        ratio = {end: 1 - np.exp(both[f"log_ratio{end}"]) for end in ("_low", "", "_high")}
        whole = {end: np.exp(both[f"log_ratio{end}_scale"]) for end in ("_low", "", "_high")}
        corners = [ratio[a] * whole[b] for a in ("_low", "_high") for b in ("_low", "_high")]
        ends = (np.minimum.reduce(corners), ratio[""] * whole[""], np.maximum.reduce(corners))
        fewest, disturbed = both[["pairs", "pairs_scale"]].min(axis=1), both["contended"] + both["contended_scale"]
        return self._table(both.assign(pairs=fewest, contended=disturbed, baseline_s=both["baseline_s_scale"]), ends)

    def _table(self, found: pd.DataFrame, ends: Sequence[pd.Series[float]]) -> pd.DataFrame:
        shares = dict(zip(("share_low", "share", "share_high"), ends, strict=True))
        return found[[*self.keys, "pairs", "contended", "assumed"]].assign(**shares, step_s=found["baseline_s"])

    def _compared(self, rows: pd.DataFrame, before: str, rung: str) -> pd.DataFrame:
        """Compare two rungs as two targets are compared, where both have a time in common passes."""
        rows = rows[rows["rung"].isin([before, rung])]
        rows = rows.assign(target=pd.Categorical(rows["rung"], categories=[before, rung])).drop(columns="rung")
        if rung == "kernel" or before == "kernel":
            rows = rows.assign(
                step_times_s=rows["step_times_s"].map(lambda times: np.asarray(times) * FINER_CLOCK, na_action="ignore")
            )
        found = summarise(
            rows,
            axis=self.axis,
            baseline=before,
            challenger=rung,
            group_by=self.groups or None,
            drift=self.drift,
        )
        if self.groups:
            spare = (found["pairs"] - 1).clip(lower=0).groupby([found[g] for g in self.groups], dropna=False)
            found["assumed"] = spare.transform("sum") < LEAST_SPARE
        else:
            found["assumed"] = (found["pairs"] - 1).clip(lower=0).sum() < LEAST_SPARE
        if rung == "kernel" or before == "kernel":
            found["baseline_s"] /= FINER_CLOCK
        return found[found["pairs"] > 0]


def _sentence(row: Mapping[Hashable, Any], axis: str, workload: str) -> str:
    """Say one row; see `explain` for its columns."""
    part, target = str(row["part"]), str(row["target"])
    mid, low, high, step_s = (float(row[name]) for name in ("share", "share_low", "share_high", "step_s"))
    family = FAMILIES.get(workload)
    twin = family.twin if family else None
    what = name_of(part, workload) if part == TWIN else PARTS[part][0]
    takes = "take" if what.endswith("s") and part == TWIN and twin else "takes"
    interval = f"95 % interval {share(low, -1)} to {share(high, 1)} %"
    where = f"On {target} at {axis} {shown(row[axis])}"
    if row["contended"]:
        return f"{where} {what} cannot be told from what else used the machine meanwhile ({interval}); measure again."
    if not row["significant"]:
        return f"{where} {what} {takes} no significant part of a step ({interval})."
    if mid < 0 and part == TWIN:
        return (
            f"{where} {what} {takes} nothing: {twin or 'its twin'}, with the same arithmetic, needs "
            f"{seconds(step_s * (1 - mid))} instead of {seconds(step_s)} ({interval})."
        )
    if mid < 0:
        slower = f"95 % interval {share(-high, -1)} to {share(-low, 1)} %"
        return f"{where} a step is {share(-mid)} % slower without {what.strip(',')} ({slower})."
    if part == TWIN:
        name = twin or "its twin"
        return (
            f"{where} {what} {takes} {share(mid)} % of a step: {name}, with the same arithmetic, needs "
            f"{seconds(step_s * (1 - mid))} instead of {seconds(step_s)} ({interval})."
        )
    return f"{where} {what} {takes} {share(mid)} % of a step ({interval})."
