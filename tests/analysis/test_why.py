"""Labels: what holds up the slower target, from ladders of known parts."""

import math

import numpy as np
import pandas as pd
import pytest

from analysis.costs import fit_costs
from analysis.explain import explain
from analysis.summary import summarise
from analysis.why import labels
from tests.analysis.test_explain import ladder

ASKED = {"axis": "batch_size", "baseline": "cpu", "challenger": "gpu"}
NO_COSTS = pd.DataFrame()
#: Seconds of a step on a CPU that wins, and on one that loses.
QUICK, SLOW = {"loader": 1e-5, "sync": 1e-6, "rest": 2e-4}, {"loader": 1e-3, "sync": 1e-6, "rest": 9e-3}
#: Parts of a millisecond of a GPU's step, by what holds it up.
HELD_UP_BY = {
    "loader": {"loader": 7e-4, "transfer": 1e-4, "sync": 5e-5, "launch": 1e-4, "kernels": 5e-5},
    "transfer": {"loader": 1e-4, "transfer": 7e-4, "sync": 5e-5, "launch": 1e-4, "kernels": 5e-5},
    "sync": {"loader": 1e-4, "transfer": 1e-4, "sync": 6e-4, "launch": 1e-4, "kernels": 1e-4},
    "launch": {"loader": 1e-4, "transfer": 1e-4, "sync": 5e-5, "launch": 7e-4, "kernels": 5e-5},
    "compute": {"loader": 1e-4, "transfer": 1e-4, "sync": 5e-5, "launch": 1e-4, "kernels": 6.5e-4},
}
EVEN = {"loader": 2.6e-4, "transfer": 2.4e-4, "sync": 1e-4, "launch": 3e-4, "kernels": 1e-4}


def rows(gpu, cpu=QUICK, *, size=32, **options):
    options = {"passes": 5, "between": 0.0, "within": 0.0} | options
    sides = (("cpu", cpu), ("gpu", gpu))
    return pd.concat([ladder(parts, target=name, size=size, **options) for name, parts in sides], ignore_index=True)


def labelled(frame, costs=NO_COSTS, *, work=None):
    sizes = summarise(frame[frame["rung"] == "e2e"], **ASKED)
    return labels(explain(frame, **ASKED), sizes, costs, **ASKED, frame=work)


def only(found):
    (row,) = found.to_dict("records")
    return row


@pytest.mark.parametrize("cause", HELD_UP_BY)
def test_the_largest_part_is_the_label_with_its_share(cause):
    row = only(labelled(rows(HELD_UP_BY[cause])))
    truth = max(HELD_UP_BY[cause].values()) / 1e-3
    assert (row["target"], row["label"], row["part"]) == ("gpu", f"{cause}-bound", cause)
    assert row["share"] == pytest.approx(truth, abs=1e-6)
    assert row["share_low"] <= truth <= row["share_high"]
    assert row["to_try"]


def test_with_the_noise_of_real_passes_labels_hold_and_shares_lie_in_their_intervals():
    rng = np.random.default_rng(2)
    causes = list(HELD_UP_BY) * 12
    made = [
        rows(HELD_UP_BY[cause], size=size, passes=3, rng=rng, between=0.05, within=0.03)
        for size, cause in enumerate(causes, start=1)
    ]
    found = labelled(pd.concat(made, ignore_index=True))
    told = found[found["label"] != ""]
    expected = pd.Series(causes, index=found.index)
    assert told["label"].tolist() == [f"{cause}-bound" for cause in expected[told.index]]
    assert len(told) >= 54
    truth = expected.map(lambda cause: max(HELD_UP_BY[cause].values()) / 1e-3)
    assert ((found["share_low"] <= truth) & (truth <= found["share_high"])).mean() >= 0.93


def test_no_part_that_is_half_of_it_is_mixed_and_its_causes_are_listed():
    row = only(labelled(rows(EVEN)))
    assert (row["label"], row["part"]) == ("mixed", "launch")
    assert row["share"] == pytest.approx(0.3, abs=1e-6)
    assert row["sentence"] == (
        "At batch_size 32 gpu is 4.7x slower than cpu, and no single part takes more than half of its step: launching "
        "kernels 30 %, the loader 26 % and the copy to the device 24 %."
    )


def test_almost_half_does_not_contradict_that_no_part_is_more():
    parts = {"loader": 4.97e-4, "transfer": 2.4e-4, "sync": 1e-4, "launch": 1e-4, "kernels": 6.3e-5}
    row = only(labelled(rows(parts)))
    assert row["label"] == "mixed"
    assert "no single part takes more than half of its step: the loader 50 %, " in row["sentence"]


def test_a_share_above_all_of_the_step_has_an_interval_that_holds_it():
    # With the loader away the step is slower, as happens where a rung does more than take away.
    frame = rows({"loader": -1e-5, "launch": 1e-3, "kernels": 1e-6}, between=0.01)
    row = only(labelled(frame))
    assert row["share"] > 1
    (low, high) = (math.floor(100 * row["share_low"]), math.ceil(100 * row["share_high"]))
    assert f"takes {100 * row['share']:.0f} % of its step (95 % interval {low} to {high} %)" in row["sentence"]


def test_the_sentence_says_who_how_much_and_why():
    assert only(labelled(rows(HELD_UP_BY["launch"])))["sentence"] == (
        "At batch_size 32 gpu is 4.7x slower than cpu, and launch-bound: the host, launching kernels, takes 70 % of "
        "its step (95 % interval 68 to 72 %)."
    )


def test_a_slower_cpu_has_a_label_of_its_own():
    row = only(labelled(rows(HELD_UP_BY["launch"], cpu=SLOW)))
    assert (row["target"], row["label"], row["part"]) == ("cpu", "compute-bound", "compute")
    assert row["share"] == pytest.approx(0.9, abs=1e-3)
    # Without a law it is not known how much of it is arithmetic.
    said = "computing and the calls that start it (arithmetic or memory: the times do not tell which) takes 90 % of its"
    assert said in row["sentence"]


def test_where_neither_is_clearly_slower_nobody_is_held_up():
    even = {"loader": 1e-4, "rest": 9e-4}
    row = only(labelled(rows(HELD_UP_BY["launch"], cpu=even)))
    assert (row["target"], row["label"], row["part"]) == ("", "", "")
    assert math.isnan(row["share"])
    assert row["sentence"] == "At batch_size 32 neither target is clearly slower."


def test_nothing_is_labelled_that_is_not_significant():
    # A loader of half of the step, in passes that differ by a factor of three.
    rng = np.random.default_rng(4)
    frame = rows({"loader": 5e-3, "transfer": 5e-3}, rng=rng, between=1.0)
    row = only(labelled(frame))
    assert (row["target"], row["label"], row["to_try"]) == ("gpu", "", "")
    assert row["sentence"].endswith(", but no part of its step stands out from the noise.")


def test_disturbed_trials_give_no_label():
    frame = rows(HELD_UP_BY["launch"]).assign(interference="clean")
    frame.loc[(frame["target"] == "gpu") & (frame["rung"] == "kernel"), "interference"] = "contended"
    row = only(labelled(frame))
    assert row["label"] == ""
    assert row["sentence"].endswith(
        "but something else used the machine meanwhile, so no cause can be told; measure again."
    )


def test_one_pass_is_told_as_provisional():
    row = only(labelled(rows(HELD_UP_BY["launch"], passes=1)))
    assert row["label"] == "launch-bound"
    assert row["share_high"] - row["share_low"] > 0.1
    assert row["sentence"].endswith(" Provisional: there were too few passes to see how runs differ.")


def test_a_part_that_the_winner_pays_for_too_is_no_reason_to_lose():
    gpu = {"loader": 6e-4, "transfer": 1e-4, "sync": 5e-5, "launch": 2e-4, "kernels": 5e-5}
    both = only(labelled(rows(gpu, cpu={"loader": 6e-4, "sync": 1e-6, "rest": 1e-4})))
    assert (both["label"], both["shared"]) == ("loader-bound", True)
    assert both["sentence"].endswith("But cpu pays for that too: it makes less than half of the difference.")
    alone = only(labelled(rows(gpu, cpu=QUICK)))
    assert (alone["label"], alone["shared"]) == ("loader-bound", False)
    assert "pays for that too" not in alone["sentence"]


def test_where_the_winner_alone_has_a_time_there_is_nothing_to_compare():
    frame = rows(HELD_UP_BY["launch"])
    out = (frame["target"] == "gpu") & (frame["rung"] == "e2e")
    frame.loc[out, "status"] = "timeout"
    frame["step_times_s"] = frame["step_times_s"].where(~out, None)
    row = only(labelled(frame))
    assert (row["target"], row["label"]) == ("", "")
    assert row["sentence"] == "At batch_size 32 there is no pair to compare (gpu timed out)."


def test_a_loser_that_was_not_taken_apart_has_no_label():
    frame = rows(HELD_UP_BY["launch"])
    frame = frame[(frame["target"] == "cpu") | (frame["rung"] == "e2e")]
    row = only(labelled(frame))
    assert (row["target"], row["label"]) == ("gpu", "")
    assert row["sentence"].endswith("; its step was not taken apart.")


def test_without_a_ladder_there_is_no_row():
    frame = rows(HELD_UP_BY["launch"])
    found = labelled(frame[frame["rung"] == "e2e"])
    assert found.empty
    assert found.columns.tolist()[:3] == ["batch_size", "target", "label"]


def test_sizes_come_in_order_each_with_its_own_loser():
    frame = pd.concat(
        [rows(HELD_UP_BY["sync"], cpu=SLOW, size=64), rows(HELD_UP_BY["sync"], size=8)], ignore_index=True
    )
    found = labelled(frame)
    assert found["batch_size"].tolist() == [8, 64]
    assert found["target"].tolist() == ["gpu", "cpu"]
    assert found["label"].tolist() == ["sync-bound", "compute-bound"]


def working(frame, *, ops=27.0, flops=1e6, parameter_bytes=1e4, h2d_bytes=1e4):
    return frame.assign(
        ops_per_step=ops, flops_per_step=flops, parameter_bytes=parameter_bytes, h2d_bytes_per_step=h2d_bytes
    )


def test_without_a_law_memory_is_not_told_from_arithmetic():
    # 240 MB in 9 ms, and next to nothing computed with it: likely, and not measured.
    frame = working(rows(HELD_UP_BY["launch"], cpu=SLOW), flops=1e6, parameter_bytes=4e7)
    row = only(labelled(frame, work=frame))
    assert row["label"] == "compute-bound"
    assert row["share"] == pytest.approx(0.9, abs=1e-3)
    assert "arithmetic or memory: the times do not tell which" in row["sentence"]


def test_kernels_without_a_law_are_told_in_the_same_way():
    frame = working(rows(HELD_UP_BY["compute"]), flops=1e5, parameter_bytes=4e6)
    row = only(labelled(frame, work=frame))
    assert row["label"] == "compute-bound"
    said = "computing (arithmetic or memory: the times do not tell which) takes 65 % of its step"
    assert said in row["sentence"]


def test_a_law_tells_memory():
    frame = working(rows(HELD_UP_BY["compute"]), flops=1e5, parameter_bytes=4e6)
    moved = 24e6 + 1e4  # what the law of costs counts for these columns
    row = only(labelled(frame, costs_of("gpu", math.nan, math.nan, moved / 6.5e-4), work=frame))
    assert row["label"] == "memory-bound"
    assert "moving bytes through memory takes 65 % of its step" in row["sentence"]


def costs_of(target, latency_s, flops_per_s, bytes_per_s, *, left_out=0.1, rung="nosync"):
    row = {"target": target, "rung": rung, "latency_s": latency_s, "flops_per_s": flops_per_s}
    return pd.DataFrame([{**row, "bytes_per_s": bytes_per_s, "left_out": left_out}])


def test_a_law_divides_what_remains_of_a_cpu():
    # 9 ms: 27 operators of 0.2 ms, 36 MFLOP at 12 GFLOP/s and 6.6 MB at 11 GB/s.
    frame = working(rows(HELD_UP_BY["launch"], cpu=SLOW), flops=36e6, parameter_bytes=1.1e6 - 1e4, h2d_bytes=6e4)
    row = only(labelled(frame, costs_of("cpu", 5.4e-3 / 27, 12e9, 11e9), work=frame))
    assert row["label"] == "launch-bound"
    assert row["share"] == pytest.approx(0.9 * 0.6, rel=0.01)
    # The law is off by a tenth, and so is what it says.
    assert row["share_low"] < row["share"] / 1.09
    assert row["share_high"] > row["share"] * 1.09
    assert "the host, calling operators, takes 54 % of its step" in row["sentence"]
    quick = only(labelled(frame, costs_of("cpu", math.nan, 36e6 / 8.5e-3, math.nan), work=frame))
    assert (quick["label"], quick["share"]) == ("compute-bound", pytest.approx(0.9, rel=0.01))
    assert "computing takes" in quick["sentence"]


def test_a_law_that_misses_the_time_explains_nothing():
    frame = working(rows(HELD_UP_BY["launch"], cpu=SLOW), flops=36e6)
    for flops_per_s in (36e6 / 9e-3 * 1.6, 36e6 / 9e-3 / 1.6):
        row = only(labelled(frame, costs_of("cpu", math.nan, flops_per_s, math.nan), work=frame))
        assert "the times do not tell which" in row["sentence"]


def test_a_law_of_the_whole_step_says_nothing_of_what_is_left_of_it():
    frame = working(rows(HELD_UP_BY["launch"], cpu=SLOW), flops=36e6)
    costs = costs_of("cpu", 9e-3 / 27, math.nan, math.nan)
    assert only(labelled(frame, costs, work=frame))["label"] == "launch-bound"
    assert only(labelled(frame, costs.assign(rung="e2e"), work=frame))["label"] == "compute-bound"


def test_a_fitted_law_is_understood():
    def cpu(batch, width):
        return {"loader": 1e-6 * batch, "sync": 1e-6, "rest": 27 * 12e-6 + 6 * batch * width**2 / 66e9}

    made = []
    for width in (64, 256, 1024):
        for batch in (8, 64, 512):
            gpu = {"loader": 1e-6, "launch": 27 * 6e-6, "kernels": 1e-5}
            part = rows(gpu, cpu=cpu(batch, width), size=batch, between=0.02, within=0.02).assign(width=width)
            made.append(working(part, flops=6.0 * batch * width**2, parameter_bytes=4.0 * width**2))
    frame = pd.concat(made, ignore_index=True)
    costs = fit_costs(frame, axis="batch_size", targets=["cpu", "gpu"])
    found = {width: labelled(own, costs, work=own) for width, own in frame.groupby("width")}
    assert found[64].iloc[0][["target", "label"]].tolist() == ["cpu", "launch-bound"]
    assert found[1024].iloc[-1][["target", "label"]].tolist() == ["cpu", "compute-bound"]


def test_neither_order_of_rows_nor_a_twin_changes_anything():
    frame = rows(HELD_UP_BY["launch"])
    expected = labelled(frame)
    pd.testing.assert_frame_equal(labelled(frame.sample(frac=1, random_state=1)), expected)
    whole = frame[frame["rung"] == "e2e"]
    twin = whole.assign(rung="twin", step_times_s=[[1e-4] * 10] * len(whole))
    pd.testing.assert_frame_equal(labelled(pd.concat([frame, twin], ignore_index=True)), expected)
