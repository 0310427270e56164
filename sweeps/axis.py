"""What an axis of a sweep can hold: a list of values, a range that stands for one, or all sizes between two.

Sweep files come from anywhere, so each value is one that survives the whole way: through JSON identities, Arrow
columns, the sweep.yaml of a study, and arithmetic in floating point.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, PlainSerializer, PlainValidator, ValidatorFunctionWrapHandler, WrapValidator

from sweeps.errors import show
from sweeps.parameter import Value

LONGEST_TEXT = 500
MOST_VALUES = 1_000
#: Up to here a float, a JSON number and an Arrow int64 hold every whole number exactly.
LARGEST_NUMBER = 2**53
#: Of a range, and of the axis that is solved for; ratios of its values stay finite.
LEAST_NUMBER = 1e-30
#: The last octave of a span may be longer or shorter than the others by this factor.
NEAR_END = 1.1


def _text(text: str) -> str:
    if len(text) > LONGEST_TEXT or not text.isprintable():
        raise ValueError(f"{show(text)} is not allowed; printable text of at most {LONGEST_TEXT} characters")
    return text


def _number(number: float) -> float:
    if not abs(number) <= LARGEST_NUMBER:
        raise ValueError(f"{show(number)} is not allowed; a number of at most {LARGEST_NUMBER} (2**53) in size")
    return number


def _scalar(value: Any) -> Value:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, str):
        return _text(value)
    raise ValueError(f"{show(value)} is not allowed; a number, a text, true or false")


Text = Annotated[str, AfterValidator(_text)]
Scalar = Annotated[Value, PlainValidator(_scalar)]


@dataclass(frozen=True, kw_only=True)
class Span:
    """All sizes between two, for a strategy that looks for the next size by itself: `{from: 4, to: 4096}` in a file.

    Attributes:
        low: The smallest size, above 0.
        high: The largest size.
    """

    low: int | float
    high: int | float

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Span:
        """Return what the keys `from` and `to` say.

        Raises:
            ValueError: They are no two numbers, or not in order.
        """
        for key, number in given.items():
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise ValueError(f"{key}: {show(number)} is not a number")
            _number(number)
        low, high = given["from"], given["to"]
        if not LEAST_NUMBER <= low < high:
            raise ValueError(f"from {low} to {high} is not a range; from is above 0 and below to")
        return cls(low=low, high=high)

    @property
    def whole(self) -> bool:
        """Whether its sizes are whole numbers: both ends are."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def ends(self) -> list[Value]:
        """The smallest and the largest size."""
        return [self.low, self.high]

    @property
    def octaves(self) -> list[Value]:
        """The smallest size, its doubles, and the largest size; a double that nearly is that one is left out."""
        count = math.floor(math.log2(self.high / self.low) + 1e-9)
        doubles = [self.low * 2**place for place in range(1, count + 1)]
        return [self.low, *(size for size in doubles if size * NEAR_END < self.high), self.high]

    def holds(self, value: Any) -> bool:
        """Whether a value is one of its sizes."""
        if isinstance(value, bool | str) or not self.low <= value <= self.high:
            return False
        return not self.whole or float(value).is_integer()


def _axis(value: Any, read: ValidatorFunctionWrapHandler) -> list[Value] | Span:
    """Read a list of values, a range that stands for one, or a span."""
    if isinstance(value, Mapping):
        value = Span.read(value) if set(value) == {"from", "to"} else _range(value)
    return value if isinstance(value, Span) else _distinct(read(value))


def _dumped(axis: list[Value] | Span) -> Any:
    return {"from": axis.low, "to": axis.high} if isinstance(axis, Span) else axis


def _range(given: Mapping[str, Any]) -> list[float]:
    if set(given) not in ({"from", "to", "factor"}, {"from", "to", "steps"}):
        raise ValueError(f"{show(given)} is not a range; its keys are from, to and either factor or steps")
    for key, number in given.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise ValueError(f"{key}: {show(number)} is not a number")
        _number(number)
    low, high = given["from"], given["to"]
    if not LEAST_NUMBER <= low <= high:
        raise ValueError(f"from {low} to {high} is not a range; from is above 0 and not above to")
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
    _limit(count)
    values = [low * factor**k for k in range(count)]
    if isinstance(low, int) and isinstance(high, int):
        return list(dict.fromkeys(round(v) for v in values))
    return values


def _limit(count: int) -> None:
    if count > MOST_VALUES:
        raise ValueError(f"{count} values are too many; at most {MOST_VALUES}")


def _distinct(values: list[Value]) -> list[Value]:
    if not values:
        raise ValueError("the list is empty; at least one value")
    _limit(len(values))
    if len({float if isinstance(value, int) and not isinstance(value, bool) else type(value) for value in values}) > 1:
        raise ValueError(f"{show(values)} mixes kinds of values; all numbers, all texts, or true and false")
    if repeated := [v for v in dict.fromkeys(values) if values.count(v) > 1]:
        raise ValueError(f"{show(repeated[0])} is there twice")
    return values


if TYPE_CHECKING:
    Axis = list[Value] | Span
else:  # a list for pydantic, whose messages would else speak of both
    Axis = Annotated[list[Scalar], WrapValidator(_axis), PlainSerializer(_dumped)]


def values_of(axis: list[Value] | Span) -> list[Value]:
    """Return the values of an axis; of a span, its two ends."""
    return axis.ends if isinstance(axis, Span) else axis
