"""A sweep: named axes over a workload, the targets to compare, and how often. Read from YAML.

`load` is the front door: a catalog name or a file, with `--set` and `--targets` on top, becomes a checked
`Sweep`; whatever is wrong becomes one `InputError` that names file, key, value and what is legal.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from sweeps.errors import InputError, did_you_mean
from sweeps.record import COLUMNS
from sweeps.target import Target
from sweeps.trial import Trial
from sweeps.workload import Value, complete, resolve_own

CATALOG = Path(__file__).parent / "catalog"
LARGEST_FILE_BYTES = 1_000_000
MOST_VALUES = 1_000
MOST_TRIALS = 100_000

Scalar = StrictBool | StrictInt | StrictFloat | StrictStr


def _axis(value: Any) -> Any:
    """Turn `{from, to, factor}` or `{from, to, steps}` into the list of values it stands for."""
    if isinstance(value, Mapping):
        return _range(value)
    if not isinstance(value, list | tuple):
        raise ValueError("expected a list such as [32, 64], or {from: 4, to: 4096, factor: 4}")
    return list(value)


def _range(given: Mapping[str, Any]) -> list[float]:
    if not {"from", "to"} <= set(given) or len(given) != 3 or not {"factor", "steps"} & set(given):
        raise ValueError("a range has the keys from, to and either factor or steps")
    for key, number in given.items():
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            raise ValueError(f"{key}: {number!r} is not a number")
    low, high = given["from"], given["to"]
    if not 0 < low <= high:
        raise ValueError(f"from {low} to {high}: from must be above 0 and not above to")
    if "factor" in given:
        factor = given["factor"]
        if factor <= 1:
            raise ValueError(f"factor: {factor} is not above 1")
        count = math.floor(math.log(high / low) / math.log(factor) + 1e-9) + 1
    else:
        count = given["steps"]
        if not isinstance(count, int) or count < 2:
            raise ValueError(f"steps: {count} is not a whole number >= 2")
        factor = (high / low) ** (1 / (count - 1))
    if count > MOST_VALUES:
        raise ValueError(f"{count} values are too many; at most {MOST_VALUES}")
    values = [low * factor**k for k in range(count)]
    if isinstance(low, int) and isinstance(high, int):
        return list(dict.fromkeys(round(v) for v in values))
    return values


def _distinct(values: list[Any]) -> list[Any]:
    if not values:
        raise ValueError("the list is empty; at least one value")
    if len(values) > MOST_VALUES:
        raise ValueError(f"{len(values)} values are too many; at most {MOST_VALUES}")
    if repeated := [v for v in dict.fromkeys(values) if values.count(v) > 1]:
        raise ValueError(f"{repeated[0]!r} is there twice")
    return values


Axis = Annotated[list[Scalar], BeforeValidator(_axis), AfterValidator(_distinct)]


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
        seed: Seed of weights, data and of the random order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    question: str = ""
    workload: StrictStr
    parameters: dict[str, Scalar] = {}
    axes: dict[str, Axis] = Field(min_length=1)
    targets: list[Target] = Field(min_length=2)
    baseline: StrictStr = ""
    challenger: StrictStr = ""
    margin: float = Field(default=0.0, ge=0.0, lt=1.0)
    passes: int = Field(default=3, ge=1, le=1000, strict=True)
    pairing: Literal["same_node", "by_target"] = "same_node"
    deadline_s: float = Field(default=120.0, gt=0.0, le=86_400.0)
    seed: int = Field(default=0, ge=0, lt=2**32, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _default_rivals(cls, value: Any) -> Any:
        """Compare the first target with the second where the file does not say."""
        if isinstance(value, dict) and isinstance(value.get("targets"), list) and len(value["targets"]) > 1:
            names = [t.get("name") if isinstance(t, dict) else t for t in value["targets"]]
            value = {"baseline": names[0], "challenger": names[1]} | value
        return value

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        names = [target.name for target in self.targets]
        if repeated := [n for n in dict.fromkeys(names) if names.count(n) > 1]:
            raise ValueError(f"targets: {repeated[0]} is there twice")
        for role in ("baseline", "challenger"):
            name = getattr(self, role)
            if name not in names:
                raise ValueError(f"{role}: {name!r} is not one of the targets; {', '.join(names)}")
        if self.baseline == self.challenger:
            raise ValueError(f"challenger: {self.challenger!r} is the baseline too; name another target")
        for name in (*self.axes, *self.parameters):
            where = "axes" if name in self.axes else "parameters"
            if not name.isidentifier() or name in COLUMNS or name == "seed":
                raise ValueError(f"{where}.{name}: this name is taken by a column of the results; choose another")
        if both := set(self.axes) & set(self.parameters):
            raise ValueError(f"parameters.{min(both)}: is an axis too; give it in one place")
        for value in self.axes[self.axis]:
            if isinstance(value, bool | str) or not (math.isfinite(value) and value > 0):
                raise ValueError(
                    f"axes.{self.axis}: {value!r} is not allowed; the axis that is solved for has numbers above 0"
                )
        if self.size > MOST_TRIALS:
            raise ValueError(f"axes: {self.size} trials are too many; at most {MOST_TRIALS}")
        if not (info.context and info.context.get("stored")):  # the user's file may have moved since
            self.configurations()  # every single one has to be legal
        return self

    @property
    def axis(self) -> str:
        """The axis that is solved for."""
        return next(iter(self.axes))

    @property
    def size(self) -> int:
        """How many trials the sweep plans."""
        return math.prod(len(values) for values in self.axes.values()) * len(self.targets) * self.passes

    def target(self, name: str) -> Target:
        """Return the target of that name."""
        return next(target for target in self.targets if target.name == name)

    def configurations(self) -> list[dict[str, Value]]:
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
        targets within a pair: drift of the machine then falls on all sizes and targets alike.
        """
        plan = []
        configurations = self.configurations()
        for index in range(self.passes):
            order = random.Random(f"{self.seed}/{index}")
            for parameters in order.sample(configurations, len(configurations)):
                targets = order.sample(self.targets, len(self.targets))
                plan.append([self._trial(parameters, index, target, place) for place, target in enumerate(targets)])
        return plan

    def _trial(self, parameters: Mapping[str, Value], pass_index: int, target: Target, place: int) -> Trial:
        return Trial(
            sweep=self.name,
            workload=self.workload,
            parameters=parameters,
            target=target,
            pass_index=pass_index,
            pair_order=place,
            paired=self.pairing == "same_node",
            seed=self.seed,
            deadline_s=self.deadline_s,
        )

    def joined_with(self, older: Sweep) -> Sweep:
        """Return this sweep widened by what an older run of the same study asked.

        Args:
            older: What the study folder holds.

        Returns:
            A sweep with the axis values, targets and passes of both. The rest is this sweep's.
        """
        axes = {name: sorted({*older.axes[name], *values}, key=_numbers_first) for name, values in self.axes.items()}
        names = [target.name for target in self.targets]
        targets = [*self.targets, *(t for t in older.targets if t.name not in names)]
        return self.model_copy(update={"axes": axes, "targets": targets, "passes": max(self.passes, older.passes)})

    def dump(self) -> str:
        """Return the sweep as the YAML text that `read` takes."""
        return yaml.safe_dump(self.model_dump(), sort_keys=False, allow_unicode=True, width=100)


def _numbers_first(value: Value) -> tuple[bool, float, str]:
    return (True, 0.0, value) if isinstance(value, str) else (False, float(value), "")


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
    otherwise = raw.pop("without_accelerator", {})
    if not isinstance(otherwise, dict):
        raise InputError(f"{shown}: without_accelerator: a mapping of keys to replace is expected")
    if not accelerator:
        raw |= otherwise
    for setting in settings:
        _apply(raw, setting)
    if targets:
        raw["targets"] = list(targets)
        if not {raw.get("baseline"), raw.get("challenger")} <= set(targets):
            raw.pop("baseline", None)
            raw.pop("challenger", None)
    return _validate(raw, shown, path.parent)


def read(path: Path) -> Sweep:
    """Read a resolved sweep as a study holds it, without looking for the workload's own file.

    Raises:
        InputError: The file cannot be read or is no sweep.
    """
    raw = _parse(path, str(path))
    try:
        return Sweep.model_validate(raw, context={"stored": True})
    except ValidationError as error:
        raise InputError(_explain(error, str(path))) from None


def _find(name_or_file: str) -> Path:
    if name_or_file.endswith((".yaml", ".yml")):
        path = Path(name_or_file)
        if not path.is_file():
            raise InputError(f"sweep file {name_or_file} does not exist (looked in {Path.cwd()})")
        return path
    known = catalog()
    if name_or_file not in known:
        raise InputError(
            f"no sweep is called {name_or_file!r}; {', '.join(known)}, or a file that ends in .yaml."
            + did_you_mean(name_or_file, known)
        )
    return known[name_or_file]


class _Loader(yaml.SafeLoader):
    """Plain YAML only: no aliases, which can grow without bound, and no key twice, which hides a value."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(None, None, "aliases (*name) are not allowed", event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} is there twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def _parse(path: Path, shown: str) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise InputError(f"{shown}: larger than {LARGEST_FILE_BYTES} bytes; a sweep file is a short text")
        raw = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506  (a SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{shown}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        place = f" line {mark.line + 1}" if mark else ""
        raise InputError(f"{shown}:{place} is not plain YAML: {getattr(error, 'problem', None) or error}") from None
    except RecursionError:
        raise InputError(f"{shown}: is nested too deeply for a sweep file") from None
    if not isinstance(raw, dict):
        kind = "empty" if raw is None else f"a {type(raw).__name__}"
        raise InputError(f"{shown}: is {kind}; a sweep file has the keys {', '.join(Sweep.model_fields)}")
    return {str(key): value for key, value in raw.items()}


def _apply(raw: dict[str, Any], setting: str) -> None:
    key, found, text = setting.partition("=")
    if not found or not key:
        raise InputError(f"--set {setting}: expected key=value, such as passes=5 or axes.batch_size=32,64")
    try:
        value = yaml.load(f"[{text}]" if "," in text else text, Loader=_Loader)  # noqa: S506  (a SafeLoader)
    except yaml.YAMLError:
        raise InputError(f"--set {setting}: {text!r} is not a plain value, nor values with commas") from None
    *path, last = key.split(".")
    place = raw
    for part in path:
        inner = place.setdefault(part, {})
        if not isinstance(inner, dict):
            raise InputError(f"--set {setting}: {part} holds no keys of its own")
        place = inner
    in_axes = path == ["axes"]
    place[last] = [value] if in_axes and not isinstance(value, list | dict) else value
    if in_axes:  # what was fixed is now varied
        raw.get("parameters", {}).pop(last, None)


def _validate(raw: dict[str, Any], shown: str, folder: Path) -> Sweep:
    try:
        if isinstance(raw.get("workload"), str) and ":" in raw["workload"]:
            raw["workload"] = resolve_own(raw["workload"], folder)
        return Sweep.model_validate(raw)
    except ValidationError as error:
        raise InputError(_explain(error, shown)) from None
    except InputError as error:
        raise InputError(f"{shown}: {error}") from None


#: How pydantic names the members of a union within a place; no key of ours.
_SCALAR_TYPES = frozenset({"bool", "int", "float", "str", "literal['all']"})


def _explain(error: ValidationError, shown: str) -> str:
    """Say the first fault in one line, and how many more there are."""
    faults = error.errors(include_url=False)
    first = next((f for f in faults if f["type"] == "extra_forbidden"), faults[0])
    place = ".".join(str(part) for part in first["loc"] if str(part) not in _SCALAR_TYPES)
    value = first["input"]
    if first["type"] == "extra_forbidden":
        known = _known_keys(first["loc"])
        text = f"{place}: unknown key; {', '.join(known)}.{did_you_mean(str(first['loc'][-1]), known)}"
    elif first["type"] == "missing":
        text = f"{place}: this key is missing"
    else:
        message = first["msg"].removeprefix("Value error, ")
        text = message if not place or message.startswith(place) else f"{place}: {_shown_value(value)}{_legal(message)}"
    more = f" (and {len(faults) - 1} more)" if len({f["loc"][:2] for f in faults}) > 1 else ""
    return f"{shown}: {text}{more}"


def _known_keys(place: Iterable[int | str]) -> list[str]:
    return list(Target.model_fields if "targets" in place else Sweep.model_fields)


def _shown_value(value: Any) -> str:
    text = repr(value)
    return "" if len(text) > 60 else f"{text} is not allowed; "


def _legal(message: str) -> str:
    return message[0].lower() + message[1:]
