"""Money and energy of a step: the same question, asked of other numbers."""

import math
from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

from analysis import crossovers
from analysis.measures import energy_words, has_energy, in_energy, priced
from analysis.outcomes import NO_ENERGY, NO_PRICE
from analysis.summary import summarise
from tests.analysis.synthetic import ASKED, falling, made_frame, with_status

START = datetime(2026, 1, 2, tzinfo=UTC)


def test_a_step_costs_its_seconds_at_the_price_of_an_hour():
    frame = made_frame(falling())
    found = priced(frame, {"cpu": 0.36, "gpu": 3.6})
    for target, per_s in (("cpu", 1e-4), ("gpu", 1e-3)):
        before, after = (own.loc[own["target"] == target, "step_times_s"].tolist() for own in (frame, found))
        assert all(list(b) == pytest.approx([each * per_s for each in a]) for a, b in zip(before, after, strict=True))
    assert frame["step_times_s"].map(type).eq(list).all()  # the frame given is not changed


@pytest.mark.parametrize("factor", [0.5, 1.0, 4.0])
def test_the_crossing_in_money_lies_where_the_prices_say(factor):
    # The gpu needs (size / 100)^-0.7 of the cpu's time, and costs `factor` times as much an hour.
    frame = made_frame(falling(crossing=100, slope=0.7))
    (row,) = crossovers(priced(frame, {"cpu": 2.0, "gpu": 2.0 * factor}), **ASKED).to_dict("records")
    assert row["verdict"] == "crosses"
    assert row["low"] < 100 * factor ** (1 / 0.7) < row["high"]


def test_equal_prices_change_nothing():
    frame = made_frame(falling()).assign(resolution_s=1e-5)
    time, money = crossovers(frame, **ASKED), crossovers(priced(frame, {"cpu": 7.0, "gpu": 7.0}), **ASKED)
    assert money[["verdict", "direction"]].equals(time[["verdict", "direction"]])
    for name in ("estimate", "low", "high", "bracket_low", "bracket_high"):
        assert money[name].tolist() == pytest.approx(time[name].tolist())


def test_steps_too_short_for_the_clock_stay_so():
    frame = made_frame(falling()).assign(
        step_times_s=lambda own: [[1e-6 * t for t in ts] for ts in own["step_times_s"]]
    )
    sizes = summarise(priced(frame, {"cpu": 1.0, "gpu": 1.0}), **ASKED)
    assert sizes["state"].tolist() == summarise(frame, **ASKED)["state"].tolist()
    assert (sizes["baseline_status"] == "below resolution").any()


def test_a_target_without_a_price_has_nothing_to_compare():
    found = priced(made_frame(falling()), {"cpu": 1.0, "gpu": None})
    assert set(found.loc[found["target"] == "gpu", "status"]) == {NO_PRICE}
    (row,) = crossovers(found, **ASKED).to_dict("records")
    assert row["verdict"] == "undetermined"
    assert set(summarise(found, **ASKED)["challenger_status"]) == {NO_PRICE}


@pytest.mark.parametrize(("price", "state"), [(1.0, "challenger"), (5.9, "challenger"), (6.1, "unknown")])
def test_a_limit_in_seconds_is_one_in_money(price, state):
    """The cpu ran into 60 s, and the gpu finished in 10: it is known to be cheaper up to six times the price."""
    frame = made_frame(falling()).assign(deadline_s=60.0, started_at=START, finished_at=START + timedelta(seconds=10))
    frame = with_status(frame, "timeout", target="cpu", sizes=[2048])
    last = summarise(priced(frame, {"cpu": 1.0, "gpu": price}), **ASKED).iloc[-1]
    assert last["state"] == state


def energetic(frame, joules):
    """The frame with what its device took in the timed part: `joules` a step, by target and size."""
    steps = frame["step_times_s"].map(lambda times: 0 if times is None else 3 * len(times))
    spent = [joules[target](size) for target, size in zip(frame["target"], frame["size"], strict=True)]
    return frame.assign(
        energy_j=steps * spent, steps_per_block=3, device=frame["target"].map({"cpu": "cpu", "gpu": "cuda"})
    )


JOULES = {"cpu": lambda size: 1e-3 * size, "gpu": lambda size: 0.2}


def test_the_energy_of_a_step_is_that_of_all_timed_steps_over_their_number():
    found = in_energy(energetic(made_frame(falling(), noise=0.0), JOULES))
    for row in found.to_dict("records"):
        assert row["step_times_s"] == pytest.approx([JOULES[row["target"]](row["size"])])


def test_the_crossing_in_energy():
    (row,) = crossovers(in_energy(energetic(made_frame(falling(50)), JOULES)), **ASKED).to_dict("records")
    assert row["verdict"] == "crosses"
    assert row["low"] < 200 < row["high"]
    assert (row["bracket_low"], row["bracket_high"]) == (128, 256)


def test_trials_that_measured_no_energy_are_left_out_and_a_limit_says_nothing():
    frame = energetic(made_frame(falling()), JOULES)
    frame.loc[frame["size"] <= 64, "energy_j"] = math.nan
    frame = with_status(frame, "timeout", target="cpu", sizes=[2048])
    frame = with_status(frame, "oom", target="gpu", sizes=[1024])
    found = in_energy(frame)
    sizes = summarise(found, **ASKED)
    assert set(sizes.loc[sizes["size"] <= 64, "baseline_status"]) == {NO_ENERGY}
    assert sizes.set_index("size")["state"][2048] == "unknown"
    assert sizes.set_index("size")["challenger_status"][1024] == "oom"
    assert set(in_energy(made_frame(falling()))["status"]) == {NO_ENERGY}


def test_energy_is_compared_only_where_both_sides_have_some():
    frame = energetic(made_frame(falling()), JOULES)
    sides = {"baseline": "cpu", "challenger": "gpu"}
    assert has_energy(frame, **sides)
    assert not has_energy(frame.assign(energy_j=frame["energy_j"].where(frame["target"] == "gpu")), **sides)
    assert not has_energy(frame.assign(energy_j=0.0), **sides)
    assert not has_energy(made_frame(falling()), **sides)


def test_what_counted_the_energy_is_said():
    frame = energetic(made_frame(falling()), JOULES)
    sides = {"baseline": "cpu", "challenger": "gpu"}
    assert energy_words(frame, **sides) == (
        "Energy is for cpu that of the CPU's packages (RAPL), with all else that ran on them and without memory; "
        "for gpu that of the GPU's board (NVML), without the CPU that feeds it. "
        "These are different parts of a machine, so this is no comparison of whole machines."
    )
    assert energy_words(frame.assign(device="cuda"), **sides) == (
        "Energy is that of the GPU's board (NVML), without the CPU that feeds it, for both."
    )
    assert energy_words(frame.assign(energy_j=math.nan), **sides) == ""
    one_unknown = frame["device"].astype(object).where(frame.index != frame.index[0], None)
    assert energy_words(frame.assign(device=one_unknown), **sides) == energy_words(frame, **sides)
    assert energy_words(frame.assign(device=None), **sides) == ""
    assert energy_words(frame.drop(columns="device"), **sides) == ""


def test_rows_of_a_study_keep_their_columns():
    frame = energetic(made_frame(falling()), JOULES)
    frame["target"] = pd.Categorical(frame["target"], categories=["cpu", "gpu"])
    assert list(priced(frame, {"cpu": 1.0, "gpu": 1.0})) == [*frame, "resolution_s"]
    assert list(in_energy(frame)) == [*frame, "resolution_s"]
    assert crossovers(priced(frame.iloc[:0], {"cpu": 1.0}), **ASKED)["verdict"].tolist() == ["undetermined"]
