"""Numbers for people: nothing is hidden by rounding."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.rounding import Scale, listed, number, percent, rate, seconds, times

OCTAVES = Scale.of([4, 8, 16, 32, 64, 20_000])


@pytest.mark.parametrize(
    ("value", "toward", "text"),
    [
        (37.4, 0, "37"),
        (29.9, -1, "29"),
        (29.1, 1, "30"),
        (64.0, 1, "64"),
        (12_345.0, 0, "12300"),
        (12_345.0, 1, "12400"),
        (19_999.0, 1, "20000"),
        (29.99999999999999, 1, "30"),
    ],
)
def test_whole_axes_show_whole_numbers(value, toward, text):
    assert OCTAVES.show(value, toward) == text


def test_other_axes_show_three_digits():
    scale = Scale.of([0.001, 0.5, 2.5])
    assert scale.show(0.012345) == "0.0123"
    assert scale.show(0.012345, 1) == "0.0124"
    assert scale.show(0.001) == "0.001"


def test_an_end_is_not_rounded_beyond_the_next_measured_size():
    assert Scale.of([10_001, 12_345]).show(10_020.0, -1) == "10001"
    assert Scale.of([10_001, 12_345]).show(12_340.0, 1) == "12345"


@given(
    sizes=st.lists(st.floats(1e-3, 1e7), min_size=2, max_size=9, unique=True),
    share=st.floats(0, 1),
)
def test_rounding_outwards_never_loses_the_value_nor_leaves_the_range(sizes, share):
    scale = Scale.of(sizes)
    value = scale.sizes[0] + share * (scale.sizes[-1] - scale.sizes[0])
    value = min(max(value, scale.sizes[0]), scale.sizes[-1])
    low, high = float(scale.show(value, -1)), float(scale.show(value, 1))
    slack = 1e-9 * value
    assert scale.sizes[0] - slack <= low <= value + slack
    assert value - slack <= high <= scale.sizes[-1] + slack


def test_numbers_never_have_an_exponent():
    assert number(1e15) == "1000000000000000"
    assert number(0.000001) == "0.000001"
    assert number(4.0) == "4"


def test_times_take_the_unit_that_suits_them():
    assert [seconds(t) for t in (4.5e-6, 1.23e-4, 0.0045, 0.45, 7.891, 140.2)] == [
        "4.50 µs",
        "123 µs",
        "4.50 ms",
        "450 ms",
        "7.89 s",
        "140 s",
    ]
    assert seconds(math.nan) == "–"
    assert [seconds(t) for t in (-7.51e-4, -0.0045, 0.0)] == ["-751 µs", "-4.50 ms", "0.00 µs"]


def test_rates_take_the_prefix_that_suits_them():
    assert [rate(r, "B/s") for r in (5, 1234, 9.996e11, 2.24e13, 3e19)] == [
        "5 B/s",
        "1.23 kB/s",
        "1 TB/s",
        "22.4 TB/s",
        "30 EB/s",
    ]


def test_percentages_and_factors():
    assert percent(0.1) == "10 %"
    assert percent(0.025) == "2.5 %"
    assert times(1.236) == "1.24x"
    assert times(22.71, -1) == "22.7x"
    assert times(140.2, 1) == "141x"


def test_lists_read_like_a_sentence_and_say_what_they_leave_out():
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed("abcdef", most=3) == "a, b and 4 more"
