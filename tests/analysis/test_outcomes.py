"""How trials ended, in words."""

import pytest

from analysis.outcomes import why_no_value


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("timeout", "gpu did not finish (timeout)"),
        ("2 oom, 1 timeout", "gpu did not finish (2 oom, 1 timeout)"),
        ("rate of 0", "gpu has nothing to compare (rate of 0)"),
        ("2 no price, 1 rate of 0", "gpu has nothing to compare (2 no price, 1 rate of 0)"),
        ("2 no price, 1 timeout", "gpu did not finish (2 no price, 1 timeout)"),
    ],
)
def test_who_finished_and_has_nothing_to_compare_is_told_from_who_did_not_finish(outcome, said):
    assert why_no_value("gpu", outcome) == said
