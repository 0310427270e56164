"""The study of an adaptive sweep: its conclusion, its report, and that all places say the same numbers."""

import json
import math
import re
from dataclasses import replace

import pytest

from analysis.charts.crossover import gather
from analysis.conclusion import conclude
from analysis.contents import gather as contents_of
from analysis.crossover import crossovers
from analysis.load import load
from analysis.report import write
from analysis.rule import rule

SPAN = {"batch_size": {"from": 4, "to": 4096}}
ADAPTIVE = {"strategy": "adaptive", "axes": SPAN}
#: So noisy that the interval is that of the line through the pairs close by; the two cross at 101.
NOISY = {"noise": 0.06, "half_width": 0.08, **ADAPTIVE}


def block_of(study, heading="Where the measurements went"):
    blocks = contents_of(study, conclude(study)).blocks
    return next((block for block in blocks if block.heading == heading), None)


def test_the_interval_is_that_of_the_line_through_the_pairs_close_by(make_study):
    study = load(make_study(**NOISY))
    ((_, row),) = conclude(study).crossovers.iterrows()
    (usual,) = crossovers(study.frame, axis="batch_size", baseline="cpu", challenger="gpu", drift=0.02).to_dict(
        "records"
    )
    assert row["low"] < 101 < row["high"]
    assert row["high"] / row["low"] < usual["high"] / usual["low"]
    assert row["reasons"][1].startswith("the interval is that of a straight line through the")
    assert not [reason for reason in row["reasons"] if reason.startswith("for a narrower answer")]


def test_sentence_json_chart_and_rule_say_the_same_interval(make_study):
    folder = make_study(**NOISY)
    report, study = write(folder), load(folder)
    (told,) = json.loads((folder / "crossovers.json").read_text())["crossovers"]
    (sentence,) = report.sentences
    group = conclude(study).groups[0]
    (zone,) = gather(group.frame, group.sizes, group.crossover, group.topic, group.sentence).zones
    parts = rule(study)["rules"]
    low, estimate, high = told["low"], told["estimate"], told["high"]
    assert (zone.low, zone.high, zone.estimate) == (low, high, estimate)
    assert [(part["from"], part["to"]) for part in parts if low <= part["from"] < high] == [
        (low, estimate),
        (estimate, high),
    ]
    assert not any(part["sure"] for part in parts if low <= part["from"] < high)
    assert [part["sure"] for part in parts if high == part["from"] or part["to"] == low] == [True, True]
    assert [part["use"] for part in parts] == ["cpu" if part["to"] <= estimate else "gpu" for part in parts]
    numbers = [float(found) for found in re.findall(r"\d+(?:\.\d+)?", sentence)]
    assert numbers[:4] == [round(told["estimate"]), 95, math.floor(told["low"]), math.ceil(told["high"])]
    assert (parts[0]["from"], parts[-1]["to"]) == (4, 4096)


def test_of_several_changes_too_the_rule_says_the_intervals_of_the_verdict(make_study):
    def gpu(size):
        return 1e-3 * math.exp(0.5 * math.cos(2 * math.pi * math.log(size / 4) / math.log(1024)))

    study = load(make_study(**ADAPTIVE, times={"cpu": lambda size: 1e-3, "gpu": gpu}, noise=0.05))
    ((_, row),) = conclude(study).crossovers.iterrows()
    assert row["verdict"] == "several"
    parts = rule(study)["rules"]
    for change in row["changes"]:
        inside = [part for part in parts if change["low"] <= part["from"] < change["high"]]
        assert (inside[0]["from"], inside[-1]["to"]) == (change["low"], change["high"])
        assert not any(part["sure"] for part in inside)


def test_two_per_cent_are_allowed_for_drift_however_long_it_took(make_study):
    study = load(make_study(**ADAPTIVE))
    assert study.drift == 0.02
    assert "2 % is allowed for slow drift" in " ".join(conclude(study).crossovers["reasons"][0])


def test_the_report_says_where_the_measurements_went(make_study):
    folder = make_study(**ADAPTIVE)
    write(folder)
    study, prose = load(folder), (folder / "report.md").read_text()
    block = block_of(study)
    assert block.header == ("batch_size", "pairs", "took", "measured")
    assert sum(int(row[1]) for row in block.rows) == len(study.frame) / 2
    assert {row[0] for row in block.rows} >= {"4", "64", "128", "4096"}
    assert block.sentences[0].startswith(f"{len(study.frame) // 2} pairs were measured in ")
    assert "a grid of every octave, with 5 passes, has 55 and would have taken about" in block.sentences[0]
    assert block.sentences[1] == "The search has stopped: the interval is as narrow as was asked for."
    assert "## Where the measurements went" in prose
    assert f"{len(study.frame)} of {len(study.frame)} trials finished.\n" in prose
    assert "until each change is known to +-10 %" in prose


def cut(study, rows):
    """The study as it was when it had so many rows."""
    return replace(study, frame=study.frame.sort_values("started_at").head(rows).reset_index(drop=True))


def test_a_search_that_is_not_finished_says_so(make_study):
    half = cut(load(make_study(**ADAPTIVE)), 20)
    contents = contents_of(half, conclude(half))
    assert contents.unfinished
    assert contents.progress == "20 of 20 trials finished; the search is not finished: the same command goes on."
    block = block_of(half)
    assert block.sentences[0].startswith("10 pairs have been measured so far in ")
    assert block.sentences[1] == "The search is not finished: the same command goes on."


def test_the_cap_is_said_and_what_would_be_within_reach(make_study):
    block = block_of(load(make_study(**NOISY | {"max_pairs": 24, "half_width": 0.05})))
    assert "which is the most that was asked for; +-" in block.sentences[1]
    assert block.sentences[1].endswith("% is within reach.")


def test_a_target_that_was_never_there_is_asked_again(make_study):
    folder = make_study(
        **ADAPTIVE | {"max_pairs": 5}, fail=lambda target, *_: ("unavailable", "no GPU") if target == "gpu" else None
    )
    contents = contents_of(load(folder), conclude(load(folder)))
    assert contents.progress.endswith("the search is not finished: the same command goes on.")


def test_several_searches_have_a_line_each(make_study):
    axes = SPAN | {"width": [64, 256]}
    study = load(make_study(**ADAPTIVE | {"axes": axes}))
    block = block_of(study)
    assert block.header == ("search", "pairs", "took", "a grid would have taken", "why it stopped")
    assert [row[0] for row in block.rows] == ["width 64", "width 256"]
    assert sum(int(row[1]) for row in block.rows) == len(study.frame) / 2
    assert {row[4] for row in block.rows} == {"the interval is as narrow as was asked for"}
    assert block_of(study, "How far width moves the change")
    assert not block_of(study, "batch_size and width together")


def time_of(trial):
    size, width = trial.parameters["batch_size"], trial.parameters["width"]
    return 1e-6 * size * width if trial.target.name == "cpu" else 1e-2 + 1e-8 * size * width


def test_a_map_tells_measured_cells_from_those_that_were_not(make_study):
    axes = SPAN | {"width": {"from": 8, "to": 8192}}
    study = load(make_study(**ADAPTIVE | {"axes": axes}, time_of=time_of, noise=0.01))
    block, drawn = block_of(study), block_of(study, "batch_size and width together").drawing
    cells = drawn.frontier.cells
    assert len(cells) == 11 * 11
    assert set(cells["cell"]) == {"measured", "surrounded"}
    assert (cells["cell_why"] == "").equals(cells["cell"] == "measured")
    measured, around = (int(cells["cell"].eq(kind).sum()) for kind in ("measured", "surrounded"))
    assert measured < 0.6 * 121
    assert block.sentences[1].startswith(
        f"The map: {measured} of 121 cells measured, {around} lie among cells that agree"
    )
    truth = cells["batch_size"] * cells["width"] < 1e-2 / 0.99e-6
    decided = cells["state"].isin(["baseline", "challenger"])
    assert (cells["state"].eq("baseline") == truth)[decided].all()
    assert not block.rows


@pytest.mark.parametrize("strategy", ["adaptive", "grid"])
def test_the_chart_counts_pairs_where_a_search_chose_the_sizes(make_study, strategy):
    folder = make_study(**ADAPTIVE if strategy == "adaptive" else {})
    write(folder)
    chart = (folder / "charts/crossover.svg").read_text()
    assert ("pairs at a size: the longest bar is" in chart) == (strategy == "adaptive")
