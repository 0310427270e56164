"""Every verdict as a sentence, with and without a margin, and what is said when a side is missing."""

import math

import pandas as pd
import pytest

from analysis.measures import ENERGY, MONEY
from analysis.sentence import Scale, Topic, ratio, ratio_range, verdict_sentence

NAN = math.nan
STATE = {"b": "baseline", "c": "challenger", "?": "undecided", "-": "unknown"}


def told(verdict, states, *, sizes=(4, 16, 64, 256, 1024, 4096), where="", topic=None, **row):
    """Say a crossover whose sizes have these states, one letter each."""
    crossover = {
        "verdict": verdict,
        "direction": "",
        "estimate": NAN,
        "low": NAN,
        "high": NAN,
        "bracket_low": NAN,
        "bracket_high": NAN,
        "changes": [],
    } | row
    frame = pd.DataFrame({"batch_size": sizes[: len(states)], "state": [STATE[letter] for letter in states]})
    return verdict_sentence(crossover, frame, topic or asked(), where)


def asked(**changes):
    return Topic(
        **({"axis": "batch_size", "baseline": "cpu", "challenger": "gpu", "workload": "mlp", "passes": 3} | changes)
    )


RISES = {"direction": "challenger_above", "estimate": 37.4, "low": 29.9, "high": 47.2}
FALLS = RISES | {"direction": "baseline_above"}
TEN = asked(margin=0.1)


def test_a_crossing_gives_the_size_and_its_interval_rounded_outwards():
    assert told("crosses", "bbcccc", **RISES) == (
        "From batch_size 37 on (95 % interval 29 to 48), gpu trains this mlp model faster than cpu."
    )


def test_a_crossing_with_a_margin_says_so():
    assert told("crosses", "bbcccc", topic=TEN, **RISES) == (
        "From batch_size 37 on (95 % interval 29 to 48), gpu trains this mlp model at least 10 % faster than cpu."
    )


def test_a_reverse_crossing_names_the_baseline_as_winner():
    assert told("crosses", "cccbbb", **FALLS) == (
        "From batch_size 37 on (95 % interval 29 to 48), cpu trains this mlp model faster than gpu, "
        "which wins only below that."
    )
    assert told("crosses", "cccbbb", topic=TEN, **FALLS) == (
        "From batch_size 37 on (95 % interval 29 to 48), gpu does not train this mlp model at least 10 % faster than "
        "cpu any more."
    )


def test_a_crossing_without_an_estimate_gives_its_ends_and_no_invented_number():
    said = told("crosses", "bb--cc", direction="challenger_above", bracket_low=16, bracket_high=1024)
    assert said == ("From somewhere between batch_size 16 and 1024 on, gpu trains this mlp model faster than cpu.")


def test_always_names_the_range_that_was_compared():
    assert told("always_challenger", "cccccc") == (
        "gpu trains this mlp model faster than cpu everywhere from batch_size 4 to 4096."
    )
    assert told("always_baseline", "bbbb--") == (
        "cpu trains this mlp model faster than gpu everywhere from batch_size 4 to 256 (compared at 4 of 6 sizes)."
    )


def test_always_with_a_margin_speaks_of_the_margin():
    assert told("always_baseline", "bbbbbb", topic=TEN) == (
        "gpu is never 10 % faster than cpu at training this mlp model from batch_size 4 to 4096."
    )
    assert told("always_challenger", "cccccc", topic=TEN) == (
        "gpu trains this mlp model at least 10 % faster than cpu everywhere from batch_size 4 to 4096."
    )


def test_always_admits_sizes_between_that_are_too_close_to_call():
    assert told("always_challenger", "c?cc").endswith("from batch_size 4 to 256, though too close to call at 16.")


def test_one_size_is_not_called_everywhere():
    assert told("always_baseline", "b") == "cpu trains this mlp model faster than gpu at batch_size 4."


def test_a_tie_names_no_winner():
    assert told("tie", "??????") == (
        "cpu and gpu train this mlp model equally fast, within 5 %, from batch_size 4 to 4096."
    )
    assert "10 % faster than cpu, give or take 5 %," in told("tie", "??????", topic=TEN)


def test_times_of_any_work_are_not_said_to_be_of_a_training():
    plain = asked(workload="")
    assert told("crosses", "bbcccc", topic=plain, **RISES) == (
        "From batch_size 37 on (95 % interval 29 to 48), gpu is faster than cpu."
    )
    assert told("tie", "??????", topic=plain).startswith("cpu and gpu are equally fast, within 5 %")
    never = told("always_baseline", "bbbbbb", topic=plain.with_margin(0.1))
    assert never == "gpu is never 10 % faster than cpu from batch_size 4 to 4096."
    assert "more repeats would tell" in told("undetermined", "??????", topic=plain)


def test_one_size_compared_of_many_is_not_called_everywhere():
    assert told("always_baseline", "b-----").startswith("cpu trains this mlp model faster than gpu at batch_size 4 (")


def test_many_changes_are_counted():
    turns = [
        (RISES if place % 2 else FALLS) | {"bracket_low": 2.0**place, "bracket_high": 2.0**place + 1}
        for place in range(7)
    ]
    assert told("several", "bcbcbc", changes=turns) == (
        "Whether gpu trains this mlp model faster changes 7 times between batch_size 1 and 65: there is no one size "
        "from which on it does."
    )


def test_several_changes_are_told_one_by_one():
    changes = [
        RISES,
        {"direction": "baseline_above", "estimate": 700.0, "low": 512.0, "high": 1024.0},
    ]
    assert told("several", "bcccbb", changes=changes) == (
        "Which of cpu and gpu trains this mlp model faster changes 2 times along batch_size: cpu at the smallest "
        "sizes, gpu from 37 (95 % interval 29 to 48) and cpu from 700 (95 % interval 512 to 1024)."
    )
    assert told("several", "bcccbb", changes=changes, topic=TEN).endswith(
        "no at the smallest sizes, yes from 37 (95 % interval 29 to 48) and no from 700 (95 % interval 512 to 1024)."
    )


@pytest.mark.parametrize(
    ("states", "row", "said"),
    [
        ("bbb???", {"low": 100.7}, "cpu trains this mlp model faster than gpu up to batch_size 100, but above"),
        ("bbb???", {}, "cpu trains this mlp model faster than gpu up to batch_size 64, but above"),
        ("???ccc", {"high": 100.2}, "gpu trains this mlp model faster than cpu from batch_size 101 on, but below"),
        ("?b????", {}, "cpu trains this mlp model faster than gpu at batch_size 16, but elsewhere"),
        ("??????", {}, "which of cpu and gpu trains this mlp model faster is too close to call"),
        ("bcbccc", {}, "the winner between cpu and gpu seems to change more than once"),
    ],
)
def test_undetermined_says_what_is_known_and_what_to_do(states, row, said):
    sentence = told("undetermined", states, **row)
    assert sentence.startswith(f"Not decided: {said}")
    assert "more passes (--set passes=6)" in sentence


def test_after_a_search_no_passes_are_advised():
    sentence = told("undetermined", "b?????", topic=asked(passes=0))
    assert sentence.endswith("; a grid with more passes (in a folder of its own) or larger sizes would tell.")


def test_undetermined_with_a_margin_does_not_name_a_winner():
    said = told("undetermined", "bbb???", topic=TEN, low=100.7)
    assert said.startswith("Not decided: gpu does not train this mlp model at least 10 % faster than cpu up to")
    assert told("undetermined", "??????", topic=TEN).startswith(
        "Not decided: whether gpu trains this mlp model at least 10 % faster than cpu is too close to call"
    )


def test_a_missing_side_is_named_with_its_reason():
    topic = asked(absences={"gpu": "no CUDA device on host2"})
    assert told("undetermined", "------", topic=topic) == (
        "No gpu trial finished: no CUDA device on host2; so nothing can be said about gpu against cpu."
    )
    both = asked(absences={"gpu": "no CUDA device", "cpu": "out of memory"})
    assert told("undetermined", "------", topic=both) == (
        "No trial finished: out of memory and no CUDA device; so nothing can be said about gpu against cpu."
    )


def test_trials_that_never_meet_are_told_apart_from_a_missing_side():
    assert "is there a pair to compare" in told("undetermined", "------")


def test_a_group_is_named_first():
    assert told("crosses", "bbcccc", where="With width 64", **RISES).startswith("With width 64: From batch_size 37")


def test_a_users_own_workload_is_called_by_its_file():
    said = told("always_challenger", "cc", topic=asked(workload="/home/me/model.py:make"))
    assert said.startswith("gpu trains this workload (model.py:make) faster")


def test_sentences_are_one_line_that_ends_in_a_full_stop():
    for verdict, states in [("tie", "??"), ("always_baseline", "bb"), ("undetermined", "b?"), ("undetermined", "--")]:
        said = told(verdict, states)
        assert said.endswith(".")
        assert "\n" not in said
        assert "nan" not in said


def test_ratios_are_told_by_the_name_of_the_faster_target():
    assert ratio(-math.log(2.34), asked()) == "gpu 2.3x faster"
    assert ratio(math.log(1.239), asked()) == "cpu 1.24x faster"
    assert ratio(0.001, asked()) == "equal"
    assert ratio(NAN, asked()) == "–"


def test_a_ratios_band_is_never_rounded_inwards():
    assert ratio_range(-math.log(2.58), -math.log(2.11), asked()) == "2.1x to 2.6x"
    assert ratio_range(-math.log(1.021), math.log(1.011), asked()) == "gpu 1.03x to cpu 1.02x"
    assert ratio_range(NAN, NAN, asked()) == ""


def test_the_scale_is_that_of_the_group():
    assert Scale.of([4, 16, 4]).sizes == (4.0, 16.0)


@pytest.mark.parametrize(
    ("measure", "plain", "by_ten", "equal"),
    [
        (MONEY, "cheaper", "at least 10 % cheaper", "at the same cost"),
        (ENERGY, "with less energy", "with at least 10 % less energy", "with the same energy"),
    ],
)
def test_money_and_energy_have_their_own_words(measure, plain, by_ten, equal):
    topic, ten = asked(measure=measure), asked(measure=measure, margin=0.1)
    assert told("crosses", "bbcccc", topic=topic, **RISES) == (
        f"From batch_size 37 on (95 % interval 29 to 48), gpu trains this mlp model {plain} than cpu."
    )
    assert told("crosses", "bbcccc", topic=ten, **RISES) == (
        f"From batch_size 37 on (95 % interval 29 to 48), gpu trains this mlp model {by_ten} than cpu."
    )
    assert told("tie", "??????", topic=topic) == (
        f"cpu and gpu train this mlp model {equal}, within 5 %, from batch_size 4 to 4096."
    )
    assert f"which of cpu and gpu trains this mlp model {plain} is too close" in told(
        "undetermined", "??????", topic=topic
    )
    every = [
        told(verdict, states, topic=each, changes=[RISES, FALLS]) for each in (topic, ten) for verdict, states in ALL
    ]
    assert not any("fast" in said for said in every)


#: Every verdict, with states that go with it.
ALL = [
    ("several", "bbccbb"),
    ("tie", "??????"),
    ("always_baseline", "bbbbbb"),
    ("always_challenger", "cccccc"),
    ("undetermined", "??????"),
    ("undetermined", "bbb???"),
    ("undetermined", "??cb??"),
]


def test_times_as_large_are_said_in_the_words_of_the_measure():
    assert ratio(-math.log(2.3), asked(measure=MONEY)) == "gpu 2.3x cheaper"
    assert ratio(math.log(2.3), asked(measure=ENERGY)) == "cpu with 2.3x less energy"
    assert ratio(-math.log(2.3), asked()) == "gpu 2.3x faster"


def test_energy_with_a_margin_never_speaks_of_being_fast():
    assert told("always_baseline", "bbbbbb", topic=asked(measure=ENERGY, margin=0.1)) == (
        "gpu never takes 10 % less energy than cpu at training this mlp model from batch_size 4 to 4096."
    )
    assert told("always_challenger", "cccccc", topic=asked(measure=ENERGY, workload="")) == (
        "gpu works with less energy than cpu everywhere from batch_size 4 to 4096."
    )
