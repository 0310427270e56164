"""Studies as the runner leaves them, with times that are known."""

import random
from datetime import UTC, datetime, timedelta

import pandas as pd
import pyarrow.parquet as pq
import pytest

from analysis.strategy import next_wishes
from sweeps.definition import Sweep
from sweeps.ladder import COLD
from sweeps.record import Record, table

HOST = {
    "host": "node-1",
    "node_id": "a1",
    "cpu_model": "Example CPU 3000",
    "cores_logical": 16,
    "cores_physical": 8,
    "cores_usable": 8,
    "memory_bytes": 32 * 2**30,
    "torch": "2.13.0",
    "cuda": "13.0",
    "python": "3.11.9",
    "ray": "2.60.0",
    "os": "Linux 6.1",
    "code_version": "abc123",
}
GPU = {"gpu_name": "Example GPU 40", "gpu_memory_bytes": 40 * 2**30}
#: Launch floor against linear work: the two cross at 100.
TIMES = {"cpu": lambda size: 1e-5 * size, "gpu": lambda size: 9e-4 + 1e-6 * size}


def study_maker(folder):
    """Return a function that writes a study into a folder of that name.

    `time_of` takes a trial and returns its seconds per step, instead of `times`; `explained` are the values of all axes
    at which the ladder was measured too.
    """

    def make(
        name="study",
        *,
        times=TIMES,
        sizes=(4, 16, 64, 256, 1024, 4096),
        fail=lambda *case: None,
        row=lambda *case: {},
        noise=0.02,
        lasted=timedelta(hours=1),
        skip=lambda *case: False,
        time_of=None,
        explained=(),
        **sweep,
    ):
        asked = {
            "name": "made",
            "workload": "mlp",
            "axes": {"batch_size": list(sizes)},
            "targets": list(times),
            **({} if "strategy" in sweep else {"passes": 5}),
        } | sweep
        resolved = Sweep.model_validate(asked)
        place = folder / name
        (place / "trials").mkdir(parents=True)
        (place / "sweep.yaml").write_text(resolved.dump())
        chance = random.Random(name)
        pairs = [*resolved.pairs(), *resolved.ladder(explained)]
        count = sum(map(len, pairs)) if resolved.strategy == "grid" else resolved.size
        begun = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        records = []
        if resolved.strategy != "grid":
            pairs = wished_for(resolved, records)
        for number, trial in enumerate(trial for pair in pairs for trial in pair):
            size = trial.parameters[resolved.axis]
            case = (trial.target.name, size, trial.pass_index)
            if skip(*case):
                continue
            failed = fail(*case)
            start = begun + lasted * (number / count)
            shared = chance.gauss(0, noise)
            trained = not failed and trial.rung != COLD
            typical = (time_of(trial) if time_of else times[trial.target.name](size)) if trained else None
            fields = {
                "sweep": trial.sweep,
                "trial_id": trial.trial_id,
                "config_id": trial.config_id,
                "pair_id": trial.pair_id,
                "pair_order": trial.pair_order,
                "paired": trial.paired,
                "pass_index": trial.pass_index,
                "rung": trial.rung,
                "workload": resolved.workload,
                "parameters": trial.parameters,
                "target": trial.target.name,
                "device": "cuda" if trial.target.needs_accelerator else "cpu",
                "threads_requested": 8,
                "threads_observed": None if failed else 8,
                "start_method": "fork",
                "status": failed[0] if failed else "ok",
                "error_message": failed[1] if failed else None,
                "deadline_s": trial.deadline_s,
                "step_times_s": [typical * 2.718281828 ** (shared + chance.gauss(0, noise)) for _ in range(10)]
                if trained
                else None,
                "steps_per_block": 4 if trained else None,
                "warmup_steps": 10 if trained else None,
                "kernel_time_s": typical if trial.rung == "kernel" and not failed else None,
                "started_at": start,
                "finished_at": start + 0.9 * lasted / count,
            }
            seen = {"mode": trial.target.mode, "precision": trial.target.precision}
            seen |= GPU if trial.target.needs_accelerator else {}
            fields |= HOST | ({} if failed else seen) | row(*case)
            records.append(Record(**fields))
        if records:
            pq.write_table(table(records), place / "trials" / "part-0.parquet")
        return place

    return make


def wished_for(sweep, records):
    """Yield the pairs that a search wants, each after the records of those before it are there."""
    while wishes := next_wishes(sweep, table(records).to_pandas() if records else pd.DataFrame()).wishes:
        for wish in wishes:
            yield sweep.pair_at(wish.values, wish.pass_index, targets=wish.targets or None, most_steps=wish.most_steps)


@pytest.fixture
def make_study(tmp_path):
    return study_maker(tmp_path)
