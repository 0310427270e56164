"""Targets that were timed without waiting for the device: what their times pretend, said aloud."""

from __future__ import annotations

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
    doubts = []
    for target in sweep.targets:
        own = _typical(unwaited[unwaited["target"] == target.name], sweep)
        if target.wait or own.empty:
            continue
        partner = _partner(target, sweep)
        waited = own.iloc[:0] if partner is None else _typical(frame[frame["target"] == partner.name], sweep)
        own = own.merge(waited, "left", list(sweep.axes), suffixes=("", "_waited"))
        factor = own["time_s_waited"] / own["time_s"]
        worst = own.iloc[factor.argmax() if factor.notna().any() else own["time_s"].argmin()]
        doubt = (
            f"{target.name} was timed without waiting for the device: at {sweep.axis} {shown(worst[sweep.axis])} "
            f"a step seems to take {seconds(worst['time_s'])}"
        )
        if partner is not None and np.isfinite(worst["time_s_waited"]):
            doubt += f"; waited for ({partner.name}) {seconds(worst['time_s_waited'])}"
        doubt += _pretence(own, worst[sweep.axis], sweep)
        doubts.append(f"{doubt}. Such times are those of the queue, not of the work, and take no part in any verdict")
    return doubts


def _partner(target: Target, sweep: Sweep) -> Target | None:
    """Return the target that is the same but for the waiting."""
    meant = {name: value for name, value in target.described.items() if name != "wait"}
    return next((other for other in sweep.targets if other.wait and other.described == meant), None)


def _typical(rows: pd.DataFrame, sweep: Sweep) -> pd.DataFrame:
    """Return one row a configuration: its axes, its median time per step, and the work of a step."""
    rows = rows[rows["status"].eq("ok") & rows["step_times_s"].notna()]
    rows = rows.assign(time_s=[float(np.median(times)) for times in rows["step_times_s"]])
    work = [column for column, *_ in PRETENCES]
    rows = rows[rows["time_s"] > 0].astype(dict.fromkeys(["time_s", *work], "float64"))
    return rows.groupby(list(sweep.axes), dropna=False)[["time_s", *work]].median().reset_index()


def _pretence(own: pd.DataFrame, told_size: object, sweep: Sweep) -> str:
    """Say the rate that is furthest beyond anything known, if one is."""
    told, most = "", 1.0
    for column, words, unit, ceiling in PRETENCES:
        rates = own[column] / own["time_s"]
        if rates.max() / ceiling > most:
            at = own[sweep.axis].iloc[rates.argmax()]
            where = "there" if at == told_size else f"at {sweep.axis} {shown(at)}"
            told, most = f"; {where} {words} at {rate(rates.max(), unit)}", rates.max() / ceiling
    return told
