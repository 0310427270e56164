import math

import numpy as np
import pandas as pd
import pytest

from analysis import crossovers
from tests.analysis.synthetic import ASKED, SIZES, at_sizes, chosen, falling, made_frame, with_status

NUMBERS = ["estimate", "low", "high", "bracket_low", "bracket_high"]


def conclude(frame, **options):
    answer = crossovers(frame, **{**ASKED, **options})
    assert len(answer) == 1
    return answer.iloc[0]


def told(row, *parts):
    """Whether one sentence holds all the parts."""
    return any(all(part in sentence for part in parts) for sentence in row["reasons"])


def no_numbers(row):
    return row[NUMBERS].isna().all()


# ------------------------------------------------------------------------------------------------------ verdicts


def test_crosses():
    row = conclude(made_frame(falling(100)))
    assert (row["verdict"], row["direction"], row["pairs"]) == ("crosses", "challenger_above", 5 * len(SIZES))
    assert row["estimate"] == pytest.approx(100, rel=1e-6)
    assert 64 < row["low"] < 100 < row["high"] < 128
    assert (row["bracket_low"], row["bracket_high"]) == (64, 128)
    assert row["reasons"][0] == "cpu is faster up to 64, and gpu is faster from 128 on"
    assert told(row, "add a size in the middle of the gap between 64 and 128 (e.g. 91)")
    assert row["changes"] == []


def test_crosses_the_other_way():
    row = conclude(made_frame(lambda size: -falling(100)(size)))
    assert (row["verdict"], row["direction"]) == ("crosses", "baseline_above")
    assert row["estimate"] == pytest.approx(100, rel=1e-6)
    assert 64 < row["low"] < 100 < row["high"] < 128
    assert row["reasons"][0] == "gpu is faster up to 64, and cpu is faster from 128 on"


@pytest.mark.parametrize(
    ("sign", "verdict", "winner"), [(1, "always_baseline", "cpu"), (-1, "always_challenger", "gpu")]
)
def test_always(sign, verdict, winner):
    row = conclude(made_frame(lambda size: sign * 0.4))
    assert (row["verdict"], row["direction"]) == (verdict, "")
    assert no_numbers(row)
    assert row["reasons"][0] == f"{winner} is faster at both ends of the range where both ran (16 to 2048)"


def test_always_with_an_undecided_size_inside():
    ratios = dict.fromkeys(SIZES, 0.4) | {256: 0.0}
    row = conclude(at_sizes(ratios))
    assert row["verdict"] == "always_baseline"
    assert told(row, "size 256 is too close to call")


def test_tie():
    row = conclude(made_frame(lambda size: 0.0, noise=0.001))
    assert row["verdict"] == "tie"
    assert no_numbers(row)
    assert row["reasons"][0] == "cpu and gpu are equal within 5 % at every size where both ran (16 to 2048)"


def test_equal_targets_in_loud_noise_have_no_winner():
    row = conclude(made_frame(lambda size: 0.0, noise=0.05))
    assert row["verdict"] == "undetermined"
    assert no_numbers(row)
    assert row["reasons"][:2] == [
        "cpu and gpu are too close to call at every size where both ran (16 to 2048)",
        "measure more pairs at 16 and 2048, or a wider range of sizes",
    ]


def test_several_gives_each_change_with_its_own_interval():
    wave = {16: 0.3, 32: 0.1, 64: -0.3, 128: -0.3, 256: 0.2, 512: 0.3, 1024: 0.3}
    row = conclude(at_sizes(wave))
    assert (row["verdict"], row["direction"]) == ("several", "")
    assert no_numbers(row)
    first, second = row["changes"]
    assert (first["direction"], second["direction"]) == ("challenger_above", "baseline_above")
    assert (first["bracket_low"], first["bracket_high"], first["pairs"]) == (32, 64, 10)
    assert (second["bracket_low"], second["bracket_high"], second["pairs"]) == (128, 256, 10)
    assert first["estimate"] == pytest.approx(32 * 2**0.25)
    assert second["estimate"] == pytest.approx(128 * 2**0.6)
    for change in (first, second):
        assert change["bracket_low"] <= change["low"] < change["estimate"] < change["high"] <= change["bracket_high"]
        assert set(change) == set(crossovers(made_frame(falling()), **ASKED).columns) - {"changes", "reasons"}
    assert row["reasons"][0] == "the winner changes 2 times: between 32 and 64, between 128 and 256"


def test_an_undecided_dip_is_mentioned_and_changes_nothing():
    steady = conclude(made_frame(falling(600)))
    dipped = conclude(at_sizes({size: falling(600)(size) for size in SIZES} | {64: 0.01}))
    assert dipped["verdict"] == "crosses"
    assert (dipped["bracket_low"], dipped["bracket_high"]) == (steady["bracket_low"], steady["bracket_high"])
    assert told(dipped, "size 64 is too close to call")


def test_a_decided_but_weak_dip_asks_for_a_repeat():
    row = conclude(at_sizes(dict.fromkeys(SIZES, 0.5) | {64: -0.028}, noise=0.001))
    assert row["verdict"] == "undetermined"
    assert no_numbers(row)
    assert told(row, "size 64 disagrees with the neighbours, by 2.8 % or less")
    assert told(row, "repeat 64")


def test_a_strong_dip_is_several():
    row = conclude(at_sizes(dict.fromkeys(SIZES, 0.5) | {64: -0.3}))
    assert row["verdict"] == "several"
    assert [change["direction"] for change in row["changes"]] == ["challenger_above", "baseline_above"]


def test_weak_sizes_between_strong_ones_enclose_the_change():
    ratios = {16: 0.5, 32: 0.5, 64: -0.028, 128: 0.028, 256: -0.5, 512: -0.5, 1024: 0.5, 2048: 0.5}
    row = conclude(at_sizes(ratios, noise=0.001))
    assert row["verdict"] == "several"
    first = row["changes"][0]
    assert (first["bracket_low"], first["bracket_high"]) == (32, 256)
    assert first["low"] < 64
    assert first["high"] > 128


def test_open_above():
    row = conclude(at_sizes({16: 0.9, 32: 0.6, 64: 0.3, 128: 0.0}))
    assert (row["verdict"], row["direction"]) == ("undetermined", "")
    assert 64 < row["low"] < 128
    assert row["bracket_low"] == 64
    assert row[["estimate", "high", "bracket_high"]].isna().all()
    assert told(row, "cpu is faster up to 64, then too close to call up to 128", "lies above")
    assert told(row, "measure more pairs at 128, or larger sizes")


def test_open_below():
    row = conclude(at_sizes({16: 0.0, 32: -0.3, 64: -0.6, 128: -0.9}))
    assert (row["verdict"], row["direction"]) == ("undetermined", "")
    assert 16 < row["high"] < 32
    assert row["bracket_high"] == 32
    assert row[["estimate", "low", "bracket_low"]].isna().all()
    assert told(row, "gpu is faster from 32 on", "lies below")
    assert told(row, "measure more pairs at 16, or smaller sizes")


def test_open_on_both_sides():
    row = conclude(at_sizes({16: 0.0, 32: 0.3, 64: 0.3, 128: 0.0}))
    assert row["verdict"] == "undetermined"
    assert no_numbers(row)
    assert told(row, "cpu is faster at 32 and 64", "both ends")


def test_one_size():
    row = conclude(at_sizes({64: 0.5}))
    assert row["verdict"] == "always_baseline"
    assert row["reasons"][0] == "cpu is faster at 64, the only size compared"


# --------------------------------------------------------------------------------------- interval and its limits


def test_a_jump_is_no_narrower_than_its_gap():
    ratios = {16: 0.62, 32: 0.61, 64: 0.60, 128: -0.60, 256: -0.61, 512: -0.62}
    row = conclude(at_sizes(ratios))
    assert row["verdict"] == "crosses"
    assert (row["low"], row["high"]) == (row["bracket_low"], row["bracket_high"]) == (64, 128)
    assert told(row, "the curve jumps between 64 and 128", "add a size", "91")


def test_a_steep_crossing_is_not_a_jump():
    row = conclude(made_frame(falling(100, slope=3)))
    assert 64 < row["low"] < row["high"] < 128
    assert not told(row, "jumps")


def test_two_sizes_are_enough_for_a_line():
    row = conclude(at_sizes({16: 0.5, 64: -0.5}))
    assert row["verdict"] == "crosses"
    assert row["estimate"] == pytest.approx(32)
    assert row["low"] * row["high"] == pytest.approx(32**2, rel=1e-6)


def test_exponents_are_solved_in_their_own_unit():
    as_sizes = made_frame(falling(100))
    as_exponents = as_sizes.assign(size=np.log2(as_sizes["size"]))
    sizes, exponents = conclude(as_sizes), conclude(as_exponents, axis=("size", 2))
    assert exponents["verdict"] == "crosses"
    assert exponents[NUMBERS].astype(float).to_numpy() == pytest.approx(np.log2(sizes[NUMBERS].astype(float)))


def test_exponents_may_be_zero_or_negative():
    frame = made_frame(falling(100))
    shifted = frame.assign(size=np.log2(frame["size"]) - 6)
    row = conclude(shifted, axis=("size", 2))
    assert row["estimate"] == pytest.approx(np.log2(100) - 6)


def test_drift_widens_the_interval():
    widths = []
    for drift in (0.0, None, 0.05):
        row = conclude(made_frame(falling(100)), drift=drift)
        widths.append(row["high"] / row["low"])
    assert widths[0] < widths[1] < widths[2]


def test_default_drift_follows_the_number_of_pairs():
    assert told(conclude(made_frame(falling(), passes=5)), "5 pairs a size; 1 %")
    assert told(conclude(made_frame(falling(), passes=6)), "6 pairs a size; 2 %")
    assert told(conclude(made_frame(falling()), drift=0.03), "3 % is allowed for slow drift")


def test_advice_waits_for_three_pairs():
    assert told(conclude(made_frame(falling(), passes=3)), "add a size")
    assert not told(conclude(made_frame(falling(), passes=2)), "add a size")


# --------------------------------------------------------------------------------------------------------- margin


def test_margin_asks_the_practical_question():
    frame = made_frame(falling(100))
    plain, practical = conclude(frame), conclude(frame, margin=0.1)
    assert practical["estimate"] == pytest.approx(100 * math.exp(-math.log(0.9) / 0.7), rel=1e-6)
    assert practical["low"] > plain["low"]
    assert practical["reasons"][0] == "gpu is not 10 % faster up to 64, and gpu is at least 10 % faster from 128 on"


def test_margin_turns_a_small_win_into_none():
    frame = made_frame(lambda size: -0.05, noise=0.001)
    assert conclude(frame)["verdict"] == "always_challenger"
    assert conclude(frame, margin=0.2)["verdict"] == "always_baseline"


def test_margin_acts_on_the_tie():
    frame = made_frame(lambda size: math.log(0.9), noise=0.001)
    assert conclude(frame)["verdict"] == "always_challenger"
    row = conclude(frame, margin=0.1)
    assert row["verdict"] == "tie"
    assert row["reasons"][0].startswith("gpu is 10 % faster, give or take 5 %, at every size")


# ------------------------------------------------------------------------------------------------ from rows to pairs


def test_only_e2e_counts():
    frame = made_frame(falling(100)).assign(rung="e2e")
    rival = made_frame(lambda size: 5.0).assign(rung="kernel")
    assert conclude(pd.concat([frame, rival])).equals(conclude(frame))


def test_third_targets_are_left_alone():
    frame = made_frame(falling(100))
    other = frame[frame["target"] == "gpu"].assign(target="tpu")
    assert conclude(pd.concat([frame, other])).equals(conclude(frame))


def test_the_highest_attempt_counts():
    frame = made_frame(falling(100)).assign(attempt=2)
    earlier = made_frame(lambda size: 3.0).assign(attempt=1)
    later = frame.assign(attempt=3)
    later["status"], later["step_times_s"] = "crashed", None
    assert conclude(pd.concat([earlier, frame])).equals(conclude(frame))
    gone = conclude(pd.concat([earlier, frame, later]))
    assert (gone["verdict"], gone["pairs"]) == ("undetermined", 0)
    assert told(gone, "did not finish (crashed)")


def test_the_highest_attempt_counts_for_each_trial_alone():
    frame = made_frame(falling(100))
    frame["trial_id"] = [f"t{number}" for number in range(len(frame))]
    frame["attempt"] = np.arange(len(frame)) % 3
    assert conclude(frame)["pairs"] == 5 * len(SIZES)
    assert conclude(frame.drop(columns="pass_index"))["pairs"] == 5 * len(SIZES)


def test_a_failure_that_was_repeated_counts_as_ok_and_is_told():
    frame = made_frame(falling(100))
    failure = frame[chosen(frame, target="gpu", size=64, number=0)].assign(status="error", step_times_s=None)
    row = conclude(pd.concat([failure, frame]))
    assert row["pairs"] == 5 * len(SIZES)
    assert row["estimate"] == conclude(frame)["estimate"]
    assert told(row, "1 failed trial tried again with success")


def test_copies_count_once():
    frame = made_frame(falling(100))
    assert conclude(pd.concat([frame, frame, frame])).equals(conclude(frame))


def test_copies_count_once_without_passes():
    frame = made_frame(falling(100)).drop(columns="pass_index")
    assert conclude(pd.concat([frame, frame])).equals(conclude(frame))


def test_two_different_trials_of_one_pass_become_their_mean():
    frame = made_frame(falling(100))
    again = frame.assign(step_times_s=[[3 * time for time in times] for times in frame["step_times_s"]])
    row, single = conclude(pd.concat([frame, again])), conclude(frame)
    assert row["pairs"] == single["pairs"]
    assert row[NUMBERS].astype(float).to_numpy() == pytest.approx(single[NUMBERS].astype(float).to_numpy())
    assert told(row, f"{2 * 5 * len(SIZES)} values made of several trials of one pass")


def test_a_trial_without_partner_makes_no_pair():
    frame = made_frame(falling(100))
    frame = frame[~chosen(frame, target="gpu", size=64, number=0)]
    row = conclude(frame)
    assert row["pairs"] == 5 * len(SIZES) - 1
    assert told(row, "1 finished trial left out")
    assert told(row, "4 to 5 pairs a size")


def test_a_partner_is_never_borrowed_from_another_pass():
    frame = made_frame(falling(100))
    frame.loc[frame["target"] == "gpu", "pass_index"] += 100
    row = conclude(frame)
    assert (row["verdict"], row["pairs"]) == ("undetermined", 0)
    assert told(row, "finished in no common pass")


def test_sizes_of_one_side_are_named():
    frame = made_frame(falling(100))
    frame = with_status(frame, "unavailable", target="gpu", sizes=[1024, 2048])
    frame = frame[~((frame["target"] == "cpu") & (frame["size"] == 16))]
    row = conclude(frame)
    assert row["verdict"] == "crosses"
    assert told(
        row,
        "compared on 5 of 8 sizes: cpu did not run at 16; gpu did not finish (unavailable) at 1024 and 2048",
    )


@pytest.mark.parametrize("times", [[], None, [-1.0, 1.0, 1.0], [float("nan")] * 3, [float("inf"), 1.0]])
def test_unusable_times_make_no_pair(times):
    frame = made_frame(falling(100))
    mask = chosen(frame, target="cpu", size=64, number=2)
    frame.loc[mask, "step_times_s"] = pd.Series([times], index=frame.index[mask], dtype=object)
    assert conclude(frame)["pairs"] == 5 * len(SIZES) - 1


def test_the_median_drops_slow_spikes():
    frame = made_frame(falling(100))
    frame["step_times_s"] = [[*times, 100.0] for times in frame["step_times_s"]]
    assert conclude(frame)["estimate"] == pytest.approx(100, rel=0.01)


def test_arrays_and_lists_of_any_length_are_the_same():
    frame = made_frame(falling(100))
    ragged = frame.copy()
    ragged["step_times_s"] = [
        np.array(times) if row % 2 else [*times, *times[: 2 * (row % 3)]]
        for row, times in enumerate(frame["step_times_s"])
    ]
    assert conclude(ragged)["estimate"] == pytest.approx(100, rel=0.03)


def test_rows_without_a_size_are_counted():
    frame = made_frame(falling(100))
    extra = frame.head(2).assign(size=np.nan)
    row = conclude(pd.concat([frame, extra]))
    assert row["estimate"] == conclude(frame)["estimate"]
    assert told(row, "2 rows without a value of size left out")


# ------------------------------------------------------------------------------------------------------ no repetition


def test_one_pass_assumes_a_spread_and_says_so():
    once, thrice = conclude(made_frame(falling(100), passes=1)), conclude(made_frame(falling(100), passes=3))
    assert once["verdict"] == "crosses"
    assert once["high"] / once["low"] > thrice["high"] / thrice["low"]
    assert told(once, "no repetition: assumed spread", "provisional")
    assert not told(thrice, "no repetition")


def test_one_pass_takes_the_spread_within_trials_from_their_steps():
    frame = made_frame(falling(100), passes=1)
    loud = frame.assign(
        step_times_s=[
            (np.median(times) * np.exp(np.linspace(-0.5, 0.5, 8))).tolist() for times in frame["step_times_s"]
        ]
    )
    quiet, noisy = conclude(frame), conclude(loud)
    assert noisy["high"] / noisy["low"] > 1.5 * quiet["high"] / quiet["low"]


def test_one_step_takes_it_from_the_neighbours():
    smooth = made_frame(falling(100), passes=1, steps=1)
    rough = made_frame(lambda size: falling(100)(size) + 0.2 * (-1) ** int(math.log2(size)), passes=1, steps=1)
    widths = {}
    for name, frame in (("smooth", smooth), ("rough", rough)):
        row = conclude(frame)
        assert row["verdict"] == "crosses"
        widths[name] = row["high"] / row["low"]
    assert widths["rough"] > widths["smooth"]


# ------------------------------------------------------------------------------------------------------- not paired


@pytest.mark.parametrize("how", ["no pass column", "no pass known", "marked"])
def test_unpaired_rows_are_compared_as_two_samples(how):
    frame = made_frame(falling(100))
    match how:
        case "no pass column":
            frame = frame.drop(columns="pass_index")
        case "no pass known":
            frame["pass_index"] = np.nan
        case "marked":
            frame["paired"] = False
            frame.loc[frame["target"] == "gpu", "pass_index"] += 100
    row = conclude(frame)
    assert (row["verdict"], row["pairs"]) == ("crosses", 5 * len(SIZES))
    assert row["estimate"] == pytest.approx(100, rel=1e-6)
    assert told(row, "not paired")
    assert told(row, "5 trials a size; 2 %")


def test_unpaired_noise_that_pairs_would_cancel_widens_the_interval():
    rng = np.random.default_rng(3)
    frame = made_frame(falling(100))
    common = {
        key: np.exp(0.1 * rng.standard_normal()) for key in {*zip(frame["size"], frame["pass_index"], strict=True)}
    }
    frame["step_times_s"] = [
        [time * common[size, number] for time in times]
        for size, number, times in zip(frame["size"], frame["pass_index"], frame["step_times_s"], strict=True)
    ]
    paired, unpaired = conclude(frame, drift=0.02), conclude(frame.drop(columns="pass_index"))
    widths = [np.log(row["high"] / row["low"]) for row in (paired, unpaired)]
    assert widths[1] > 2 * widths[0]


# ------------------------------------------------------------------------------------------------------ interference


def busy(frame, passes):
    """The frame with a contended GPU trial, ten times slower, in some passes of size 64."""
    frame = frame.assign(interference="clean")
    for number in passes:
        mask = chosen(frame, target="gpu", size=64, number=number)
        frame.loc[mask, "interference"] = "contended"
        slow = [[10 * time for time in times] for times in frame.loc[mask, "step_times_s"]]
        frame.loc[mask, "step_times_s"] = pd.Series(slow, index=frame.index[mask])
    return frame


def test_contended_pairs_are_left_out_where_three_clean_ones_remain():
    row = conclude(busy(made_frame(falling(100)), passes=[0, 4]))
    assert row["pairs"] == 5 * len(SIZES) - 2
    assert row["estimate"] == pytest.approx(100, rel=1e-3)
    assert told(row, "2 pairs on a busy machine left out")
    assert not told(row, "partner")


def test_where_every_trial_was_disturbed_all_are_used_and_that_is_said():
    frame = made_frame(falling(100)).assign(interference="contended")
    row, clean = conclude(frame), conclude(made_frame(falling(100)))
    assert (row["verdict"], row["estimate"], row["pairs"]) == (clean["verdict"], clean["estimate"], clean["pairs"])
    assert told(row, "40 pairs on a busy machine used, for lack of 3 clean ones")


def test_contended_pairs_are_used_where_too_few_are_clean():
    row = conclude(busy(made_frame(falling(100)), passes=[0, 1, 2]))
    assert row["pairs"] == 5 * len(SIZES)
    assert told(row, "3 pairs on a busy machine used, for lack of 3 clean ones")


# --------------------------------------------------------------------------------------------------------- censoring


def test_a_baseline_timeout_is_a_win_of_the_challenger():
    frame = with_status(made_frame(falling(1500)), "timeout", target="cpu", sizes=[2048])
    row = conclude(frame)
    assert (row["verdict"], row["direction"]) == ("crosses", "challenger_above")
    assert (row["low"], row["high"]) == (row["bracket_low"], row["bracket_high"]) == (1024, 2048)
    assert math.isnan(row["estimate"])
    assert told(row, "cpu timed out at 2048")


def test_a_timeout_closes_an_undecided_end():
    ratios = {16: 0.6, 32: 0.3, 64: 0.01, 128: -0.5}
    frame = with_status(at_sizes(ratios), "timeout", target="cpu", sizes=[128])
    row = conclude(frame)
    assert row["verdict"] == "crosses"
    assert 32 < row["low"] < 64
    assert (row["high"], row["bracket_low"], row["bracket_high"]) == (128, 32, 128)
    assert math.isnan(row["estimate"])
    ratios[64] = -0.01
    frame = with_status(at_sizes(ratios), "timeout", target="cpu", sizes=[128])
    assert 32 < conclude(frame)["estimate"] < 64


def test_a_timeout_at_the_low_end_mirrors_it():
    ratios = {16: -0.5, 32: 0.0, 64: 0.3, 128: 0.6}
    frame = with_status(at_sizes(ratios), "timeout", target="cpu", sizes=[16])
    row = conclude(frame)
    assert (row["verdict"], row["direction"]) == ("crosses", "baseline_above")
    assert row["low"] == row["bracket_low"] == 16
    assert 32 < row["high"] < 64


def test_a_challenger_timeout_is_a_win_of_the_baseline():
    frame = with_status(made_frame(lambda size: 0.5), "timeout", target="gpu", sizes=[1024, 2048])
    row = conclude(frame)
    assert row["verdict"] == "always_baseline"
    assert told(row, "gpu timed out at 1024 and 2048")


def test_timeouts_of_both_say_nothing():
    frame = made_frame(falling(100))
    for target in ("cpu", "gpu"):
        frame = with_status(frame, "timeout", target=target, sizes=[2048])
    row = conclude(frame)
    assert row["verdict"] == "crosses"
    assert told(
        row, "compared on 7 of 8 sizes", "cpu did not finish (timeout) and gpu did not finish (timeout) at 2048"
    )


def test_a_timeout_in_some_passes_decides_nothing_and_is_told():
    frame = with_status(made_frame(falling(100)), "timeout", target="cpu", sizes=[2048], passes=[0, 1])
    row = conclude(frame)
    assert row["pairs"] == 5 * len(SIZES) - 2
    assert told(row, "cpu timed out in some passes at 2048")


@pytest.mark.parametrize(
    ("cpu_limit", "gpu_limit", "gpu_seconds", "known"),
    [
        (10, 10, None, True),
        (10, 20, None, False),  # the challenger may have used more than the baseline was given
        (10, 20, 9, True),
        (10, 20, 11, False),
        (10, None, None, True),  # no limit known: taken as the same
    ],
)
def test_the_winner_must_have_finished_under_the_limit_of_the_loser(cpu_limit, gpu_limit, gpu_seconds, known):
    frame = with_status(made_frame(falling(1500)), "timeout", target="cpu", sizes=[2048])
    limit = {"cpu": cpu_limit, "gpu": gpu_limit}
    frame["deadline_s"] = frame["target"].map(limit).astype(float)
    if gpu_seconds is not None:
        start = pd.Timestamp("2025-01-01", tz="UTC")
        frame["started_at"] = start
        frame["finished_at"] = start + pd.Timedelta(seconds=gpu_seconds)
    assert (conclude(frame)["verdict"] == "crosses") is known


@pytest.mark.parametrize(("seconds", "known"), [(8.9, True), (9.1, False), (None, False)])
def test_with_a_margin_the_challenger_must_be_that_much_below_the_limit(seconds, known):
    frame = with_status(made_frame(falling(1200)), "timeout", target="cpu", sizes=[2048]).assign(deadline_s=10.0)
    if seconds is not None:
        start = pd.Timestamp("2025-01-01", tz="UTC")
        frame["started_at"] = start
        frame["finished_at"] = start + pd.Timedelta(seconds=seconds)
    assert (conclude(frame, margin=0.1)["verdict"] == "crosses") is known


def test_memory_ends_the_range_and_says_nothing_about_time():
    frame = with_status(made_frame(falling(100)), "oom", target="gpu", sizes=[1024, 2048])
    row = conclude(frame)
    assert row["verdict"] == "crosses"
    assert told(row, "gpu does not fit in memory above 512")
    always = conclude(with_status(made_frame(lambda size: -0.4), "oom", target="cpu", sizes=[1024, 2048]))
    assert always["verdict"] == "always_challenger"
    assert told(always, "16 to 512")


def test_pairs_above_an_oom_still_count():
    frame = with_status(made_frame(falling(100)), "oom", target="gpu", sizes=[512])
    row = conclude(frame)
    assert row["pairs"] == 5 * (len(SIZES) - 1)
    assert told(row, "does not fit in memory above 256", "larger sizes at which it did run are counted")


@pytest.mark.parametrize("status", ["error", "crashed", "node_lost", "unavailable", "skipped_larger", "?"])
def test_other_failures_are_missing_and_never_a_win(status):
    frame = with_status(made_frame(lambda size: 0.4), status, target="gpu", sizes=[1024, 2048])
    row = conclude(frame)
    assert (row["verdict"], row["pairs"]) == ("always_baseline", 30)
    assert told(row, "16 to 512")
    assert told(row, f"gpu did not finish ({status}) at 1024 and 2048")


def test_what_did_other_work_is_called_invalid_and_is_never_a_win():
    frame = with_status(made_frame(lambda size: 0.4), "invalid", target="gpu", sizes=[1024, 2048])
    row = conclude(frame)
    assert (row["verdict"], row["pairs"]) == ("always_baseline", 30)
    assert told(row, "compared on 6 of 8 sizes: no trial of gpu is valid at 1024 and 2048")


# ---------------------------------------------------------------------------------- zeros and the clock's resolution


def with_times(frame, seconds, *, target, sizes):
    frame = frame.copy()
    mask = (frame["target"] == target) & frame["size"].isin(sizes)
    frame.loc[mask, "step_times_s"] = pd.Series([[seconds] * 5] * int(mask.sum()), index=frame.index[mask])
    return frame


@pytest.mark.parametrize("seconds", [0.0, 9e-6])
def test_below_resolution_the_sign_is_known_and_no_ratio_is_made(seconds):
    frame = with_times(made_frame(lambda size: 0.4), seconds, target="cpu", sizes=[16, 32])
    row = conclude(frame)
    assert (row["verdict"], row["pairs"]) == ("always_baseline", 30)
    assert told(row, "cpu below resolution at 16 and 32")


def test_below_resolution_on_both_sides_is_unknown():
    frame = made_frame(falling(100))
    for target in ("cpu", "gpu"):
        frame = with_times(frame, 0.0, target=target, sizes=[16])
    row = conclude(frame)
    assert row["verdict"] == "crosses"
    assert told(
        row, "compared on 7 of 8 sizes: cpu is too quick for the clock and gpu is too quick for the clock at 16"
    )


def test_a_time_just_above_the_clock_does_not_lose_to_one_just_below():
    frame = with_times(made_frame(lambda size: 0.4), 9.9e-6, target="cpu", sizes=[16])
    frame = with_times(frame, 10.1e-6, target="gpu", sizes=[16])
    assert not told(conclude(frame), "below resolution")


# ------------------------------------------------------------------------------------------- groups and empty answers


def test_one_row_a_group_sorted_with_their_columns():
    frames = [
        made_frame(falling(100)).assign(width=512, dtype="float32"),
        made_frame(lambda size: 0.4).assign(width=64, dtype="float32"),
        made_frame(lambda size: -0.4).assign(width=64, dtype="bfloat16"),
        made_frame(lambda size: -0.4).assign(width=64, dtype=None),
    ]
    answer = crossovers(pd.concat(frames), group_by=["width", "dtype"], **ASKED)
    assert answer["width"].tolist() == [64, 64, 64, 512]
    assert answer["dtype"].tolist()[:2] == ["bfloat16", "float32"]
    assert pd.isna(answer["dtype"][2])
    assert answer["verdict"].tolist() == ["always_challenger", "always_baseline", "always_challenger", "crosses"]
    alone = conclude(frames[0])
    assert answer.loc[3, alone.index].equals(alone.rename(3))


def test_a_group_without_one_target_is_undetermined():
    whole = made_frame(falling(100)).assign(machine="a")
    half = whole[whole["target"] == "cpu"].assign(machine="b")
    neither = whole.assign(machine="c", target="tpu")
    answer = crossovers(pd.concat([whole, half, neither]), group_by=["machine"], **ASKED)
    assert answer["verdict"].tolist() == ["crosses", "undetermined", "undetermined"]
    assert answer["reasons"][1] == ["nothing to compare: there is no trial of gpu"]
    assert answer["reasons"][2] == ["nothing to compare: there is no trial of cpu and none of gpu"]


def test_nothing_finished():
    frame = made_frame(falling(100))
    for target in ("cpu", "gpu"):
        frame = with_status(frame, "error", target=target, sizes=SIZES)
    row = conclude(frame)
    assert (row["verdict"], row["pairs"]) == ("undetermined", 0)
    assert row["reasons"][0] == "nothing to compare: at no size do both cpu and gpu have a time that counts"


@pytest.mark.parametrize("frame", [pd.DataFrame(), made_frame(falling(100)).head(0)], ids=["no columns", "no rows"])
def test_an_empty_frame_is_undetermined(frame):
    row = conclude(frame)
    assert (row["verdict"], row["direction"], row["pairs"], row["changes"]) == ("undetermined", "", 0, [])
    assert no_numbers(row)
    assert row["reasons"] == ["nothing to compare: there is no trial of cpu and none of gpu"]


@pytest.mark.parametrize("frame", [pd.DataFrame(), made_frame(falling(100)).head(0).assign(machine="")])
def test_an_empty_frame_has_no_groups(frame):
    answer = crossovers(frame, group_by=["machine"], **ASKED)
    assert answer.empty
    assert answer.columns.tolist() == ["machine", *crossovers(pd.DataFrame(), **ASKED).columns]


def test_a_target_that_has_not_run_yet_is_undetermined():
    frame = made_frame(falling(100))
    row = conclude(frame[frame["target"] == "cpu"])
    assert row["verdict"] == "undetermined"
    assert row["reasons"] == ["nothing to compare: there is no trial of gpu"]


def test_planned_targets_may_be_declared():
    frame = made_frame(falling(100))
    frame = frame.assign(target=pd.Categorical(frame["target"].replace("gpu", "cpu-1"), ["cpu", "cpu-1", "gpu"]))
    assert conclude(frame)["verdict"] == "undetermined"


# ----------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"axis": "width"}, "no column 'width'; it has: size, target"),
        ({"axis": ("size", 1)}, "a column name or a pair"),
        ({"axis": ("size",)}, "a column name or a pair"),
        ({"axis": "status"}, "not numbers"),
        ({"axis": "flag"}, "needs numbers"),
        ({"axis": "zero"}, "sizes must be above 0"),
        ({"axis": "endless"}, "infinite"),
        ({"group_by": "machine"}, "list of column names"),
        ({"group_by": ["machine"]}, "no column 'machine'"),
        ({"group_by": ["size"]}, "group_by holds 'size'"),
        ({"group_by": ["flag", "flag"]}, "twice"),
        ({"group_by": ["step_times_s"]}, "part of the comparison"),
        ({"baseline": "gpu"}, "both 'gpu'"),
        ({"challenger": "gpuu"}, "no target is named 'gpuu'; the frame has: cpu, gpu"),
        ({"margin": 1}, "margin is 1"),
        ({"margin": -0.1}, "margin is -0.1"),
        ({"margin": float("nan")}, "margin is nan"),
        ({"margin": "0.1"}, "margin is '0.1'"),
        ({"drift": -0.01}, "drift is -0.01"),
        ({"drift": float("inf")}, "drift is inf"),
    ],
)
def test_bad_questions_are_refused(options, message):
    frame = made_frame(falling(100)).assign(flag=True, zero=0, endless=float("inf"))
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        crossovers(frame, **{**ASKED, **options})


@pytest.mark.parametrize("column", ["target", "status", "step_times_s"])
def test_missing_columns_are_named(column):
    with pytest.raises(ValueError, match=f"no column '{column}'"):
        crossovers(made_frame(falling(100)).drop(columns=column), **ASKED)


def test_times_that_are_no_numbers_are_refused():
    frame = made_frame(falling(100))
    frame["step_times_s"] = [["fast"]] * len(frame)
    with pytest.raises(ValueError, match="step_times_s must hold lists of numbers"):
        crossovers(frame, **ASKED)


def test_two_sizes_far_apart_have_no_interval_between_them():
    """A launch floor against linear work crosses at 100; the straight line between 16 and 1024 says 136."""
    row = conclude(made_frame(lambda size: math.log((9e-4 + 1e-6 * size) / (1e-5 * size)), sizes=(16, 1024)))
    assert row["verdict"] == "crosses"
    assert (row["low"], row["high"]) == (16, 1024)
    assert told(row, "the sizes lie too far apart for a curve between them to say where: add a size")


def test_a_lost_machine_does_not_void_the_timeouts_beside_it():
    frame = with_status(made_frame(falling(100)), "timeout", target="cpu", sizes=[SIZES[-1]])
    lost = with_status(frame, "node_lost", target="cpu", sizes=[SIZES[-1]], passes=[0])
    assert conclude(lost)["verdict"] == conclude(frame)["verdict"] == "crosses"
    assert told(conclude(lost), "cpu timed out")
