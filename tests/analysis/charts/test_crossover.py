"""What the chart of a crossover shows, by number; and the drawing of it, for artists, labels and units."""

import math
import xml.etree.ElementTree as ET
from itertools import pairwise

import pandas as pd
import pytest

from analysis.charts.crossover import Failure, Line, Picture, Zone, draw, gather
from analysis.charts.paper import render
from analysis.charts.sizes import MOST_TICKS, choose_ticks
from analysis.conclusion import conclude
from analysis.load import load

OCTAVES = tuple(float(2**k) for k in range(2, 13))


def picture_of(folder):
    group = conclude(load(folder)).groups[0]
    return gather(group.frame, group.sizes, group.crossover, group.topic, group.sentence)


def picture(**changes):
    """Return a small picture, changed as a test wants it."""
    cpu = Line(target="cpu", typical=(1.0, 2.0), low=(0.9, 1.9), high=(1.1, 2.1), dots=((4, 0.9), (4, 1.1), (8, 2.0)))
    gpu = Line(target="gpu", typical=(1.5, 1.6), low=(1.5, 1.6), high=(1.5, 1.6), dots=((4, 1.5), (8, 1.6)))
    return Picture(
        **(
            {
                "title": "A title.",
                "x_label": "batch_size",
                "unit": "ms",
                "sizes": (4.0, 8.0),
                "ticks": (4.0, 8.0),
                "lines": (cpu, gpu),
                "zones": (),
                "failures": (),
            }
            | changes
        )
    )


def labels(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_lines_hold_the_typical_times_and_every_trial_in_one_unit(make_study):
    shown = picture_of(make_study(noise=0.0))
    assert shown.unit == "ms"
    assert shown.sizes == (4, 16, 64, 256, 1024, 4096)
    cpu, gpu = shown.lines
    assert cpu.typical == pytest.approx([0.04, 0.16, 0.64, 2.56, 10.24, 40.96])
    assert gpu.typical == pytest.approx([0.904, 0.916, 0.964, 1.156, 1.924, 4.996])
    assert len(cpu.dots) == len(gpu.dots) == 30
    assert [time for size, time in cpu.dots if size == 64] == pytest.approx([0.64] * 5)


def test_the_band_spans_the_trials(make_study):
    cpu, _ = picture_of(make_study(noise=0.1)).lines
    for place, size in enumerate((4, 16, 64, 256, 1024, 4096)):
        dots = [time for at, time in cpu.dots if at == size]
        assert (cpu.low[place], cpu.high[place]) == pytest.approx((min(dots), max(dots)))


@pytest.mark.parametrize(("scale", "unit"), [(1e-3, "µs"), (1.0, "ms"), (1e4, "s")])
def test_the_unit_follows_the_range(make_study, scale, unit):
    times = {"cpu": lambda size: scale * 1e-5 * size, "gpu": lambda size: scale * 1e-3}
    assert picture_of(make_study(times=times)).unit == unit


def test_the_zone_is_the_interval_of_the_crossover(make_study):
    folder = make_study(sizes=[int(size) for size in OCTAVES])
    row = conclude(load(folder)).crossovers.iloc[0]
    (zone,) = picture_of(folder).zones
    assert (zone.low, zone.high, zone.estimate) == (row["low"], row["high"], row["estimate"])
    assert zone.words == (
        f"estimate {round(row['estimate'])}, 95 % interval {math.floor(row['low'])} to {math.ceil(row['high'])}"
    )


def test_several_changes_are_several_zones(make_study):
    def gpu(size):
        return 1e-5 * size * (1.6 if size < 30 or size > 600 else 0.5)

    times = {"cpu": lambda size: 1e-5 * size, "gpu": gpu}
    shown = picture_of(make_study(times=times, sizes=[int(size) for size in OCTAVES]))
    assert len(shown.zones) == 2
    assert all(zone.low < zone.estimate < zone.high for zone in shown.zones)


def test_an_open_end_is_shaded_to_the_edge_and_has_no_estimate(make_study):
    times = {"cpu": lambda size: 1e-5 * size, "gpu": lambda size: 1e-5 * size * (2 if size < 500 else 1.01)}
    (zone,) = picture_of(make_study(times=times, noise=0.05)).zones
    assert zone.high is None
    assert zone.estimate is None
    assert zone.words.startswith("not decided: a change may lie above ")


def test_sizes_without_a_time_are_gaps_and_said_in_words(make_study):
    def fail(target, size, index):
        if target == "cpu" and size >= 1024:
            return ("timeout", "too slow")
        return ("oom", "full") if (target, size, index) == ("gpu", 4, 0) else None

    shown = picture_of(make_study(fail=fail))
    assert [math.isnan(time) for time in shown.lines[0].typical] == [False] * 4 + [True] * 2
    assert [(f.row, f.status, f.sizes, f.words) for f in shown.failures] == [
        (0, "timeout", (1024, 4096), "cpu: timeout at 1024 to 4096 (10 of 30 trials)"),
        (1, "oom", (4,), "gpu: oom at 4 (1 of 30 trials)"),
    ]


def test_a_missing_target_has_a_line_of_gaps_and_a_word(make_study):
    shown = picture_of(make_study(fail=lambda target, *_: ("unavailable", "none") if target == "gpu" else None))
    assert all(math.isnan(time) for time in shown.lines[1].typical)
    assert [failure.words for failure in shown.failures] == ["gpu: unavailable at every size"]
    assert labels(draw(shown)) == [
        "cpu: typical trial; dots: every trial; band: those compared",
        "gpu: unavailable at every size",
    ]


def test_ticks_are_real_sizes():
    assert choose_ticks(OCTAVES) == OCTAVES
    assert choose_ticks((64.0,)) == (64.0,)
    assert choose_ticks((0.0, 4.0, 16.0)) == (0.0, 4.0, 16.0)


@pytest.mark.parametrize(
    "sizes",
    [
        tuple(float(size) for size in range(1, 41)),
        tuple(float(round(4 * 1.28**k)) for k in range(40)),
        tuple(float(10**6 + size) for size in range(40)),
    ],
)
def test_forty_sizes_get_labels_that_do_not_touch(sizes):
    ticks = choose_ticks(sizes)
    assert 2 <= len(ticks) <= MOST_TICKS
    assert {sizes[0], sizes[-1]} <= set(ticks) <= set(sizes)
    figure = draw(
        picture(
            sizes=sizes,
            ticks=ticks,
            lines=tuple(
                Line(target=name, typical=sizes, low=sizes, high=sizes, dots=tuple((s, s) for s in sizes))
                for name in ("cpu", "gpu")
            ),
        )
    )
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    assert len(boxes) == len(ticks)
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_the_drawing_has_both_targets_apart_by_colour_marker_and_dash():
    axes = draw(picture()).axes[0]
    cpu, gpu = (line for line in axes.lines if len(line.get_xdata()) == 2)
    assert cpu.get_color() != gpu.get_color()
    assert cpu.get_marker() != gpu.get_marker()
    assert cpu.get_linestyle() != gpu.get_linestyle()
    assert list(cpu.get_ydata()) == [1.0, 2.0]


def test_the_drawing_names_its_axes_with_units_and_the_real_sizes():
    figure = draw(picture())
    figure.draw_without_rendering()
    axes = figure.axes[0]
    assert axes.get_ylabel() == "time per training step (ms), lower is better"
    assert axes.get_xlabel() == "batch_size"
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["4", "8"]
    assert axes.get_title(loc="left") == "A title."


def test_the_drawing_shades_the_interval_and_marks_the_estimate():
    zone = Zone(low=5.0, high=7.0, estimate=6.0, words="estimate 6, 95 % interval 5 to 7")
    figure = draw(picture(zones=(zone,)))
    (shade,) = figure.axes[0].patches
    assert (shade.get_x(), shade.get_x() + shade.get_width()) == (5.0, 7.0)
    assert [6.0, 6.0] in [list(line.get_xdata()) for line in figure.axes[0].lines]
    assert zone.words in labels(figure)


def test_the_drawing_marks_failures_at_the_upper_edge():
    failure = Failure(row=0, status="timeout", sizes=(8.0,), words="cpu: timeout at 8")
    figure = draw(picture(failures=(failure,)))
    (mark,) = (line for line in figure.axes[0].lines if line.get_marker() == "^")
    assert list(mark.get_xdata()) == [8.0]
    assert 0.9 < mark.get_ydata()[0] < 1
    assert failure.words in labels(figure)
    top = figure.axes[0].get_ylim()
    assert math.log(2.1 / top[0]) / math.log(top[1] / top[0]) < 0.9  # data stay clear of the marks


def test_pairs_are_bars_of_their_number_where_a_search_chose_the_sizes():
    figure = draw(picture(pairs=(1, 4)))
    (bars,) = figure.axes[0].collections[-1:]
    heights = [segment[1][1] - segment[0][1] for segment in bars.get_segments()]
    assert heights[1] == 4 * heights[0] < 0.4
    assert "pairs at a size: the longest bar is 4" in labels(figure)
    assert not [text for text in labels(draw(picture())) if "pairs" in text]


def test_the_legend_lies_outside_the_data():
    figure = draw(picture())
    figure.draw_without_rendering()
    assert figure.legends[0].get_window_extent().y1 <= figure.axes[0].get_window_extent().y0
    assert figure.axes[0].get_legend() is None


@pytest.mark.parametrize(
    "changes",
    [
        {"sizes": (4.0,), "ticks": (4.0,), "lines": (Line(target="a", typical=(1.0,), low=(1.0,), high=(1.0,),
                                                          dots=((4, 1.0),)),) * 2},
        {"sizes": (0.0, 8.0), "ticks": (0.0, 8.0)},
        {"title": "word " * 200},
        {"title": "unbroken" * 60, "x_label": "x" * 60},
        {"title": "$x_1$ & <b>bold</b> --> %"},
        {"lines": tuple(Line(target=n, typical=(math.nan,) * 2, low=(math.nan,) * 2, high=(math.nan,) * 2, dots=())
                        for n in ("cpu", "gpu")),
         "failures": (Failure(row=0, status="not run", sizes=(), words="cpu: no trial has been run"),)},
    ],
    ids=["one size", "size 0", "long title", "unbroken title", "odd characters", "nothing finished"],
)  # fmt: skip
def test_odd_pictures_are_drawn_as_valid_svg_and_inside_the_paper(changes):
    shown = picture(**changes)
    assert ET.fromstring(render(lambda: draw(shown), "svg")).tag.endswith("svg")  # noqa: S314  (made here)
    assert render(lambda: draw(shown), "png").startswith(b"\x89PNG")
    figure = draw(shown)
    figure.draw_without_rendering()
    title = figure.axes[0]._left_title.get_window_extent()
    assert title.x1 <= figure.bbox.x1 + 1
    assert title.y1 <= figure.bbox.y1 + 1


def test_letters_that_the_font_lacks_do_not_stop_a_report():
    assert render(lambda: draw(picture(title="漢字")), "svg")


def test_nothing_finished_is_said_on_the_chart(make_study):
    figure = draw(picture_of(make_study(fail=lambda *_: ("error", "boom"))))
    assert "no trial finished" in [text.get_text() for text in figure.axes[0].texts]


def test_the_same_picture_gives_the_same_bytes():
    assert render(lambda: draw(picture()), "svg") == render(lambda: draw(picture()), "svg")
    assert render(lambda: draw(picture()), "png") == render(lambda: draw(picture()), "png")


def test_a_time_of_zero_is_left_out_of_a_log_chart(make_study):
    group = conclude(load(make_study(row=lambda t, s, i: {"step_times_s": [0.0] * 5} if s == 4 else {}))).groups[0]
    assert isinstance(group.sizes, pd.DataFrame)
    shown = gather(group.frame, group.sizes, group.crossover, group.topic, group.sentence)
    assert all(size != 4 for line in shown.lines for size, _ in line.dots)
    assert render(lambda: draw(shown), "svg")
