"""What the chart of where the time goes shows, by number; and the drawing of it."""

import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from analysis.charts.paper import render
from analysis.charts.parts import Bar, Picture, Segment, draw, gather
from analysis.conclusion import conclude
from analysis.load import load


def parts_of(trial):
    """A step of 1 ms: 40 % the loader; on the accelerator 10 % the copy, and the kernels take 20 %."""
    return {"e2e": 1e-3, "preload": 6e-4, "resident": 5e-4, "kernel": 2e-4, "twin": 5e-4}[trial.rung]


def parts_picture_of(folder):
    group = conclude(load(folder)).groups[0]
    return gather(group.parts, group.topic, group.label)


EXPLAINED = [{"batch_size": 4}, {"batch_size": 4096}]


def test_bars_hold_the_parts_of_each_size_and_target(make_study):
    shown = parts_picture_of(make_study(workload="lstm_loop", time_of=parts_of, explained=EXPLAINED, noise=0.0))
    assert shown.title == "Where a step of this lstm_loop model spends its time"
    assert [(bar.label, bar.step) for bar in shown.bars] == [
        (f"batch_size {size}, {target}", "1.00 ms") for size in (4, 4096) for target in ("cpu", "gpu")
    ]
    cpu, gpu, *_ = shown.bars
    assert [(s.part, round(s.share, 6)) for s in cpu.segments] == [("loader", 0.4), ("rest", 0.6)]
    assert [(s.part, round(s.share, 6)) for s in gpu.segments] == [
        ("loader", 0.4),
        ("transfer", 0.1),
        ("launch", 0.3),
        ("kernels", 0.2),
    ]
    assert all(segment.clear for bar in shown.bars for segment in bar.segments)


def test_bars_of_one_size_stand_together(make_study):
    places = [bar.place for bar in parts_picture_of(make_study(time_of=parts_of, explained=EXPLAINED)).bars]
    gaps = [right - left for left, right in pairwise(places)]
    assert gaps[0] == gaps[2] == 1
    assert gaps[1] > 1


def test_a_part_below_nothing_has_no_width_and_is_not_clear(make_study):
    shown = parts_picture_of(make_study(time_of=lambda _: 1e-3, explained=EXPLAINED, noise=0.001))
    loader = [segment for bar in shown.bars for segment in bar.segments if segment.part == "loader"]
    assert all(segment.share >= 0 and not segment.clear for segment in loader)


def test_the_chart_of_parts_tells_shares_times_and_what_is_not_significant():
    bars = (
        Bar(
            place=0.0,
            label="batch_size 4, cpu",
            step="1.00 ms",
            segments=(
                Segment(part="loader", share=0.4, clear=True),
                Segment(part="sync", share=0.02, clear=False),
                Segment(part="rest", share=0.58, clear=True),
            ),
        ),
    )
    figure = draw(Picture(title="A title.", bars=bars))
    (axes,) = figure.axes
    assert [patch.get_width() for patch in axes.patches] == pytest.approx([0.4, 0.02, 0.58])
    assert [patch.get_x() for patch in axes.patches] == pytest.approx([0.0, 0.4, 0.42])
    assert {text.get_text() for text in axes.texts} == {"40 %", "58 %", "1.00 ms"}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["batch_size 4, cpu"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "loader",
        "reading the loss",
        "all the rest",
        "not significant, or disturbed",
    ]
    assert "share of a training step" in axes.get_xlabel()


def test_the_chart_of_parts_is_valid_alike_each_time_and_inside_the_paper(make_study):
    axes = {"batch_size": [4, 4096], "width": [8, 16]}
    explained = [{"batch_size": size, "width": width} for size in (4, 4096) for width in (8, 16)]
    shown = parts_picture_of(make_study(axes=axes, time_of=parts_of, explained=explained))
    assert shown.title.endswith("(width 8)")
    assert ET.fromstring(render(lambda: draw(shown), "svg")).tag.endswith("svg")  # noqa: S314  (made here)
    assert render(lambda: draw(shown), "png") == render(lambda: draw(shown), "png")
    figure = draw(shown)
    figure.draw_without_rendering()
    for text in figure.axes[0].texts:
        assert text.get_window_extent().x1 <= figure.bbox.x1 + 1
