"""What a start is made of, when it is paid back, and who wins from a cold start."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.blocks.block import Block
from analysis.breakeven import break_even, break_even_words, cold_and_warm, count_steps
from analysis.conclusion import Group, concluding
from analysis.load import Study
from analysis.rounding import NOTHING, number, seconds
from analysis.starts import TIMED_WHERE, stages, start_rows, start_words
from sweeps.definition import Sweep

ENDS = ("", "_low", "_high")


def _repaid_steps(value: float, toward: int) -> str:
    return "at once" if value == 0 else count_steps(value, toward)


def _repaid_s(value: float, _toward: int) -> str:
    return "at once" if value == 0 else seconds(value)


def _repaid_epochs(value: float, _toward: int) -> str:
    return "at once" if value == 0 else number(float(f"{value:.3g}"))


def _longer(value: float, _toward: int) -> str:
    return "none" if value <= 0 else seconds(value)


#: The units in which a start is repaid, and how a number of them is told.
REPAID: Mapping[str, Callable[[float, int], str]] = {
    "steps": _repaid_steps,
    "s": _repaid_s,
    "epochs": _repaid_epochs,
}


def start(group: Group, study: Study) -> Iterator[Block]:
    """Say after how many steps who starts later has paid that back, and who wins from a cold start and once warm."""
    sweep = study.sweep
    repaid = _repaid(group, study)
    if repaid is not None:
        table, asked = repaid
        yield _repaid_block(table, axis=sweep.axis, asked=asked)
    known = group.frame.loc[group.frame["first_step_s"].notna() & group.frame["status"].eq("ok"), "target"]
    if {sweep.baseline, sweep.challenger} <= {*known}:
        told = cold_and_warm(group.frame, topic=group.topic, drift=study.drift, concluding=concluding(sweep)).iloc[0]
        yield Block(
            heading="From a cold start, and once warm",
            sentences=(
                f"First step, from the beginning of a trial: {told['cold_sentence']}",
                f"Once warm: {told['warm_sentence']}",
            ),
        )


def _is_mixed(sweep: Sweep) -> bool:
    """Whether a CPU is compared with an accelerator."""
    return sweep.target(sweep.baseline).needs_accelerator != sweep.target(sweep.challenger).needs_accelerator


def _repaid(group: Group, study: Study) -> tuple[pd.DataFrame, dict[str, str]] | None:
    """Return what `break_even` says of the target that starts later, and who is who in that.

    An accelerator is taken to start later than a CPU. Of two others one has to, decidedly: its longer start is beyond
    the noise at most of the sizes where it is faster once warm.
    """
    sweep = study.sweep
    rivals = (sweep.baseline, sweep.challenger)
    if any(sweep.target(name).side_by_side != 1 for name in rivals):
        return None  # several start in the time of one
    host_first = sorted(rivals, key=lambda name: sweep.target(name).needs_accelerator)
    for first, later in [host_first] if _is_mixed(sweep) else [rivals, rivals[::-1]]:
        asked = {"baseline": first, "challenger": later}
        table = break_even(group.frame, axis=sweep.axis, drift=study.drift, **asked)
        known = table[table["extra_s"].notna()]
        if len(known) and (_is_mixed(sweep) or known["extra_low_s"].median() > 0):
            return table, asked
    return None


def _repaid_block(table: pd.DataFrame, *, axis: str, asked: Mapping[str, str]) -> Block:
    known = table[table["extra_s"].notna()]
    start = "longer start" if known["prepared"].all() else "longer warm-up"
    return Block(
        heading=f"When {asked['challenger']} has paid back its start",
        sentences=(break_even_words(table, axis=axis, **asked),),
        header=(axis, start, "repaid after so many steps", "that is, since both began", "epochs"),
        rows=tuple(
            (
                number(float(row[axis])),
                _with_ends(row, ("extra_s", "extra_low_s", "extra_high_s"), _longer),
                *(
                    _with_ends(row, tuple(f"repaid_{unit}{end}" for end in ENDS), words)
                    for unit, words in REPAID.items()
                ),
            )
            for row in known.to_dict("records")
        ),
    )


def start_parts(study: Study) -> Iterator[Block]:
    """Tell what a start is made of on each target."""
    sweep = study.sweep
    rows = pd.concat([study.frame, study.rungs], ignore_index=True) if len(study.rungs) else study.frame
    if rows["cold_context_s"].isna().all():
        return
    found = stages(rows, axis=sweep.axis, targets=[target.name for target in sweep.targets if target.wait])
    sized = found["size"].dropna()
    where = f" at {sweep.axis} {number(float(sized.min()))}, where a start weighs most" if len(sized) else ""
    yield Block(
        heading="What a start is made of",
        sentences=tuple(start_words(found, sweep.axis)),
        header=("target", "stage", "median", "range over trials", "first trial, if apart", "trials"),
        rows=start_rows(found),
        notes=(
            TIMED_WHERE,
            f"The rest is what it was{where}. Compiling is part of the first step, recording of the first few.",
        ),
    )


def _with_ends(row: Mapping[Any, Any], names: Sequence[str], words: Callable[[float, int], str]) -> str:
    """Return a value with its interval as a cell of a table, rounded as in the sentence above it."""
    value, low, high = (float(row[name]) for name in names)
    if not math.isfinite(value):
        return NOTHING
    told, ends = words(value, 1), [words(low, -1), words(high, 1)]
    is_open = not (math.isfinite(low) and math.isfinite(high))
    return told if is_open or {told} == set(ends) else f"{told} ({' to '.join(ends)})"
