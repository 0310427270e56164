"""Where to measure next: what is asked, when it ends, and that its interval holds the truth."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import crossovers
from analysis.adaptive import Range, Request, Search, advise
from analysis.local import DRIFT, Pairs, fit_line, narrowed
from analysis.summary import summarise
from analysis.verdict import Verdict

ASKED = {"axis": "size", "baseline": "cpu", "challenger": "gpu"}
WIDE = Range(low=16, high=16384, whole=True)
MOST_QUESTIONS = 200  # far beyond any cap: a search that gets here would never end


def asked(**options):
    return Search(**{**ASKED, "range": WIDE, **options})


def falling(crossing=700.0, slope=0.7):
    return lambda size: -slope * math.log(size / crossing)


class Machine:
    """Answers pairs: a log ratio of the size with some noise, or a status of a target and size."""

    def __init__(self, ratio, *, noise=0.03, fail=lambda target, size: None, seed=0):
        self.ratio, self.noise, self.fail = ratio, noise, fail
        self.rng = np.random.default_rng(seed)

    def measure(self, request):
        shared, rows = self.rng.normal(0, self.noise), []
        for target, log_ratio in (("cpu", 0.0), ("gpu", self.ratio(request.size) + shared)):
            status = self.fail(target, request.size) or "ok"
            times = 1e-3 * request.size * np.exp(log_ratio + self.rng.normal(0, 0.02, request.steps))
            rows.append(
                {
                    "size": request.size,
                    "target": target,
                    "pass_index": request.pass_index,
                    "status": status,
                    "step_times_s": times.tolist() if status == "ok" else None,
                }
            )
        return rows


def run(machine, search, *, rows=()):
    """Ask and answer until the search ends; every answer of a batch comes before the next question."""
    rows, requests = list(rows), []
    for _ in range(MOST_QUESTIONS):
        advice = advise(pd.DataFrame(rows), search)
        if not advice.requests:
            return pd.DataFrame(rows), requests, advice
        for request in advice.requests:
            requests.append(request)
            rows += machine.measure(request)
    pytest.fail("the search does not end")


# --------------------------------------------------------------------------------------------------------------- asked


def test_the_whole_range_is_scanned_before_anything_is_narrowed():
    _, requests, _ = run(Machine(falling(slope=1.2)), asked(half_width=0.06))
    stages = [request.stage for request in requests]
    scanned = sorted(request.size for request in requests if request.stage == "scan")
    assert scanned == [2.0**n for n in range(4, 15)]
    assert stages[: len(scanned)] == ["scan"] * len(scanned)
    assert "polish" in stages


@pytest.mark.parametrize("seed", range(8))
def test_a_noisy_machine_is_not_given_up_before_each_undecided_size_had_its_pairs(seed):
    frame, _, advice = run(Machine(falling(slope=0.15), noise=0.6, seed=seed), asked())
    pairs = frame.groupby("size")["pass_index"].nunique()
    (answer,) = crossovers(frame, axis="size", baseline="cpu", challenger="gpu", drift=DRIFT).to_dict("records")
    if not (answer["verdict"] == "several" or answer["bracket_low"] < math.inf) and advice.pairs < asked().max_pairs:
        sizes = summarise(frame, axis="size", baseline="cpu", challenger="gpu", drift=DRIFT).set_index("size")
        unsure = sizes.index[sizes["state"] == "undecided"]
        assert (pairs[unsure] >= 3).all(), advice.stop
        ends = [size for size in (WIDE.low, WIDE.high) if size in unsure]
        assert (pairs[ends] >= 6).all(), advice.stop


def test_with_a_margin_the_end_of_a_search_speaks_of_it():
    _, _, never = run(Machine(lambda _: 0.02), asked(margin=0.1))
    _, _, always = run(Machine(lambda _: -0.6), asked(margin=0.1))
    assert never.stop == "gpu is nowhere 10 % faster, and certainly not at both ends"
    assert always.stop == "gpu is at least 10 % faster throughout, and certainly so at both ends"


def test_where_one_fails_at_large_sizes_the_end_does_not_speak_of_them():
    def fail(target, size):
        return "error" if target == "gpu" and size >= 256 else None

    _, _, advice = run(Machine(lambda _: 0.6, fail=fail), asked())
    assert advice.stop == "cpu is faster wherever both could be compared, and certainly so at both ends"


def test_sizes_beyond_a_deadline_were_not_compared_either():
    def fail(target, size):
        return "timeout" if target == "gpu" and size >= 256 else None

    _, requests, advice = run(Machine(lambda _: 0.6, fail=fail), asked())
    assert max(request.size for request in requests) < WIDE.high
    assert advice.stop == "cpu is faster wherever both could be compared, and certainly so at both ends"


def test_pairs_are_measured_on_either_side_of_the_change():
    frame, requests, advice = run(Machine(falling(slope=1.2)), asked(half_width=0.06))
    polished = {request.size for request in requests if request.stage == "polish"}
    assert min(polished) < 700 < max(polished)
    assert all(abs(math.log(size / 700)) < 0.35 for size in polished)
    assert advice.stop == "the interval is as narrow as was asked for"
    (row,) = narrowed(frame, **ASKED).to_dict("records")
    assert row["verdict"] == "crosses"
    assert row["low"] < 700 < row["high"]
    assert math.sqrt(row["high"] / row["low"]) - 1 <= 0.06


def test_a_range_that_has_grown_is_scanned_where_it_is_new():
    machine = Machine(falling())
    frame, _, _ = run(machine, asked())
    wider = asked(range=Range(low=16, high=65536, whole=True))
    _, requests, _ = run(machine, wider, rows=frame.to_dict("records"))
    assert [request.size for request in requests if request.stage == "scan"] == [32768, 65536]


@pytest.mark.parametrize("nodes", [1, 4])
def test_a_pair_of_which_one_target_is_missing_is_asked_again(nodes):
    search = asked(nodes=nodes)
    rows = Machine(falling()).measure(advise(pd.DataFrame(), search).requests[0])
    (request,) = advise(pd.DataFrame(rows[:1]), search).requests
    assert (request.size, request.pass_index, request.stage) == (rows[0]["size"], 0, "finish")


def test_one_pair_a_free_node_is_asked_and_none_twice():
    search = asked(nodes=4)
    first = advise(pd.DataFrame(), search).requests
    assert len(first) == 4
    rows = Machine(falling()).measure(first[0])
    (more,) = advise(pd.DataFrame(rows), search, pending=first[1:]).requests
    assert more.size not in {request.size for request in first}
    assert not advise(pd.DataFrame(), search, pending=first).requests
    assert not advise(pd.DataFrame(), search, pending=first).stop


def test_the_question_depends_neither_on_the_order_of_the_rows_nor_on_what_was_asked_before():
    frame, _, _ = run(Machine(falling()), asked(max_pairs=14))
    shuffled = frame.sample(frac=1, random_state=1)
    assert advise(frame, asked()) == advise(shuffled, asked())


def test_an_axis_of_exponents_is_asked_in_its_own_unit():
    search = asked(axis=("size", 2), range=Range(low=2, high=12), half_width=0.2)
    _, requests, advice = run(Machine(lambda exponent: -0.6 * (exponent - 7.3)), search)
    assert sorted(request.size for request in requests if request.stage == "scan") == [float(n) for n in range(2, 13)]
    ((low, high),) = advice.intervals
    assert low < 7.3 < high
    assert (high - low) / 2 <= 0.2


def test_where_only_some_sizes_are_legal_no_other_is_asked():
    values = (16.0, 48.0, 96.0, 1000.0, 1100.0, 16384.0)
    _, requests, advice = run(Machine(falling()), asked(range=Range(low=16, high=16384, values=values)))
    assert {request.size for request in requests} <= set(values)
    assert advice.verdict is Verdict.CROSSES


def test_trials_that_are_not_paired_make_no_line():
    machine = Machine(falling())
    requests = [
        Request(size=size, pass_index=n, steps=7, stage="polish", why="")
        for size in (175, 350, 610, 800, 1400, 2800)
        for n in range(5)
    ]
    frame = pd.DataFrame([row | {"paired": False} for request in requests for row in machine.measure(request)])
    assert "not paired" in " ".join(narrowed(frame, **ASKED)["reasons"][0])
    assert "straight line" not in " ".join(narrowed(frame, **ASKED)["reasons"][0])


# ------------------------------------------------------------------------------------------------------------- the end


@pytest.mark.parametrize(("lead", "verdict"), [(0.6, "always_baseline"), (-0.6, "always_challenger")])
def test_one_winner_ends_early(lead, verdict):
    frame, requests, advice = run(Machine(lambda size: lead), asked())
    assert advice.verdict == verdict
    assert len(requests) <= 16
    assert "throughout" in advice.stop
    assert narrowed(frame, **ASKED)["verdict"].tolist() == [verdict]


def test_two_equal_targets_end_before_the_cap_and_do_not_cross():
    _, requests, advice = run(Machine(lambda size: 0.0, noise=0.005), asked())
    assert advice.verdict in (Verdict.TIE, Verdict.UNDETERMINED)
    assert len(requests) < 60
    assert "cpu and gpu" in advice.stop


def test_curves_that_cross_too_flatly_end_with_the_width_in_reach():
    _, requests, advice = run(Machine(falling(slope=0.15), noise=0.01), asked())
    assert advice.stop.startswith("the curves cross too flatly for +-10 %; +-")
    assert len(requests) < 60


def test_the_cap_is_kept():
    _, requests, advice = run(Machine(falling()), asked(max_pairs=13))
    assert len(requests) == 13
    assert "13 pairs were measured" in advice.stop


def test_every_change_of_several_is_found():
    def ratio(size):
        return 0.5 * math.cos(2 * math.pi * math.log(size / 16) / math.log(1024))

    frame, requests, advice = run(Machine(ratio, noise=0.06), asked())
    assert advice.verdict is Verdict.SEVERAL
    assert len(advice.intervals) == 2
    assert len(requests) <= 60
    (row,) = narrowed(frame, **ASKED).to_dict("records")
    assert row["reasons"][1].startswith("the interval")  # of at least one of them there are enough pairs close by
    for change, interval, truth in zip(
        row["changes"], advice.intervals, (16 * 1024**0.25, 16 * 1024**0.75), strict=True
    ):
        assert (change["low"], change["high"]) == pytest.approx(interval)
        assert change["low"] < truth < change["high"]


# ------------------------------------------------------------------------------------------------------------ failures


def test_a_timeout_is_a_known_sign_and_nothing_larger_is_asked():
    machine = Machine(falling(), fail=lambda target, size: "timeout" if target == "cpu" and size > 1500 else None)
    frame, requests, advice = run(machine, asked())
    timed_out = {request.size for request in requests if request.size > 1500}
    assert timed_out == {2048.0}
    assert advice.verdict is Verdict.CROSSES
    (row,) = narrowed(frame, **ASKED).to_dict("records")
    assert row["low"] < 700 < row["high"]


def test_memory_that_runs_out_ends_the_range():
    machine = Machine(falling(), fail=lambda target, size: "oom" if target == "gpu" and size > 3000 else None)
    frame, requests, _ = run(machine, asked())
    assert max(request.size for request in requests) == 4096
    (row,) = narrowed(frame, **ASKED).to_dict("records")
    assert row["low"] < 700 < row["high"]


@pytest.mark.parametrize("status", ["error", "crashed", "node_lost", "unavailable", "invalid", "oom", "timeout"])
def test_a_search_in_which_everything_fails_ends(status):
    _, requests, advice = run(Machine(falling(), fail=lambda target, size: status), asked())
    assert advice.verdict is Verdict.UNDETERMINED
    assert advice.stop
    assert len(requests) <= 2 * 11


def run_under_limit(machine, deadline_s):
    """Run a search in which a trial lasts as long as 20 of its steps, and none is stopped."""
    rows, start = [], pd.Timestamp("2026-01-01", tz="UTC")
    for _ in range(MOST_QUESTIONS):
        advice = advise(pd.DataFrame(rows), asked())
        if not advice.requests:
            return pd.DataFrame(rows), advice
        for row in machine.measure(advice.requests[0]):
            lasted = pd.Timedelta(seconds=20 * float(np.median(row["step_times_s"])))
            rows.append(row | {"deadline_s": deadline_s, "started_at": start, "finished_at": start + lasted})
    pytest.fail("the search does not end")


def test_a_size_sure_to_run_into_the_limit_is_not_measured_to_be_sure():
    frame, advice = run_under_limit(Machine(lambda size: -1.0), 50.0)
    # A CPU trial lasts 0.02 s times the size: 2500 would be at the limit.
    assert frame["size"].max() == 2048
    assert advice.verdict is Verdict.ALWAYS_CHALLENGER


def test_sizes_at_which_the_slower_target_may_have_caught_up_are_measured():
    # The GPU takes the square root of the size, so that it would be at the limit between 256 and 512.
    frame, advice = run_under_limit(Machine(falling(3000, slope=0.5)), 0.02 * math.sqrt(3000 * 400))
    assert frame["size"].max() > 3000
    assert advice.verdict is Verdict.CROSSES


# ---------------------------------------------------------------------------------------------------------- properties

whole_ranges = st.tuples(st.integers(1, 300), st.integers(1, 5000)).map(
    lambda ends: Range(low=ends[0], high=ends[0] + ends[1], whole=True)
)
continuous_ranges = st.tuples(st.floats(0.01, 100), st.floats(1.01, 3000)).map(
    lambda ends: Range(low=ends[0], high=ends[0] * ends[1])
)
listed_ranges = (
    st.lists(st.integers(1, 5000), min_size=2, max_size=12, unique=True)
    .map(sorted)
    .map(lambda values: Range(low=values[0], high=values[-1], whole=True, values=tuple(map(float, values))))
)
statuses = st.sampled_from(["ok", "ok", "ok", "timeout", "oom", "error", "crashed", "node_lost"])


@settings(max_examples=30)
@given(
    sizes=whole_ranges | continuous_ranges | listed_ranges,
    slope=st.floats(-1.5, 1.5),
    place=st.floats(-0.2, 1.2),
    noise=st.sampled_from([0.0, 0.02, 0.1]),
    nodes=st.integers(1, 5),
    most=st.integers(3, 40),
    status=statuses,
    from_where=st.floats(0, 1.5),
    target=st.sampled_from(["cpu", "gpu"]),
)
def test_a_search_ends_within_its_range_and_its_cap_and_asks_nothing_twice(
    sizes, slope, place, noise, nodes, most, status, from_where, target
):
    span = math.log(sizes.high / sizes.low)
    crossing, ceiling = sizes.low * math.exp(span * place), sizes.low * math.exp(span * from_where)
    machine = Machine(
        falling(crossing, slope),
        noise=noise,
        fail=lambda name, size: status if name == target and size >= ceiling else None,
    )
    search = asked(range=sizes, nodes=nodes, max_pairs=most)
    _, requests, advice = run(machine, search)
    assert advice.stop
    assert len(requests) <= most
    keys = [(request.size, request.pass_index) for request in requests]
    assert len(set(keys)) == len(keys)
    for size in {request.size for request in requests}:
        assert sizes.low <= size <= sizes.high
        assert not sizes.whole or size == int(size)
        assert not sizes.values or size in sizes.values
        passes = sorted(index for one, index in keys if one == size)
        assert passes == list(range(len(passes)))


@settings(max_examples=20)
@given(cut=st.integers(1, 25), seed=st.integers(0, 100))
def test_an_interrupted_search_goes_on_where_it_was(cut, seed):
    def answer(request):  # the same pair always has the same answer
        return Machine(falling(), seed=[seed, int(request.size), request.pass_index]).measure(request)

    search, rows, history = asked(seed=seed), [], []
    while (advice := advise(pd.DataFrame(rows), search)).requests:
        history.append(advice.requests)
        rows += answer(advice.requests[0])
    resumed = advise(pd.DataFrame(rows[: 2 * cut]), search).requests
    assert resumed == (history[cut] if cut < len(history) else ())


# ------------------------------------------------------------------------------------------------------------ the line


def test_the_line_has_the_interval_of_inverse_prediction():
    u = np.array([-0.2, 0.2] * 5)
    value = -0.7 * (u - 0.03) + 0.02 * np.array([1, 1, -1, -1, 0.5, 0.5, -0.5, -0.5, 0, 0])
    line = fit_line(Pairs(position=u, value=value), 0.0, drift=0.0)
    assert line.zero == pytest.approx(0.03)
    assert line.slope == pytest.approx(-0.7)
    # At both ends of Fieller's interval the line lies t standard errors from zero.
    t, spread = 2.306004, 10 * 0.04
    for end in (line.low, line.high):
        error = line.sd * math.sqrt(1 / 10 + end**2 / spread)
        assert abs(-0.7 * (end - 0.03)) == pytest.approx(t * error, rel=1e-5)


def test_drift_widens_each_arm_in_quadrature():
    u = np.array([-0.2, 0.2] * 5)
    pairs = Pairs(position=u, value=-0.7 * u + 0.02 * np.tile([1, -1, -1, 1, 0], 2))
    still, drifting = (fit_line(pairs, 0.0, drift=drift) for drift in (0.0, 0.02))
    assert drifting.high - drifting.zero == pytest.approx(
        math.hypot(still.high - still.zero, 1.96 * 0.02 / abs(still.slope))
    )


def test_a_slope_that_is_not_beyond_doubt_leaves_the_interval_open():
    u = np.array([-0.2, 0.2] * 4)
    line = fit_line(Pairs(position=u, value=0.01 * u + 0.1 * np.tile([1, -1], 4) * np.repeat([1, -1], 4)), 0, drift=0)
    assert not line.closed


@pytest.mark.parametrize("u", [[-0.1] * 4 + [0.1] * 3, [0.1] * 9, [-0.9] * 5 + [0.9] * 5])
def test_too_few_pairs_nearby_make_no_line(u):
    assert fit_line(Pairs(position=np.array(u), value=-np.array(u)), 0.0, drift=0.02) is None


def test_without_pairs_close_by_the_conclusion_is_that_of_a_grid():
    frame, _, _ = run(Machine(lambda size: 0.6), asked())
    usual = crossovers(frame, **ASKED, drift=DRIFT)
    pd.testing.assert_frame_equal(narrowed(frame, **ASKED), usual)


def test_groups_are_concluded_each_for_itself():
    rows = []
    for width, crossing in ((8, 300), (16, 900)):
        machine = Machine(falling(crossing))
        for size in (crossing // 4, crossing // 2, 0.86 * crossing, 1.16 * crossing, 2 * crossing, 4 * crossing):
            requests = [Request(size=size, pass_index=n, steps=7, stage="polish", why="") for n in range(5)]
            rows += [row | {"width": width} for request in requests for row in machine.measure(request)]
    answer = narrowed(pd.DataFrame(rows), **ASKED, group_by=["width"])
    for (_, row), crossing in zip(answer.iterrows(), (300, 900), strict=True):
        assert row["low"] < crossing < row["high"]
        assert row["reasons"][1].startswith("the interval is that of a straight line")


# -------------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"low": 4, "high": 4}, "begin below its end"),
        ({"low": 4, "high": 8, "values": (4.0, 16.0)}, "values go from 4 to 16"),
        ({"low": 0.5, "high": 8, "whole": True}, "whole numbers"),
    ],
)
def test_a_range_that_is_none_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        Range(**options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"half_width": 0}, "above 0"),
        ({"max_pairs": 2}, "at least 3"),
        ({"nodes": 0}, "at least"),
        ({"range": Range(low=-2, high=4)}, "sizes must be above 0"),
    ],
)
def test_a_search_for_nothing_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        asked(**options)
