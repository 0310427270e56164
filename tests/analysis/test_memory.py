"""What fits into memory, as people read it: sentences, table, chart, report and the last lines of the command."""

import json
import re

import pytest

from analysis import memory
from analysis.__main__ import main
from analysis.charts import memory as chart
from analysis.charts.paper import render
from analysis.conclusion import conclude
from analysis.contents import gather
from analysis.load import load
from analysis.report import write
from tests.analysis.conftest import GPU, HOST

GIB = 2**30


def too_large(**most):
    """The target runs out of memory above its size."""
    return lambda target, size, _: ("oom", "out of memory") if size > most.get(target, 1e9) else None


def on_gpu(target, size, _):
    """Memory of the GPU: 2 GiB, and 4 MiB a row."""
    if target == "gpu":
        return GPU | {"device_peak_memory_bytes": int(2 * GIB + size * 4 * 2**20)}
    return {"memory_at_start_bytes": GIB, "peak_memory_bytes": GIB + size * 2**20}


def told(study):
    read = load(study)
    return memory.told(memory.found_in(read), read)


SIZES = tuple(2**power for power in range(4, 15))


def test_a_grid_whose_rows_ran_out_of_memory_says_what_fits_and_about_where_the_limit_lies(make_study):
    study = make_study(sizes=SIZES, fail=too_large(gpu=9000), row=on_gpu)
    assert told(study) == (
        "On gpu (40 GiB) batch_size 8192 fits and 16384 does not. By the growth of its memory, about 9700 would fit.",
    )
    read = load(study)
    (block,) = [one for one in gather(read, conclude(read)).blocks if one.heading == "What fits into memory"]
    assert block.rows == (("gpu", "8192", "16384", "34 GiB", "40 GiB"),)
    assert block.drawing is None
    assert "crosses" in {row["verdict"] for row in conclude(read).crossovers.to_dict("records")}


def test_a_grid_in_which_all_fits_says_nothing_of_it(make_study):
    assert told(make_study(row=on_gpu)) == ()


def searched(make_study, *, most, axes=None, **more):
    axes = axes or {"batch_size": {"from": 4, "to": 4096}}
    return make_study(axes=axes, strategy="largest", noise=0, fail=too_large(**most), row=on_gpu, **more)


def test_a_search_that_found_its_limits_has_them_as_headline(make_study, capsys):
    study = searched(make_study, most={"cpu": 100, "gpu": 31})
    contents = gather(load(study), conclude(load(study)))
    assert re.fullmatch(r"\d+ trials: \d+ fitted, \d+ did not\.", contents.progress)
    assert not contents.unfinished  # memory that runs out is the answer here
    written = write(study)
    assert written.sentences == (
        "On cpu batch_size 100 fits and 101 does not.",
        "On gpu (40 GiB) batch_size 31 fits and 32 does not.",
    )
    text = (study / "report.md").read_text()
    page = (study / "report.html").read_text()
    assert "The largest batch_size that fits into memory" in page
    for words in ("undetermined", "crossover", "faster"):
        assert words not in text
    found = json.loads((study / "crossovers.json").read_text())
    assert found["crossovers"] == []
    assert [(fit["target"], fit["fits"], fit["fails"]) for fit in found["fits"]] == [("cpu", 100, 101), ("gpu", 31, 32)]
    assert "- search: each target by itself" in text
    for label in ("passes", "pairs", "margin", "drift allowance"):
        assert f"- {label}: " not in text
    assert main([str(study)]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == list(written.sentences)


def test_what_reaches_the_end_of_the_range_is_at_least_that(make_study):
    assert told(searched(make_study, most={"gpu": 2})) == (
        "On cpu at least batch_size 4096 fits, the largest asked.",
        "On gpu (40 GiB) not even batch_size 4 fits.",
    )


def test_a_deadline_in_the_way_is_named_and_is_no_limit(make_study):
    axes = {"batch_size": {"from": 4, "to": 4096}}
    study = make_study(
        axes=axes, strategy="largest", fail=lambda target, size, _: ("timeout", "too slow") if size > 100 else None
    )
    assert told(study)[0] == (
        "On cpu batch_size 64 fits at least: 128 hit the deadline, which says nothing about memory."
    )


def test_an_unfinished_search_says_so(make_study):
    study = searched(make_study, most={"cpu": 100}, skip=lambda target, size, _: False)
    parts = sorted((study / "trials").glob("*.parquet"))
    import pyarrow.parquet as pq

    rows = pq.read_table(parts[0])
    pq.write_table(rows.slice(0, 5), parts[0])
    text = " ".join(told(study))
    assert "larger ones have not been tried yet" in text
    assert gather(load(study), conclude(load(study))).unfinished


def test_several_values_of_another_axis_are_one_sentence_a_target_and_a_chart(make_study):
    axes = {"batch_size": {"from": 4, "to": 4096}, "width": [16, 64, 256]}
    study = searched(make_study, most={"gpu": 31}, axes=axes)
    written = write(study)
    everywhere = "at least 4096 (width 16), at least 4096 (width 64) and at least 4096 (width 256)"
    assert written.sentences == (
        f"On cpu the largest batch_size that fits is {everywhere}.",
        "On gpu (40 GiB) the largest batch_size that fits is 31 (width 16), 31 (width 64) and 31 (width 256).",
    )
    assert "charts/memory-width.svg" in written.files
    assert "![What fits into memory](charts/memory-width.svg)" in (study / "report.md").read_text()
    read = load(study)
    (limits,) = memory.charts(memory.found_in(read), read, ["width"])
    picture = chart.gather(limits.fits, axes=limits.axes, topic=limits.topic, title=limits.title)
    assert [(line.target, [(p.at, p.fits, p.fails) for p in line.points]) for line in picture.lines] == [
        ("cpu", [(16, 4096, None), (64, 4096, None), (256, 4096, None)]),
        ("gpu", [(16, 31, 32), (64, 31, 32), (256, 31, 32)]),
    ]
    (axes,) = chart.draw(picture).axes
    open_triangles = [one for one in axes.lines if one.get_marker() == "^" and one.get_markerfacecolor() == "white"]
    assert len(open_triangles) == 3
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert render(lambda: chart.draw(picture), "png") == render(lambda: chart.draw(picture), "png")


def test_nothing_is_predicted_from_the_times_of_a_search_for_memory(make_study, capsys):
    study = searched(make_study, most={"gpu": 31})
    assert main(["predict", str(study), "batch_size=16"]) == 2
    assert "compared no times" in capsys.readouterr().err


def test_two_kinds_of_machine_have_limits_of_their_own(make_study):
    hosts = {0: "node-1", 1: "node-2"}

    def row(target, size, index):
        own = {"host": hosts[index], "cpu_model": f"CPU {index}"}
        return on_gpu(target, size, index) | (own if target == "cpu" else own | {"gpu_name": f"GPU {index}"})

    def fail(target, size, index):
        return ("oom", "out of memory") if target == "gpu" and size > (100, 1000)[index] else None

    study = make_study(fail=fail, row=row, passes=2)
    assert HOST["host"] == "node-1"
    sentences = told(study)
    assert len(sentences) == 2
    assert "batch_size 64 fits and 256 does not" in sentences[0]
    assert "batch_size 256 fits and 1024 does not" in sentences[1]


@pytest.mark.parametrize(
    ("size", "words"), [(512, "512 B"), (400 * 2**20, "400 MiB"), (GIB, "1 GiB"), (1.5 * GIB, "1.5 GiB")]
)
def test_bytes_as_people_read_them(size, words):
    assert memory.memory(size) == words
