"""A workload of the user's own: where its code lies, and which arguments it takes, read without running a line."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from sweeps.errors import InputError, did_you_mean, show
from sweeps.parameter import Value, key_of

#: The argument by which a factory is told what to leave out of its steps; a sweep cannot give it.
RUNG = "rung"


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


def complete_own(workload: str, given: Mapping[str, Value], axes: tuple[str, ...]) -> dict[str, Value | None]:
    """Check the arguments of a user's factory; those that are not given keep the defaults of its code.

    Raises:
        InputError: It takes no such argument, or needs another one.
    """
    arguments = _signature(workload)
    every = _names(arguments)
    positional = len(arguments.args) - len(arguments.defaults)
    required = [a.arg for a in arguments.args[:positional]]
    required += [
        a.arg for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None
    ]
    own = [name for name in every if name not in ("self", "seed", RUNG)]
    if arguments.kwarg is None:
        if "seed" not in every:
            raise InputError(f"workload: {short_name(workload)} takes no seed; it is called with seed=... by name")
        for name in given:
            if name not in own:
                raise InputError(
                    f"{key_of(name, axes)}: {short_name(workload)} takes no such argument; {', '.join(own) or 'none'}."
                    + did_you_mean(name, own)
                )
    if missing := [name for name in required if name in own and name not in given]:
        raise InputError(f"parameters: {short_name(workload)} also needs {', '.join(missing)}")
    return dict(given)


def takes_rung(workload: str, source: str | None = None) -> bool:
    """Whether a user's factory names the argument `rung`, and so can make a step with something taken away.

    What takes any argument (`**parameters`) does not name it.

    Args:
        workload: `FILE.py:factory` or `package.module:factory`.
        source: Text of its file, which then need not exist on this machine.

    Raises:
        InputError: There is no such factory.
    """
    return RUNG in _names(_signature(workload, source))


def rungs_named(workload: str, source: str | None = None) -> tuple[str, ...] | None:
    """Return the rungs that a user's factory names where it is told one: `rung: Literal["e2e", "preload", "twin"]`.

    Args:
        workload: `FILE.py:factory` or `package.module:factory`.
        source: Text of its file, which then need not exist on this machine.

    Returns:
        The texts of the annotation; None where it is another one, or there is none.

    Raises:
        InputError: There is no such factory.
    """
    arguments = _signature(workload, source)
    for argument in (*arguments.args, *arguments.kwonlyargs):
        hint = argument.annotation
        if argument.arg == RUNG and isinstance(hint, ast.Subscript) and ast.unparse(hint.value).endswith("Literal"):
            values = hint.slice.elts if isinstance(hint.slice, ast.Tuple) else [hint.slice]
            return tuple(str(value.value) for value in values if isinstance(value, ast.Constant))
    return None


def _split(workload: str) -> tuple[str, str]:
    place, _, factory = workload.rpartition(":")
    if not place or not factory.isidentifier():
        raise InputError(f"workload: {show(workload)} is not FILE.py:factory nor package.module:factory")
    return place, factory


#: The arguments of what takes any.
_ANYTHING = ast.parse("def factory(**parameters): ...").body[0].args  # type: ignore[attr-defined]


def _names(arguments: ast.arguments) -> list[str]:
    """Return what can be given by name."""
    return [a.arg for a in (*arguments.args, *arguments.kwonlyargs)]


def _signature(workload: str, source: str | None = None) -> ast.arguments:
    """Read the factory's arguments from its source, without running a line of it."""
    place, factory = _split(workload)
    if source is None:
        place, source = _read(workload)
    path = Path(place)
    try:
        factories = _factories(source)
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


def _read(workload: str) -> tuple[str, str]:
    """Return the place and the text of the file that holds a user's workload."""
    path = source_of(workload)
    if path is None or not path.is_file():
        raise InputError(f"workload: no module for {show(workload)} can be found (is it installed?)")
    try:
        return str(path), path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"workload: {path} is not UTF-8 text") from None
    except OSError as error:
        raise InputError(f"workload: {path} cannot be read: {error.strerror}") from None


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
