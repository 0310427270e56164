"""Two axes: the map, its line, and what is not known of it."""

import numpy as np
import pandas as pd
import pytest

from analysis import crossovers
from analysis.frontier import frontier
from analysis.summary import summarise
from tests.analysis.synthetic import made_frame, with_status

SIZES = [16, 32, 64, 128, 256, 512]
WIDTHS = [8, 16, 32, 64, 128]
ASKED = {"axes": ("size", "width"), "baseline": "cpu", "challenger": "gpu", "planned": None}


def slope(product=2896.0):
    """The challenger wins where size x width is above a product."""
    return lambda size, width: -0.7 * np.log(size * width / product)


def grid(ratio, *, sizes=SIZES, widths=WIDTHS, passes=3, noise=0.004):
    parts = [
        made_frame(lambda size, width=width: ratio(size, width), sizes=sizes, passes=passes, noise=noise, seed=width)
        for width in widths
    ]
    return pd.concat([part.assign(width=width) for part, width in zip(parts, widths, strict=True)], ignore_index=True)


def only(frame, **options):
    (found,) = frontier(frame, **{**ASKED, **options})
    return found


def cell(found, size, width):
    (row,) = found.cells[(found.cells["size"] == size) & (found.cells["width"] == width)].to_dict("records")
    return row


def at(frame, size, width):
    return (frame["size"] == size) & (frame["width"] == width)


def failing(frame, status, *, target, cells):
    """The frame with a target failed in all trials of some cells."""
    for size, width in cells:
        own = at(frame, size, width)
        frame = pd.concat([frame[~own], with_status(frame[own], status, target=target, sizes=[size])])
    return frame.reset_index(drop=True)


# --------------------------------------------------------------------------------------------------------------- cells


def test_each_cell_says_who_is_faster_and_by_how_much():
    found = only(grid(slope()))
    assert list(found.cells.columns) == [
        *(
            "size",
            "width",
            "log_ratio",
            "low",
            "high",
            "pairs",
            "baseline_s",
            "challenger_s",
            "state",
            "cell",
            "cell_why",
        ),
    ]
    assert found.cells[["width", "size"]].values.tolist() == [[width, size] for width in WIDTHS for size in SIZES]
    assert found.cells["size"].dtype == found.cells["width"].dtype == np.int64
    assert set(found.cells["cell"]) == {"measured"}
    assert set(found.cells["cell_why"]) == {""}
    np.testing.assert_allclose(found.cells["log_ratio"], slope()(found.cells["size"], found.cells["width"]), atol=1e-9)
    assert (found.cells["low"] < found.cells["log_ratio"]).all()
    assert (found.cells["log_ratio"] < found.cells["high"]).all()
    assert cell(found, 16, 8)["state"] == "baseline"
    assert cell(found, 512, 128)["state"] == "challenger"
    assert found.key == {}


def test_measured_inferred_failed_and_unmeasured_are_told_apart():
    frame = grid(slope())
    frame = failing(frame, "timeout", target="cpu", cells=[(512, 128)])
    frame = failing(frame, "oom", target="gpu", cells=[(512, 64), (256, 128)])
    frame = failing(frame, "timeout", target="gpu", cells=[(256, 128)])
    frame = failing(frame, "crashed", target="cpu", cells=[(256, 128)])
    frame = frame[~at(frame, 16, 8)]
    frame = frame[~(at(frame, 32, 8) & (frame["target"] == "gpu"))]
    frame = frame[~(at(frame, 64, 8) & (frame["target"] == "gpu") & (frame["pass_index"] == 0))]
    frame = frame[~(at(frame, 64, 8) & (frame["target"] == "cpu") & (frame["pass_index"] > 0))]
    found = only(frame)

    told = {(row["size"], row["width"]): row for row in found.cells.to_dict("records") if row["cell"] != "measured"}
    assert {place: (row["cell"], row["state"], row["cell_why"]) for place, row in told.items()} == {
        (512, 128): ("inferred", "challenger", "cpu timed out"),
        (512, 64): ("failed", "unknown", "gpu: oom"),
        (256, 128): ("failed", "unknown", "cpu: crashed; gpu: timeout"),
        (16, 8): ("unmeasured", "unknown", "not run"),
        (32, 8): ("unmeasured", "unknown", "gpu: not run"),
        (64, 8): ("failed", "unknown", "no pass in which both finished"),
    }
    for row in told.values():
        assert np.isnan([row["log_ratio"], row["low"], row["high"]]).all()
        assert row["pairs"] == 0
    assert told[512, 64]["baseline_s"] > 0


def test_a_cell_is_undecided_where_its_band_contains_none():
    found = only(grid(slope(product=128 * 16)))
    assert cell(found, 128, 16)["state"] == "undecided"
    assert cell(found, 128, 16)["cell"] == "measured"


def test_cells_that_were_planned_and_not_run():
    frame = grid(slope())
    planned = pd.DataFrame(
        {"size": [16, 1024, 1024, 16], "width": [8, 8, 8, 256], "target": ["cpu", "cpu", "gpu", "cpu"]}
    )
    found = only(frame, planned=planned)
    assert len(found.cells) == len(SIZES) * len(WIDTHS) + 2
    assert cell(found, 1024, 8)["cell"] == cell(found, 16, 256)["cell"] == "unmeasured"
    assert cell(found, 16, 8)["cell"] == "measured"


def test_a_plan_with_holes_adds_no_cell_of_its_own():
    frame = grid(slope())
    holed = frame[~at(frame, 64, 32)]
    assert len(only(holed, planned=holed).cells) == len(SIZES) * len(WIDTHS) - 1
    assert cell(only(holed), 64, 32)["cell"] == "unmeasured"


# ---------------------------------------------------------------------------------------------------------- crossovers


def test_along_and_across_are_the_crossovers_of_rows_and_columns():
    frame = grid(slope())
    found = only(frame)
    asked = {"baseline": "cpu", "challenger": "gpu"}
    along = crossovers(frame, axis="size", group_by=["width"], **asked)
    across = crossovers(frame, axis="width", group_by=["size"], **asked)
    pd.testing.assert_frame_equal(found.along, along)
    pd.testing.assert_frame_equal(found.across, across)
    row = found.along.set_index("width").loc[32]
    assert row["estimate"] == pytest.approx(2896 / 32)
    assert row["low"] < 2896 / 32 < row["high"]
    assert found.across.set_index("size").loc[64]["estimate"] == pytest.approx(2896 / 64)
    assert found.along.set_index("width").loc[8]["verdict"] == "crosses"


def test_cells_agree_with_the_summary_of_their_row():
    frame = grid(slope(), noise=0.02)
    found = only(frame, margin=0.1, drift=0.02)
    row = summarise(frame[frame["width"] == 32], axis="size", baseline="cpu", challenger="gpu", margin=0.1, drift=0.02)
    own = found.cells[found.cells["width"] == 32]
    assert own["log_ratio"].tolist() == row["log_ratio"].tolist()
    assert own["low"].tolist() == row["log_ratio_low"].tolist()
    assert own["state"].tolist() == row["state"].tolist()


# ------------------------------------------------------------------------------------------------------------- contour


def test_the_line_runs_where_both_are_equal():
    found = only(grid(slope()))
    (line,) = found.contour
    np.testing.assert_allclose(line.prod(axis=1), 2896, rtol=1e-9)
    assert line[:, 0].min() == pytest.approx(2896 / 128)
    assert line[:, 0].max() == pytest.approx(2896 / 8)


def test_a_margin_moves_states_crossovers_and_line_alike():
    frame = grid(slope())
    found = only(frame, margin=0.25)
    product = 2896 * 0.75 ** (-1 / 0.7)
    np.testing.assert_allclose(np.vstack(found.contour).prod(axis=1), product, rtol=1e-9)
    assert found.along.set_index("width").loc[32]["estimate"] == pytest.approx(product / 32)
    assert cell(only(frame), 64, 64)["state"] == "challenger"
    assert cell(found, 64, 64)["state"] == "baseline"


def test_an_island_has_a_line_all_round():
    def ratio(size, width):
        return 0.5 if (size, width) in [(64, 32), (128, 32)] else -0.5

    found = only(grid(ratio))
    (line,) = found.contour
    assert line[0].tolist() == line[-1].tolist()
    assert 32 < line[:, 0].min() < 64
    assert 128 < line[:, 0].max() < 256
    assert 16 < line[:, 1].min() < 32 < line[:, 1].max() < 64
    assert found.along.set_index("width")["verdict"].to_dict() == {
        width: "several" if width == 32 else "always_challenger" for width in WIDTHS
    }
    assert set(found.cells.loc[found.cells["state"] == "baseline", "size"]) == {64, 128}


def test_the_line_stops_at_cells_that_were_not_measured():
    frame = grid(slope())
    whole = np.vstack(only(frame).contour)
    missing = [(size, 32) for size in SIZES]
    holed = frame[~frame["width"].eq(32)]
    planned = frame[["size", "width"]].drop_duplicates()
    timed_out = failing(frame, "timeout", target="cpu", cells=missing)
    for found in (only(holed, planned=planned), only(timed_out)):
        pieces = found.contour
        assert len(pieces) == 2
        line = np.vstack(pieces)
        assert not ((line[:, 1] > 16 + 1e-9) & (line[:, 1] < 64 - 1e-9)).any()
        assert whole[:, 1].min() == pytest.approx(line[:, 1].min())
        assert whole[:, 1].max() == pytest.approx(line[:, 1].max())


def test_one_winner_has_no_line():
    assert only(grid(lambda size, width: 0.4)).contour == ()


@pytest.mark.parametrize(("sizes", "widths"), [(SIZES, [32]), ([64], WIDTHS), ([64], [32])])
def test_one_row_or_column_has_crossovers_and_no_line(sizes, widths):
    found = only(grid(slope(), sizes=sizes, widths=widths))
    assert found.contour == ()
    assert len(found.cells) == len(sizes) * len(widths)
    assert len(found.along) == len(widths)
    assert len(found.across) == len(sizes)
    if len(sizes) > 1:
        assert found.along.iloc[0]["estimate"] == pytest.approx(2896 / 32)


def test_nothing_measured_yet():
    frame = grid(slope())
    lost = frame.assign(status="node_lost", step_times_s=None)
    found = only(lost)
    assert found.contour == ()
    assert set(found.cells["cell"]) == {"failed"}
    assert set(found.cells["cell_why"]) == {"cpu: node_lost; gpu: node_lost"}
    assert set(found.along["verdict"]) == {"undetermined"}


# -------------------------------------------------------------------------------------------------------------- groups


def test_each_group_has_a_frontier_of_its_own():
    parts = [
        grid(slope(product)).assign(dtype=dtype, depth=depth)
        for product, dtype, depth in ((2896.0, "bfloat16", 2), (724.0, "float32", None))
    ]
    planned = pd.DataFrame({"size": [1024], "width": [8], "dtype": ["float32"]})
    found = frontier(pd.concat(parts, ignore_index=True), **{**ASKED, "planned": planned}, group_by=["dtype", "depth"])
    assert [own.key["dtype"] for own in found] == ["bfloat16", "float32"]
    assert found[0].key["depth"] == 2
    assert pd.isna(found[1].key["depth"])
    for own, product in zip(found, (2896, 724), strict=True):
        assert list(own.cells.columns[:4]) == ["dtype", "depth", "size", "width"]
        assert set(own.cells["dtype"]) == set(own.along["dtype"]) == set(own.across["dtype"]) == {own.key["dtype"]}
        np.testing.assert_allclose(np.vstack(own.contour).prod(axis=1), product, rtol=1e-9)
    assert not (found[0].cells["size"] == 1024).any()
    assert cell(found[1], 1024, 8)["cell"] == "unmeasured"


def test_nothing_depends_on_the_order_of_the_rows():
    frame = grid(slope(), noise=0.03)
    one, other = only(frame), only(frame.sample(frac=1, random_state=1))
    pd.testing.assert_frame_equal(one.cells, other.cells)
    pd.testing.assert_frame_equal(one.along, other.along)
    np.testing.assert_array_equal(np.vstack(one.contour), np.vstack(other.contour))


# -------------------------------------------------------------------------------------------------- what can be an axis


def test_fractions_and_numbers_in_text_are_numbers():
    frame = grid(slope()).assign(width=lambda made: made["width"] / 10)
    found = only(frame)
    assert found.cells["width"].dtype == np.float64
    assert cell(found, 16, 0.8)["cell"] == "measured"
    in_text = grid(slope()).assign(width=lambda made: made["width"].astype(str))
    assert only(in_text).cells["width"].unique().tolist() == WIDTHS


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("axes", [("size", "kind"), ("kind", "size")])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["bfloat16", "float32"], "axis 'kind' holds values that are not numbers .*; a frontier needs numbers above 0"),
        ([True, False], "axis 'kind' has type bool: an axis needs numbers; a frontier needs numbers above 0 on both"),
        ([0, 8], "axis 'kind' holds 0: sizes must be above 0; a frontier needs numbers above 0 on both axes"),
        ([np.inf, 8], "axis 'kind' holds an infinite value: sizes must be finite; a frontier needs"),
    ],
)
def test_what_is_no_number_above_zero_is_no_axis(values, axes, message, planned):
    frame = grid(slope(), widths=[8, 16])
    refused = frame.assign(kind=frame["width"].map(dict(zip([8, 16], values, strict=True))))
    rows, cells = (frame.assign(kind=frame["width"]), refused) if planned else (refused, None)
    with pytest.raises(ValueError, match=message):
        only(rows, axes=axes, planned=cells)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"axes": ("size", "size")}, "axes 'size' and 'size': a frontier needs two different columns"),
        ({"axes": ("size", "depth")}, "the frame has no column 'depth'"),
        ({"group_by": ["width"]}, "group_by"),
        ({"planned": pd.DataFrame({"size": [8]})}, "planned cells have no column 'width'; they have: size"),
        ({"challenger": "tpu"}, "no target is named 'tpu'"),
        ({"margin": 1.0}, "margin is 1.0"),
    ],
)
def test_what_cannot_be_asked(options, message):
    with pytest.raises(ValueError, match=message):
        only(grid(slope()), **options)
