"""The whole program against a truth that is known beforehand: prescribed step times, run through real Ray."""

import json

import pytest

from tests.examples import run_example


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return run_example("known_truth", tmp_path_factory.mktemp("known_truth") / "study")


@pytest.fixture(scope="module")
def verdicts(study):
    found = json.loads((study / "crossovers.json").read_text())["crossovers"]
    return {each["shape"]: each for each in found}


def holds(change, size):
    return change["low"] <= size <= change["high"] and change["bracket_low"] <= size <= change["bracket_high"]


pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]


@pytest.mark.parametrize(("shape", "direction"), [("crosses", "challenger_above"), ("reverse", "baseline_above")])
def test_a_crossing_is_found_where_it_is(verdicts, shape, direction):
    found = verdicts[shape]
    assert (found["verdict"], found["direction"]) == ("crosses", direction)
    assert holds(found, 100), found


@pytest.mark.parametrize(("shape", "verdict"), [("always_old", "always_baseline"), ("always_new", "always_challenger")])
def test_one_winner_throughout_is_said_and_no_size_invented(verdicts, shape, verdict):
    found = verdicts[shape]
    assert found["verdict"] == verdict
    assert found["estimate"] is found["low"] is found["high"] is None


def test_two_crossings_are_both_found(verdicts):
    found = verdicts["several"]
    assert found["verdict"] == "several"
    assert [change["direction"] for change in found["changes"]] == ["challenger_above", "baseline_above"]
    assert all(holds(change, truth) for change, truth in zip(found["changes"], (50, 200), strict=True)), found


def test_equal_targets_have_no_winner(verdicts):
    assert verdicts["equal"]["verdict"] in ("tie", "undetermined")


def test_the_report_says_the_same(study, verdicts):
    page, text = (study / "report.html").read_text(), (study / "report.md").read_text()
    for found in verdicts.values():
        assert found["sentence"] in page
        assert found["sentence"] in text
