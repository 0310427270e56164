"""The sweeps that ship: each is legal with and without an accelerator, and says what it answers."""

import pytest

from runner.workloads.load import FAMILIES as TRAINED
from sweeps.families import FAMILIES
from sweeps.sweep_file import CATALOG, catalog, load

each_sweep = pytest.mark.parametrize("name", sorted(catalog()))


def test_the_catalog_is_the_folder():
    assert list(catalog()) == [
        "adaptive",
        "batch_size",
        "branching",
        "cold_start",
        "default",
        "hardware",
        "lstm_fused",
        "lstm_loop",
        "memory_limit",
        "optimizer",
        "reading",
        "sequence",
        "smoke",
        "time_to_loss",
        "transfer",
        "tuning",
        "tutorial",
        "variants",
        "width",
    ]
    assert {path.name for path in CATALOG.iterdir()} == {f"{name}.yaml" for name in catalog()}


@each_sweep
def test_it_is_named_as_its_file_and_asks_a_question(name):
    sweep = load(name)
    assert sweep.name == name
    assert "?" in sweep.question
    assert len(sweep.question) <= 110


@each_sweep
def test_it_compares_a_cpu_with_whatever_accelerator_there_is(name):
    sweep = load(name)
    baseline, challenger = sweep.target(sweep.baseline), sweep.target(sweep.challenger)
    assert (baseline.device, challenger.device) == ("cpu", "gpu")


def test_without_an_accelerator_the_default_compares_one_core_with_all():
    sweep = load("default", accelerator=False)
    assert (sweep.baseline, sweep.challenger, sweep.margin) == ("cpu-1", "cpu", 0.1)
    assert not any(target.needs_accelerator for target in sweep.targets)
    assert len(sweep.axes[sweep.axis]) >= 6
    assert sweep.passes >= 3
    assert sweep.axes == load("default").axes


def test_the_tutorial_is_the_tutorial():
    sweep = load("tutorial")
    asked = {"rows": 10_000, "features": 1_000, "classes": 10, "batch_size": 32, "epochs": 10}
    asked |= {"loader": "dataloader", "loader_workers": 0, "transfer": "pageable", "sync": "every_step"}
    asked |= {"sync_every": 1, "dtype": "float32", "optimizer": "SGD", "lr": 0.01, "clip_norm": None}
    assert sweep.workload == "linear"
    assert asked in sweep.configurations()
    assert sweep.explain
    assert set(sweep.axes) == {"batch_size", "features", "rows"}


def test_the_two_lstm_sweeps_differ_in_the_loop_alone():
    loop, fused = load("lstm_loop"), load("lstm_fused")
    assert (loop.workload, fused.workload) == ("lstm_loop", "lstm_fused")
    assert loop.configurations() == fused.configurations()


def test_smoke_asks_every_kind_of_node():
    sweep = load("smoke")
    assert sweep.pairing == "by_target"
    assert {target.name for target in sweep.targets} == {"cpu-1", "cpu", "gpu"}
    assert sweep.size <= 12


def test_what_can_be_asked_is_what_can_be_trained():
    assert set(FAMILIES) == set(TRAINED)
