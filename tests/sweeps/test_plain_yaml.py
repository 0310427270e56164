"""Plain YAML: what is read, what is refused, and that what is written comes back."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.plain_yaml import dump, parse

printable = st.text(st.characters(exclude_categories=("C", "Z")) | st.just(" "), max_size=30)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | printable


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("32", 32),
        ("-1_000", -1000),
        ("1e-3", 0.001),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-.inf", -math.inf),
        ("true", True),
        ("null", None),
        ("", None),
        ("'32'", "32"),
        ("cpu-1", "cpu-1"),
        ("[1, a]", [1, "a"]),
    ],
)
def test_values_are_what_they_look_like(text, value):
    assert parse(text) == value
    assert type(parse(text)) is type(value)


@pytest.mark.parametrize("text", ["on", "yes", "010", "0x10", "1:30", "2026-01-31", "1e", "=", "<<", "nan"])
def test_what_older_yaml_takes_for_something_else_is_text(text):
    assert parse(text) == text


def test_keys_are_texts_whatever_they_look_like():
    assert parse("{1: a, null: b, on: c, <<: d}") == {"1": "a", "null": "b", "on": "c", "<<": "d"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: &a [x, x]\nb: [*a, *a]", r"line 2 .* aliases \(\*name\) are not allowed"),
        ("a: {x: 1}\na: 2", "line 2 .* the key a is there twice"),
        ("? [a]\n: 1", "line 1 .* a key has to be a name"),
        ('"a\\ud800": 1', "line 1 .* a key has to be a name"),
        ("a: !!python/object/apply:os.getcwd []", r"line 1 .* tags \(!!python/object/apply:os.getcwd\)"),
        ("a: !mine 1", r"line 1 .* tags \(!mine\)"),
        ("a: !!set {b}", r"line 1 .* tags \(!!set\)"),
        ("[" * 5000 + "]" * 5000, "more than 20 levels"),
        ("{a: " * 5000 + "}" * 5000, "more than 20 levels"),
        ("- " * 5000, "more than 20 levels"),
        ("9" * 5000, "too many digits"),
        ("a: [1", "line 1 is not plain YAML: while parsing a flow sequence"),
        ("a: 1\n---\nb: 2", "line 2 .* another document"),
        ("a: \x00", "is not plain YAML"),
        ("a:\n\tb: c", "line 2 is not plain YAML"),
    ],
)
def test_what_can_surprise_is_refused_with_its_line(text, why):
    with pytest.raises(ValueError, match=why) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


@given(st.dictionaries(printable, scalars | st.lists(scalars, max_size=5), max_size=5))
def test_what_is_written_comes_back(values):
    assert parse(dump(values)) == values


@pytest.mark.parametrize("text", ["1e3", "on", "010", "1:30", "2026-01-31", "null", "", "true", "0x10", "~", "# no"])
def test_a_text_that_looks_like_something_else_stays_text(text):
    assert parse(dump({"a": text})) == {"a": text}


def test_the_same_value_twice_is_written_twice():
    values = [1, 2]
    assert parse(dump({"a": values, "b": values})) == {"a": [1, 2], "b": [1, 2]}
