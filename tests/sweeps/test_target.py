"""Targets: shorthands, full forms, and what is neither."""

import pytest
from pydantic import ValidationError

from sweeps.definition import Sweep
from sweeps.sweep_file import join, read
from sweeps.target import Target


@pytest.mark.parametrize(
    ("shorthand", "device", "threads", "needs_accelerator"),
    [
        ("cpu", "cpu", "all", False),
        ("cpu-1", "cpu", 1, False),
        ("cpu-64", "cpu", 64, False),
        ("gpu", "gpu", "all", True),
        ("cuda", "cuda", "all", True),
        ("mps", "mps", "all", True),
    ],
)
def test_shorthands(shorthand, device, threads, needs_accelerator):
    target = Target.model_validate(shorthand)
    assert target == Target(name=shorthand, device=device, threads=threads)
    assert target.needs_accelerator is needs_accelerator


@pytest.mark.parametrize(
    ("shorthand", "means"),
    [
        ("cpu-passive", {"device": "cpu", "wait_policy": "passive"}),
        ("cpu-compile", {"device": "cpu", "mode": "compile"}),
        ("gpu-graph", {"device": "gpu", "mode": "cudagraph"}),
        ("gpu-compile", {"device": "gpu", "mode": "compile"}),
        ("gpu-tf32", {"device": "gpu", "precision": "tf32"}),
        ("cpu-2", {"device": "cpu", "threads": 2}),
        ("gpu", {"device": "gpu"}),
    ],
)
def test_what_a_target_means_beside_its_name(shorthand, means):
    assert Target.model_validate(shorthand).described == means


@pytest.mark.parametrize("device", ["cpu", "mps"])
@pytest.mark.parametrize("lever", [{"mode": "cudagraph"}, {"precision": "tf32"}])
def test_what_only_cuda_has_is_refused_elsewhere(lever, device):
    with pytest.raises(ValidationError, match=f"{next(iter(lever))}: .* only CUDA does"):
        Target(name="a", device=device, **lever)
    assert Target(name="a", device="gpu", **lever).described == {"device": "gpu", **lever}


@pytest.mark.parametrize(
    "wrong", [{"mode": "fast"}, {"precision": "bf16"}, {"wait_policy": "spin"}, {"wait": "no"}, {"wait": 0}]
)
def test_levers_of_a_target_are_words_of_a_list(wrong):
    with pytest.raises(ValidationError):
        Target(name="a", device="gpu", **wrong)


def test_the_full_form():
    assert Target.model_validate({"name": "half", "device": "cpu", "threads": 8}).threads == 8
    assert Target.model_validate({"name": "half", "device": "cpu"}).threads == "all"


@pytest.mark.parametrize("text", ["tpu", "CPU", "cpu-0", "cpu-01", "cpu--1", "cpu-x", "cpu-99999", "gpu-1", "", "cpu "])
def test_other_texts_are_told_the_legal_ones(text):
    with pytest.raises(
        ValidationError,
        match=r"is not a target; one of cpu, cpu-passive, cpu-compile, gpu, gpu-graph, .*, mps, cpu-1",
    ):
        Target.model_validate(text)


def test_a_near_miss_is_suggested():
    with pytest.raises(ValidationError, match=r"Did you mean gpu\?"):
        Target.model_validate("gpuu")


@pytest.mark.parametrize("threads", [0, -1, 10_000, 1.5, 2.0, "2", "none", True, None, float("inf"), float("nan")])
def test_threads_are_a_whole_number_or_all(threads):
    with pytest.raises(ValidationError):
        Target(name="a", device="cpu", threads=threads)


@pytest.mark.parametrize("name", ["", "a b", "../a", "a/b", "-a", ".a", "a\n", "ü", "a" * 65, 3])
def test_a_name_can_be_a_folder_a_label_and_a_word(name):
    with pytest.raises(ValidationError):
        Target(name=name, device="cpu")


def test_unknown_keys_and_devices_are_refused():
    with pytest.raises(ValidationError):
        Target.model_validate({"name": "a", "device": "cpu", "modes": "compile"})
    with pytest.raises(ValidationError):
        Target.model_validate({"name": "a", "device": "tpu"})


def test_a_price_is_no_part_of_what_it_means():
    priced = Target(name="gpu", device="gpu", price_per_hour=1.5)
    assert priced.described == Target.model_validate("gpu").described
    assert Target.model_validate("gpu").price_per_hour is None
    assert Target(name="gpu", device="gpu", price_per_hour=None).price_per_hour is None
    assert Target(name="gpu", device="gpu", price_per_hour=2).price_per_hour == 2.0


@pytest.mark.parametrize("price", [0, -1, "3", True, float("inf"), float("nan"), [1]])
def test_a_price_is_a_number_above_zero(price):
    with pytest.raises(ValidationError, match="price_per_hour"):
        Target(name="a", device="cpu", price_per_hour=price)


def test_a_price_changes_no_trial_and_no_study():
    """It may be added, changed and left out again when all is measured: the same trials, and the last price counts."""

    def asked(price):
        gpu = {"name": "gpu", "device": "gpu", "price_per_hour": price}
        return Sweep.model_validate(
            {"name": "made", "workload": "mlp", "axes": {"batch_size": [2, 4]}, "targets": ["cpu", gpu]}
        )

    def trials(sweep):
        return [[trial.trial_id for trial in pair] for pair in sweep.pairs()]

    plain, cheap, dear = asked(None), asked(1.0), asked(3)
    assert trials(plain) == trials(cheap) == trials(dear)
    assert join(dear, cheap) == join(dear, plain) == join(plain, dear) == dear
    assert read(dear.dump().encode(), "sweep.yaml") == dear
    without = "\n".join(line for line in plain.dump().splitlines() if "price_per_hour" not in line)
    assert read(without.encode(), "sweep.yaml") == plain  # as older versions wrote it


def test_a_price_is_taken_from_another_one_that_has_it():
    dear, cheap, free = (Target(name="a", device="cpu", price_per_hour=price) for price in (2.0, 1.0, None))
    assert free.priced_as(dear) == dear
    assert cheap.priced_as(dear) == cheap.priced_as(free) == cheap


def test_where_it_runs_is_part_of_what_it_means():
    typed = Target(name="t4", device="gpu", where={"accelerator_type": "T4", "ray.io/market-type": "spot"})
    assert typed.described == {"device": "gpu", "where": typed.where}
    assert "where" not in Target.model_validate("gpu").described


@pytest.mark.parametrize(
    "where",
    [{"size": 3}, {"size": ""}, {"size": "a b"}, {"size": "a\n"}, {"": "a"}, {"a b": "c"}, {"-a": "c"}, ["a"], "a"],
)
def test_labels_are_what_ray_takes(where):
    with pytest.raises(ValidationError, match="where"):
        Target(name="a", device="cpu", where=where)
