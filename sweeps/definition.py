"""A sweep: named axes over a workload, the targets to compare, and how often. Read from YAML.

`load` is the front door: a catalog name or a file, with `--set` and `--targets` on top, becomes a checked
`Sweep`; whatever is wrong becomes one `InputError` that names file, key, value and what is legal.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from sweeps import plain_yaml
from sweeps.axis import LEAST_NUMBER, LONGEST_TEXT, Axis, Scalar, Text
from sweeps.errors import InputError, did_you_mean, show
from sweeps.families import FAMILIES
from sweeps.ladder import HEADLINE, UNWAITED, rungs_of
from sweeps.own import is_own, resolve_own, short_name
from sweeps.parameter import Value
from sweeps.record import COLUMNS
from sweeps.target import LEGAL, NAME, NAME_IN_WORDS, Target
from sweeps.trial import Trial
from sweeps.workload import Configuration, accelerator_levers, complete, on_device

CATALOG = Path(__file__).parent / "catalog"
LARGEST_FILE_BYTES = 1_000_000
MOST_TRIALS = 100_000
#: What the analysis adds to the rows it groups and answers; a test holds the two together.
CONCLUSIONS = frozenset(
    {
        *("machine", "verdict", "direction", "estimate", "low", "high", "bracket_low", "bracket_high"),
        *("pairs", "changes", "reasons", "state", "strong", "known_sign"),
        *("log_ratio", "log_ratio_low", "log_ratio_high"),
        *("baseline_s", "baseline_low_s", "baseline_high_s", "baseline_status"),
        *("challenger_s", "challenger_low_s", "challenger_high_s", "challenger_status"),
    }
)
#: Names that a parameter cannot have: all columns, of which SQL knows no upper case, and the seed.
RESERVED = COLUMNS | CONCLUSIONS | {"seed"}
#: What a file says to ask instead where there is no accelerator; `load` takes it out.
OTHERWISE = "without_accelerator"


def _one_line(text: Any) -> Any:
    return " ".join(text.split()) if isinstance(text, str) else text


class Sweep(BaseModel):
    """One question, resolved: every range spelt out, every default filled in.

    Attributes:
        name: Short name; also that of the study folder.
        question: What the sweep answers, for people.
        workload: A family of `sweeps.workload.FAMILIES`, `FILE.py:factory` or `package.module:factory`.
        parameters: Fixed parameters of the workload.
        axes: Values of each varied parameter. The first axis is the one that is solved for.
        targets: Ways to run.
        baseline: Name of the target that the crossover starts from, usually the CPU.
        challenger: Name of the target that may win from some size on, usually the GPU.
        margin: 0.1 asks from where the challenger is at least 10 % faster.
        passes: Replicates of every configuration.
        pairing: `same_node`: the targets of a pair run back to back on one node that serves them all.
            `by_target`: each trial runs on any node that serves it, and its row is marked unpaired.
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

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        self._check_targets()
        self._check_axes()
        if self.size > MOST_TRIALS:
            raise ValueError(f"axes: {self.size} trials are too many; at most {MOST_TRIALS}")
        if not (info.context and info.context.get("stored")):  # the user's file may have moved since
            self.configurations()  # every single one has to be legal
            if self.explain and (is_own(self.workload) or "loader" not in FAMILIES[self.workload].parameters):
                raise ValueError(
                    f"explain: the step of {show(short_name(self.workload))} cannot be taken apart; only those of the "
                    "trainings that ship can"
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

    def joined_with(self, older: Sweep) -> Sweep:
        """Return this sweep widened by what an older run of the same study asked.

        Args:
            older: What the study folder holds.

        Returns:
            A sweep with the axis values, targets and passes of both. The rest is this sweep's.

        Raises:
            InputError: The two do not go together: a target has changed its meaning, or there is too much of it.
        """
        for target in self.targets:
            for other in older.targets:
                if other.name == target.name and other != target:
                    raise InputError(
                        f"targets: {target.name} is another one in the study ({_told(other)}; now {_told(target)}); "
                        "give it another name"
                    )
        names = {target.name for target in self.targets}
        joined = self.model_dump() | {
            "axes": {name: _union(values, older.axes[name]) for name, values in self.axes.items()},
            "targets": [*self.targets, *(t for t in older.targets if t.name not in names)],
            "passes": max(self.passes, older.passes),
        }
        return _checked(joined, "together with what the study holds", context={"stored": True})

    def dump(self) -> str:
        """Return the sweep as the YAML text that `read` takes."""
        return plain_yaml.dump(self.model_dump())


def _told(target: Target) -> str:
    told = {"device": target.device, "threads": "all", **target.described}
    return ", ".join(f"{key}: {value}" for key, value in told.items())


def _union(values: list[Scalar], others: list[Scalar]) -> list[Scalar]:
    both = list(dict.fromkeys((*values, *others)))
    return sorted(both, key=lambda value: (isinstance(value, str), value))


def catalog() -> dict[str, Path]:
    """Return the sweeps that ship: file by name."""
    return {path.stem: path for path in sorted(CATALOG.glob("*.yaml"))}


def load(
    name_or_file: str, *, settings: Sequence[str] = (), targets: Sequence[str] = (), accelerator: bool = True
) -> Sweep:
    """Read a sweep and put what the command line says on top.

    Args:
        name_or_file: A catalog name, or a path that ends in .yaml or .yml.
        settings: `key=value` texts, keys dotted: `passes=5`, `axes.batch_size=32,64`.
        targets: Targets instead of those in the file.
        accelerator: Whether any node has one. A file may say under `without_accelerator` what to ask instead.

    Raises:
        InputError: Unknown name, unreadable or invalid file, bad setting.
    """
    path = _find(name_or_file)
    shown = str(path) if path.parent != CATALOG else f"catalog sweep {path.stem}"
    raw = _parse(path, shown)
    otherwise = raw.pop(OTHERWISE, {})
    if not isinstance(otherwise, dict):
        raise InputError(f"{shown}: {OTHERWISE}: {show(otherwise)} is not allowed; a mapping of keys to replace")
    sources = []  # where a key comes from, the strongest last
    if not accelerator:
        raw |= otherwise
        sources += [(key, f"{shown}: {OTHERWISE}") for key in otherwise]
    for setting in settings:
        sources.append(_apply(raw, setting))
    if targets:
        sources += _choose(raw, [target.strip() for target in targets])
    try:
        if isinstance(raw.get("workload"), str) and ":" in raw["workload"]:
            raw["workload"] = resolve_own(raw["workload"], path.parent)
        return _checked(raw, "")
    except InputError as error:
        place = str(error).partition(": ")[0]
        origin = next((label for key, label in reversed(sources) if _is_within(place, key)), shown)
        raise InputError(f"{origin}: {error}") from None


def read(path: Path) -> Sweep:
    """Read a resolved sweep as a study holds it, without looking for the workload's own file.

    Raises:
        InputError: The file cannot be read or is no sweep.
    """
    return _checked(_parse(path, str(path)), str(path), context={"stored": True})


def _find(name_or_file: str) -> Path:
    if name_or_file.endswith((".yaml", ".yml")):
        return Path(name_or_file)
    known = catalog()
    if name_or_file not in known:
        raise InputError(
            f"no sweep is called {show(name_or_file)}; {', '.join(known)}, or a file that ends in .yaml."
            + did_you_mean(name_or_file, known)
        )
    return known[name_or_file]


def _parse(path: Path, shown: str) -> dict[str, Any]:
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{shown}: is not a file; a sweep file is a short text")
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise InputError(f"{shown}: is larger than {LARGEST_FILE_BYTES} bytes; a sweep file is a short text")
        raw = plain_yaml.parse(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"{shown}: there is no such file (looked in {path.absolute().parent})") from None
    except OSError as error:
        raise InputError(f"{shown}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{shown}: is not UTF-8 text; a sweep file is YAML") from None
    except ValueError as error:
        raise InputError(f"{shown}: {error}") from None
    if not isinstance(raw, dict):
        kind = "is empty" if raw is None else f"holds {show(raw)}"
        raise InputError(f"{shown}: {kind}; a sweep file has the keys {', '.join(_KEYS)}")
    return raw


def _apply(raw: dict[str, Any], setting: str) -> tuple[str, str]:
    """Put `key=value` on top: dotted keys lead into mappings, commas make lists of axis values and targets.

    Returns:
        The key, and the setting as messages show it.
    """
    key, _, text = setting.partition("=")
    *path, last = key.split(".")
    shown = _flag("--set", setting)
    is_text = not path and last in _TEXTS
    if not all([*path, last]) or not key.isprintable() or not (text or is_text):
        raise InputError(f"{shown}: expected key=value, such as passes=5 or axes.batch_size=32,64")
    if _is_within(key, OTHERWISE):
        raise InputError(f"{shown}: only a sweep file can say this")
    in_axes = path == ["axes"]
    is_list = (in_axes or key == "targets") and not text.startswith(("[", "{"))
    try:
        value = text if is_text else plain_yaml.parse(f"[ {text} ]" if is_list else text)
    except ValueError as error:
        raise InputError(f"{shown}: {error}") from None
    place = raw
    for part in path:
        inner = place.setdefault(part, {})
        if not isinstance(inner, dict):
            raise InputError(f"{shown}: {part} holds no keys of its own")
        place = inner
    place[last] = value
    if in_axes and isinstance(raw.get("parameters"), dict):  # what was fixed is now varied
        raw["parameters"].pop(last, None)
    return key, shown


def _choose(raw: dict[str, Any], targets: list[str]) -> list[tuple[str, str]]:
    """Replace the targets, by those of the file where the names are the same; return what `_apply` does."""
    listed = raw["targets"] if isinstance(raw.get("targets"), list) else []
    own = {each["name"]: each for each in listed if isinstance(each, dict) and isinstance(each.get("name"), str)}
    replaced = [own.get(name, name) for name in targets]
    if replaced != listed:
        raw.pop("question", None)  # it speaks of other targets
    raw["targets"] = replaced
    if not all(raw.get(role) in targets for role in ("baseline", "challenger")):
        raw.pop("baseline", None)
        raw.pop("challenger", None)
    return [(key, _flag("--targets", ",".join(targets))) for key in ("targets", "baseline", "challenger")]


def _flag(name: str, text: str) -> str:
    return f"{name} {text if text.isprintable() and len(text) <= 100 else show(text)}"


def _is_within(place: str, key: str) -> bool:
    """Whether one of two dotted keys leads to the other."""
    return f"{place}.".startswith(f"{key}.") or f"{key}.".startswith(f"{place}.")


#: Keys of a file, and those whose value is a text that `--set` takes as it is.
_KEYS = (*Sweep.model_fields, OTHERWISE)
_TEXTS = frozenset(name for name, field in Sweep.model_fields.items() if field.annotation is str)
#: How many parts of a place are keys of ours; what follows is how pydantic names the members of a union.
_DEPTHS = {"targets": 3, "axes": 3, "parameters": 2}


def _checked(raw: dict[str, Any], shown: str, context: Mapping[str, bool] | None = None) -> Sweep:
    try:
        return Sweep.model_validate(raw, context=context)
    except ValidationError as error:
        text = _explain(error)
    except InputError as error:
        text = str(error)
    raise InputError(f"{shown}: {text}" if shown else text)


def _explain(error: ValidationError) -> str:
    """Say the first fault in one line that begins with the key, and how many more there are."""
    faults = error.errors(include_url=False)
    places = [fault["loc"][: _DEPTHS.get(str(fault["loc"][0]), 1)] if fault["loc"] else () for fault in faults]
    kinds = [fault["type"] for fault in faults]
    # A misspelt key explains a missing one; what we say ourselves is better than what a union's members say.
    first = next((kinds.index(kind) for kind in ("extra_forbidden", "value_error") if kind in kinds), 0)
    place, fault = ".".join(map(str, places[first])), faults[first]
    legal, known = _legal(places[first])
    if fault["type"] == "value_error":
        message = fault["msg"].removeprefix("Value error, ")
        text = f"{place}: {message}" if place else message
    elif fault["type"] == "extra_forbidden":
        text = f"{place}: unknown key; {', '.join(known)}.{did_you_mean(str(places[first][-1]), known)}"
    elif fault["type"] == "missing":
        text = f"{place}: this key is missing; {legal}"
    else:
        text = f"{place}: {show(fault['input'])} is not allowed; {legal}"
    others = len(set(places)) - 1
    return text + (f" (and {others} more such mistakes)" if others else "")


def _legal(place: tuple[int | str, ...]) -> tuple[str, Sequence[str]]:
    """Return what may stand at a place, in words, and which keys are known there."""
    key, *inner = place or ("",)
    if key == "targets" and inner:
        field = Target.model_fields.get(str(inner[-1]))
        return (str(field.description) if field else LEGAL), list(Target.model_fields)
    if key == "axes" and inner:
        return "a list such as [32, 64], or {from: 4, to: 4096, factor: 4}", _KEYS
    field = Sweep.model_fields.get(str(key))
    return (str(field.description) if field else ""), _KEYS
