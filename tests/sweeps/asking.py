"""Sweeps to ask about, and a file to spoil."""

from sweeps.definition import Sweep

MINE = "name: mine\nworkload: mlp\naxes: {batch_size: [2, 4]}\ntargets: [cpu-1, cpu]\n"


def sweep(**keys):
    asked = {"name": "mine", "workload": "mlp", "axes": {"batch_size": [2, 4]}, "targets": ["cpu-1", "cpu"]}
    return Sweep.model_validate(asked | keys)
