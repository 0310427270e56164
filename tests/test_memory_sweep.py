"""The sweep `memory_limit`, with less memory than it ships with: its answer is what its model needs."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from runner.workloads import load as make
from sweeps.definition import Sweep
from sweeps.sweep_file import load

ROOT = Path(__file__).parent.parent
MIB = 2**20


def peak_bytes(sweep, rows):
    """Return the most bytes that the tensors of a step take together, as torch counts them: no gaps, no buffers."""
    (parameters,) = (each for each in sweep.configurations() if each["batch_size"] == 128)
    work = make(sweep.workload, None, seed=0, parameters={**parameters, "batch_size": rows})
    work.prepare(torch.device("cpu"), "cpu")
    work.step()
    work.bring()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        work.train()
    events = [each for each in profiled.profiler.kineto_results.events() if each.name() == "[memory]"]
    sizes = [each.nbytes() for each in sorted(events, key=lambda each: each.start_ns())]
    return max(itertools.accumulate(sizes)), work.parameter_bytes


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit what a process allocates")
@pytest.mark.timeout(400)
def test_the_sweep_that_ships_finds_what_its_model_needs(tmp_path):
    """Between 0.5 and 1 of what its tensors alone would allow: a limit of a process holds buffers of libraries too."""
    shipped, most = load("memory_limit", accelerator=False), 256 * MIB
    changes = {
        "targets": [{**target.model_dump(), "max_memory": most} for target in shipped.targets],
        "axes": {"batch_size": list(range(128, 1025, 128)), "width": [64]},
    }
    sweep = Sweep.model_validate(shipped.model_dump() | changes)
    (tmp_path / "small.yaml").write_text(sweep.dump())
    command = [sys.executable, str(ROOT / "sweep.py"), "small.yaml", "--local", "--out", "study"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (few, weights), (more, _) = (peak_bytes(sweep, rows) for rows in (8, 16))
    at_best = (most - 2 * weights) / ((more - few) / 8)
    found = json.loads((tmp_path / "study" / "crossovers.json").read_text())["fits"]
    assert [fit["target"] for fit in found] == ["cpu-1", "cpu"]
    for fit in found:
        assert 0.5 * at_best < fit["fits"] < at_best, (fit, at_best)
        assert fit["fails"] == fit["fits"] + 128
        assert 0.6 * most < fit["peak_bytes"] < 1.2 * most
