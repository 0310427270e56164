"""Crossovers with a cause taken away: ladders of known parts, whose crossings can be worked out."""

import math

import numpy as np
import pandas as pd
import pytest

from analysis.crossover import COLUMNS
from analysis.ladder_sizes import sizes_to_explain
from analysis.load import load
from analysis.partners import spread
from analysis.without import without
from tests.analysis.test_explain import ladder

ASKED = {"axis": "batch_size", "baseline": "cpu", "challenger": "gpu"}
SIZES = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
CAUSES = ["loader", "transfer", "sync", "launch"]


def cpu_parts(size):
    """Seconds: loading and computing grow with the size, reading the loss does not."""
    return {"loader": 2e-6 * size, "sync": 1e-5, "rest": 2e-5 + 8e-6 * size}


def gpu_parts(size):
    """Seconds: the host's part stays, copying and computing grow with the size."""
    return {
        "loader": 2e-6 * size,
        "transfer": 3e-4 + 3e-6 * size,
        "sync": 1e-4,
        "launch": 8e-4,
        "kernels": 2e-5 + 1e-6 * size,
    }


#: cpu a + b n against gpu c + d n: they meet at (c - a) / (b - d).
CROSSINGS = {
    "e2e": (1.22e-3 - 3e-5) / (10e-6 - 6e-6),
    "loader": (1.22e-3 - 3e-5) / (8e-6 - 4e-6),
    "transfer": (9.2e-4 - 3e-5) / (8e-6 - 1e-6),
    "sync": (8.2e-4 - 2e-5) / (8e-6 - 1e-6),
}


def ladders(*, sizes=SIZES, explained=None, gpu=gpu_parts, cpu=cpu_parts, **options):
    """Rows of whole steps at all sizes, and of all rungs at those that are explained."""
    options = {"passes": 3, "between": 0.0, "within": 0.0} | options
    rows = []
    for size in sizes:
        for target, parts in (("cpu", cpu), ("gpu", gpu)):
            found = ladder(parts(size), target=target, size=size, **options)
            is_known = explained is None or size in explained
            rows.append(found if is_known else found[found["rung"] == "e2e"])
    return pd.concat(rows, ignore_index=True)


def row_of(found, cause):
    (row,) = found[found["without"] == cause].to_dict("records")
    return row


def test_one_row_a_cause_in_the_order_of_the_ladder():
    found = without(ladders(), **ASKED)
    assert found["without"].tolist() == CAUSES
    assert found.columns.tolist() == ["without", *COLUMNS, "factor", "factor_low", "factor_high", "sentence"]


def test_without_noise_the_crossings_and_factors_are_those_of_the_parts():
    found = without(ladders(sizes=[round(4 * 2 ** (n / 4)) for n in range(41)]), **ASKED)
    for cause in CAUSES[:3]:
        row = row_of(found, cause)
        assert row["verdict"] == "crosses"
        assert row["estimate"] == pytest.approx(CROSSINGS[cause], rel=0.01)
        assert row["low"] < CROSSINGS[cause] < row["high"]
        assert row["factor"] == pytest.approx(CROSSINGS[cause] / CROSSINGS["e2e"], rel=0.02)
        assert row["factor_low"] < CROSSINGS[cause] / CROSSINGS["e2e"] < row["factor_high"]


def test_kernels_alone_stand_against_a_cpu_that_does_not_read_its_loss():
    row = row_of(without(ladders(), **ASKED), "launch")
    # 2e-5 + 1e-6 n of kernels is never slower than the CPU's 2e-5 + 8e-6 n.
    assert row["verdict"] == "always_challenger"
    assert math.isnan(row["factor"])
    assert " The whole step: From batch_size " in row["sentence"]


def test_with_the_noise_of_real_passes_the_known_crossings_lie_in_their_intervals():
    rng = np.random.default_rng(11)
    sizes = SIZES[1::2] + SIZES[6:8:2]
    made = [ladders(sizes=sizes, rng=rng, between=0.05, within=0.03).assign(study=number) for number in range(40)]
    found = without(pd.concat(made, ignore_index=True), group_by=["study"], **ASKED)
    assert found.groupby("study")["without"].agg(list).map(lambda causes: causes == CAUSES).all()
    for cause in CAUSES[:3]:
        rows = found[(found["without"] == cause) & (found["verdict"] == "crosses")]
        assert len(rows) >= 38, cause
        # Of 250 such studies 96 to 100 % hold the truth; forty can be less lucky.
        truth = CROSSINGS[cause]
        assert ((rows["low"] <= truth) & (truth <= rows["high"])).mean() >= 0.9
        truth /= CROSSINGS["e2e"]
        assert ((rows["factor_low"] <= truth) & (truth <= rows["factor_high"])).mean() >= 0.9
        # An interval that says something: 5 % of noise make no more of it than that.
        assert (rows["factor_high"] / rows["factor_low"]).median() < 2.5


def test_the_whole_step_is_compared_over_the_sizes_of_the_ladder_only():
    few = [4, 64, 256, 512, 4096]
    some, all_of_them = without(ladders(explained=few), **ASKED), without(ladders(sizes=few), **ASKED)
    pd.testing.assert_frame_equal(some.drop(columns="sentence"), all_of_them.drop(columns="sentence"))


def test_it_is_said_that_the_whole_step_has_fewer_sizes_here():
    ends = (SIZES[0], SIZES[1], SIZES[-2], SIZES[-1])
    few = without(ladders(explained=ends), **ASKED)
    assert all("the whole step over the sizes that were taken apart" in text.lower() for text in few["sentence"])
    failed = ladders()
    failed.loc[(failed["target"] == "gpu") & (failed["batch_size"] == SIZES[-1]), "status"] = "oom"
    for complete in (ladders(), failed):
        assert not any("taken apart" in text for text in without(complete, **ASKED)["sentence"])


@pytest.mark.parametrize("name", ["rung", "kernel_time_s", "target", "batch_size", "status"])
def test_a_column_that_is_missing_is_named(name):
    with pytest.raises(ValueError, match=f"the frame has no column '{name}'; it has: "):
        without(ladders().drop(columns=name), **ASKED)


def test_without_any_column_nothing_was_measured_yet():
    assert without(pd.DataFrame(), **ASKED).empty


def test_where_no_ladder_was_measured_at_two_sizes_there_is_no_row():
    for explained in ([], [64]):
        found = without(ladders(explained=explained), **ASKED)
        assert found.empty
        assert found.columns.tolist() == ["without", *COLUMNS, "factor", "factor_low", "factor_high", "sentence"]
    assert without(ladders().iloc[:0], **ASKED).empty
    assert len(without(ladders(explained=[64, 1024]), **ASKED)) == len(CAUSES)


def test_a_rung_that_failed_everywhere_tells_nothing():
    frame = ladders()
    failed = frame["rung"].eq("resident")
    frame.loc[failed, "status"] = "error"
    frame["step_times_s"] = frame["step_times_s"].where(~failed, None)
    assert without(frame, **ASKED)["without"].tolist() == ["loader", "sync", "launch"]


def test_kernels_that_the_profiler_could_not_time_tell_nothing():
    frame = ladders()
    frame["kernel_time_s"] = np.nan
    assert without(frame, **ASKED)["without"].tolist() == CAUSES[:3]


def test_a_target_that_has_no_such_rung_keeps_its_step():
    def only_transfer(size):
        return {"transfer": 3e-4, "kernels": 9e-4 + 1e-6 * size}

    def no_ladder(size):
        return {"rest": 1e-5 * size}

    found = without(ladders(gpu=only_transfer, cpu=no_ladder), **ASKED)
    # The GPU's data are taken off the whole step at once: what is gone is its loader, as `explain` has it.
    assert found["without"].tolist() == ["loader"]
    assert row_of(found, "loader")["estimate"] == pytest.approx(100, rel=0.02)
    assert row_of(found, "loader")["factor"] == pytest.approx(9 / 12, rel=0.03)


def test_two_cpus_have_nothing_to_copy_or_launch():
    found = without(ladders(gpu=lambda size: {"loader": 1e-4, "sync": 1e-5, "rest": 1e-3 + 1e-6 * size}), **ASKED)
    assert found["without"].tolist() == ["loader", "sync"]


def test_one_pass_is_told_as_provisional():
    found = without(ladders(passes=1), **ASKED)
    assert found["sentence"].str.contains("Provisional: there were too few passes").all()
    assert row_of(found, "loader")["factor_high"] / row_of(found, "loader")["factor_low"] > 1.1
    assert not without(ladders(), **ASKED)["sentence"].str.contains("Provisional").any()


def test_disturbed_rows_are_told():
    frame = ladders().assign(interference="clean")
    frame.loc[(frame["rung"] == "preload") & (frame["batch_size"] == 64), "interference"] = "contended"
    found = without(frame, **ASKED)
    told = found["sentence"].str.contains("Something else used the machine meanwhile; measure again.")
    assert dict(zip(found["without"], told, strict=True)) == {
        "loader": True,  # rung preload on both targets
        "transfer": True,  # and on the CPU here
        "sync": False,
        "launch": False,
    }


def test_a_margin_is_asked_of_what_is_left_too():
    fine = [round(4 * 2 ** (n / 4)) for n in range(41)]
    row = row_of(without(ladders(sizes=fine), margin=0.5, **ASKED), "transfer")
    # Half of cpu's 3e-5 + 8e-6 n is gpu's 9.2e-4 + 1e-6 n.
    assert row["estimate"] == pytest.approx((9.2e-4 - 1.5e-5) / 3e-6, rel=0.01)
    assert "at least 50 % faster" in row["sentence"]


def test_neither_order_of_rows_nor_unit_of_time_matters():
    frame = ladders(between=0.02, within=0.02)
    found = without(frame, **ASKED)
    pd.testing.assert_frame_equal(found, without(frame.sample(frac=1, random_state=3), **ASKED))


def test_an_axis_of_exponents_has_a_difference():
    frame = ladders()
    frame["batch_size"] = np.log2(frame["batch_size"])
    found = without(frame, axis=("batch_size", 2), baseline="cpu", challenger="gpu")
    factor = math.log2(CROSSINGS["transfer"] / CROSSINGS["e2e"])
    assert row_of(found, "transfer")["factor"] == pytest.approx(factor, abs=0.1)


def test_sentences_say_what_is_gone_and_how_far_the_crossover_moves():
    found = without(ladders(), **ASKED)
    transfer = row_of(found, "transfer")["sentence"]
    assert transfer.startswith(
        "Without loading and copying to the device (the data are there): From batch_size 127 on (95 % interval "
    )
    assert ", gpu is faster than cpu. With what is left, the crossover in batch_size is 2.3x lower than" in transfer
    assert row_of(found, "loader")["sentence"].startswith("Without loading (batches are ready on the host): From ")
    assert (
        " With what is left, no difference is seen to the crossover in batch_size with the whole step (95 % "
        in (row_of(found, "loader")["sentence"])
    )
    assert row_of(found, "launch")["sentence"].startswith(
        "Without loading, copying to the device, reading the loss and launching kernels (what the device computes is "
        "all that counts for it): gpu is faster than cpu everywhere from batch_size 4 to 4096"
    )


def test_where_nothing_changes_that_is_said():
    found = without(ladders(cpu=lambda size: {"loader": 1e-7 * size, "sync": 1e-9, "rest": 1e-7 * size}), **ASKED)
    assert row_of(found, "loader")["sentence"].endswith(
        "cpu is faster than gpu everywhere from batch_size 4 to 4096. So it is with the whole step."
    )


def test_groups_with_a_null_key_are_groups_like_any_other():
    frame = pd.concat([ladders().assign(lever="a"), ladders().assign(lever=None)], ignore_index=True)
    found = without(frame, group_by=["lever"], **ASKED)
    assert len(found) == 2 * len(CAUSES)
    assert found["lever"].isna().sum() == len(CAUSES)
    assert found.groupby("lever", dropna=False)["factor"].nunique().tolist() == [3, 3]


def test_a_study_whose_lever_means_nothing_on_a_cpu(make_study):
    def time_of(trial):
        size, lever, rung = trial.parameters["batch_size"], trial.parameters["transfer"], trial.rung
        loader = 3e-6 * size if rung == "e2e" else 0.0
        if trial.target.device == "cpu":
            return loader + 1e-5 * size
        copying = {"pageable": 1e-3, "pinned": 3e-4, "resident": 0.0}[lever] if rung in ("e2e", "preload") else 0.0
        return loader + copying + (1e-6 * size if rung == "kernel" else 9e-4 + 1e-6 * size)

    axes = {"batch_size": [4, 16, 64, 256, 1024, 4096], "transfer": ["pageable", "pinned", "resident"]}
    plain = make_study("plain", axes=axes, time_of=time_of)
    study = load(make_study("explained", axes=axes, time_of=time_of, explained=sizes_to_explain(plain)))
    rows = spread(pd.concat([study.compared, study.rungs], ignore_index=True), study.group_by)
    found = without(rows, group_by=study.group_by, **ASKED)
    told = found.groupby("transfer", sort=False)["without"].agg(list)
    # Data that are on the device anyway cost nothing to copy.
    causes = ["loader", "transfer", "launch"]
    assert told.to_dict() == {"pageable": causes, "pinned": causes, "resident": ["loader", "launch"]}
    crossing = {"loader": {"pageable": 1.9e-3 / 9e-6, "pinned": 1.2e-3 / 9e-6, "resident": 100}}
    crossing["transfer"] = {"pageable": 100, "pinned": 100}
    for row in found[found["without"] != "launch"].to_dict("records"):
        assert row["low"] < crossing[row["without"]][row["transfer"]] < row["high"]
    shifted = found[(found["without"] == "transfer") & (found["transfer"] == "pageable")].iloc[0]
    assert shifted["factor_low"] < 100 / (1.9e-3 / 9e-6) < shifted["factor_high"] < 1
    assert "Without loading and copying to the device (the data are there): From batch_size " in shifted["sentence"]
