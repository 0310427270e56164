"""A parameter of a workload: what it means, what it can be, and what it is where nobody says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

#: What a sweep gives a parameter. A row can also hold None: a lever that means nothing there.
Value = int | float | str | bool


@dataclass(frozen=True, kw_only=True)
class Parameter(ABC):
    """What can be asked of a workload under one name.

    Attributes:
        meaning: For people.
        default: Taken where the sweep does not say; None leaves it out.
        only_with: Another parameter and the value it has to have; with any other value this one is null.
        accelerator_only: Whether it means nothing on a CPU, where it is null.
        like: Another parameter whose value it has where it is not given; that one in turn means nothing where all that
            follow it are given.
    """

    meaning: str
    default: Value | None = None
    only_with: tuple[str, str] | None = None
    accelerator_only: bool = False
    like: str | None = None
    arrow: ClassVar[str]
    """Type of its column, where no value tells."""

    @property
    @abstractmethod
    def legal(self) -> str:
        """What it can be, in words."""

    @abstractmethod
    def read(self, value: Any) -> Value | None:
        """Return the value as rows hold it, or None if it is not legal."""


@dataclass(frozen=True, kw_only=True)
class Whole(Parameter):
    """A whole number."""

    minimum: int = 1
    arrow: ClassVar[str] = "int64"

    @property
    def legal(self) -> str:
        """What it can be, in words."""
        return f"a whole number >= {self.minimum}"

    def read(self, value: Any) -> Value | None:
        """Return it as it is: a float is not taken for one."""
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= self.minimum else None


@dataclass(frozen=True, kw_only=True)
class Number(Parameter):
    """A number, whole or not."""

    above_zero: bool = False
    not_below_zero: bool = False
    arrow: ClassVar[str] = "double"

    @property
    def legal(self) -> str:
        """What it can be, in words."""
        return "a number above 0" if self.above_zero else "a number >= 0" if self.not_below_zero else "a number"

    def read(self, value: Any) -> Value | None:
        """Return it as a float, so that 1 and 1.0 are one question."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        too_low = (self.above_zero and value <= 0) or (self.not_below_zero and value < 0)
        return None if too_low else float(value)


@dataclass(frozen=True, kw_only=True)
class Choice(Parameter):
    """One of some words."""

    values: tuple[str, ...]
    arrow: ClassVar[str] = "string"

    @property
    def legal(self) -> str:
        """What it can be, in words."""
        return f"one of {', '.join(self.values)}"

    def read(self, value: Any) -> Value | None:
        """Return it as it is."""
        return value if isinstance(value, str) and value in self.values else None


@dataclass(frozen=True, kw_only=True)
class Flag(Parameter):
    """True or false."""

    arrow: ClassVar[str] = "string"

    @property
    def legal(self) -> str:
        """What it can be, in words."""
        return "true or false"

    def read(self, value: Any) -> Value | None:
        """Return it as it is."""
        return value if isinstance(value, bool) else None


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What the parameters of a workload have to be to each other.

    Attributes:
        parameter: The one that is wrong where the rule does not hold.
        holds: Tells from all values.
        otherwise: What is said then, with `{name}` for the value of a parameter.
    """

    parameter: str
    holds: Callable[[Mapping[str, Any]], bool]
    otherwise: str


def key_of(name: str, axes: tuple[str, ...]) -> str:
    """Return the key of a sweep file under which a parameter stands."""
    return f"axes.{name}" if name in axes else f"parameters.{name}"
