"""How far a twin moves the change: steps of known times, whose crossings can be worked out."""

import math

import numpy as np
import pandas as pd
import pytest

from analysis.ladder_sizes import sizes_to_explain
from analysis.twin import lacking
from analysis.without import without
from tests.analysis.test_blocks import group_blocks
from tests.analysis.test_explain import ladder

ASKED = {"axis": "width", "baseline": "cpu", "challenger": "gpu", "workload": "branching"}
SIZES = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]


def line(floor, slope):
    return lambda size: floor + slope * size


#: A step on the CPU and, with branches and without, on the GPU: they meet at 540 with them, at 95 without.
CPU = line(1.5e-4, 1e-5)
WITH, WITHOUT = line(5.01e-3, 1e-6), line(1.005e-3, 1e-6)
MEET_WITH, MEET_WITHOUT = 4.86e-3 / 9e-6, 8.55e-4 / 9e-6


def twins(*, whole=(CPU, WITH), twin=(CPU, WITHOUT), at=SIZES, passes=3, between=0.01, rng=None):
    """Rows of the whole step at all sizes, and of its twin at some."""
    rng = rng or np.random.default_rng(1)
    rows = []
    for size in SIZES:
        for target, own, other in zip(("cpu", "gpu"), whole, twin, strict=True):
            found = ladder(
                {"rest": own(size)},
                target=target,
                size=size,
                passes=passes,
                twin=other(size),
                between=between,
                within=between,
                rng=rng,
            )
            rows.append(found if size in at else found[found["rung"] == "e2e"])
    return pd.concat(rows, ignore_index=True).rename(columns={"batch_size": "width"})


def told(rows, **asked):
    (row,) = without(rows, **{**ASKED, **asked}).to_dict("records")
    assert row["without"] == "twin"
    return row


def test_both_crossings_and_the_factor_between_them_are_those_of_the_times():
    row = told(twins())
    assert row["verdict"] == "crosses"
    assert row["low"] <= MEET_WITHOUT <= row["high"]
    # The columns hold what is left against the whole step, the sentence the effect: one is the other upside down.
    assert row["factor_low"] <= MEET_WITHOUT / MEET_WITH <= row["factor_high"]
    assert row["sentence"].startswith("Without the branches the change would come at width 9")
    assert " instead of 5" in row["sentence"]
    assert ": the branches move it up by a factor of 5." in row["sentence"]
    words = row["sentence"].rpartition("95 % interval ")[2].removesuffix(").")
    low, high = map(float, words.split(" to "))
    assert low <= MEET_WITH / MEET_WITHOUT <= high
    assert low <= 1 / row["factor_high"] + 1e-9
    assert high >= 1 / row["factor_low"] - 1e-9


def test_the_interval_holds_the_true_factor_under_the_noise_of_real_passes():
    rng = np.random.default_rng(7)
    made = [twins(rng=rng, between=0.04).assign(study=number) for number in range(40)]
    found = without(pd.concat(made, ignore_index=True), group_by=["study"], **ASKED)
    truth = MEET_WITHOUT / MEET_WITH
    assert (found["verdict"] == "crosses").sum() >= 38
    assert ((found["factor_low"] <= truth) & (truth <= found["factor_high"])).mean() >= 0.9
    assert (found["factor_high"] / found["factor_low"]).median() < 1.5


def test_the_whole_step_is_told_over_the_sizes_of_the_twin_where_it_has_more():
    assert "both over the sizes at which the twin was measured" in told(twins(at=[4, 64, 128, 512, 2048]))["sentence"]
    assert "over the sizes" not in told(twins())["sentence"]


def test_what_makes_a_gpu_win_sooner_moves_the_change_down():
    row = told(twins(whole=(CPU, WITHOUT), twin=(CPU, WITH)), workload="lstm_loop")
    assert row["sentence"].startswith("Without the loop the change would come at width 5")
    assert ": the loop moves it down by a factor of 5." in row["sentence"]


def test_no_difference_is_said_where_none_is_seen():
    row = told(twins(twin=(CPU, WITH)))
    assert row["factor_low"] < 1 < row["factor_high"]
    assert ": no difference is seen (95 % interval 1." in row["sentence"]


ALWAYS_GPU, NEVER_GPU = line(1e-5, 1e-6), line(1e-1, 1e-6)


@pytest.mark.parametrize(
    ("whole", "twin", "expected", "bound"),
    [
        # Without: ahead from the smallest size on, so the change comes below 4 if at all.
        (WITH, ALWAYS_GPU, "so the change would not come in this range; with the branches it comes at width 5", 4),
        (WITHOUT, NEVER_GPU, "so the change would not come in this range; with the branches it comes at width 9", 2048),
        (NEVER_GPU, WITHOUT, "; with the branches cpu is faster than gpu everywhere from width 4 to 2048", 2048),
        (ALWAYS_GPU, WITH, "; with the branches gpu is faster than cpu everywhere from width 4 to 2048", 4),
    ],
    ids=["below without", "above without", "above with", "below with"],
)
def test_a_change_beyond_the_range_gives_the_least_factor_and_no_invented_one(whole, twin, expected, bound):
    row = told(twins(whole=(CPU, whole), twin=(CPU, twin)))
    assert math.isnan(row["factor"])
    assert expected in row["sentence"]
    way, _, least = row["sentence"].partition(" move it ")[2].partition(" by a factor of ")
    assert way == ("up" if (whole in (WITH, NEVER_GPU)) else "down")
    inside = MEET_WITH if WITH in (whole, twin) else MEET_WITHOUT
    truth = max(inside / bound, bound / inside)
    assert 0.8 * truth <= float(least.removesuffix(" or more.")) <= truth


def test_the_same_winner_everywhere_with_and_without_is_said_once():
    row = told(twins(whole=(CPU, NEVER_GPU), twin=(CPU, NEVER_GPU)))
    assert row["sentence"] == (
        "Without the branches: cpu is faster than gpu everywhere from width 4 to 2048. So it is with the branches."
    )


def test_another_winner_everywhere_is_said_for_both():
    row = told(twins(whole=(CPU, NEVER_GPU), twin=(CPU, ALWAYS_GPU)))
    assert row["sentence"] == (
        "Without the branches: gpu is faster than cpu everywhere from width 4 to 2048. "
        "With the branches: cpu is faster than gpu everywhere from width 4 to 2048."
    )


@pytest.mark.parametrize(("at", "words"), [([64], "at one size only"), ([], None)])
def test_too_few_sizes_are_said_and_no_twin_is_no_row(at, words):
    found = without(twins(at=at), **ASKED)
    if words is None:
        assert found.empty
    else:
        assert told(twins(at=at))["sentence"] == (
            "How far the branches move the change cannot be told: the targets were compared with the twin's step "
            f"{words}."
        )


def test_a_twin_that_failed_on_one_target_tells_nothing():
    rows = twins()
    rows.loc[(rows["rung"] == "twin") & (rows["target"] == "gpu"), "status"] = "error"
    assert told(rows)["sentence"].endswith("the targets were compared with the twin's step at no size.")


def test_a_margin_is_asked_of_both():
    sentence = told(twins(), margin=0.1)["sentence"]
    assert sentence.startswith("Without the branches the change (gpu at least 10 % faster) would come at width 10")


def test_few_passes_and_disturbed_trials_are_said():
    assert "Provisional: there were too few passes" in told(twins(passes=1))["sentence"]
    rows = twins().assign(interference="clean")
    rows.loc[(rows["rung"] == "twin") & (rows["width"] == 64), "interference"] = "contended"
    assert "Something else used the machine meanwhile" in told(rows)["sentence"]


def test_neither_the_order_of_rows_nor_the_unit_of_time_matters():
    rows = twins()
    expected = told(rows)
    slower = rows.assign(step_times_s=rows["step_times_s"].map(lambda times: [1000 * each for each in times]))
    for other in (rows.sample(frac=1, random_state=2), slower):
        assert told(other)["sentence"] == expected["sentence"]


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        ("branching", ("the branches", "move")),
        ("lstm_loop", ("the loop", "moves")),
        ("own.py:Mine", ("what the twin lacks", "moves")),
    ],
)
def test_what_a_twin_lacks_is_called_as_in_the_rest_of_the_report(workload, expected):
    assert lacking(workload) == expected


def test_the_report_of_a_study_says_it_under_a_heading_of_its_own(make_study):
    def time_of(trial):
        size = trial.parameters["width"]
        if trial.target.name == "cpu":
            return CPU(size)
        return (WITHOUT if trial.rung == "twin" else WITH)(size)

    asked = {"workload": "branching", "axes": {"width": SIZES}, "time_of": time_of, "noise": 0.01}
    explained = sizes_to_explain(make_study("plain", **asked))
    blocks = group_blocks(make_study("explained", explained=explained, **asked))
    (sentence,) = blocks["How far the branches move the change"].sentences
    assert ": the branches move it up by a factor of 5." in sentence
    help_ = blocks["What holds the slower one back, and what would help"]
    assert not [each for each in help_.sentences if "branches" in each]
