"""Whole trainings in place of steps: how long until a given loss, how long a configuration that is tried.

As in `analysis.measures`, a row keeps its shape, and its `step_times_s` hold one value: seconds of a training instead
of a step. "From what size is the challenger sooner at that loss?" is then the same question with the same method.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.measures import Measure
from analysis.outcomes import NO_TRAINING
from analysis.rounding import listed, number
from analysis.step_times import LISTS, trainings_at_once

S_PER_HOUR = 3600.0
TUNING = Measure(
    better="faster",
    by="{} faster",
    never="never tries configurations {} faster",
    alike="equally fast at trying configurations",
    does="tries configurations",
    does_not="does not try configurations",
    of_training=False,
)


#: What is counted, for people; the goal belongs into the first.
UNTIL_LOSS = (
    "From the first step of a whole training, in a process that is warm, to the end of the first epoch whose mean loss "
    "is {} or less: opening the device and making data and model are left out."
)
CONFIGURATION = (
    "Configurations an hour on one node, with the slowest and the fastest trial in brackets, and what one of them "
    "takes. Counted are opening the device, making data and model, and all epochs of its training; not how its process "
    "begins, nor judging what was trained."
)


def to_loss(goal: float) -> Measure:
    """Return how a sentence says that one target comes to a loss sooner than another."""
    to = f"to a loss of {number(goal)}"
    return Measure(
        better=f"{to} faster",
        by=f"{to} {{}} faster",
        never=f"is never {{}} faster {to}",
        alike=f"{to} equally fast",
    )


@dataclass(frozen=True, kw_only=True)
class Descent:
    """A whole training, epoch by epoch.

    Attributes:
        after_s: Seconds from its first step to the end of each epoch.
        losses: Mean loss of each epoch.
    """

    after_s: tuple[float, ...]
    losses: tuple[float, ...]

    def epochs_to(self, goal: float) -> int | None:
        """Return how many epochs it took to come down to a loss; None where that was never seen.

        The first epoch whose mean loss is as low counts, whole. Nothing is interpolated: a mean loss is known at the
        end of its epoch only, and is one over weights that changed meanwhile, so that between two of them lies no
        moment that was measured. A loss that is no number is never low.
        """
        return next((epoch for epoch, loss in enumerate(self.losses, 1) if loss <= goal), None)


def descents(frame: pd.DataFrame) -> list[Descent | None]:
    """Return the whole training of each row; None where it has none, or did not end well.

    Args:
        frame: Rows with `status`, `epoch_times_s` and `loss_by_epoch`.
    """
    found: list[Descent | None] = []
    for ok, times, losses in zip(
        frame["status"].eq("ok"), _column(frame, "epoch_times_s"), _column(frame, "loss_by_epoch"), strict=True
    ):
        is_whole = ok and isinstance(times, LISTS) and isinstance(losses, LISTS) and 0 < len(times) == len(losses)
        is_whole = is_whole and all(math.isfinite(each) and each > 0 for each in times)
        after_s = tuple(np.cumsum(np.asarray(times, dtype=np.float64)).tolist()) if is_whole else ()
        found.append(Descent(after_s=after_s, losses=tuple(map(_loss, losses))) if is_whole else None)
    return found


def in_time_to_loss(frame: pd.DataFrame, goal: float) -> pd.DataFrame:
    """Return rows whose `step_times_s` hold the seconds of a whole training until its loss was low enough.

    They are counted from the first step of a training whose process is warm: opening the device and making data and
    model are another answer (`analysis.breakeven`). A training that ended before it was there has taken longer than it
    lasted. That is a limit it ran into, so a target that was there in less time is known to be sooner.

    Args:
        frame: One row a trial of the whole step.
        goal: The mean loss of an epoch that is low enough.

    Returns:
        The rows. Those that trained nothing as a whole have the status `NO_TRAINING`, and so have those that were
        stopped at their deadline: how long their whole training was is not known.
    """
    times: list[list[float] | None] = []
    spent_s: list[float] = []
    for descent in descents(frame):
        epochs = descent.epochs_to(goal) if descent else None
        spent_s.append(math.nan if descent is None else descent.after_s[(epochs or 0) - 1])
        times.append([spent_s[-1]] if epochs else None)
    reached = np.array([value is not None for value in times], dtype=bool)
    trained = np.isfinite(spent_s)
    without = ~trained & frame["status"].isin(["ok", "timeout"]).to_numpy()
    status = frame["status"].astype(object).where(~without, NO_TRAINING)
    missed = f"no epoch had a mean loss of {number(goal)} or less"
    messages = frame["error_message"] if "error_message" in frame else pd.Series(None, index=frame.index, dtype=object)
    changed: dict[str, Any] = {
        "step_times_s": pd.Series(times, index=frame.index, dtype=object),
        "status": status.where(reached | ~trained, "timeout"),
        "error_message": messages.astype(object).where(reached | ~trained, missed),
        "deadline_s": np.asarray(spent_s, dtype=np.float64),
        "resolution_s": 0.0,
    }
    if {"started_at", "finished_at"} <= set(frame):
        begun = pd.to_datetime(frame["started_at"])
        changed["started_at"] = begun
        changed["finished_at"] = begun + pd.to_timedelta(pd.Series(spent_s, index=frame.index), unit="s")
    return frame.assign(**changed)


def per_configuration(frame: pd.DataFrame) -> pd.DataFrame:
    """Return rows whose `step_times_s` hold the seconds that a configuration takes which is tried.

    Counted are opening the device, making data and model, and all epochs of its whole training. Left out is how its
    process begins: a fresh Python that imports torch takes seconds, a fork of one that has takes milliseconds, and
    which of them a tuner has is its own affair; and so is judging what was trained.

    Args:
        frame: One row a trial of the whole step, with `prepare_s`.

    Returns:
        The rows, of one training each, however many ran side by side. Those that trained nothing as a whole have the
        status `NO_TRAINING`, and so have those that were stopped at their deadline, which timed steps as well.
    """
    prepare_s = pd.to_numeric(_column(frame, "prepare_s"), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    whole_s = [math.nan if descent is None else descent.after_s[-1] for descent in descents(frame)]
    total_s = prepare_s + np.asarray(whole_s, dtype=np.float64)
    known = np.isfinite(total_s)
    without = ~known & frame["status"].isin(["ok", "timeout"]).to_numpy()
    times = [[value] if there else None for value, there in zip(total_s.tolist(), known, strict=True)]
    return frame.assign(
        step_times_s=pd.Series(times, index=frame.index, dtype=object),
        status=frame["status"].astype(object).where(~without, NO_TRAINING),
        resolution_s=0.0,
    )


def configurations_per_hour(frame: pd.DataFrame, *, axis: str, targets: Sequence[str]) -> pd.DataFrame:
    """Return how many configurations each target tries in an hour, at each size.

    Args:
        frame: Rows of `per_configuration`.
        axis: Column of sizes.
        targets: Names, in order.

    Returns:
        One row a size and target with `axis`, `target`, `side_by_side`, `trials`, `each_s` (typical seconds of one
        configuration, others beside it) and `per_hour`, `per_hour_low`, `per_hour_high` (typical, of the slowest and of
        the fastest trial).
    """
    ok = frame[frame["status"].eq("ok") & frame["target"].isin(list(targets))]
    ok = ok.assign(each_s=[float(times[0]) for times in ok["step_times_s"]], at_once=trainings_at_once(ok))
    rows = []
    for size in np.sort(ok[axis].unique()):
        for target in targets:
            own = ok[ok[axis].eq(size) & ok["target"].eq(target)]
            if own.empty:
                continue
            per_hour = S_PER_HOUR * own["at_once"] / own["each_s"]
            rows.append(
                {
                    axis: size,
                    "target": target,
                    "side_by_side": int(own["at_once"].max()),
                    "trials": len(own),
                    "each_s": math.exp(np.log(own["each_s"]).mean()),
                    "per_hour": math.exp(np.log(per_hour).mean()),
                    "per_hour_low": per_hour.min(),
                    "per_hour_high": per_hour.max(),
                }
            )
    columns = [axis, "target", "side_by_side", "trials", "each_s", "per_hour", "per_hour_low", "per_hour_high"]
    return pd.DataFrame(rows, columns=columns)


def epochs_words(frame: pd.DataFrame, goal: float) -> str:
    """Say how many epochs trainings needed: "3", "3 to 5", "3, not within 10 in 1 of 4 trials", "more than 10".

    Args:
        frame: Trials of one target and size, with what `descents` needs.
        goal: The loss.

    Returns:
        The words; empty where nothing was trained as a whole.
    """
    trained = [descent for descent in descents(frame) if descent is not None]
    if not trained:
        return ""
    needed = sorted(epochs for descent in trained if (epochs := descent.epochs_to(goal)))
    most = max(len(descent.losses) for descent in trained)
    if not needed:
        lowest = min((loss for each in trained for loss in each.losses if math.isfinite(loss)), default=math.nan)
        seen = f"lowest {lowest:.3g}" if math.isfinite(lowest) else "the loss is no number"
        return f"more than {most} ({seen})"
    text = listed(dict.fromkeys(map(str, needed))) if len(set(needed)) <= 2 else f"{needed[0]} to {needed[-1]}"
    missed = len(trained) - len(needed)
    return text + (f"; not within {most} in {missed} of {len(trained)} trials" if missed else "")


@dataclass(frozen=True, kw_only=True)
class Curves:
    """The chart of losses against seconds: what it shows.

    Attributes:
        title: The sentence above it.
        slug: Part of its file name.
        goal: The loss that was asked for.
        descents: The whole trainings of each target, at one size.
    """

    title: str
    slug: str
    goal: float
    descents: Mapping[str, tuple[Descent, ...]]


def _loss(value: Any) -> float:
    return math.nan if value is None else float(value)


def _column(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    return frame[name] if name in frame else pd.Series(None, index=frame.index, dtype=object)
