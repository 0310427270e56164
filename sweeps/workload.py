"""Which training workloads can be asked for, and what each can be asked.

Only the questions stand here, so that a sweep can be checked where torch is absent. The answers, the code
that trains, stand in `runner/workloads/`, one file a family; a test holds the two together.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sweeps.errors import InputError, did_you_mean, show

Value = int | float | str | bool


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A whole-numbered parameter of a family: its default, its smallest legal value, its meaning."""

    default: int
    minimum: int = 1
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What the parameters of a family have to be to each other."""

    parameter: str
    """The one that is wrong where the rule does not hold."""
    holds: Callable[[Mapping[str, Any]], bool]
    otherwise: str
    """What is said then, with `{name}` for the value of a parameter."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """A training workload that ships with the program."""

    summary: str
    parameters: Mapping[str, Parameter]
    rules: tuple[Rule, ...] = ()


CLASSES = Parameter(default=10, minimum=2, meaning="outputs of the last layer")

LSTM: Mapping[str, Parameter] = {
    "features": Parameter(default=64, meaning="inputs at each place of the sequence"),
    "hidden": Parameter(default=128, meaning="units of the layer"),
    "sequence": Parameter(default=32, meaning="places of a sequence"),
    "classes": CLASSES,
    "batch_size": Parameter(default=32, meaning="sequences a step"),
}

RESIDUAL: Mapping[str, Parameter] = {
    "features": Parameter(default=256, meaning="inputs of the first layer"),
    "width": Parameter(default=256, meaning="units of each layer"),
    "depth": Parameter(default=16, meaning="layers with a decision, between the first and the last"),
    "classes": CLASSES,
    "batch_size": Parameter(default=64, meaning="rows a step"),
}

FAMILIES: Mapping[str, Family] = {
    "linear": Family(
        summary="the tutorial: one linear layer, DataLoader with per-sample access, loss read every step",
        parameters={
            "rows": Parameter(default=10_000, meaning="random rows in the data set"),
            "features": Parameter(default=1_000, meaning="inputs of the layer"),
            "classes": Parameter(default=10, minimum=2, meaning="outputs of the layer"),
            "batch_size": Parameter(default=32, meaning="rows a step"),
            "epochs": Parameter(default=10, minimum=0, meaning="epochs of the whole training; 0 leaves it out"),
        },
        rules=(
            Rule(
                parameter="batch_size",
                holds=lambda values: values["batch_size"] <= values["rows"],
                otherwise="{batch_size} is more than the {rows} rows of the data set; at most rows",
            ),
        ),
    ),
    "mlp": Family(
        summary="a multilayer perceptron with ReLU; a slice of host data copied to the device each step",
        parameters={
            "features": Parameter(default=256, meaning="inputs of the first layer"),
            "width": Parameter(default=256, meaning="units of each hidden layer"),
            "depth": Parameter(default=2, meaning="hidden layers"),
            "classes": CLASSES,
            "batch_size": Parameter(default=64, meaning="rows a step"),
        },
    ),
    "cnn": Family(
        summary="a convolutional network: three convolutions, batch norm, max pool",
        parameters={
            "channels": Parameter(default=16, meaning="channels of the first convolution; then twice, four times"),
            "image": Parameter(default=32, minimum=4, meaning="height and width of an image, which has three colours"),
            "classes": CLASSES,
            "batch_size": Parameter(default=32, meaning="images a step"),
        },
    ),
    "transformer": Family(
        summary="a transformer encoder that classifies sequences of tokens; its attention is written out",
        parameters={
            "vocabulary": Parameter(default=1_000, meaning="different tokens"),
            "width": Parameter(default=128, meaning="numbers that stand for a token"),
            "layers": Parameter(default=2, meaning="blocks of attention and feed-forward network"),
            "heads": Parameter(default=4, meaning="parts of the width that attend for themselves"),
            "sequence": Parameter(default=64, meaning="tokens of a sequence"),
            "classes": CLASSES,
            "batch_size": Parameter(default=16, meaning="sequences a step"),
        },
        rules=(
            Rule(
                parameter="heads",
                holds=lambda values: values["width"] % values["heads"] == 0,
                otherwise="{heads} heads cannot share a width of {width}; width is a multiple of heads",
            ),
        ),
    ),
    "lstm_loop": Family(summary="a recurrent network with its cell in a Python loop", parameters=LSTM),
    "lstm_fused": Family(summary="the same by torch's own layer: equal arithmetic, few operators", parameters=LSTM),
    "branching": Family(summary="a data-dependent `if` in every layer, decided on the host", parameters=RESIDUAL),
    "straight": Family(summary="the same values without an `if`: nothing is read on the host", parameters=RESIDUAL),
    "embedding": Family(
        summary="bags of embedded words: memory traffic, hardly any arithmetic",
        parameters={
            "vocabulary": Parameter(default=10_000, meaning="rows of the table"),
            "width": Parameter(default=64, meaning="numbers a row"),
            "bag": Parameter(default=32, meaning="words that are averaged"),
            "classes": CLASSES,
            "batch_size": Parameter(default=128, meaning="bags a step"),
        },
    ),
}


def is_own(workload: str) -> bool:
    """Whether the name points to code of the user's: `FILE.py:factory` or `package.module:factory`."""
    return ":" in workload


def resolve_own(workload: str, folder: Path) -> str:
    """Make the file of `FILE.py:factory` absolute, looking beside the sweep file first, then here.

    Raises:
        InputError: There is no such file or module, or it has no such factory.
    """
    place, factory = _split(workload)
    if not place.endswith(".py"):
        _signature(workload)
        return workload
    places = dict.fromkeys(each.resolve() for each in (folder, Path.cwd()))
    path = next((each / place for each in places if (each / place).is_file()), None)
    if path is None:
        raise InputError(f"workload: there is no file {place} in {' nor in '.join(map(str, places))}")
    resolved = f"{path.resolve()}:{factory}"
    _signature(resolved)
    return resolved


def source_of(workload: str) -> Path | None:
    """Return the file that holds a user's workload, or None for a family that ships.

    Raises:
        InputError: The package that should hold it cannot be imported.
    """
    if not is_own(workload):
        return None
    place, _ = _split(workload)
    if place.endswith(".py"):
        return Path(place)
    try:
        spec = find_spec(place)
    except ModuleNotFoundError:
        return None
    except Exception as error:  # noqa: BLE001  (looking for package.module runs the package's own code)
        raise InputError(f"workload: {place} cannot be imported: {type(error).__name__}: {error}") from None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def short_name(workload: str) -> str:
    """Return the name without the folder: what rows, tables and identities hold."""
    if not is_own(workload):
        return workload
    place, factory = _split(workload)
    return f"{Path(place).name}:{factory}" if place.endswith(".py") else workload


def complete(workload: str, given: Mapping[str, Value], axes: tuple[str, ...]) -> dict[str, Value]:
    """Check the parameters of one configuration and fill in the defaults.

    Args:
        workload: A family, or a resolved `FILE.py:factory` or `package.module:factory`.
        given: Every parameter that the sweep fixes, axis values included.
        axes: Which of them are axes: the message says so.

    Raises:
        InputError: An unknown workload or parameter, or a value that is not legal.
    """
    if is_own(workload):
        return _complete_own(workload, given, axes)
    if workload not in FAMILIES:
        raise InputError(
            f"workload: {show(workload)} is not known; {', '.join(FAMILIES)}, or FILE.py:factory."
            + did_you_mean(workload, FAMILIES)
        )
    known = FAMILIES[workload].parameters
    for name, value in given.items():
        where = _where(name, axes)
        if name not in known:
            raise InputError(
                f"{where}: {workload} has no such parameter; {', '.join(known)}." + did_you_mean(name, known)
            )
        minimum = known[name].minimum
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise InputError(
                f"{where}: {show(value)} is not allowed; {name} of {workload} is a whole number >= {minimum}"
                + (f" (write {value:.0f})" if isinstance(value, float) and value.is_integer() else "")
            )
    values = {name: given.get(name, parameter.default) for name, parameter in known.items()}
    for rule in FAMILIES[workload].rules:
        if not rule.holds(values):
            raise InputError(f"{_where(rule.parameter, axes)}: {rule.otherwise.format_map(values)}")
    return values


def _where(name: str, axes: tuple[str, ...]) -> str:
    return f"axes.{name}" if name in axes else f"parameters.{name}"


def _split(workload: str) -> tuple[str, str]:
    place, _, factory = workload.rpartition(":")
    if not place or not factory.isidentifier():
        raise InputError(f"workload: {show(workload)} is not FILE.py:factory nor package.module:factory")
    return place, factory


#: The arguments of what takes any.
_ANYTHING = ast.parse("def factory(**parameters): ...").body[0].args  # type: ignore[attr-defined]


def _signature(workload: str) -> ast.arguments:
    """Read the factory's arguments from its source, without running a line of it."""
    _, factory = _split(workload)
    path = source_of(workload)
    if path is None or not path.is_file():
        raise InputError(f"workload: no module for {show(workload)} can be found (is it installed?)")
    try:
        factories = _factories(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise InputError(f"workload: {path} is not UTF-8 text") from None
    except OSError as error:
        raise InputError(f"workload: {path} cannot be read: {error.strerror}") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f" line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        reason = getattr(error, "msg", None) or str(error) or "nested too deeply"
        raise InputError(f"workload: {path}{line} is not Python: {reason}") from None
    if factory not in factories:
        legal = [name for name, arguments in factories.items() if arguments and not name.startswith("_")]
        raise InputError(
            f"workload: {path.name} has no function or class {factory}; it has: {', '.join(legal) or 'none'}."
            + did_you_mean(factory, legal)
        )
    return factories[factory] or _ANYTHING


@functools.lru_cache(maxsize=8)  # asked again for every configuration
def _factories(source: str) -> dict[str, ast.arguments | None]:
    """Return what a module names, with the arguments that a call takes; None where the source does not say."""
    found: dict[str, ast.arguments | None] = {}
    tree = ast.parse(source)
    for node in ast.walk(tree):  # what is imported or assigned can be a factory too
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = None
        elif isinstance(node, ast.alias):
            found[node.asname or node.name] = None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = _ANYTHING if node.decorator_list else node.args
        elif isinstance(node, ast.ClassDef):  # its constructor has the arguments
            methods = {m.name: m.args for m in node.body if isinstance(m, ast.FunctionDef)}
            found[node.name] = methods.get("__init__", _ANYTHING)
    return found


def _complete_own(workload: str, given: Mapping[str, Value], axes: tuple[str, ...]) -> dict[str, Value]:
    arguments = _signature(workload)
    every = [a.arg for a in (*arguments.args, *arguments.kwonlyargs)]
    positional = len(arguments.args) - len(arguments.defaults)
    required = [a.arg for a in arguments.args[:positional]]
    required += [
        a.arg for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None
    ]
    own = [name for name in every if name not in ("self", "seed")]
    if arguments.kwarg is None:
        if "seed" not in every:
            raise InputError(f"workload: {short_name(workload)} takes no seed; it is called with seed=... by name")
        for name in given:
            if name not in own:
                raise InputError(
                    f"{_where(name, axes)}: {short_name(workload)} takes no such argument; {', '.join(own) or 'none'}."
                    + did_you_mean(name, own)
                )
    if missing := [name for name in required if name in own and name not in given]:
        raise InputError(f"parameters: {short_name(workload)} also needs {', '.join(missing)}")
    return dict(given)
