"""Studies as the runner leaves them, with times that are known."""

import random
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq
import pytest

from sweeps.definition import Sweep
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
            "passes": 5,
        } | sweep
        resolved = Sweep.model_validate(asked)
        place = folder / name
        (place / "trials").mkdir(parents=True)
        (place / "sweep.yaml").write_text(resolved.dump())
        chance = random.Random(name)
        trials = [trial for pair in [*resolved.pairs(), *resolved.ladder(explained)] for trial in pair]
        begun = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        records = []
        for number, trial in enumerate(trials):
            size = trial.parameters[resolved.axis]
            case = (trial.target.name, size, trial.pass_index)
            if skip(*case):
                continue
            failed = fail(*case)
            start = begun + lasted * (number / len(trials))
            shared = chance.gauss(0, noise)
            typical = time_of(trial) if time_of else times[trial.target.name](size)
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
                "step_times_s": None
                if failed
                else [typical * 2.718281828 ** (shared + chance.gauss(0, noise)) for _ in range(10)],
                "steps_per_block": None if failed else 4,
                "warmup_steps": None if failed else 10,
                "kernel_time_s": typical if trial.rung == "kernel" and not failed else None,
                "started_at": start,
                "finished_at": start + 0.9 * lasted / len(trials),
            }
            seen = {"mode": trial.target.mode, "precision": trial.target.precision}
            seen |= GPU if trial.target.needs_accelerator else {}
            fields |= HOST | ({} if failed else seen) | row(*case)
            records.append(Record(**fields))
        if records:
            pq.write_table(table(records), place / "trials" / "part-0.parquet")
        return place

    return make


@pytest.fixture
def make_study(tmp_path):
    return study_maker(tmp_path)
