"""Where the time goes: ladders of known parts."""

import numpy as np
import pandas as pd
import pytest

from analysis.explain import explain, headlines
from analysis.rounding import share

ASKED = {"axis": "batch_size", "baseline": "cpu", "challenger": "gpu"}
#: Seconds of each part of a step of 1 ms: what each rung has lost is the parts before it.
CPU = {"loader": 4e-4, "sync": 0.0, "rest": 6e-4}
GPU = {"loader": 2e-4, "transfer": 1e-4, "sync": 5e-5, "launch": 3.5e-4, "kernels": 3e-4}
RUNG_WITHOUT = {"loader": "preload", "transfer": "resident", "sync": "nosync", "launch": "kernel"}


def ladder(parts, *, target, size=32, passes=5, between=0.01, within=0.02, rng=None, twin=None):
    """Rows of all rungs of one configuration on one target; parts are seconds, in the order in which they go."""
    rng = rng or np.random.default_rng(1)
    times, left = {"e2e": sum(parts.values())}, sum(parts.values())
    for part, seconds in parts.items():
        left -= seconds
        if part in RUNG_WITHOUT:
            times[RUNG_WITHOUT[part]] = left
    if twin is not None:
        times["twin"] = twin
    rows = []
    for number in range(passes):
        for rung, typical in times.items():
            own = typical * np.exp(between * rng.standard_normal())
            rows.append(
                {
                    "target": target,
                    "batch_size": size,
                    "rung": rung,
                    "pass_index": number,
                    "status": "ok",
                    "step_times_s": (own * np.exp(within * rng.standard_normal(10))).tolist(),
                    "kernel_time_s": own if rung == "kernel" else None,
                }
            )
    return pd.DataFrame(rows)


def both(**options):
    return pd.concat([ladder(CPU, target="cpu", **options), ladder(GPU, target="gpu", **options)], ignore_index=True)


def row_of(parts, target, part):
    (row,) = parts[(parts["target"] == target) & (parts["part"] == part)].to_dict("records")
    return row


def test_each_part_is_told_in_the_order_of_the_ladder():
    parts = explain(both(), **ASKED)
    assert list(zip(parts["target"], parts["part"], strict=True)) == [
        *(("cpu", part) for part in CPU),
        *(("gpu", part) for part in GPU),
    ]
    assert parts["pairs"].eq(5).all()
    assert not parts["assumed"].any()


def test_without_noise_every_share_and_cost_is_exact():
    parts = explain(both(between=0.0, within=0.0), **ASKED)
    for target, known in (("cpu", CPU), ("gpu", GPU)):
        for part, seconds in known.items():
            row = row_of(parts, target, part)
            assert row["share"] == pytest.approx(seconds / 1e-3, abs=1e-9)
            assert row["cost_s"] == pytest.approx(seconds, abs=1e-12)
            assert row["step_s"] == pytest.approx(1e-3)
            assert row["share_low"] <= row["share"] <= row["share_high"]


def test_the_known_parts_lie_in_their_intervals_and_nothing_is_seen_where_nothing_is():
    rng = np.random.default_rng(5)
    made = [both(rng=rng, passes=3, between=0.02).assign(study=number) for number in range(150)]
    parts = explain(pd.concat(made, ignore_index=True), group_by=["study"], **ASKED)
    truth = parts.apply(lambda row: (CPU if row["target"] == "cpu" else GPU)[row["part"]] / 1e-3, axis=1)
    held = (parts["share_low"] <= truth) & (truth <= parts["share_high"])
    assert held.groupby([parts["target"], parts["part"]]).mean().min() >= 0.93
    nothing = parts[(parts["target"] == "cpu") & (parts["part"] == "sync")]
    assert nothing["significant"].mean() <= 0.05
    loader = parts[parts["part"] == "loader"]
    assert loader["significant"].all()
    # Intervals that say something: a third of a step is known to a tenth of a step.
    assert (loader["share_high"] - loader["share_low"]).median() < 0.15


def test_the_shares_of_a_step_add_up():
    parts = explain(both(), **ASKED)
    assert parts.groupby("target")["share"].sum().tolist() == pytest.approx([1.0, 1.0])


def test_order_of_rows_and_unit_of_time_do_not_matter():
    frame = both()
    parts = explain(frame, **ASKED)
    shuffled = explain(frame.sample(frac=1, random_state=3), **ASKED)
    pd.testing.assert_frame_equal(parts, shuffled)


def test_kernels_quicker_than_the_clock_of_steps_are_told():
    quick = GPU | {"launch": 3.5e-4 + 2.95e-4, "kernels": 5e-6}
    parts = explain(ladder(quick, target="gpu"), **ASKED)
    assert row_of(parts, "gpu", "kernels")["share"] == pytest.approx(0.005, rel=0.05)
    assert row_of(parts, "gpu", "kernels")["step_s"] == pytest.approx(1e-3, rel=0.05)
    assert row_of(parts, "gpu", "launch")["share"] == pytest.approx(0.645, rel=0.05)


def test_a_rung_that_does_not_exist_is_passed_over():
    parts = explain(ladder({"sync": 3e-4, "rest": 7e-4}, target="gpu"), **ASKED)
    assert parts["part"].tolist() == ["sync", "rest"]
    assert parts["share"].tolist() == pytest.approx([0.3, 0.7], abs=0.02)


def test_a_rung_that_failed_leaves_its_part_and_the_next_untold():
    frame = ladder(GPU, target="gpu")
    failed = frame["rung"] == "preload"
    frame.loc[failed, "status"] = "error"
    frame["step_times_s"] = frame["step_times_s"].where(~failed, None)
    parts = explain(frame, **ASKED)
    assert parts["part"].tolist() == ["sync", "launch", "kernels"]
    assert row_of(parts, "gpu", "sync")["share"] == pytest.approx(0.05, abs=0.02)


def test_only_passes_that_have_both_rungs_are_compared():
    frame = both(between=0.0)
    frame = frame[~((frame["rung"] == "preload") & (frame["pass_index"] > 1))]
    # A machine that was twice as slow in the passes that lack a partner changes nothing.
    slow = frame["pass_index"] > 1
    frame.loc[slow, "step_times_s"] = frame.loc[slow, "step_times_s"].map(lambda times: [2 * each for each in times])
    row = row_of(explain(frame, **ASKED), "cpu", "loader")
    assert (row["pairs"], row["assumed"]) == (2, True)
    assert row["share"] == pytest.approx(0.4, abs=0.02)


def test_one_pass_assumes_the_spread_and_says_so():
    parts = explain(both(passes=1), **ASKED)
    assert parts["assumed"].all()
    loader, sync = row_of(parts, "cpu", "loader"), row_of(parts, "cpu", "sync")
    assert loader["significant"]
    assert loader["share_high"] - loader["share_low"] > 0.1
    assert not sync["significant"]


def test_a_twin_is_what_the_family_could_do_without():
    frame = ladder(CPU, target="cpu", twin=4e-4, between=0.0, within=0.0)
    row = row_of(explain(frame, workload="lstm_loop", **ASKED), "cpu", "twin")
    assert row["share"] == pytest.approx(0.6)
    assert row["sentence"] == (
        "On cpu at batch_size 32 the loop takes 60 % of a step: lstm_fused, with the same arithmetic, needs "
        "400 µs instead of 1.00 ms (95 % interval 59 to 61 %)."
    )
    row = row_of(explain(frame, workload="branching", **ASKED), "cpu", "twin")
    assert row["sentence"].startswith("On cpu at batch_size 32 the branches take 60 % of a step: straight, with ")


def test_a_twin_that_is_slower_is_told_as_such():
    frame = ladder(CPU, target="cpu", twin=1.2e-3, between=0.0, within=0.0)
    row = row_of(explain(frame, workload="lstm_loop", **ASKED), "cpu", "twin")
    assert row["significant"]
    assert (
        "the loop takes nothing: lstm_fused, with the same arithmetic, needs 1.20 ms instead of 1.00"
        in (row["sentence"])
    )


def test_sentences_say_part_share_and_interval():
    parts = explain(both(between=0.0, within=0.0), **ASKED)
    assert row_of(parts, "cpu", "loader")["sentence"] == (
        "On cpu at batch_size 32 the loader takes 40 % of a step (95 % interval 38 to 42 %)."
    )
    assert row_of(parts, "cpu", "sync")["sentence"] == (
        "On cpu at batch_size 32 reading the loss takes no significant part of a step (95 % interval -1.3 to 1.2 %)."
    )
    longer = ladder({"loader": -1e-4, "rest": 1.1e-3}, target="cpu", between=0.0, within=0.0)
    assert row_of(explain(longer, **ASKED), "cpu", "loader")["sentence"] == (
        "On cpu at batch_size 32 a step is 10 % slower without the loader (95 % interval 7.8 to 13 %)."
    )


def test_what_matters_most_is_said_first_and_what_does_not_last():
    sizes = [both(size=size) for size in (32, 64)]
    sentences = headlines(explain(pd.concat(sizes, ignore_index=True), **ASKED))
    assert "the loader takes 4" in sentences[0]
    assert "On gpu" in sentences[1]
    assert "launching kernels" in sentences[1]
    assert sentences[-1] == "Not significant at any size: reading the loss (cpu)."
    assert len(sentences) == 6
    assert not any("rest" in sentence or "device, computing" in sentence for sentence in sentences)


def test_nothing_to_explain_is_an_empty_frame_with_all_columns():
    frame = both()
    whole = frame[frame["rung"] == "e2e"]
    parts = explain(whole, **ASKED)
    assert parts.empty
    assert explain(whole.iloc[:0], **ASKED).columns.tolist() == parts.columns.tolist()
    assert set(parts.columns) >= {"batch_size", "target", "part", "share", "cost_s", "significant", "sentence"}


def test_disturbed_pairs_are_left_out_where_enough_are_clean():
    frame = ladder(CPU, target="cpu").assign(interference="clean")
    odd = (frame["pass_index"] == 0) & (frame["rung"] == "e2e")
    frame.loc[odd, "interference"] = "contended"
    frame.loc[odd, "step_times_s"] = frame.loc[odd, "step_times_s"].map(lambda times: [9 * each for each in times])
    row = row_of(explain(frame, **ASKED), "cpu", "loader")
    assert (row["pairs"], row["share"]) == (4, pytest.approx(0.4, abs=0.03))


def test_what_was_disturbed_throughout_is_not_called_significant():
    frame = ladder(CPU, target="cpu", passes=3).assign(interference="clean")
    frame.loc[frame["rung"] == "preload", "interference"] = "contended"
    parts = explain(frame, **ASKED)
    row = row_of(parts, "cpu", "loader")
    assert (row["contended"], row["significant"]) == (3, False)
    assert row["share_low"] > 0, "though its interval excludes 0"
    assert row["sentence"].startswith(
        "On cpu at batch_size 32 the loader cannot be told from what else used the machine meanwhile (95 % interval "
    )
    told = headlines(parts)
    (sentence,) = told
    assert sentence.startswith("Something else used the machine meanwhile, so these cannot be told; measure again: ")
    assert sentence.endswith(": loader (cpu) and reading the loss (cpu).")


def test_small_shares_keep_two_digits_and_ends_are_never_rounded_inwards():
    assert [share(value) for value in (0.412, 0.0312, 0.00123, 0.0)] == ["41", "3.1", "0.12", "0"]
    assert (share(0.4149, -1), share(0.4101, 1), share(-0.0312, -1)) == ("41", "42", "-3.2")
