"""Trials that are the partner of several others: a lever that means nothing on a device is null in their rows."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd


def spread(frame: pd.DataFrame, groups: Sequence[str]) -> pd.DataFrame:
    """Repeat each row that has no value of a lever, once for every value that other targets have there.

    How data get to the device means nothing on a CPU: one trial there is the partner of a pageable, a pinned and a
    resident one. Where a lever means nothing on any target its null stays, and is a group of its own.

    Args:
        frame: One row a trial.
        groups: Columns that split the rows into groups.

    Returns:
        The rows, so that each group holds all of its own.
    """
    for name in groups:
        lacking = frame[name].isna()
        if not lacking.any() or lacking.all():
            continue
        others = [other for other in groups if other != name]
        if others:
            values = frame.loc[~lacking, [*others, name]].drop_duplicates()
            repeated = frame[lacking].drop(columns=name).merge(values, on=others, how="left")
        else:
            repeated = frame[lacking].drop(columns=name).merge(frame.loc[~lacking, [name]].drop_duplicates(), "cross")
        frame = pd.concat([frame[~lacking], repeated[frame.columns]], ignore_index=True)
    return frame
