"""Rows whose lever is null: the partners of every value that others have."""

import numpy as np
import pandas as pd

from analysis import crossovers
from analysis.conclusion import conclude
from analysis.contents import gather
from analysis.load import load
from analysis.partners import spread
from sweeps.definition import Sweep

LEVERS = ["pageable", "pinned", "resident"]
#: What a copy costs, in units of the batch.
COPY = {"pageable": 4e-6, "pinned": 1e-6, "resident": 0.0}
AXES = {"batch_size": [4, 16, 64, 256, 1024, 4096], "transfer": LEVERS}


def rows(*lines):
    return pd.DataFrame(lines, columns=["target", "transfer", "sync", "every", "size"])


def time_of(trial):
    size = trial.parameters["batch_size"]
    return 1e-5 * size if trial.target.device == "cpu" else 9e-4 + (1e-6 + COPY[trial.parameters["transfer"]]) * size


def test_a_row_without_a_value_is_the_partner_of_each():
    frame = rows(("cpu", None, "end", 1, 4), *(("gpu", lever, "end", 1, 4) for lever in LEVERS))
    found = spread(frame, ["transfer"])
    assert sorted(found.loc[found["target"] == "cpu", "transfer"]) == LEVERS
    assert len(found) == 6
    assert found.columns.tolist() == frame.columns.tolist()


def test_only_values_that_go_with_the_other_groups_are_taken():
    frame = rows(
        ("cpu", None, "end", 1, 4),
        ("cpu", None, "every_step", 1, 4),
        ("gpu", "pinned", "end", 1, 4),
        ("gpu", "resident", "every_step", 1, 4),
    )
    found = spread(frame, ["transfer", "sync"])
    assert found.groupby(["transfer", "sync"])["target"].agg(list).map(sorted).to_dict() == {
        ("pinned", "end"): ["cpu", "gpu"],
        ("resident", "every_step"): ["cpu", "gpu"],
    }


def test_a_lever_that_means_nothing_on_any_target_stays_one_group():
    frame = rows(
        *((target, None, "end", np.nan, 4) for target in ("cpu", "gpu")),
        *((target, None, "every_step", every, 4) for target in ("cpu", "gpu") for every in (1, 10)),
    )
    found = spread(frame, ["sync", "every"])
    assert len(found) == len(frame)
    assert found.groupby(["sync", "every"], dropna=False).size().tolist() == [2, 2, 2]


def test_rows_with_values_stay_as_they_are():
    frame = rows(("cpu", "pinned", "end", 1, 4), ("gpu", "pinned", "end", 1, 4))
    assert spread(frame, ["transfer"]).equals(frame)
    assert spread(frame, []).equals(frame)


def test_each_value_of_a_lever_has_its_crossover_against_the_one_cpu(make_study):
    study = load(make_study(axes=AXES, time_of=time_of))
    assert (len(study.frame), study.planned) == (6 * (1 + 3) * 5, 6 * (1 + 3) * 5)
    found = conclude(study).crossovers
    assert found["transfer"].tolist() == LEVERS
    assert found["verdict"].tolist() == ["crosses"] * 3
    truth = [9e-4 / (1e-5 - 1e-6 - COPY[lever]) for lever in LEVERS]
    assert all((found["low"] <= truth) & (truth <= found["high"]))
    assert found["pairs"].tolist() == [30] * 3


def test_the_crossover_of_a_group_is_that_of_its_own_rows(make_study):
    study = load(make_study(axes=AXES, time_of=time_of))
    alone = study.frame[study.frame["transfer"].isna() | study.frame["transfer"].eq("pinned")]
    expected = crossovers(alone, axis="batch_size", baseline="cpu", challenger="gpu").iloc[0]
    found = conclude(study).crossovers.set_index("transfer").loc["pinned"]
    assert (found["estimate"], found["low"], found["high"]) == (
        expected["estimate"],
        expected["low"],
        expected["high"],
    )


def test_a_shared_trial_raises_no_doubt_and_is_counted_once(make_study):
    study = load(make_study(axes=AXES, time_of=time_of))
    assert study.warnings == ()
    contents = gather(study, conclude(study))
    assert contents.progress == "120 of 120 planned trials finished."
    assert [section.group.label for section in contents.sections] == [f"transfer {lever}" for lever in LEVERS]
    assert sum(machine.trials for machine in contents.machines) == 120


def test_a_lever_that_no_target_has_makes_one_group_without_a_name(make_study):
    times = {"cpu-1": lambda size: 1e-5 * size, "cpu": lambda size: 9e-4 + 1e-6 * size}
    study = load(make_study(axes=AXES, times=times))
    assert len(study.frame) == Sweep.model_validate(study.sweep.model_dump()).size == 60
    (group,) = conclude(study).groups
    assert (group.label, len(group.sizes)) == ("", 6)
    assert group.sentence.startswith("From batch_size ")


def test_trials_that_differ_by_a_null_lever_alone_are_alike(make_study):
    def unsteady(trial):
        return time_of(trial) * (5 if trial.target.device == "cpu" and trial.pass_index == 0 else 1)

    (warning,) = load(make_study(axes=AXES, time_of=unsteady)).warnings
    assert "differ by up to 5" in warning
    assert "(cpu at batch_size " in warning
