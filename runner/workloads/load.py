"""From the name of a workload to an object that trains."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path

from runner.workloads.linear import Linear
from runner.workloads.mlp import Mlp
from runner.workloads.workload import Workload
from sweeps.workload import Value

FAMILIES: Mapping[str, Callable[..., Workload]] = {"linear": Linear, "mlp": Mlp}


def load(workload: str, source: str | None, *, seed: int, parameters: Mapping[str, Value]) -> Workload:
    """Make a workload.

    Args:
        workload: A family, `FILE.py:factory` or `package.module:factory`.
        source: Text of FILE.py, which need not exist on this machine.
        seed: Seed of weights and data.
        parameters: Passed to the factory by name.
    """
    if workload in FAMILIES:
        return FAMILIES[workload](seed=seed, **parameters)
    place, _, factory = workload.rpartition(":")
    module = importlib.import_module(place) if source is None else _module_of(Path(place), source)
    made: Workload = getattr(module, factory)(seed=seed, **parameters)
    return made


def _module_of(path: Path, source: str) -> types.ModuleType:
    """Run a user's file as a module; its folder, where it exists here, can be imported from."""
    if path.parent.is_dir():
        sys.path.insert(0, str(path.parent))
    module = types.ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module
    exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102  (running the user's code is the point)
    return module
