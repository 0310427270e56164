"""The workloads that ship train, are what they say they are, and can be asked exactly what `sweeps` says."""

import inspect
import math
import re
import statistics
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from runner.workloads import load
from runner.workloads.load import FAMILIES
from runner.workloads.loaders import Rows
from runner.workloads.training import BATCHES
from runner.workloads.transformer import Block
from sweeps import families as questions
from sweeps.levers import levers
from sweeps.parameter import Whole
from tests.runner.small import CPU, SMALL, TRAINED, TWINS, Operators, losses, made_of, operators, prepared

#: Those whose operators are the same in every type of number.
COUNTED = [family for family in TRAINED if family != "lstm_fused"]
GUIDE = Path(__file__).parent.parent.parent / "docs" / "own-model.md"
pytestmark = pytest.mark.usefixtures("one_thread")  # for such small operations two only wait for each other


def test_every_family_that_can_be_asked_for_is_there():
    assert set(FAMILIES) == set(questions.FAMILIES) == set(SMALL)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_takes_its_declared_sizes_the_levers_and_the_seed_by_name(family):
    arguments = inspect.signature(FAMILIES[family]).parameters
    declared = set(questions.FAMILIES[family].parameters)
    assert set(arguments) == {"seed"} | ((declared - set(levers())) | {"levers"} if family in TRAINED else declared)
    assert {each.kind for each in arguments.values()} == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_smallest_legal_value_trains(family):
    parameters = questions.FAMILIES[family].parameters
    sizes = {name: each.minimum for name, each in parameters.items() if isinstance(each, Whole)}
    sizes = {name: least for name, least in sizes.items() if name not in levers() and not parameters[name].like}
    assert "batch_size" in sizes or family == "gemm"
    made = prepared(family, **sizes)
    assert all(map(math.isfinite, losses(made, 3)))


@pytest.mark.parametrize("family", TRAINED)
def test_the_loss_falls(family):
    seen = losses(prepared(family), 2_000)
    assert statistics.fmean(seen[-50:]) < 0.9 * statistics.fmean(seen[:50])


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_seed_makes_the_same_steps_whatever_was_drawn_before(family):
    first = losses(prepared(family, seed=3), 12)
    torch.manual_seed(99)
    torch.rand(7)
    assert losses(prepared(family, seed=3), 12) == first
    assert losses(prepared(family, seed=4), 12) != first


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_object_prepared_again_starts_anew(family):
    made = prepared(family)
    first = losses(made, 5)
    made.prepare(CPU, "cpu")
    assert losses(made, 5) == first


@pytest.mark.parametrize("family", FAMILIES)
def test_a_step_returns_one_number_without_a_graph(family):
    loss = prepared(family).step()
    assert loss.shape == ()
    assert not loss.requires_grad


@pytest.mark.parametrize(
    ("family", "parameters"),
    [
        ("linear", {}),
        ("linear", {"batch_size": 1, "features": 3, "classes": 2}),
        ("mlp", {}),
        ("mlp", {"depth": 1}),
        ("mlp", {"batch_size": 1, "width": 3}),
        ("cnn", {}),
        ("cnn", {"image": 7, "channels": 3, "batch_size": 2}),
        ("transformer", {}),
        ("transformer", {"layers": 1, "heads": 1, "sequence": 9, "width": 5}),
        ("branching", {}),
        ("straight", {}),
        ("straight", {"depth": 1, "width": 3}),
        ("embedding", {}),
        ("embedding", {"vocabulary": 7, "bag": 1}),
    ],
)
def test_the_flops_it_states_are_those_that_torch_counts(family, parameters):
    made = prepared(family, **parameters)
    with FlopCounterMode(display=False) as counter:
        made.step()
    assert made.flops_per_step == counter.get_total_flops()


def test_the_flops_of_the_loop_are_those_that_torch_counts_but_for_the_state_it_begins_with():
    """That state, of zeros, needs no gradient; the formula, like a fused layer, makes no exception for it."""
    made = prepared("lstm_loop", batch_size=3, hidden=5)
    with FlopCounterMode(display=False) as counter:
        made.step()
    assert made.flops_per_step - 8 * 3 * 5 * 5 == counter.get_total_flops()


@pytest.mark.parametrize(
    ("family", "parameters"),
    [
        *((family, {}) for family in TRAINED),
        *((family, {"dtype": dtype}) for family in COUNTED for dtype in ("float64", "bfloat16")),
        ("mlp", {"depth": 1}),
        ("cnn", {"image": 4, "batch_size": 1}),
        ("transformer", {"layers": 1, "heads": 2}),
        ("transformer", {"layers": 3, "width": 24}),
        ("lstm_loop", {"sequence": 1}),
        ("lstm_loop", {"sequence": 9, "batch_size": 1}),
        ("lstm_fused", {"sequence": 9, "hidden": 40}),
        ("branching", {"depth": 1}),
        ("straight", {"depth": 7}),
        ("embedding", {"vocabulary": 3_000, "batch_size": 1}),
    ],
)
def test_the_operators_it_states_are_those_that_reach_the_cpu(family, parameters):
    made = prepared(family, **parameters)
    assert sum(operators(made).values()) == made.ops_per_step


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_where_torch_has_no_fused_layer_for_a_cpu_it_states_no_operators(dtype):
    fused = prepared("lstm_fused", dtype=dtype)
    assert sum(operators(fused).values()) != prepared("lstm_fused").ops_per_step
    assert fused.ops_per_step is None
    assert dtype in fused.unknown_figures["ops_per_step"]


def test_a_transformer_of_one_head_or_place_copies_less():
    for parameters in ({"heads": 1}, {"sequence": 1}, {"batch_size": 1}):
        made = prepared("transformer", **parameters)
        assert 0.88 * made.ops_per_step <= sum(operators(made).values()) <= made.ops_per_step


@pytest.mark.parametrize("family", TRAINED)
def test_the_reads_it_states_are_those_that_it_does(family):
    made = prepared(family)
    assert operators(made)["_local_scalar_dense"] == made.syncs_per_step


@pytest.mark.parametrize("family", sorted({*TRAINED} - {"branching"}))
def test_a_step_names_no_device_and_reads_no_value(family):
    """A meta tensor holds no value to read, and mixes with no tensor that was made on the CPU."""
    made = prepared(family, device=torch.device("meta"), sync="end")
    assert made.step().device.type == "meta"


@pytest.mark.parametrize(("one", "other"), TWINS)
def test_twins_do_the_same_work_from_the_same_weights(one, other):
    assert questions.FAMILIES[one].parameters == questions.FAMILIES[other].parameters
    assert questions.FAMILIES[one].twin == other
    made = [prepared(one, seed=2), prepared(other, seed=2)]
    weights = [list(each.model.parameters()) for each in made]
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(*weights, strict=True))
    for figure in ("flops_per_step", "h2d_bytes_per_step", "parameter_bytes"):
        assert len({getattr(each, figure) for each in made}) == 1


def test_a_loop_takes_many_operators_where_the_fused_layer_takes_few():
    loop, fused = prepared("lstm_loop", sequence=16), prepared("lstm_fused", sequence=16)
    assert loop.ops_per_step > 20 * fused.ops_per_step


def test_the_loop_and_the_fused_layer_reach_the_same_losses():
    loop, fused = prepared("lstm_loop", seed=2), prepared("lstm_fused", seed=2)
    assert losses(loop, 50) == pytest.approx(losses(fused, 50), rel=1e-5)


def test_a_branch_costs_a_mean_a_comparison_and_a_read():
    branching, straight = operators(prepared("branching")), operators(prepared("straight"))
    assert branching - straight == {"mean": 3, "gt": 3, "_local_scalar_dense": 3}
    assert not straight - branching


def test_the_data_takes_both_branches():
    made = prepared("branching")
    taken = []
    real = torch.Tensor.__bool__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "__bool__", lambda value: (taken.append(real(value)), taken[-1])[1])
        losses(made, BATCHES)
    assert len(taken) == 3 * BATCHES
    assert all(set(taken[layer::3]) == {True, False} for layer in range(3))


def test_the_transformer_mixes_places_and_keeps_rows_apart():
    made = prepared("transformer")
    made.bring()
    tokens = made._inputs.clone()
    before = made.model(tokens)
    tokens[0, 5] = (tokens[0, 5] + 1) % 20
    after = made.model(tokens)
    assert not torch.allclose(after[0], before[0])
    assert torch.allclose(after[1:], before[1:])


def test_the_attention_is_the_one_that_torch_has():
    torch.manual_seed(0)
    block = Block(width=12, heads=3)
    tokens = torch.randn(2, 6, 12)
    queries, keys, values = block.queries_keys_values(tokens).view(2, 6, 3, 3, 4).permute(2, 0, 3, 1, 4)
    mixed = nn.functional.scaled_dot_product_attention(queries, keys, values).transpose(1, 2).reshape(2, 6, 12)
    assert torch.allclose(block._attend(tokens), block.mixed(mixed), atol=1e-6)


@pytest.mark.parametrize("family", TRAINED)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_the_bytes_it_states_are_those_of_its_tensors(family, dtype, monkeypatch):
    made = prepared(family, dtype=dtype)
    assert made.parameter_bytes == sum(each.nbytes for each in made.model.parameters())
    sent = []
    real = torch.Tensor.to

    def to(tensor, *where, **how):
        sent.append(tensor.nbytes)
        return real(tensor, *where, **how)

    monkeypatch.setattr(torch.Tensor, "to", to)
    made.step()
    assert sum(sent) == made.h2d_bytes_per_step


@pytest.mark.parametrize("family", TRAINED)
def test_model_and_batches_go_to_the_device_and_the_data_stays(family):
    made = prepared(family, device=torch.device("meta"), sync="end")
    assert {each.device.type for each in made.model.parameters()} == {"meta"}
    inputs, labels = next(made._loader.visit(whole=True))
    assert (inputs.device.type, labels.device.type) == ("cpu", "cpu")
    made.bring()
    assert (made._inputs.device.type, made._labels.device.type) == ("meta", "meta")


def test_the_tutorial_is_what_the_tutorial_does():
    defaults = questions.FAMILIES["linear"].parameters
    made = made_of("linear", **{name: defaults[name].default for name in SMALL["linear"]})
    made.prepare(CPU, "cpu")
    assert isinstance(made.model, nn.Linear)
    assert (made.model.in_features, made.model.out_features, made.epochs) == (1_000, 10, 10)
    assert isinstance(made._criterion, nn.CrossEntropyLoss)
    assert isinstance(made._optimizer, torch.optim.SGD)
    (group,) = made._optimizer.param_groups
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (0.01, 0, 0)
    loader = made._loader.whole
    assert len(loader.dataset) == 10_000
    assert isinstance(loader.dataset, torch.utils.data.Dataset)
    assert not isinstance(loader.dataset, torch.utils.data.IterableDataset)
    assert len(loader) == 313
    assert isinstance(loader.sampler, torch.utils.data.RandomSampler)
    assert (loader.num_workers, loader.pin_memory) == (0, False)
    (features, labels) = next(iter(loader))
    assert (features.shape, features.dtype) == ((32, 1_000), torch.float32)
    assert (labels.shape, labels.dtype) == ((32,), torch.int64)


def test_the_tutorial_reads_row_by_row(monkeypatch):
    reads = []
    real = Rows.__getitem__
    made = prepared("linear", rows=40, batch_size=16)
    monkeypatch.setattr(Rows, "__getitem__", lambda rows, index: (reads.append(index), real(rows, index))[1])
    made.epoch()
    made.epoch()
    first, second = reads[:40], reads[40:]
    assert sorted(first) == sorted(second) == list(range(40))
    assert first != sorted(first)  # shuffled
    assert first != second  # and each epoch anew


def test_the_tutorial_reads_its_loss_every_step(monkeypatch):
    reads = []
    real = torch.Tensor.item
    made = prepared("linear")
    made.step()  # the loader draws a seed as an epoch begins
    monkeypatch.setattr(torch.Tensor, "item", lambda tensor: (reads.append(real(tensor)), reads[-1])[1])
    assert reads == [made.step()]


def test_a_whole_training_has_so_many_epochs_and_learns():
    made = prepared("linear", epochs=4)
    assert made.epochs == 4
    means = [made.epoch() for _ in range(made.epochs)]
    assert means == sorted(means, reverse=True)


def test_the_mlp_has_the_layers_it_was_asked_for():
    made = prepared("mlp", features=12, width=24, depth=3, classes=5)
    sizes = [(each.in_features, each.out_features) for each in made.model if isinstance(each, nn.Linear)]
    assert sizes == [(12, 24), (24, 24), (24, 24), (24, 5)]
    assert [type(each) for each in made.model] == [nn.Linear, nn.ReLU] * 3 + [nn.Linear]


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_one_branch_taken_otherwise_shows_in_the_loss(layer, monkeypatch):
    """What is compared between the targets of a pair would not pass for the same work."""
    right = losses(prepared("branching"), 10)
    real = torch.Tensor.__bool__
    taken = []

    def other(value):
        taken.append(value)
        return real(value) != (len(taken) == layer + 1)

    monkeypatch.setattr(torch.Tensor, "__bool__", other)
    wrong = losses(prepared("branching"), 10)
    assert max(abs(wrong[step] / right[step] - 1) for step in (0, 9)) > 1e-4


OWN = """
import helping

class Factory:
    def __init__(self, *, seed, size=3):
        self.made = seed, size, helping.VALUE
"""


def test_a_file_of_the_users_own_finds_what_lies_beside_it(tmp_path, monkeypatch):
    (tmp_path / "helping.py").write_text("VALUE = 7")
    monkeypatch.setattr(sys, "path", [*sys.path])
    made = load(f"{tmp_path}/own.py:Factory", OWN, seed=5, parameters={"size": 9})  # own.py itself need not be there
    assert made.made == (5, 9, 7)


RUNG = "def apart(*, seed, rung='mine'): return seed, rung\n"
RUNG += "def whole(*, seed): return seed\ndef anything(**given): return given\n"


@pytest.fixture
def rung_of(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    return lambda factory, rung: load(f"{tmp_path}/own.py:{factory}", RUNG, seed=4, parameters={}, rung=rung)


@pytest.mark.parametrize(
    ("rung", "told"),
    [("e2e", "e2e"), ("nowait", "e2e"), ("preload", "preload"), ("resident", "resident"), ("nosync", "nosync")],
)
def test_an_own_factory_that_takes_the_rung_is_told_which_step_to_make(rung_of, rung, told):
    assert rung_of("apart", rung) == (4, told)


@pytest.mark.parametrize("rung", ["e2e", "nowait"])
def test_an_own_factory_that_does_not_take_the_rung_is_not_told(rung_of, rung):
    assert rung_of("whole", rung) == 4
    assert rung_of("anything", rung) == {"seed": 4}


@pytest.mark.parametrize(
    ("factory", "rung"), [("apart", "kernel"), ("apart", "twin"), ("whole", "preload"), ("anything", "nosync")]
)
def test_an_own_factory_is_asked_for_no_rung_that_it_does_not_have(rung_of, factory, rung):
    with pytest.raises(ValueError, match=f"own.py:{factory} has no rung {rung}"):
        rung_of(factory, rung)


@pytest.mark.parametrize(
    ("rung", "loads", "place", "reads"),
    [("e2e", 1, "cpu", 1), ("preload", 0, "cpu", 1), ("resident", 0, "meta", 1), ("nosync", 0, "meta", 0)],
)
def test_the_training_of_the_guide_leaves_out_what_its_rung_says(rung, loads, place, reads, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (source,) = re.findall(r"^```python\n(# my_training\.py\n.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    made = load(f"{tmp_path}/my_training.py:Training", source, seed=1, parameters={"batch_size": 8}, rung=rung)
    made.prepare(torch.device("meta"), "gpu")
    assert made.ready.device.type == place
    made.prepare(CPU, "cpu")
    first, *_, last = losses(made, 30)
    assert last < first / 2
    with Operators() as seen:
        made.step()
    assert (seen.names["randint"], seen.names["_local_scalar_dense"]) == (loads, reads)


def test_the_installed_source_of_a_module_says_whether_it_takes_the_rung(tmp_path, monkeypatch):
    (tmp_path / "rungs_taken.py").write_text(RUNG)
    monkeypatch.syspath_prepend(tmp_path)
    assert load("rungs_taken:apart", None, seed=1, parameters={}, rung="preload") == (1, "preload")
    assert load("rungs_taken:whole", None, seed=1, parameters={}) == 1


def test_a_file_with_the_name_of_a_library_module_replaces_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    import random

    source = "class Factory:\n    def __init__(self, *, seed): ..."
    load(f"{tmp_path}/random.py:Factory", source, seed=0, parameters={})
    assert sys.modules["random"] is random


def test_a_file_can_define_what_looks_itself_up(tmp_path, monkeypatch):
    """A dataclass, or what is pickled, looks for its module by name."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    source = "from __future__ import annotations\nimport dataclasses, pickle\n"
    source += "@dataclasses.dataclass\nclass Factory:\n    seed: int\n"
    source += "    def copy(self): return pickle.loads(pickle.dumps(self))\n"
    made = load(f"{tmp_path}/own.py:Factory", source, seed=2, parameters={})
    assert made.copy() == made


def test_a_module_of_a_package_can_import_its_neighbours(tmp_path, monkeypatch):
    package = tmp_path / "trained"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "neighbour.py").write_text("VALUE = 8")
    source = "from trained import neighbour\nfrom . import neighbour as same\n"
    source += "def factory(*, seed): return (seed, neighbour.VALUE, same.VALUE, __name__)"
    (package / "model.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    assert load("trained.model:factory", source, seed=1, parameters={}) == (1, 8, 8, "trained.model")
    assert load("trained.model:factory", None, seed=1, parameters={}) == (1, 8, 8, "trained.model")


def test_a_module_that_is_not_on_this_node_comes_as_text():
    source = "def factory(*, seed): return seed + 1"
    assert load("not_installed_here.model:factory", source, seed=1, parameters={}) == 2
    with pytest.raises(ModuleNotFoundError, match="not_installed_here"):
        load("not_installed_here.model:factory", None, seed=1, parameters={})


def test_a_module_that_lacks_a_dependency_says_which(tmp_path, monkeypatch):
    source = "import no_such_dependency\ndef factory(*, seed): ..."
    (tmp_path / "lacking.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        load("lacking:factory", source, seed=0, parameters={})
