"""Trainings that ran side by side, in words: nobody may take the time of a node for that of one training."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.rounding import listed, seconds, shown
from analysis.step_times import trainings_at_once


def headline_words(frame: pd.DataFrame, targets: tuple[str, str]) -> list[str]:
    """Say so behind a verdict, a sentence for each of two targets whose trainings ran side by side.

    Args:
        frame: One row a trial.
        targets: Their names.
    """
    said = []
    for name in targets:
        own = _finished(frame, name)
        counts = sorted(set(trainings_at_once(own).astype(int).tolist()))
        if counts and counts[-1] > 1:
            number = listed(map(str, counts))
            said.append(f"({name} is {number} trainings side by side; its times are those of one divided by {number}.)")
    return said


def target_words(frame: pd.DataFrame, target: str, axis: str) -> str:
    """Say what a step takes one of the trainings of a target, and the node: at the middle one of its sizes.

    Args:
        frame: One row a trial.
        target: Its name.
        axis: Column of sizes.

    Returns:
        Such as "4 trainings side by side: at width 64 a step of one takes 2.00 ms, the node does one every 500 µs";
        empty where its trainings ran one at a time.
    """
    own = _finished(frame, target)
    at_once = trainings_at_once(own)
    if not (at_once > 1).any():
        return ""
    own = own[at_once == at_once.max()]
    sizes = np.sort(own[axis].unique())
    size = sizes[len(sizes) // 2]
    step_s = float(np.median([np.median(times) for times in own.loc[own[axis] == size, "step_times_s"]]))
    count = int(at_once.max())
    return (
        f"{count} trainings side by side: at {axis} {shown(size)} a step of one takes {seconds(step_s)}, the node does "
        f"one every {seconds(step_s / count)}"
    )


def _finished(frame: pd.DataFrame, target: str) -> pd.DataFrame:
    own = frame[frame["target"].eq(target) & frame["status"].eq("ok")]
    return own[[times is not None and np.size(times) > 0 for times in own["step_times_s"]]]
