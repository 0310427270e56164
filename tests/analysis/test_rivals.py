"""The best variant of each side: who sets the bar, without a reward for luck."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import crossovers
from analysis.rivals import bars, best_of
from analysis.summary import summarise
from tests.analysis.synthetic import ASKED
from tests.analysis.test_properties import any_records

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SIDES = {"cpu": ["cpu-1", "cpu-4", "cpu-16"], "gpu": ["gpu"]}


def rows(times, *, passes=3, noise=0.0, seed=0, steps=5):
    """Trials of targets whose typical times are given: {target: {size: seconds}}."""
    rng = np.random.default_rng(seed)
    made = [
        {
            "target": target,
            "size": size,
            "pass_index": number,
            "status": "ok",
            "step_times_s": (typical * np.exp(noise * rng.standard_normal() + np.zeros(steps))).tolist(),
        }
        for target, by_size in times.items()
        for size, typical in by_size.items()
        for number in range(passes)
    ]
    return pd.DataFrame(made)


def threads():
    """One thread wins the smallest size, four the middle, sixteen the largest."""
    sizes = [16, 64, 256, 1024, 4096]
    return rows(
        {
            "cpu-1": {size: 1e-5 * size for size in sizes},
            "cpu-4": {size: 5e-4 + 3e-6 * size for size in sizes},
            "cpu-16": {size: 4e-3 + 1e-6 * size for size in sizes},
            "gpu": {size: 3e-3 + 3e-7 * size for size in sizes},
        }
    )


def failed(frame, status, *, target, size, passes=(0, 1, 2), **more):
    frame = frame.copy()
    where = (frame["target"] == target) & (frame["size"] == size) & frame["pass_index"].isin(passes)
    assert where.any()
    frame.loc[where, "status"] = status
    frame["step_times_s"] = frame["step_times_s"].where(~where, None)
    for name, value in more.items():
        frame.loc[where, name] = value
    return frame


def slower(frame, factor, *, target, passes):
    frame = frame.copy()
    where = (frame["target"] == target) & frame["pass_index"].isin(passes)
    frame["step_times_s"] = [
        [factor * time for time in times] if hit else times
        for times, hit in zip(frame["step_times_s"], where, strict=True)
    ]
    return frame


def best(frame, sides=SIDES, **options):
    return best_of(frame, axis="size", sides=sides, **options)


def names(frame, sides=SIDES, **options):
    """The variants that set the bar, by size and side."""
    told = bars(best(frame, sides, **options), axis="size", group_by=options.get("group_by", ()))
    return {(row["size"], row["target"]): row["variants"] for row in told.to_dict("records")}


def state(found, size):
    (row,) = summarise(found, **ASKED)[lambda sizes: sizes["size"] == size].to_dict("records")
    return row


def as_set(found, columns=("target", "size", "pass_index", "variant", "status", "chosen_by")):
    columns = [name for name in columns if name in found.columns]
    return sorted(map(repr, found[columns].assign(times=found["step_times_s"].map(repr)).values.tolist()))


# ------------------------------------------------------------------------------------------------- who sets the bar


def test_each_size_has_the_variant_that_is_fastest_there():
    told = names(threads())
    assert [told[size, "cpu"] for size in (16, 64, 256, 1024, 4096)] == ["cpu-1", "cpu-1", "cpu-4", "cpu-4", "cpu-16"]
    assert {told[size, "gpu"] for size in (16, 64, 256, 1024, 4096)} == {"gpu"}


def test_one_row_a_size_pass_and_side_with_the_times_as_measured():
    frame = threads()
    found = best(frame)
    assert not found.duplicated(["size", "pass_index", "target"]).any()
    assert len(found) == 5 * 3 * 2
    both = found.merge(frame, left_on=["variant", "size", "pass_index"], right_on=["target", "size", "pass_index"])
    assert len(both) == len(found)
    assert (both["step_times_s_x"] == both["step_times_s_y"]).all()


def test_the_envelope_crosses_later_than_one_thread_does():
    frame = threads()
    alone = crossovers(frame, axis="size", baseline="cpu-1", challenger="gpu").iloc[0]
    against_all = crossovers(best(frame), **ASKED).iloc[0]
    assert alone["direction"] == against_all["direction"] == "challenger_above"
    assert alone["high"] < against_all["low"]


def test_levers_make_variants_of_a_target_and_null_means_nothing():
    frame = pd.concat(
        [
            rows({"cpu": {8: 2e-3}}).assign(transfer=None, depth=2),
            rows({"gpu": {8: 3e-3}}).assign(transfer="pageable", depth=2),
            rows({"gpu": {8: 1e-3}}).assign(transfer="pinned", depth=2),
            rows({"cpu": {8: 4e-3}}).assign(transfer=None, depth=4),
            rows({"gpu": {8: 1e-3}}).assign(transfer="pageable", depth=4),
            rows({"gpu": {8: 1.5e-3}}).assign(transfer="pinned", depth=4),
        ],
        ignore_index=True,
    )
    sides = {"cpu": ["cpu"], "gpu": ["gpu"]}
    found = best(frame, sides, group_by=["depth"], variants=["transfer"])
    told = bars(found, axis="size", group_by=["depth"])
    assert told[["depth", "size", "target", "variants", "passes"]].values.tolist() == [
        [2, 8, "cpu", "cpu", 3],
        [2, 8, "gpu", "gpu, transfer pinned", 3],
        [4, 8, "cpu", "cpu", 3],
        [4, 8, "gpu", "gpu, transfer pageable", 3],
    ]


def test_numbers_as_variants_read_like_numbers():
    frame = pd.concat([rows({"cpu": {8: 1e-3 / n}}).assign(threads=float(n)) for n in (1, 2, 12)], ignore_index=True)
    frame.loc[len(frame)] = {**frame.iloc[0].to_dict(), "target": "gpu", "threads": np.nan}
    assert names(frame, {"cpu": ["cpu"], "gpu": ["gpu"]}, variants=["threads"]) == {
        (8, "cpu"): "cpu, threads 12",
        (8, "gpu"): "gpu",
    }


def test_only_whole_steps_set_the_bar():
    frame = threads().assign(rung="e2e")
    rungs = slower(frame, 0.01, target="cpu-16", passes=(0, 1, 2)).assign(rung="resident")
    assert as_set(best(pd.concat([frame, rungs], ignore_index=True))) == as_set(best(frame))


def test_a_side_without_a_row_is_still_there_to_be_asked_for():
    frame = threads()
    found = best(frame[frame["target"] != "gpu"])
    assert crossovers(found, **ASKED).iloc[0]["verdict"] == "undetermined"
    empty = best(frame.iloc[:0])
    assert empty.empty
    assert {"variant", "chosen_by"} <= set(empty.columns)
    assert bars(empty, axis="size").empty


# --------------------------------------------------------------------------------------------------- no winner's curse


def equals(*, variants, passes, groups, seed, between=0.03, within=0.04):
    """Sweeps of several CPU variants and one GPU that all take the same time."""
    rng = np.random.default_rng(seed)
    shape = (groups, 8, passes, variants + 1)
    shared = rng.standard_normal((*shape[:3], 1))
    log = np.log(0.01) + between * np.sqrt(0.5) * (shared + rng.standard_normal(shape))
    times = np.exp(log[..., None] + within * rng.standard_normal((*shape, 7)))
    sweep, size, number, target = (index.ravel() for index in np.indices(shape))
    return pd.DataFrame(
        {
            "sweep": sweep,
            "size": 2 ** (4 + size),
            "pass_index": number,
            "target": np.array([*(f"cpu-{at}" for at in range(variants)), "gpu"])[target],
            "status": "ok",
            "step_times_s": list(times.reshape(-1, 7)),
        }
    )


def luckiest(frame):
    """What a naive envelope does: the fastest time of each size and pass."""
    median = frame["step_times_s"].map(np.median)
    cpu = frame["target"] != "gpu"
    first = median[cpu].groupby([frame[name][cpu] for name in ("sweep", "size", "pass_index")]).idxmin()
    return pd.concat([frame.loc[first].assign(target="cpu"), frame[~cpu]], ignore_index=True)


@pytest.mark.parametrize("passes", [2, 3, 5])
def test_many_equal_variants_do_not_beat_one_equal_rival(passes):
    frame = equals(variants=8, passes=passes, groups=150, seed=passes)
    sides = {"cpu": [f"cpu-{at}" for at in range(8)], "gpu": ["gpu"]}
    asked = {**ASKED, "group_by": ["sweep"]}

    found = best(frame, sides, group_by=["sweep"])
    sizes, verdicts = summarise(found, **asked), crossovers(found, **asked)["verdict"]
    assert abs(sizes["log_ratio"].mean()) < 0.004
    # A band of 95 % errs at 2.5 % of the sizes to either side; the choice itself adds a little to that.
    assert (sizes["state"] == "baseline").mean() < 0.04
    assert (sizes["state"] == "challenger").mean() < 0.04
    assert verdicts.isin(["always_baseline", "always_challenger", "several"]).mean() < 0.02
    assert verdicts.isin(["undetermined", "tie"]).mean() > 0.9

    # The same runs judged by their luckiest time show what that is worth.
    naive = summarise(luckiest(frame), **asked)
    assert naive["log_ratio"].mean() > 0.03
    assert (naive["state"] == "baseline").mean() > 0.15


def test_without_passes_luck_is_no_merit_either():
    frame = equals(variants=8, passes=5, groups=100, seed=1).drop(columns="pass_index")
    sides = {"cpu": [f"cpu-{at}" for at in range(8)], "gpu": ["gpu"]}
    found = best(frame, sides, group_by=["sweep"])
    sizes = summarise(found, **ASKED, group_by=["sweep"])
    assert -0.015 < sizes["log_ratio"].mean() < 0.004  # leaning, if at all, against the side that could choose
    assert (sizes["state"] == "baseline").mean() < 0.03


def test_a_pass_has_no_say_in_who_stands_for_its_side():
    frame = equals(variants=4, passes=4, groups=3, seed=2)
    sides = {"cpu": [f"cpu-{at}" for at in range(4)], "gpu": ["gpu"]}
    keys = ["sweep", "size"]

    def chosen(rows_, number):
        found = best(rows_, sides, group_by=["sweep"])
        own = found[(found["pass_index"] == number) & (found["target"] == "cpu")]
        return own.sort_values(keys)["variant"].tolist()

    for number in range(4):
        for target in ("cpu-0", "cpu-3"):
            assert chosen(slower(frame, 0.5, target=target, passes=[number]), number) == chosen(frame, number)
            changed = [other for other in range(4) if other != number]
            assert set(chosen(slower(frame, 0.5, target=target, passes=changed), number)) == {target}


def test_one_pass_must_judge_itself_and_that_is_said():
    frame = rows({"cpu-1": {8: 1e-3, 16: 2e-3}, "cpu-4": {8: 2e-3, 16: 1e-3}, "gpu": {8: 1e-3, 16: 1e-3}}, passes=1)
    assert names(frame) == {
        (8, "cpu"): "cpu-1 (chosen by the very pass that is compared)",
        (8, "gpu"): "gpu",
        (16, "cpu"): "cpu-4 (chosen by the very pass that is compared)",
        (16, "gpu"): "gpu",
    }
    assert best(frame).groupby("target", observed=True)["chosen_by"].unique().map(list).to_dict() == {
        "cpu": ["same pass"],
        "gpu": [""],
    }
    assert names(frame.drop(columns="pass_index"))[8, "cpu"] == "cpu-1 (chosen by the very run that is compared)"


def test_the_most_frequent_variant_is_named_first_and_counted():
    frame = rows({"cpu-1": {8: 1.0e-3}, "cpu-4": {8: 1.2e-3}, "gpu": {8: 1e-3}}, passes=5)
    # Passes 0, 2 and 4 are judged by 1 and 3, in which cpu-4 is ahead, and those by these.
    frame = slower(frame, 1.5, target="cpu-1", passes=[1, 3])
    told = bars(best(frame), axis="size")
    assert told["variants"].tolist() == ["cpu-4 (3 of 5 passes), cpu-1", "gpu"]
    assert told["passes"].tolist() == [5, 5]


# ------------------------------------------------------------------------------------------------------ what is missing


def test_what_did_not_finish_never_sets_the_bar():
    frame = failed(threads(), "oom", target="cpu-16", size=4096)
    assert names(frame)[4096, "cpu"] == "cpu-4"
    assert state(best(frame), 4096)["baseline_status"] == "ok"


def test_where_the_best_did_not_run_in_a_pass_there_is_no_pair_and_no_slower_stand_in():
    frame = failed(threads(), "node_lost", target="cpu-16", size=4096, passes=[1])
    found = best(frame)
    assert names(frame)[4096, "cpu"] == "cpu-16"
    assert state(found, 4096)["pairs"] == 2
    assert state(found, 4096)["baseline_status"] == "2 ok, 1 node_lost"
    absent = frame[~((frame["target"] == "cpu-16") & (frame["size"] == 4096) & (frame["pass_index"] == 1))]
    assert state(best(absent), 4096)["pairs"] == 2


def test_a_variant_that_mostly_fails_is_no_rival():
    frame = failed(threads(), "crashed", target="cpu-16", size=4096, passes=[0, 2])
    assert names(frame)[4096, "cpu"] == "cpu-4"
    assert state(best(frame), 4096)["pairs"] == 3


@pytest.mark.parametrize(
    ("others", "sign", "status"),
    [
        ("timeout", "cpu timed out", "timeout"),
        ("skipped_larger", "cpu timed out", "timeout"),
        ("unavailable", "cpu timed out", "timeout"),
        ("crashed", "", "crashed"),
        ("oom", "", "oom"),
    ],
)
def test_where_none_finished_a_time_out_tells_what_it_can(others, sign, status):
    frame = threads().assign(deadline_s=60.0)
    frame = failed(frame, "timeout", target="cpu-1", size=4096)
    for target in ("cpu-4", "cpu-16"):
        frame = failed(frame, others, target=target, size=4096)
    found = best(frame)
    row = state(found, 4096)
    assert (row["known_sign"], row["baseline_status"]) == (sign, status)
    assert row["state"] == ("challenger" if sign else "unknown")
    assert names(frame)[4096, "cpu"] == "none finished"
    assert not found.duplicated(["size", "pass_index", "target"]).any()


def test_of_several_limits_the_shortest_is_what_the_side_is_known_to_exceed():
    frame = threads().assign(deadline_s=60.0)
    for target, limit in (("cpu-1", 60.0), ("cpu-4", 0.5), ("cpu-16", 60.0)):
        frame = failed(frame, "timeout", target=target, size=4096, deadline_s=limit)
    assert state(best(frame), 4096)["known_sign"] == ""  # the GPU may have taken longer than half a second in all
    frame.loc[frame["deadline_s"] == 0.5, "deadline_s"] = 60.0
    assert state(best(frame), 4096)["known_sign"] == "cpu timed out"


def test_a_retried_trial_counts_once_and_its_failure_is_told():
    frame = threads().assign(attempt=1, trial_id=lambda made: made.index.astype(str))
    again = frame[(frame["target"] == "cpu-16") & (frame["size"] == 4096) & (frame["pass_index"] == 0)]
    lost = again.assign(status="node_lost", step_times_s=None, attempt=0)
    found = best(pd.concat([frame, lost], ignore_index=True))
    assert state(found, 4096)["pairs"] == 3
    assert bars(found, axis="size").query("size == 4096")["passes"].tolist() == [3, 3]
    assert any("tried again with success" in reason for reason in crossovers(found, **ASKED).iloc[0]["reasons"])


def test_disturbed_trials_do_not_choose_where_clean_ones_can():
    frame = rows({"cpu-1": {8: 1.0e-3}, "cpu-4": {8: 1.1e-3}, "gpu": {8: 1e-3}}, passes=5)
    frame = slower(frame, 3.0, target="cpu-1", passes=[2]).assign(interference="clean")
    assert set(best(frame).query("target == 'cpu' and pass_index in (1, 3)")["variant"]) == {"cpu-4"}
    frame.loc[(frame["target"] == "cpu-1") & (frame["pass_index"] == 2), "interference"] = "contended"
    assert set(best(frame).query("target == 'cpu'")["variant"]) == {"cpu-1"}
    every = frame.assign(interference="contended")
    assert set(best(every).query("target == 'cpu' and pass_index in (1, 3)")["variant"]) == {"cpu-4"}


def test_times_below_the_clock_s_resolution_win():
    frame = rows({"cpu-1": {8: 0.0}, "cpu-4": {8: 1e-3}, "gpu": {8: 2e-3}})
    assert names(frame)[8, "cpu"] == "cpu-1"
    assert state(best(frame), 8)["known_sign"] == "cpu below resolution"


# ----------------------------------------------------------------------------------- what must not make any difference


@settings(max_examples=50)
@given(any_records(), st.randoms(use_true_random=False))
def test_nothing_depends_on_the_order_of_the_rows(frame, chance):
    sides = {"one": ["cpu"], "other": ["gpu"]}
    options = {"group_by": ["group"], "variants": ["interference"] if "interference" in frame else []}
    frame = frame.assign(step_times_s=frame["step_times_s"].map(lambda times: times or [0.1]))
    order = list(range(len(frame)))
    chance.shuffle(order)
    shuffled = frame.iloc[order]
    assert as_set(best(shuffled, sides, **options)) == as_set(best(frame, sides, **options))


@settings(max_examples=50)
@given(any_records())
def test_a_side_of_one_variant_is_that_target(frame):
    asked = {**ASKED, "group_by": ["group"]}
    sides = {"cpu": ["cpu"], "gpu": ["gpu"]}
    kept = frame[frame["rung"] == "e2e"]
    expected, found = crossovers(kept, **asked), crossovers(best(frame, sides, group_by=["group"]), **asked)
    pd.testing.assert_frame_equal(found, expected)


def test_groups_and_time_units_do_not_meddle_also_without_passes():
    frame = equals(variants=3, passes=3, groups=4, seed=3).drop(columns="pass_index")
    sides = {"cpu": [f"cpu-{at}" for at in range(3)], "gpu": ["gpu"]}
    whole = best(frame, sides, group_by=["sweep"])
    one = best(frame[frame["sweep"] == 2], sides, group_by=["sweep"])
    assert as_set(one) == as_set(whole[whole["sweep"] == 2])
    in_ms = frame.assign(step_times_s=frame["step_times_s"].map(lambda times: 1000 * times))
    assert best(in_ms, sides, group_by=["sweep"])["variant"].tolist() == whole["variant"].tolist()


def test_unequal_numbers_of_repeats_without_passes():
    frame = rows({"cpu-1": {8: 1e-3}, "cpu-4": {8: 2e-3}, "gpu": {8: 1e-3}}, passes=9, noise=0.01)
    frame = frame[(frame["target"] != "cpu-1") | (frame["pass_index"] < 2)].drop(columns="pass_index")
    told = bars(best(frame), axis="size").query("target == 'cpu'")
    assert told[["variants", "passes"]].values.tolist() == [["cpu-1", 2]]


# -------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"axis": "width"}, "the frame has no column 'width'; it has: target, size, pass_index"),
        ({"variants": ["transfer"]}, "the frame has no column 'transfer'"),
        ({"sides": {"cpu": ["cpu-1", "cpu-7"], "gpu": ["gpu"]}}, "no target is named 'cpu-7'; the frame has: cpu-1, "),
        ({"sides": {"cpu": ["cpu-1"], "gpu": ["gpu", "cpu-1"]}}, "target 'cpu-1' is named twice among the sides"),
        ({"group_by": ["pass_index"], "variants": ["pass_index"]}, "'pass_index' cannot tell sizes or groups apart"),
    ],
)
def test_what_cannot_be_asked(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        best_of(threads(), **{"axis": "size", "sides": SIDES, **options})


# ---------------------------------------------------------------------------------------------------------- real curves


@pytest.fixture(scope="module")
def thread_sweep():
    """Boosting on 1 to 192 cores of one machine, and on a GPU: szilard/GBM-perf, three runs each on the CPU."""
    path = DATA / "gbm-perf.csv"
    if not path.is_file():
        pytest.skip("gbm-perf.csv is not beside this checkout")
    table = pd.read_csv(path)
    cpu = table[table["note"] == "thread_sweep"]
    cores = cpu["system"].str.replace(r".*ncores=(\d+) \S+", r"\1", regex=True)  # "16", "96 HT", "96 NUMA", "192 ALL"
    gpu = table[(table["device"] == "gpu") & table["system"].eq("p3.2xlarge 2024-06-06")]
    both = pd.concat([cpu.assign(cores=cores), gpu.assign(cores=None)], ignore_index=True)
    times = both["seconds"].map(lambda seconds: [seconds])
    return both.assign(target=both["device"], status="ok", step_times_s=times)[
        ["kernel_or_model", "size", "target", "cores", "status", "step_times_s"]
    ].query("kernel_or_model in ['xgboost', 'lightgbm']")


def test_the_best_thread_curve_is_the_rival(thread_sweep):
    asked = {"group_by": ["kernel_or_model"], "variants": ["cores"]}
    found = best(thread_sweep, {"cpu": ["cpu"], "gpu": ["gpu"]}, **asked)
    told = bars(found, axis="size", group_by=["kernel_or_model"]).query("target == 'cpu'")
    told = told.set_index(["kernel_or_model", "size"])
    named = told["variants"].map(lambda text: set(re.findall(r"cores (\d+(?: [A-Z]+)?)", text)))
    assert named["xgboost", 100_000] <= {"16", "24"}
    assert named["lightgbm", 100_000] <= {"2", "4", "8"}
    assert named["xgboost", 10_000_000] == {"96 HT"}
    assert named["lightgbm", 10_000_000] <= {"24", "32"}
    assert told["passes"].between(2, 3).all()


def test_more_threads_are_not_faster_and_one_thread_flatters_the_gpu(thread_sweep):
    xgboost = thread_sweep[thread_sweep["kernel_or_model"] == "xgboost"]
    sides = {"cpu": ["cpu"], "gpu": ["gpu"]}
    against = {
        cores: summarise(xgboost[(xgboost["cores"] == cores) | (xgboost["target"] == "gpu")], **ASKED)
        for cores in ("1", "48")
    }
    rival = summarise(best(xgboost, sides, variants=["cores"]), **ASKED)
    # A log ratio above 0 says that the CPU is faster: no one number of threads does better, beyond noise.
    for sizes in against.values():
        assert (rival["log_ratio"] >= sizes["log_ratio"] - 0.05).all()
    assert against["1"].loc[0, "log_ratio"] < rival.loc[0, "log_ratio"] - 1
    assert against["48"].loc[0, "log_ratio"] < rival.loc[0, "log_ratio"] - 0.1
