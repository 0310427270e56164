"""Which training workloads can be asked for, and what each can be asked.

Only the questions stand here, so that a sweep can be checked where torch is absent. The answers, the code
that trains, stand in `runner/workloads/`, one file a family; a test holds the two together.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sweeps.errors import InputError, did_you_mean

Value = int | float | str | bool


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A whole-numbered parameter of a family: its default, its smallest legal value, its meaning."""

    default: int
    minimum: int = 1
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Family:
    """A training workload that ships with the program."""

    summary: str
    parameters: Mapping[str, Parameter]


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
    ),
    "mlp": Family(
        summary="a multilayer perceptron with ReLU; a slice of host data copied to the device each step",
        parameters={
            "features": Parameter(default=256, meaning="inputs of the first layer"),
            "width": Parameter(default=256, meaning="units of each hidden layer"),
            "depth": Parameter(default=2, meaning="hidden layers"),
            "classes": Parameter(default=10, minimum=2, meaning="outputs of the last layer"),
            "batch_size": Parameter(default=64, meaning="rows a step"),
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
    candidates = [folder / place, Path(place)]
    path = next((p for p in candidates if p.is_file()), None)
    if path is None:
        raise InputError(f"workload: no file {place} (looked in {folder.resolve()} and in {Path.cwd()})")
    resolved = f"{path.resolve()}:{factory}"
    _signature(resolved)
    return resolved


def source_of(workload: str) -> Path | None:
    """Return the file that holds a user's workload, or None for a family that ships."""
    if not is_own(workload):
        return None
    place, _ = _split(workload)
    if place.endswith(".py"):
        return Path(place)
    try:
        spec = find_spec(place)
    except (ImportError, ValueError):
        spec = None
    return Path(spec.origin) if spec and spec.origin else None


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
            f"workload: {workload!r} is not known; {', '.join(FAMILIES)}, or FILE.py:factory."
            + did_you_mean(workload, FAMILIES)
        )
    known = FAMILIES[workload].parameters
    for name, value in given.items():
        where = f"axes.{name}" if name in axes else f"parameters.{name}"
        if name not in known:
            raise InputError(
                f"{where}: {workload} has no such parameter; {', '.join(known)}." + did_you_mean(name, known)
            )
        minimum = known[name].minimum
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise InputError(f"{where}: {value!r} is not allowed; {name} of {workload} is a whole number >= {minimum}")
    values = {name: given.get(name, parameter.default) for name, parameter in known.items()}
    if workload == "linear" and values["batch_size"] > values["rows"]:  # type: ignore[operator]
        raise InputError(
            f"{'axes' if 'batch_size' in axes else 'parameters'}.batch_size: {values['batch_size']} is more than "
            f"the {values['rows']} rows of the data set; at most rows"
        )
    return values


def _split(workload: str) -> tuple[str, str]:
    place, _, factory = workload.rpartition(":")
    if not place or not factory.isidentifier():
        raise InputError(f"workload: {workload!r} is not FILE.py:factory nor package.module:factory")
    return place, factory


def _signature(workload: str) -> ast.arguments:
    """Read the factory's arguments from its source, without running a line of it."""
    _, factory = _split(workload)
    path = source_of(workload)
    if path is None or not path.is_file():
        raise InputError(f"workload: no module for {workload!r} can be found (is it installed?)")
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except (SyntaxError, ValueError, OSError) as error:
        raise InputError(f"workload: {path} cannot be read as Python: {error}") from None
    functions = {node.name: node.args for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in tree.body:  # a class is a factory too: its constructor has the arguments
        if isinstance(node, ast.ClassDef):
            methods = {m.name: m.args for m in node.body if isinstance(m, ast.FunctionDef)}
            functions[node.name] = methods.get("__init__", _ANYTHING)
    if factory not in functions:
        legal = ", ".join(name for name in functions if not name.startswith("_")) or "none"
        raise InputError(f"workload: {path.name} has no function or class {factory!r}; it has: {legal}")
    return functions[factory]


_ANYTHING = ast.arguments(
    posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=ast.arg(arg="_"), defaults=[]
)


def _complete_own(workload: str, given: Mapping[str, Value], axes: tuple[str, ...]) -> dict[str, Value]:
    arguments = _signature(workload)
    every = [a.arg for a in (*arguments.args, *arguments.kwonlyargs) if a.arg not in ("self", "seed")]
    positional = len(arguments.args) - len(arguments.defaults)
    required = [a.arg for a in arguments.args[:positional] if a.arg not in ("self", "seed")]
    required += [
        a.arg
        for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None and a.arg != "seed"
    ]
    for name in given:
        if arguments.kwarg is None and name not in every:
            where = f"axes.{name}" if name in axes else f"parameters.{name}"
            raise InputError(
                f"{where}: {short_name(workload)} takes no such argument; {', '.join(every) or 'none'}."
                + did_you_mean(name, every)
            )
    if missing := [name for name in required if name not in given]:
        raise InputError(f"parameters: {short_name(workload)} also needs {', '.join(missing)}")
    return dict(given)
