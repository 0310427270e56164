"""Several trainings at once in one trial, each in a process of its own, as when many small configurations are tried.

The process of the trial forks the others before anything is made, and is one of them itself. All do the same; they
meet when they are warm, and go on working until the last of them has been timed, so that every timed block has the
others beside it; whole trainings begin together likewise. What becomes of one becomes of the trial: its failure is the
row, and if it dies the trial's process dies in the same way, so that whoever waits for that one learns the cause.

Nothing outlives the trial: the kernel ends the others when its process dies, and they are of its process group.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, NoReturn

from runner.nursery import die_with

#: Where trainings wait for each other, in this order; whoever trains nothing as a whole ends after the second.
STAGES = ("warm", "timed", "ready", "trained")
#: Between two looks at the others, for somebody who has nothing else to do.
PAUSE_S = 0.001
#: Columns that are those of a typical one of the trainings, of all of them together, and of the worst.
TYPICAL = (
    *("process_start_s", "prepare_s", "first_step_s", "warmup_s", "mode_s"),
    *("cold_context_s", "cold_first_kernel_s", "cold_first_matmul_s", "cold_first_conv_s"),
)
SUMMED = ("memory_at_start_bytes", "peak_memory_bytes")
WORST = ("run_delay_share", "throttled_s", "steal_share")
#: Verdicts on whether somebody else used the cores, the worst last.
INTERFERENCE = ("clean", "unknown", "suspect", "contended")


class _Left(Exception):
    """One of the others has ended before its time."""


class _Other:
    """One of the other trainings, as the trial's own process sees it."""

    def __init__(self, process_id: int, file: BinaryIO) -> None:
        self.process_id = process_id
        self.status: int | None = None
        self._file = file

    def has_ended(self, *, wait: bool = False) -> bool:
        """Whether it has ended, and with `wait` not before it has."""
        if self.status is None:
            found, status = os.waitpid(self.process_id, 0 if wait else os.WNOHANG)
            self.status = status if found else None
        return self.status is not None

    def end(self) -> None:
        """End it, and collect it, so that its CPU time counts."""
        if not self.has_ended():
            os.kill(self.process_id, signal.SIGKILL)
            self.has_ended(wait=True)

    def answer(self) -> dict[str, Any] | None:
        """Return its answer; None where it ended without."""
        self._file.seek(0)
        text = self._file.read().decode()
        return json.loads(text) if text and self.status == 0 else None


class Company:
    """The trainings of one trial, as one of them sees them: how many they are, and how far each is."""

    def __init__(
        self, reached: mmap.mmap | None = None, place: int = 0, others: Sequence[tuple[int, _Other]] = ()
    ) -> None:
        """Join, or be alone.

        Args:
            reached: A byte for each training, in memory that they share: the number of the last stage it has reached.
            place: Which of them is one's own.
            others: Those that this process has to look after, with their places.
        """
        self._reached = reached or mmap.mmap(-1, 1)
        self._place = place
        self._others = others
        self.left: _Other | None = None

    @property
    def size(self) -> int:
        """How many trainings run at once."""
        return len(self._reached)

    def meet(self, stage: str, meanwhile: Callable[[], object] | None = None) -> None:
        """Wait until all have come as far. Whoever has been there before does not wait again.

        Args:
            stage: One of `STAGES`.
            meanwhile: Called again and again while others are still on their way; nothing leaves the core to them.

        Raises:
            _Left: One of them will not come any more. Only the trial's own process is told; it then ends the others.
        """
        number = STAGES.index(stage) + 1
        self._reached[self._place] = max(number, self._reached[self._place])
        while min(self._reached[:]) < number:
            for place, other in self._others:
                if other.has_ended() and self._reached[place] < number:
                    self.left = other
                    raise _Left(f"training {place + 1} of {self.size} has ended before it was {stage}")
            if meanwhile is None:
                time.sleep(PAUSE_S)
            else:
                meanwhile()


Answer = Callable[[Mapping[str, Any], Company], dict[str, Any]]


def count_of(target: Mapping[str, Any], cores: int) -> int:
    """Return how many trainings a target asks for at once.

    Args:
        target: Its fields.
        cores: That are usable.
    """
    asked = target["side_by_side"]
    return max(1, room_for(target, cores)) if asked == "all" else int(asked)


def room_for(target: Mapping[str, Any], cores: int) -> int:
    """Return how many trainings of a target have their threads' cores to themselves."""
    return cores // (cores if target["threads"] == "all" else int(target["threads"]))


def answer_together(request: Mapping[str, Any], size: int, answer: Answer) -> dict[str, Any]:
    """Run so many trainings at once, this process being one of them, and return the answer of the trial.

    Call it before this process has run an operation on several threads or opened a device.

    Args:
        request: Of the trial.
        size: How many, at least 1.
        answer: Runs one of them.

    Returns:
        What `joined` makes of their answers, or the answer of the one that failed. Does not return where one died.
    """
    reached = mmap.mmap(-1, size)
    own = os.getpid()
    others: list[tuple[int, _Other]] = []
    try:
        for place in range(1, size):
            file = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as this process)
            if (process_id := os.fork()) == 0:
                _be_another(request, answer, Company(reached, place), own, file)
            others.append((place, _Other(process_id, file)))
        company = Company(reached, 0, others)
        answers = [answer(request, company)]
        if answers[0]["status"] != "ok" and company.left is None:
            return answers[0]
        for other in [company.left] if company.left else [other for _, other in others]:
            other.has_ended(wait=True)
            found = other.answer()
            if found is None:
                _end_like(other, others)
            if found["status"] != "ok":
                return found
            answers.append(found)
        return joined(answers)
    finally:
        for _, other in others:
            other.end()


def _be_another(request: Mapping[str, Any], answer: Answer, company: Company, parent: int, file: BinaryIO) -> NoReturn:
    """Be one of the others: train, leave the answer in the file, and end."""
    code = 1
    try:
        die_with(parent)
        file.write(json.dumps(answer(request, company)).encode())
        file.flush()
        sys.stdout.flush()
        code = 0
    except BaseException:  # noqa: BLE001  (whoever waits reads it from the output; nothing may escape into other code)
        traceback.print_exc()
    finally:
        os._exit(code)


def _end_like(other: _Other, others: Sequence[tuple[int, _Other]]) -> NoReturn:
    """End this process as one of the others has ended, so that its cause is that of the trial."""
    place = next(place for place, each in others if each is other)
    for _, each in others:
        each.end()
    status = other.status or 0
    print(f"(training {place + 1} of {len(others) + 1} side by side)", file=sys.stderr, flush=True)  # noqa: T201  (output of the trial)
    if os.WIFSIGNALED(status):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def joined(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the row of several trainings that ran at once: raw times of a typical one of them.

    A value of `step_times_s` and of `epoch_times_s` is the median, over the trainings, of the values that they had at
    that place: they began together, so these belong to the same moments, and no training is picked by its luck. Where
    some have timed more blocks than others, those that not all have are left out. What began and ended each of them is
    a median too; memory is the sum, with pages that they share counted for each; interference is that of the worst.
    Energy is that of the whole device, whoever used it: here for as many steps as the row has, and while all worked.

    Args:
        answers: Of all of them, all `ok`; what is not named above is that of the first.
    """
    first = answers[0]
    row = dict(first)
    if first.get("step_times_s"):
        row["step_times_s"] = _by_place(answers, "step_times_s")
        row["steps_per_block"] = min(each["steps_per_block"] for each in answers)
        if first.get("energy_j") is not None:
            kept, measured = (len(each["step_times_s"]) * each["steps_per_block"] for each in (row, first))
            row["energy_j"] = first["energy_j"] * kept / measured
    if first.get("epoch_times_s"):
        row["epoch_times_s"] = _by_place(answers, "epoch_times_s")
    for names, of in ((TYPICAL, statistics.median), (SUMMED, sum), (WORST, max)):
        for name in names:
            values = [each[name] for each in answers if each.get(name) is not None]
            if len(values) == len(answers):
                row[name] = of(values)
    if "interference" in first:
        row["interference"] = max((each["interference"] for each in answers), key=INTERFERENCE.index)
    row["finished_at"] = max(each["finished_at"] for each in answers)
    return row


def _by_place(answers: Sequence[Mapping[str, Any]], column: str) -> list[float]:
    return [statistics.median(values) for values in zip(*(each[column] for each in answers), strict=False)]
