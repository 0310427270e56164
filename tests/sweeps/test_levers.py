"""Levers: the table of optimizers against torch itself, and parameters divided by what they are for."""

import inspect

import pytest
import torch

from sweeps.families import FAMILIES
from sweeps.levers import OPTIMIZERS, SCALARS, optimizer_arguments, split
from sweeps.workload import complete

LEFT_OUT = {"LBFGS", "Muon", "SparseAdam"}


def scalars_of(optimizer):
    """Arguments of torch's own class whose default is a number or a truth value, or that are switches left to it."""
    arguments = inspect.signature(getattr(torch.optim, optimizer)).parameters.values()
    return {
        a.name
        for a in arguments
        if a.name not in ("params", "lr", "capturable", "differentiable")
        and (a.name in ("foreach", "fused") or isinstance(a.default, int | float))
    }


def test_every_optimizer_of_torch_is_here_or_left_out_for_a_reason():
    found = {
        name
        for name, value in vars(torch.optim).items()
        if isinstance(value, type) and issubclass(value, torch.optim.Optimizer) and value is not torch.optim.Optimizer
    }
    assert found - LEFT_OUT == set(OPTIMIZERS)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_optimizer_takes_what_torch_takes(optimizer):
    assert set(OPTIMIZERS[optimizer]) == scalars_of(optimizer)


@pytest.mark.parametrize("name", SCALARS)
def test_truth_values_are_those_of_torch(name):
    defaults = [
        inspect.signature(getattr(torch.optim, o)).parameters[name].default
        for o, names in OPTIMIZERS.items()
        if name in names
    ]
    is_flag = all(default is None or isinstance(default, bool) for default in defaults)
    assert (SCALARS[name].legal == "true or false") is is_flag


def test_an_unknown_optimizer_takes_nothing():
    assert optimizer_arguments("SGDD") == {}
    assert optimizer_arguments(None) == {}


def test_parameters_are_divided_by_what_they_are_for():
    sizes, levers, arguments = split(complete("mlp", {"optimizer": "Adam", "weight_decay": 0.1, "width": 8}, ()))
    assert sizes == {"features": 256, "width": 8, "depth": 2, "classes": 10, "batch_size": 64}
    assert set(levers) == set(FAMILIES["mlp"].usual)
    assert arguments == {"weight_decay": 0.1}
