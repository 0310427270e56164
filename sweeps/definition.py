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
from sweeps.axis import LEAST_NUMBER, LONGEST_TEXT, Axis, Scalar, Span, Text, values_of
from sweeps.errors import show
from sweeps.families import FAMILIES
from sweeps.ladder import COLD, HEADLINE, UNWAITED, has_rungs, rungs_of
from sweeps.own import RUNG, short_name
from sweeps.parameter import Value
from sweeps.record import COLUMNS
from sweeps.target import NAME, NAME_IN_WORDS, Target
from sweeps.trial import Trial
from sweeps.workload import Configuration, accelerator_levers, complete, on_device

MOST_TRIALS = 100_000
#: Fewer sizes than these are no range in which a change could be looked for.
LEAST_SIZES = 3
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
        *("descent", "at_once", "trials", "each_s", "per_hour", "per_hour_low", "per_hour_high"),
    }
)
#: Keys of a target that are easily taken for parameters.
TARGET_KEYS = ("mode", "precision", "wait_policy")
#: Names that a parameter cannot have: all columns, of which SQL knows no upper case, and the seed.
RESERVED = COLUMNS | CONCLUSIONS | {"seed"}


def _share(value: Any) -> Any:
    """Read `10%` as 0.1."""
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            return float(value.strip()[:-1]) / 100
        except ValueError:
            return value
    return value


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
        strategy: `grid` measures every configuration in every pass. `adaptive` looks for the next size by itself, until
            the change is known as exactly as was asked. `largest` looks for the largest size that fits each target.
        half_width: Of an adaptive sweep: how exact the change has to be known; 0.1 is +-10 %. A file may say `10%`.
        max_pairs: Of an adaptive sweep: pairs at most, for each combination of the other axes.
        goal_loss: The mean loss of an epoch that a whole training has to come down to; None asks for none.
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
    strategy: Literal["grid", "adaptive", "largest"] = Field(default="grid", description="grid, adaptive or largest")
    half_width: Annotated[float, BeforeValidator(_share)] = Field(
        default=0.1, ge=0.01, le=1.0, strict=True, description="a number from 0.01 to 1, or 1% to 100%"
    )
    max_pairs: int = Field(default=60, ge=5, le=10_000, strict=True, description="a whole number from 5 to 10000")
    goal_loss: float | None = Field(
        default=None, gt=0.0, allow_inf_nan=False, strict=True, description="a number above 0, or null"
    )
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
        self._check_strategy()
        if self.size > MOST_TRIALS:
            raise ValueError(f"axes: {self.size} trials are too many; at most {MOST_TRIALS}")
        if not (info.context and info.context.get("stored")):  # the user's file may have moved since
            self.configurations()  # every single one has to be legal
            self._check_goal()
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

    def _check_goal(self) -> None:
        """A loss is something that a whole training comes down to. What is the user's own says only when it runs."""
        if self.goal_loss is None or self.workload not in FAMILIES:
            return
        if "epochs" not in FAMILIES[self.workload].parameters:
            raise ValueError(f"goal_loss: {self.workload} trains nothing, so it has no loss; leave goal_loss out")
        if not all(one["epochs"] for one in self.configurations()):
            where = "axes.epochs: all values" if "epochs" in self.axes else "parameters.epochs"
            raise ValueError(
                f"goal_loss: {self.goal_loss} is a loss that whole trainings come down to, and epochs is 0, which has "
                f"none; {where} above 0"
            )

    def _check_strategy(self) -> None:
        for name, axis in self.axes.items():
            if isinstance(axis, Span) and self.strategy == "grid":
                raise ValueError(
                    f"axes.{name}: {{from: {axis.low}, to: {axis.high}}} also needs factor or steps; without them, "
                    "strategy: adaptive looks for the sizes itself"
                )
        for key in ("half_width", "max_pairs"):
            if self.strategy != "adaptive" and getattr(self, key) != type(self).model_fields[key].default:
                raise ValueError(f"{key}: means something with strategy: adaptive only")
        first = self.axes[self.axis]
        least = {"grid": 1, "adaptive": LEAST_SIZES, "largest": 2}[self.strategy]
        if not isinstance(first, Span) and len(first) < least:
            raise ValueError(
                f"axes.{self.axis}: {show(first)} is too short to be searched; at least {least} values, "
                "or a range such as {from: 4, to: 4096}"
            )
        if self.strategy == "largest" and self.explain:
            raise ValueError("explain: takes times apart, and strategy: largest looks for what fits into memory")
        if self.strategy != "grid" and not self.explain and self.passes != type(self).model_fields["passes"].default:
            raise ValueError(
                f"passes: with strategy: {self.strategy} a size is measured as often as it takes; leave passes out"
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
        for value in values_of(self.axes[self.axis]):
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
        """How many trials the sweep plans, those of its ladder left out; of a search, how many at most."""
        if self.strategy == "adaptive":
            others = list(self.axes.values())[1:]
            groups = math.prod(len(axis.octaves if isinstance(axis, Span) else axis) for axis in others)
            return groups * len(self.targets) * self.max_pairs
        shared = accelerator_levers(self.workload) & set(self.axes)
        count = 0
        for target in self.targets:
            axes = {name: v for name, v in self.axes.items() if target.needs_accelerator or name not in shared}
            sizes = {name: len(axis.octaves if isinstance(axis, Span) else axis) for name, axis in axes.items()}
            if self.strategy == "largest":
                sizes[self.axis] = _trials_of_a_search(self.axes[self.axis])
            count += math.prod(sizes.values())
        return count if self.strategy == "largest" else count * self.passes

    @property
    def examples(self) -> list[Mapping[str, Value]]:
        """Parameters that show each type of value that a column of its rows can have."""
        by_type = {(name, type(v)): {name: v} for name, axis in self.axes.items() for v in values_of(axis)}
        return [self.parameters, *by_type.values()]

    def target(self, name: str) -> Target:
        """Return the target of that name."""
        return next(target for target in self.targets if target.name == name)

    def configurations(self) -> list[Configuration]:
        """Return the parameters of every configuration, defaults filled in; of a span, those of its ends.

        Raises:
            InputError: A value that the workload does not take.
        """
        every = map(values_of, self.axes.values())
        return [self._configuration(dict(zip(self.axes, values, strict=True))) for values in itertools.product(*every)]

    def _configuration(self, values: Mapping[str, Value]) -> Configuration:
        return complete(self.workload, dict(self.parameters) | dict(values), tuple(self.axes))

    def pairs(self) -> list[list[Trial]]:
        """Return the plan: one list of trials a pair, in the order in which they are to run.

        One pass visits every configuration once before the next pass begins, in random order, and so do the
        targets within a pair: drift of the machine then falls on all sizes and targets alike. Configurations that
        differ in what means nothing on a CPU share a pair, and its trial on the CPU.
        """
        return self._plan(self.configurations(), _whole_step, "")

    def pair_at(
        self,
        values: Mapping[str, Value],
        pass_index: int,
        *,
        targets: Sequence[str] | None = None,
        most_steps: int | None = None,
    ) -> list[Trial]:
        """Return the trials of one pair that a search asks for, in the order in which they are to run.

        Args:
            values: Of all axes. A whole number may be given as a float.
            pass_index: Which pair of this configuration, from 0.
            targets: Names of the targets to run; None for all.
            most_steps: Timed values of each trial at most.

        Raises:
            InputError: A value that the workload does not take.
            ValueError: A value that is not on its axis, or not all axes.
        """
        asked = {name: self._legal(name, values[name]) for name in self.axes}
        order = random.Random(f"{self.seed}/{sorted(asked.items())}/{pass_index}")
        trials = self._pair([self._configuration(asked)], order, pass_index, _whole_step)
        kept = [trial for trial in trials if targets is None or trial.target.name in targets]
        for_memory = self.strategy == "largest"
        return [
            dataclasses.replace(trial, pair_order=place, most_steps=most_steps, for_memory=for_memory)
            for place, trial in enumerate(kept)
        ]

    def _legal(self, name: str, value: Value) -> Value:
        """Return a value as the axis has it: a whole number where it has whole numbers."""
        if not self._is_on_axis(name, value):
            raise ValueError(f"{name}: {value!r} is not on this axis")
        axis = self.axes[name]
        if isinstance(axis, Span):
            return int(value) if axis.whole else float(value)
        return axis[axis.index(value)]

    def _is_on_axis(self, name: str, value: Value) -> bool:
        axis = self.axes[name]
        return axis.holds(value) if isinstance(axis, Span) else value in axis

    def ladder(self, at: Sequence[Mapping[str, Value]]) -> list[list[Trial]]:
        """Return the trials that take the work of some sizes apart, as `pairs` returns the rest.

        Args:
            at: Values of all axes, one mapping a configuration; the others have no ladder. What a start is made of is
                asked at the first alone: it hardly depends on the size.
        """
        known = [one for one in at if all(self._is_on_axis(name, one[name]) for name in self.axes)]
        asked = [self._configuration({name: self._legal(name, one[name]) for name in self.axes}) for one in known]

        def rungs(each: Configuration, target: Target) -> tuple[str, ...]:
            first = on_device(self.workload, asked[0], accelerator=target.needs_accelerator)
            cold = (COLD,) if target.wait and each == first else ()
            return (*rungs_of(self.workload, each, target), *cold)

        return self._plan(asked, rungs, "ladder/")

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
            groups = order.sample(list(shared.values()), len(shared))
            plan += [self._pair(alike, order, index, rungs) for alike in groups]
        return [pair for pair in plan if pair]

    def _pair(
        self,
        alike: Sequence[Configuration],
        order: random.Random,
        index: int,
        rungs: Callable[[Configuration, Target], Sequence[str]],
    ) -> list[Trial]:
        """Return the trials, in random order, of configurations that differ only in what means nothing on a CPU."""
        idle = accelerator_levers(self.workload)
        common = {name: value for name, value in alike[0].items() if name not in idle}
        trials = {}
        for target in self.targets:
            for each in alike:
                parameters = on_device(self.workload, each, accelerator=target.needs_accelerator)
                for rung in rungs(parameters, target):
                    trial = self._trial(parameters, common, index, target, rung)
                    trials[trial.trial_id] = trial
        shuffled = order.sample(list(trials.values()), len(trials))
        return [dataclasses.replace(trial, pair_order=place) for place, trial in enumerate(shuffled)]

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


def _whole_step(_: Configuration, target: Target) -> tuple[str, ...]:
    return (HEADLINE if target.wait else UNWAITED,)


def _trials_of_a_search(axis: Sequence[Value] | Span) -> int:
    """Return how many sizes a search for the largest that fits can come to: it doubles, and then halves a gap."""
    if not isinstance(axis, Span):
        return len(axis)
    return math.ceil(2 * math.log2(axis.high / axis.low)) + 2
