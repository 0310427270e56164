"""From a study folder to one value with everything a report needs: the sweep, its rows, and what to doubt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis import recorded
from analysis.recorded import ORIGIN
from analysis.rounding import shown, times
from analysis.unwaited import doubts_of, never_waited
from sweeps.axis import Span, values_of
from sweeps.definition import Sweep
from sweeps.errors import StudyError, printable
from sweeps.folder import Folder
from sweeps.ladder import HEADLINE, UNWAITED
from sweeps.parameter import Value
from sweeps.record import COLUMNS, CONTENDED, first_line
from sweeps.study import read_records, read_sweep

#: The column that tells kinds of machine apart; it is made here and only where there is more than one.
MACHINE = "machine"
#: The column of a row's own kind of machine; no parameter can have a name with spaces.
KIND = "kind of machine"
#: What a row can have been measured with; where rows differ in it, it is a part of the kind of machine.
VERSIONS = {"torch": "torch", "code_version": "measuring code"}
#: A sweep this short has seen only one state of the machine: its passes share a drift that they cannot show.
SHORT_RUN = timedelta(minutes=10)
SHORT_RUN_DRIFT = 0.02
#: Trials of a pair that follow one another with a longer pause were not measured back to back.
BACK_TO_BACK = timedelta(seconds=30)
#: Ten ticks of a microsecond: blocks are timed, and a step is a part of one.
SHORTEST_BLOCK_S = 1e-5
#: Trials of one target and size that differ by more than this factor were not measured under the same conditions.
UNSTEADY = 2.0

#: What a status means, for people.
STATUS_WORDS = {
    "ok": "finished",
    "oom": "out of memory",
    "timeout": "hit the deadline",
    "error": "error",
    "crashed": "process died",
    "invalid": "did not run as asked",
    "node_lost": "machine lost",
    "unavailable": "not available",
    "skipped_larger": "skipped after a smaller size failed",
}


#: Where more than this share of the trials was disturbed, the conclusion is doubtful.
MOSTLY = 0.5


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study, read.

    Attributes:
        folder: Where it lies.
        sweep: What was asked.
        records: Every row, one an attempt of a trial.
        frame: One row a trial of the whole step: that of its highest attempt. Every verdict comes from these.
        rungs: One row a trial of the ladder of causes, likewise.
        unwaited: One row a trial of a target that was timed without waiting for the device, likewise.
        warnings: What a reader should know before believing the numbers, a sentence each.
        group_by: Columns of `frame` that are never averaged over: the other axes, and `machine` where the
            rows come from more than one kind.
        drift: Allowance for drift that all sizes share, as `analysis.crossovers` takes it; None is its default.
    """

    folder: Folder
    sweep: Sweep
    records: pd.DataFrame
    frame: pd.DataFrame
    rungs: pd.DataFrame
    unwaited: pd.DataFrame
    warnings: tuple[str, ...]
    group_by: tuple[str, ...]
    drift: float | None

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.folder.name

    @property
    def planned(self) -> int:
        """How many trials the sweep plans, those of the ladder left out; of a search, those it had."""
        return self.sweep.size if self.sweep.strategy == "grid" else len(self.answered)

    @property
    def answered(self) -> pd.DataFrame:
        """One row a planned trial that has been run: `frame` and `unwaited`."""
        return pd.concat([self.frame, self.unwaited], ignore_index=True) if len(self.unwaited) else self.frame

    @property
    def by_status(self) -> Mapping[str, int]:
        """How many planned trials ended how, the most frequent first."""
        return {str(status): int(count) for status, count in self.answered["status"].value_counts().items()}

    @property
    def compared(self) -> pd.DataFrame:
        """The rows that a conclusion may use: where machines are told apart, those whose machine is known."""
        return self.frame.dropna(subset=[MACHINE]) if MACHINE in self.frame else self.frame

    def absences(self, frame: pd.DataFrame, rivals: Sequence[str]) -> dict[str, str]:
        """Return why none of these rows is a finished trial, for each of some targets for which none is."""
        rows = {name: frame[frame["target"] == name] for name in rivals}
        return {name: _why(own) for name, own in rows.items() if not (own["status"] == "ok").any()}


def load(place: Folder | Path | str) -> Study:
    """Read a study.

    Args:
        place: A folder that `python sweep.py` made, on this machine or in an object store. An unfinished sweep is read
            as far as it got.

    Raises:
        StudyError: There is no such folder, it holds no study, or no trial has been recorded yet.
    """
    folder = Folder.at(place)
    sweep = read_sweep(folder)
    table, warnings = read_records(folder)
    if table.num_rows == 0:
        more = f" ({'; '.join(warnings)})" if warnings else ""
        raise StudyError(f"{folder}: no trial has been recorded yet; run the sweep first{more}")
    records = _without_controls(table).to_pandas()
    for column in sorted(COLUMNS - {"parameters", *records.columns}):  # an older file knew less
        records[column] = None
    if lacking := [name for name in sweep.axes if name not in records]:
        raise StudyError(f"{folder}: its rows have no column {lacking[0]}, which is an axis of its sweep.yaml")
    final = (
        records.sort_values("attempt", kind="stable", na_position="first")
        .drop_duplicates("trial_id", keep="last")
        .reset_index(drop=True)
    )
    final["rung"] = final["rung"].fillna(HEADLINE)
    final[ORIGIN] = final[ORIGIN].fillna("").astype(object)
    final = with_resolution(final)
    final[KIND] = kinds_of_machine(final)
    hosts = [target.name for target in sweep.targets if not target.needs_accelerator]
    whole = final[final["rung"] == HEADLINE]
    for name, doubt in never_waited(whole, axis=sweep.axis, per=list(sweep.axes), hosts=hosts).items():
        # Their own evidence is against them, which is what the runner calls invalid where it finds out itself.
        own = final["target"].eq(name) & final["status"].eq("ok") & final["rung"].ne(UNWAITED)
        final.loc[own, ["status", "error_type", "error_message"]] = ["invalid", "Unbelievable", doubt]
    frame = _with_machine(final[final["rung"] == HEADLINE].reset_index(drop=True), sweep)
    if frame.empty:
        raise StudyError(f"{folder}: no trial of a whole step has been recorded yet; run the sweep first")
    unwaited = final[final["rung"] == UNWAITED].reset_index(drop=True)
    rungs = final[~final["rung"].isin([HEADLINE, UNWAITED])].reset_index(drop=True)
    others = [name for name, axis in sweep.axes.items() if name != sweep.axis and len(values_of(axis)) > 1]
    return Study(
        folder=folder,
        sweep=sweep,
        records=records,
        frame=frame,
        rungs=_beside(rungs, frame),
        unwaited=unwaited,
        warnings=(*warnings, *_doubts(final, frame, sweep), *doubts_of(unwaited, frame, sweep)),
        group_by=(*others, MACHINE) if MACHINE in frame else tuple(others),
        # What is measured near a change is measured within minutes, however long the whole search took.
        drift=SHORT_RUN_DRIFT if sweep.strategy == "adaptive" or _lasted(frame) < SHORT_RUN else None,
    )


def with_resolution(rows: pd.DataFrame) -> pd.DataFrame:
    """Add `resolution_s`, the seconds per step below which the clock of a row tells no time."""
    return rows.assign(resolution_s=SHORTEST_BLOCK_S / rows["steps_per_block"].astype("float64"))


def _without_controls(table: pa.Table) -> pa.Table:
    """Return the rows without characters that a terminal or a page would obey; a machine can have any name."""
    for place, each in enumerate(table.schema):
        if pa.types.is_string(each.type):
            column = table.column(place)
            ends = "\n" if each.name == "error_message" else " "
            texts = (text for text in pc.unique(column).to_pylist() if text is not None)
            kept = {text: printable(text).replace("\n", ends) for text in texts}
            if any(text != cleaned for text, cleaned in kept.items()):
                cleaned = pa.array([None if text is None else kept[text] for text in column.to_pylist()], pa.string())
                table = table.set_column(place, each, cleaned)
    return table


def kinds_of_machine(frame: pd.DataFrame) -> pd.Series[str]:
    """Return, for each row, the kind of machine it ran on; null where the row does not say.

    A CPU trial cannot see the GPU of its own node, so the accelerator is taken from whichever trial on the
    same machine has seen it. Versions of what measured belong to it where the rows come from several; rows that were
    taken over from another study are compared with others whatever their versions, and the reader is told.
    """
    place = frame["host"].astype("string")
    gpu = frame["gpu_name"].astype("string")
    seen = gpu.groupby(place).transform("first")
    cores = frame["cores_usable"].astype("Int64").astype("string")
    text = frame["cpu_model"].astype("string") + ", " + cores + " cores" + (", " + gpu.fillna(seen)).fillna("")
    for column, what in VERSIONS.items():
        versions = frame[column].astype("string")
        if _several(frame, column):
            text += (", " + what + " " + versions).fillna("")
    return text.astype(object).where(text.notna(), None)


def _several(frame: pd.DataFrame, column: str) -> bool:
    """Whether rows that were measured for one study have more than one value."""
    origins = frame[ORIGIN].fillna("") if ORIGIN in frame else pd.Series("", index=frame.index)
    return bool(frame[column].groupby(origins).nunique().gt(1).any())


def _with_machine(frame: pd.DataFrame, sweep: Sweep) -> pd.DataFrame:
    """Add the column `machine` where one target's trials ran on more than one kind."""
    kinds = frame[KIND]
    ok = frame["status"].eq("ok") & kinds.notna()
    rivals = (sweep.baseline, sweep.challenger)
    if all(kinds[ok & frame["target"].eq(name)].nunique() <= 1 for name in rivals):
        return frame
    known = frame[kinds.notna() & frame["target"].isin(rivals)]
    sides = known.pivot_table(index="pair_id", columns="target", values=KIND, aggfunc="first")
    # Columns in the order baseline, challenger, so that the label of two machines reads like the question.
    sides = sides.reindex(columns=list(rivals))
    if sweep.pairing == "same_node":  # a failed trial that says no machine was where its partner was
        sides = sides.ffill(axis=1).bfill(axis=1)
    else:
        sides = sides.apply(lambda side: side.fillna(side.dropna().iloc[0]) if side.nunique() == 1 else side)
    labels = sides.apply(lambda row: " against ".join(row.dropna().unique()), axis=1)
    return frame.assign(**{MACHINE: frame["pair_id"].map(labels)})


def _beside(rungs: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """Add the column `machine` where `frame` has it: null where the whole step ran on another kind."""
    if MACHINE not in frame:
        return rungs
    whole = frame.drop_duplicates(["pair_id", "target"])[["pair_id", "target", KIND, MACHINE]]
    found = rungs.merge(whole, "left", ["pair_id", "target"], suffixes=("", "_"))
    return found.assign(**{MACHINE: found[MACHINE].where(found[KIND] == found[f"{KIND}_"])}).drop(columns=f"{KIND}_")


def _lasted(frame: pd.DataFrame) -> timedelta:
    if frame["started_at"].isna().all() or frame["finished_at"].isna().all():
        return timedelta(0)
    spans = frame.groupby(ORIGIN)  # of rows that were taken over, their own
    shortest = (spans["finished_at"].max() - spans["started_at"].min()).min()
    return timedelta(0) if pd.isna(shortest) else shortest.to_pytimedelta()


def _doubts(final: pd.DataFrame, frame: pd.DataFrame, sweep: Sweep) -> list[str]:
    """Return what makes rows of one study hard to compare, a sentence each.

    Args:
        final: One row a trial, whichever part of the work it timed.
        frame: Those of them that timed the whole step.
        sweep: What was asked.
    """
    doubts = []
    for column, what in VERSIONS.items():
        counts = final[column].dropna().value_counts()
        if _several(final, column):
            shown = ", ".join(f"{value}: {count} trials" for value, count in counts.items())
            apart = "each is judged by itself" if MACHINE in frame else "they may not be comparable"
            doubts.append(f"the rows come from {len(counts)} versions of {what} ({shown}); {apart}")
    ok = frame[frame["status"].eq("ok") & frame["target"].isin([sweep.baseline, sweep.challenger])]
    disturbed = int(ok["interference"].eq(CONTENDED).sum())
    if sweep.strategy != "largest" and disturbed > MOSTLY * len(ok):
        doubts.append(
            f"{disturbed} of {len(ok)} trials were disturbed by something else on their cores, so that times and "
            "verdict may be about that: measure again when the machine is quiet"
        )
    if MACHINE in frame:
        kinds = frame[KIND].dropna().unique()
        doubts.append(
            f"the trials ran on {len(kinds)} kinds of machine ({'; '.join(sorted(kinds))}); "
            "each is judged by itself, and trials that say no machine are left out"
        )
    elif frame["host"].nunique() > 1 and sweep.pairing == "by_target" and not recorded.has_recorded(frame):
        doubts.append(
            "the two targets were not measured back to back on one machine (pairing: by_target), so differences "
            "between the machines are part of the answer"
        )
    doubts += recorded.doubts_of(final, VERSIONS)
    if sweep.strategy != "largest":  # which compares no targets, and no times
        doubts += _apart(final[final["rung"].isin([HEADLINE, UNWAITED])], sweep)
        doubts += _unsteady(frame, sweep)
        doubts += _unknown_losses(frame, sweep)
    doubts += _other_work(frame)
    unasked = ~final["target"].isin([target.name for target in sweep.targets])
    for name in sweep.axes:
        unasked |= ~(_is_on_axis(final[name], sweep) | final[name].isna())
    for name, value in sweep.parameters.items():
        if name in final:  # whole numbers and others are one number
            kept = str(value).lower() if isinstance(value, bool) else value
            unasked |= ~(final[name].eq(kept) | final[name].isna())
    if unasked.any():
        doubts.append(f"{int(unasked.sum())} trials are in the folder that its sweep.yaml does not ask for")
    return doubts


def _is_on_axis(values: pd.Series[Any], sweep: Sweep) -> pd.Series[bool]:
    axis = sweep.axes[str(values.name)]
    return (
        values.map(axis.holds).astype(bool)
        if isinstance(axis, Span)
        else values.isin(stored_values(sweep, str(values.name)))
    )


def stored_values(sweep: Sweep, axis: str) -> list[Value]:
    """Return the values of an axis as rows hold them, in the order of the sweep; of a span, its two ends."""
    stored = [str(value).lower() if isinstance(value, bool) else value for value in values_of(sweep.axes[axis])]
    if any(isinstance(value, str) for value in stored):  # then the whole column is text
        return [str(value) for value in stored]
    return list(stored)


def _unknown_losses(frame: pd.DataFrame, sweep: Sweep) -> list[str]:
    """Return a doubt where nobody could look whether the targets do the same work."""
    own = frame[frame["status"].eq("ok") & frame["target"].isin([sweep.baseline, sweep.challenger])]
    unknown = sum("loss_step_1" in dict(reasons) for reasons in own["null_reasons"] if reasons is not None)
    if not unknown:
        return []
    doubt = f"the steps of {unknown} trials return no loss, so whether the targets do the same work was not looked at"
    return [doubt]


def _apart(frame: pd.DataFrame, sweep: Sweep) -> list[str]:
    """Return a doubt where the trials of a pair did not follow one another, as they were to."""
    if sweep.pairing != "same_node":
        return []
    timed = frame[frame["status"].eq("ok") & frame[ORIGIN].eq("")]
    timed = timed.dropna(subset=["started_at", "finished_at"]).sort_values("started_at")
    pause = timed["started_at"] - timed.groupby("pair_id")["finished_at"].shift()
    apart = timed.loc[pause > BACK_TO_BACK, "pair_id"].nunique()
    if not apart:
        return []
    doubt = (
        f"{apart} of {timed['pair_id'].nunique()} pairs were not measured back to back (a run was interrupted, a "
        "target was added later, or a disturbed trial was repeated), so drift of the machine counts in their ratios"
    )
    return [doubt]


def _unsteady(frame: pd.DataFrame, sweep: Sweep) -> list[str]:
    """Return a doubt where trials that should take the same time do not."""
    ok = frame[frame["status"].eq("ok") & frame["target"].isin([sweep.baseline, sweep.challenger])]
    ok = ok.dropna(subset=["step_times_s"])
    alike = ["target", *sweep.axes, *([MACHINE] if MACHINE in frame else [])]
    medians = ok.assign(median_s=[np.median(taken) if len(taken) else math.nan for taken in ok["step_times_s"]])
    spread = medians.groupby(alike, dropna=False)["median_s"].agg(
        lambda times_s: times_s.max() / (times_s.min() or math.nan)
    )
    if not (spread > UNSTEADY).any():
        return []
    where = spread.reset_index().dropna(subset=["median_s"]).sort_values("median_s").iloc[-1]
    doubt = (
        f"trials of the same target and size differ by up to {times(where['median_s'])} ({where['target']} at "
        f"{sweep.axis} {shown(where[sweep.axis])}): something else used the machine, or it was unsteady; "
        "measure again when it is quiet"
    )
    return [doubt]


def _other_work(frame: pd.DataFrame) -> list[str]:
    """Return a doubt for each kind of trial that was measured, but did not do what was asked."""
    invalid = frame[frame["status"] == "invalid"]
    invalid = invalid.assign(cause=invalid["error_message"].map(first_line))
    return [
        (f"1 trial of {target} is" if len(rows) == 1 else f"{len(rows)} trials of {target} are")
        + " invalid and left out of every comparison"
        + (f": {rows['cause'].iloc[0]}" if rows["cause"].iloc[0] else "")
        for target, rows in invalid.groupby("target", observed=True)
    ]


def _why(rows: pd.DataFrame) -> str:
    """Say why none of these trials finished, the most frequent cause first."""
    if rows.empty:
        return "none has been run yet"
    causes = []
    for key, own in rows.assign(cause=rows["error_message"].map(first_line)).groupby(["status", "cause"]):
        status, message = map(str, key)
        hosts = sorted(set(own["host"].dropna()))
        place = f" on {', '.join(hosts[:3])}" if hosts and not any(host in message for host in hosts) else ""
        causes.append((-len(own), f"{message or STATUS_WORDS.get(status, status)}{place}"))
    return "; ".join(text for _, text in sorted(causes)[:2])
