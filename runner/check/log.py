"""What is said while the check runs: a line on the screen and the same in log.txt, each with the seconds so far."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from runner.check.units import shown
from runner.executor import Node
from sweeps.errors import printable
from sweeps.ladder import COLD, HEADLINE
from sweeps.record import Record, first_line
from sweeps.study import LOG
from sweeps.trial import Trial


class Log:
    """Follows a check as `runner.listener.Listener` has it: a trial is told once its row is on disk."""

    def __init__(self, folder: Path, begun: float) -> None:
        """Go on with the log of a folder.

        Args:
            folder: Where log.txt is or will be.
            begun: Moment of `time.monotonic` from which seconds are counted.
        """
        self.begun = begun
        self._file = (folder / LOG).open("a", encoding="utf-8", buffering=1)
        self._labels: dict[str, str] = {}

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def say(self, text: str) -> None:
        """Print a line and keep it."""
        line = printable(f"[{time.monotonic() - self.begun:5.1f} s] {text}")
        try:
            print(line, flush=True)
        except OSError:  # nobody looks any more: the file still tells
            sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  (it lives as long as the process)
        self._file.write(f"{line}\n")

    def planned(self, trials: Iterable[Trial]) -> None:
        """Nothing is foretold."""

    def looked_further(self, state: str, reasons: Sequence[str]) -> None:
        """Nothing here searches."""

    def started(self, trial: Trial, node: Node) -> None:
        """Remember how it is called."""
        what = "" if trial.rung == HEADLINE else f", {trial.rung}"
        size = trial.parameters["batch_size"]
        self._labels[trial.trial_id] = f"{trial.sweep} {size} on {trial.target.name}{what}, pass {trial.pass_index + 1}"

    def waiting(self, targets: Sequence[str], seconds: float) -> None:
        """There is one machine: nobody else can come."""

    def repeated(self, trial: Trial) -> None:
        """Say so: it explains a trial that is told twice."""
        self.say(f"{self._labels[trial.trial_id]}: something else used the cores; it is measured once more")

    def moved(self, trial: Trial, *, again: int) -> None:
        """There is one machine: nothing moves."""

    def skipped(self, trial: Trial) -> None:
        """The row that there is stands."""

    def stored(self, records: list[Record]) -> None:
        """Tell of each trial what matters most."""
        for record in records:
            label = self._labels.get(record.trial_id, f"{record.sweep} on {record.target}")
            self.say(f"{label}: {_in_words(record)}")


def _in_words(record: Record) -> str:
    if record.status != "ok":
        return f"{record.status}: {first_line(record.error_message)}"
    told = [f"{shown(statistics.median(record.step_times_s), 's')} a step"] if record.step_times_s else []
    is_start_of_interest = record.rung == COLD or record.gpu_name is not None
    stages = {
        "context": record.cold_context_s if is_start_of_interest else None,
        "first kernel": record.cold_first_kernel_s if is_start_of_interest else None,
        "first product": record.cold_first_matmul_s,
        "first convolution": record.cold_first_conv_s,
        "first step": record.first_step_s,
        "kernels": record.kernel_time_s,
    }
    told += [f"{name} {shown(seconds, 's')}" for name, seconds in stages.items() if seconds is not None]
    if record.loss_step_1 is not None:
        told.append(f"loss {record.loss_step_1:.6g}")
    if record.interference not in ("clean", None):
        told.append(str(record.interference))
    return ", ".join(told)
