"""How far a crossover moves from one setting to another: the factor between two of them, with its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.rounding import times
from analysis.sentence import known
from analysis.verdict import Verdict

#: Less than this does not show in two decimals.
NEXT_TO_NOTHING = 0.01


@dataclass(frozen=True, kw_only=True)
class Shift:
    """The second crossing against the first.

    Attributes:
        factor: Second size / first size; on an axis of exponents second - first, in the axis's unit. NaN where either
            crossing has no estimate.
        low, high: Its 95 % interval; NaN where an end is open.
        exponent: Whether these are differences of exponents and not ratios of sizes.
    """

    factor: float
    low: float
    high: float
    exponent: bool = False

    @property
    def none(self) -> float:
        """What the factor is where nothing moves: 1 on an axis of sizes, 0 on one of exponents."""
        return 0.0 if self.exponent else 1.0

    @property
    def clear(self) -> bool:
        """Whether the interval excludes that nothing moves."""
        return self.low > self.none or self.high < self.none


def shift(first: Mapping[str, Any], second: Mapping[str, Any], *, base: float | None = None) -> Shift | None:
    """Say how far the second crossing lies from the first.

    The interval comes from those of the two crossings, which need not be symmetric (MOVER: Donner and Zou 2012,
    "Closed-form confidence intervals for functions of the normal mean and standard deviation"): each end of the
    difference is as far from it as the square root of the summed squares of the two arms that point there. It takes the
    crossings for independent. Trials that both share make it wider than it need be, not narrower.

    Where a crossing has no estimate (a time-out decides it) there are no arms, and the ends are the farthest that the
    two intervals allow.

    Args:
        first: A row of `analysis.crossovers`, or one of its changes.
        second: Another, for the same axis.
        base: The base of an axis of exponents; None for one of sizes. The shift of exponents is the same for any.

    Returns:
        The shift; None unless both cross, and in the same direction.
    """
    crosses = all(row["verdict"] == Verdict.CROSSES for row in (first, second))
    if not crosses or first["direction"] != second["direction"]:
        return None
    exponent = base is not None
    at, at_low, at_high = _positions(first, exponent=exponent)
    to, to_low, to_high = _positions(second, exponent=exponent)
    moved = to - at
    if math.isnan(moved):
        low, high = to_low - at_high, to_high - at_low
    else:
        low = moved - math.hypot(to - to_low, at_high - at)
        high = moved + math.hypot(to_high - to, at - at_low)
    if exponent:
        return Shift(factor=moved, low=low, high=high, exponent=True)
    return Shift(factor=math.exp(moved), low=math.exp(low), high=math.exp(high))


def shift_words(found: Shift, *, axis: str, first: str, second: str) -> str:
    """Say a shift in one sentence.

    Args:
        found: The shift.
        axis: Name of the axis.
        first: What the first crossing is that of, as it reads behind "with": "sync 1", "the whole step".
        second: The same of the second.

    Returns:
        How many times lower or higher the second lies, with the interval; that no difference is seen where
        that holds none.
    """
    if not found.clear:
        if math.isnan(found.low) or math.isnan(found.high):
            return (
                f"Whether the crossover in {axis} is another with {second} than with {first} cannot be told: "
                "the interval is open."
            )
        span = f"{_size(found, found.low, 1)} lower to {_size(found, found.high, 1)} higher"
        return f"With {second}, no difference is seen to the crossover in {axis} with {first} (95 % interval {span})."
    way, near, far = ("higher", found.low, found.high)
    if not found.low > found.none:
        way, near, far = ("lower", found.high, found.low)
    most = "an open end" if math.isnan(far) else _size(found, far, 1)
    span = f"95 % interval {_size(found, near, -1)} to {most}"
    if math.isnan(found.factor):
        return f"With {second}, the crossover in {axis} is {way} than with {first} ({span})."
    return f"With {second}, the crossover in {axis} is {_size(found, found.factor)} {way} than with {first} ({span})."


def moved_words(found: Shift, cause: str) -> str:
    """Say how far the second crossing lies from the first as the effect of something.

    Args:
        found: The shift.
        cause: What has it, with a verb: "the branches move".

    Returns:
        A clause such as "the branches move it up by a factor of 4.0 (95 % interval 2.9 to 5.5)"; that no difference is
        seen where that holds none.
    """
    if not found.clear:
        if math.isnan(found.low) or math.isnan(found.high):
            return f"whether {cause} it cannot be told, since an interval is open"
        span = f"{_size(found, found.low, 1)} lower to {_size(found, found.high, 1)} higher"
        return f"no difference is seen (95 % interval {span})"
    up = found.low > found.none
    near, far = (found.low, found.high) if up else (found.high, found.low)
    most = "an open end" if math.isnan(far) else _plain(found, far, 1)
    span = f"95 % interval {_plain(found, near, -1)} to {most}"
    by = "" if math.isnan(found.factor) else f" by {_factor(found)}{_plain(found, found.factor)}"
    return f"{cause} it {'up' if up else 'down'}{by} ({span})"


def least_words(first: float, second: float, *, base: float | None = None) -> str:
    """Say how far a crossing moves at least: "up by a factor of 25 or more".

    Args:
        first: Where it can be nearest to the second: an end of its interval, or of the range that it lies beyond.
        second: Where that can be nearest to the first, which is another place.
        base: The base of an axis of exponents; None for one of sizes.
    """
    up = second > first
    by = second - first if base is not None else second / first
    bound = Shift(factor=by, low=by, high=by, exponent=base is not None)
    return f"{'up' if up else 'down'} by {_factor(bound)}{_plain(bound, by, -1)} or more"


def _factor(found: Shift) -> str:
    return "" if found.exponent else "a factor of "


def _plain(found: Shift, value: float, toward: int = 0) -> str:
    return _size(found, value, toward).removesuffix("x")


def _positions(row: Mapping[str, Any], *, exponent: bool) -> tuple[float, float, float]:
    """Where a crossing and the ends of its interval lie on the axis, on which differences are taken; NaN where open."""
    ends = [known(row, name) for name in ("estimate", "low", "high")]
    estimate, low, high = (math.nan if end is None else end if exponent else math.log(end) for end in ends)
    return estimate, low, high


def _size(found: Shift, value: float, toward: int = 0) -> str:
    """How far a value is from no shift: "6.1x", or on an axis of exponents "0.8"."""
    size = abs(value) if found.exponent else max(value, 1 / value)
    by = size - found.none
    if found.clear and 0 < by < NEXT_TO_NOTHING:
        # An interval that excludes that nothing moves must not seem to hold it.
        digits = -math.floor(math.log10(by))
        scaled = round(by * 10.0**digits, 6)
        away = math.floor(scaled) if toward < 0 else math.ceil(scaled) if toward > 0 else round(scaled)
        text = f"{found.none + away / 10.0**digits:.{digits}f}"
    else:
        text = times(size, toward).removesuffix("x")
    return text if found.exponent else f"{text}x"
