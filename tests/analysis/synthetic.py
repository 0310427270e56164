"""Frames of made trials with a known answer. Whole sweeps with the noise of real ones: benchmarks/simulator.py."""

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
