"""The medians and spreads of step times, against numpy's."""

import numpy as np
import pytest

from analysis.step_times import reduce_step_times


def reduced(lists, wanted=None):
    rows = np.empty(len(lists), dtype=object)
    rows[:] = lists
    return reduce_step_times(rows, np.ones(len(lists), dtype=bool) if wanted is None else np.array(wanted))


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8, 11])
def test_one_value_a_row(length):
    times = np.random.default_rng(1).lognormal(-5, 0.3, (20, length))
    found = reduced(list(times))
    assert found.steps.tolist() == [length] * 20
    assert found.median_s == pytest.approx(np.median(times, axis=1))
    if length < 4:
        assert np.isnan(found.spread).all()
    else:
        deviation = np.subtract(*np.quantile(np.log(times), [0.75, 0.25], axis=1)) / 1.349
        assert found.spread == pytest.approx(1.571 * deviation**2 / length)


def test_lists_tuples_and_arrays_of_any_length_mix():
    found = reduced([[3.0, 1.0, 2.0], (4.0,), np.array([1.0, 3.0]), [5, 6], None, float("nan"), "slow", []])
    assert found.steps.tolist() == [3, 1, 2, 2, 0, 0, 0, 0]
    assert found.median_s[:4].tolist() == [2.0, 4.0, 2.0, 5.5]
    assert np.isnan(found.median_s[4:]).all()


def test_rows_that_cannot_be_times_have_no_median():
    found = reduced([[1.0, -1.0], [1.0, np.nan], [np.inf, 1.0], [1.0, 2.0]])
    assert np.isnan(found.median_s).tolist() == [True, True, True, False]


def test_rows_that_are_not_wanted_are_left_alone():
    found = reduced([[1.0, 2.0], ["text"]], wanted=[True, False])
    assert found.median_s[0] == 1.5
    assert np.isnan(found.median_s[1])


def test_zeros_are_times():
    found = reduced([[0.0, 0.0, 0.0, 0.0, 1e-6]])
    assert found.median_s.tolist() == [0.0]
    assert np.isfinite(found.spread).all()


def test_the_order_of_the_steps_is_nothing_but_to_the_checksum():
    found = reduced([[1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0]])
    assert len(set(found.median_s)) == len(set(found.spread)) == 1
    assert found.checksum[0] == found.checksum[2] != found.checksum[1]


def test_given_times_are_not_changed():
    times = np.array([3.0, 1.0, 2.0])
    reduced([times])
    assert times.tolist() == [3.0, 1.0, 2.0]


def test_text_is_refused():
    with pytest.raises(ValueError, match="step_times_s must hold lists of numbers"):
        reduced([["fast"]])
