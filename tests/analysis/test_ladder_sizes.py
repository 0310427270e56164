"""Which configurations deserve the ladder of causes."""

import pytest

from analysis import sizes_to_explain
from sweeps.errors import StudyError
from sweeps.study import read_sweep

SIZES = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]


def sizes_of(folder):
    return [each["batch_size"] for each in sizes_to_explain(folder)]


def test_around_a_crossing_both_flanks_are_chosen_and_then_the_widest_gaps(make_study):
    assert sizes_of(make_study(sizes=SIZES)) == [4, 8, 32, 64, 128, 256, 1024, 4096]


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_where_nothing_changes_the_sizes_are_spread_over_the_range(make_study, factor):
    times = {"cpu": lambda size: 1e-5 * size, "gpu": lambda size: factor * 1e-5 * size}
    assert sizes_of(make_study(sizes=SIZES, times=times)) == [4, 8, 16, 32, 128, 512, 1024, 4096]


def test_gaps_are_factors_and_not_places_in_a_list(make_study):
    times = {"cpu": lambda size: 1e-5 * size, "gpu": lambda size: 2e-5 * size}
    close = [1000 + step for step in range(20)]
    chosen = sizes_of(make_study(sizes=[1, 10, 30, 100, *close], times=times))
    assert {1, 10, 30, 100, 1000, 1019} < set(chosen)


def test_with_several_changes_the_brackets_come_first_and_then_their_flanks(make_study):
    def gpu(size):
        return 1e-5 * size * (0.5 if 30 < size < 600 else 1.6)

    chosen = sizes_of(make_study(sizes=SIZES, times={"cpu": lambda size: 1e-5 * size, "gpu": gpu}))
    assert chosen == [4, 8, 16, 32, 64, 512, 1024, 4096]


def test_a_short_axis_is_taken_whole(make_study):
    assert sizes_of(make_study("one", sizes=[64])) == [64]
    assert sizes_of(make_study("two", sizes=[4, 4096])) == [4, 4096]


def test_each_group_has_its_own_and_values_are_those_of_the_sweep(make_study):
    def time_of(trial):
        size = trial.parameters["batch_size"]
        crossing = {0.5: 20, 1: 800}[trial.parameters["lr"]]
        return 1e-5 * size if trial.target.device == "cpu" else 9e-6 * crossing + 1e-6 * size

    axes = {"batch_size": SIZES, "lr": [0.5, 1], "momentum": [0], "depth": [2], "nesterov": [False]}
    folder = make_study(axes=axes, time_of=time_of)
    chosen = sizes_to_explain(folder)
    assert chosen == sizes_to_explain(folder)
    asked = read_sweep(folder).axes
    for each in chosen:
        assert list(each) == list(axes)
        for name, value in each.items():
            assert any(value == one and type(value) is type(one) for one in asked[name])
    small = [each["batch_size"] for each in chosen if each["lr"] == 0.5]
    large = [each["batch_size"] for each in chosen if each["lr"] == 1]
    assert small == [4, 8, 16, 32, 64, 128, 512, 4096]
    assert large == [4, 8, 32, 256, 512, 1024, 2048, 4096]


def test_a_lever_that_is_null_on_one_target_is_like_any_other(make_study):
    folder = make_study(axes={"batch_size": [4, 64, 4096], "transfer": ["pageable", "pinned"]})
    assert sizes_to_explain(folder) == [
        {"batch_size": size, "transfer": lever} for lever in ("pageable", "pinned") for size in (4, 64, 4096)
    ]


def test_a_lever_that_is_null_everywhere_takes_its_first_value(make_study):
    times = {"cpu-1": lambda size: 1e-5 * size, "cpu": lambda size: 2e-5 * size}
    folder = make_study(axes={"batch_size": [4, 64], "transfer": ["pinned", "pageable"]}, times=times)
    assert sizes_to_explain(folder) == [{"batch_size": size, "transfer": "pinned"} for size in (4, 64)]


def test_sizes_that_cannot_be_compared_are_left_out(make_study):
    folder = make_study(sizes=SIZES, fail=lambda target, size, _: ("oom", "full") if size > 1000 else None)
    assert max(sizes_of(folder)) == 512
    alone = make_study("alone", sizes=SIZES, fail=lambda target, *_: ("unavailable", "x") if target == "gpu" else None)
    assert sizes_of(alone) == [4, 8, 16, 32, 128, 512, 1024, 4096]


def test_a_study_without_any_time_has_nothing_to_explain(make_study):
    assert sizes_to_explain(make_study(fail=lambda *_: ("error", "boom"))) == []
    with pytest.raises(StudyError, match="no trial has been recorded"):
        sizes_to_explain(make_study("empty", skip=lambda *_: True))


def test_the_ladder_itself_changes_nothing(make_study):
    plain = make_study("plain", sizes=SIZES)
    explained = make_study("plain/again", sizes=SIZES, explained=sizes_to_explain(plain))
    assert sizes_of(explained) == sizes_of(plain)
