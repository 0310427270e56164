"""What the check asks: three studies over batch size, in an order that tells the dearest first.

The questions are those of `sweeps.definition.Sweep`, said without it: it needs packages that the check does without. A
test holds the two together: the trials here are those that the sweep in the study's file plans.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from sweeps.ladder import COLD, HEADLINE, rungs_of
from sweeps.parameter import Value
from sweeps.trial import Trial
from sweeps.workload import Configuration, accelerator_levers, complete, on_device

AXIS = "batch_size"
#: Seconds after which a trial is stopped; the last one may begin when the time of the check is nearly up.
DEADLINE_S = 20.0
#: Timed values of a trial; a rehearsal only has to show that there are some.
MOST_STEPS = {"gpu": 10, "cpu": 3}
COLD_STARTS = 3
#: The study that has the cold starts.
COLD_STUDY = "mlp"
SEED = 0


@dataclass(frozen=True, kw_only=True)
class PlainTarget:
    """A target as `sweeps.target.Target` has it, with the same defaults."""

    name: str
    device: str
    threads: int | Literal["all"] = "all"
    mode: str = "eager"
    precision: str = "ieee"
    wait_policy: str = "default"
    where: Mapping[str, str] = field(default_factory=dict)
    wait: bool = True
    side_by_side: int | str = 1
    max_memory: int | None = None
    price_per_hour: float | None = None

    @property
    def described(self) -> dict[str, Any]:
        """What it means, without its name and what goes without saying."""
        usual = PlainTarget(name=self.name, device=self.device).model_dump()
        told = {key: value for key, value in self.model_dump().items() if value != usual[key]}
        return {"device": self.device, **told}

    @property
    def needs_accelerator(self) -> bool:
        """Whether a trial of this target has to run where an accelerator is."""
        return self.device != "cpu"

    def model_dump(self) -> dict[str, Any]:
        """Return every key with its value."""
        return dataclasses.asdict(self)


ONE_CORE = PlainTarget(name="cpu-1", device="cpu", threads=1)
CPU = PlainTarget(name="cpu", device="cpu")
GPU = PlainTarget(name="gpu", device="gpu")
TARGETS: Mapping[str, tuple[PlainTarget, ...]] = {"cpu": (ONE_CORE, CPU), "gpu": (ONE_CORE, CPU, GPU)}


@dataclass(frozen=True, kw_only=True)
class Question:
    """One study: a workload over its batch size.

    Attributes:
        name: Of the sweep, and of its folder.
        question: For people.
        workload: A family.
        parameters: Its fixed parameters.
        sizes: Batch sizes.
        taken_apart: Those of them whose steps are also measured without one thing after another.
        targets: Ways to run, the baseline before the challenger, which is the last.
        passes: Replicates of every size. The first is what the check is about, the others take what time is left.
        most_steps: Timed values of a trial.
    """

    name: str
    question: str
    workload: str
    parameters: Mapping[str, Value]
    sizes: Sequence[int]
    taken_apart: Sequence[int]
    targets: Sequence[PlainTarget]
    passes: int
    most_steps: int

    strategy: ClassVar[str] = "grid"

    @property
    def examples(self) -> list[Mapping[str, Value]]:
        """Parameters that show the types of the study's columns."""
        return [self.parameters, {AXIS: self.sizes[0]}]

    @property
    def baseline(self) -> PlainTarget:
        """The target that the crossover starts from."""
        return self.targets[-2]

    @property
    def challenger(self) -> PlainTarget:
        """The target that may win from some size on."""
        return self.targets[-1]

    def dump(self) -> str:
        """Return the sweep as a file has it: JSON, which is YAML."""
        return json.dumps(
            {
                "name": self.name,
                "question": self.question,
                "workload": self.workload,
                "parameters": dict(self.parameters),
                "axes": {AXIS: list(self.sizes)},
                "targets": [target.name for target in self.targets],
                "baseline": self.baseline.name,
                "challenger": self.challenger.name,
                "passes": self.passes,
                "deadline_s": DEADLINE_S,
                "explain": True,
                "seed": SEED,
            },
            indent=2,
        )

    def pairs(self, pass_index: int) -> list[list[Trial]]:
        """Return the trials of a pass: the targets of a size one after another, sizes and targets in random order."""
        order = random.Random(f"{self.name}/{SEED}/{pass_index}")
        sizes = order.sample(list(self.sizes), len(self.sizes))
        asked = {size: [(target, HEADLINE) for target in self.targets] for size in sizes}
        return self._trials(asked, pass_index, order)

    def ladder(self) -> list[list[Trial]]:
        """Return the trials that take steps apart, once, for the two targets that are compared."""
        asked = {
            size: [
                (target, rung)
                for target in (self.baseline, self.challenger)
                for rung in rungs_of(self.workload, self._parameters(size, target), target)
            ]
            for size in self.taken_apart
        }
        return self._trials(asked, 0, random.Random(f"{self.name}/{SEED}/ladder"))

    def cold_starts(self) -> list[list[Trial]]:
        """Return the trials whose first work on the device is looked at, of the smallest size, each by itself."""
        once = {self.sizes[0]: [(self.challenger, COLD)]}
        return [pair for index in range(COLD_STARTS) for pair in self._trials(once, index, random.Random(index))]

    def _trials(
        self, asked: Mapping[int, Sequence[tuple[PlainTarget, str]]], pass_index: int, order: random.Random
    ) -> list[list[Trial]]:
        pairs = []
        for size, ways in asked.items():
            shuffled = order.sample(list(ways), len(ways))
            pairs.append([self._trial(size, *way, pass_index, place) for place, way in enumerate(shuffled)])
        return pairs

    def _trial(self, size: int, target: PlainTarget, rung: str, pass_index: int, place: int) -> Trial:
        whole, idle = self._configuration(size), accelerator_levers(self.workload)
        return Trial(
            sweep=self.name,
            workload=self.workload,
            parameters=self._parameters(size, target),
            pair={name: value for name, value in whole.items() if name not in idle},
            target=target,
            pass_index=pass_index,
            pair_order=place,
            paired=True,
            seed=SEED,
            deadline_s=DEADLINE_S,
            rung=rung,
            most_steps=self.most_steps,
        )

    def _parameters(self, size: int, target: PlainTarget) -> Configuration:
        return on_device(self.workload, self._configuration(size), accelerator=target.needs_accelerator)

    def _configuration(self, size: int) -> Configuration:
        return complete(self.workload, {**self.parameters, AXIS: size}, (AXIS,))


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What a study is about, and by device its parameters and its batch sizes: all, and those that are taken apart."""

    what: str
    workload: str
    parameters: Mapping[str, Mapping[str, Value]]
    sizes: Mapping[str, Sequence[int]]
    taken_apart: Mapping[str, Sequence[int]]


_TUTORIAL: Mapping[str, Value] = {"features": 1000, "rows": 10_000}
_MLP: Mapping[str, Value] = {"features": 256, "width": 256, "depth": 2}
_CNN: Mapping[str, Value] = {"channels": 16, "image": 32}
# Sizes whose step takes one core more than half a second stay out. Without an accelerator this is a rehearsal.
_STUDIES = {
    "tutorial": _Asked(
        what="the tutorial's linear layer on 10,000 random rows",
        workload="linear",
        parameters={"gpu": {**_TUTORIAL, "epochs": 1}, "cpu": {**_TUTORIAL, "epochs": 0}},
        sizes={"gpu": (32, 128, 512, 2048, 8192), "cpu": (32, 512)},
        taken_apart={"gpu": (32, 2048), "cpu": (32, 512)},
    ),
    "mlp": _Asked(
        what="a small multilayer perceptron",
        workload="mlp",
        parameters={"gpu": _MLP, "cpu": _MLP},
        sizes={"gpu": (4, 16, 64, 256, 1024, 4096), "cpu": (4, 64, 1024)},
        taken_apart={"gpu": (64, 4096), "cpu": (4, 1024)},
    ),
    "cnn": _Asked(
        what="a small convolutional network",
        workload="cnn",
        parameters={"gpu": _CNN, "cpu": _CNN},
        sizes={"gpu": (1, 4, 16, 64, 256), "cpu": (1, 16)},
        taken_apart={"gpu": (4, 256), "cpu": (1, 16)},
    ),
}
_WHO = {"gpu": "the GPU train {} faster than all CPU cores", "cpu": "all CPU cores train {} faster than one"}
PASSES = {"gpu": 3, "cpu": 1}


def questions(device: str) -> list[Question]:
    """Return the studies, the dearest first.

    Args:
        device: `gpu`, or `cpu` for a rehearsal that compares one core with all.
    """
    return [
        Question(
            name=name,
            question=f"From what batch size does {_WHO[device].format(asked.what)}?".replace("does all", "do all"),
            workload=asked.workload,
            parameters=asked.parameters[device],
            sizes=asked.sizes[device],
            taken_apart=asked.taken_apart[device],
            targets=TARGETS[device],
            passes=PASSES[device],
            most_steps=MOST_STEPS[device],
        )
        for name, asked in _STUDIES.items()
    ]
