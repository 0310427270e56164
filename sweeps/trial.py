"""A trial: one configuration on one target in one pass, run by one fresh process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sweeps.families import FAMILIES
from sweeps.ladder import HEADLINE
from sweeps.own import short_name
from sweeps.parameter import Value
from sweeps.way import Way


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is asked of one process. It holds no answer and no place to run.

    Attributes:
        sweep: Name of the sweep.
        workload: A family, or `FILE.py:factory` (absolute) or `package.module:factory`.
        parameters: Every parameter of the workload, axis values included; None for one that means nothing here.
        pair: The parameters that all trials of the pair have: its targets run back to back.
        target: How to run it.
        pass_index: Which replicate, from 0.
        pair_order: Place within the pair, from 0.
        paired: Whether the targets of a pair run back to back on one node.
        seed: Seed of weights and data.
        deadline_s: Seconds after which the trial is stopped.
        rung: Which part of the work is timed; `e2e` is the whole step.
        most_steps: Timed values at most, for a search that wants to see roughly; None for what the protocol takes. It
            changes how exact the answer is and not what is asked, so it is no part of the identity.
        for_memory: Whether only the memory that it takes is asked: no time of it is compared, and on a CPU it may not
            take more than the node can spare. No part of the identity either.
    """

    sweep: str
    workload: str
    parameters: Mapping[str, Value | None]
    pair: Mapping[str, Value | None]
    target: Way
    pass_index: int
    pair_order: int
    paired: bool
    seed: int
    deadline_s: float
    rung: str = HEADLINE
    most_steps: int | None = None
    for_memory: bool = False

    @cached_property  # a driver asks each of these about a dozen times a trial
    def config_id(self) -> str:
        """Identity of the configuration: the workload with every parameter fixed."""
        return _digest(self._identity_of(self.parameters))

    @cached_property
    def pair_id(self) -> str:
        """Identity of the pair: what all its trials have in common, in one pass."""
        return _digest({"configuration": self._identity_of(self.pair), "pass": self.pass_index})

    @cached_property
    def trial_id(self) -> str:
        """Identity of what is asked, not of where or when: asking twice runs once."""
        return _digest(
            {
                "configuration": self._identity_of(self.parameters),
                "pass": self.pass_index,
                "rung": self.rung,
                "target": {"name": self.target.name, **self.target.described},
            }
        )

    @cached_property
    def label(self) -> str:
        """A short name for people: workload, what is not as usual, target, rung, pass."""
        usual = FAMILIES[self.workload].usual if self.workload in FAMILIES else {}
        told = [
            f"{name}={value}"
            for name, value in self.parameters.items()
            if value is not None and not (name in usual and usual[name] == value)
        ]
        rung = "" if self.rung == HEADLINE else f" ({self.rung})"
        return f"{' '.join([short_name(self.workload), *told])} on {self.target.name}{rung}, pass {self.pass_index + 1}"

    def _identity_of(self, parameters: Mapping[str, Value | None]) -> dict[str, Any]:
        return {
            "workload": short_name(self.workload),
            "parameters": dict(parameters),
            "seed": self.seed,
        }


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
