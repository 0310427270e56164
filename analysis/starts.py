"""What a start is made of: the stages before a training runs at its steady pace, as trials have timed them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from analysis.rounding import NOTHING, number, seconds
from sweeps.ladder import COLD, HEADLINE

#: The stages in their order: columns of a row, or what follows from them.
STAGES: Mapping[str, str] = {
    "cold_context_s": "opening the device",
    "cold_first_kernel_s": "its first kernel",
    "cold_first_matmul_s": "its first product of matrices",
    "cold_first_conv_s": "its first convolution",
    "making_s": "making model and data",
    "mode_s": "compiling or recording",
    "first_step_s": "the first step",
    "rest_s": "the rest of the warm-up, beyond steady steps",
}
#: Those that do not depend on what is trained: every trial tells of them, of the middle two one that trains nothing.
OF_THE_DEVICE = ("cold_context_s", "cold_first_kernel_s", "cold_first_matmul_s", "cold_first_conv_s")
#: One after the other, these lead from the beginning of a trial to the end of its first step.
TO_FIRST_STEP = ("cold_context_s", "cold_first_kernel_s", "making_s", "first_step_s")
TIMED_WHERE = (
    "Opening the device and its first kernel are timed in every trial; its first product and convolution in trials of "
    "their own that train nothing."
)
#: The first trial on a machine stands apart if it took more than so many times what any other did.
APART = 2.0
LEAST_OTHERS = 2


def stages(frame: pd.DataFrame, *, axis: str, targets: Sequence[str]) -> pd.DataFrame:
    """Return what each stage of a start took on each target.

    Args:
        frame: One row a trial of the rungs e2e and cold (others are left out): `<axis>`, `target`, `rung`, `status`,
            `step_times_s`, and where known `host`, `started_at`, the columns in `STAGES`, `prepare_s`, `warmup_s`
            (seconds) and `warmup_steps`.
        axis: Column of sizes.
        targets: Names of the targets, in the order wanted.

    Returns:
        One row a target and stage that any trial has timed: `target`, `stage` (a key of `STAGES`), `size` (where it was
        timed, the smallest with a result, where a start weighs most; NaN where the size does not matter), `median_s`,
        `low_s`, `high_s` (seconds, over the trials), `trials`, and `first_s`: what the first trial on a machine took,
        left out of the rest, where it stands apart, as when a disk is read for the first time; else NaN.
    """
    known = frame[frame["status"].eq("ok") & frame["rung"].isin([HEADLINE, COLD])]
    known = known.assign(**{name: pd.to_numeric(known[name], errors="coerce") for name in _TIMED if name in known})
    known = known.assign(**{name: math.nan for name in _TIMED if name not in known})
    known = known.assign(
        making_s=known["prepare_s"] - known["cold_context_s"] - known["cold_first_kernel_s"],
        rest_s=(known["warmup_s"] - known["first_step_s"] - _steady_s(known)).clip(lower=0.0),
    )
    rows = []
    for target in targets:
        own = known[known["target"] == target]
        smallest = own.loc[own["rung"] == HEADLINE, axis].min()
        for stage in STAGES:
            is_sized = stage not in OF_THE_DEVICE
            asked = own[own["rung"].eq(HEADLINE) & own[axis].eq(smallest)] if is_sized else own
            asked = asked[np.isfinite(asked[stage].to_numpy(dtype=np.float64))]
            if len(asked):
                size = float(smallest) if is_sized else math.nan
                rows.append({"target": target, "stage": stage, "size": size, **_spread(asked, stage)})
    columns = ["target", "stage", "size", "median_s", "low_s", "high_s", "trials", "first_s"]
    return pd.DataFrame(rows, columns=columns)


def start_words(found: pd.DataFrame, axis: str) -> list[str]:
    """Say for each target how long it takes until its first step is done, and which stage most of that is.

    Args:
        found: What `stages` returned.
        axis: Column of sizes.
    """
    told = []
    for target, own in found.groupby("target", sort=False):
        took = own.set_index("stage")["median_s"]
        if not all(stage in took for stage in TO_FIRST_STEP):
            continue
        first = took[list(TO_FIRST_STEP)]
        size = own["size"].dropna().iloc[0]
        told.append(
            f"On {target} the first step at {axis} {number(float(size))} is done {seconds(float(first.sum()))} after "
            f"the trial has begun; most of that is {STAGES[str(first.idxmax())]}, {seconds(float(first.max()))}."
        )
    return told


def start_rows(found: pd.DataFrame) -> tuple[tuple[str, ...], ...]:
    """Return the rows of `stages` as the cells of a table: target, stage, median, range, first trial, trials."""
    return tuple(
        (
            str(row["target"]),
            STAGES[str(row["stage"])],
            seconds(row["median_s"]),
            f"{seconds(row['low_s'])} to {seconds(row['high_s'])}" if row["trials"] > 1 else NOTHING,
            seconds(row["first_s"]),
            str(int(row["trials"])),
        )
        for row in found.to_dict("records")
    )


_TIMED = (*(name for name in STAGES if name not in ("making_s", "rest_s")), "prepare_s", "warmup_s", "warmup_steps")


def _steady_s(trials: pd.DataFrame) -> pd.Series[float]:
    """Return what as many steps as those of the warm-up, but for the first, take once steady."""
    step_s = trials["step_times_s"].map(np.median, na_action="ignore").astype("float64")
    return (trials["warmup_steps"] - 1) * step_s


def _spread(trials: pd.DataFrame, stage: str) -> dict[str, float]:
    """Return the median and range of one stage, with a first trial that stands apart beside them."""
    took = trials[stage].to_numpy(dtype=np.float64)
    first_s = math.nan
    if len(took) > LEAST_OTHERS and {"host", "started_at"} <= {*trials} and trials["host"].nunique() == 1:
        place = int(np.argmin(pd.to_datetime(trials["started_at"], utc=True).to_numpy()))
        others = np.delete(took, place)
        if took[place] > APART * others.max():
            first_s, took = float(took[place]), others
    return {
        "median_s": float(np.median(took)),
        "low_s": float(took.min()),
        "high_s": float(took.max()),
        "trials": len(took),
        "first_s": first_s,
    }
