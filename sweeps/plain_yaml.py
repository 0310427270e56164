"""Plain YAML: mappings, lists, texts, numbers and truth values, and nothing that can surprise.

A sweep file comes from anywhere, so what makes YAML dangerous or misleading is refused: aliases, which can grow
without bound; tags, which name Python objects; a key that is there twice, which hides a value; deep nesting. Scalars
are read by the rules of YAML 1.2: `1e-3` is a number, and `on`, `010`, `1:30` and `2026-01-31` are texts.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

MOST_LEVELS = 20

#: Tag, its form, and the characters that it can begin with. What has none of these forms is text.
_SCALARS = (
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("tag:yaml.org,2002:int", r"[-+]?(0|[1-9][0-9_]*)", list("-+0123456789")),
    (
        "tag:yaml.org,2002:float",
        r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
)


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  (the library's own form)
    _level = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise _refusal("aliases (*name) are not allowed", event)
        if tag := getattr(event, "tag", None):
            raise _refusal(f"tags ({tag.replace('tag:yaml.org,2002:', '!!')}) are not allowed", event)
        if self._level == MOST_LEVELS:
            raise _refusal(f"more than {MOST_LEVELS} levels of nesting are not allowed", event)
        self._level += 1
        node = super().compose_node(parent, index)
        self._level -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or not key.value.isprintable():
                raise _refusal("a key has to be a name", key)
            if key.value in values:
                raise _refusal(f"the key {key.value} is there twice", key)
            values[key.value] = self.construct_object(value, deep=True)
        return values


class _Dumper(yaml.SafeDumper):
    """Quotes a text wherever one of the two generations of YAML would take it for something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _tag, _form, _first in _SCALARS:
    _pattern = re.compile(f"^(?:{_form})$")
    _Loader.add_implicit_resolver(_tag, _pattern, _first)
    _Dumper.add_implicit_resolver(_tag, _pattern, _first)


def parse(text: str) -> Any:
    """Return the value that a text stands for; keys are always texts.

    Raises:
        ValueError: It is not plain YAML; the message says why, and on which line.
    """
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506  (a SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        place = f"line {mark.line + 1} " if mark else ""
        words = [getattr(error, name, None) for name in ("context", "problem")]
        why = ", ".join(word for word in words if word) or str(error).splitlines()[0]
        raise ValueError(f"{place}is not plain YAML: {why}") from None
    except ValueError:  # of int(), for thousands of digits
        raise ValueError("holds a number with too many digits") from None


def dump(values: dict[str, Any]) -> str:
    """Return the text that `parse` turns into these values."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def _refusal(problem: str, place: Any) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, place.start_mark)
