"""What was found, read out of the rows and the notes: one value for each thing that something is expected of."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from runner.check.plan import AXIS, Question
from runner.check.units import shown
from sweeps.ladder import COLD, HEADLINE
from sweeps.record import CONTENDED

Row = Mapping[str, Any]

#: Findings of the calibration: its name for each, and the size that is looked at; None for the only or the largest one.
CALIBRATED: Mapping[str, tuple[str, int | None]] = {
    "launch": ("operation, not waited for", None),
    "waited": ("operation, waited for", None),
    "read": ("operation, its value read", None),
    "pinned": ("copy to the device, pinned", None),
    "pageable": ("copy to the device, pageable", None),
    "small copy": ("copy to the device, pageable", 4096),
    "product, ieee": ("product of matrices, ieee", None),
    "product, tf32": ("product of matrices, tf32", None),
    "error, ieee": ("error of a product, ieee", None),
    "error, tf32": ("error of a product, tf32", None),
    "memory": ("memory, read and written", None),
    "events, long": ("clock of the device / ours, long steps", None),
    "events, short": ("clock of the device / ours, short steps", None),
}
COLD_STAGES = {
    "context": "cold_context_s",
    "first kernel": "cold_first_kernel_s",
    "first product": "cold_first_matmul_s",
    "first convolution": "cold_first_conv_s",
}
#: Before any row.
EARLIEST = datetime.min.replace(tzinfo=UTC)
#: How `runner.worker` begins its reason where it has not seen the device being opened.
OPEN_BEFORE = "the device was open"


@dataclass(frozen=True, kw_only=True)
class Found:
    """A finding.

    Attributes:
        low, high: The value twice, or the two ends of a range that it lies in, which may be open: infinite. NaN where
            nothing is known.
        text: For people; where there is no value, why.
    """

    text: str
    low: float = math.nan
    high: float = math.nan

    @property
    def is_known(self) -> bool:
        """Whether there is a value."""
        return not math.isnan(self.low)


def _value(value: float, text: str) -> Found:
    return Found(low=value, high=value, text=text)


def find(
    questions: Sequence[Question],
    rows: Mapping[str, Sequence[Row]],
    calibration: Sequence[Mapping[str, Any]],
    signs: Mapping[str, Sequence[str] | None],
) -> dict[str, Found]:
    """Return all findings by name.

    Args:
        questions: What was asked.
        rows: The final row of each trial that was run, by question.
        calibration: What the calibration measured.
        signs: Of a driver, in `nursery` and in a process that had `imported` torch and then `used` the device; None
            where the kernel does not tell.
    """
    every = sorted((row for own in rows.values() for row in own), key=lambda row: row["started_at"] or EARLIEST)
    challenger = questions[0].challenger.name
    own = [row for row in every if row["target"] == challenger]
    found = _processes(every, own) | _signs(signs) | _cold([row for row in own if row["rung"] == COLD])
    found |= _calibrated(calibration) | _losses(every) | _kernels(every)
    for question in questions:
        for rival in question.targets[:-1]:
            overtaking = _overtaking(rows[question.name], question, rival.name)
            found[f"{question.name} against {rival.name}"] = overtaking
    return found


def final_rows(rows: Iterable[Row]) -> list[Row]:
    """Return the row of the highest attempt of each trial."""
    by_trial: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: row["attempt"] or 0):
        by_trial[row["trial_id"]] = row
    return list(by_trial.values())


def medians(rows: Iterable[Row], rung: str = HEADLINE) -> dict[tuple[int, str], float]:
    """Return the median step time by batch size and target, over all passes, in seconds."""
    times: defaultdict[tuple[int, str], list[float]] = defaultdict(list)
    for row in rows:
        if row["rung"] == rung and row["step_times_s"]:
            times[row[AXIS], row["target"]].append(statistics.median(row["step_times_s"]))
    return {key: statistics.median(values) for key, values in times.items()}


def _processes(every: Sequence[Row], own: Sequence[Row]) -> dict[str, Found]:
    if not every:
        return dict.fromkeys(
            ("ended otherwise", "not forked", "process start", "not in a child", "open before", "disturbed"),
            Found(text="no rows"),
        )
    ended = [row for row in every if row["status"] != "ok"]
    kinds = {f"{row['status']} ({row['target']}, {row['rung']})" for row in ended}
    spawned = [row for row in every if row["start_method"] not in ("fork", None)]
    failed = [row for row in own if row["start_method"] == "fork" and row["status"] != "ok"]
    reasons = [dict(row["null_reasons"] or ()).get("cold_context_s", "") for row in own]
    disturbed = [row for row in every if row["interference"] == CONTENDED]
    was_open = [reason for reason in reasons if reason.startswith(OPEN_BEFORE)]
    found = {
        "ended otherwise": _value(len(ended), f"{len(ended)} of {len(every)} {', '.join(sorted(kinds))}".rstrip()),
        "not forked": _value(len(spawned), f"{len(spawned)} of {len(every)}"),
        "not in a child": _value(len(failed), f"{len(failed)} of {len(own)}"),
        "open before": _value(len(was_open), f"{len(was_open)} of {len(own)}"),
        "disturbed": _value(len(disturbed) / len(every), f"{len(disturbed)} of {len(every)}"),
    }
    starts = [row["process_start_s"] for row in every if row["process_start_s"] is not None]
    # The nursery is still importing torch when the first trial is asked for.
    found["process start"] = _median(starts, "s") if starts else Found(text="no trial has begun")
    return found


def _signs(signs: Mapping[str, Sequence[str] | None]) -> dict[str, Found]:
    nursery, imported, used = (signs.get(name) for name in ("nursery", "imported", "used"))
    unknown = Found(text="not looked at, or the kernel does not tell")
    found = {"signs in the nursery": unknown, "signs in a user": unknown}
    if nursery is not None and imported is not None:
        left = [each for each in nursery if each not in imported]
        found["signs in the nursery"] = _value(len(left), ", ".join(left) or "none")
    if used is not None and imported is not None:
        more = [each for each in used if each not in imported]
        found["signs in a user"] = _value(len(more), ", ".join(more) or "none")
    return found


def _cold(rows: Sequence[Row]) -> dict[str, Found]:
    """The median of the cold starts; what the first one took, which may have read from a cold disk, is told too."""
    found = {}
    for key, column in COLD_STAGES.items():
        values = [row[column] for row in rows if row[column] is not None]
        found[key] = _median(values, "s") if values else Found(text="no cold start was measured")
    return found


def _median(values: Sequence[float], unit: str) -> Found:
    middle = statistics.median(values)
    others = f" (first {shown(values[0], unit)}, {shown(min(values), unit)} to {shown(max(values), unit)})"
    return _value(middle, shown(middle, unit) + (others if len(values) > 1 else ""))


def _calibrated(calibration: Sequence[Mapping[str, Any]]) -> dict[str, Found]:
    found = {}
    for key, (name, size) in CALIBRATED.items():
        of_name = [each for each in calibration if each["name"] == name and (size is None or each["size"] == size)]
        if not of_name:
            found[key] = Found(text="not measured")
            continue
        last = of_name[-1]
        if last["figure"] is None:
            found[key] = Found(text=last["cause"])
        elif size is not None:
            found[key] = _value(last["seconds"], shown(last["seconds"], "s"))
        else:
            found[key] = _value(last["figure"], shown(last["figure"], last["unit"]))
    return found


def _losses(rows: Sequence[Row]) -> dict[str, Found]:
    """The largest relative difference between the targets of a pair, as `runner.parity` compares them."""
    found = {}
    for step in (1, 10):
        by_pair: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        for row in rows:
            if row["status"] in ("ok", "invalid") and row[f"loss_step_{step}"] is not None and row["rung"] == HEADLINE:
                by_pair[row["pair_id"], row["rung"]].append(row[f"loss_step_{step}"])
        apart = [(max(losses) - min(losses)) / max(map(abs, losses)) for losses in by_pair.values() if len(losses) > 1]
        worst = max(apart, default=math.nan)
        found[f"loss {step}"] = _value(worst, f"{worst:.2g} ({len(apart)} pairs)") if apart else Found(text="no pairs")
    return found


def _kernels(rows: Sequence[Row]) -> dict[str, Found]:
    """How many kernels the device ran for an operator, and how much of a step it computed; the step's own rung."""
    profiled = [row for row in rows if row["rung"] == "kernel" and row["kernels_per_step"] is not None]
    if not profiled:
        return dict.fromkeys(("kernels", "kernel time"), Found(text="no kernel was seen"))
    counts = [row["kernels_per_step"] / row["ops_per_step"] for row in profiled if row["ops_per_step"]]
    shares = [row["kernel_time_s"] / statistics.median(row["step_times_s"]) for row in profiled]
    return {"kernels": _range(counts), "kernel time": _range(shares)}


def _range(values: Sequence[float]) -> Found:
    if not values:
        return Found(text="not known")
    low, high = min(values), max(values)
    return Found(low=low, high=high, text=f"{low:.2f} to {high:.2f} ({len(values)} rows)")


def _overtaking(rows: Sequence[Row], question: Question, rival: str) -> Found:
    """Between which sizes the challenger becomes the faster one for good, in MFLOP a step: a rough look.

    The report of the study has the crossover with its interval.
    """
    times, challenger = medians(rows), question.challenger.name
    mflop = {row[AXIS]: row["flops_per_step"] / 1e6 for row in rows if row["flops_per_step"] is not None}
    sizes = [size for size in question.sizes if (size, rival) in times and (size, challenger) in times]
    if not sizes:
        return Found(text="not measured")
    lost = [place for place, size in enumerate(sizes) if times[size, challenger] >= times[size, rival]]
    if not lost:
        high = mflop[sizes[0]]
        return Found(low=-math.inf, high=high, text=f"at batch {sizes[0]} already ({high:.3g} MFLOP)")
    below, *above = sizes[lost[-1] :][:2]
    if not above:
        return Found(low=mflop[below], high=math.inf, text=f"not up to batch {below} ({mflop[below]:.3g} MFLOP)")
    low, high = mflop[below], mflop[above[0]]
    return Found(low=low, high=high, text=f"between batch {below} and {above[0]} ({low:.3g} to {high:.3g} MFLOP)")
