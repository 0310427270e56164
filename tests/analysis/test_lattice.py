"""Two axes: which cells are asked, what is inferred of the others, and that islands are found."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.lattice import Grid, ask_cells

VALUES = tuple(2.0**n for n in range(16))
MOST_QUESTIONS = 600


def grid(**options):
    asked = {"axes": ("size", "width"), "x": VALUES, "y": VALUES, "baseline": "cpu", "challenger": "gpu", "nodes": 16}
    return Grid(**asked | options)


def slope(product=2.0**15):
    return lambda x, y: -0.4 * math.log(x * y / product)


def rows_of(request, ratio, rng, fail=lambda *case: None):
    rows = []
    for target, log_ratio in (("cpu", 0.0), ("gpu", ratio(request.x, request.y))):
        status = fail(target, request.x, request.y) or "ok"
        times = (1e-2 * np.exp(log_ratio + rng.normal(0, 0.02, request.steps))).tolist()
        rows.append(
            {
                "size": request.x,
                "width": request.y,
                "target": target,
                "pass_index": request.pass_index,
                "status": status,
                "step_times_s": times if status == "ok" else None,
            }
        )
    return rows


def run(ratio, asked, *, fail=lambda *case: None):
    rng, rows, requests = np.random.default_rng(0), [], []
    for _ in range(MOST_QUESTIONS):
        answer = ask_cells(pd.DataFrame(rows), asked)
        if not answer.requests:
            return answer, requests
        for request in answer.requests:
            requests.append(request)
            rows += rows_of(request, ratio, rng, fail)
    pytest.fail("the map does not end")


def wrong(answer, ratio):
    truth = [ratio(x, y) for x, y in zip(answer.cells["size"], answer.cells["width"], strict=True)]
    state = answer.cells["state"].map({"baseline": 1, "challenger": -1}).fillna(0)
    return int(((state != 0) & (state != np.sign(truth))).sum())


def test_a_straight_frontier_takes_less_than_half_of_the_cells():
    answer, _ = run(slope(), grid())
    assert (answer.cells["cell"] == "measured").mean() < 0.45
    assert set(answer.cells["cell"]) == {"measured", "surrounded"}
    assert wrong(answer, slope()) == 0


def test_the_lattice_comes_first_with_both_ends_of_both_axes():
    answer = ask_cells(pd.DataFrame(), grid(nodes=100))
    lines = {VALUES[n] for n in (0, 4, 8, 12, 15)}
    assert {(one.x, one.y) for one in answer.requests} == {(x, y) for x in lines for y in lines}
    assert {one.stage for one in answer.requests} == {"lattice"}
    assert set(answer.cells["cell"]) == {"unmeasured"}


def test_one_winner_is_audited_and_no_more():
    _, requests = run(lambda x, y: 0.7, grid())
    assert [one.stage for one in requests].count("audit") == 8  # 3 % of 256
    assert len(requests) == 25 + 8


def test_an_island_on_no_line_of_the_lattice_is_found_by_the_audit():
    def ratio(x, y):
        return -0.7 if x in VALUES[1:4] and y in VALUES[1:4] else 0.7

    answer, requests = run(ratio, grid())
    assert "audit" in {one.stage for one in requests}
    assert wrong(answer, ratio) == 0
    assert (answer.cells["state"] == "challenger").sum() == 9


def test_a_cell_that_is_close_is_measured_three_times_and_called_undecided():
    answer, requests = run(lambda x, y: 0.001 if (x, y) == (1.0, 1.0) else 0.7, grid())
    assert sum((one.x, one.y) == (1.0, 1.0) for one in requests) == 3
    (cell,) = answer.cells[(answer.cells["size"] == 1) & (answer.cells["width"] == 1)].to_dict("records")
    assert (cell["state"], cell["cell"], cell["pairs"]) == ("undecided", "measured", 3)


def test_a_timeout_is_a_known_sign():
    def fail(target, x, y):
        return "timeout" if target == "cpu" and x * y > 2.0**20 else None

    answer, _ = run(slope(), grid(), fail=fail)
    assert wrong(answer, slope()) == 0
    assert (answer.cells["state"] == "challenger").sum() > 100


@pytest.mark.parametrize(("status", "target"), [("timeout", "cpu"), ("oom", "gpu")])
def test_nothing_larger_is_asked_than_a_cell_that_was_too_large(status, target):
    def fail(name, x, y):
        return status if name == target and x * y > 2.0**20 else None

    answer, requests = run(slope(), grid(nodes=1), fail=fail)
    failed = [(one.x, one.y) for one in requests if fail(target, one.x, one.y)]
    assert failed
    for place, (x, y) in enumerate(failed):
        assert not [later for later in failed[place + 1 :] if later[0] >= x and later[1] >= y]
    beyond = answer.cells[answer.cells["cell_why"].str.endswith("at a smaller size")]
    assert len(beyond) > 20
    assert (beyond["size"] * beyond["width"] > 2.0**20).all()
    known = ("surrounded", "challenger") if status == "timeout" else ("unmeasured", "unknown")
    assert set(zip(beyond["cell"], beyond["state"], strict=True)) == {known}


def test_cells_that_fail_say_so_and_nothing_is_inferred_from_them():
    def fail(target, x, y):
        return "oom" if target == "gpu" and x * y > 2.0**24 else None

    answer, _ = run(slope(), grid(), fail=fail)
    large = answer.cells["size"] * answer.cells["width"] > 2.0**24
    assert (answer.cells.loc[large, "state"] == "unknown").all()
    assert "failed" in set(answer.cells["cell"])


def test_as_many_pairs_as_nodes_are_asked_and_none_that_is_under_way():
    first = ask_cells(pd.DataFrame(), grid(nodes=3)).requests
    assert len(first) == 3
    more = ask_cells(pd.DataFrame(), grid(nodes=5), pending=first).requests
    assert len(more) == 2
    assert not {(one.x, one.y) for one in more} & {(one.x, one.y) for one in first}


@pytest.mark.parametrize("nodes", [1, 4])
def test_half_a_pair_is_asked_again(nodes):
    asked = grid(nodes=nodes)
    first = ask_cells(pd.DataFrame(), asked).requests[0]
    rows = rows_of(first, slope(), np.random.default_rng(0))
    (again,) = ask_cells(pd.DataFrame(rows[1:]), asked).requests
    assert (again.x, again.y, again.pass_index, again.stage) == (first.x, first.y, 0, "finish")


@settings(max_examples=15)
@given(
    wide=st.integers(2, 9),
    high=st.integers(2, 9),
    seed=st.integers(0, 1000),
    nodes=st.integers(1, 20),
    most=st.integers(1, 150),
    status=st.sampled_from(["ok", "oom", "timeout", "error"]),
)
def test_a_map_ends_and_asks_no_pair_twice(wide, high, seed, nodes, most, status):
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, 0.3, (wide, high))  # no frontier at all
    failing = rng.random((wide, high)) < 0.2
    place = {value: n for n, value in enumerate(VALUES)}
    answer, requests = run(
        lambda x, y: truth[place[x], place[y]],
        grid(x=VALUES[:wide], y=VALUES[:high], nodes=nodes, max_pairs=most),
        fail=lambda target, x, y: status if target == "gpu" and failing[place[x], place[y]] else None,
    )
    keys = [(one.x, one.y, one.pass_index) for one in requests]
    assert len(set(keys)) == len(keys) <= most
    assert all(one.x in VALUES[:wide] and one.y in VALUES[:high] and one.pass_index < 3 for one in requests)
    assert answer.stop
    assert len(answer.cells) == wide * high


def test_axes_without_a_range_are_refused():
    with pytest.raises(ValueError, match="ascending"):
        grid(x=(1.0,))
    with pytest.raises(ValueError, match="ascending"):
        grid(y=(2.0, 1.0))
