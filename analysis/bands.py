"""Curves between the measured sizes, and where their band meets zero.

Between two sizes three curves are drawn: a straight line, a monotone cubic (PCHIP: Fritsch and Carlson 1980) and a
secant bound, the farthest that a corner could reach if the neighbouring segments were prolonged inwards. The band
reaches from the lowest of them minus the half width to the highest plus the half width. The three disagree by about as
much as interpolation may err, which no repetition of the measurement can reduce. All segments of all groups at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from analysis.question import Bools, Floats, Ints

JUMP_SLOPES = 3.0  # a step of this many times the neighbours' slope, beyond the noise, is a jump of the curve
JUMP_BANDS = 3.0
#: Sizes this far apart, a factor of 8, need a neighbour on either side to tell how the curve bends between them; with
#: none on either side even more than an octave is too far. Simulated with a launch floor and linear work, the interval
#: of three sizes 16 times apart held the truth in .80 of cases, that of two sizes 64 times apart in .22.
FAR, FAR_ALONE = math.log(8) * (1 - 1e-9), math.log(2) * (1 + 1e-9)
BISECTIONS = 54  # halvings of a segment: as fine as a double can tell


@dataclass(frozen=True, kw_only=True)
class Crossings:
    """Where the band of each segment meets zero; segment i leads from node i to node i + 1.

    Attributes:
        lower_first, lower_last: First and last position where the lower edge is at or below zero; NaN if nowhere.
        upper_first, upper_last: First and last position where the upper edge is at or above zero; NaN if nowhere.
        zero: Where the monotone cubic is zero, of a segment whose ends lie on either side of zero; else NaN.
        jump: Whether the curve jumps in the segment.
        sparse: Whether its ends lie too far apart for any curve between them to be believed.
    """

    lower_first: Floats
    lower_last: Floats
    upper_first: Floats
    upper_last: Floats
    zero: Floats
    jump: Bools
    sparse: Bools

    @property
    def loose(self) -> Bools:
        """Where no smooth curve says what the ratio is between the ends of a segment."""
        return self.jump | self.sparse


def find_crossings(group: Ints, position: Floats, value: Floats, half: Floats) -> Crossings:
    """Find where the bands around curves through the nodes meet zero.

    Args:
        group: Group of each node, ascending.
        position: Position u of each node, ascending within its group.
        value: Log ratio of each node, margin applied.
        half: Half width of the band at each node.

    Returns:
        One value a segment. A segment between nodes of two groups means nothing.
    """
    real = group[1:] == group[:-1]
    gap, before, after, shape = _segments(position, value, real)
    lower = _nonpositive(value[:-1] - half[:-1], value[1:] - half[1:], shape)
    upper = _nonpositive(-value[:-1] - half[:-1], -value[1:] - half[1:], shape.flipped())
    steepest = np.fmax(np.abs(before), np.abs(after))
    with np.errstate(invalid="ignore"):
        noise = np.hypot(half[:-1], half[1:])
        jump = np.abs(shape.rise) > JUMP_SLOPES * steepest * gap + JUMP_BANDS * noise
    lacking = np.isnan(before).astype(int) + np.isnan(after)
    sparse = np.choose(lacking, [np.full(len(gap), False), gap >= FAR, gap >= FAR_ALONE])
    return Crossings(
        lower_first=position[:-1] + lower[0] * gap,
        lower_last=position[:-1] + lower[1] * gap,
        upper_first=position[:-1] + upper[0] * gap,
        upper_last=position[:-1] + upper[1] * gap,
        zero=position[:-1] + _zero_of_cubic(value[:-1], value[1:], shape) * gap,
        jump=jump & real,
        sparse=sparse & real,
    )


def band_at(position: Floats, value: Floats, half: Floats, at: float) -> tuple[float, float, float]:
    """Return the curve through the nodes at a position, and the band that the verdict is made of.

    The curve is the monotone cubic. The band reaches from the lowest of the straight line, the cubic and the secant
    bound, less the half width, to the highest of them plus the half width.

    Args:
        position: Of each node, ascending.
        value: Log ratio of each node.
        half: Half width of its band.
        at: A position from the first node to the last.

    Returns:
        The log ratio, and both ends of its band.
    """
    if len(position) == 1:
        return float(value[0]), float(value[0] - half[0]), float(value[0] + half[0])
    gap, _, _, shape = _segments(position, value, np.ones(len(position) - 1, dtype=bool))
    i = min(max(int(np.searchsorted(position, at, side="right")) - 1, 0), len(gap) - 1)
    t = (at - position[i]) / gap[i]
    rise, start, end = shape.rise[i], shape.start[i], shape.end[i]
    line = value[i] + rise * t
    cubic = value[i] + t * (start + t * (3 * rise - 2 * start - end + t * (start + end - 2 * rise)))
    curves = [line, cubic]
    bends = shape.bend_start[i] * t, shape.bend_end[i] * (1 - t)
    if bends[0] * bends[1] > 0:  # both neighbouring segments can be prolonged inwards, to the same side
        curves.append(line + min(bends, key=abs))
    width = half[i] + (half[i + 1] - half[i]) * t
    return float(cubic), float(min(curves) - width), float(max(curves) + width)


def _segments(position: Floats, value: Floats, real: Bools) -> tuple[Floats, Floats, Floats, _Shape]:
    """Return of each segment its length, the slopes of the segments before and after it, and its curves.

    Args:
        position: Of each node.
        value: Of each node.
        real: Of each segment, whether its two nodes belong together; it has no slope where they do not.
    """
    gap = np.where(real, np.diff(position), 1.0)
    rise = np.diff(value)
    secant = np.where(real, rise / gap, np.nan)
    before = np.append(np.nan, secant[:-1])[: len(secant)]
    after = np.append(secant[1:], np.nan)[: len(secant)]
    start, end = pchip_slopes(gap, secant)
    shape = _Shape(
        rise=rise,
        start=start * gap,
        end=end * gap,
        bend_start=(before - secant) * gap,
        bend_end=(secant - after) * gap,
    )
    return gap, before, after, shape


def pchip_slopes(gap: Floats, secant: Floats) -> tuple[Floats, Floats]:
    """Slopes of the monotone cubic at both ends of every segment.

    Inside, the weighted harmonic mean of the two secants; at the ends of a group the three-point formula, held within
    the limits that keep the curve monotone (Fritsch and Butland 1984). A lone segment is a straight line.

    Args:
        gap: Length of each segment.
        secant: Slope of each segment, NaN between two groups.

    Returns:
        The slope at the start and at the end of each segment.
    """
    inner = _inner_slopes(gap, secant)
    following = np.append(gap[1:], 1.0)[: len(gap)], np.append(secant[1:], np.nan)[: len(gap)]
    preceding = np.append(1.0, gap[:-1])[: len(gap)], np.append(np.nan, secant[:-1])[: len(gap)]
    start = np.append(np.nan, inner)[: len(gap)]
    end = np.append(inner, np.nan)[: len(gap)]
    start = np.where(np.isnan(start), _end_slopes(gap, secant, *following), start)
    end = np.where(np.isnan(end), _end_slopes(gap, secant, *preceding), end)
    return start, end


def _inner_slopes(gap: Floats, secant: Floats) -> Floats:
    left, right = secant[:-1], secant[1:]
    weight_left, weight_right = 2 * gap[1:] + gap[:-1], gap[1:] + 2 * gap[:-1]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean = (weight_left + weight_right) / (weight_left / left + weight_right / right)
        slope = np.where(left * right > 0, mean, 0.0)
    return np.where(np.isnan(left) | np.isnan(right), np.nan, slope)


def _end_slopes(gap: Floats, secant: Floats, next_gap: Floats, next_secant: Floats) -> Floats:
    slope = ((2 * gap + next_gap) * secant - gap * next_secant) / (gap + next_gap)
    slope = np.where(np.sign(slope) != np.sign(secant), 0.0, slope)
    steep = (np.sign(secant) != np.sign(next_secant)) & (np.abs(slope) > 3 * np.abs(secant))
    slope = np.where(steep, 3 * secant, slope)
    return np.where(np.isnan(next_secant), secant, slope)


@dataclass(frozen=True, kw_only=True)
class _Shape:
    """Curves of each segment over t from 0 to 1: rise, end slopes of the cubic, and bends of the prolongations."""

    rise: Floats
    start: Floats
    end: Floats
    bend_start: Floats
    bend_end: Floats

    def flipped(self) -> _Shape:
        return _Shape(
            rise=-self.rise,
            start=-self.start,
            end=-self.end,
            bend_start=-self.bend_start,
            bend_end=-self.bend_end,
        )


def _nonpositive(left: Floats, right: Floats, shape: _Shape) -> tuple[Floats, Floats]:
    """First and last t in [0, 1] where the lowest curve, minus the half width, is at or below zero; NaN if nowhere.

    Args:
        left: Value minus half width at t = 0.
        right: The same at t = 1.
        shape: The curves.
    """
    spans = [_polyline_span(left, right, shape), _cubic_span(left, right, shape)]
    return np.fmin(spans[0][0], spans[1][0]), np.fmax(spans[0][1], spans[1][1])


def _polyline_span(left: Floats, right: Floats, shape: _Shape) -> tuple[Floats, Floats]:
    """The span of the straight line, lowered to the secant bound where both prolongations lie below it."""
    down_start, down_end = -shape.bend_start, -shape.bend_end
    with np.errstate(invalid="ignore", divide="ignore"):
        lowered = (down_start > 0) & (down_end > 0)
        corner = np.where(lowered, down_end / (down_start + down_end), 0.5)
        depth = np.where(lowered, down_start * down_end / (down_start + down_end), 0.0)
    middle = left + (right - left) * corner - depth
    zero, one = np.zeros_like(left), np.ones_like(left)
    return _chain_span([(zero, left), (corner, middle), (one, right)])


def _chain_span(nodes: list[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """First and last t where a chain of straight pieces is at or below zero."""
    first = np.full_like(nodes[0][0], np.nan)
    last = np.full_like(first, np.nan)
    for (t0, f0), (t1, f1) in pairwise(nodes):
        with np.errstate(invalid="ignore", divide="ignore"):
            root = t0 + (t1 - t0) * np.clip(f0 / (f0 - f1), 0.0, 1.0)
        enter = np.where(f0 <= 0, t0, np.where(f1 <= 0, root, np.nan))
        leave = np.where(f1 <= 0, t1, np.where(f0 <= 0, root, np.nan))
        first, last = np.fmin(first, enter), np.fmax(last, leave)
    return first, last


def _cubic_span(left: Floats, right: Floats, shape: _Shape) -> tuple[Floats, Floats]:
    """The span of the monotone cubic minus a straight half width, which need not be monotone itself."""
    half_rise = shape.rise - (right - left)  # the half width grows by this over the segment
    c1 = shape.start - half_rise
    c2 = 3 * shape.rise - 2 * shape.start - shape.end
    c3 = shape.start + shape.end - 2 * shape.rise

    def curve(t: Floats) -> Floats:
        return left + t * (c1 + t * (c2 + t * c3))

    with np.errstate(invalid="ignore", divide="ignore"):
        # Turning points: roots of c1 + 2 c2 t + 3 c3 t^2, by the formula that does not cancel.
        turn = -(c2 + np.where(c2 < 0, -1.0, 1.0) * np.sqrt(c2 * c2 - 3 * c3 * c1))
        turns = np.stack([turn / (3 * c3), c1 / turn])
    turns = np.sort(np.where((turns > 0) & (turns < 1), turns, 1.0), axis=0)
    t = [np.zeros_like(left), turns[0], turns[1], np.ones_like(left)]
    f = [left, curve(t[1]), curve(t[2]), right]
    first, last = np.full_like(left, np.nan), np.full_like(left, np.nan)
    for piece in range(3):
        # A turning point that is missing was set to 1: its value is that of the right end.
        t0, t1 = t[piece], t[piece + 1]
        f0 = np.where(t0 < 1, f[piece], right)
        f1 = np.where(t1 < 1, f[piece + 1], right)
        crosses = np.flatnonzero((f0 <= 0) != (f1 <= 0))
        root = np.full_like(left, np.nan)
        root[crosses] = _bisect(left[crosses], c1[crosses], c2[crosses], c3[crosses], t0[crosses], t1[crosses])
        enter = np.where(f0 <= 0, t0, root)
        leave = np.where(f1 <= 0, t1, root)
        first, last = np.fmin(first, enter), np.fmax(last, leave)
    return first, last


def _zero_of_cubic(left: Floats, right: Floats, shape: _Shape) -> Floats:
    """The t in (0, 1) where the monotone cubic is zero, which is one point if its ends differ in sign; else NaN."""
    c2 = 3 * shape.rise - 2 * shape.start - shape.end
    c3 = shape.start + shape.end - 2 * shape.rise
    crosses = np.flatnonzero((np.sign(left) * np.sign(right) < 0) & ~np.isnan(shape.start))
    zero = np.full_like(left, np.nan)
    ends = np.zeros(len(crosses)), np.ones(len(crosses))
    zero[crosses] = _bisect(left[crosses], shape.start[crosses], c2[crosses], c3[crosses], *ends)
    return zero


def _bisect(c0: Floats, c1: Floats, c2: Floats, c3: Floats, low: Floats, high: Floats) -> Floats:
    """Roots of cubics that change sign once between low and high."""
    starts_below = c0 + low * (c1 + low * (c2 + low * c3)) <= 0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        below = c0 + middle * (c1 + middle * (c2 + middle * c3)) <= 0
        same = below == starts_below
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return 0.5 * (low + high)
