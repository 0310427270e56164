"""Rows that were taken over from another study: they are compared, and whoever reads the answer is told."""

from datetime import UTC, datetime, timedelta

import pytest

from analysis.conclusion import conclude
from analysis.contents import gather
from analysis.load import SHORT_RUN_DRIFT, load
from analysis.report import write

THERE = {
    "recorded_in": "h100/mlp",
    "paired": False,
    "host": "far-away",
    "cpu_model": "Other CPU",
    "cores_usable": 64,
    "torch": "2.9.0",
    "code_version": "older1",
    "started_at": datetime(2025, 11, 3, 4, 5, tzinfo=UTC),
    "finished_at": datetime(2025, 11, 3, 4, 6, tzinfo=UTC),
}


def taken(target, *_):
    return THERE if target == "gpu" else {"paired": False}


@pytest.fixture
def against(make_study):
    """Return a function that makes a study whose accelerator's rows were taken over."""

    def make(name="against", *, row=taken, **options):
        return make_study(name, row=row, pairing="by_target", **options)

    return make


def the_conclusion(study):
    (group,) = conclude(study).groups
    return group


def test_rows_of_two_machines_days_and_versions_are_compared_nevertheless(against):
    group = the_conclusion(load(against()))
    assert group.crossover["verdict"] == "crosses"
    assert group.crossover["low"] <= 100 <= group.crossover["high"]


def test_the_verdict_names_both_machines_and_whose_rows_they_are(against):
    sentence = the_conclusion(load(against())).sentence
    assert sentence.endswith(
        "(Two machines, not paired: cpu is Example CPU 3000, 8 cores, measured here on 2026-01-02; "
        "gpu is Example GPU 40, recorded in h100/mlp on 2025-11-03.)"
    )


def test_the_warnings_say_what_was_not_measured_here_and_which_versions_differ(against):
    warnings = load(against()).warnings
    (origin,) = [text for text in warnings if "taken over" in text]
    assert origin == (
        "the rows of gpu are taken over from the study h100/mlp (Example GPU 40 on 2025-11-03): they were not measured "
        "here and are not paired with those of cpu (Example CPU 3000, 8 cores on 2026-01-02), so whatever else differs "
        "between the machines and the days is part of the answer"
    )
    (versions,) = [text for text in warnings if "versions" in text]
    assert versions == (
        "the rows of h100/mlp come from other versions (torch 2.9.0 there, 2.13.0 here; measuring code older1 there, "
        "abc123 here); they are compared nevertheless"
    )
    assert not [text for text in warnings if "back to back" in text or "judged" in text]


def test_the_same_versions_need_no_warning(against):
    same = {name: value for name, value in THERE.items() if name not in ("torch", "code_version")}
    warnings = load(against(row=lambda target, *_: same if target == "gpu" else {})).warnings
    assert not [text for text in warnings if "versions" in text]


def test_a_study_of_which_nothing_was_taken_over_says_nothing_of_it(make_study):
    study = load(make_study(pairing="by_target"))
    assert not [text for text in study.warnings if "taken over" in text]
    assert "Two machines" not in the_conclusion(study).sentence
    methods = {fact.label: fact.value for fact in gather(study, conclude(study)).method}
    assert methods["pairs"] == "each target where it can run; the two are not paired"


def test_rows_measured_here_by_two_versions_are_still_told_apart(against):
    def row(target, _size, number):
        return THERE if target == "gpu" else {"torch": "2.12.0" if number else "2.13.0"}

    study = load(against(row=row))
    assert any("the rows come from 3 versions of torch" in text for text in study.warnings)
    assert len(conclude(study).groups) == 2


def test_two_kinds_of_recorded_accelerators_are_judged_apart(against):
    def row(target, _size, number):
        return THERE | {"gpu_name": "Other GPU" if number > 2 else "Example GPU 40"} if target == "gpu" else {}

    study = load(against(row=row))
    sentences = [group.sentence for group in conclude(study).groups]
    assert len(sentences) == 2
    assert sum("gpu is Other GPU, recorded in h100/mlp" in text for text in sentences) == 1
    assert sum("gpu is Example GPU 40, recorded in h100/mlp" in text for text in sentences) == 1


def test_a_run_of_minutes_has_the_drift_of_minutes_whenever_the_other_was(against):
    assert load(against(lasted=timedelta(minutes=3))).drift == SHORT_RUN_DRIFT

    def long_ago(target, size, number):
        spread_out = {"started_at": THERE["started_at"] + timedelta(hours=number)}
        return THERE | spread_out | {"finished_at": spread_out["started_at"]} if target == "gpu" else {}

    assert load(against("long", row=long_ago, lasted=timedelta(hours=1))).drift is None


def test_the_method_the_machines_and_the_command_say_it_too(against):
    study = load(against())
    contents = gather(study, conclude(study))
    methods = {fact.label: fact.value for fact in contents.method}
    assert methods["pairs"] == (
        "recorded elsewhere: gpu in h100/mlp; the rest was measured here, and the two are not paired"
    )
    assert methods["measured"] == "here on 2026-01-02; in h100/mlp on 2025-11-03"
    assert {machine.host for machine in contents.machines} == {"node-1", "far-away (recorded in h100/mlp)"}
    assert contents.commands[0] == "python sweep.py --against against --out against-again"


def test_the_report_holds_all_of_it_and_pretends_no_pairs(against):
    folder = against()
    write(folder)
    for name in ("report.html", "report.md"):
        text = (folder / name).read_text()
        assert "taken over from the study h100/mlp" in text
        assert "recorded in h100/mlp" in text
        assert "targets back to back on one machine" not in text


def test_a_later_run_that_pairs_does_not_make_recorded_rows_paired(make_study):
    study = load(make_study(row=taken, pairing="same_node"))
    assert not [text for text in study.warnings if "back to back" in text]
    assert [text for text in study.warnings if "taken over" in text]


def test_where_the_recorded_side_did_not_finish_there_are_no_two_machines_to_name(against):
    fail = lambda target, *_: ("oom", "no room") if target == "gpu" else None  # noqa: E731
    group = the_conclusion(load(against(fail=fail)))
    assert "Two machines" not in group.sentence
    assert "No gpu trial finished" in group.sentence
