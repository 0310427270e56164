"""Made sweeps whose crossover is known, with the noise of real ones.

A kind says how the times of the two targets, "cpu" and "gpu", grow with the size, and so where they are equal. The
noise law is the same for all kinds:

- 9 to 14 sizes in octaves; every pass visits all of them once, in an order of its own;
- 5 to 10 step times a trial, lognormal with a standard deviation of 2 to 10 %; 2 % of them are 1.5 to 6 times as slow;
- processes differ by a standard deviation of 1 to 5 %, and the two trials of a pair share about half
  of that variance;
- each target drifts slowly over the sweep, by 0.3 to 1 % to either side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.float64]
Curve = Callable[[Floats], Floats]

OCTAVE = math.log(2)
CHEAPEST_S = 1e-2  # a step where both curves are at their zero; far above what a clock can tell
LIMIT_STEPS = 20  # steps, warm-up included, that a trial must finish before it times out


@dataclass(frozen=True, kw_only=True)
class Change:
    """One true change of the faster target, at positions ln(size).

    Attributes:
        first, last: The first and the last position at which both are equally fast; the same but for a staircase.
        direction: Who is faster above: `challenger_above` or `baseline_above`.
    """

    first: float
    last: float
    direction: str


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The two targets of one sweep without noise.

    Attributes:
        cpu, gpu: ln(time) over ln(size), in units of `CHEAPEST_S`.
        changes: Where they are equal, ascending.
        cpu_limit: ln(time) of a step above which a CPU trial runs into its limit.
        gpu_largest: Position above which the GPU is out of memory.
    """

    cpu: Curve
    gpu: Curve
    changes: tuple[Change, ...] = ()
    cpu_limit: float = math.inf
    gpu_largest: float = math.inf


@dataclass(frozen=True, kw_only=True)
class Draw:
    """What the truth of one sweep is drawn from.

    Attributes:
        low, high: Positions ln(size) of the smallest and the largest size.
        rng: Chance.
    """

    low: float
    high: float
    rng: np.random.Generator

    def uniform(self, least: float, most: float) -> float:
        """Return a number between two others."""
        return float(self.rng.uniform(least, most))

    def inside(self) -> float:
        """Return a position well inside the range."""
        return self.low + (self.high - self.low) * self.uniform(0.25, 0.7)


@dataclass(frozen=True, kw_only=True)
class Sweeps:
    """Simulated sweeps, one a group (column `sweep`), as a frame of records; and the truth of each."""

    frame: pd.DataFrame
    truths: tuple[Truth, ...]


def simulate(
    kind: str,
    *,
    groups: int,
    passes: int,
    seed: int,
    noise: float = 1.0,
    steps: int | None = None,
    sizes: int | None = None,
) -> Sweeps:
    """Simulate sweeps of one kind.

    Args:
        kind: A key of `KINDS`.
        groups: Number of sweeps.
        passes: Trials of each target and size.
        seed: Of all that is random.
        noise: Factor on every standard deviation and on the drift; spikes stay.
        steps: Step times of each trial, instead of 5 to 10.
        sizes: Sizes of each sweep, instead of 9 to 14.

    Returns:
        One row a trial: `sweep`, `size`, `target`, `pass_index`, `status`, `step_times_s`.
    """
    rng = np.random.default_rng(seed)
    columns: dict[str, list[npt.NDArray[np.generic]]] = {
        name: [] for name in ("sweep", "size", "target", "pass_index", "status")
    }
    times_s: list[Floats | None] = []
    truths = []
    for group in range(groups):
        position = np.float64(OCTAVE) * (rng.integers(2, 6) + np.arange(sizes or rng.integers(9, 15)))
        truth = KINDS[kind](Draw(low=float(position[0]), high=float(position[-1]), rng=rng))
        measured = _measure(truth, position, passes=passes, noise=noise, steps=steps, rng=rng)
        status = _outcomes(truth, position, measured)
        number, side, index = (places.ravel() for places in np.indices(status.shape))
        columns["sweep"].append(np.full(number.size, group))
        columns["size"].append(np.round(np.exp(position))[index])
        columns["target"].append(np.array(["cpu", "gpu"])[side])
        columns["pass_index"].append(number)
        columns["status"].append(status.ravel())
        rows = measured.reshape(-1, measured.shape[-1])
        times_s += [row if ended == "ok" else None for row, ended in zip(rows, status.ravel(), strict=True)]
        truths.append(truth)
    frame = pd.DataFrame({name: np.concatenate(parts) for name, parts in columns.items()})
    frame["step_times_s"] = pd.Series(times_s, dtype=object)
    return Sweeps(frame=frame, truths=tuple(truths))


def _measure(
    truth: Truth, position: Floats, *, passes: int, noise: float, steps: int | None, rng: np.random.Generator
) -> Floats:
    """Step times in seconds, of shape (passes, 2, sizes, steps)."""
    steps = steps or int(rng.integers(5, 11))
    within, between = noise * rng.uniform(0.02, 0.1), noise * rng.uniform(0.01, 0.05)
    shared_part, drift = rng.uniform(0.25, 0.75), noise * rng.uniform(0.003, 0.01)
    n = len(position)
    order = rng.permuted(np.tile(np.arange(n), (passes, 1)), axis=1)
    when = (np.arange(passes)[:, None] + order / n) / passes  # from 0 to 1 over the sweep
    phase, turns = rng.uniform(0, 2 * np.pi, (2, 1)), rng.uniform(0.5, 2, (2, 1))
    slow = drift * np.sin(2 * np.pi * turns * when[:, None, :] + phase)
    shared, own = rng.standard_normal((passes, 1, n)), rng.standard_normal((passes, 2, n))
    process = between * (np.sqrt(shared_part) * shared + np.sqrt(1 - shared_part) * own)
    typical = math.log(CHEAPEST_S) + np.stack([truth.cpu(position), truth.gpu(position)])
    logs = (typical + process + slow)[..., None] + within * rng.standard_normal((passes, 2, n, steps))
    spikes = np.where(rng.random(logs.shape) < 0.02, np.log(rng.uniform(1.5, 6, logs.shape)), 0)
    return np.asarray(np.exp(logs + spikes))


def _outcomes(truth: Truth, position: Floats, measured_s: Floats) -> npt.NDArray[np.str_]:
    """Status of each trial, of shape (passes, 2, sizes)."""
    status = np.full(measured_s.shape[:-1], "ok", dtype="<U7")
    spent_s = LIMIT_STEPS * measured_s[:, 0].mean(axis=-1)
    status[:, 0][spent_s > LIMIT_STEPS * CHEAPEST_S * math.exp(truth.cpu_limit)] = "timeout"
    status[:, 1, position > truth.gpu_largest] = "oom"
    return status


# ------------------------------------------------------------------------------------------------------------- kinds


def _clean(draw: Draw) -> Truth:
    """A CPU whose time is a power of the size against a GPU with a launch floor."""
    change, cpu, gpu = _launched(draw)
    return Truth(cpu=cpu, gpu=gpu, changes=_one(change))


def _reversed(draw: Draw) -> Truth:
    """The same with the targets exchanged: the GPU wins the small sizes."""
    change, launched, floor = _launched(draw)
    return Truth(cpu=floor, gpu=launched, changes=_one(change, "baseline_above"))


def _timeouts(draw: Draw) -> Truth:
    """The CPU runs into its limit at the largest sizes; in every second sweep right above the crossing."""
    change, cpu, gpu = _launched(draw)
    last = (
        change + draw.uniform(0.1, OCTAVE) if draw.rng.random() < 0.5 else draw.uniform(change + 2 * OCTAVE, draw.high)
    )
    return Truth(cpu=cpu, gpu=gpu, changes=_one(change), cpu_limit=float(cpu(np.array(last))))


def _oom(draw: Draw) -> Truth:
    """The GPU runs out of memory at the largest sizes."""
    change, cpu, gpu = _launched(draw)
    largest = draw.uniform(change + OCTAVE, draw.high)
    return Truth(cpu=cpu, gpu=gpu, changes=_one(change), gpu_largest=largest)


def _knee(draw: Draw) -> Truth:
    """The CPU's data outgrow its cache around the crossing: each element comes to cost 1.5 to 3 times as much.

    The share of accesses that miss grows over one to four octaves, so that the curve is steepest at the crossing.
    """
    change, slope = draw.inside(), draw.uniform(0.5, 0.9)
    dearer, width = math.log(draw.uniform(1.5, 3)), draw.uniform(0.3, 0.8) * OCTAVE

    def cpu(x: Floats) -> Floats:
        return x - change + dearer * (1 / (1 + np.exp((change - x) / width)) - 0.5)

    return Truth(cpu=cpu, gpu=lambda x: (1 - slope) * (x - change), changes=_one(change))


def _corner(draw: Draw) -> Truth:
    """The CPU's curve breaks sharply at the crossing, which no size need show: steeper above for good."""
    change, slope, more = draw.inside(), draw.uniform(0.5, 0.9), draw.uniform(0.3, 0.8)

    def cpu(x: Floats) -> Floats:
        return x - change + more * np.maximum(x - change, 0)

    return Truth(cpu=cpu, gpu=lambda x: (1 - slope) * (x - change), changes=_one(change))


def _staircase(draw: Draw) -> Truth:
    """The GPU works in waves: its time grows by steps, of which 2 to 6 lie below the crossing."""
    change, waves, part = draw.inside(), draw.uniform(2, 6), 1 - draw.uniform(0.5, 0.9)
    step = np.arange(1, 21)
    top_s = 1 - part + part * step / waves  # of each step; 1 is what the CPU takes at the size `waves`
    zeros = top_s[np.ceil(waves * top_s) == step]  # the CPU reaches the height of the step while on the step
    first, last = change + np.log(zeros[[0, -1]])

    def gpu(x: Floats) -> Floats:
        return np.asarray(np.log(1 - part + part * np.ceil(waves * np.exp(x - change)) / waves))

    found = Change(first=float(first), last=float(last), direction="challenger_above")
    return Truth(cpu=lambda x: x - change, gpu=gpu, changes=(found,))


def _shallow(draw: Draw) -> Truth:
    """Both grow almost alike."""
    change, slope = draw.inside(), draw.uniform(0.05, 0.15)
    return Truth(cpu=lambda x: (0.8 + slope) * (x - change), gpu=lambda x: 0.8 * (x - change), changes=_one(change))


def _always_baseline(draw: Draw) -> Truth:
    """The CPU wins throughout, at one end by as little as 15 %."""
    lead = _lead(draw)
    return Truth(cpu=lambda x: 0.9 * (x - draw.low), gpu=lambda x: 0.9 * (x - draw.low) + lead(x))


def _always_challenger(draw: Draw) -> Truth:
    """The GPU wins throughout, at one end by as little as 15 %."""
    lead = _lead(draw)
    return Truth(cpu=lambda x: 0.9 * (x - draw.low), gpu=lambda x: 0.9 * (x - draw.low) - lead(x))


def _just_below(draw: Draw) -> Truth:
    """The crossing lies less than an octave below the smallest size."""
    change, slope = draw.low - draw.uniform(0.1, OCTAVE), draw.uniform(0.5, 0.9)
    return Truth(cpu=lambda x: x - change, gpu=lambda x: (1 - slope) * (x - change))


def _just_above(draw: Draw) -> Truth:
    """The crossing lies less than an octave above the largest size."""
    change, slope = draw.high + draw.uniform(0.1, OCTAVE), draw.uniform(0.5, 0.9)
    return Truth(cpu=lambda x: x - change, gpu=lambda x: (1 - slope) * (x - change))


def _several(draw: Draw) -> Truth:
    """The winner changes two or three times, with swings of 20 to 50 % to either side."""
    turns, swing = int(draw.rng.integers(2, 4)), draw.uniform(0.2, 0.5) * draw.rng.choice([-1, 1])
    pace = math.pi * turns / (draw.high - draw.low)
    places = [draw.low + (draw.high - draw.low) * (place + 0.5) / turns for place in range(turns)]
    # The swing slows the CPU down at the smallest sizes, or speeds it up.
    directions = ["baseline_above", "challenger_above"] if swing > 0 else ["challenger_above", "baseline_above"]
    changes = tuple(
        Change(first=place, last=place, direction=directions[number % 2]) for number, place in enumerate(places)
    )
    return Truth(
        cpu=lambda x: 0.8 * (x - draw.low) + swing * np.cos(pace * (x - draw.low)),
        gpu=lambda x: 0.8 * (x - draw.low),
        changes=changes,
    )


def _tie(draw: Draw) -> Truth:
    """Both take the same time at every size."""
    return Truth(cpu=lambda x: 0.8 * (x - draw.low), gpu=lambda x: 0.8 * (x - draw.low))


KINDS: dict[str, Callable[[Draw], Truth]] = {
    "clean": _clean,
    "reversed": _reversed,
    "knee": _knee,
    "corner": _corner,
    "staircase": _staircase,
    "shallow": _shallow,
    "timeouts": _timeouts,
    "oom": _oom,
    "several": _several,
    "always_baseline": _always_baseline,
    "always_challenger": _always_challenger,
    "just_below": _just_below,
    "just_above": _just_above,
    "tie": _tie,
}


def _one(change: float, direction: str = "challenger_above") -> tuple[Change, ...]:
    return (Change(first=change, last=change, direction=direction),)


def _launched(draw: Draw) -> tuple[float, Curve, Curve]:
    """Where the two curves meet, with slopes that differ by 0.5 to 0.9: a power of the size, and that above a floor."""
    change, power = draw.inside(), draw.uniform(0.8, 1.1)
    part = max(0.05, 1 - draw.uniform(0.5, 0.9) / power)  # of the work that grows, at the crossing

    def floor(x: Floats) -> Floats:
        return np.asarray(np.log(1 - part + part * np.exp(power * (x - change))))

    return change, lambda x: power * (x - change), floor


def _lead(draw: Draw) -> Curve:
    """What the loser's ln(time) has more: smallest at one of the two ends."""
    least, slope = draw.uniform(0.15, 1), draw.uniform(0.05, 0.25)
    start = draw.low if draw.rng.random() < 0.5 else draw.high
    return lambda x: least + slope * np.abs(x - start)
