"""Whole trainings in place of steps: time to a loss, and time of a configuration that is tried."""

import math

import pandas as pd
import pytest

from analysis import crossovers
from analysis.at_once import headline_words, target_words
from analysis.charts import losses
from analysis.charts.paper import render
from analysis.conclusion import conclude
from analysis.contents import gather
from analysis.load import load
from analysis.outcomes import NO_TRAINING
from analysis.report import write
from analysis.rivals import best_of
from analysis.summary import summarise
from analysis.whole_training import (
    Curves,
    Descent,
    configurations_per_hour,
    descents,
    epochs_words,
    in_time_to_loss,
    per_configuration,
    to_loss,
)
from sweeps.definition import RESERVED
from tests.analysis.synthetic import ASKED, falling, made_frame

TRAINED = {"parameters": {"epochs": 4}}
GOAL = {**TRAINED, "goal_loss": 0.5}
#: By epoch: low enough after two of them, after four, never, and after what is no number.
QUICK, SLOW, NEVER, LOST = [0.9, 0.5, 0.3, 0.2], [0.9, 0.8, 0.6, 0.4], [0.9, 0.8, 0.7, 0.6], [math.nan] * 4


def trained(each_s, by_epoch, **columns):
    return {"epoch_times_s": [each_s] * len(by_epoch), "loss_by_epoch": by_epoch, **columns}


def epoch_s(target, size):
    """Seconds of an epoch, so that both take as long at 100."""
    return 1e-3 * size if target == "cpu" else 0.09 + 1e-4 * size


def needs_twice(target, size, _):
    """The gpu needs twice as many epochs, so it is sooner at the loss from 225 on, though its steps win from 100 on."""
    return trained(epoch_s(target, size), QUICK if target == "cpu" else SLOW)


def blocks_of(folder):
    study = load(folder)
    (section,) = gather(study, conclude(study)).sections
    return {block.heading: block for block in section.blocks}


def test_the_first_epoch_that_is_low_enough_counts_whole():
    descent = Descent(after_s=(1.0, 2.0, 4.0, 8.0), losses=(0.9, 0.5, 0.7, 0.2))
    assert [descent.epochs_to(goal) for goal in (0.9, 0.5, 0.3, 0.1)] == [1, 2, 4, None]
    assert Descent(after_s=(1.0, 2.0), losses=(math.nan, 0.1)).epochs_to(0.5) == 2


def test_a_training_is_a_row_that_ended_well_and_has_both_lists():
    rows = pd.DataFrame(
        {
            "status": ["ok", "ok", "timeout", "ok", "ok", "ok"],
            "epoch_times_s": [[1.0, 2.0], None, [1.0], [1.0], [1.0, math.nan], []],
            "loss_by_epoch": [[2.0, None], None, [2.0], [2.0, 1.0], [2.0, 1.0], []],
        }
    )
    first, *rest = descents(rows)
    assert first.after_s == (1.0, 3.0)
    assert first.losses[0] == 2.0
    assert math.isnan(first.losses[1])
    assert rest == [None] * 5
    assert descents(rows[["status"]]) == [None] * 6


def test_the_change_in_time_to_the_loss_is_not_that_in_time_a_step(make_study):
    folder = make_study(row=needs_twice, **GOAL)
    study = load(folder)
    step = conclude(study).groups[0].crossover
    (found,) = crossovers(
        in_time_to_loss(study.frame, 0.5), axis="batch_size", baseline="cpu", challenger="gpu"
    ).to_dict("records")
    assert step["low"] < 100 < step["high"] < 150
    assert (found["verdict"], found["direction"]) == ("crosses", "challenger_above")
    assert 150 < found["low"] < 225 < found["high"]
    block = blocks_of(folder)["Time to a loss of 0.5"]
    assert "gpu trains this mlp model to a loss of 0.5 faster than cpu" in block.sentences[0]
    assert block.sentences[1].startswith("A single step: From batch_size")
    assert write(folder).sentences == block.sentences[:1]  # the sweep asks for the loss
    assert block.header == ("batch_size", "cpu: epochs", "cpu: time", "gpu: epochs", "gpu: time", "compared")
    assert block.rows[0][1:5] == ("2", "8.00 ms", "4", "362 ms")


def test_without_a_goal_there_is_no_such_answer(make_study):
    assert not any("loss" in heading for heading in blocks_of(make_study(row=needs_twice, **TRAINED)))


@pytest.mark.parametrize(("longest", "winner"), [(10.0, "challenger"), (0.0, "unknown")])
def test_who_never_comes_there_has_taken_longer_than_it_trained(make_study, longest, winner):
    """The cpu gives up after four epochs. Where these were longer than what the gpu needed, the gpu was sooner."""

    def row(target, size, _):
        return trained(longest + 1e-3, NEVER) if target == "cpu" else trained(1.0, QUICK)

    folder = make_study(row=row, **GOAL)
    frame = in_time_to_loss(load(folder).frame, 0.5)
    sizes = summarise(frame, axis="batch_size", baseline="cpu", challenger="gpu")
    assert set(sizes["state"]) == {winner}
    assert sizes["baseline_s"].isna().all()
    block = blocks_of(folder)["Time to a loss of 0.5"]
    assert block.rows[0][1] == "more than 4 (lowest 0.6)"
    assert block.rows[0][2].startswith("over ")
    if winner == "challenger":
        assert block.rows[0][5] == "cpu did not come so low in that time"
        assert block.sentences[0].startswith("gpu trains this mlp model to a loss of 0.5 faster than cpu everywhere")
    else:
        assert "no epoch had a mean loss of 0.5 or less" in block.sentences[0]


@pytest.mark.parametrize(("by_epoch", "seen"), [(NEVER, "lowest 0.6"), (LOST, "the loss is no number")])
def test_where_neither_comes_there_nothing_is_known(make_study, by_epoch, seen):
    folder = make_study(row=lambda *_: trained(1.0, by_epoch), **GOAL)
    block = blocks_of(folder)["Time to a loss of 0.5"]
    assert "nothing can be said about gpu against cpu" in block.sentences[0]
    assert {row[1] for row in block.rows} == {f"more than 4 ({seen})"}
    assert {row[5] for row in block.rows} == {"–"}
    write(folder)  # and is drawn


def test_a_pass_in_which_one_did_not_come_there_is_said(make_study):
    def row(target, size, index):
        return trained(epoch_s(target, size), NEVER if (target, index) == ("cpu", 0) else QUICK)

    block = blocks_of(make_study(row=row, **GOAL))["Time to a loss of 0.5"]
    assert {line[1] for line in block.rows} == {"2; not within 4 in 1 of 5 trials"}
    assert {line[3] for line in block.rows} == {"2"}


def test_one_pass_is_enough_for_a_provisional_answer(make_study):
    block = blocks_of(make_study(row=needs_twice, passes=1, **GOAL))["Time to a loss of 0.5"]
    assert "faster than cpu" in block.sentences[0]


def test_a_trial_that_was_stopped_tells_nothing_of_its_training(make_study):
    def fail(target, *_):
        return ("timeout", "stopped at the deadline") if target == "cpu" else None

    def row(target, *_):
        return {} if target == "cpu" else trained(1.0, QUICK)

    frame = load(make_study(row=row, fail=fail, **GOAL)).frame
    for found in (in_time_to_loss(frame, 0.5), per_configuration(frame)):
        assert set(found.loc[found["target"] == "cpu", "status"]) == {NO_TRAINING}
    assert frame["status"].eq("timeout").any()  # what was given is not changed


def test_nothing_that_was_trained_as_a_whole_is_said(make_study):
    block = blocks_of(make_study(**GOAL))["Time to a loss of 0.5"]
    assert block.sentences == ("Nothing was trained as a whole, so it is not known.",)
    assert block.rows == ()


def test_epochs_in_words():
    def words(*each):
        rows = [{"status": "ok", **trained(1.0, by_epoch)} for by_epoch in each]
        return epochs_words(pd.DataFrame(rows, columns=["status", "epoch_times_s", "loss_by_epoch"]), 0.5)

    assert words(QUICK, QUICK) == "2"
    assert words(QUICK, SLOW) == "2 and 4"
    assert words(QUICK, [1.0, 1.0, 0.5, 0.1], SLOW) == "2 to 4"
    assert words() == ""


def test_a_sentence_about_a_loss_is_one_whatever_the_verdict():
    words = to_loss(0.25)
    assert words.by.format("10 %") == "to a loss of 0.25 10 % faster"
    assert words.never.format("10 %") == "is never 10 % faster to a loss of 0.25"


# ------------------------------------------------------------------------------------------------ side by side


def test_times_of_trainings_side_by_side_are_divided_where_they_are_compared():
    frame = made_frame(falling())
    many = frame.assign(side_by_side=[4 if target == "cpu" else 1 for target in frame["target"]])
    quarter = frame.assign(
        step_times_s=[
            [t / 4 for t in times] if target == "cpu" else times
            for target, times in zip(frame["target"], frame["step_times_s"], strict=True)
        ]
    )
    for ask in (crossovers, summarise):
        pd.testing.assert_frame_equal(ask(many, **ASKED), ask(quarter, **ASKED))
        pd.testing.assert_frame_equal(ask(frame.assign(side_by_side=None), **ASKED), ask(frame, **ASKED))
    assert many["step_times_s"].tolist() == frame["step_times_s"].tolist()


def test_a_limit_of_several_is_not_that_of_one():
    """The cpu ran into its limit of 60 s with four trainings: each has taken more than 15 s, and no more is known."""
    frame = made_frame(falling())
    cpu = frame["target"] == "cpu"
    begun = pd.Timestamp("2026-01-01", tz="UTC")
    for whole_s, state in ((14.0, "challenger"), (20.0, "unknown")):
        rows = frame.assign(
            status=["timeout" if one else "ok" for one in cpu],
            deadline_s=60.0,
            started_at=begun,
            finished_at=begun + pd.Timedelta(seconds=whole_s),
            side_by_side=[4 if one else 1 for one in cpu],
        )
        assert set(summarise(rows, **ASKED)["state"]) == {state}


def test_the_best_of_a_side_is_chosen_by_what_a_node_does():
    rows = [
        {
            "size": 8,
            "target": target,
            "side_by_side": at_once,
            "pass_index": index,
            "status": "ok",
            "step_times_s": [time],
        }
        for index in range(3)
        for target, at_once, time in (("many", 4, 2.0), ("one", 1, 1.0), ("gpu", 1, 3.0))
    ]
    best = best_of(pd.DataFrame(rows), axis="size", sides={"best cpu": ["many", "one"], "best gpu": ["gpu"]})
    assert set(best.loc[best["target"] == "best cpu", "step_times_s"].map(lambda times: times[0])) == {2.0}


TUNED = {
    "targets": [{"name": "cpu-many", "device": "cpu", "threads": 1, "side_by_side": "all"}, "gpu"],
    "times": {"cpu-many": lambda size: 8e-5 * size, "gpu": lambda size: 9e-4 + 1e-6 * size},
    **TRAINED,
}


def tuned(target, size, _):
    """A configuration takes the cpu 1 s and 4e-3 a row for each of 8, the gpu 0.5 s and 1e-4: equal at 937.5."""
    if target == "cpu-many":
        return trained(1e-3 * size, SLOW, prepare_s=1.0, side_by_side=8, threads_observed=1)
    return trained(2.5e-5 * size, SLOW, prepare_s=0.5, side_by_side=1)


def test_configurations_an_hour_are_those_of_a_node(make_study):
    frame = per_configuration(load(make_study(row=tuned, **TUNED)).frame)
    found = configurations_per_hour(frame, axis="batch_size", targets=["cpu-many", "gpu"])
    at = found.set_index(["batch_size", "target"])
    assert at.loc[(64, "cpu-many"), "each_s"] == pytest.approx(1 + 4 * 0.064)
    assert at.loc[(64, "cpu-many"), "per_hour"] == pytest.approx(8 * 3600 / (1 + 4 * 0.064))
    assert at.loc[(64, "gpu"), "per_hour"] == pytest.approx(3600 / (0.5 + 4 * 2.5e-5 * 64))
    assert at.loc[(64, "cpu-many"), "side_by_side"] == 8
    assert {*found.columns} - {"batch_size"} <= RESERVED  # no parameter can have one of these names


def test_the_report_says_from_what_size_who_tries_more(make_study):
    folder = make_study(row=tuned, **TUNED)
    block = blocks_of(folder)["Tuning"]
    sentence, of_a_step = block.sentences
    assert of_a_step.startswith("A single step: ")
    assert write(folder).sentences == (sentence,)
    assert sentence.endswith("gpu tries configurations faster than cpu-many.")
    frame = per_configuration(load(folder).frame)
    (found,) = crossovers(frame, axis="batch_size", baseline="cpu-many", challenger="gpu").to_dict("records")
    assert found["low"] < 937.5 < found["high"]  # (1 + 4e-3 s) / 8 = 0.5 + 1e-4 s
    assert block.header == ("batch_size", "cpu-many, 8 at once", "gpu")
    assert block.rows[2][1] == "22900; 1.26 s each"
    assert "making data and model" in block.notes[0]


def test_the_report_says_that_times_are_shared(make_study):
    folder = make_study(row=tuned, **TUNED)
    study = load(folder)
    (group,) = conclude(study).groups
    said = "(cpu-many is 8 trainings side by side; its times are those of one divided by 8.)"
    assert said in group.sentence
    assert "one CPU thread" not in group.sentence
    targets = {fact.label: fact.value for fact in gather(study, conclude(study)).targets}
    assert "; 8 trainings side by side: at batch_size 256 a step of one takes 2" in targets["cpu-many"]
    assert "side by side" not in targets["gpu"]
    assert headline_words(study.frame, ("gpu", "gpu")) == []
    assert target_words(study.frame, "gpu", "batch_size") == ""


def test_no_configuration_without_a_whole_training(make_study):
    block = blocks_of(make_study(row=lambda *_: {"side_by_side": 2}, **TUNED))["Tuning"]
    assert block.sentences[0].startswith("Nothing was trained as a whole")


def test_who_tries_one_at_a_time_is_asked_nothing_about_tuning(make_study):
    assert "Tuning" not in blocks_of(make_study(row=needs_twice, **TRAINED))


# ----------------------------------------------------------------------------------------------------- the chart


def test_the_chart_shows_each_target_to_the_goal_and_somewhat_beyond():
    curves = Curves(
        title="Losses",
        slug="",
        goal=0.5,
        descents={
            "cpu": (Descent(after_s=(1.0, 2.0, 3.0, 90.0), losses=tuple(QUICK)),) * 3,
            "gpu": (Descent(after_s=(2.0, 4.0, 6.0, 8.0), losses=tuple(SLOW)),),
        },
    )
    picture = losses.gather(curves)
    cpu, gpu = picture.lines
    assert (cpu.reached, gpu.reached) == (1, 3)
    assert (cpu.label, gpu.label) == ("cpu (3 trainings)", "gpu")
    assert picture.until == 12.0
    assert render(lambda: losses.draw(picture), "svg").startswith(b"<?xml")


def test_the_chart_lies_in_the_report(make_study):
    folder = make_study(row=needs_twice, **GOAL)
    found = write(folder)
    assert "charts/losses.svg" in found.files
    assert "charts/losses.svg" in (folder / "report.md").read_text()
    assert 'id="losses-' in (folder / "report.html").read_text()
