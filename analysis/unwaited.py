"""Targets that were timed without waiting for the device: what their times pretend, said aloud.

Some say so, and some are found out: nothing moves or computes as fast as their times would have it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.rounding import rate, seconds, shown
from sweeps.definition import Sweep
from sweeps.target import Target

#: What a step needs at least, and what nothing reaches that we know of: the rate is then said, and no more than that.
PRETENCES = (
    ("h2d_bytes_per_step", "its batch would reach the device", "B/s", 2e12),
    ("parameter_bytes", "its parameters alone would be read", "B/s", 2e13),
    ("flops_per_step", "it would compute", "FLOP/s", 5e15),
)


def doubts_of(unwaited: pd.DataFrame, frame: pd.DataFrame, sweep: Sweep) -> list[str]:
    """Warn of every target that was not waited for, with the size at which its time is furthest from the truth.

    Args:
        unwaited: One row a trial that was not waited for.
        frame: One row a trial of the whole step.
        sweep: What was asked.

    Returns:
        A sentence a target, without a full stop.
    """
    axes = list(sweep.axes)
    doubts = []
    for target in sweep.targets:
        own = _typical(unwaited[unwaited["target"] == target.name], axes)
        if target.wait or own.empty:
            continue
        partner = _partner(target, sweep)
        waited = own.iloc[:0] if partner is None else _typical(frame[frame["target"] == partner.name], axes)
        own = own.merge(waited, "left", axes, suffixes=("", "_waited"))
        factor = own["time_s_waited"] / own["time_s"]
        worst = own.iloc[factor.argmax() if factor.notna().any() else own["time_s"].argmin()]
        doubt = (
            f"{target.name} was timed without waiting for the device: at {sweep.axis} {shown(worst[sweep.axis])} "
            f"a step seems to take {seconds(worst['time_s'])}"
        )
        if partner is not None and np.isfinite(worst["time_s_waited"]):
            doubt += f"; waited for ({partner.name}) {seconds(worst['time_s_waited'])}"
        if found := _pretence(own):
            at = own[sweep.axis].iloc[found[0]]
            doubt += f"; {'there' if at == worst[sweep.axis] else f'at {sweep.axis} {shown(at)}'} {found[-1]}"
        doubts.append(f"{doubt}. Such times are those of the queue, not of the work, and take no part in any verdict")
    return doubts


def never_waited(
    frame: pd.DataFrame, *, axis: str, per: Sequence[str] = (), hosts: Sequence[str] = ()
) -> dict[str, str]:
    """Find every target whose times are too good for any device, whatever it says about waiting.

    Args:
        frame: One row a trial of the whole step: `<axis>`, `target`, `status`, `step_times_s`; `h2d_bytes_per_step`,
            `parameter_bytes`, `flops_per_step` where they are known. Without them there is nothing to find out.
        axis: Column of sizes.
        per: Columns beside the axis that tell apart what was measured.
        hosts: Targets that run where their data are, to whom nothing is copied.

    Returns:
        By target, a sentence without a full stop.
    """
    keys = [axis, *(name for name in per if name != axis)]
    doubts = {}
    for target, rows in frame.groupby("target", sort=False, observed=True):
        own = _typical(rows.assign(h2d_bytes_per_step=np.nan) if target in hosts else rows, keys)
        found = _pretence(own)
        if found is None:
            continue
        place, column, words = found
        doubts[str(target)] = (
            f"{target} was never waited for, or its {column} is wrong: at {axis} {shown(own[axis].iloc[place])} a step "
            f"seems to take {seconds(own['time_s'].iloc[place])}, so that {words}, which nothing does; its times "
            "are not believed"
        )
    return doubts


def _partner(target: Target, sweep: Sweep) -> Target | None:
    """Return the target that is the same but for the waiting."""
    meant = {name: value for name, value in target.described.items() if name != "wait"}
    return next((other for other in sweep.targets if other.wait and other.described == meant), None)


def _typical(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return one row a configuration: its keys, its median time per step, and the work of a step."""
    work = [column for column, *_ in PRETENCES]
    rows = rows[rows["status"].eq("ok") & rows["step_times_s"].notna()].reindex(columns=[*keys, "step_times_s", *work])
    rows = rows.assign(time_s=[float(np.median(times)) for times in rows["step_times_s"]])
    rows = rows[rows["time_s"] > 0].astype(dict.fromkeys(["time_s", *work], "float64"))
    return rows.groupby(list(keys), dropna=False)[["time_s", *work]].median().reset_index()


def _pretence(own: pd.DataFrame) -> tuple[int, str, str] | None:
    """Return where a rate is furthest beyond anything known, of which column, and that in words; None where none is."""
    found, most = None, 1.0
    for column, words, unit, ceiling in PRETENCES:
        rates = own[column] / own["time_s"]
        if rates.max() / ceiling > most:
            found, most = (int(rates.argmax()), column, f"{words} at {rate(rates.max(), unit)}"), rates.max() / ceiling
    return found
