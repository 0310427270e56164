"""What is said of rows that a study has taken over from one that was recorded elsewhere (`sweep.py --against`).

They count like rows that were measured for it. But machines, days and versions differ between the two sides, and
whoever reads the answer has to see that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pandas as pd

from analysis.rounding import listed, number
from analysis.sentence import Topic

#: The column that says where a row was taken over from; empty in one that was measured for the study.
ORIGIN = "recorded_in"
#: Machines of one side beyond this many are counted.
NAMED = 3


def has_recorded(frame: pd.DataFrame) -> bool:
    """Whether any of these rows was taken over."""
    return ORIGIN in frame and bool(frame[ORIGIN].ne("").any())


def doubts_of(final: pd.DataFrame, versions: Mapping[str, str]) -> list[str]:
    """Return what a reader should know of rows that were taken over, a sentence each.

    Args:
        final: One row a trial.
        versions: Columns of what a row can have been measured with, and what these are called.
    """
    doubts = []
    mine = final[final[ORIGIN] == ""]
    for name, theirs in _by_study(final):
        targets, others = (listed(_known(rows, "target")) for rows in (theirs, mine))
        against = f" with those of {others} ({_machines(mine)}{_days(mine)})" if len(mine) else ""
        doubts.append(
            f"the rows of {targets} are taken over from the study {name} ({_machines(theirs)}{_days(theirs)}): they "
            f"were not measured here and are not paired{against}, so whatever else differs between the machines and "
            "the days is part of the answer"
        )
        differs = [
            f"{what} {listed(_known(theirs, column)) or 'not known'} there, {listed(_known(mine, column))} here"
            for column, what in versions.items()
            if len(mine) and _known(theirs, column) != _known(mine, column)
        ]
        if differs:
            doubts.append(
                f"the rows of {name} come from other versions ({'; '.join(differs)}); they are compared nevertheless"
            )
    return doubts


def sides_words(frame: pd.DataFrame, topic: Topic) -> list[str]:
    """Name both machines where one side of a comparison was taken over; else nothing.

    Args:
        frame: The trials of the comparison.
        topic: Whose sides these are.
    """
    ok = frame[frame["status"] == "ok"]
    sides = {name: ok[ok["target"] == name] for name in (topic.baseline, topic.challenger)}
    if not any(has_recorded(rows) for rows in sides.values()) or any(rows.empty for rows in sides.values()):
        return []
    told = [f"{name} is {_machines(rows)}, {_where(rows)}" for name, rows in sides.items()]
    return [f"(Two machines, not paired: {'; '.join(told)}.)"]


def method_words(frame: pd.DataFrame) -> str:
    """Say how the trials of a study that has taken rows over belong together; empty for any other study."""
    if not has_recorded(frame):
        return ""
    told = [f"{listed(_known(rows, 'target'))} in {name}" for name, rows in _by_study(frame)]
    return f"recorded elsewhere: {'; '.join(told)}; the rest was measured here, and the two are not paired"


def span_words(frame: pd.DataFrame) -> str:
    """Say when each part of such a study was measured; empty for any other study."""
    if not has_recorded(frame):
        return ""
    mine = frame[frame[ORIGIN] == ""]
    parts = [*([("here", mine)] if len(mine) else []), *((f"in {name}", rows) for name, rows in _by_study(frame))]
    return "; ".join(f"{where}{_days(rows)}" for where, rows in parts)


def _by_study(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    for name, rows in frame[frame[ORIGIN] != ""].groupby(ORIGIN, sort=True):
        yield str(name), rows


def _where(rows: pd.DataFrame) -> str:
    places = [f"recorded in {name}" for name, _ in _by_study(rows)]
    if rows[ORIGIN].eq("").any():
        places.append("measured here")
    return " and ".join(places) + _days(rows)


def _machines(rows: pd.DataFrame) -> str:
    """Name what computed: the accelerators of rows that used one, the CPUs of the others."""
    used = rows["gpu_name"].notna()
    on_cpus = rows[~used & rows["status"].eq("ok")].dropna(subset=["cpu_model", "cores_usable"])
    cpus = [
        f"{name}, {number(float(cores))} cores"
        for name, cores in zip(on_cpus["cpu_model"], on_cpus["cores_usable"], strict=True)
    ]
    names = [*_texts(rows.loc[used, "gpu_name"]), *sorted(set(cpus))]
    return listed(names, NAMED) or "a machine that is not known"


def _days(rows: pd.DataFrame) -> str:
    """Return " on 2026-01-02", or the first and the last day; empty where none is known."""
    days = rows["started_at"].dropna()
    if days.empty:
        return ""
    first, last = (f"{day:%Y-%m-%d}" for day in (days.min(), days.max()))
    return f" on {first}" + (f" to {last}" if last != first else "")


def _known(rows: pd.DataFrame, column: str) -> list[str]:
    return _texts(rows[column])


def _texts(values: pd.Series[str]) -> list[str]:
    return sorted({str(value) for value in values.dropna()})
