"""The check asks what the sweeps in its studies ask, said without the packages that these need."""

import pytest

from runner.check.plan import COLD_STARTS, COLD_STUDY, TARGETS, questions
from sweeps.sweep_file import read
from sweeps.target import Target

EVERY = [(device, question) for device in ("gpu", "cpu") for question in questions(device)]
each_question = pytest.mark.parametrize(("device", "question"), EVERY, ids=[f"{d}-{q.name}" for d, q in EVERY])


def ids(pairs):
    return {trial.trial_id for pair in pairs for trial in pair}


@each_question
def test_the_trials_of_all_passes_are_those_that_the_sweep_plans(device, question):
    sweep = read(question.dump().encode(), "sweep.yaml")
    assert [len(question.pairs(index)) for index in range(question.passes)] == [len(question.sizes)] * question.passes
    assert ids(pair for index in range(question.passes) for pair in question.pairs(index)) == ids(sweep.pairs())
    assert sweep.size == len(ids(sweep.pairs()))


@each_question
def test_pairs_are_those_of_the_sweep(device, question):
    sweep = read(question.dump().encode(), "sweep.yaml")
    asked = {t.trial_id: (t.pair_id, t.config_id, t.deadline_s, t.seed, t.paired) for p in sweep.pairs() for t in p}
    for pair in question.pairs(0):
        assert {
            t.trial_id: (t.pair_id, t.config_id, t.deadline_s, t.seed, t.paired) for t in pair
        }.items() <= asked.items()
        assert [trial.pair_order for trial in pair] == list(range(len(question.targets)))
        assert len({trial.pair_id for trial in pair}) == 1


@each_question
def test_steps_are_taken_apart_as_the_sweep_would(device, question):
    sweep = read(question.dump().encode(), "sweep.yaml")
    whole = ids(sweep.ladder([{"batch_size": size} for size in question.taken_apart]))
    assert ids(question.ladder()) <= whole
    often = sweep.model_copy(update={"passes": COLD_STARTS})
    assert ids(question.cold_starts()) <= ids(often.ladder([{"batch_size": question.sizes[0]}]))
    assert len(ids(question.cold_starts())) == COLD_STARTS
    rungs = {trial.rung for pair in question.ladder() for trial in pair}
    assert rungs >= ({"preload", "resident", "kernel"} if device == "gpu" else {"preload"})
    assert {trial.target.name for pair in question.ladder() for trial in pair} == {sweep.baseline, sweep.challenger}


@each_question
def test_columns_have_the_types_of_the_sweep(device, question):
    def types(examples):
        return {name: type(value) for each in examples for name, value in each.items()}

    assert types(question.examples) == types(read(question.dump().encode(), "sweep.yaml").examples)


@pytest.mark.parametrize("plain", TARGETS["gpu"], ids=lambda target: target.name)
def test_a_plain_target_is_a_target(plain):
    real = Target.model_validate(plain.name)
    assert plain.model_dump() == real.model_dump()
    assert (plain.described, plain.needs_accelerator) == (real.described, real.needs_accelerator)


def test_the_targets_that_are_compared():
    for device, baseline, challenger in (("gpu", "cpu", "gpu"), ("cpu", "cpu-1", "cpu")):
        assert {(q.baseline.name, q.challenger.name) for q in questions(device)} == {(baseline, challenger)}
        assert COLD_STUDY in [question.name for question in questions(device)]


def test_a_check_visits_sizes_in_an_order_of_its_own_in_each_pass():
    question = next(question for question in questions("gpu") if question.name == "mlp")
    orders = [[pair[0].parameters["batch_size"] for pair in question.pairs(index)] for index in range(3)]
    assert all(sorted(order) == list(question.sizes) for order in orders)
    assert len({tuple(order) for order in orders}) > 1
    assert orders == [[pair[0].parameters["batch_size"] for pair in question.pairs(index)] for index in range(3)]
