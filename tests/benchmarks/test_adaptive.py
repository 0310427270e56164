"""The line that the benchmark of adaptive searches prints, and the made machines that it measures."""

import json
import math

import numpy as np
import pytest

from benchmarks import adaptive
from benchmarks.simulator import KINDS


@pytest.fixture
def answer(monkeypatch, capsys):
    monkeypatch.setattr(adaptive, "SEARCHES", 1)
    monkeypatch.setattr(adaptive, "MAPS", 1)
    adaptive.main()
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_every_kind_has_its_figures_and_ok_means_all_targets(answer):
    assert set(answer) == {"name", "ok", "figures", "targets"}
    assert {key.partition(".")[0] for key in answer["figures"]} == {*KINDS, "clear", "one_winner", "lattice", "island"}
    met = [
        key in answer["figures"] and adaptive.meets(key, answer["figures"][key], target)
        for key, target in answer["targets"].items()
    ]
    assert answer["ok"] == all(met)


@pytest.mark.parametrize(
    ("kind", "least"),
    [
        ("clean", {"right": 0.9, "held": 0.8, "saved": 0.7}),
        ("corner", {"right": 0.9, "held": 0.7, "saved": 0.7}),
        ("several", {"right": 0.8, "saved": 0.1}),
        ("always_challenger", {"right": 0.8, "saved": 0.7}),
        ("just_below", {"right": 0.8, "saved": 0.7}),
    ],
)
def test_a_few_searches_of_each_kind_cost_and_find_what_was_promised(kind, least):
    tally = adaptive.score(kind, searches=12, seed=5)
    found = {name: np.mean(getattr(tally, name)) for name in least if name != "saved"}
    found["saved"] = np.median(tally.saved)
    assert {name: value for name, value in found.items() if value < least[name]} == {}
    assert np.median(tally.pairs) <= {"several": 60, "always_challenger": 16, "just_below": 16}.get(kind, 25)
    assert not any(tally.wrong)


def test_several_machines_are_kept_busy():
    tally = adaptive.score("clean", searches=8, seed=5, parallel=True)
    assert np.exp(np.mean(tally.makespan)) > 1.8


@pytest.mark.parametrize("island", [False, True])
def test_a_few_maps_cost_and_find_what_was_promised(island):
    figures = adaptive.score_maps(maps=5, seed=5, island=island)
    assert figures["measured_share"] <= (0.65 if island else 0.5)
    assert figures["wrong_share"] <= 0.01
    assert figures.get("found_share", 1) >= 0.6


def test_the_targets_are_those_of_the_method():
    assert adaptive.TARGETS["clear.pairs_median"] == 25
    assert adaptive.TARGETS["clear.pairs_p90"] == 37
    assert adaptive.TARGETS["clear.coverage_share"] == 0.93
    assert adaptive.TARGETS["clear.saved_median_share"] == 0.70
    assert adaptive.TARGETS["one_winner.pairs_median"] == 16
    assert adaptive.TARGETS["clean.makespan_ratio"] == 2.2
    assert adaptive.meets("clear.pairs_median", 24, 25)
    assert not adaptive.meets("clear.coverage_share", 0.92, 0.93)


def test_a_machine_answers_with_the_times_of_its_truth():
    rng = np.random.default_rng(0)
    truth = KINDS["clean"](adaptive.AnywhereDraw(low=math.log(16), high=math.log(2**14), rng=rng))
    machine = adaptive.Machine(truth, rng)
    rows = [row for n in range(200) for row in machine.measure(1024.0, n, steps=7, when=n / 200)]
    for target, curve in (("cpu", truth.cpu), ("gpu", truth.gpu)):
        typical = np.mean([np.log(np.median(row["step_times_s"])) for row in rows if row["target"] == target])
        assert typical == pytest.approx(math.log(adaptive.CHEAPEST_S) + float(curve(math.log(1024))), abs=0.03)


@pytest.mark.parametrize("seed", range(10))
def test_an_island_is_of_the_other_winner_and_of_two_cells_or_more(seed):
    plain = adaptive.draw_map(np.random.default_rng(seed), island=False)
    found = adaptive.draw_map(np.random.default_rng(seed), island=True)
    assert not plain.island.any()
    assert 2 <= found.island.sum() <= 25
    assert (np.sign(found.ratio[found.island]) == -np.sign(plain.ratio[found.island])).all()
