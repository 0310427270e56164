"""Sweeps: which trials they plan, and in which order."""

import itertools
from collections import Counter

import pytest

from analysis import question as analysed
from analysis.load import MACHINE
from sweeps.definition import MOST_TRIALS, Sweep
from sweeps.errors import InputError
from sweeps.record import COLUMNS
from sweeps.sweep_file import load
from tests.sweeps.asking import sweep


def test_every_pass_visits_every_configuration_once_before_the_next_begins():
    asked = sweep(axes={"batch_size": [2, 4, 8], "width": [8, 16]}, targets=["cpu", "cpu-1", "gpu"], passes=4)
    plan = asked.pairs()
    assert sum(map(len, plan)) == asked.size
    assert [pair[0].pass_index for pair in plan] == [index for index in range(4) for _ in range(6)]
    for index in range(4):
        visited = [pair[0].parameters for pair in plan if pair[0].pass_index == index]
        assert Counter((p["batch_size"], p["width"]) for p in visited) == Counter(
            (b, w) for b in (2, 4, 8) for w in (8, 16)
        )
    for pair in plan:
        assert {trial.target.name for trial in pair} == {"cpu", "cpu-1", "gpu"}
        assert len({trial.pair_id for trial in pair}) == 1
        assert [trial.pair_order for trial in pair] == [0, 1, 2]
    assert len({trial.trial_id for pair in plan for trial in pair}) == asked.size


def test_what_differs_only_on_the_accelerator_shares_the_trial_on_the_cpu():
    axes = {"batch_size": [2, 4], "transfer": ["pageable", "pinned", "resident"]}
    asked = sweep(axes=axes, targets=["cpu-1", "cpu", "gpu"], passes=2)
    plan = asked.pairs()
    assert asked.size == sum(map(len, plan)) == 2 * 2 * (2 + 3)
    for pair in plan:
        asked_of = Counter((trial.target.name, trial.parameters["transfer"]) for trial in pair)
        on_gpu = {("gpu", transfer): 1 for transfer in axes["transfer"]}
        assert asked_of == {("cpu-1", None): 1, ("cpu", None): 1, **on_gpu}
        assert len({trial.pair_id for trial in pair}) == 1
        assert sorted(trial.pair_order for trial in pair) == [0, 1, 2, 3, 4]
    assert len({trial.pair_id for pair in plan for trial in pair}) == 4
    alone = sweep(targets=["cpu-1", "cpu", "gpu"], passes=2)
    kept = {trial.trial_id for pair in alone.pairs() for trial in pair}
    assert kept < {trial.trial_id for pair in plan for trial in pair}, "a new lever axis keeps what is done"


def test_a_target_that_is_not_waited_for_has_a_rung_of_its_own():
    fast = {"name": "gpu-fast", "device": "gpu", "wait": False}
    asked = sweep(targets=["cpu", "gpu", fast])
    rungs = {trial.target.name: trial.rung for pair in asked.pairs() for trial in pair}
    assert rungs == {"cpu": "e2e", "gpu": "e2e", "gpu-fast": "nowait"}
    for role in ("baseline", "challenger"):
        with pytest.raises(ValueError, match=f"{role}: gpu-fast is timed without waiting"):
            sweep(targets=["cpu", "gpu", fast], **{role: "gpu-fast"})


def test_the_ladder_takes_apart_what_it_is_asked_for():
    asked = sweep(explain=True, axes={"batch_size": [2, 4, 8], "width": [8, 16]}, targets=["cpu-1", "gpu"])
    plan = asked.ladder([{"batch_size": 4, "width": 8}, {"batch_size": 8, "width": 16}, {"batch_size": 9, "width": 8}])
    assert len(plan) == 2 * asked.passes
    for pair in plan:
        rungs = Counter((trial.target.name, trial.rung) for trial in pair if trial.rung != "cold")
        assert rungs == dict.fromkeys(
            (("cpu-1", "preload"), *(("gpu", r) for r in ("preload", "resident", "kernel"))), 1
        )
    whole = {trial.trial_id for pair in asked.pairs() for trial in pair}
    assert whole.isdisjoint(trial.trial_id for pair in plan for trial in pair)
    assert {pair[0].pair_id for pair in plan} < {pair[0].pair_id for pair in asked.pairs()}
    assert asked.ladder([]) == []


def test_what_a_start_is_made_of_is_asked_once_a_pass_and_target_that_is_waited_for():
    fast = {"name": "gpu-fast", "device": "gpu", "wait": False}
    axes = {"batch_size": [2, 4], "transfer": ["pageable", "pinned"]}
    asked = sweep(explain=True, axes=axes, targets=["cpu-1", "gpu", fast])
    every = [{"batch_size": size, "transfer": transfer} for size in (4, 2) for transfer in axes["transfer"]]
    plan = asked.ladder(every)
    cold = [trial for pair in plan for trial in pair if trial.rung == "cold"]
    assert Counter((trial.target.name, trial.pass_index) for trial in cold) == {
        (target, index): 1 for target in ("cpu-1", "gpu") for index in range(asked.passes)
    }
    assert {(t.parameters["batch_size"], t.parameters["transfer"]) for t in cold} == {(4, None), (4, "pageable")}


@pytest.mark.parametrize("workload", ["gemm", "own.py:make"])
def test_a_step_that_cannot_be_taken_apart_is_not_explained(workload, tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text("def make(*, seed, size): ...")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=f'explain: the step of "{workload}" cannot be taken apart; .* name rung'):
        sweep(workload=workload, axes={"size": [1, 2]}, explain=True)


@pytest.fixture
def apart(tmp_path):
    (tmp_path / "own.py").write_text("def make(*, seed, size, rung): ...")
    return {"workload": f"{tmp_path / 'own.py'}:make", "axes": {"size": [1, 2]}, "explain": True}


def test_an_own_step_that_takes_the_rung_is_explained(apart):
    asked = sweep(**apart)
    plan = asked.ladder([{"size": 2}])
    assert len(plan) == asked.passes
    for pair in plan:
        wanted = itertools.product(("cpu-1", "cpu"), ("preload", "resident", "nosync", "cold"))
        assert sorted((trial.target.name, trial.rung) for trial in pair) == sorted(wanted)
        assert all(trial.parameters == {"size": 2} for trial in pair)


def test_taking_the_rung_changes_no_identity_of_a_whole_step(apart, tmp_path):
    now = [trial.trial_id for pair in sweep(**apart).pairs() for trial in pair]
    (tmp_path / "own.py").write_text("def make(*, seed, size): ...")
    before = [trial.trial_id for pair in sweep(**apart | {"explain": False}).pairs() for trial in pair]
    assert now == before


@pytest.mark.parametrize("where", ["parameters", "axes"])
def test_the_rung_is_nothing_that_a_sweep_can_give(apart, where):
    given = apart | {where: apart.get(where, {}) | {"rung": "preload" if where == "parameters" else ["preload"]}}
    with pytest.raises(ValueError, match=rf"{where}\.rung: is nothing that a sweep can give; explain: true"):
        sweep(**given)


def test_sizes_and_targets_come_in_random_order_that_the_seed_decides():
    asked = sweep(axes={"batch_size": list(range(1, 21))}, passes=10)
    order = [[pair[0].parameters["batch_size"] for pair in asked.pairs() if pair[0].pass_index == i] for i in range(10)]
    assert len({tuple(sizes) for sizes in order}) == 10
    first = Counter(pair[0].target.name for pair in asked.pairs())
    assert min(first.values()) > 70, first
    same = sweep(axes={"batch_size": list(range(1, 21))}, passes=10)
    assert same.pairs() == asked.pairs()
    assert sweep(axes={"batch_size": list(range(1, 21))}, passes=10, seed=1).pairs() != asked.pairs()


def test_more_passes_and_values_keep_the_trials_that_are_done():
    def ids(asked):
        return {trial.trial_id for pair in asked.pairs() for trial in pair}

    assert ids(sweep()) < ids(sweep(passes=5))
    assert ids(sweep()) < ids(sweep(axes={"batch_size": [2, 3, 4]}))
    assert ids(sweep()) < ids(sweep(targets=["cpu-1", "cpu", "gpu"]))
    assert ids(sweep()) == ids(sweep(deadline_s=5, margin=0.1, question="?", name="other"))
    assert ids(sweep()).isdisjoint(ids(sweep(parameters={"width": 8})))


def test_too_many_trials_are_refused(file):
    more = "passes: 1000\n"
    with pytest.raises(InputError, match=f"axes: 180000 trials are too many; at most {MOST_TRIALS}"):
        load(file("[2, 4]", "{from: 1, to: 90, steps: 500}", more=more))


@pytest.mark.parametrize("name", sorted(COLUMNS | analysed.RESERVED | {MACHINE, "seed"}))
def test_no_parameter_can_hide_a_column(name):
    """Better now than after hours of measuring, when the answers would have the name too."""
    for spelt in (name, name.upper()):
        with pytest.raises(ValueError, match=r"taken by a column|is a key of a target|nothing that a sweep can give"):
            sweep(axes={"batch_size": [2], spelt: [1]})


SMALL = {"name": "small", "device": "cpu", "where": {"size": "s"}}


@pytest.mark.parametrize(
    ("targets", "pairing"),
    [
        ([SMALL, "cpu"], "by_target"),
        ([SMALL, {**SMALL, "name": "large", "where": {"size": "l"}}], "by_target"),
        ([SMALL, {**SMALL, "name": "one", "threads": 1}], "same_node"),
        (["cpu-1", "cpu"], "same_node"),
    ],
)
def test_targets_that_run_in_different_places_are_not_paired(targets, pairing):
    asked = sweep(targets=targets)
    assert asked.pairing == pairing
    assert {trial.paired for pair in asked.pairs() for trial in pair} == {pairing == "same_node"}
    assert Sweep.model_validate(asked.model_dump()) == asked


def test_one_node_for_targets_that_run_in_different_places_is_refused(file):
    with pytest.raises(
        InputError, match=r"pairing: same_node is one node for all targets, but these differ in `where`"
    ):
        load(file("[cpu-1, cpu]", "[cpu-1, {name: a, device: cpu, where: {size: s}}]", more="pairing: same_node\n"))


def test_a_label_that_cannot_be_is_told(file):
    with pytest.raises(InputError, match=r"mine.yaml: targets.1.where: .* is not allowed; a mapping of node labels"):
        load(file("[cpu-1, cpu]", "[cpu-1, {name: a, device: cpu, where: {size: 3}}]"))


# ---------------------------------------------------------------------------------------------- looking for sizes

SPAN = {"batch_size": {"from": 2, "to": 64}}


def test_a_search_says_how_many_trials_it_takes_at_most():
    assert sweep(axes=SPAN, strategy="adaptive").size == 60 * 2
    assert sweep(axes=SPAN | {"optimizer": ["SGD", "Adam"]}, strategy="adaptive", max_pairs=20).size == 2 * 20 * 2
    assert sweep(axes=SPAN | {"width": {"from": 8, "to": 64}}, strategy="adaptive").size == 4 * 60 * 2


def test_a_pair_of_a_search_is_the_one_that_a_grid_would_measure():
    search = sweep(axes=SPAN | {"width": [8, 16]}, strategy="adaptive")
    grid = sweep(axes={"batch_size": [8, 16], "width": [8, 16]})
    pair = search.pair_at({"batch_size": 8.0, "width": 16}, 2, most_steps=5)
    assert {trial.trial_id for trial in pair} < {trial.trial_id for each in grid.pairs() for trial in each}
    assert [trial.most_steps for trial in pair] == [5, 5]
    assert [trial.pair_order for trial in pair] == [0, 1]
    assert {trial.parameters["batch_size"] for trial in pair} == {8}
    assert isinstance(pair[0].parameters["batch_size"], int)
    assert pair == search.pair_at({"batch_size": 8, "width": 16}, 2, most_steps=5), "the same order each time"
    assert [trial.target.name for trial in search.pair_at({"batch_size": 8, "width": 16}, 0, targets=["cpu"])] == [
        "cpu"
    ]


def test_the_targets_of_pairs_come_in_either_order():
    search = sweep(axes=SPAN, strategy="adaptive")
    first = Counter(search.pair_at({"batch_size": 8}, index)[0].target.name for index in range(100))
    assert min(first.values()) > 30, first


@pytest.mark.parametrize("values", [{"batch_size": 65}, {"batch_size": 8.5}, {"batch_size": 1}])
def test_a_search_cannot_leave_its_axis(values):
    with pytest.raises(ValueError, match="is not on this axis"):
        sweep(axes=SPAN, strategy="adaptive").pair_at(values, 0)


def test_sizes_that_a_search_has_found_can_be_taken_apart():
    search = sweep(axes=SPAN, strategy="adaptive", explain=True, passes=2)
    plan = search.ladder([{"batch_size": 11}, {"batch_size": 100}])
    assert {trial.parameters["batch_size"] for pair in plan for trial in pair} == {11}
    assert {trial.pass_index for pair in plan for trial in pair} == {0, 1}


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (
            {"axes": SPAN},
            r"axes.batch_size: {from: 2, to: 64} also needs factor or steps; without them, strategy: adap",
        ),
        (
            {"strategy": "adaptive"},
            r"axes.batch_size: \[2, 4\] is too short to be searched; at least 3 values, or a range",
        ),
        (
            {"axes": SPAN, "strategy": "adaptive", "passes": 5},
            "passes: with strategy: adaptive a size is measured as of",
        ),
        ({"half_width": 0.2}, "half_width: means something with strategy: adaptive only"),
        ({"max_pairs": 30}, "max_pairs: means something with strategy: adaptive only"),
        (
            {"axes": SPAN | {"width": list(range(1, 900))}, "strategy": "adaptive"},
            "axes: 107880 trials are too many; at most 100000",
        ),
        (
            {"axes": {"batch_size": {"from": 2.5, "to": 64}}, "strategy": "adaptive"},
            "batch_size of mlp is a whole number",
        ),
    ],
)
def test_a_search_that_cannot_be_is_refused(asked, why):
    with pytest.raises((ValueError, InputError), match=why):
        sweep(**asked)
