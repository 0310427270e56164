"""When a cold start is repaid: after how many steps, seconds and epochs the challenger has caught up with the baseline.

A cold start is what a trial spends beyond its steady steps: opening the device, making data and model (`prepare_s`),
and what its warm-up took beyond as many steady steps. The challenger's may be longer; each step then repays what it is
faster. All of a cold start counts as spent before the first step, though some falls into the steps of the warm-up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from analysis.crossover import crossovers
from analysis.outcomes import NO_FIRST_STEP
from analysis.question import Bools, Floats
from analysis.ratios import LEAST_CLEAN
from analysis.rounding import Scale, number, seconds, shown
from analysis.sentence import Topic, verdict_sentence
from analysis.summary import summarise
from sweeps.ladder import HEADLINE
from sweeps.record import CONTENDED

NO_WARM_UP = "the rows do not tell how long the warm-up took"
ONCE = "measured once, so the cold start has no interval"
NO_PARTNER = "no pass holds a warm-up of both targets"
#: What is counted; each has an interval with the endings `_low` and `_high`.
UNITS = ("steps", "s", "epochs")


@dataclass(frozen=True, kw_only=True)
class _Mean:
    """A mean with the ends of its 95 % interval, NaN where one value has to do."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class _Cold:
    """The cold starts at one size, in steps of the baseline.

    Attributes:
        extra: How much longer the challenger's is.
        baseline: That of the baseline.
        extra_s: How much longer the challenger's is, seconds.
        prepared: Whether `prepare_s` is in them.
    """

    extra: _Mean
    baseline: _Mean
    extra_s: _Mean
    prepared: bool


def break_even(
    frame: pd.DataFrame,
    *,
    axis: str,
    baseline: str,
    challenger: str,
    group_by: Sequence[str] = (),
    drift: float | None = None,
) -> pd.DataFrame:
    """Say, wherever the challenger's steady step is decidedly faster, when its cold start is repaid.

    With an extra cold start of d steps of the baseline and the ratio r of the steady steps, that is after d / (1 - r)
    steps. d is the mean over the passes, with Student's interval; r has the band of the verdict. The interval takes the
    longest extra start with the smallest gain and the other way round, which is wide rather than narrow.

    Args:
        frame: One row a trial, as `analysis.crossovers` takes it, with `warmup_s`, `warmup_steps` and, where known,
            `prepare_s` (all seconds); epochs need `rows` and `batch_size`.
        axis: Column of sizes.
        baseline: Target that is compared against.
        challenger: Target that is faster once warm.
        group_by: Columns that split the frame into groups.
        drift: As `analysis.crossovers` takes it.

    Returns:
        One row a group and such size: the columns of `group_by`, the axis, `pairs` (of the cold starts), `extra_s` with
        `extra_low_s` and `extra_high_s` (how much longer the challenger's cold start is, seconds), `gain_s` (what a
        steady step is faster, seconds), `prepared` (whether `prepare_s` is in it); `repaid_steps`, `repaid_s` (since
        both began) and `repaid_epochs`, each with its 95 % interval `..._low`, `..._high`; 0 is at once, NaN not
        known, and `reason` says why; `sentence`.

    Raises:
        ValueError: As `analysis.crossovers` does.
    """
    asked: dict[str, Any] = {"axis": axis, "baseline": baseline, "challenger": challenger}
    sizes = summarise(frame, **asked, group_by=list(group_by) or None, drift=drift)
    faster = sizes[sizes["state"] == "challenger"]
    trials = _trials(frame, [baseline, challenger])
    keys = [*group_by, axis]
    columns = [*keys, "pairs", "extra_s", "extra_low_s", "extra_high_s", "gain_s", "prepared"]
    columns += [f"repaid_{unit}{end}" for unit in UNITS for end in ("", "_low", "_high")]
    rows = []
    for size in faster.to_dict("records"):
        own = trials[_is_at(trials, {name: size[name] for name in keys})]
        found = _at(own, size, baseline, challenger) | {name: size[name] for name in keys}
        rows.append(found | {"sentence": _sentence(found, axis, baseline, challenger)})
    return pd.DataFrame(rows, columns=[*columns, "reason", "sentence"])


def break_even_words(found: pd.DataFrame, *, axis: str, baseline: str, challenger: str) -> str:
    """Say the rows of one group in a sentence: at the smallest and the largest size where it is known.

    Args:
        found: Rows of `break_even`.
        axis: Column of sizes.
        baseline: Target that is compared against.
        challenger: Target that is faster once warm.

    Returns:
        The sentence; empty where the challenger is nowhere decidedly faster.
    """
    if found.empty:
        return ""
    known = found[found["repaid_steps"].notna()].sort_values(axis)
    if known.empty:
        return f"When {challenger} repays its cold start is not known: {found['reason'].iloc[0]}."
    if (known["repaid_steps"] == 0).all():
        latest = known["repaid_steps_high"].max()
        unsure = f", or after up to {count_steps(latest, 1)} steps (95 % interval)" if latest > 0 else ""
        return f"{challenger} starts no later than {baseline} wherever it is faster, so it is ahead at once{unsure}."
    ends = known.iloc[[0, -1]] if len(known) > 1 else known
    told = [f"at {axis} {shown(row[axis])} {_repaid(row)}" for row in ends.to_dict("records")]
    start = "later start" if known["prepared"].all() else "longer warm-up"
    return f"Where {challenger} is faster than {baseline}, it repays its {start}: {'; '.join(told)}."


def from_cold(frame: pd.DataFrame, targets: Sequence[str]) -> pd.DataFrame:
    """Return rows whose step is the first one, counted from the beginning of the trial.

    Args:
        frame: One row a trial, as `analysis.crossovers` takes it, with `first_step_s` and, where known, `prepare_s`.
        targets: The two that are compared; unless all their rows tell it, `prepare_s` is left out of all.

    Returns:
        The rows, whole steps only: `step_times_s` holds one value, seconds. Those that do not tell their first step
        have the status `NO_FIRST_STEP`: that a trial ran into its limit says nothing about it.
    """
    frame = _whole(frame)
    first = _numbers(frame, "first_step_s")
    ok = frame["status"].eq("ok").to_numpy()
    prepare = _numbers(frame, "prepare_s")
    if np.isnan(prepare[ok & frame["target"].isin(list(targets)).to_numpy()]).any():
        prepare = np.zeros(len(frame))
    known = ok & np.isfinite(first + prepare)
    unknown = ~known & frame["status"].isin(["ok", "timeout"]).to_numpy()
    times = [[value] if there else None for value, there in zip((first + prepare).tolist(), known, strict=True)]
    return frame.assign(
        step_times_s=pd.Series(times, index=frame.index, dtype=object),
        status=frame["status"].astype(object).where(~unknown, NO_FIRST_STEP),
        resolution_s=math.nan,
    )


def cold_and_warm(
    frame: pd.DataFrame,
    *,
    topic: Topic,
    group_by: Sequence[str] = (),
    drift: float | None = None,
    concluding: Callable[..., pd.DataFrame] = crossovers,
) -> pd.DataFrame:
    """Give the verdict on the first step, from the beginning of the trial, beside that on steady steps.

    Args:
        frame: One row a trial: see `from_cold`.
        topic: What is asked.
        group_by: Columns that split the frame into groups.
        drift: As `analysis.crossovers` takes it.
        concluding: `analysis.crossovers`, or what stands for it where a search chose the sizes.

    Returns:
        One row a group: the columns of `group_by`; `warm` and `cold`, the verdicts, with `..._direction`,
        `..._estimate`, `..._low`, `..._high` of each; `differ`, whether both are definite and not the same: other
        verdicts or directions, or intervals that do not meet; `warm_sentence` and `cold_sentence`, each in words;
        `sentence`, both of them, empty where they do not differ.

    Raises:
        ValueError: As `analysis.crossovers` does.
    """
    asked: dict[str, Any] = {"axis": topic.axis, "baseline": topic.baseline, "challenger": topic.challenger}
    asked |= {"group_by": list(group_by) or None, "margin": topic.margin, "drift": drift}
    frames = {"warm": _whole(frame), "cold": from_cold(frame, [topic.baseline, topic.challenger])}
    found = {name: concluding(own, **asked) for name, own in frames.items()}
    sizes = {name: summarise(own, **asked) for name, own in frames.items()}
    rows = []
    for index in range(len(found["warm"])):
        row: dict[str, Any] = {name: found["warm"][name].iloc[index] for name in group_by}
        told = {}
        for name, table in found.items():
            one = {str(key): value for key, value in table.iloc[index].items()}
            own = sizes[name][_is_at(sizes[name], {key: row[key] for key in group_by})]
            told[name] = verdict_sentence(one, own, replace(topic, absences={}))
            row |= {name: one["verdict"], f"{name}_direction": one["direction"]}
            row |= {f"{name}_{end}": one[end] for end in ("estimate", "low", "high")}
            row[f"{name}_sentence"] = told[name]
        row["differ"] = _differ(row)
        row["sentence"] = f"First step, from a cold start: {told['cold']} Once warm: {told['warm']}" * row["differ"]
        rows.append(row)
    return pd.DataFrame(rows)


def _differ(row: Mapping[str, Any]) -> bool:
    if "undetermined" in (row["warm"], row["cold"]):
        return False
    if (row["warm"], row["warm_direction"]) != (row["cold"], row["cold_direction"]):
        return True
    apart = row["warm_high"] < row["cold_low"] or row["cold_high"] < row["warm_low"]
    return row["warm"] == "crosses" and bool(apart)


def _whole(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["rung"].eq(HEADLINE)] if "rung" in frame else frame


def _trials(frame: pd.DataFrame, targets: Sequence[str]) -> pd.DataFrame:
    """Return the trials that ended well, later attempts last, with `step_s`, `beyond_s` and `prepare_s`, seconds.

    `beyond_s` is what the warm-up took beyond as many steady steps.
    """
    chosen = _whole(frame)
    chosen = chosen[chosen["status"].eq("ok") & chosen["target"].isin(list(targets))]
    if "attempt" in chosen:
        chosen = chosen.sort_values("attempt", kind="stable", na_position="first")
    step = np.array([np.median(times) if np.size(times) else math.nan for times in chosen["step_times_s"]], dtype=float)
    beyond = _numbers(chosen, "warmup_s") - _numbers(chosen, "warmup_steps") * step
    return chosen.assign(step_s=step, beyond_s=beyond, prepare_s=_numbers(chosen, "prepare_s"))


def _is_at(frame: pd.DataFrame, place: Mapping[Any, Any]) -> Bools:
    there = np.ones(len(frame), dtype=bool)
    for name, value in place.items():
        same = frame[name].isna() if pd.isna(value) else frame[name] == value
        there &= same.to_numpy(dtype=bool, na_value=False)
    return there


def _at(trials: pd.DataFrame, size: Mapping[Any, Any], baseline: str, challenger: str) -> dict[str, Any]:
    """Return the columns of one size but for its place and its sentence."""
    nothing = dict.fromkeys(["extra_s", "extra_low_s", "extra_high_s"], math.nan)
    nothing |= {f"repaid_{unit}{end}": math.nan for unit in UNITS for end in ("", "_low", "_high")}
    found: dict[str, Any] = {"pairs": 0, "gain_s": size["baseline_s"] - size["challenger_s"], "prepared": False}
    if size["pairs"] == 0:
        return found | nothing | {"gain_s": math.nan, "reason": f"what a step gains is not known: {size['known_sign']}"}
    known = trials[trials["beyond_s"].notna()]
    sides = [known[known["target"] == name] for name in (baseline, challenger)]
    if any(side.empty for side in sides):
        return found | nothing | {"reason": NO_WARM_UP}
    cold, pairs = _paired(*sides) if _has_passes(known) else _apart(*sides, step_s=size["baseline_s"])
    if cold is None:
        return found | nothing | {"reason": NO_PARTNER}
    found |= {"pairs": pairs, "prepared": cold.prepared, "extra_s": cold.extra_s.mean}
    found |= {"extra_low_s": cold.extra_s.low, "extra_high_s": cold.extra_s.high}
    gains = [1 - math.exp(size[f"log_ratio{end}"]) for end in ("", "_low", "_high")]
    step_s = [size[f"baseline{end}_s"] for end in ("", "_low", "_high")]
    rows, batch = (_only(trials, name) for name in ("rows", "batch_size"))
    per_epoch = rows / batch if rows > 0 and batch > 0 else math.nan
    for end, extra, start, gain, each_s in zip(
        ("", "_low", "_high"),
        (cold.extra.mean, cold.extra.low, cold.extra.high),
        (cold.baseline.mean, cold.baseline.low, cold.baseline.high),
        gains,
        step_s,
        strict=True,
    ):
        steps = max(extra, 0.0) / gain if not math.isnan(extra) else math.nan
        found[f"repaid_steps{end}"] = steps
        found[f"repaid_s{end}"] = 0.0 if steps == 0 else (max(start, 0.0) + steps) * each_s
        found[f"repaid_epochs{end}"] = steps / per_epoch
    return found | {"reason": ONCE if math.isnan(cold.extra.low) else ""}


def _has_passes(trials: pd.DataFrame) -> bool:
    """Whether trials of both targets belong together by their pass."""
    if "pass_index" not in trials or trials["pass_index"].isna().all():
        return False
    return "paired" not in trials or not trials["paired"].eq(False).any()


def _paired(first: pd.DataFrame, second: pd.DataFrame) -> tuple[_Cold | None, int]:
    """Compare the cold starts pass by pass; disturbed pairs are left out where enough others are left."""
    kept = ["pass_index", "step_s", "beyond_s", "prepare_s", *(["interference"] if "interference" in first else [])]
    sides = [
        side[kept].dropna(subset="pass_index").drop_duplicates("pass_index", keep="last") for side in (first, second)
    ]
    both = sides[0].merge(sides[1], on="pass_index", suffixes=("", "_other"))
    if "interference" in both:
        disturbed = both["interference"].eq(CONTENDED) | both["interference_other"].eq(CONTENDED)
        both = both[~disturbed] if (~disturbed).sum() >= LEAST_CLEAN else both
    prepared = both["prepare_s"].notna() & both["prepare_s_other"].notna()
    both = both[prepared] if prepared.any() else both
    if both.empty:
        return None, 0
    starts = [_starts(both, end, prepared=bool(prepared.any())) for end in ("", "_other")]
    step = both["step_s"].to_numpy()
    extra = starts[1] - starts[0]
    cold = _Cold(
        extra=_mean(extra / step),
        baseline=_mean(starts[0] / step),
        extra_s=_mean(extra),
        prepared=bool(prepared.any()),
    )
    return cold, len(both)


def _apart(first: pd.DataFrame, second: pd.DataFrame, *, step_s: float) -> tuple[_Cold, int]:
    """Compare the cold starts of all trials of one target with those of the other."""
    sides = [side.drop_duplicates("trial_id", keep="last") if "trial_id" in side else side for side in (first, second)]
    prepared = all(side["prepare_s"].notna().all() for side in sides)
    starts = [_starts(side, "", prepared=prepared) for side in sides]
    fewest = min(map(len, starts))
    difference = float(starts[1].mean() - starts[0].mean())
    half = math.nan
    if fewest > 1:
        error = math.sqrt(sum(float(start.var(ddof=1)) / len(start) for start in starts))
        half = float(special.stdtrit(fewest - 1, 0.975)) * error
    extra = _Mean(mean=difference, low=difference - half, high=difference + half)
    scaled = _Mean(mean=extra.mean / step_s, low=extra.low / step_s, high=extra.high / step_s)
    return _Cold(extra=scaled, baseline=_mean(starts[0] / step_s), extra_s=extra, prepared=prepared), fewest


def _starts(frame: pd.DataFrame, end: str, *, prepared: bool) -> Floats:
    """Cold start of each row, seconds."""
    beyond = frame[f"beyond_s{end}"].to_numpy(dtype=np.float64)
    return beyond + frame[f"prepare_s{end}"].to_numpy(dtype=np.float64) if prepared else beyond


def _mean(values: Floats) -> _Mean:
    """Mean of values of several passes, with Student's 95 % interval."""
    mean = float(values.mean())
    if len(values) < 2:
        return _Mean(mean=mean, low=math.nan, high=math.nan)
    half = float(special.stdtrit(len(values) - 1, 0.975)) * float(values.std(ddof=1)) / math.sqrt(len(values))
    return _Mean(mean=mean, low=mean - half, high=mean + half)


def _only(frame: pd.DataFrame, name: str) -> float:
    """The value that all rows have; NaN where there is none, or several."""
    values = set(_numbers(frame, name).tolist())
    return float(values.pop()) if len(values) == 1 else math.nan


def _numbers(frame: pd.DataFrame, column: str) -> Floats:
    if column not in frame:
        return np.full(len(frame), np.nan)
    return pd.to_numeric(frame[column], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def count_steps(value: float, toward: int = 0) -> str:
    """Return a number of steps: whole, and above 10,000 three digits."""
    return Scale.of(()).show(value, toward)


def _tenths(value: float) -> str:
    return number(float(f"{value:.2g}"))


def _repaid(row: Mapping[Any, Any]) -> str:
    """Return "after 840 steps (95 % interval 620 to 1100; 0.8 epochs), 3.4 s since both began"."""
    if row["repaid_steps"] == 0:
        up_to = row["repaid_steps_high"]
        return "at once" + (f" (or after up to {count_steps(up_to, 1)} steps)" if up_to > 0 else "")
    more = []
    if not math.isnan(row["repaid_steps_low"]):
        low = "at once" if row["repaid_steps_low"] == 0 else count_steps(row["repaid_steps_low"], -1)
        more.append(f"95 % interval {low} to {count_steps(row['repaid_steps_high'], 1)}")
    if not math.isnan(row["repaid_epochs"]):
        more.append(f"{_tenths(row['repaid_epochs'])} epochs")
    steps, told = count_steps(row["repaid_steps"], 1), f" ({'; '.join(more)})" if more else ""
    return f"after {steps} step{'s' * (steps != '1')}{told}, {seconds(row['repaid_s'])} since both began"


def _sentence(row: Mapping[Any, Any], axis: str, baseline: str, challenger: str) -> str:
    where = f"At {axis} {shown(row[axis])}"
    if math.isnan(row["repaid_steps"]):
        return f"{where}, it is not known when {challenger} repays its cold start: {row['reason']}."
    does, more = ("starts", "later") if row["prepared"] else ("warms up", "longer")
    if row["repaid_steps"] == 0:
        return f"{where}, {challenger} {does} no {more} than {baseline}, so it is ahead {_repaid(row)}."
    apart = "" if row["prepared"] else "; what opening the device and making the model take is not known"
    once = f"; {row['reason']}" if row["reason"] else ""
    later = f"{challenger} {does} {seconds(row['extra_s'])} {more} than {baseline}"
    return f"{where}, {later} and repays that {_repaid(row)}{apart}{once}."
