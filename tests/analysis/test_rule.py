"""The table for use in code: the ends of its stretches are those of the verdict, and nothing lies outside."""

import json
import random
import re
from pathlib import Path

import pytest

from analysis.conclusion import conclude
from analysis.load import load
from analysis.predict import fixed_values, predict
from analysis.rule import rule, stretches, write
from sweeps.errors import StudyError

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "predict.md"


def told(place):
    """The stretches of the only group, as (from, to, use, sure)."""
    return [(row["from"], row["to"], row["use"], row["sure"]) for row in rule(load(place))["rules"]]


def test_a_crossing_makes_four_stretches_with_the_numbers_of_the_verdict(make_study):
    place = make_study()
    row = conclude(load(place)).groups[0].crossover
    low, middle, high = (pytest.approx(row[name], rel=1e-9) for name in ("low", "estimate", "high"))
    assert told(place) == [
        (4, low, "cpu", True),
        (low, middle, "cpu", False),
        (middle, high, "gpu", False),
        (high, 4096, "gpu", True),
    ]


def test_the_table_says_what_it_is_about(make_study):
    study = load(make_study(question="From where?", margin=0.1, parameters={"depth": 3}))
    found = rule(study)
    assert json.loads(json.dumps(found)) == found
    fixed = fixed_values(study)
    assert "kind of machine" not in fixed
    assert {"depth": 3, "width": 256, "loader": "slice"}.items() <= found["parameters"].items()
    assert {name: value for name, value in found.items() if name != "rules"} == {
        "study": "study",
        "question": "From where?",
        "workload": "mlp",
        "parameters": {name: values[0] for name, values in fixed.items() if name != "machine" and values},
        "axis": "batch_size",
        "baseline": "cpu",
        "challenger": "gpu",
        "margin": 0.1,
    }
    first = found["rules"][0]
    assert list(first) == ["where", "machine", "from", "to", "use", "sure"]
    assert (first["where"], first["machine"]) == ({}, "Example CPU 3000, 8 cores, Example GPU 40")


def test_one_winner_is_one_stretch(make_study):
    times = {"cpu": lambda size: 1e-5 * size, "gpu": lambda size: 1e-6 * size}
    assert told(make_study(times=times)) == [(4, 4096, "gpu", True)]


def test_a_margin_moves_the_ends(make_study):
    plain, asked = told(make_study()), told(make_study("asked", margin=0.3))
    assert asked[0][1] > 1.1 * plain[0][1]
    assert [row[2:] for row in asked] == [row[2:] for row in plain]


def test_the_range_ends_where_a_target_failed(make_study):
    place = make_study(fail=lambda target, size, _: ("oom", "full") if (target, size) == ("gpu", 4096) else None)
    assert told(place)[-1][1:] == (1024, "gpu", True)


def test_a_limit_tells_a_winner_up_to_the_size_where_it_was_reached(make_study):
    def fail(target, size, _):
        return ("timeout", "slow") if target == "cpu" and size >= 256 else None

    assert told(make_study(fail=fail)) == [(4, 64, "cpu", True), (64, 256, None, False), (256, 4096, "gpu", True)]


def test_several_changes(make_study):
    times = {"cpu": lambda size: 1e-3, "gpu": lambda size: 1e-3 * (1.5 if size in (4, 16, 1024, 4096) else 0.6)}
    found = told(make_study(times=times, sizes=(4, 16, 64, 256, 1024, 4096)))
    assert [row[2] for row in found if row[3]] == ["cpu", "gpu", "cpu"]
    assert (found[0][0], found[-1][1]) == (4, 4096)


def test_a_jump_is_unsure_from_one_size_to_the_other(make_study):
    def jumping(trial):
        size = trial.parameters["batch_size"]
        return 1e-3 if trial.target.name == "cpu" else 1e-3 * (0.5 if size > 100 else 1.9)

    found = told(make_study(time_of=jumping))
    assert (found[0], found[-1]) == ((4, 64, "cpu", True), (256, 4096, "gpu", True))
    assert [row[3] for row in found[1:-1]] == [False] * len(found[1:-1])


def test_a_tie_is_sure_of_nothing(make_study):
    found = told(make_study(times={"cpu": lambda size: 1e-3, "gpu": lambda size: 1e-3}, noise=0.01))
    assert not any(sure for *_, sure in found)


def test_one_size_is_a_stretch_without_length(make_study):
    assert told(make_study(sizes=(1024,))) == [(1024, 1024, "gpu", True)]


def test_nothing_compared_is_an_empty_table(make_study):
    place = make_study(fail=lambda target, *_: ("unavailable", "no GPU") if target == "gpu" else None)
    assert told(place) == []


def test_a_contradiction_that_the_verdict_does_not_believe_is_sure_of_nothing(make_study):
    times = {"cpu": lambda size: 1e-3, "gpu": lambda size: 1e-3 * (0.974 if size == 64 else 1.2)}
    study = load(make_study(times=times, noise=1e-3))
    (group,) = conclude(study).groups
    assert group.crossover["verdict"] == "undetermined"
    assert {"baseline", "challenger"} <= set(group.sizes["state"])
    assert not any(part.sure for part in stretches(group))


def test_groups_have_their_place(make_study):
    axes = {"batch_size": [4, 16, 64, 256, 1024, 4096], "width": [64, 256]}
    found = rule(load(make_study(axes=axes)))["rules"]
    assert [row["where"] for row in found] == [{"width": 64}] * 4 + [{"width": 256}] * 4


@pytest.mark.parametrize("noise", [0.01, 0.08])
def test_what_the_table_is_sure_of_a_prediction_says_too(make_study, noise):
    study = load(make_study(noise=noise, passes=3))
    rows, chance = rule(study)["rules"], random.Random(1)
    for row in rows:
        inside = [row["from"] + (row["to"] - row["from"]) * chance.uniform(0.001, 0.999) for _ in range(2)]
        for size in inside:
            found = predict(study, {"batch_size": size})
            assert found.inside
            assert found.use == row["use"] if row["sure"] else found.use in ("", row["use"])


@pytest.fixture
def choose():
    """The function that docs/predict.md shows."""
    (code,) = re.findall(r"```python\n# choose\.py\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(code.splitlines()) <= 10
    names: dict = {}
    exec(code, names)  # noqa: S102  (the document is ours)
    return names["choose"]


def test_the_function_of_the_guide_uses_the_table(make_study, choose, tmp_path):
    axes = {"batch_size": [4, 16, 64, 256, 1024, 4096], "width": [64, 256]}
    write(load(make_study(axes=axes)), tmp_path / "rule.json")
    table = json.loads((tmp_path / "rule.json").read_text())
    assert [choose(table, size, width=64) for size in (4, 50, 200, 4096)] == ["cpu", "cpu", "gpu", "gpu"]
    assert choose(table, 100, width=64) is None  # not sure
    assert choose(table, 3, width=64) is None  # outside
    assert choose(table, 5000, width=64) is None
    assert choose(table, 64, width=65) is None
    assert choose(table, 64) is None


def test_several_machines_have_to_be_named(make_study, choose):
    def row(target, size, index):
        return {"host": "b", "node_id": "b", "cpu_model": "Other CPU"} if index % 2 else {}

    table = rule(load(make_study(passes=6, row=row)))
    machines = {part["machine"] for part in table["rules"]}
    assert len(machines) == 2
    assert choose(table, 4) is None
    assert [choose(table, 4, machine=machine) for machine in machines] == ["cpu", "cpu"]
    assert choose(table, 4, machine="none of them") is None


def test_where_stretches_meet_the_sure_one_holds_as_in_a_prediction(make_study, choose):
    def limits(target, size, _):
        return ("timeout", "too slow") if target == ("gpu" if size == 4 else "cpu") else None

    for name, options in (("limits", {"fail": limits}), ("smooth", {"passes": 6})):
        study = load(make_study(name, **options))
        table = rule(study)
        sizes = [4, 16, 64, 256, 1024, 4096]
        predicted = [predict(study, {"batch_size": size}).use or None for size in sizes]
        assert None not in predicted
        assert predicted[0] != predicted[-1]
        assert [choose(table, size) for size in sizes] == predicted


def test_a_file_that_cannot_be_written_is_named(make_study, tmp_path):
    with pytest.raises(StudyError, match=r"^--rule .*rule\.json: cannot be written: "):
        write(load(make_study()), tmp_path / "no" / "rule.json")
