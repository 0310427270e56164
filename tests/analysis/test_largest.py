"""The search for the largest size that fits: it ends, asks nothing twice, and finds what is true."""

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.adaptive import Range
from analysis.largest import NO_FIT, PRECISION, Fit, fits_of, next_size, predicted
from analysis.strategy import next_wishes
from sweeps.definition import Sweep

MIB = 2**20


def search(sizes, status_of):
    """Ask until the search ends; return what is known, the sizes in the order of asking, and why it ended."""
    known, fit = {}, NO_FIT
    while True:
        size, why = next_size(fit, sizes)
        if size is None:
            return fit, list(known), why
        assert sizes.low <= size <= sizes.high
        assert size not in known
        assert not sizes.whole or float(size).is_integer()
        assert not sizes.values or size in sizes.values
        known[size] = status_of(size)
        rows = pd.DataFrame({"size": list(known), "status": list(known.values()), "target": "one"})
        (fit,) = fits_of(rows, axis="size", targets=["one"])


def up_to(most):
    return lambda size: "ok" if size <= most else "oom"


spans = st.tuples(st.integers(1, 1000), st.integers(1, 10**6)).map(
    lambda ends: Range(low=ends[0], high=ends[0] + ends[1], whole=True)
)
continuous = st.tuples(st.floats(1e-3, 1e3), st.floats(1.5, 1e6)).map(
    lambda ends: Range(low=ends[0], high=ends[0] * ends[1])
)
lists = st.lists(st.integers(1, 10**6), min_size=2, max_size=12, unique=True).map(
    lambda values: Range(low=min(values), high=max(values), whole=True, values=tuple(sorted(map(float, values))))
)
ranges = spans | continuous | lists


@given(ranges, st.floats(1e-4, 1e9))
def test_it_finds_the_largest_that_fits(sizes, most):
    fit, asked, why = search(sizes, up_to(most))
    if most < sizes.low:
        assert (fit.fits, fit.fails, why) == (None, sizes.low, "not even the smallest size fits")
    elif most >= sizes.high:
        assert (fit.fits, fit.fails, why) == (sizes.high, None, "the largest size fits")
    else:
        assert fit.fits <= most < fit.fails
        if sizes.values:
            assert sizes.values.index(fit.fails) == sizes.values.index(fit.fits) + 1
        else:
            assert fit.fails <= fit.fits * (1 + PRECISION) or (sizes.whole and fit.fails == fit.fits + 1)
    most_asked = len(sizes.values) or math.ceil(2 * math.log2(sizes.high / sizes.low)) + 2
    assert len(asked) <= max(most_asked, 8)  # a range of less than an octave is halved as finely as any


@given(ranges, st.randoms(use_true_random=False), st.sampled_from(["ok oom", "ok oom timeout", "error oom ok ok ok"]))
def test_it_ends_whatever_the_answers_are(sizes, chance, statuses):
    fit, asked, why = search(sizes, lambda _: chance.choice(statuses.split()))
    assert len(asked) <= 80
    assert why
    assert fit.fits is None or fit.fails is None or fit.fits < fit.fails


def test_doubling_and_then_halving():
    _, asked, why = search(Range(low=1, high=1000, whole=True), up_to(21))
    assert asked == [1, 2, 4, 8, 16, 32, 23, 19, 21, 22]
    assert why == "21 fits and 22 does not"


@pytest.mark.parametrize("status", ["timeout", "error", "crashed", "unavailable", "node_lost", "invalid"])
def test_what_is_no_answer_about_memory_ends_the_search_and_is_no_limit(status):
    fit, asked, why = search(Range(low=1, high=1000, whole=True), lambda size: "ok" if size < 8 else status)
    assert asked == [1, 2, 4, 8]
    assert (fit.fits, fit.fails, dict(fit.in_the_way)) == (4, None, {8: status})
    assert why.startswith("8 ")


def test_sizes_that_were_left_out_say_nothing():
    rows = pd.DataFrame({"size": [1, 2, 4, 8], "status": ["ok", "oom", "skipped_larger", "ok"], "target": "one"})
    (fit,) = fits_of(rows, axis="size", targets=["one"])
    assert (fit.fits, fit.fails, fit.in_the_way, fit.above) == (1, 2, {}, (8,))


def test_the_last_attempt_of_a_trial_counts():
    rows = pd.DataFrame({"size": 4, "status": ["oom", "ok"], "target": "one", "trial_id": "a", "attempt": [1, 2]})
    (fit,) = fits_of(rows, axis="size", targets=["one"])
    assert (fit.fits, fit.fails) == (4, None)


def test_one_pass_that_did_not_fit_is_enough():
    rows = pd.DataFrame({"size": [2, 4, 4], "status": ["ok", "ok", "oom"], "target": "one"})
    (fit,) = fits_of(rows, axis="size", targets=["one"])
    assert (fit.fits, fit.fails, fit.above) == (2, 4, ())


# ------------------------------------------------------------------------------------------------------- a prediction


def grown(*peaks, fits=8192.0, fails=16384.0, limit=100 * MIB):
    asked = {"target": "gpu", "key": {}, "in_the_way": {}, "above": (), "peak_bytes": None}
    return Fit(fits=fits, fails=fails, limit_bytes=limit, grown=dict(peaks), **asked)


def line(size):
    return size, (4 + size / 128) * MIB


def test_between_two_sizes_a_straight_growth_tells_where_the_limit_lies():
    assert predicted(grown(*map(line, (1024, 2048, 4096, 8192)))) == pytest.approx(96 * 128)


@pytest.mark.parametrize(
    "fit",
    [
        grown(*map(line, (4096, 8192))),  # two points are always on a line
        grown(*map(line, (7000, 7500, 8192))),  # too near to each other to show a slope
        grown(line(1024), line(2048), (4096, 60 * MIB), line(8192)),  # not straight
        grown(*map(line, (1024, 2048, 4096, 8192)), limit=None),
        grown(*map(line, (1024, 2048, 4096, 8192)), limit=1000 * MIB),  # beyond what has failed
        grown(*map(line, (1024, 2048, 4096, 8192)), fails=None),  # beyond what was tried
        grown(*map(line, (1024, 2048, 4096, 8192)), fails=8200.0),  # the rows know better
    ],
)
def test_nothing_is_predicted_that_the_rows_do_not_carry(fit):
    assert predicted(fit) is None


# ------------------------------------------------------------------------------------------------------ whole sweeps


def whole_search(truth, **changes):
    """Run a sweep against a truth: (target, width) to the largest batch. Return its rows and the last answer."""
    asked = {"name": "fits", "workload": "mlp", "targets": ["cpu", "gpu"], "strategy": "largest"}
    sweep = Sweep.model_validate(asked | {"axes": {"batch_size": {"from": 1, "to": 4096}, "width": [64, 16]}} | changes)
    rows = []
    while True:
        frame = pd.DataFrame(rows)
        found = next_wishes(sweep, frame)
        assert found == next_wishes(sweep, frame.sample(frac=1, random_state=1) if rows else frame)  # order is no news
        if found.stop:
            return sweep, frame, found
        (wish,) = found.wishes
        assert (wish.pass_index, len(wish.targets)) == (0, 1)
        (trial,) = sweep.pair_at(wish.values, 0, targets=wish.targets, most_steps=wish.most_steps)
        assert trial.for_memory
        row = {name: trial.parameters[name] for name in sweep.axes}
        status = up_to(truth[trial.target.name])(row["batch_size"])
        own = {"target": trial.target.name, "rung": "e2e", "status": status, "trial_id": trial.trial_id, "attempt": 1}
        rows.append(row | own)


def test_each_target_and_each_value_of_another_axis_has_a_search_of_its_own():
    sweep, rows, found = whole_search({"cpu": 40, "gpu": 3})
    assert len(rows) <= sweep.size
    assert rows.groupby(["target", "width"])["batch_size"].count().min() > 3
    assert found.stop == (
        "gpu, width 64: 3 fits and 4 does not; gpu, width 16: 3 fits and 4 does not; "
        "cpu, width 64: 40 fits and 41 does not; cpu, width 16: 40 fits and 41 does not"
    )


def test_a_lever_that_means_nothing_on_a_cpu_makes_no_second_search_there():
    axes = {"batch_size": {"from": 1, "to": 64}, "transfer": ["pageable", "resident"]}
    sweep, rows, _ = whole_search({"cpu": 8, "gpu": 8}, axes=axes)
    assert not rows["trial_id"].duplicated().any()
    assert rows["target"].value_counts()["gpu"] == 2 * rows["target"].value_counts()["cpu"]
    assert len(rows) <= sweep.size == 3 * 14


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"explain": True}, "explain: takes times apart"),
        ({"axes": {"batch_size": [64]}}, "too short to be searched; at least 2 values"),
        ({"passes": 5}, "leave passes out"),
        ({"max_pairs": 7}, "with strategy: adaptive only"),
    ],
)
def test_what_means_nothing_to_it_is_refused(changes, words):
    asked = {"name": "fits", "workload": "mlp", "targets": ["cpu", "gpu"], "strategy": "largest"}
    with pytest.raises(ValueError, match=words):
        Sweep.model_validate(asked | {"axes": {"batch_size": {"from": 1, "to": 64}}} | changes)


def test_machines_that_are_free_get_searches_that_wait_for_nothing():
    sweep = Sweep.model_validate(
        {
            "name": "fits",
            "workload": "mlp",
            "targets": ["cpu", "gpu"],
            "strategy": "largest",
            "axes": {"batch_size": {"from": 1, "to": 4096}, "width": [64, 16]},
        }
    )
    first = next_wishes(sweep, pd.DataFrame(), nodes=3).wishes
    assert len({wish.key for wish in first}) == 3
    (last,) = next_wishes(sweep, pd.DataFrame(), pending=first, nodes=3).wishes
    assert last.key not in {wish.key for wish in first}
    waiting = next_wishes(sweep, pd.DataFrame(), pending=(*first, last), nodes=3)
    assert (waiting.wishes, waiting.stop) == ((), "")
