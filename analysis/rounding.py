"""Numbers as people read them: sizes, times, percentages and factors, rounded without hiding anything.

A size that was measured is shown as it is. The ends of an interval are never rounded inwards, nor beyond the next
measured size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

#: Whole numbers below this are shown in full; above it, three digits say enough.
WHOLE_UP_TO = 10_000
#: What is shown where there is no number.
NOTHING = "–"


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The sizes along an axis: how positions on it are rounded and shown.

    Attributes:
        sizes: Every size, ascending.
    """

    sizes: tuple[float, ...]

    @classmethod
    def of(cls, sizes: Iterable[float]) -> Scale:
        """Make the scale of these sizes, in any order and with repeats."""
        return cls(sizes=tuple(sorted({float(size) for size in sizes})))

    @property
    def whole(self) -> bool:
        """Whether every size is a whole number, so that positions between them are shown as such too."""
        return all(size.is_integer() for size in self.sizes)

    def show(self, value: float, toward: int = 0) -> str:
        """Return a position on the axis as text.

        Args:
            value: The position, in the axis's own unit.
            toward: -1 never rounds up (lower ends), 1 never rounds down (upper ends), 0 takes the nearest.
        """
        if value in self.sizes:
            return number(value)
        whole = self.whole and abs(value) < WHOLE_UP_TO
        rounded = _rounded(value, 0 if whole else _third_digit(value), toward)
        rounded = max([rounded, *[size for size in self.sizes if size <= value][-1:]])
        rounded = min([rounded, *[size for size in self.sizes if size >= value][:1]])
        return number(rounded)


def number(value: float) -> str:
    """Return a size as text: whole numbers in full, others without trailing zeros, never with an exponent."""
    if float(value).is_integer():
        return str(int(value))
    return np.format_float_positional(value, precision=12, unique=True, trim="-")


def shown(value: object) -> str:
    """Return a value of any parameter as text: numbers as `number` does, the rest as it is."""
    return number(float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def percent(fraction: float) -> str:
    """Return a fraction as a percentage: 0.1 as "10 %"."""
    return f"{100 * fraction:.3g} %"


def share(fraction: float, toward: int = 0) -> str:
    """Return a part of a whole as a percentage without its sign, `toward` as in `Scale.show`: 0.412 as "41"."""
    digits = 0 if abs(fraction) >= 0.1 else 1 if abs(fraction) >= 0.01 else 2
    return number(_rounded(100 * fraction, digits, toward) + 0.0)


def rate(per_s: float, unit: str) -> str:
    """Return a rate with the prefix that suits it, three digits: 2.24e13 of "B/s" as "22.4 TB/s"."""
    rounded = float(f"{per_s:.3g}")
    thousands = min(max(math.floor(math.log10(rounded) / 3), 0), 6) if rounded > 0 else 0
    return f"{rounded / 1000**thousands:.12g} {' kMGTPE'[thousands].strip()}{unit}"


def time_unit(time_s: float) -> tuple[str, float]:
    """Return the unit that suits a time in seconds, and by what seconds are multiplied to be in it."""
    if abs(time_s) < 1e-3:
        return "µs", 1e6
    return ("ms", 1e3) if abs(time_s) < 1 else ("s", 1.0)


def seconds(time_s: float) -> str:
    """Return a time in the unit that suits it, three digits: "12.3 µs", "4.50 ms", "140 s"."""
    if not math.isfinite(time_s):
        return NOTHING
    unit, factor = time_unit(time_s)
    shown = time_s * factor
    return f"{shown:.0f} {unit}" if abs(shown) >= 99.95 else f"{shown:#.3g} {unit}"


def lasting(time_s: float) -> str:
    """Return how long something took, for people: "41.2 s", "12 min", "3.4 h"."""
    if not time_s >= 100:
        return seconds(time_s)
    return f"{time_s / 60:.2g} min" if time_s < 5970 else f"{time_s / 3600:.3g} h"


def times(factor: float, toward: int = 0) -> str:
    """Return how many times one number is the other, `toward` as in `Scale.show`: "1.04x", "23.1x", "140x"."""
    digits = 2 if factor < 2 else 1 if factor < 100 else 0
    return f"{_rounded(factor, digits, toward):.{digits}f}x"


def listed(parts: Iterable[str], most: int | None = None) -> str:
    """Join with commas and a last "and"; beyond `most` parts, say how many more there are."""
    shown = list(parts)
    if most is not None and len(shown) > most:
        shown = [*shown[: most - 1], f"{len(shown) - most + 1} more"]
    return " and ".join([", ".join(shown[:-1])] * (len(shown) > 1) + shown[-1:])


def _third_digit(value: float) -> int:
    return 2 - math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0


def _rounded(value: float, digits: int, toward: int) -> float:
    """Round to a number of decimals (below 0: to tens, hundreds); float error alone does not move a number."""
    if not math.isfinite(value):
        return value
    scaled = value * 10.0**digits
    nearest = round(scaled)
    if toward == 0 or math.isclose(scaled, nearest, rel_tol=1e-12):
        return round(nearest / 10.0**digits, max(digits, 0))
    by: Callable[[float], int] = math.floor if toward < 0 else math.ceil
    return round(by(scaled) / 10.0**digits, max(digits, 0))
