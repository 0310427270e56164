import numpy as np
import pandas as pd
import pytest

from analysis import crossovers
from analysis.summary import summarise
from tests.analysis.synthetic import ASKED, SIZES, at_sizes, chosen, falling, made_frame, with_status

COLUMNS = [
    *("size", "baseline_s", "baseline_low_s", "baseline_high_s", "challenger_s", "challenger_low_s"),
    *("challenger_high_s", "pairs", "contended", "log_ratio", "log_ratio_low", "log_ratio_high", "state", "strong"),
    *("known_sign", "baseline_status", "challenger_status"),
]


def summary(frame, **options):
    return summarise(frame, **{**ASKED, **options}).set_index("size")


def test_one_row_a_size_in_numeric_order():
    frame = made_frame(falling(100))
    table = summarise(frame.assign(size=frame["size"].astype(str)), **ASKED)
    assert table.columns.tolist() == COLUMNS
    assert table["size"].tolist() == SIZES
    assert table["size"].dtype == np.int64
    assert (table["pairs"] == 5).all()
    assert (table["known_sign"] == "").all()
    assert set(table["baseline_status"]) == set(table["challenger_status"]) == {"ok"}


def test_fractional_sizes_stay_fractional():
    table = summarise(at_sizes({0.5: 1.0, 1.0: 0.2, 2.0: -1.0}), **ASKED)
    assert table["size"].tolist() == [0.5, 1.0, 2.0]


def test_typical_seconds_and_their_range():
    frame = pd.DataFrame(
        {
            "size": 8,
            "target": ["cpu"] * 3 + ["gpu"] * 3,
            "pass_index": [0, 1, 2] * 2,
            "status": "ok",
            "step_times_s": [[1.0, 9.0, 1.0], [2.0], [4.0, 4.0], [1.0, 3.0], [4.0], [8.0]],
        }
    )
    row = summary(frame).loc[8]
    assert row["baseline_s"] == pytest.approx(2)
    assert (row["baseline_low_s"], row["baseline_high_s"]) == (1, 4)
    assert row["challenger_s"] == pytest.approx(4)
    assert (row["challenger_low_s"], row["challenger_high_s"]) == (2, 8)
    assert row["log_ratio"] == pytest.approx(np.log(2))


def test_the_ratio_is_that_of_the_typical_seconds():
    table = summary(made_frame(falling(100)))
    assert table["log_ratio"].to_numpy() == pytest.approx(
        np.log(table["challenger_s"] / table["baseline_s"]).to_numpy()
    )
    assert table["log_ratio"].to_numpy() == pytest.approx([falling(100)(size) for size in SIZES])


def test_half_width_by_hand():
    """Two sizes, three pairs each: variances 1e-4 and 4e-4 moderate each other."""
    values = {16: [0.49, 0.50, 0.51], 32: [-0.52, -0.50, -0.48]}
    rows = [
        (size, target, number, "ok", [float(np.exp(ratio if target == "gpu" else 0.0))] * 5)
        for size, ratios in values.items()
        for number, ratio in enumerate(ratios)
        for target in ("cpu", "gpu")
    ]
    frame = pd.DataFrame(rows, columns=["size", "target", "pass_index", "status", "step_times_s"])
    table = summary(frame, drift=0.0)
    pooled = (2e-4 + 8e-4) / 4
    t_four = 2.7764451052  # quantile .975 of Student's t, 4 degrees of freedom: min(4 + 3 - 1, 4)
    for size, square in ((16, 2e-4), (32, 8e-4)):
        half = t_four * np.sqrt((4 * pooled + square) / 6 / 3)
        assert table.loc[size, "log_ratio_high"] - table.loc[size, "log_ratio"] == pytest.approx(half)
        assert table.loc[size, "log_ratio"] - table.loc[size, "log_ratio_low"] == pytest.approx(half)
    drifting = summary(frame, drift=0.02)
    half = np.hypot(t_four * np.sqrt((4 * pooled + 2e-4) / 6 / 3), 1.96 * 0.02)
    assert drifting.loc[16, "log_ratio_high"] - drifting.loc[16, "log_ratio"] == pytest.approx(half)


def test_half_width_without_repetition_by_hand():
    logs = np.array([0.0, 0.1, 0.2, 0.3, 0.4])
    rows = [
        (size, target, 0, "ok", np.exp(logs + (target == "gpu")).tolist())
        for size in (16, 32)
        for target in ("cpu", "gpu")
    ]
    frame = pd.DataFrame(rows, columns=["size", "target", "pass_index", "status", "step_times_s"])
    table = summary(frame, drift=0.0)
    within = 2 * 1.571 * (0.2 / 1.349) ** 2 / 5
    t_five = 2.5705818356
    assert table.loc[16, "log_ratio_high"] - 1 == pytest.approx(t_five * np.sqrt(within + 0.04**2))
    few_steps = frame.assign(step_times_s=[times[:3] for times in frame["step_times_s"]])
    table = summary(few_steps, drift=0.0)  # three steps and two sizes: nothing to estimate from
    assert table.loc[16, "log_ratio_high"] - 1 == pytest.approx(t_five * np.hypot(0.1, 0.04))


def test_half_width_without_pairs_by_hand():
    rows = [
        (16, target, "ok", [float(np.exp(value))] * 4)
        for target, values in (("cpu", [0.0, 0.1, 0.2, 0.3]), ("gpu", [1.0, 1.3, 1.6, 1.9]))
        for value in values
    ]
    frame = pd.DataFrame(rows, columns=["size", "target", "status", "step_times_s"])
    table = summary(frame, drift=0.0)
    # One size: the pooled variance is its own. Sums of squares .05 and .45 over 3 spare trials: 3 degrees of freedom.
    variances = [(4 * square / 3 + square) / 7 for square in (0.05, 0.45)]
    half = 3.1824463053 * np.sqrt(sum(variances) / 4)
    assert table.loc[16, "log_ratio"] == pytest.approx(1.3)
    assert table.loc[16, "log_ratio_high"] - 1.3 == pytest.approx(half)


def test_states_take_the_margin_and_ratios_do_not():
    frame = at_sizes({16: 0.5, 32: 0.0, 64: -0.05, 128: -0.5}, noise=0.001)
    plain, practical = summary(frame), summary(frame, margin=0.2)
    assert plain["state"].tolist() == ["baseline", "undecided", "challenger", "challenger"]
    assert plain["strong"].tolist() == [True, False, True, True]
    assert practical["state"].tolist() == ["baseline", "baseline", "baseline", "challenger"]
    ratios = ["log_ratio", "log_ratio_low", "log_ratio_high"]
    assert plain[ratios].equals(practical[ratios])


def test_decided_by_less_than_three_percent_is_not_strong():
    table = summary(made_frame(lambda size: 0.028, noise=0.0002), drift=0.0)
    assert set(table["state"]) == {"baseline"}
    assert not table["strong"].any()


def test_sizes_of_one_side_are_shown_with_their_times():
    frame = made_frame(falling(100))
    frame = frame[~((frame["target"] == "gpu") & (frame["size"] == 16))]
    frame = with_status(frame, "unavailable", target="gpu", sizes=[32])
    table = summary(frame)
    for size, status in ((16, "not run"), (32, "unavailable")):
        row = table.loc[size]
        assert (row["state"], row["pairs"], row["strong"]) == ("unknown", 0, False)
        assert row["baseline_s"] == pytest.approx(1e-4 * size, rel=1e-4)
        assert row[["challenger_s", "challenger_low_s", "log_ratio", "log_ratio_low"]].isna().all()
        assert (row["baseline_status"], row["challenger_status"]) == ("ok", status)


def test_mixed_outcomes_are_counted():
    frame = with_status(made_frame(falling(100), passes=3), "timeout", target="cpu", sizes=[16], passes=[1])
    frame = with_status(frame, "error", target="gpu", sizes=[16], passes=[0])
    row = summary(frame).loc[16]
    assert (row["baseline_status"], row["challenger_status"]) == ("2 ok, 1 timeout", "2 ok, 1 error")
    assert row["pairs"] == 1


def test_known_signs_say_why():
    frame = with_status(made_frame(falling(100)), "timeout", target="cpu", sizes=[2048])
    mask = (frame["target"] == "cpu") & (frame["size"] == 16)
    frame.loc[mask, "step_times_s"] = pd.Series([[0.0] * 5] * 5, index=frame.index[mask])
    table = summary(frame)
    timed_out, quick = table.loc[2048], table.loc[16]
    assert (timed_out["state"], timed_out["strong"], timed_out["known_sign"]) == ("challenger", True, "cpu timed out")
    assert timed_out["baseline_status"] == "timeout"
    assert (quick["state"], quick["strong"], quick["known_sign"]) == ("baseline", True, "cpu below resolution")
    assert quick["baseline_status"] == "below resolution"
    assert np.isnan(quick["baseline_s"])


def test_unusable_times_are_named():
    frame = made_frame(falling(100))
    mask = chosen(frame, target="gpu", size=16, number=0)
    frame.loc[mask, "step_times_s"] = pd.Series([[-1.0]], index=frame.index[mask])
    assert summary(frame).loc[16, "challenger_status"] == "4 ok, 1 unusable times"


def test_trials_without_partner_stay_out_of_the_typical_time():
    frame = made_frame(falling(100))
    lone = chosen(frame, target="cpu", size=64, number=0)
    frame = frame[~chosen(frame, target="gpu", size=64, number=0)]
    frame.loc[lone, "step_times_s"] = pd.Series([[1e3] * 5], index=frame.index[lone.reindex(frame.index)])
    assert summary(frame).loc[64, "baseline_high_s"] < 1


def test_groups_come_first_and_keep_their_types():
    frame = pd.concat(
        [made_frame(falling(100)).assign(width=width, dtype=dtype) for width, dtype in ((64, "b"), (8, "a"))]
    )
    table = summarise(frame, group_by=["width", "dtype"], **ASKED)
    assert table.columns.tolist() == ["width", "dtype", *COLUMNS]
    assert table["width"].tolist() == [8] * len(SIZES) + [64] * len(SIZES)
    assert table["width"].dtype == np.int64
    assert table["size"].tolist() == SIZES * 2


@pytest.mark.parametrize("frame", [pd.DataFrame(), made_frame(falling(100)).head(0)], ids=["no columns", "no rows"])
def test_an_empty_frame_has_no_rows(frame):
    table = summarise(frame, **ASKED)
    assert table.empty
    assert table.columns.tolist() == COLUMNS


def test_bad_questions_are_refused_as_by_crossovers():
    for function in (summarise, crossovers):
        with pytest.raises(ValueError, match="margin is 2"):
            function(made_frame(falling(100)), margin=2, **ASKED)
