"""Numbers as people read them: three digits and a unit that fits."""

from __future__ import annotations

#: From the largest; what is smaller than the last is told in it.
SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
BYTES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def shown(value: float, unit: str) -> str:
    """Return a value with its unit: seconds and bytes in one that fits, others as they are."""
    scale = {"s": SECONDS, "B": BYTES}.get(unit)
    if scale and value:
        size, unit = next((each for each in scale if abs(value) >= each[0]), scale[-1])
        value /= size
    return f"{digits(value)} {unit}".rstrip()


def digits(value: float) -> str:
    """Return three significant digits, without an exponent where that reads better."""
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.2g}"
    text = f"{value:.3g}"
    return f"{float(text):.0f}" if "e" in text else text
