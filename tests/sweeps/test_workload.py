"""Configurations: what workloads can be asked, and what fills in the rest."""

import pytest

from sweeps.errors import InputError
from sweeps.families import FAMILIES, KNOWN
from sweeps.workload import complete, on_device


def test_a_configuration_is_completed_with_defaults():
    found = complete("mlp", {"width": 8}, ("width",))
    assert found["width"] == 8
    assert found["features"] == FAMILIES["mlp"].parameters["features"].default
    assert (found["loader"], found["transfer"], found["sync"], found["optimizer"], found["lr"]) == (
        *("slice", "pageable", "end", "SGD", 0.01),
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_defaults_are_legal_and_parameters_have_a_meaning(family):
    parameters = FAMILIES[family].parameters
    assert list(complete(family, {}, ())) == list(parameters)
    assert all(p.meaning for p in parameters.values())
    assert all(p.default is None or p.read(p.default) == p.default for p in parameters.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_twin_is_asked_the_same(family):
    if twin := FAMILIES[family].twin:
        assert FAMILIES[twin].parameters == FAMILIES[family].parameters
        assert FAMILIES[family].twin_words


def test_a_name_means_one_kind_of_thing_in_all_families():
    for family in FAMILIES.values():
        assert all(KNOWN[name].arrow == parameter.arrow for name, parameter in family.parameters.items())


@pytest.mark.parametrize(
    ("workload", "given", "axes", "why"),
    [
        ("mpl", {}, (), r'workload: "mpl" is not known; linear, mlp, .*, or FILE.py:factory\. Did you mean mlp\?'),
        ("mlp", {"widht": 8}, (), r"parameters\.widht: mlp has no such parameter; .*\. Did you mean width\?"),
        ("mlp", {"image": 8}, ("image",), r"axes\.image: mlp has no such parameter; features, width"),
        ("mlp", {"loader": "fast"}, (), r'parameters\.loader: "fast" is not allowed; .* one of dataloader, gather, sl'),
        ("mlp", {"lr": 0}, (), r"parameters\.lr: 0 is not allowed; lr of mlp is a number above 0$"),
        ("mlp", {"lr": True}, (), r"parameters\.lr: true is not allowed"),
        ("mlp", {"optimizer": "Adma"}, (), r'"Adma" is not allowed; optimizer of mlp is one of ASGD, .*SGD$'),
        ("mlp", {"optimizer": "LBFGS"}, (), r'"LBFGS" is not allowed'),
        (
            "mlp",
            {"optimizer": "Adam", "momentum": 0.9},
            (),
            r"parameters\.momentum: Adam has no such argument; weight",
        ),
        ("mlp", {"fused": 1}, (), r"parameters\.fused: 1 is not allowed; fused of mlp is true or false"),
        ("mlp", {"fused": True, "foreach": True}, ("fused",), r"axes\.fused: an optimizer is either fused or foreach"),
        ("mlp", {"nesterov": True}, (), r"parameters\.nesterov: nesterov needs a momentum above 0"),
        ("mlp", {"nesterov": True, "momentum": 0.9, "dampening": 0.5}, (), r"parameters\.nesterov: .* no dampening"),
        ("mlp", {"weight_decay": -1}, (), r"parameters\.weight_decay: -1 is not allowed; .* is a number >= 0"),
        ("gemm", {"size": 8, "m": 8, "n": 8, "k": 8}, ("size",), r"axes\.size: means nothing where m, n, k are given"),
        ("mlp", {"loader_workers": 2}, (), r"loader_workers: means something with loader: dataloader only"),
        ("mlp", {"sync_every": 2}, ("sync_every",), r"axes\.sync_every: means something with sync: every_step only"),
        ("mlp", {"loader": "resident", "transfer": "pinned"}, (), r"transfer: pinned cannot be with loader: resident"),
        ("linear", {"transfer": "resident"}, (), r"transfer: resident cannot be with loader: dataloader"),
        ("gemm", {"transfer": "pinned"}, (), r'transfer: "pinned" is not allowed; .* one of once, always$'),
        ("gemm", {"loader": "slice"}, (), r"parameters\.loader: gemm has no such parameter; size, m, n, k"),
        ("mlp", {"width": 0}, (), r"parameters\.width: 0 is not allowed; width of mlp is a whole number >= 1$"),
        ("mlp", {"width": -1}, ("width",), r"axes\.width: -1 is not allowed; width of mlp is a whole number >= 1$"),
        ("mlp", {"classes": 1}, (), r"parameters\.classes: 1 is not allowed; .* >= 2"),
        ("mlp", {"width": True}, (), r"parameters\.width: true is not allowed; .* whole number"),
        ("mlp", {"width": "8"}, (), r'parameters\.width: "8" is not allowed; .* whole number'),
        ("mlp", {"width": 2.5}, (), r"parameters\.width: 2\.5 is not allowed; .* whole number >= 1$"),
        ("mlp", {"width": 1e3}, (), r"parameters\.width: 1000\.0 is not allowed; .* \(write 1000\)"),
        ("linear", {"batch_size": 64, "rows": 32}, ("rows",), r"parameters\.batch_size: 64 is more than the 32 rows"),
        (
            "transformer",
            {"heads": 3},
            (),
            r"parameters\.heads: 3 heads cannot share a width of 128; .* multiple of heads$",
        ),
        ("transformer", {"width": 6}, ("width",), r"parameters\.heads: 4 heads cannot share a width of 6"),
        ("transformer", {"heads": 5, "width": 6}, ("heads",), r"axes\.heads: 5 heads cannot share a width of 6"),
        ("cnn", {"image": 3}, (), r"parameters\.image: 3 is not allowed; image of cnn is a whole number >= 4$"),
    ],
)
def test_what_a_family_does_not_take(workload, given, axes, why):
    with pytest.raises(InputError, match=why):
        complete(workload, given, axes)


@pytest.mark.parametrize(
    ("given", "settled"),
    [
        ({"loader": "resident"}, {"transfer": "resident", "loader_workers": None}),
        ({"loader": "gather", "transfer": "resident"}, {"transfer": "resident"}),
        ({"loader": "dataloader"}, {"loader_workers": 0}),
        ({"sync": "end"}, {"sync_every": None}),
        ({"sync": "every_step", "sync_every": 10}, {"sync_every": 10}),
        ({"optimizer": "AdamW", "weight_decay": 1, "fused": False}, {"weight_decay": 1.0, "fused": False}),
        ({}, {"clip_norm": None}),
    ],
)
def test_a_lever_that_means_nothing_beside_another_is_null(given, settled):
    found = complete("mlp", given, ())
    assert {name: found[name] for name in settled} == settled


def test_a_number_is_one_question_however_it_is_written():
    whole, written = (complete("mlp", {"lr": lr}, ()) for lr in (1, 1.0))
    assert repr(whole) == repr(written)


def test_what_means_nothing_on_a_cpu_is_null_there():
    asked = complete("mlp", {"transfer": "pinned"}, ())
    assert on_device("mlp", asked, accelerator=True) == asked
    assert on_device("mlp", asked, accelerator=False) == asked | {"transfer": None}
    assert on_device("own.py:make", {"transfer": "mine"}, accelerator=False) == {"transfer": "mine"}


def test_matrices_are_square_where_nobody_says_otherwise():
    found = complete("gemm", {"size": 64, "n": 8}, ("size",))
    assert {name: found[name] for name in ("size", "m", "n", "k")} == {"size": 64, "m": 64, "n": 8, "k": 64}
