"""States at the edge of what counts."""

import pytest

from analysis.summary import summarise
from tests.analysis.synthetic import ASKED, at_sizes


@pytest.mark.parametrize("unit", [1, 1e-1, 3, 7, 60, 1e3])
def test_exactly_three_per_cent_is_not_strong_in_any_time_unit(unit):
    frame = at_sizes({1: 0.03, 2: 0.031, 4: 0.2, 8: -0.03, 16: -0.031, 32: -0.2}, noise=0.0)
    frame["step_times_s"] = [[unit * time for time in times] for times in frame["step_times_s"]]
    found = summarise(frame, **ASKED)
    assert found["strong"].tolist() == [False, True, True] * 2
    assert found["state"].tolist() == ["baseline"] * 3 + ["challenger"] * 3
