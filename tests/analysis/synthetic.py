"""Frames of made trials with a known answer, and a simulator of whole sweeps with the noise of real ones."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

SIZES = [16, 32, 64, 128, 256, 512, 1024, 2048]
ASKED = {"axis": "size", "baseline": "cpu", "challenger": "gpu"}


def made_frame(ratio, *, sizes=SIZES, passes=5, noise=0.004, steps=8, seed=0):
    """Trials of a CPU whose time grows with the size, and of a GPU that needs exp(ratio(size)) times as long.

    The noise of the passes has mean zero, so that mean log ratios are exact. No two trials are equal.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for size in sizes:
        centred = np.arange(passes) - (passes - 1) / 2
        wobble = noise * centred * rng.choice([-1, 1])
        for number in range(passes):
            for target, log_ratio in (("cpu", 0.0), ("gpu", ratio(size) + wobble[number])):
                median = 1e-4 * size * np.exp(log_ratio + 1e-4 * centred[number])
                times = (median * np.exp(0.01 * np.linspace(-1, 1, steps))).tolist()
                rows.append((size, target, number, "ok", times))
    return pd.DataFrame(rows, columns=["size", "target", "pass_index", "status", "step_times_s"])


def at_sizes(ratios, **options):
    """Trials with a log ratio given for each size, as a dictionary."""
    return made_frame(ratios.__getitem__, sizes=list(ratios), **options)


def falling(crossing=100.0, slope=0.7):
    """The log ratio of a challenger that wins above `crossing`."""
    return lambda size: -slope * np.log(size / crossing)


def with_status(frame, status, *, target, sizes, passes=None):
    """The frame with chosen trials failed."""
    frame = frame.copy()
    chosen = (frame["target"] == target) & frame["size"].isin(sizes)
    if passes is not None:
        chosen &= frame["pass_index"].isin(passes)
    frame.loc[chosen, "status"] = status
    if status != "ok":
        frame["step_times_s"] = frame["step_times_s"].where(~chosen, None)
    return frame


def chosen(frame, *, target, size, number):
    """Mask of the rows of one trial."""
    return (frame["target"] == target) & (frame["size"] == size) & (frame["pass_index"] == number)


@dataclass(frozen=True, kw_only=True)
class Sweeps:
    """Simulated sweeps, one a group (column `sweep`), and the position ln(size) of each true change, ascending."""

    frame: pd.DataFrame
    changes: list[list[float]]


def simulate(kind, *, groups, passes, seed, noise=1.0, steps=None):
    """Simulate sweeps of 9 to 14 sizes in octaves.

    Step times are lognormal (standard deviation 2 to 10 %) with 2 % of slow spikes. Processes differ by 1 to 5 %, in
    part shared by the two trials of a pair. Both targets drift slowly, by up to 1 %. `noise` scales all of it but the
    spikes.
    """
    rng = np.random.default_rng(seed)
    columns = {name: [] for name in ("sweep", "size", "target", "pass_index")}
    times, changes = [], []
    for group in range(groups):
        sizes = 2.0 ** (rng.integers(2, 6) + np.arange(rng.integers(9, 15)))
        cpu, gpu, true_changes = _curves(kind, np.log(sizes), rng)
        changes.append(true_changes)
        typical = np.stack([cpu(np.log(sizes)), gpu(np.log(sizes))])
        measured = _measure(typical, passes=passes, noise=noise, steps=steps, rng=rng)
        times += list(measured.reshape(-1, measured.shape[-1]))
        number, side, index = (axis.ravel() for axis in np.indices(measured.shape[:-1]))
        columns["sweep"].append(np.full(number.size, group))
        columns["size"].append(sizes[index])
        columns["target"].append(np.array(["cpu", "gpu"])[side])
        columns["pass_index"].append(number)
    frame = pd.DataFrame({name: np.concatenate(parts) for name, parts in columns.items()})
    frame["status"] = "ok"
    frame["step_times_s"] = times
    return Sweeps(frame=frame, changes=changes)


def _measure(typical, *, passes, noise, steps, rng):
    """Step times of shape (passes, 2, sizes, steps) around typical log times of shape (2, sizes)."""
    steps = steps or int(rng.integers(5, 11))
    within, between = noise * rng.uniform(0.02, 0.1), noise * rng.uniform(0.01, 0.05)
    shared_part, drift = rng.uniform(0.2, 0.7), noise * rng.uniform(0.003, 0.01)
    n = typical.shape[1]
    order = rng.permuted(np.tile(np.arange(n), (passes, 1)), axis=1)
    when = (np.arange(passes)[:, None] + order / n) / passes  # from 0 to 1 over the sweep
    phase, speed = rng.uniform(0, 2 * np.pi, (2, 1)), rng.uniform(0.5, 2, (2, 1))
    slow = drift * np.sin(2 * np.pi * speed * when[:, None, :] + phase)
    shared, own = rng.standard_normal((passes, 1, n)), rng.standard_normal((passes, 2, n))
    process = between * (np.sqrt(shared_part) * shared + np.sqrt(1 - shared_part) * own)
    logs = (np.log(1e-2) + typical + process + slow)[..., None] + within * rng.standard_normal((passes, 2, n, steps))
    spikes = np.where(rng.random(logs.shape) < 0.02, np.log(rng.uniform(1.5, 6, logs.shape)), 0)
    return np.exp(logs + spikes)


def _curves(kind, u, rng):
    """Log time of both targets over u = ln(size), and the positions at which they are equal."""
    low, high = u[0], u[-1]
    change = rng.uniform(low + 0.25 * (high - low), low + 0.7 * (high - low))
    match kind:
        case "crosses" | "reversed":
            power = rng.uniform(0.9, 1.1)
            part = max(0.05, 1 - rng.uniform(0.5, 0.9) / power)  # of the launched work, at the crossing

            def linear(x):
                return power * (x - change)

            def launched(x):
                return np.log(1 - part + part * np.exp(power * (x - change)))

            return (linear, launched, [change]) if kind == "crosses" else (launched, linear, [change])
        case "knee":
            first, second = rng.permutation([rng.uniform(0.5, 0.7), rng.uniform(0.9, 1.1)])
            return lambda x: np.where(x < change, first, second) * (x - change), lambda x: 0 * x, [change]
        case "shallow":
            slope = rng.uniform(0.05, 0.15)
            return lambda x: (0.8 + slope) * (x - change), lambda x: 0.8 * (x - change), [change]
        case "several":
            turns, size, sign = int(rng.integers(2, 4)), rng.uniform(0.2, 0.5), rng.choice([-1, 1])
            places = [low + (high - low) * (place + 0.5) / turns for place in range(turns)]
            wave = np.pi * turns / (high - low)
            return lambda x: 0.8 * x + sign * size * np.cos(wave * (x - low)), lambda x: 0.8 * x, places
        case "always_baseline" | "always_challenger":
            away, slope = rng.uniform(0.15, 1), rng.uniform(0.05, 0.25)
            sign = 1 if kind == "always_baseline" else -1
            return lambda x: 0.9 * x, lambda x: 0.9 * x + sign * (away + slope * (x - low)), []
        case "tie":
            return lambda x: 0.8 * x, lambda x: 0.8 * x, []
    raise ValueError(kind)
