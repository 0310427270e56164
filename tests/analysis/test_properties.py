"""What must hold for any records whatever: nothing raises, and nothing depends on what it should not depend on."""

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import crossovers
from analysis.summary import summarise
from tests.analysis.synthetic import ASKED, at_sizes, with_status

STATUSES = ["ok", "oom", "timeout", "error", "crashed", "invalid", "node_lost", "unavailable", "skipped_larger", None]
TIMES = st.floats(1e-4, 10)  # well above the clock's resolution, in seconds as in milliseconds
NUMBERS = ["estimate", "low", "high", "bracket_low", "bracket_high"]
MIRRORED = {
    "always_baseline": "always_challenger",
    "always_challenger": "always_baseline",
    "challenger_above": "baseline_above",
    "baseline_above": "challenger_above",
}


@st.composite
def any_records(draw, *, times=TIMES):
    """Rows of up to eight sizes, two targets, a few passes and attempts, with every outcome, in no order."""
    row = st.fixed_dictionaries(
        {
            "size": st.sampled_from([1, 2, 3, 8, 20, 64, 300, 1000]),
            "target": st.sampled_from(["cpu", "gpu"]),
            "pass_index": st.integers(0, 2),
            "attempt": st.integers(1, 2),
            "status": st.sampled_from([*["ok"] * 10, *STATUSES]),
            "step_times_s": st.lists(times, max_size=5) | st.none(),
            "interference": st.sampled_from(["clean", "suspect", "contended", "unknown", None]),
            "rung": st.sampled_from(["e2e", "e2e", "e2e", "kernel"]),
            "deadline_s": st.sampled_from([10.0, 20.0, np.nan]),
            "group": st.sampled_from(["a", "b"]),
        }
    )
    frame = pd.DataFrame(draw(st.lists(row, min_size=1, max_size=60)))
    if draw(st.booleans()):
        frame["paired"] = draw(st.booleans())
    return frame.drop(columns=draw(st.sets(st.sampled_from(["pass_index", "attempt", "deadline_s", "interference"]))))


@st.composite
def sweeps(draw):
    """Two whole sweeps over curves that may cross anywhere, with a few trials failed."""
    parts = []
    for group in ("a", "b"):
        ratios = draw(st.lists(st.integers(-80, 80), min_size=2, max_size=7))
        frame = at_sizes(
            {2**index: ratio / 100 for index, ratio in enumerate(ratios)},
            passes=draw(st.integers(1, 4)),
            noise=draw(st.sampled_from([0.0, 0.004, 0.05])),
        )
        failed = draw(st.lists(st.tuples(st.integers(0, 100), st.sampled_from(STATUSES)), max_size=4))
        for row, status in failed:
            frame.loc[row % len(frame), "status"] = status
        for target in draw(st.sets(st.sampled_from(["cpu", "gpu"]), max_size=1)):
            frame = with_status(frame, "timeout", target=target, sizes=[2 ** draw(st.integers(0, 6))])
        parts.append(frame.assign(group=group))
    return pd.concat(parts, ignore_index=True)


FRAMES = st.one_of(any_records(), sweeps())


def same(left, right):
    """Whether two answers agree; numbers to what rounding leaves of them."""
    pd.testing.assert_frame_equal(left.drop(columns="changes"), right.drop(columns="changes"), rtol=1e-6)
    for ours, theirs in zip(left["changes"], right["changes"], strict=True):
        pd.testing.assert_frame_equal(pd.DataFrame(ours), pd.DataFrame(theirs), rtol=1e-6)


@given(st.one_of(any_records(times=st.floats()), FRAMES), st.sampled_from([0, 0.1, 0.9]))
def test_nothing_raises_and_no_number_leaves_the_range(frame, margin):
    answer = crossovers(frame, group_by=["group"], margin=margin, **ASKED)
    assert answer["group"].tolist() == sorted(frame["group"].unique())
    for row in answer.to_dict("records"):
        own = frame[frame["group"] == row["group"]]
        for one in (row, *row["changes"]):
            numbers = np.array([one[name] for name in NUMBERS], dtype=float)
            known = numbers[~np.isnan(numbers)]
            assert ((own["size"].min() <= known) & (known <= own["size"].max())).all()
            low, high = one["low"], one["high"]
            assert not low > high
            assert not one["estimate"] < low
            assert not one["estimate"] > high
        assert row["reasons"]
        assert all(isinstance(reason, str) for reason in row["reasons"])
        assert all(row["reasons"])
        assert (len(row["changes"]) > 1) == (row["verdict"] == "several")


@settings(max_examples=30)
@given(FRAMES, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_is_nothing(frame, random):
    order = list(range(len(frame)))
    random.shuffle(order)
    for function in (crossovers, summarise):
        shuffled = function(frame.iloc[order], group_by=["group"], **ASKED)
        pd.testing.assert_frame_equal(shuffled, function(frame, group_by=["group"], **ASKED), rtol=0, atol=0)


@settings(max_examples=30)
@given(FRAMES)
def test_the_time_unit_is_nothing(frame):
    milliseconds = frame.assign(
        step_times_s=[None if times is None else [1000 * time for time in times] for times in frame["step_times_s"]]
    )
    same(crossovers(milliseconds, group_by=["group"], **ASKED), crossovers(frame, group_by=["group"], **ASKED))


@settings(max_examples=30)
@given(FRAMES)
def test_exchanging_the_targets_mirrors_the_answer(frame):
    answer = crossovers(frame, group_by=["group"], **ASKED)
    mirrored = crossovers(frame, axis="size", baseline="gpu", challenger="cpu", group_by=["group"])
    exchanged = answer.assign(
        verdict=answer["verdict"].replace(MIRRORED),
        direction=answer["direction"].replace(MIRRORED),
        changes=[
            [{**change, "direction": MIRRORED[change["direction"]]} for change in changes]
            for changes in answer["changes"]
        ],
    )
    same(mirrored.drop(columns="reasons"), exchanged.drop(columns="reasons"))


@settings(max_examples=30)
@given(FRAMES)
def test_a_group_does_not_depend_on_the_others(frame):
    together = crossovers(frame, group_by=["group"], **ASKED)
    for name, row in together.set_index("group").iterrows():
        alone = crossovers(frame[frame["group"] == name], group_by=["group"], **ASKED)
        same(alone.drop(columns="group"), pd.DataFrame([row]).reset_index(drop=True).astype(alone.dtypes.drop("group")))
