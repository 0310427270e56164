"""What a search has cost, against the grid."""

import math

import pandas as pd
import pytest

from analysis.adaptive import Range, Search
from analysis.lattice import Grid
from analysis.spent import CHANGE, CLOSING_IN, END, WHOLE_RANGE, cost_words, spent, spent_on_map

SEARCH = Search(axis="size", range=Range(low=16, high=256, whole=True), baseline="cpu", challenger="gpu")
START = pd.Timestamp("2026-01-01", tz="UTC")


def trials(sizes, *, seconds=lambda target, size: size / 16, **columns):
    rows = []
    for size in sizes:
        for target in ("cpu", "gpu"):
            lasted = pd.Timedelta(seconds=seconds(target, size))
            times = {"started_at": START, "finished_at": START + lasted}
            row = {"size": size, "target": target, "pass_index": 0, "status": "ok", "step_times_s": [0.1, 0.1]}
            rows.append(row | times | {k: v(target, size) if callable(v) else v for k, v in columns.items()})
    return pd.DataFrame(rows)


def test_a_search_that_measured_the_grid_once_took_a_fifth_of_it():
    found = spent(trials([16, 32, 64, 128, 256]), SEARCH)
    assert (found.pairs, found.grid_pairs) == (5, 25)
    assert found.seconds == pytest.approx(2 * 31)
    assert found.grid_seconds == pytest.approx(5 * 2 * 31)
    assert cost_words([found], "every octave", ended=True) == (
        "5 pairs were measured in 62.0 s; a grid of every octave, with 5 passes, has 25 and would have taken about "
        "5.2 min, so 80 % of that was saved."
    )
    assert cost_words([found, found], "every octave", ended=False) == "10 pairs have been measured so far in 2.1 min."


def test_each_size_has_what_it_cost_and_what_it_was_for():
    times = {16: 40, 32: 10, 64: 2, 75: 1, 90: 0.5, 128: 0.2, 181: 0.1, 256: 0.05}
    frame = pd.concat(
        trials(
            [size], step_times_s=lambda target, size: [times[size] if target == "gpu" else 1.0] * 2, pass_index=index
        )
        for size in times
        for index in range(3 if size == 75 else 1)
    )
    places = spent(frame, SEARCH).places
    assert [(place.size, place.pairs) for place in places] == [(size, 3 if size == 75 else 1) for size in times]
    assert [place.seconds for place in places] == pytest.approx(
        [place.pairs * size / 8 for place, size in zip(places, times, strict=True)]
    )
    assert [place.why for place in places] == [END, WHOLE_RANGE, *[CHANGE] * 3, WHOLE_RANGE, CLOSING_IN, END]


def test_a_map_is_compared_with_all_of_its_cells_each_as_dear_as_the_nearest_that_was_measured():
    grid = Grid(axes=("size", "width"), x=(1, 2, 4, 8), y=(1, 2), baseline="cpu", challenger="gpu")
    frame = pd.concat([trials([1], width=1, seconds=lambda *_: 1), trials([8], width=2, seconds=lambda *_: 10)])
    found = spent_on_map(frame, grid)
    assert (found.pairs, found.grid_pairs) == (2, 5 * 8)
    assert found.seconds == 22
    assert found.grid_seconds == pytest.approx(5 * 2 * (4 * 1 + 4 * 10))
    assert not found.places


def test_a_size_that_the_search_left_out_is_taken_from_its_neighbours():
    found = spent(trials([16, 256]), SEARCH)
    assert found.grid_seconds == pytest.approx(5 * 2 * 31)  # straight on logarithmic axes


def test_the_grid_too_ends_where_trials_are_too_large():
    found = spent(trials([16, 64]), SEARCH)
    assert found.grid_pairs == 5 * 3


def test_rows_that_do_not_say_when_they_ran_have_no_seconds():
    found = spent(trials([16, 256]).drop(columns=["started_at", "finished_at"]), SEARCH)
    assert found.pairs == 2
    assert math.isnan(found.seconds)
    assert cost_words([found], "every octave", ended=True) == (
        "2 pairs were measured; a grid of every octave, with 5 passes, has 25."
    )
