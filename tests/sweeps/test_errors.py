"""Messages: values as a sweep file holds them, and near misses."""

import pytest

from sweeps.errors import ClusterError, CrossoverError, InputError, StudyError, did_you_mean, show


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (2.5, "2.5"),
        ("a b", '"a b"'),
        ("größe", '"größe"'),
        ("a\nb\x1b", '"a\\nb\\u001b"'),
        ("a\ud800", '"a\\ud800"'),
        ([2, "x"], '[2, "x"]'),
        ({"from": 1}, '{"from": 1}'),
        ("x" * 100, '"' + "x" * 56 + "..."),
    ],
)
def test_values_are_shown_as_a_file_holds_them(value, text):
    assert show(value) == text


def test_near_misses():
    assert did_you_mean("widht", ["depth", "width"]) == " Did you mean width?"
    assert did_you_mean("zzz", ["depth", "width"]) == ""


def test_one_root_for_what_a_person_can_act_on():
    assert {InputError, StudyError, ClusterError} <= set(CrossoverError.__subclasses__())
