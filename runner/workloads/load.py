"""From the name of a workload to an object that trains."""

from __future__ import annotations

import contextlib
import importlib
import linecache
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.workloads.branching import Branching
from runner.workloads.cnn import Cnn
from runner.workloads.embedding import Embedding
from runner.workloads.gemm import Gemm
from runner.workloads.ladder import levers_on
from runner.workloads.levers import levers_of
from runner.workloads.linear import Linear
from runner.workloads.lstm_fused import LstmFused
from runner.workloads.lstm_loop import LstmLoop
from runner.workloads.mlp import Mlp
from runner.workloads.straight import Straight
from runner.workloads.training import Training
from runner.workloads.transformer import Transformer
from runner.workloads.workload import Workload
from sweeps import families as questions
from sweeps.ladder import HEADLINE, UNWAITED, own_rungs
from sweeps.levers import split
from sweeps.own import RUNG, takes_rung
from sweeps.parameter import Value

FAMILIES: Mapping[str, type[Training] | type[Gemm]] = {
    "linear": Linear,
    "mlp": Mlp,
    "cnn": Cnn,
    "transformer": Transformer,
    "lstm_loop": LstmLoop,
    "lstm_fused": LstmFused,
    "branching": Branching,
    "straight": Straight,
    "embedding": Embedding,
    "gemm": Gemm,
}

#: Rungs that take nothing away from the step: these every workload has.
WHOLE = (HEADLINE, UNWAITED)


def load(
    workload: str, source: str | None, *, seed: int, parameters: Mapping[str, Value | None], rung: str = HEADLINE
) -> Workload:
    """Make a workload.

    Args:
        workload: A family, `FILE.py:factory` or `package.module:factory`.
        source: Text of FILE.py, which need not exist on this machine.
        seed: Seed of weights and data.
        parameters: All of a family's; of the user's own what its factory takes by name.
        rung: Of the ladder of causes. Trainings that ship can be taken apart, and the user's own whose factory takes
            the rung.

    Raises:
        ValueError: There is no such rung of that workload.
    """
    if workload in FAMILIES:
        return _family(workload, seed=seed, parameters=parameters, rung=rung)
    place, _, factory = workload.rpartition(":")
    make = getattr(_module_of(place, source), factory)
    if rung not in (*WHOLE, *own_rungs(workload, source)):
        raise ValueError(f"{workload} has no rung {rung}")
    told = {RUNG: HEADLINE if rung in WHOLE else rung} if takes_rung(workload, source) else {}
    made: Workload = make(seed=seed, **parameters, **told)
    return made


def _family(workload: str, *, seed: int, parameters: Mapping[str, Any], rung: str) -> Workload:
    name = questions.FAMILIES[workload].twin if rung == "twin" else workload
    if name is None:
        raise ValueError(f"{workload} has no twin")
    family = FAMILIES[name]
    if not issubclass(family, Training):
        if rung not in WHOLE:
            raise ValueError(f"{workload} has no rung {rung}")
        return family(seed=seed, **parameters)
    sizes, levers, optimizer_arguments = split(parameters)
    return family(seed=seed, levers=levers_on(rung, levers_of(levers, optimizer_arguments)), **sizes)


def _module_of(place: str, source: str | None) -> types.ModuleType:
    """Import a user's module, or run the text of a user's file as one.

    The folder of a file, where it exists here, can be imported from.
    """
    if source is None:
        return importlib.import_module(place)
    if not place.endswith(".py"):
        with contextlib.suppress(ModuleNotFoundError):  # not on this node: its text may do without its package
            return importlib.import_module(place)
    elif (folder := Path(place).parent).is_dir():
        sys.path.insert(0, str(folder))
    name = f"workload_{Path(place).stem}"  # a file called random.py must not stand in for the standard library's
    module = types.ModuleType(name)
    module.__file__ = place
    sys.modules[name] = module
    linecache.cache[place] = len(source), None, source.splitlines(keepends=True), place  # for tracebacks
    exec(compile(source, place, "exec"), module.__dict__)  # noqa: S102  (running the user's code is the point)
    return module
