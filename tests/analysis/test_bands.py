"""The curves against scipy's, and their zeros against a dense grid."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import PchipInterpolator

from analysis.bands import find_crossings, pchip_slopes

NODES = st.integers(2, 9).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(0.05, 2), min_size=n, max_size=n),
        st.lists(st.floats(-1, 1).map(lambda value: round(value, 6)), min_size=n, max_size=n),
        st.lists(st.floats(0.001, 0.5), min_size=n, max_size=n),
    )
)


def edges(position, value, half, grid):
    """Lower and upper edge of the band on a grid, written as plainly as possible."""
    curves = [np.interp(grid, position, value)]
    if len(position) > 2:
        curves.append(PchipInterpolator(position, value)(grid))
    secant = np.interp(grid, position, value)
    for i in range(1, len(position) - 2):
        inside = (grid > position[i]) & (grid < position[i + 1])
        slopes = np.diff(value) / np.diff(position)
        line = secant[inside]
        left = value[i] + slopes[i - 1] * (grid[inside] - position[i]) - line
        right = value[i + 1] + slopes[i + 1] * (grid[inside] - position[i + 1]) - line
        nearer = np.where(np.abs(left) < np.abs(right), left, right)
        secant[inside] = line + np.where(left * right > 0, nearer, 0)
    curves.append(secant)
    width = np.interp(grid, position, half)
    return np.min(curves, axis=0) - width, np.max(curves, axis=0) + width


@settings(max_examples=60)
@given(NODES)
def test_zeros_are_those_of_the_band(nodes):
    position, value, half = np.cumsum(nodes[0]), np.array(nodes[1]), np.array(nodes[2])
    found = find_crossings(np.zeros(len(value), dtype=int), position, value, half)
    sides = ((1, found.lower_first, found.lower_last), (-1, found.upper_first, found.upper_last))
    for side, first, last in sides:
        for i in range(len(value) - 1):
            grid = np.linspace(position[i], position[i + 1], 401)
            inside = grid[edge_of(side, position, value, half, grid) < -1e-9]
            if inside.size:
                assert first[i] <= inside[0]
                assert last[i] >= inside[-1]
            if not np.isnan(first[i]):
                assert position[i] <= first[i] <= last[i] <= position[i + 1]
                assert (edge_of(side, position, value, half, np.array([first[i], last[i]])) < 1e-9).all()


def edge_of(side, position, value, half, grid):
    """The lower edge, or the upper one upside down: at or below zero where the band reaches zero from that side."""
    lower, upper = edges(position, value, half, grid)
    return lower if side == 1 else -upper


@given(NODES)
def test_slopes_are_those_of_scipy(nodes):
    position, value = np.cumsum(nodes[0]), np.array(nodes[1])
    gap = np.diff(position)
    start, end = pchip_slopes(gap, np.diff(value) / gap)
    expected = PchipInterpolator(position, value).derivative()(position) if len(position) > 2 else None
    if expected is None:
        expected = np.full(2, np.diff(value)[0] / gap[0])
    assert start == pytest.approx(expected[:-1], abs=1e-9)
    assert end == pytest.approx(expected[1:], abs=1e-9)


@given(NODES)
def test_the_zero_is_that_of_scipy(nodes):
    position, value = np.cumsum(nodes[0]), np.array(nodes[1])
    found = find_crossings(np.zeros(len(value), dtype=int), position, value, np.array(nodes[2])).zero
    crosses = value[:-1] * value[1:] < 0
    assert np.array_equal(~np.isnan(found), crosses)
    curve = PchipInterpolator(position, value) if len(value) > 2 else lambda x: np.interp(x, position, value)
    assert curve(found[crosses]) == pytest.approx(0, abs=1e-9)
    assert ((position[:-1] < found) & (found < position[1:]))[crosses].all()


def test_a_bent_curve_is_met_closer_than_by_a_line():
    """A launch floor against linear work on octaves: the truth is 100, a straight line says 101.7."""
    size = 2.0 ** np.arange(4, 12)
    value = np.log(0.7 + 0.3 * size / 100) - np.log(size / 100)
    found = find_crossings(np.zeros(len(size), dtype=int), np.log(size), value, np.full(len(size), 0.1))
    assert np.exp(np.nanmean(found.zero)) == pytest.approx(100, rel=2e-3)


def test_groups_do_not_touch():
    position, value, half = np.array([0.0, 1, 2, 3]), np.array([1.0, 0.4, -0.2, -1]), np.full(4, 0.1)
    alone = find_crossings(np.zeros(4, dtype=int), position, value, half)
    both = find_crossings(np.repeat([0, 1], 4), np.tile(position, 2), np.concatenate([value, value]), np.tile(half, 2))
    for name in ("lower_first", "lower_last", "upper_first", "upper_last", "zero", "jump"):
        assert np.array_equal(getattr(both, name)[:3], getattr(alone, name), equal_nan=True)
        assert np.array_equal(getattr(both, name)[4:], getattr(alone, name), equal_nan=True)


def test_a_corner_between_the_sizes_is_inside_the_band():
    """A knee at 1.5 that no size shows: lines and cubic miss it by far, the prolonged neighbours reach it."""
    position = np.array([0.0, 1, 2, 3])
    value = np.array([1.0, 0.5, 0.5, 1.0])  # two straight arms that meet at (1.5, 0.25)
    half = np.full(4, 0.26)
    found = find_crossings(np.zeros(4, dtype=int), position, value, half)
    assert found.lower_first[1] < 1.5 < found.lower_last[1]
    assert found.lower_first[1] == pytest.approx(1.48)


@pytest.mark.parametrize("values", [[], [0.5]])
def test_fewer_than_two_nodes_have_no_segment(values):
    value = np.array(values)
    found = find_crossings(np.zeros(len(value), dtype=int), value, value, value)
    assert found.lower_first.size == found.jump.size == 0


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([1, 64], [True]),  # nobody says how the curve bends
        ([1, 2], [False]),
        ([1, 16, 256], [True, True]),  # each with one neighbour
        ([1, 4, 16], [False, False]),
        ([1, 2, 32, 64], [False, False, False]),  # far, and a neighbour on either side
        ([1, 2, 4, 64], [False, False, True]),
    ],
)
def test_sizes_that_lie_too_far_apart_are_told(sizes, expected):
    position = np.log(np.array(sizes, dtype=float))
    found = find_crossings(np.zeros(len(sizes), dtype=np.int64), position, 1 - position, np.full(len(sizes), 0.01))
    assert found.sparse.tolist() == expected
    assert found.loose.tolist() == [a or b for a, b in zip(expected, found.jump.tolist(), strict=True)]
