"""A sweep: named axes over a workload, the targets to compare, and how often; and its plan, trial by trial."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    model_validator,
)

from sweeps import plain_yaml
from sweeps.axis import LEAST_NUMBER, LONGEST_TEXT, Axis, Scalar, Text
from sweeps.errors import show
from sweeps.families import FAMILIES
from sweeps.ladder import HEADLINE, UNWAITED, has_rungs, rungs_of
from sweeps.own import RUNG, short_name
from sweeps.parameter import Value
from sweeps.record import COLUMNS
from sweeps.target import NAME, NAME_IN_WORDS, Target
from sweeps.trial import Trial
from sweeps.workload import Configuration, accelerator_levers, complete, on_device

MOST_TRIALS = 100_000
#: What the analysis adds to the rows it groups and answers; a test holds the two together.
CONCLUSIONS = frozenset(
    {
        *("machine", "verdict", "direction", "estimate", "low", "high", "bracket_low", "bracket_high"),
        *("pairs", "changes", "reasons", "state", "strong", "known_sign"),
        *("log_ratio", "log_ratio_low", "log_ratio_high", "contended", "resolution_s"),
        *("baseline_s", "baseline_low_s", "baseline_high_s", "baseline_status"),
        *("challenger_s", "challenger_low_s", "challenger_high_s", "challenger_status"),
        *("part", "share", "share_low", "share_high", "step_s", "cost_s", "cost_low_s", "cost_high_s"),
        *(
            "time_s",
            "log_s",
            "significant",
            "assumed",
            "sentence",
            "size_of_it",
            "target_rank",
            "part_rank",
            "disturbed",
        ),
        *("sizes", "repaid_steps", "repaid_s", "repaid_epochs", "reason", "beyond_s"),
        *("label", "shared", "to_try", "without", "factor", "factor_low", "factor_high", "cell", "cell_why"),
        *("variant", "variants", "chosen_by", "passes", "prepared", "gain_s", "extra_s", "extra_low_s", "extra_high_s"),
        *(f"repaid_{unit}_{end}" for unit in ("steps", "s", "epochs") for end in ("low", "high")),
    }
)
#: Keys of a target that are easily taken for parameters.
TARGET_KEYS = ("mode", "precision", "wait_policy")
#: Names that a parameter cannot have: all columns, of which SQL knows no upper case, and the seed.
RESERVED = COLUMNS | CONCLUSIONS | {"seed"}


def _one_line(text: Any) -> Any:
    return " ".join(text.split()) if isinstance(text, str) else text


class Sweep(BaseModel):
    """One question, resolved: every range spelt out, every default filled in.

    Attributes:
        name: Short name; also that of the study folder.
        question: What the sweep answers, for people.
        workload: A family of `sweeps.families.FAMILIES`, `FILE.py:factory` or `package.module:factory`.
        parameters: Fixed parameters of the workload.
        axes: Values of each varied parameter. The first axis is the one that is solved for.
        targets: Ways to run.
        baseline: Name of the target that the crossover starts from, usually the CPU.
        challenger: Name of the target that may win from some size on, usually the GPU.
        margin: 0.1 asks from where the challenger is at least 10 % faster.
        passes: Replicates of every configuration.
        pairing: `same_node`: the targets of a pair run back to back on one node that serves them all.
            `by_target`: each trial runs on any node that serves it, and its row is marked unpaired; this is what
            targets get that differ in `where` they run.
        deadline_s: Seconds after which a trial is stopped.
        explain: Whether some sizes are also measured without one thing after another: see `sweeps.ladder`.
        seed: Seed of weights, data and of the random order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=NAME, description=NAME_IN_WORDS)
    question: Annotated[Text, BeforeValidator(_one_line)] = Field(
        default="", description=f"a text of at most {LONGEST_TEXT} characters"
    )
    workload: Text = Field(description=f"a text: {', '.join(FAMILIES)}, FILE.py:factory or package.module:factory")
    parameters: dict[str, Scalar] = Field(default={}, description="a mapping of names to values, {width: 256}")
    axes: dict[str, Axis] = Field(
        min_length=1, description="a mapping with at least one axis, such as {batch_size: [32, 64]}"
    )
    targets: list[Target] = Field(min_length=2, description="a list of at least two, such as [cpu, gpu]")
    baseline: str = Field(default="", description="name of a target")
    challenger: str = Field(default="", description="name of a target")
    margin: float = Field(
        default=0.0, ge=0.0, lt=1.0, strict=True, description="a number from 0 to below 1; 0.1 is 10 %"
    )
    passes: int = Field(default=3, ge=1, le=1000, strict=True, description="a whole number from 1 to 1000")
    pairing: Literal["same_node", "by_target"] = Field(default="same_node", description="same_node or by_target")
    deadline_s: float = Field(
        default=120.0, gt=0.0, le=86_400.0, strict=True, description="seconds, above 0 and at most 86400"
    )
    explain: bool = Field(default=False, strict=True, description="true or false")
    seed: int = Field(default=0, ge=0, lt=2**32, strict=True, description="a whole number from 0 to 4294967295")

    @model_validator(mode="before")
    @classmethod
    def _default_rivals(cls, value: Any) -> Any:
        """Compare the first target with the second where the file does not say."""
        if isinstance(value, dict) and isinstance(value.get("targets"), list):
            names = [each.get("name") if isinstance(each, dict) else each for each in value["targets"]]
            if all(isinstance(name, str) for name in names):
                value = dict(zip(("baseline", "challenger"), names, strict=False)) | value
        return value

    @model_validator(mode="before")
    @classmethod
    def _pair_on_one_node(cls, value: Any) -> Any:
        """Targets that run on nodes of different kinds cannot share one."""
        if isinstance(value, dict) and isinstance(value.get("targets"), list):
            places = [each.get("where") or {} if isinstance(each, dict) else {} for each in value["targets"]]
            if any(place != places[0] for place in places):
                value = {"pairing": "by_target"} | value
        return value

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        self._check_targets()
        self._check_axes()
        if self.size > MOST_TRIALS:
            raise ValueError(f"axes: {self.size} trials are too many; at most {MOST_TRIALS}")
        if not (info.context and info.context.get("stored")):  # the user's file may have moved since
            self.configurations()  # every single one has to be legal
            if self.explain and not has_rungs(self.workload):
                raise ValueError(
                    f"explain: the step of {show(short_name(self.workload))} cannot be taken apart; those of the "
                    "trainings that ship can, and those of an own function or class whose arguments name rung "
                    "(docs/own-model.md)"
                )
        return self

    def _check_targets(self) -> None:
        names = [target.name for target in self.targets]
        if repeated := [n for n in dict.fromkeys(names) if names.count(n) > 1]:
            raise ValueError(f"targets: {repeated[0]} is there twice")
        for role in ("baseline", "challenger"):
            name = getattr(self, role)
            if name not in names:
                raise ValueError(f"{role}: {show(name)} is not one of the targets; {', '.join(names)}")
        if self.baseline == self.challenger:
            raise ValueError(f"challenger: {show(self.challenger)} is the baseline too; name another target")
        if self.pairing == "same_node" and any(target.where != self.targets[0].where for target in self.targets):
            raise ValueError("pairing: same_node is one node for all targets, but these differ in `where`; by_target")
        for role in ("baseline", "challenger"):
            if not self.target(getattr(self, role)).wait:
                raise ValueError(
                    f"{role}: {getattr(self, role)} is timed without waiting for the device (wait: false), which is no "
                    "result; let it be a third target"
                )

    def _check_axes(self) -> None:
        for name in (*self.axes, *self.parameters):
            where = "axes" if name in self.axes else "parameters"
            if not name.isidentifier():
                raise ValueError(f"{where}.{name}: is no name for a parameter; letters, digits and _")
            if name.lower() in TARGET_KEYS:
                raise ValueError(
                    f"{where}.{name}: is a key of a target: targets: [cpu, {{name: mine, device: gpu, {name}: ...}}]"
                )
            if name.lower() == RUNG:
                raise ValueError(f"{where}.{name}: is nothing that a sweep can give; explain: true measures every rung")
            if name.lower() in RESERVED:
                raise ValueError(f"{where}.{name}: the name is taken by a column of the results; choose another")
        if both := set(self.axes) & set(self.parameters):
            raise ValueError(f"parameters.{min(both)}: is an axis too; give it in one place")
        for value in self.axes[self.axis]:
            if isinstance(value, bool | str) or value < LEAST_NUMBER:
                raise ValueError(
                    f"axes.{self.axis}: {show(value)} is not allowed; the axis that is solved for has numbers above 0"
                )

    @property
    def axis(self) -> str:
        """The axis that is solved for."""
        return next(iter(self.axes))

    @property
    def size(self) -> int:
        """How many trials the sweep plans, those of its ladder left out."""
        shared = accelerator_levers(self.workload) & set(self.axes)
        count = 0
        for target in self.targets:
            axes = [v for name, v in self.axes.items() if target.needs_accelerator or name not in shared]
            count += math.prod(len(values) for values in axes)
        return count * self.passes

    def target(self, name: str) -> Target:
        """Return the target of that name."""
        return next(target for target in self.targets if target.name == name)

    def configurations(self) -> list[Configuration]:
        """Return the parameters of every configuration, defaults filled in.

        Raises:
            InputError: A value that the workload does not take.
        """
        axes = tuple(self.axes)
        return [
            complete(self.workload, dict(self.parameters) | dict(zip(axes, values, strict=True)), axes)
            for values in itertools.product(*self.axes.values())
        ]

    def pairs(self) -> list[list[Trial]]:
        """Return the plan: one list of trials a pair, in the order in which they are to run.

        One pass visits every configuration once before the next pass begins, in random order, and so do the
        targets within a pair: drift of the machine then falls on all sizes and targets alike. Configurations that
        differ in what means nothing on a CPU share a pair, and its trial on the CPU.
        """
        return self._plan(self.configurations(), lambda _, target: (HEADLINE if target.wait else UNWAITED,), "")

    def ladder(self, at: Sequence[Mapping[str, Value]]) -> list[list[Trial]]:
        """Return the trials that take the work of some sizes apart, as `pairs` returns the rest.

        Args:
            at: Values of all axes, one mapping a configuration; the others have no ladder.
        """
        asked = [each for each in self.configurations() if any(all(each[k] == v for k, v in one.items()) for one in at)]
        return self._plan(asked, lambda each, target: rungs_of(self.workload, each, target), "ladder/")

    def _plan(
        self,
        configurations: Sequence[Configuration],
        rungs: Callable[[Configuration, Target], Sequence[str]],
        what: str,
    ) -> list[list[Trial]]:
        shared: dict[tuple[Value | None, ...], list[Configuration]] = {}
        idle = accelerator_levers(self.workload)
        for each in configurations:
            shared.setdefault(tuple(v for name, v in each.items() if name not in idle), []).append(each)
        plan = []
        for index in range(self.passes):
            order = random.Random(f"{what}{self.seed}/{index}")
            for alike in order.sample(list(shared.values()), len(shared)):
                common = {name: value for name, value in alike[0].items() if name not in idle}
                trials = {}
                for target in self.targets:
                    for each in alike:
                        parameters = on_device(self.workload, each, accelerator=target.needs_accelerator)
                        for rung in rungs(parameters, target):
                            trial = self._trial(parameters, common, index, target, rung)
                            trials[trial.trial_id] = trial
                shuffled = order.sample(list(trials.values()), len(trials))
                plan.append([dataclasses.replace(trial, pair_order=place) for place, trial in enumerate(shuffled)])
        return [pair for pair in plan if pair]

    def _trial(
        self, parameters: Configuration, pair: Configuration, pass_index: int, target: Target, rung: str
    ) -> Trial:
        return Trial(
            sweep=self.name,
            workload=self.workload,
            parameters=parameters,
            pair=pair,
            target=target,
            pass_index=pass_index,
            pair_order=0,
            paired=self.pairing == "same_node",
            seed=self.seed,
            deadline_s=self.deadline_s,
            rung=rung,
        )

    def dump(self) -> str:
        """Return the sweep as the YAML text that `read` takes."""
        return plain_yaml.dump(self.model_dump())
