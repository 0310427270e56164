"""What a start is made of: made trials whose stages are known."""

from datetime import timedelta

import pytest

from analysis.conclusion import conclude
from analysis.contents import gather
from analysis.load import load
from analysis.starts import STAGES, stages, start_rows, start_words
from sweeps.sweep_file import load as load_sweep

PARTS = {
    "cpu": {"cold_context_s": 0.001, "cold_first_kernel_s": 0.002, "prepare_s": 0.103, "first_step_s": 0.02},
    "gpu": {"cold_context_s": 0.8, "cold_first_kernel_s": 0.05, "prepare_s": 1.25, "first_step_s": 0.3},
}
#: Ten steps of the warm-up at the pace of the smallest size, 4, and half a second more.
LATER_S = 0.5
STEP_S = {"cpu": 4e-5, "gpu": 9.04e-4}


def row(target, size, index):
    known = dict(PARTS[target])
    known["warmup_s"] = known["first_step_s"] + 9 * STEP_S[target] + LATER_S
    return known


def found_in(folder):
    study = load(folder)
    return stages(study.frame, axis="batch_size", targets=["cpu", "gpu"]).set_index(["target", "stage"])


def test_each_stage_is_what_it_took(make_study):
    found = found_in(make_study(row=row, noise=0.0))
    for target, making in (("cpu", 0.1), ("gpu", 0.4)):
        told = found.loc[target]["median_s"]
        assert told.drop("rest_s").to_dict() == pytest.approx(
            {
                "cold_context_s": PARTS[target]["cold_context_s"],
                "cold_first_kernel_s": PARTS[target]["cold_first_kernel_s"],
                "making_s": making,
                "first_step_s": PARTS[target]["first_step_s"],
            }
        )
        assert told["rest_s"] == pytest.approx(LATER_S, rel=0.01)
    assert found.loc[("gpu", "cold_context_s"), "trials"] == 6 * 5  # of every size
    assert found.loc[("gpu", "first_step_s"), "trials"] == 5  # of the smallest
    assert found["first_s"].isna().all()


def test_the_first_trial_of_a_machine_stands_apart_where_it_does(make_study):
    seen = []

    def slow_at_first(target, size, index):
        told = row(target, size, index)
        if target == "gpu" and not seen:
            seen.append(size)
            told["cold_context_s"] = 4.0
        return told

    found = found_in(make_study(row=slow_at_first, lasted=timedelta(hours=1)))
    gpu = found.loc[("gpu", "cold_context_s")]
    assert (gpu["first_s"], gpu["median_s"], gpu["high_s"], gpu["trials"]) == (4.0, 0.8, 0.8, 29)


def test_a_slow_trial_that_is_not_the_first_stays_in_the_range(make_study):
    count = []

    def slow_later(target, size, index):
        count.append(target)
        return row(target, size, index) | ({"cold_context_s": 4.0} if len(count) == 30 else {})

    found = found_in(make_study(row=slow_later))
    assert found.loc[count[29], "cold_context_s"]["high_s"] == 4.0
    assert found["first_s"].isna().all()


def test_it_is_said_in_words_and_in_a_table(make_study):
    study = load(make_study(row=row, noise=0.0))
    found = stages(study.frame, axis="batch_size", targets=["cpu", "gpu"])
    assert start_words(found, "batch_size") == [
        f"On {target} the first step at batch_size 4 is done {done} after the trial has begun; most of that is {most}."
        for target, done, most in (
            ("cpu", "123 ms", "making model and data, 100 ms"),
            ("gpu", "1.55 s", "opening the device, 800 ms"),
        )
    ]
    assert start_rows(found)[5] == ("gpu", "opening the device", "800 ms", "800 ms to 800 ms", "–", "30")
    headings = [block.heading for block in gather(study, conclude(study)).blocks]
    assert headings[0] == "What a start is made of"


def test_trials_that_train_nothing_add_their_stages_and_nothing_else(make_study):
    def cold(target, size, index):
        return row(target, size, index) | {"cold_first_matmul_s": 0.04, "cold_first_conv_s": 0.2}

    sizes = [{"batch_size": 4}]
    folder = make_study(row=cold, explain=True, explained=sizes, time_of=lambda trial: 1e-3)
    study = load(folder)
    (block,) = [each for each in gather(study, conclude(study)).blocks if each.heading == "What a start is made of"]
    told = {(line[0], line[1]) for line in block.rows}
    assert ("gpu", STAGES["cold_first_matmul_s"]) in told
    assert ("cpu", STAGES["cold_first_conv_s"]) in told


def test_the_variants_that_ship_are_judged_best_against_best_with_their_price(make_study):
    sweep = load_sweep("variants")
    pace = {"cpu": 1e-5, "cpu-compile": 8e-6, "gpu": 4e-6, "gpu-graph": 1e-6, "gpu-compile": 3e-6, "gpu-tf32": 3.5e-6}

    def time_of(trial):
        launch = 0.0 if trial.target.device == "cpu" else 4e-4
        return launch + pace[trial.target.name] * trial.parameters["batch_size"]

    def price(target, size, index):
        told = row("gpu" if target.startswith("gpu") else "cpu", size, index)
        return told | {"mode_s": {"gpu-graph": 0.3, "gpu-compile": 20.0, "cpu-compile": 15.0}.get(target)}

    asked = sweep.model_dump(exclude={"name", "passes"})
    study = load(make_study(time_of=time_of, row=price, **asked))
    blocks = {block.heading: block for block in gather(study, conclude(study)).blocks}
    best = blocks["Best against best"]
    assert best.rows[-1][1].endswith("cpu-compile")
    assert "gpu-graph" in best.rows[-1][2]
    started = {(line[0], line[1]): line[2] for line in blocks["What a start is made of"].rows}
    assert started["gpu-compile", "compiling or recording"] == "20.0 s"
    assert started["gpu-graph", "compiling or recording"] == "300 ms"
    assert ("gpu", "compiling or recording") not in started
