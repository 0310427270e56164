"""Axes: lists, ranges and the values that survive the whole way."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from sweeps.axis import MOST_VALUES, Axis, Span, values_of

AXIS = TypeAdapter(Axis)


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ([4, 2], [4, 2]),
        (["a", "b"], ["a", "b"]),
        ([True, False], [True, False]),
        ([0.5, 1], [0.5, 1]),
        ({"from": 4, "to": 64, "factor": 4}, [4, 16, 64]),
        ({"from": 4, "to": 63, "factor": 4}, [4, 16]),
        ({"from": 1, "to": 1000, "factor": 10}, [1, 10, 100, 1000]),
        ({"from": 3, "to": 3, "factor": 2}, [3]),
        ({"from": 1, "to": 100, "steps": 3}, [1, 10, 100]),
        ({"from": 1, "to": 4, "steps": 9}, [1, 2, 3, 4]),
        ({"from": 0.25, "to": 1.0, "factor": 2}, [0.25, 0.5, 1.0]),
    ],
)
def test_lists_and_ranges(given, values):
    assert AXIS.validate_python(given) == values


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.floats(1.1, 100))
def test_a_range_of_whole_numbers_is_whole_and_stays_within(first, second, factor):
    low, high = sorted((first, second))
    values = AXIS.validate_python({"from": low, "to": high, "factor": factor})
    assert values[0] == low
    assert values[-1] <= high < values[-1] * factor + 1
    assert all(type(value) is int for value in values)
    assert values == sorted(set(values))


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(2, 50))
def test_steps_reach_both_ends(first, second, steps):
    low, high = sorted((first, second))
    values = AXIS.validate_python({"from": low, "to": high, "steps": steps})
    assert (values[0], values[-1]) == (low, high)
    assert len(values) <= steps


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_span_holds_its_octaves_and_dumps_to_what_it_was_read_from(first, second):
    low, high = sorted((first, second + (first == second)))
    given = {"from": low, "to": high}
    span = AXIS.validate_python(given)
    assert span == Span(low=low, high=high)
    assert AXIS.dump_python(span) == given
    assert span.whole
    assert values_of(span) == [low, high]
    sizes = span.octaves
    assert (sizes[0], sizes[-1]) == (low, high)
    assert all(left < right <= 2.2 * left for left, right in itertools.pairwise(sizes))
    assert all(span.holds(size) for size in sizes)
    assert not any(span.holds(size) for size in (low - 1, high + 1, low + 0.5, True, "1"))


def test_a_span_with_an_end_that_is_no_whole_number_is_continuous():
    span = AXIS.validate_python({"from": 0.5, "to": 4})
    assert not span.whole
    assert span.holds(0.7)
    assert span.octaves == [0.5, 1.0, 2.0, 4]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "the list is empty"),
        ([2, 2], "2 is there twice"),
        ([2, 2.0], "2 is there twice"),
        (["a", "a"], '"a" is there twice'),
        ([1, True], "mixes kinds of values"),
        ([1, "1"], "mixes kinds of values"),
        ([True, "true"], "mixes kinds of values"),
        ([float("nan")], "NaN is not allowed; a number of at most"),
        ([float("inf")], "Infinity is not allowed; a number of at most"),
        ([2**53 + 1], "9007199254740993 is not allowed; a number of at most"),
        ([10**400], "is not allowed; a number of at most"),
        (["a\x00"], "printable text of at most 500 characters"),
        (["\ud800"], "printable text of at most 500 characters"),
        (["a" * 501], "printable text of at most 500 characters"),
        ([None], "null is not allowed; a number, a text, true or false"),
        ([[2]], "[2] is not allowed; a number, a text, true or false"),
        ([{"a": 1}], "is not allowed; a number, a text, true or false"),
        (list(range(MOST_VALUES + 1)), "1001 values are too many; at most 1000"),
        ({}, "its keys are from, to and either factor or steps"),
        ({"from": 2, "to": 2}, "from is above 0 and below to"),
        ({"from": True, "to": 2}, "from: true is not a number"),
        ({"from": 1, "to": float("inf")}, "Infinity is not allowed"),
        ({"from": 1, "to": 2, "factor": 2, "steps": 2}, "its keys are"),
        ({"from": 1, "to": 2, "faktor": 2}, "its keys are"),
        ({"from": "a", "to": 2, "factor": 2}, 'from: "a" is not a number'),
        ({"from": True, "to": 2, "factor": 2}, "from: true is not a number"),
        ({"from": 0, "to": 2, "factor": 2}, "from is above 0 and not above to"),
        ({"from": -1, "to": 2, "factor": 2}, "from is above 0 and not above to"),
        ({"from": 8, "to": 2, "factor": 2}, "from is above 0 and not above to"),
        ({"from": 5e-324, "to": 1, "steps": 3}, "from is above 0 and not above to"),
        ({"from": 1, "to": float("inf"), "factor": 2}, "Infinity is not allowed"),
        ({"from": 1, "to": 10**400, "factor": 2}, "a number of at most"),
        ({"from": 1, "to": 8, "factor": 1}, "factor: 1 is not above 1"),
        ({"from": 1, "to": 8, "factor": 0.5}, "factor: 0.5 is not above 1"),
        ({"from": 1, "to": 8, "factor": 1.0000001}, "values are too many; at most 1000"),
        ({"from": 1, "to": 8, "steps": 1}, "steps: 1 is not a whole number >= 2"),
        ({"from": 1, "to": 8, "steps": 2.5}, "steps: 2.5 is not a whole number >= 2"),
        ({"from": 1, "to": 8, "steps": 10**9}, "1000000000 values are too many"),
    ],
)
def test_what_cannot_be_an_axis(given, why):
    with pytest.raises(ValidationError) as caught:
        AXIS.validate_python(given)
    assert any(why in fault["msg"] for fault in caught.value.errors())
