"""Trials to ask for, and processes to watch."""

import dataclasses
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil

from runner import process
from runner.run import record_of
from sweeps.definition import Sweep
from sweeps.target import Target

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
MISDEEDS = Path(__file__).with_name("misdeeds.py")
TINY = {"features": 8, "width": 8, "depth": 1, "classes": 2}


def make_sweep(**changes):
    asked = {
        "name": "made",
        "workload": "mlp",
        "parameters": TINY,
        "axes": {"batch_size": [2, 4]},
        "targets": ["cpu-1", "cpu"],
        "passes": 1,
    }
    return Sweep.model_validate(asked | changes)


def make_trial(*, target="cpu-1", deadline_s=60.0, **parameters):
    """A trial of the tiny mlp, or with `deed=...` of the workload in misdeeds.py."""
    own = "deed" in parameters
    trial = make_sweep().pairs()[0][0]
    return dataclasses.replace(
        trial,
        workload=f"{MISDEEDS}:Misdeed" if own else "mlp",
        parameters=parameters if own else {**trial.parameters, "batch_size": 4, **parameters},
        target=target if isinstance(target, Target) else Target.model_validate(target),
        deadline_s=deadline_s,
    )


def make_request(**asked):
    return process.request_of(make_trial(**asked), MISDEEDS.read_text() if "deed" in asked else None)


def is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition, what, seconds=30):
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, f"not within {seconds} s: {what}"
        time.sleep(0.02)
    return found


def make_record(trial, status="ok", *, attempt=1, code_version="v1", **columns):
    answered = {"status": status, **columns}
    if status == "ok":
        answered = {"step_times_s": [0.001, 0.002], "steps_per_block": 7, **answered}
    return record_of(trial, answered, attempt=attempt, code_version=code_version)


def lasting(trial, seconds, status="ok", **columns):
    """A record of a trial that took so long."""
    times = {"started_at": BEGUN.isoformat(), "finished_at": (BEGUN + timedelta(seconds=seconds)).isoformat()}
    return make_record(trial, status, **times, **columns)
