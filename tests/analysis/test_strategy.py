"""What a sweep that looks for its own sizes wishes for next: searches side by side, maps, and what never happens."""

import itertools
import math
import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.strategy import asked_values, map_axis, next_wishes, searches
from sweeps.definition import Sweep

MOST_QUESTIONS = 400  # far beyond any cap: a search that gets here would never end


def sweep(**options):
    asked = {
        "name": "made",
        "workload": "mlp",
        "axes": {"batch_size": {"from": 4, "to": 4096}},
        "targets": ["cpu", "gpu"],
        "strategy": "adaptive",
        "half_width": 0.1,
    }
    return Sweep.model_validate(asked | options)


def crossing_at(place=300.0, slope=0.8):
    return lambda trial: -slope * math.log(trial.parameters["batch_size"] / place)


def rows_of(trials, ratio, *, fail=lambda trial: None, noise=0.02):
    """The rows of a pair; the same trial always has the same answer."""
    rows = []
    for trial in trials:
        chance = np.random.default_rng(list(trial.trial_id.encode()))
        status = fail(trial) or "ok"
        typical = 1e-5 * trial.parameters["batch_size"]
        if trial.target.name == "gpu":
            typical *= math.exp(ratio(trial))
        times = typical * np.exp(chance.normal(0, noise) + chance.normal(0, 0.02, trial.most_steps or 10))
        rows.append(
            {
                **trial.parameters,
                "trial_id": trial.trial_id,
                "attempt": 0,
                "rung": trial.rung,
                "target": trial.target.name,
                "pass_index": trial.pass_index,
                "paired": True,
                "status": status,
                "step_times_s": times if status == "ok" else None,
                "steps_per_block": 1,
            }
        )
    return rows


def run(asked, ratio, *, rows=(), nodes=1, **how):
    """Ask and answer until nothing is wished for; every answer comes before the next question."""
    rows, wishes = list(rows), []
    for _ in range(MOST_QUESTIONS):
        found = next_wishes(asked, pd.DataFrame(rows), nodes=nodes)
        if not found.wishes:
            return pd.DataFrame(rows), wishes, found
        for wish in found.wishes:
            wishes.append(wish)
            there = {row["trial_id"] for row in rows}
            trials = asked.pair_at(wish.values, wish.pass_index, most_steps=wish.most_steps)
            rows += rows_of([trial for trial in trials if trial.trial_id not in there], ratio, **how)
    pytest.fail("the sweep does not end")


def test_a_search_finds_its_change_and_says_where_it_is():
    frame, wishes, found = run(sweep(), crossing_at())
    assert found.stop == "the interval is as narrow as was asked for"
    low, high = (float(word) for word in found.state.split() if word.replace(".", "").isdigit())
    assert low < 300 < high
    assert found.state == f"between batch_size {low:g} and {high:g} ({len(wishes)} pairs)"
    assert len(frame) == 2 * len(wishes)
    assert {type(wish.values["batch_size"]) for wish in wishes} == {int}
    assert all(wish.most_steps in (5, 7) and wish.why and wish.stage for wish in wishes)


def test_before_the_first_row_the_range_is_wished_for():
    found = next_wishes(sweep(), pd.DataFrame())
    assert [wish.stage for wish in found.wishes] == ["scan"]
    assert found.state == "no change of the winner so far (0 pairs)"
    assert not found.stop


def test_listed_sizes_are_the_only_ones_and_stay_as_they_are():
    asked = sweep(axes={"batch_size": [4, 64, 200, 400, 1000, 4096]})
    _, wishes, _ = run(asked, crossing_at())
    assert {wish.values["batch_size"] for wish in wishes} <= {4, 64, 200, 400, 1000, 4096}


def test_each_combination_of_the_other_axes_is_a_search_and_none_is_left_behind():
    asked = sweep(axes={"batch_size": {"from": 4, "to": 4096}, "width": [64, 256], "optimizer": ["SGD", "AdamW"]})
    places = {(64, "SGD"): 100.0, (64, "AdamW"): 200.0, (256, "SGD"): 400.0, (256, "AdamW"): 800.0}

    def ratio(trial):
        return -0.8 * math.log(
            trial.parameters["batch_size"] / places[trial.parameters["width"], trial.parameters["optimizer"]]
        )

    _, wishes, found = run(asked, ratio)
    assert {(wish.values["width"], wish.values["optimizer"]) for wish in wishes[:4]} == set(places)
    assert found.stop.endswith("the interval is as narrow as was asked for")
    for combination, place in places.items():
        near = [w for w in wishes if (w.values["width"], w.values["optimizer"]) == combination and w.stage == "polish"]
        assert near
        assert all(abs(math.log(wish.values["batch_size"] / place)) < 0.4 for wish in near)


def test_a_lever_that_means_nothing_on_a_cpu_shares_its_trials_and_no_question():
    asked = sweep(axes={"batch_size": {"from": 4, "to": 4096}, "transfer": ["pageable", "pinned"]})
    places = {"pageable": 150.0, "pinned": 900.0}

    def ratio(trial):
        return -0.8 * math.log(trial.parameters["batch_size"] / places[trial.parameters["transfer"]])

    frame, wishes, found = run(asked, ratio)
    assert "narrow as was asked" in found.stop
    assert frame["trial_id"].is_unique
    assert frame["target"].eq("cpu").sum() < frame["target"].eq("gpu").sum() == len(wishes)
    assert not [wish for wish in wishes if wish.stage == "finish"]


def test_free_machines_are_shared_and_no_pair_is_wished_for_twice():
    asked = sweep(axes={"batch_size": {"from": 4, "to": 4096}, "width": [64, 256]})
    found = next_wishes(asked, pd.DataFrame(), nodes=6)
    assert len(found.wishes) == 6
    assert [sum(wish.values["width"] == width for wish in found.wishes) for width in (64, 256)] == [3, 3]
    more = next_wishes(asked, pd.DataFrame(), pending=found.wishes, nodes=3)
    assert len(more.wishes) == 3
    assert len({wish.key for wish in (*found.wishes, *more.wishes)}) == 9


def test_machines_that_one_search_has_no_use_for_serve_the_other():
    asked = sweep(axes={"batch_size": {"from": 4, "to": 4096}, "width": [64, 256]})
    frame, _, _ = run(asked, crossing_at())
    rows = frame[frame["width"].eq(64)].to_dict("records")
    found = next_wishes(asked, pd.DataFrame(rows), nodes=4)
    assert [wish.values["width"] for wish in found.wishes] == [256] * 4


def test_what_is_under_way_is_waited_for_before_it_is_said_to_stop():
    asked = sweep(max_pairs=5)
    found = next_wishes(asked, pd.DataFrame(), nodes=5)
    waiting = next_wishes(asked, pd.DataFrame(), pending=found.wishes, nodes=1)
    assert not waiting.wishes
    assert not waiting.stop
    _, wishes, ended = run(asked, crossing_at())
    assert len(wishes) == 5
    assert ended.stop.startswith("5 pairs were measured, which is the most")


def test_a_third_target_is_no_part_of_the_question():
    asked = sweep(targets=["cpu-1", "gpu", "cpu"], baseline="cpu", challenger="gpu")
    first = next_wishes(asked, pd.DataFrame()).wishes[0]
    trials = asked.pair_at(first.values, first.pass_index)
    assert len(trials) == 3
    rows = rows_of([trial for trial in trials if trial.target.name == "cpu-1"], crossing_at())
    assert next_wishes(asked, pd.DataFrame(rows)).wishes == (first,)


def test_a_pair_of_which_one_target_is_missing_is_finished_first():
    asked = sweep()
    first = next_wishes(asked, pd.DataFrame()).wishes[0]
    rows = rows_of(asked.pair_at(first.values, 0)[:1], crossing_at())
    (again,) = next_wishes(asked, pd.DataFrame(rows)).wishes
    assert (again.values, again.pass_index, again.stage) == (first.values, 0, "finish")


def test_rows_of_the_ladder_are_no_answers():
    asked = sweep()
    first = next_wishes(asked, pd.DataFrame()).wishes[0]
    rows = [row | {"rung": "kernel"} for row in rows_of(asked.pair_at(first.values, 0), crossing_at())]
    assert next_wishes(asked, pd.DataFrame(rows)).wishes == (first,)


def test_a_range_that_has_grown_is_searched_where_it_is_new():
    frame, _, _ = run(sweep(), crossing_at())
    wider = sweep(axes={"batch_size": {"from": 4, "to": 16384}})
    _, wishes, _ = run(wider, crossing_at(), rows=frame.to_dict("records"))
    assert {wish.values["batch_size"] for wish in wishes if wish.stage == "scan"} == {8192, 16384}


# ----------------------------------------------------------------------------------------------------------------- maps


def over_both(trial):
    return -0.5 * math.log(trial.parameters["batch_size"] * trial.parameters["width"] / 2.0**14)


BOTH = {"batch_size": {"from": 4, "to": 4096}, "width": {"from": 8, "to": 8192}}


def test_two_axes_of_sizes_are_a_map_of_their_octaves():
    asked = sweep(axes=BOTH)
    assert map_axis(asked) == "width"
    assert asked_values(asked, "width") == [2**n for n in range(3, 14)]
    _, wishes, found = run(asked, over_both, nodes=3)
    cells = {(wish.values["batch_size"], wish.values["width"]) for wish in wishes}
    assert cells < {(x, y) for x in asked_values(asked, "batch_size") for y in asked_values(asked, "width")}
    assert len(cells) < 0.6 * 121
    assert found.state.startswith(
        f"{len(cells)} of 121 cells measured, {121 - len(cells)} lie among cells that agree ("
    )
    assert "every cell is measured" in found.stop


def test_a_list_beside_a_span_is_no_map_but_a_search_for_each_of_its_values():
    assert not map_axis(sweep(axes={"batch_size": {"from": 4, "to": 64}, "width": [16, 2048]}))
    assert not map_axis(sweep(axes={"batch_size": {"from": 4, "to": 64}, "optimizer": ["SGD", "AdamW", "Adam"]}))
    assert not map_axis(sweep(axes={"batch_size": {"from": 4, "to": 64}, "width": [16, 64, 256]}))


def test_two_lists_or_a_second_span_are_a_map():
    assert map_axis(sweep(axes={"batch_size": [4, 16, 64], "width": [16, 64, 256]})) == "width"
    assert map_axis(sweep(axes={"batch_size": [4, 16, 64], "width": {"from": 16, "to": 256}})) == "width"


@pytest.mark.parametrize(
    ("low", "high", "octaves"),
    [(4, 4096, 11), (3, 1000, 10), (1, 2, 2), (5, 9, 2), (4, 66, 5), (4, 100, 6), (0.5, 3.0, 4)],
)
def test_the_octaves_of_a_span_hold_both_ends_and_grow_by_two(low, high, octaves, tmp_path):
    (tmp_path / "own.py").write_text("def make(*, seed, x):\n    pass\n")
    asked = sweep(workload=f"{tmp_path / 'own.py'}:make", axes={"x": {"from": low, "to": high}})
    values = asked_values(asked, "x")
    assert (values[0], values[-1], len(values)) == (low, high, octaves)
    assert values == sorted(set(values))
    assert max(b / a for a, b in itertools.pairwise(values)) <= 2.2


# ----------------------------------------------------------------------------------------------------------- properties


@settings(max_examples=25, deadline=None)
@given(
    low=st.integers(1, 40),
    more=st.integers(1, 3000),
    widths=st.lists(st.integers(1, 64), min_size=1, max_size=4, unique=True),
    most=st.integers(5, 25),
    place=st.floats(1, 5000),
    slope=st.floats(-1, 1),
    nodes=st.integers(1, 4),
    status=st.sampled_from(["ok", "ok", "oom", "timeout", "crashed", "node_lost"]),
    ceiling=st.floats(1, 5000),
    seed=st.integers(0, 1000),
)
def test_it_ends_within_its_axes_and_its_cap_and_wishes_for_nothing_twice(
    low, more, widths, most, place, slope, nodes, status, ceiling, seed
):
    axes = {"batch_size": {"from": low, "to": low + more}, "width": widths}
    asked = sweep(axes=axes, max_pairs=most, seed=seed)
    frame, wishes, found = run(
        asked,
        crossing_at(place, slope),
        nodes=nodes,
        fail=lambda trial: status if trial.target.name == "gpu" and trial.parameters["batch_size"] >= ceiling else None,
    )
    assert found.stop
    assert frame["trial_id"].is_unique
    assert len({wish.key for wish in wishes}) == len(wishes) <= most * len(widths)
    for wish in wishes:
        size = wish.values["batch_size"]
        assert isinstance(size, int)
        assert low <= size <= low + more
        assert wish.values["width"] in widths
    of_each = {}
    for wish in wishes:
        of_each.setdefault(tuple(wish.values.values()), []).append(wish.pass_index)
    assert all(sorted(passes) == list(range(len(passes))) for passes in of_each.values())


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1000), widths=st.sampled_from([[64], [64, 256], {"from": 16, "to": 256}]), data=st.data())
def test_after_an_interruption_at_any_row_the_same_pairs_follow(seed, widths, data):
    asked = sweep(axes={"batch_size": {"from": 4, "to": 1024}, "width": widths}, seed=seed, max_pairs=20)
    frame, wishes, found = run(asked, crossing_at(100))
    cut = data.draw(st.integers(0, len(frame)))
    rows = frame.iloc[:cut].to_dict("records")
    random.Random(seed).shuffle(rows)
    again, rest, ended = run(asked, crossing_at(100), rows=rows)
    assert set(again["trial_id"]) == set(frame["trial_id"])
    assert [wish.key for wish in rest] == [wish.key for wish in wishes[cut // 2 :]]
    assert ended == found


def test_a_grid_has_a_plan_and_no_wishes():
    with pytest.raises(ValueError, match="has a plan"):
        next_wishes(
            Sweep.model_validate(
                {"name": "a", "workload": "mlp", "axes": {"batch_size": [4]}, "targets": ["cpu", "gpu"]}
            ),
            pd.DataFrame(),
        )


def test_searches_are_told_apart_by_their_other_axes():
    asked = sweep(axes={"batch_size": {"from": 4, "to": 64}, "width": [16, 64]})
    assert [one.label for one in searches(asked, pd.DataFrame())] == ["width 16", "width 64"]
    assert [one.label for one in searches(sweep(), pd.DataFrame())] == [""]
