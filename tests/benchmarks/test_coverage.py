"""The line that the coverage benchmark prints; what it measures is tested in tests/analysis/test_simulated.py."""

import json

import pytest

from benchmarks import coverage
from benchmarks.simulator import KINDS


@pytest.fixture
def answer(monkeypatch, capsys):
    monkeypatch.setattr(coverage, "GROUPS", 4)
    coverage.main()
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_every_kind_has_its_figures_and_ok_means_all_targets(answer):
    assert set(answer) == {"name", "ok", "figures", "targets"}
    for kind in KINDS:
        for passes in (3, 5, 10):
            assert {"right_share", "wrong_share"} <= {
                key.rpartition(".")[2] for key in answer["figures"] if key.startswith(f"{kind}.k{passes}.")
            }
    met = [
        key in answer["figures"] and coverage.meets(key.rpartition(".")[2], answer["figures"][key], target)
        for key, target in answer["targets"].items()
    ]
    assert answer["ok"] == all(met)


def test_the_targets_are_those_of_the_method():
    named = {
        f"{case}.{what}": target for case in coverage.cases() for what, target in coverage.targets_of(case).items()
    }
    assert named["clean.k3.coverage_share"] == 0.93
    assert named["staircase.k5.quiet.coverage_share"] == named["knee.k10.loud.coverage_share"] == 0.90
    assert named["clean.k1.steps5.coverage_share"] == 0.93
    assert named["clean.k1.steps1.coverage_share"] == 0.88
    assert named["tie.k3.wrong_share"] == 0.03
    assert named["clean.k5.half_width_percent"] == named["clean.k10.half_width_percent"] == 9.5
    assert named["knee.k10.half_width_percent"] == 5.5
    assert named["always_baseline.k3.right_share"] == 0.99
    assert named["just_below.k5.right_share"] == 0.86
    assert all(f"{kind}.k{passes}.wrong_share" in named for kind in KINDS for passes in (3, 5, 10))
