"""The product of matrices: right, copied as often as asked, and its figures are those of its tensors."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.runner.small import CPU, Operators, made_of, prepared

pytestmark = pytest.mark.usefixtures("one_thread")
SHAPE = {"m": 6, "n": 10, "k": 14}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(
    "asked", [{}, {"transfer": "once", "accelerator": True}, {"transfer": "always", "accelerator": True}]
)
@pytest.mark.parametrize("iterations", [1, 3])
def test_the_host_has_the_product_after_a_step(dtype, asked, iterations):
    made = prepared("gemm", **SHAPE, dtype=dtype, iterations=iterations, **asked)
    first = made.step()
    a, b, _ = made._host
    c = (made._host if asked else made._on_device)[2]
    assert (a.shape, b.shape, c.shape) == ((6, 14), (14, 10), (6, 10))
    assert {a.dtype, b.dtype, c.dtype} == {getattr(torch, dtype)}
    assert torch.equal(c, a @ b)
    assert first.item() == c[0, 0].item() > 0


def test_a_new_step_multiplies_what_is_on_the_host_now():
    made = prepared("gemm", **SHAPE, accelerator=True)
    first = made.step().item()
    made._host[0].mul_(2)
    assert made.step().item() == pytest.approx(2 * first)


def test_sizes_that_are_not_given_are_the_size():
    made = prepared("gemm", size=7, n=3)
    assert [tuple(each.shape) for each in made._host] == [(7, 7), (7, 3), (7, 3)]


def test_the_same_seed_makes_the_same_matrices_in_every_type():
    exact = prepared("gemm", dtype="float64", seed=5)._host
    for one, other in zip(prepared("gemm", seed=5)._host, exact, strict=True):
        assert torch.equal(one.double(), other)
    assert not torch.equal(prepared("gemm", seed=6)._host[0].double(), exact[0])


@pytest.mark.parametrize(("transfer", "times"), [("once", 1), ("always", 3)])
def test_matrices_are_copied_as_often_as_asked(transfer, times, monkeypatch):
    made = prepared("gemm", **SHAPE, iterations=3, transfer=transfer, accelerator=True)
    there = {each.data_ptr() for each in made._on_device}
    assert there.isdisjoint({each.data_ptr() for each in made._host})
    events, copy, product = [], torch.Tensor.copy_, torch.mm

    def spied(to, what):
        events.append("in" if to.data_ptr() in there else "out")
        made.h2d += what.nbytes if to.data_ptr() in there else 0
        return copy(to, what)

    made.h2d = 0
    monkeypatch.setattr(torch.Tensor, "copy_", spied)
    monkeypatch.setattr(torch, "mm", lambda *of, **out: (events.append("product"), product(*of, **out))[1])
    made.step()
    one = [*["in"] * 3, *["product"] * (3 // times), "out"]
    assert events == one * times
    assert made.h2d == made.h2d_bytes_per_step == times * 4 * (6 * 14 + 14 * 10 + 6 * 10)
    assert made.syncs_per_step == times


def test_a_cpu_copies_nothing_and_has_the_figures_of_once(monkeypatch):
    made = prepared("gemm", **SHAPE, iterations=3)
    monkeypatch.setattr(torch.Tensor, "copy_", lambda *_: pytest.fail("copied"))
    made.step()
    assert made.h2d_bytes_per_step == made_of("gemm", **SHAPE, iterations=3, accelerator=True).h2d_bytes_per_step


@pytest.mark.parametrize("asked", [{}, {"transfer": "always", "accelerator": True}])
def test_the_figures_are_those_that_torch_counts(asked):
    made = prepared("gemm", **SHAPE, iterations=3, **asked)
    with FlopCounterMode(display=False) as counter, Operators() as seen:
        made.step()
    assert made.flops_per_step == counter.get_total_flops() == 3 * 2 * 6 * 10 * 14
    assert made.ops_per_step == seen.names["mm"] == 3
    assert made.parameter_bytes == 0


def test_a_replay_can_stand_in_for_the_products():
    made = prepared("gemm", **SHAPE, iterations=3, accelerator=True)
    made.use_static_inputs()
    calls, train = [], made.train
    made.train = lambda: (calls.append(1), train())[1]
    assert made.step().item() == prepared("gemm", **SHAPE).step().item()
    assert len(calls) == 1
    made.prepare(CPU, "cpu")
    made.step()
    assert len(calls) == 1
