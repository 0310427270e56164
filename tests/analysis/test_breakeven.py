"""When a cold start is repaid: made trials whose answer is known."""

import math

import numpy as np
import pandas as pd
import pytest

from analysis.breakeven import break_even, break_even_words, cold_and_warm, from_cold
from analysis.sentence import Topic

ASKED = {"axis": "batch_size", "baseline": "cpu", "challenger": "gpu"}
SIZES = (16, 64, 256, 1024, 4096)
#: Seconds of a step by size: the two cross at 100.
STEPS = {"cpu": lambda size: 1e-5 * size, "gpu": lambda size: 9e-4 + 1e-6 * size}
WARM = 100


def made(*, cold=(0.05, 1.2), passes=5, sizes=SIZES, noise=0.0, seed=0, preparing=0.6, **columns):
    """Trials whose cold starts take so many seconds, a part of it for preparing and the rest in the first step."""
    rng = np.random.default_rng(seed)
    rows = []
    for size in sizes:
        for index in range(passes):
            for (target, step), start in zip(STEPS.items(), cold, strict=True):
                typical = step(size) * math.exp(noise * rng.standard_normal())
                spent = start * math.exp(2 * noise * rng.standard_normal())
                rows.append(
                    {
                        "batch_size": size,
                        "target": target,
                        "pass_index": index,
                        "status": "ok",
                        "step_times_s": (typical * np.exp(noise * rng.standard_normal(10))).tolist(),
                        "warmup_steps": WARM,
                        "warmup_s": WARM * typical + (1 - preparing) * spent,
                        "prepare_s": preparing * spent,
                        "first_step_s": typical + (1 - preparing) * spent,
                        **columns,
                    }
                )
    return pd.DataFrame(rows)


def truth(size, extra=1.15):
    return extra / (STEPS["cpu"](size) - STEPS["gpu"](size))


def test_the_steps_until_a_cold_start_is_repaid():
    found = break_even(made(noise=1e-6, rows=10_000), **ASKED)
    assert found["batch_size"].tolist() == [256, 1024, 4096]
    assert found["prepared"].all()
    for row in found.to_dict("records"):
        size, steps = row["batch_size"], truth(row["batch_size"])
        assert row["repaid_steps"] == pytest.approx(steps, rel=1e-4)
        assert row["repaid_steps_low"] < row["repaid_steps"] < row["repaid_steps_high"]
        # At that moment both have spent the same time on the same number of steps.
        assert row["repaid_s"] == pytest.approx(0.05 + steps * STEPS["cpu"](size), rel=1e-4)
        assert row["repaid_s"] == pytest.approx(1.2 + steps * STEPS["gpu"](size), rel=1e-4)
        assert row["repaid_epochs"] == pytest.approx(steps * size / 10_000, rel=1e-4)
        assert row["extra_s"] == pytest.approx(1.15, rel=1e-4)
        assert row["gain_s"] == pytest.approx(STEPS["cpu"](size) - STEPS["gpu"](size), rel=1e-4)
        assert row["reason"] == ""


@pytest.mark.parametrize("passes", [3, 5])
def test_the_interval_holds_the_truth(passes):
    held = []
    for seed in range(40):
        found = break_even(made(noise=0.03, passes=passes, seed=seed), **ASKED)
        true_steps = found["batch_size"].map(truth)
        held += [
            low <= steps <= high
            for low, steps, high in zip(found["repaid_steps_low"], true_steps, found["repaid_steps_high"], strict=True)
        ]
    assert len(held) > 100
    assert np.mean(held) >= 0.93


@pytest.mark.parametrize(("cold", "low", "high"), [((1.2, 0.05), 0, 0), ((1.0, 1.0), 0, 0.5)])
def test_who_starts_no_later_is_ahead_at_once(cold, low, high):
    found = break_even(made(cold=cold, noise=1e-6), **ASKED)
    assert found["repaid_steps"].max() <= high
    assert (found["repaid_steps_low"] == low).all()
    if cold[1] < cold[0]:
        assert (found["repaid_s"] == 0).all()
        assert (found["repaid_steps_high"] == 0).all()
        assert set(found["sentence"].str.split(", ", n=1).str[1]) == {
            "gpu starts no later than cpu, so it is ahead at once."
        }
        assert break_even_words(found, **ASKED) == (
            "gpu starts no later than cpu wherever it is faster, so it is ahead at once."
        )


def test_where_that_is_not_clear_the_interval_says_so():
    frame = made(cold=(1.0, 1.0), noise=0.05, seed=3)
    found = break_even(frame, **ASKED)
    assert (found["repaid_steps_low"] == 0).all()
    assert (found["repaid_steps_high"] > 0).all()
    lucky = found[found["repaid_steps"] == 0]
    assert lucky["sentence"].str.contains(r"so it is ahead at once \(or after up to \d+ steps\)\.").all()
    others = found[found["repaid_steps"] > 0]
    assert others["sentence"].str.contains("95 % interval at once to").all()
    assert len(lucky)
    assert len(others)


def test_it_is_said_in_words():
    found = break_even(made(noise=1e-9, rows=10_000, sizes=(16, 64, 256, 1024)), **ASKED)
    assert found["sentence"].tolist()[0] == (
        "At batch_size 256, gpu starts 1.15 s later than cpu and repays that after 820 steps "
        "(95 % interval 806 to 833; 21 epochs), 2.15 s since both began."
    )
    assert break_even_words(found, **ASKED) == (
        "Where gpu is faster than cpu, it repays its later start: at batch_size 256 after 820 steps "
        "(95 % interval 806 to 833; 21 epochs), 2.15 s since both began; at batch_size 1024 after 139 steps "
        "(95 % interval 137 to 139; 14 epochs), 1.47 s since both began."
    )


def test_old_rows_tell_of_the_warm_up_alone():
    found = break_even(made(noise=1e-6).drop(columns="prepare_s"), **ASKED)
    assert not found["prepared"].any()
    assert found["repaid_steps"].tolist() == pytest.approx([0.4 * truth(size) for size in (256, 1024, 4096)], rel=1e-3)
    assert "gpu warms up 460 ms longer than cpu" in found["sentence"].iloc[0]
    assert found["sentence"].iloc[0].endswith("what opening the device and making the model take is not known.")
    assert "repays its longer warm-up: " in break_even_words(found, **ASKED)


def test_passes_that_know_all_are_preferred_to_those_that_do_not():
    frame = made(noise=1e-6)
    frame.loc[frame["pass_index"] < 2, "prepare_s"] = math.nan
    found = break_even(frame, **ASKED)
    assert found["prepared"].all()
    assert (found["pairs"] == 3).all()
    assert found["extra_s"].tolist() == pytest.approx([1.15] * 3, rel=1e-4)


def test_a_warm_up_that_is_not_known_has_its_reason():
    found = break_even(made().drop(columns="warmup_s"), **ASKED)
    assert found[["repaid_steps", "repaid_s", "repaid_epochs", "extra_s"]].isna().all(axis=None)
    assert set(found["reason"]) == {"the rows do not tell how long the warm-up took"}
    said = "it is not known when gpu repays its cold start: the rows do not tell how long the warm-up took."
    assert found["sentence"].iloc[0] == f"At batch_size 256, {said}"
    assert break_even_words(found, **ASKED).startswith("When gpu repays its cold start is not known: ")


def test_a_winner_without_a_ratio_gains_nobody_knows_what():
    frame = made()
    out = (frame["target"] == "cpu") & (frame["batch_size"] == 4096)
    frame.loc[out, "status"] = "timeout"
    frame["step_times_s"] = frame["step_times_s"].where(~out, None)
    last = break_even(frame, **ASKED).iloc[-1]
    assert last["batch_size"] == 4096
    assert math.isnan(last["repaid_steps"])
    assert last["reason"] == "what a step gains is not known: cpu timed out"


def test_one_pass_has_no_interval():
    found = break_even(made(passes=1, noise=1e-3), **ASKED)
    assert found["repaid_steps"].tolist() == pytest.approx([truth(size) for size in (256, 1024, 4096)], rel=0.05)
    assert found[["repaid_steps_low", "repaid_steps_high", "extra_low_s"]].isna().all(axis=None)
    assert set(found["reason"]) == {"measured once, so the cold start has no interval"}
    assert "interval" not in found["sentence"].iloc[0].split(";")[0]


def test_groups_are_told_apart_and_their_keys_may_be_null():
    fast, slow = made(noise=1e-6, width=64.0), made(noise=1e-6, width=math.nan, cold=(0.05, 2.35))
    found = break_even(pd.concat([fast, slow], ignore_index=True), **ASKED, group_by=["width"])
    steps = found.groupby("width", dropna=False)["repaid_steps"].first().tolist()
    assert steps == pytest.approx([truth(256), 2 * truth(256)], rel=1e-3)


def test_disturbed_pairs_are_left_out_where_enough_others_are_left():
    frame = made(noise=1e-6, interference="clean")
    disturbed = frame["pass_index"] == 0
    frame.loc[disturbed, "interference"] = "contended"
    frame.loc[disturbed & (frame["target"] == "gpu"), "prepare_s"] += 100
    found = break_even(frame, **ASKED)
    assert found["extra_s"].tolist() == pytest.approx([1.15] * 3, rel=1e-4)
    assert (found["pairs"] == 4).all()


def test_only_the_last_attempt_at_a_whole_step_counts():
    frame = made(noise=1e-6, attempt=2, rung="e2e")
    earlier = frame.assign(attempt=1, prepare_s=100.0)
    rung = frame.assign(rung="resident", prepare_s=100.0)
    found = break_even(pd.concat([earlier, rung, frame, earlier], ignore_index=True), **ASKED)
    assert found["extra_s"].tolist() == pytest.approx([1.15] * 3, rel=1e-4)


def test_nothing_is_repaid_where_the_challenger_is_not_faster():
    found = break_even(made(sizes=(4, 8, 16)), **ASKED)
    assert found.empty
    assert "repaid_steps" in found
    assert break_even_words(found, **ASKED) == ""


#: First epoch and later ones of mnist_mlp, one run on a CPU and ten on a GPU, in seconds.
EPOCHS = {"cpu": (4.20, 4.40, 1), "gpu": (5.74, 2.45, 10)}


def epochs():
    return pd.DataFrame(
        [
            {
                "batch_size": 1,
                "target": target,
                "status": "ok",
                "trial_id": f"{target}-{run}",
                "step_times_s": [later * (1 + number / 1000 + run / 500) for number in range(-4, 5)],
                "first_step_s": first,
                "warmup_s": first,
                "warmup_steps": 1,
            }
            for target, (first, later, runs) in EPOCHS.items()
            for run in range(runs)
        ]
    )


def test_a_first_epoch_is_repaid_by_later_ones():
    found = break_even(epochs(), **ASKED).iloc[0]
    assert found["extra_s"] == pytest.approx((5.74 - 2.45) - (4.20 - 4.40), rel=0.02)
    assert found["repaid_steps"] == pytest.approx(3.49 / 1.95, rel=0.03)
    assert found["pairs"] == 1
    assert math.isnan(found["repaid_steps_high"])


def test_cold_and_warm_have_a_verdict_each():
    topic = Topic(**ASKED)
    (found,) = cold_and_warm(epochs(), topic=topic).to_dict("records")
    assert (found["cold"], found["warm"], found["differ"]) == ("always_baseline", "always_challenger", True)
    assert found["sentence"] == (
        "First step, from a cold start: cpu is faster than gpu at batch_size 1. "
        "Once warm: gpu is faster than cpu at batch_size 1."
    )


def test_two_crossings_one_cold_one_warm():
    found = cold_and_warm(made(cold=(0.001, 0.02), noise=0.01), topic=Topic(**ASKED))
    row = found.iloc[0]
    assert (row["cold"], row["warm"]) == ("crosses", "crosses")
    assert row["warm_high"] < row["cold_low"]
    assert row["differ"]
    # 1e-5 n + 0.001 = 9e-4 + 1e-6 n + 0.02
    assert row["cold_low"] < (9e-4 + 0.019) / 9e-6 < row["cold_high"]


def test_nothing_is_said_where_cold_and_warm_agree_or_one_is_open():
    agree = cold_and_warm(made(cold=(1e-6, 1e-6), noise=0.01), topic=Topic(**ASKED)).iloc[0]
    assert (agree["cold"], agree["warm"]) == ("crosses", "crosses")
    assert not agree["differ"]
    assert agree["sentence"] == ""
    unknown = cold_and_warm(made(noise=0.01).drop(columns="first_step_s"), topic=Topic(**ASKED)).iloc[0]
    assert unknown["cold"] == "undetermined"
    assert unknown["sentence"] == ""


def test_each_group_has_its_two_verdicts():
    frame = pd.concat([made(noise=0.01, width=64), made(noise=0.01, width=256, cold=(1e-6, 1e-6))], ignore_index=True)
    found = cold_and_warm(frame, topic=Topic(**ASKED), group_by=["width"])
    assert found["width"].tolist() == [64, 256]
    assert found["differ"].tolist() == [True, False]


def test_a_first_step_is_counted_from_the_start_of_the_trial_if_all_know_it():
    frame = made(passes=1, sizes=(16,))
    assert from_cold(frame, ["cpu", "gpu"])["step_times_s"].map(lambda times: times[0]).tolist() == pytest.approx(
        [0.05 + STEPS["cpu"](16), 1.2 + STEPS["gpu"](16)]
    )
    frame.loc[0, "prepare_s"] = math.nan
    assert from_cold(frame, ["cpu", "gpu"])["step_times_s"].map(lambda times: times[0]).tolist() == pytest.approx(
        [0.02 + STEPS["cpu"](16), 0.48 + STEPS["gpu"](16)]
    )


def test_a_limit_says_nothing_about_a_first_step():
    frame = made(passes=1, sizes=(16,))
    frame.loc[0, ["status", "first_step_s"]] = "timeout", math.nan
    assert from_cold(frame, ["cpu", "gpu"])["status"].tolist() == ["first step not recorded", "ok"]
    assert from_cold(frame.drop(columns="first_step_s"), ["cpu", "gpu"])["step_times_s"].tolist() == [None, None]
