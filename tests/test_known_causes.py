"""The whole program against causes that are known beforehand: prescribed times of the parts of a step, in real Ray."""

import importlib.util

import pandas as pd
import pytest

from analysis.explain import explain
from analysis.load import load
from analysis.without import without
from tests.examples import EXAMPLES, run_example

TARGETS = ("host", "card")
#: Where the targets meet: with the whole step, and without what is named and all before it.
WHOLE = 300
MEETINGS = {"loader": 150, "transfer": 75, "sync": 40}


@pytest.fixture(scope="module")
def prescribed():
    spec = importlib.util.spec_from_file_location("known_causes", EXAMPLES / "known_causes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_parts_are_prescribed_so_that_the_targets_meet_where_it_is_said(prescribed):
    for left, size in zip(prescribed.LEFT.values(), (WHOLE, *MEETINGS.values()), strict=True):
        host, card = (sum(prescribed.milliseconds(part, size, target) for part in left) for target in TARGETS)
        assert host == pytest.approx(card)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return load(run_example("known_causes", tmp_path_factory.mktemp("known_causes") / "study"))


@pytest.fixture(scope="module")
def asked(study):
    rows = pd.concat([study.frame, study.rungs], ignore_index=True)
    names = dict(zip(("baseline", "challenger"), TARGETS, strict=True))
    return rows, names | {"axis": "size", "group_by": study.group_by, "drift": study.drift}


@pytest.fixture(scope="module")
def parts(asked):
    rows, question = asked
    return explain(rows, **question)


@pytest.fixture(scope="module")
def left(asked):
    rows, question = asked
    return without(rows, **question).set_index("without")


pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]


def test_every_rung_of_an_own_step_is_measured_on_both_targets(study):
    ok = study.rungs[study.rungs["status"].eq("ok") & study.rungs["rung"].ne("cold")]
    measured = ok.groupby(["target", "rung"]).size()
    assert set(measured.index) == {(target, rung) for target in TARGETS for rung in ("preload", "resident", "nosync")}
    assert measured.nunique() == 1


@pytest.mark.parametrize("part", ["loader", "transfer", "sync", "rest"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_part_has_the_share_that_was_prescribed(parts, prescribed, target, part):
    own = parts[(parts["target"] == target) & (parts["part"] == part)]
    assert len(own) >= 4
    for size, low, high in own[["size", "share_low", "share_high"]].itertuples(index=False):
        whole = sum(prescribed.milliseconds(each, size, target) for each in prescribed.PARTS)
        share = prescribed.milliseconds(part, size, target) / whole
        assert low <= share <= high, own
        assert share == 0 or low > 0, own  # it is narrow enough to tell that there is something


def test_without_a_cause_the_targets_meet_where_they_would(left):
    for cause, size in MEETINGS.items():
        found = left.loc[cause]
        assert (found["verdict"], found["direction"]) == ("crosses", "challenger_above")
        assert found["low"] <= size <= found["high"], found
        assert found["bracket_low"] <= size <= found["bracket_high"], found


def test_how_much_lower_that_is_is_told(left):
    for cause, size in MEETINGS.items():
        found = left.loc[cause]
        assert found["factor_low"] <= size / WHOLE <= found["factor_high"] < 1, found
