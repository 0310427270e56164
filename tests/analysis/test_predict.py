"""Which target at which size: the same bands as the verdict, and nothing outside what was measured."""

import json
import math

import numpy as np
import pytest

from analysis import crossovers
from analysis.bands import band_at
from analysis.load import load
from analysis.predict import predict, to_json
from analysis.summary import summarise
from benchmarks.simulator import simulate
from sweeps.errors import InputError
from tests.analysis.synthetic import ASKED, at_sizes, falling, made_frame

WIDE = {"axes": {"batch_size": [4, 16, 64, 256, 1024, 4096], "width": [64, 256]}}
#: As in the studies that are made here: the two cross at 100.
TIMES = {"cpu": lambda size: 1e-5 * size, "gpu": lambda size: 9e-4 + 1e-6 * size}


def speedup(size):
    return TIMES["cpu"](size) / TIMES["gpu"](size)


def nodes(frame):
    sizes = summarise(frame, **ASKED)
    half = (sizes["log_ratio"] - sizes["log_ratio_low"]).to_numpy()
    return np.log(sizes["size"].to_numpy(dtype=float)), sizes["log_ratio"].to_numpy(), half


@pytest.mark.parametrize("crossing", [30.0, 100.0, 700.0])
@pytest.mark.parametrize("noise", [0.004, 0.02])
def test_the_band_meets_zero_where_the_interval_ends(crossing, noise):
    frame = made_frame(falling(crossing), noise=noise)
    (row,) = crossovers(frame, **ASKED).to_dict("records")
    read = {name: band_at(*nodes(frame), math.log(row[name])) for name in ("low", "estimate", "high")}
    assert read["low"][1] == pytest.approx(0, abs=1e-9)
    assert read["estimate"][0] == pytest.approx(0, abs=1e-9)
    assert read["high"][2] == pytest.approx(0, abs=1e-9)


def test_the_band_meets_zero_where_the_interval_ends_beside_a_corner_too():
    ratios = {16: 0.9, 32: 0.8, 64: 0.3, 128: -0.4, 256: -0.5, 512: -0.9}
    frame = at_sizes(ratios)
    (row,) = crossovers(frame, **ASKED).to_dict("records")
    assert band_at(*nodes(frame), math.log(row["low"]))[1] == pytest.approx(0, abs=1e-9)
    assert band_at(*nodes(frame), math.log(row["high"]))[2] == pytest.approx(0, abs=1e-9)


def test_at_a_measured_size_the_band_is_that_of_the_size():
    position, value, half = nodes(made_frame(falling(), noise=0.01))
    for at, middle, width in zip(position, value, half, strict=True):
        assert band_at(position, value, half, at) == pytest.approx((middle, middle - width, middle + width))
    assert band_at(position[:1], value[:1], half[:1], position[0])[0] == value[0]


@pytest.mark.parametrize("kind", ["clean", "reversed", "knee", "always_challenger", "several", "shallow"])
def test_the_interval_of_a_prediction_holds_the_truth(kind):
    made = simulate(kind, groups=40, passes=5, seed=7)
    rng, held = np.random.default_rng(3), []
    sizes = summarise(made.frame, **ASKED, group_by=["sweep"])
    for group, truth in enumerate(made.truths):
        own = sizes[sizes["sweep"] == group]
        position = np.log(own["size"].to_numpy(dtype=float))
        half = (own["log_ratio"] - own["log_ratio_low"]).to_numpy()
        for at in rng.uniform(position[0], position[-1], 5):
            true_ratio = float((truth.gpu(np.array([at])) - truth.cpu(np.array([at])))[0])
            _, low, high = band_at(position, own["log_ratio"].to_numpy(), half, at)
            held.append(low <= true_ratio <= high)
    assert np.mean(held) >= 0.93


@pytest.mark.parametrize(
    ("size", "use"), [(5, "cpu"), (64, "cpu"), (80, "cpu"), (130, "gpu"), (300, "gpu"), (4096, "gpu")]
)
def test_inside_the_range_a_target_is_named_and_a_factor(make_study, size, use):
    found = predict(load(make_study()), {"batch_size": size})
    assert found.inside
    assert found.use == use
    assert found.found.speedup_low < speedup(size) < found.found.speedup_high
    assert found.found.speedup == pytest.approx(speedup(size), rel=0.1)
    assert found.sentence.startswith(f"At batch_size {size}, {use} trains this mlp model ")
    assert ("read off the curve" in found.sentence) is (size not in (64, 4096))


def test_the_sentence_has_the_numbers(make_study):
    found = predict(load(make_study(noise=1e-4)), {"batch_size": "300"})
    assert found.sentence == (
        "At batch_size 300, gpu trains this mlp model 2.5x faster than cpu (95 % interval 2.4x to 2.6x). "
        "Measured at batch_size 256 and 1024; between them it is read off the curve."
    )


def test_too_close_to_call(make_study):
    found = predict(load(make_study()), {"batch_size": 100})
    assert (found.use, found.inside) == ("", True)
    assert found.found.speedup_low < 1 < found.found.speedup_high
    assert found.sentence.startswith(
        "At batch_size 100 it is too close to call which of cpu and gpu trains this mlp model faster: "
    )
    assert ", 95 % interval gpu 1." in found.sentence


@pytest.mark.parametrize(("size", "near"), [(3.9, 4), (1, 4), (4097, 4096), (1e9, 4096)])
def test_outside_nothing_is_said_but_what_the_nearest_point_showed(make_study, size, near):
    found = predict(load(make_study()), {"batch_size": size})
    assert (found.use, found.inside, found.found) == ("", False, None)
    assert found.nearest.size == near
    assert "is outside what was measured and compared (from 4 to 4096), so nothing is said of it." in found.sentence
    winner = "gpu" if near == 4096 else "cpu"
    assert f"The nearest measured point: At batch_size {near}, {winner} trains this mlp model" in found.sentence


def test_a_size_that_was_tried_in_vain_is_outside(make_study):
    place = make_study(fail=lambda target, size, _: ("oom", "full") if (target, size) == ("gpu", 4096) else None)
    found = predict(load(place), {"batch_size": 4096})
    assert not found.inside
    assert found.nearest.size == 1024
    assert "That size was tried, and there is no pair to compare (cpu: ok; gpu: oom)." in found.sentence


def test_where_a_limit_tells_the_winner_no_factor_is_invented(make_study):
    def fail(target, size, _):
        return ("timeout", "too slow") if target == "cpu" and size >= 1024 else None

    study = load(make_study(fail=fail))
    for size, more in ((4096, "cpu timed out"), (2000, "cpu timed out"), (500, "cpu timed out")):
        found = predict(study, {"batch_size": size})
        assert found.use == "gpu"
        assert math.isnan(found.found.speedup)
        assert found.sentence.startswith(
            f"At batch_size {size}, gpu trains this mlp model faster than cpu; by what factor is not known ({more})."
        )
    assert (
        json.loads(to_json(predict(study, {"batch_size": 4096})), parse_constant=pytest.fail)["found"]["speedup"]
        is None
    )


def test_between_a_loss_and_a_win_known_by_a_limit_the_winner_is_not_known(make_study):
    def fail(target, size, _):
        return ("timeout", "too slow") if target == "cpu" and size >= 256 else None

    found = predict(load(make_study(fail=fail)), {"batch_size": 100})
    assert (found.use, found.inside) == ("", True)
    assert found.sentence.startswith(
        "At batch_size 100 the winner is not known. Compared at batch_size 64 and 256, without a ratio at 256."
    )
    later = predict(load(make_study("later", fail=fail)), {"batch_size": 500}).sentence
    assert later.endswith(" Compared at batch_size 256 and 1024, without a ratio at either.")


@pytest.mark.parametrize(
    ("size", "use", "said"),
    [
        (100, "cpu", "gpu does not train this mlp model at least 30 % faster (1.43x) than cpu: "),
        (64, "cpu", "gpu does not train this mlp model at least 30 % faster (1.43x) than cpu: cpu 1."),
        (400, "gpu", "faster than cpu (95 % interval "),
        (150, "", "too close to call whether gpu trains this mlp model at least 30 % faster (1.43x) than cpu: gpu 1."),
    ],
)
def test_with_a_margin_the_challenger_has_to_keep_it(make_study, size, use, said):
    found = predict(load(make_study(margin=0.3)), {"batch_size": size})
    assert found.use == use
    assert said in found.sentence
    assert ("at least the 1.43x (30 % less time) that is asked for" in found.sentence) is (use == "gpu")


def test_with_a_margin_a_limit_says_no_more_than_it_knows(make_study):
    def fail(target, size, _):
        return ("timeout", "too slow") if target == ("cpu" if size > 64 else "gpu") else None

    study = load(make_study(margin=0.3, fail=fail))
    said = "does not train this mlp model at least 30 % faster (1.43x) than cpu; by what factor is not known (gpu timed"
    assert f"At batch_size 16, gpu {said}" in predict(study, {"batch_size": 16}).sentence
    said = "trains this mlp model at least 30 % faster (1.43x) than cpu; by what factor is not known (cpu timed out)"
    assert f"At batch_size 1024, gpu {said}" in predict(study, {"batch_size": 1024}).sentence


def test_a_size_within_the_range_that_was_tried_in_vain_says_so(make_study):
    study = load(make_study(fail=lambda target, size, _: ("error", "x") if (target, size) == ("gpu", 64) else None))
    told = predict(study, {"batch_size": 64}).sentence
    assert (
        " That size was tried, and there is no pair to compare (cpu: ok; gpu: error). Measured at batch_size 16 and 256"
        in told
    )
    assert "tried" not in predict(study, {"batch_size": 65}).sentence


def test_only_sizes_that_were_compared_are_offered(make_study):
    place = make_study(fail=lambda target, size, _: ("oom", "x") if (target, size) == ("gpu", 4096) else None)
    with pytest.raises(InputError, match=r"give also batch_size=\.\.\., from 4 to 1024$"):
        predict(load(place), {})
    place = make_study("none", fail=lambda target, *_: ("oom", "x") if target == "gpu" else None)
    with pytest.raises(InputError, match=r"give also batch_size=\.\.\., though no size could be compared$"):
        predict(load(place), {})


def test_a_jump_is_not_read_off_a_curve(make_study):
    def jumping(trial):
        size = trial.parameters["batch_size"]
        return 1e-3 if trial.target.name == "cpu" else 1e-3 * (0.5 if size > 100 else 1.9)

    found = predict(load(make_study(time_of=jumping)), {"batch_size": 128})
    assert found.use == ""
    assert "the ratio jumps, and may be anything between" in found.sentence
    assert found.found.speedup_low < 1 / 1.9 < 2 < found.found.speedup_high


def test_the_other_axes_choose_the_comparison(make_study):
    def time_of(trial):
        return TIMES[trial.target.name](trial.parameters["batch_size"]) * (
            5 if (trial.target.name, trial.parameters["width"]) == ("gpu", 256) else 1
        )

    study = load(make_study(time_of=time_of, **WIDE))
    narrow, wide = (predict(study, {"batch_size": 256, "width": width}) for width in ("64", 256))
    assert (narrow.use, wide.use) == ("gpu", "cpu")
    assert wide.sentence.startswith("At batch_size 256 and width 256, cpu trains")
    assert wide.values == {"batch_size": 256, "width": 256}


def test_kinds_of_machine_are_told_apart(make_study):
    def row(target, size, index):
        return {"host": f"node-{index % 2}", "cpu_model": ("Small CPU", "Big CPU")[index % 2]}

    study = load(make_study(row=row, passes=6))
    with pytest.raises(InputError, match=r"give also machine=\.\.\., one of Big CPU, 8 cores, .* and Small CPU"):
        predict(study, {"batch_size": 300})
    found = predict(study, {"batch_size": 300, "machine": "big"})
    assert found.values["machine"].startswith("Big CPU, 8 cores")
    assert "At batch_size 300 on Big CPU, 8 cores" in found.sentence
    with pytest.raises(InputError, match=r"^machine=cpu: is part of several; it can be Big CPU.* and Small CPU"):
        predict(study, {"batch_size": 300, "machine": "cpu"})


def test_a_lever_that_means_nothing_somewhere_need_not_be_given(make_study):
    levers = {
        "axes": {"batch_size": [4, 64, 1024], "loader": ["slice", "resident"], "transfer": ["pageable", "pinned"]}
    }
    levers["axes"]["loader"] = ["slice", "gather"]
    study = load(make_study(**levers))
    assert predict(study, {"batch_size": 64, "loader": "slice", "transfer": "pinned"}).inside
    with pytest.raises(InputError, match=r"give also transfer=\.\.\., one of pageable and pinned"):
        predict(study, {"batch_size": 64, "loader": "gather"})


def test_what_is_the_same_throughout_may_be_said_too(make_study):
    study = load(make_study())
    plain = predict(study, {"batch_size": 300})
    assert predict(study, {"batch_size": 300, "width": 256, "optimizer": "sgd", "machine": "example gpu"}) == plain
    assert plain.values == {"batch_size": 300}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, r"^to predict from study, give also batch_size=\.\.\., from 4 to 4096; width=\.\.\., one of 64 and 256$"),
        ({"width": 64}, r"^to predict from study, give also batch_size=\.\.\., from 4 to 4096$"),
        ({"batch_size": 3}, r"^to predict from study, give also width=\.\.\., one of 64 and 256$"),
        ({"batch_size": 3, "width": 65}, r"^width=65: was not measured there; it can be 64 and 256$"),
        ({"batch_size": "x", "width": 64}, r'^batch_size="x": must be a number above 0$'),
        ({"batch_size": 0, "width": 64}, r"^batch_size=0: must be a number above 0$"),
        ({"batch_size": True, "width": 64}, r"^batch_size=true: must be a number above 0$"),
        ({"batch_size": "inf", "width": 64}, "must be a number above 0"),
        ({"batchsize": 3}, r"^batchsize: is nothing that study varies or fixes; .* Did you mean batch_size\?$"),
        ({"batch_size": 3, "width": 64, "depth": 9}, r"^depth=9: was not measured; this study holds depth 2 only$"),
        ({"batch_size": 3, "width": 64, "machine": "TPU"}, "this study holds machine Example CPU 3000, 8 cores"),
        ({"batch_size": 3, "width": 64, "step_times_s": 3}, "is nothing that study varies or fixes"),
    ],
)
def test_what_cannot_be_is_answered_with_what_can(make_study, given, said):
    with pytest.raises(InputError, match=said):
        predict(load(make_study(**WIDE)), given)


def test_nothing_compared_is_said(make_study):
    place = make_study(fail=lambda target, *_: ("unavailable", "no GPU here") if target == "gpu" else None)
    found = predict(load(place), {"batch_size": 64})
    assert (found.inside, found.nearest) == (False, None)
    assert found.sentence.startswith("Nothing was compared there. No gpu trial finished: no GPU here")


def test_where_the_study_is_not_sure_a_prediction_says_so(make_study):
    times = {"cpu": lambda size: 1e-3, "gpu": lambda size: 1e-3 * (1.0 if size > 64 else 1.5)}
    found = predict(load(make_study(times=times)), {"batch_size": 16})
    assert found.use == "cpu"
    assert "Of the whole range the study is not sure: " in found.sentence


def test_json_holds_the_same(make_study):
    found = predict(load(make_study()), {"batch_size": 300})
    told = json.loads(to_json(found), parse_constant=pytest.fail)
    assert told["sentence"] == found.sentence
    assert told["use"] == "gpu"
    assert told["found"]["speedup"] == found.found.speedup
    assert (told["inside"], told["nearest"]["size"], told["margin"]) == (True, 256.0, 0.0)
    outside = json.loads(to_json(predict(load(make_study("other")), {"batch_size": 9999})), parse_constant=pytest.fail)
    assert (outside["use"], outside["found"], outside["inside"]) == (None, None, False)


def test_between_sizes_that_lie_far_apart_anything_is_possible(make_study):
    study = load(make_study(sizes=(4, 4096), noise=0.005))
    found = predict(study, {"batch_size": 100})
    assert found.use == ""
    assert "the sizes lie too far apart for a curve between them" in found.sentence
    assert predict(study, {"batch_size": 4096}).use == "gpu"
