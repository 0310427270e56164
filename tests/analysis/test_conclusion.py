"""The conclusions of a study: one group or many, each with the rows and the words that are its own."""

import dataclasses

import pytest

from analysis.conclusion import conclude
from analysis.load import load
from sweeps.errors import StudyError


@pytest.fixture
def own(tmp_path):
    (tmp_path / "own.py").write_text("def make(*, seed, **parameters): ...")
    return f"{tmp_path / 'own.py'}:make"


def test_a_plain_study_has_one_group_without_a_label(make_study):
    conclusion = conclude(load(make_study()))
    (group,) = conclusion.groups
    assert (group.label, group.slug) == ("", "")
    assert conclusion.crossovers["sentence"].tolist() == [group.sentence]
    assert group.crossover["verdict"] == "crosses"
    assert group.sizes["batch_size"].tolist() == [4, 16, 64, 256, 1024, 4096]


def test_each_group_is_concluded_from_its_own_rows(make_study):
    axes = {"batch_size": [4, 16, 64, 256, 1024, 4096], "width": [64, 256]}
    conclusion = conclude(load(make_study(axes=axes)))
    assert [group.label for group in conclusion.groups] == ["width 64", "width 256"]
    assert [group.slug for group in conclusion.groups] == ["width-64", "width-256"]
    assert [set(group.frame["width"]) for group in conclusion.groups] == [{64}, {256}]
    assert [len(group.frame) for group in conclusion.groups] == [60, 60]
    assert conclusion.groups[0].sentence.startswith("With width 64: From batch_size ")


def test_machines_are_named_in_the_sentence(make_study):
    other = {"cpu_model": "Other CPU (R) 9", "cores_usable": 4, "host": "node-2"}
    conclusion = conclude(load(make_study(row=lambda target, size, index: other if index > 2 else {})))
    assert conclusion.groups[1].sentence.startswith("On Other CPU (R) 9, 4 cores, Example GPU 40: From batch_size ")
    assert conclusion.groups[1].slug == "other-cpu-r-9-4-cores-example-gpu-40"


def test_slugs_stay_apart_where_labels_differ_only_in_signs(make_study, own):
    folder = make_study(axes={"batch_size": [4, 4096], "kind": ["a+b", "a b", "漢"]}, workload=own)
    assert sorted(group.slug for group in conclude(load(folder)).groups) == ["kind", "kind-a-b", "kind-a-b-2"]


def test_the_margin_of_the_sweep_is_used_and_any_win_told_beside_it(make_study):
    folder = make_study(margin=0.1)
    (group,) = conclude(load(folder)).groups
    assert "at least 10 % faster" in group.sentence
    assert "at least" not in group.practical
    (plain,) = conclude(load(make_study("plain"))).groups
    assert "at least" not in plain.sentence
    assert "at least 10 % faster" in plain.practical


def test_a_third_target_takes_no_part(make_study):
    times = {"cpu": lambda size: 1e-5 * size, "gpu": lambda size: 1e-3, "cpu-1": lambda size: 1e-4 * size}
    (group,) = conclude(load(make_study(times=times))).groups
    assert group.crossover["pairs"] == 30


def test_a_third_target_does_not_hide_that_a_rival_was_not_run(make_study):
    times = {"cpu": lambda size: 1e-5 * size, "gpu": lambda size: 1e-3, "cpu-1": lambda size: 1e-4 * size}
    (group,) = conclude(load(make_study(times=times, skip=lambda target, *_: target == "gpu"))).groups
    assert group.sentence.startswith("No gpu trial finished: none has been run yet;")


def test_what_cannot_be_concluded_is_an_error_that_names_the_study(make_study):
    folder = make_study(axes={"batch_size": [4, 4096]})
    study = load(folder)
    with pytest.raises(StudyError, match="batch_size") as refused:
        conclude(dataclasses.replace(study, frame=study.frame.assign(batch_size="many")))
    assert str(folder) in str(refused.value)
