"""A study as a machine with an accelerator would have recorded it, with prescribed times.

It is made while a test runs and thrown away with it: nothing of the kind is a measurement.
"""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq

from runner.run import record_of
from sweeps.folder import Folder
from sweeps.record import table
from sweeps.study import SWEEP, TRIALS

BEGUN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MACHINE = {
    "host": "far-away",
    "cpu_model": "Made-up CPU 1",
    "cores_logical": 64,
    "cores_physical": 32,
    "cores_usable": 32,
    "memory_bytes": 2**38,
    "torch": "2.9.0",
    "python": "3.12.1",
    "os": "Linux 6.8",
    "code_version": "there",
}
GPU = {"gpu_name": "Made-up GPU 40", "gpu_memory_bytes": 40 * 2**30, "cuda": "13.0", "device": "cuda"}


def record_elsewhere(place, sweep, seconds, *, explained=(), keep=lambda trial: True, fields=lambda trial: {}):
    """Write a study whose trials take `seconds(trial)` a step; `fields` are columns of a trial's row to replace."""
    chance = random.Random(1)
    rows = []
    for number, trial in enumerate(t for pair in [*sweep.pairs(), *sweep.ladder(explained)] for t in pair):
        if not keep(trial):
            continue
        start = BEGUN + timedelta(seconds=30 * number)
        on_gpu = trial.target.needs_accelerator
        row = {
            "device": "cpu",
            "mode": trial.target.mode,
            "precision": trial.target.precision,
            "threads_requested": 1,
            "threads_observed": 1,
            "start_method": "fork",
            "steps_per_block": 4,
            "warmup_steps": 10,
            "loss_step_1": 0.0,
            "loss_step_10": 0.0,
            "status": "ok",
            "step_times_s": [seconds(trial) * chance.lognormvariate(0, 0.02) for _ in range(10)],
            "started_at": start.isoformat(),
            "finished_at": (start + timedelta(seconds=20)).isoformat(),
            **MACHINE,
            **(GPU if on_gpu else {}),
        }
        rows.append(replace(record_of(trial, row, attempt=1, code_version="there"), **fields(trial)))
    folder = Folder.at(place)
    folder.make()
    folder.write(SWEEP, sweep.dump().encode())
    folder.make(TRIALS)
    if rows:
        whole = pa.BufferOutputStream()
        pq.write_table(table(rows), whole)
        folder.write(f"{TRIALS}/part-0.parquet", whole.getvalue())
    return place
