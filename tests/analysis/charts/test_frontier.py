"""What the map of two axes shows, and the drawing of it."""

import math
import xml.etree.ElementTree as ET

from analysis.charts.frontier import Cell, Picture, Span, draw, gather
from analysis.charts.paper import render
from analysis.conclusion import conclude
from analysis.contents import gather as contents_of
from analysis.load import load

SIZES, WIDTHS = [4, 16, 64, 256], [16, 64, 256]


def time_of(trial):
    size, width = trial.parameters["batch_size"], trial.parameters["width"]
    return 1e-7 * size * width if trial.target.name == "cpu" else 1e-4 + 1e-9 * size * width


def picture_of(folder):
    study = load(folder)
    (block,) = [each for each in contents_of(study, conclude(study)).blocks if "together" in each.heading]
    shown = block.drawing
    return gather(shown.frontier, axes=shown.axes, topic=shown.topic, title=shown.title)


def cell_of(picture, x, y):
    (found,) = [cell for cell in picture.cells if (cell.x, cell.y) == (x, y)]
    return found


def labels(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def made(*cells, **changes):
    asked = {"title": "A title.", "x_label": "batch_size", "y_label": "width", "targets": ("cpu", "gpu")}
    asked |= {"xs": (4.0, 8.0), "ys": (16.0, 32.0, 64.0), "cells": cells, "spans": (), "contour": ()}
    return Picture(**(asked | changes))


def test_cells_hold_who_is_faster_and_by_how_much(make_study):
    shown = picture_of(make_study(axes={"batch_size": SIZES, "width": WIDTHS}, time_of=time_of, noise=0.005))
    assert (shown.xs, shown.ys) == (tuple(SIZES), tuple(WIDTHS))
    corner, far = cell_of(shown, 4, 16), cell_of(shown, 256, 256)
    assert (corner.kind, corner.winner, far.winner) == ("measured", "baseline", "challenger")
    assert math.isclose(corner.lead, -math.log((1e-4 + 64e-9) / 64e-7), abs_tol=0.05)
    assert far.lead > 0
    assert {span.y for span in shown.spans} == {16, 64}  # at width 256 the change lies below the smallest size
    for span in shown.spans:
        assert span.low < 1e-4 / 9.9e-8 / span.y < span.high
    for x, y in (point for line in shown.contour for point in line):
        assert math.isclose(x * y, 1e-4 / 9.9e-8, rel_tol=0.15)


def test_cells_that_failed_were_inferred_or_not_measured_are_told_apart(make_study):
    def fail(target, size, index):
        if (target, size) == ("cpu", 256):
            return "timeout", "too slow"
        return ("oom", "too large") if (target, size) == ("gpu", 64) else None

    folder = make_study(
        axes={"batch_size": SIZES, "width": WIDTHS},
        time_of=time_of,
        fail=fail,
        skip=lambda target, size, index: size == 4,
    )
    shown = picture_of(folder)
    kinds = {x: {cell_of(shown, x, y).kind for y in WIDTHS} for x in SIZES}
    assert kinds == {4: {"unmeasured"}, 16: {"measured"}, 64: {"failed"}, 256: {"inferred"}}
    assert {cell_of(shown, 256, y).winner for y in WIDTHS} == {"challenger"}
    told = labels(draw(shown))
    assert any(text.startswith("who is faster is known") for text in told)
    assert "tried, and not comparable" in told
    assert "· planned, not measured" in told


def test_the_drawing_tells_factors_axes_and_only_what_is_there():
    cells = [
        Cell(x=x, y=y, kind="measured", lead=math.log(2), winner="challenger") for x in (4.0, 8.0) for y in (16.0,)
    ]
    cells += [Cell(x=4.0, y=32.0, kind="measured", lead=-0.01, winner="")]
    figure = draw(made(*cells, spans=(Span(y=16.0, low=4.5, high=7.0, estimate=5.5),)))
    (axes,) = figure.axes
    assert sorted(text.get_text() for text in axes.texts) == ["1.01x", "2.0x", "2.0x"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("batch_size", "width")
    assert labels(figure) == [
        "cpu faster, by the factor in the cell",
        "gpu faster, by the factor in the cell",
        "too close to call",
        "change in a row, 95 % interval",
    ]
    figure.draw_without_rendering()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["16", "32", "64"]


def test_cells_that_a_search_left_out_are_pale_and_without_a_factor():
    sides = ((16.0, -1, "baseline"), (32.0, 1, "challenger"))
    measured = [Cell(x=4.0, y=y, kind="measured", lead=0.01 * sign, winner=winner) for y, sign, winner in sides]
    left_out = [Cell(x=8.0, y=y, kind="surrounded", lead=math.nan, winner=winner) for y, _, winner in sides]
    figure = draw(made(*measured, *left_out))
    (axes,) = figure.axes
    colours = [tuple(patch.get_facecolor()) for patch in axes.patches]
    assert len(set(colours)) == 4
    paleness = [min(colour[:3]) for colour in colours]
    assert min(paleness[2:]) > max(paleness[:2])
    assert len(axes.texts) == 2
    assert "pale, without a factor: not measured, those around it agree" in labels(figure)


def test_many_cells_do_not_get_their_factors():
    xs, ys = tuple(float(2**k) for k in range(20)), (16.0, 32.0, 64.0)
    cells = [Cell(x=x, y=y, kind="measured", lead=0.5, winner="challenger") for x in xs for y in ys]
    (axes,) = draw(made(*cells, xs=xs, ys=ys)).axes
    assert list(axes.texts) == []
    assert len(axes.patches) == 60


def test_the_same_map_gives_the_same_valid_file():
    shown = made(Cell(x=4.0, y=16.0, kind="failed", lead=math.nan, winner=""))
    assert ET.fromstring(render(lambda: draw(shown), "svg")).tag.endswith("svg")  # noqa: S314  (made here)
    assert render(lambda: draw(shown), "png") == render(lambda: draw(shown), "png")
