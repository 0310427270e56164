"""The check itself, stage by stage, the dearest knowledge first. It begins nothing when its time is up."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from runner import process
from runner.check.apart import calibrate_apart
from runner.check.expectations import expectations
from runner.check.findings import COLD_STAGES, final_rows, find
from runner.check.log import Log
from runner.check.notes import NOTES, Notes
from runner.check.page import PAGE, Page, compare, machine_in_words, words_of
from runner.check.plan import COLD_STUDY, Question, questions
from runner.check.traces import traces
from runner.check.units import shown
from runner.claim import LOCK
from runner.devices.probe import Probe
from runner.environment import code_version, machine, usable_cores
from runner.local import Local
from runner.run import open_trials, run
from runner.store import Store
from sweeps.errors import StudyError
from sweeps.folder import Folder
from sweeps.ladder import COLD
from sweeps.study import SWEEP, read_records, reason
from sweeps.trial import Trial

#: A calibration takes about ten seconds; where it takes longer, what it has told by then has to do.
CALIBRATION_S = 60.0
#: Where a context takes longer, taking steps apart costs more time than there is.
SLOW_CONTEXT_S = 1.5
#: What is noted of a calibration that told everything.
WHOLE = "whole"
#: Packages that add to the rows where they are there.
WELCOME = ("pynvml", "psutil", "cpuinfo")


def check(device: str, probed: Probe, folder: Path, *, begun: float, until: float) -> int:
    """Check a device.

    Args:
        device: `gpu` or `cpu`.
        probed: What this machine has.
        folder: Where studies, page and log go.
        begun: Moment of `time.monotonic` from which seconds are counted.
        until: Moment after which nothing more is begun.

    Returns:
        0, or 3 if a promise does not hold or something was not run.

    Raises:
        StudyError: The folder cannot be written, or holds something else.
    """
    asked = questions(device)
    try:
        _refuse_other(folder, asked)
        folder.mkdir(parents=True, exist_ok=True)
        notes = Notes(folder)
        log = Log(folder, begun)
    except OSError as error:
        raise StudyError(f"--out {folder}: cannot be written: {reason(error)}; choose another --out") from None
    checking = _Check(device, probed, folder, asked, notes, log, until)
    try:
        return checking.run()
    finally:
        checking.close()


def _refuse_other(folder: Path, asked: list[Question]) -> None:
    """Raise StudyError if something else is there, or studies of another check: of another device or version."""
    if folder.exists() and any(folder.iterdir()) and not (folder / NOTES).is_file():
        raise StudyError(f"--out {folder}: is not empty, and no check has made it; choose another --out")
    for question in asked:
        written = folder / question.name / SWEEP
        if written.is_file() and written.read_bytes() != question.dump().encode():
            raise StudyError(f"--out {written.parent}: another check has made this study; choose another --out")


class _Check:
    """One check: what it asks, where it writes, and how far it has come."""

    def __init__(
        self, device: str, probed: Probe, folder: Path, asked: list[Question], notes: Notes, log: Log, until: float
    ) -> None:
        self._device, self._probed, self._folder, self._questions = device, probed, folder, asked
        self._notes, self._log, self._until = notes, log, until
        self._executor = Local(accelerators=probed.count if device == "gpu" else 0, source=None)
        self._stores = {question.name: Store(folder / question.name, question, pause_s=0.0) for question in asked}
        self._code_version = code_version(None)
        for store in self._stores.values():
            for warning in store.warnings:
                log.say(f"Warning: {warning}")
        self._cold = next(question for question in asked if question.name == COLD_STUDY)
        self._left_out = ""
        """Why steps were not taken apart; empty if they are."""

    def close(self) -> None:
        """End the nursery, and leave nothing that only a running check needs."""
        self._executor.close()
        self._log.close()
        for name, store in self._stores.items():
            store.close()
            Folder.at(self._folder / name).remove(LOCK)

    def run(self) -> int:
        """Go through the stages, write the page after each, and say at the end what it says."""
        stages: list[tuple[str, Callable[[], None]]] = [
            ("cold starts", self._start_cold),
            ("calibration", self._calibrate),
            ("pass 1", partial(self._pass, 0)),
            ("steps taken apart", self._take_apart),
            *((f"pass {index + 1}", partial(self._pass, index)) for index in range(1, self._questions[0].passes)),
        ]
        self._introduce()
        try:
            for name, stage in stages:
                if self._is_late:
                    break
                self._log.say(f"--- {name}")
                stage()
                self._look_at_nursery()
                self._page("The check is still running.").write(self._folder)
        except KeyboardInterrupt:
            self._page("Stopped by hand; the same command measures the rest.").write(self._folder)
            raise
        return self._conclude()

    @property
    def _is_late(self) -> bool:
        return time.monotonic() >= self._until

    def _introduce(self) -> None:
        """Say and note who is measured."""
        who = {
            "gpu": self._probed.name if self._device == "gpu" else None,
            **machine(),
            "cores_usable": usable_cores(),
        }
        if who != self._notes.last("machine"):
            self._notes.add("machine", who)  # what was noted before is of another machine, or of other versions
        what = self._probed.name if self._device == "gpu" else f"a rehearsal without a GPU ({self._probed.cause})"
        self._log.say(f"gpu-check: {what or self._probed.cause}")
        self._log.say(machine_in_words(who))
        if absent := [name for name in WELCOME if not find_spec(name)]:
            self._log.say(f"not installed, so some columns of the rows will be null: {', '.join(absent)}")
        self._log.say(f"nothing is begun after {self._until - self._log.begun:.0f} s; results: {self._folder}")

    def _start_cold(self) -> None:
        self._ask(self._cold, self._cold.cold_starts())

    def _calibrate(self) -> None:
        if self._is_calibrated:
            self._log.say("measured by an earlier run of this command")
            return

        def tell(name: str, value: Any) -> None:
            self._notes.add(name, value)
            if name == "measured":
                self._log.say(_in_words(value))

        limit_s = min(CALIBRATION_S, max(1.0, self._until - time.monotonic()))
        why = calibrate_apart(self._device, limit_s, tell)
        self._notes.add("calibrated", why or WHOLE)
        if why:
            self._log.say(f"the calibration is not whole: {why}")

    def _pass(self, index: int) -> None:
        for question in self._questions:
            self._ask(question, question.pairs(index))

    def _take_apart(self) -> None:
        context_s = self._context_s()
        if context_s > SLOW_CONTEXT_S:
            self._left_out = f"Steps were not taken apart, as a context takes {shown(context_s, 's')}."
            self._log.say(self._left_out)
            return
        for question in self._questions:
            self._ask(question, question.ladder())

    def _context_s(self) -> float:
        rows = [row for row in self._rows()[self._cold.name] if row["rung"] == COLD]
        known = [row[COLD_STAGES["context"]] for row in rows if row[COLD_STAGES["context"]] is not None]
        return statistics.median(known) if known else 0.0

    def _ask(self, question: Question, pairs: list[list[Trial]]) -> None:
        """Run what of these trials has no answer yet."""
        store = self._stores[question.name]
        todo = open_trials(pairs, store)
        if not todo or self._is_late:
            return
        run(
            pairs,
            todo,
            store,
            self._executor,
            self._log,
            axis="batch_size",
            by_target=False,
            code_version=self._code_version,
            absence=self._probed.cause,
            until=self._until,
            repeats=self._device == "gpu",  # a rehearsal only has to show that there are times
        )

    def _look_at_nursery(self) -> None:
        """Note what the process that forks trials has open and loaded by now."""
        for number in process.nurseries():
            self._notes.add("nursery", traces(number))

    def _rows(self) -> dict[str, list[Any]]:
        read = {question.name: read_records(self._folder / question.name)[0] for question in self._questions}
        return {name: final_rows(rows.to_pylist()) for name, rows in read.items()}

    def _page(self, ended: str) -> Page:
        rows = self._rows()
        calibration = self._notes.since("measured", "machine")
        signs = {name: self._notes.last(name) for name in ("nursery", "imported", "used")}
        found = find(self._questions, rows, calibration, signs)
        gpu = self._probed.name if self._device == "gpu" else None
        return Page(
            title=f"gpu-check: {gpu or 'a rehearsal on the CPU'}",
            machine=self._notes.last("machine"),
            ended=ended,
            lines=compare(expectations(self._device, gpu), found),
            calibration=calibration,
            questions=self._questions,
            rows=rows,
            found=found,
        )

    def _conclude(self) -> int:
        """Write the page, say what it says, and return the exit code."""
        missing = self._not_run()
        if missing:
            how = "Stopped early, as the time was up" if self._is_late else "Not everything could be measured"
            ended = f"{how}: {', '.join(missing)}. The same command measures the rest."
        elif self._is_late:
            ended = "All that the check is about was measured; the time was up before every further pass was done."
        else:
            ended = "Everything was measured."
        page = self._page(f"{ended} {self._left_out}".strip())
        page.write(self._folder)
        self._log.say("--- what was found")
        for line in page.in_words():
            self._log.say(line)
        self._log.say(page.ended)
        self._log.say(f"page: {self._folder / PAGE}")
        return 3 if missing or page.broken else 0

    def _not_run(self) -> list[str]:
        """Return which parts of what the check is about have not been run, in words."""
        parts: dict[str, Callable[[Question], list[list[Trial]]]] = {
            "cold starts": lambda q: q.cold_starts() if q is self._cold else [],
            "whole steps": lambda q: q.pairs(0),
            "steps taken apart": lambda q: [] if self._left_out else q.ladder(),
        }
        told = []
        for what, plan in parts.items():
            asked = [(q, trial) for q in self._questions for pair in plan(q) for trial in pair]
            if open_ := sum(not self._stores[q.name].final(trial.trial_id)[0] for q, trial in asked):
                told.append(f"{open_} of {len(asked)} {what} were not run")
        if not self._is_calibrated:
            told.append("the calibration is not whole")
        return told

    @property
    def _is_calibrated(self) -> bool:
        return WHOLE in self._notes.since("calibrated", "machine")


def _in_words(measured: Mapping[str, Any]) -> str:
    """Return a figure of the calibration as a line of the log."""
    size, found = words_of(measured)
    return " ".join(each for each in (f"{measured['name']}:", f"{size}," if size else "", found) if each)
