"""Sweep files: from YAML, with what the command line says on top, to a checked sweep.

`load` is the front door: a catalog name or a file, with `--set` and `--targets` on top, becomes a checked
`Sweep`; whatever is wrong becomes one `InputError` that names file, key, value and what is legal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sweeps import plain_yaml
from sweeps.axis import Scalar, Span, values_of
from sweeps.definition import Sweep
from sweeps.errors import InputError, did_you_mean, show
from sweeps.own import is_own, resolve_own, short_name
from sweeps.target import LEGAL, Target

CATALOG = Path(__file__).parent / "catalog"
LARGEST_FILE_BYTES = 1_000_000
#: What a file says to ask instead where there is no accelerator; `load` takes it out.
OTHERWISE = "without_accelerator"


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
    return _asked(_parse(_content(path, shown), shown), shown, path.parent, settings, targets, accelerator)


def load_again(content: bytes, shown: str, *, settings: Sequence[str] = (), targets: Sequence[str] = ()) -> Sweep:
    """Read the resolved sweep of a study to ask the same again, with what the command line says on top.

    Args:
        content: Of its sweep.yaml, which may come from another machine: where the file of a user's own workload is not
            where it was there, one of that name is looked for here.
        shown: Its name, for messages.
        settings: As `load` takes them.
        targets: Likewise.

    Raises:
        InputError: It is no sweep, the workload's file is not here, or a bad setting.
    """
    raw = _parse(content, shown)
    workload = raw.get("workload")
    if isinstance(workload, str) and is_own(workload) and not Path(workload.rpartition(":")[0]).is_file():
        raw["workload"] = short_name(workload)
    if "strategy=grid" in settings:  # what a search alone needs came from the study, and is nobody's mistake
        raw = {key: value for key, value in raw.items() if key not in ("half_width", "max_pairs")}
    return _asked(raw, shown, Path.cwd(), settings, targets, accelerator=True)


def _asked(
    raw: dict[str, Any],
    shown: str,
    folder: Path,
    settings: Sequence[str],
    targets: Sequence[str],
    accelerator: bool,
) -> Sweep:
    """Put what the command line says on top of what a file says, and check it; `folder` is where that lies."""
    otherwise = raw.pop(OTHERWISE, {})
    if not isinstance(otherwise, dict):
        raise InputError(f"{shown}: {OTHERWISE}: {show(otherwise)} is not allowed; a mapping of keys to replace")
    sources = []  # where a key comes from, the strongest last
    if not accelerator:
        raw |= otherwise
        sources += [(key, f"{shown}: {OTHERWISE}") for key in otherwise]
    if any(setting.startswith("strategy=") for setting in settings):
        raw.pop("passes", None)  # those of the file's own strategy
    for setting in settings:
        sources.append(_apply(raw, setting))
    if targets:
        sources += _choose(raw, [target.strip() for target in targets])
    try:
        if isinstance(raw.get("workload"), str) and ":" in raw["workload"]:
            raw["workload"] = resolve_own(raw["workload"], folder)
        return _checked(raw, "")
    except InputError as error:
        place = str(error).partition(": ")[0]
        origin = next((label for key, label in reversed(sources) if _is_within(place, key)), shown)
        raise InputError(f"{origin}: {error}") from None


def read(content: bytes, shown: str) -> Sweep:
    """Read a resolved sweep as a study holds it, without looking for the workload's own file.

    Args:
        content: Of the file.
        shown: Its name, for messages.

    Raises:
        InputError: It is no sweep.
    """
    return _checked(_parse(content, shown), shown, context={"stored": True})


def join(newer: Sweep, older: Sweep) -> Sweep:
    """Return a sweep widened by what an older run of the same study asked.

    Args:
        newer: What is asked now.
        older: What the study folder holds.

    Returns:
        A sweep with the axis values, targets and passes of both, and the price of a target where one of them has it.
        The rest is that of the newer. A search may follow a grid, whose rows it uses.

    Raises:
        InputError: The two do not go together: a target has changed its meaning, a grid or another search would follow
            a search, or there is too much of it.
    """
    if newer.strategy != older.strategy != "grid":
        raise InputError(
            f"strategy: the study was measured with strategy: {older.strategy}, which a {newer.strategy} sweep cannot "
            "go on with"
        )
    for target in newer.targets:
        for other in older.targets:
            if other.name == target.name and other.described != target.described:
                raise InputError(
                    f"targets: {target.name} is another one in the study ({_told(other)}; now {_told(target)}); "
                    "give it another name"
                )
    known = {target.name: target for target in older.targets}
    joined = newer.model_dump() | {
        "axes": {name: _union(values, older.axes[name]) for name, values in newer.axes.items()},
        "targets": [*(t.priced_as(known.pop(t.name, t)) for t in newer.targets), *known.values()],
        "passes": max(newer.passes, older.passes) if newer.strategy == "grid" or newer.explain else newer.passes,
    }
    return _checked(joined, "together with what the study holds", context={"stored": True})


def _told(target: Target) -> str:
    told = {"device": target.device, "threads": "all", **target.described}
    return ", ".join(f"{key}: {value}" for key, value in told.items())


def _union(values: list[Scalar] | Span, others: list[Scalar] | Span) -> list[Scalar] | Span:
    """Return the values of both; where one is a span, a span that holds those of the other too."""
    if isinstance(values, Span) or isinstance(others, Span):
        sizes = [size for axis in (values, others) for size in values_of(axis)]
        numbers = [size for size in sizes if not isinstance(size, bool | str)]
        if len(numbers) < len(sizes):
            return sizes  # which are refused together
        if all(isinstance(size, int) for size in numbers):
            return Span(low=min(numbers), high=max(numbers))
        return Span(low=float(min(numbers)), high=float(max(numbers)))
    both = list(dict.fromkeys((*values, *others)))
    return sorted(both, key=lambda value: (isinstance(value, str), value))


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


def _content(path: Path, shown: str) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{shown}: is not a file; a sweep file is a short text")
        with path.open("rb") as file:
            return file.read(LARGEST_FILE_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"{shown}: there is no such file (looked in {path.absolute().parent})") from None
    except OSError as error:
        raise InputError(f"{shown}: cannot be read: {error.strerror}") from None


def _parse(content: bytes, shown: str) -> dict[str, Any]:
    if len(content) > LARGEST_FILE_BYTES:
        raise InputError(f"{shown}: is larger than {LARGEST_FILE_BYTES} bytes; a sweep file is a short text")
    try:
        raw = plain_yaml.parse(content.decode("utf-8-sig"))
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
