"""Timings of any origin: read as told, or refused by row and column; and what is said about them."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis import crossovers, timings_text
from analysis.timings import Condition, Reading, Unit, conditions, read_timings
from analysis.timings_text import conclude_timings, tell, to_json
from sweeps.errors import InputError

ASKED = {"axis": "size", "baseline": "cpu", "challenger": "gpu"}
HEADER = "size,target,seconds"
#: Crosses between 10 and 100: a CPU that takes the size in ms, a GPU that takes 30 ms whatever the size.
LONG = [f"{size},{name},{time / 1000}" for size in (1, 10, 100, 1000) for name, time in (("cpu", size), ("gpu", 30))]


@pytest.fixture
def write(tmp_path):
    def written(*lines, name="timings.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes("".join(f"{line}\n" for line in lines).encode(encoding))
        return path

    return written


def read(path, **options):
    return read_timings(path, Reading(**(ASKED | options)))


def conclude(timings):
    found, groups = conclude_timings(timings)
    assert len(found) == len(groups)
    return found.iloc[0]


def steps(timings, target, size):
    frame = timings.frame
    rows = frame[(frame["target"] == target) & (frame[timings.reading.axis] == size)]
    return [times.tolist() for times in rows["step_times_s"]]


# ------------------------------------------------------------------------------------------------ the contract, read


def test_a_row_is_a_measurement(write):
    timings = read(write(HEADER, *LONG))
    assert timings.warnings == ()
    assert steps(timings, "gpu", 100) == [[0.03]]
    row = conclude(timings)
    assert (row["verdict"], row["direction"]) == ("crosses", "challenger_above")
    assert (row["bracket_low"], row["bracket_high"]) == (10, 100)
    assert 10 < row["low"] < 30 < row["high"] < 100
    assert row["estimate"] == pytest.approx(30, rel=0.05)
    assert any("not paired" in reason for reason in row["reasons"])
    assert any("no repetition" in reason for reason in row["reasons"])


def test_the_frame_is_what_crossovers_takes(write):
    timings = read(write(HEADER, *LONG))
    plain, told = crossovers(timings.frame, **ASKED).iloc[0], conclude(timings)
    assert set(plain.pop("reasons")) <= set(told["reasons"])
    pd.testing.assert_series_equal(plain, told[plain.index])


@pytest.mark.parametrize(("unit", "factor"), [("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)])
def test_units(write, unit, factor):
    timings = read(write("n,dev,t", "8,cpu,4", "8,gpu,2"), axis="n", target="dev", time="t", unit=Unit(unit))
    assert steps(timings, "cpu", 8) == [[4 * factor]]


def test_times_are_divided_by_a_column(write):
    timings = read(write("size,target,seconds,n", "8,cpu,4,100", "8,gpu,2,10"), per="n")
    assert steps(timings, "cpu", 8) == [[0.04]]
    assert conclude(timings)["verdict"] == "always_baseline"


def test_rates_are_the_better_the_higher(write):
    path = write("size,target,flops", "8,cpu,100", "8,gpu,300", "16,cpu,100", "16,gpu,900")
    timings = read(path, rate="flops")
    assert conclude(timings)["verdict"] == "always_challenger"
    assert "cpu: 100 flops, at 2 sizes" in tell(timings)


def test_a_tiny_reciprocal_of_a_rate_is_not_below_the_resolution_of_a_clock(write):
    path = write("size,target,rate", "8,cpu,1e9", "8,gpu,3e9", "16,cpu,1e9", "16,gpu,9e9")
    assert conclude(read(path, rate="rate"))["verdict"] == "always_challenger"


def test_a_rate_of_zero_is_no_time(write):
    path = write("size,target,rate", "8,cpu,2", "8,gpu,0.000", "16,cpu,2", "16,gpu,9", "32,cpu,2", "32,gpu,20")
    row = conclude(read(path, rate="rate"))
    assert row["verdict"] == "always_challenger"
    assert any(
        "compared on 2 of 3 sizes: gpu has nothing to compare (rate of 0) at 8" in reason for reason in row["reasons"]
    )


def test_wide_rows_are_pairs(write):
    rows = [f"{size},{size * (1 + k / 500)},{30 * (1 - k / 900)}" for size in (1, 10, 100, 1000) for k in range(3)]
    timings = read(write("n,cpu_ms,gpu_ms", *rows), axis="n", wide=("cpu_ms", "gpu_ms"), unit=Unit.MS)
    row = conclude(timings)
    assert (row["verdict"], row["bracket_low"], row["bracket_high"], row["pairs"]) == ("crosses", 10, 100, 12)
    assert not any("paired" in reason for reason in row["reasons"])


def test_an_empty_cell_of_a_wide_row_is_a_missing_partner(write):
    path = write("n,a,b", "1,1,2", "10,1,2", "100,1,2", "1000,,2")
    timings = read(path, axis="n", wide=("a", "b"))
    assert timings.warnings == ("1 measurement without a value left out",)
    row = conclude(timings)
    assert row["verdict"] == "always_baseline"
    assert any("compared on 3 of 4 sizes: cpu did not run at 1000" in reason for reason in row["reasons"])


def test_exponents_are_solved_in_their_own_unit(write):
    path = write("qubits,target,seconds", *(f"{q},{n},{t}" for q in range(4) for n, t in (("cpu", 2**q), ("gpu", 2.8))))
    row = conclude(read(path, axis="qubits", exponent=2.0))
    assert (row["bracket_low"], row["bracket_high"]) == (1, 2)
    assert row["estimate"] == pytest.approx(np.log2(2.8), abs=0.02)


def test_groups_have_a_verdict_each(write):
    rows = [f"{row},{model}" for model in ("b", "a") for row in LONG]
    rows += [f"{size},{name},{time},c" for size in (1, 10) for name, time in (("cpu", 1), ("gpu", 5))]
    timings = read(write(HEADER + ",model", *rows), group_by=("model",))
    found, groups = conclude_timings(timings)
    assert found["model"].tolist() == ["a", "b", "c"]
    assert found["verdict"].tolist() == ["crosses", "crosses", "always_baseline"]
    assert [group.label for group in groups] == ["model a", "model b", "model c"]
    assert groups[2].sentence == "With model c: cpu is faster than gpu everywhere from size 1 to 10."


def test_groups_of_numbers_are_sorted_as_numbers_and_versions_stay_text(write):
    rows = [f"{row},{n},{v}" for n, v in (("128", "3.10"), ("16", "3.1")) for row in LONG]
    path = write(HEADER + ",n,version", *rows)
    assert conclude_timings(read(path, group_by=("n",)))[0]["n"].tolist() == [16, 128]
    assert conclude_timings(read(path, group_by=("version",)))[0]["version"].tolist() == ["3.1", "3.10"]


@pytest.mark.parametrize("label", ["16", "x"])
def test_rows_without_a_group_are_a_group(write, label):
    rows = [f"{row},{kind}" for kind in (label, "") for row in LONG]
    timings = read(write(HEADER + ",kind", *rows), group_by=("kind",))
    found, groups = conclude_timings(timings)
    assert found["verdict"].tolist() == ["crosses", "crosses"]
    assert [group.label for group in groups] == [f"kind {label}", ""]
    assert json.loads(to_json(timings))["crossovers"][1]["kind"] is None


def test_values_of_one_condition_are_alternatives_and_conditions_all_hold(write):
    path = write("size,target,seconds,stat,host", *(f"{row},{s},{h}" for row in LONG for s in "abc" for h in "xy"))
    where = conditions([["stat=a", "stat=b"], ["host!=y"]])
    assert where == (
        Condition(column="stat", values=("a", "b"), keep=True),
        Condition(column="host", values=("y",), keep=False),
    )
    frame = read(path, where=where).frame
    assert len(frame) == 2 * len(LONG)


@pytest.mark.parametrize("text", ["stat", "=a", "!=a"])
def test_a_condition_needs_a_column_and_a_value(text):
    with pytest.raises(InputError, match="column=value"):
        conditions([[text]])


def test_a_row_without_a_size_is_left_out(write):
    timings = read(write(HEADER + ",kind", *(f"{row},a" for row in LONG), ",cpu,1,b", ",gpu,1,b"), group_by=("kind",))
    assert timings.warnings == ("2 measurements without a size left out",)
    assert conclude(timings)["kind"] == "a"


def test_only_ok_has_a_time_and_a_timeout_decides(write):
    rows = [*(f"{row},ok" for row in LONG[:6]), "1000,cpu,too slow,timeout", "1000,gpu,0.03,OK"]
    row = conclude(read(write(HEADER + ",ended", *rows), status="ended"))
    assert (row["verdict"], row["bracket_low"], row["bracket_high"]) == ("crosses", 10, 100)
    assert any("cpu timed out at 1000" in reason for reason in row["reasons"])


def test_an_out_of_memory_says_nothing_about_time(write):
    rows = [*(f"{row},ok" for row in LONG[:6]), "1000,cpu,1,ok", "1000,gpu,,oom"]
    row = conclude(read(write(HEADER + ",ended", *rows), status="ended"))
    assert any("gpu does not fit in memory above 100" in reason for reason in row["reasons"])


# ------------------------------------------------------------------------------------------------------ runs and copies


def test_rows_of_one_run_are_its_steps_and_runs_of_one_name_are_pairs(write):
    rows = [
        f"{size},{name},{time * (1 + (run - 1) / 50 + step / 1000)},{run}"
        for size in (1, 10, 100)
        for name, time in (("cpu", size), ("gpu", 30))
        for run in range(3)
        for step in range(4)
    ]
    timings = read(write(HEADER + ",run", *rows), passes=("run",))
    assert len(timings.frame) == 18
    assert [len(times) for times in steps(timings, "cpu", 10)] == [4, 4, 4]
    row = conclude(timings)
    assert row["pairs"] == 9
    assert "3 pairs a size; 1 % is allowed for slow drift" in row["reasons"]


def test_runs_that_the_targets_do_not_share_pair_nothing(write):
    rows = [f"{size},cpu,{size},cpu-1" for size in (1, 10, 100)]
    rows += [f"{size},gpu,{30 + k},gpu-{k}" for size in (1, 10, 100) for k in range(10)]
    row = conclude(read(write(HEADER + ",run", *rows), passes=("run",)))
    assert row["verdict"] == "crosses"
    assert any("not paired" in reason for reason in row["reasons"])
    assert any("assumed spread" in reason for reason in row["reasons"])


def test_several_columns_may_tell_runs_apart(write):
    rows = [f"{size},cpu,{size},old,1" for size in (1, 10)] + [f"{size},gpu,5,new,1" for size in (1, 10)]
    path = write(HEADER + ",host,rep", *rows)
    assert not any("not paired" in reason for reason in conclude(read(path, passes=("rep",)))["reasons"])
    assert any("not paired" in reason for reason in conclude(read(path, passes=("host", "rep")))["reasons"])


def test_copies_count_once_and_repeats_of_equal_time_do_not(write):
    rows = [f"{row},{rep}" for row in LONG for rep in (1, 2)]
    assert len(read(write(HEADER + ",rep", *rows)).frame) == 2 * len(LONG)
    timings = read(write(HEADER + ",rep", *rows, rows[0]))
    assert len(timings.frame) == 2 * len(LONG)
    assert timings.warnings[0].startswith("1 measurement left out, equal to another in every column")


def test_what_repeats_differ_in_is_named(write):
    rows = [f"{row},{stat},host-1" for row in LONG for stat in ("mean", "min")]
    path = write(HEADER + ",stat,host", *rows)
    (warning,) = read(path).warnings
    assert warning.startswith("rows of one target and size differ in stat, and count as repeats of one another")
    assert read(path, group_by=("stat",)).warnings == ()
    assert read(path, where=conditions([["stat=min"]])).warnings == ()


def test_repeats_that_differ_by_a_factor_are_doubted(write):
    timings = read(write(HEADER, *LONG, "10,gpu,0.15"))
    assert timings.warnings == (
        "repeats of one target and size differ by up to 5.0x (gpu at size 10): can they be repeats of the same thing?",
    )


# -------------------------------------------------------------------------------------------------------- the clock


ROUNDED = [("4", "0.000", "0.002"), ("16", "0.005", "0.002"), ("64", "0.020", "0.002"), ("256", "0.080", "0.002")]


def rounded(cells):
    return [f"{size},{name},{time}" for size, *both in cells for name, time in zip(("cpu", "gpu"), both, strict=True)]


def test_a_zero_is_below_resolution_and_never_an_infinite_speed_up(write):
    timings = read(write(HEADER, *rounded(ROUNDED)))
    assert timings.warnings[0].startswith("1 time of 0: below the resolution of the clock, whatever that is")
    row = conclude(timings)
    assert row["verdict"] == "always_challenger"
    assert any("compared on 3 of 4 sizes: cpu is too quick for the clock at 4" in reason for reason in row["reasons"])
    assert "inf" not in tell(timings)


def test_times_below_the_resolution_are_none(write):
    timings = read(write(HEADER, *rounded(ROUNDED)), resolution_s=0.01)
    assert timings.warnings == ()
    row = conclude(timings)
    assert (row["verdict"], row["pairs"]) == ("undetermined", 0)


@pytest.mark.parametrize(("loser", "known"), [("0.011", True), ("0.009", False)])
def test_beyond_ten_times_the_resolution_the_sign_is_known(write, loser, known):
    cells = [("16", loser, "0.000"), ("64", "0.020", "0.002"), ("256", "0.080", "0.002")]
    row = conclude(read(write(HEADER, *rounded(cells)), resolution_s=0.001))
    assert any("gpu below resolution at 16" in reason for reason in row["reasons"]) is known
    assert any("compared on 2 of 3 sizes" in reason for reason in row["reasons"]) is not known


def test_resolution_is_of_what_was_measured_and_not_of_its_quotient(write):
    path = write("size,target,seconds,n", "8,cpu,0.5,1000000", "8,gpu,0.1,1000000")
    assert conclude(read(path, per="n", resolution_s=0.001))["verdict"] == "always_challenger"
    assert conclude(read(path, per="n", resolution_s=0.3))["verdict"] == "undetermined"


def test_quick_steps_need_no_resolution(write):
    path = write("size,target,ns", "8,cpu,900", "8,gpu,400")
    assert conclude(read(path, time="ns", unit=Unit.NS))["verdict"] == "always_challenger"


# ------------------------------------------------------------------------------------------------------------ Parquet


def test_parquet_is_told_by_its_content(tmp_path, write):
    table = pa.table(
        {
            "size": pa.array([1, 10, 100, 1000] * 2, pa.int16()),
            "target": pa.array(["cpu"] * 4 + ["gpu"] * 4).dictionary_encode(),
            "seconds": pa.array([0.001, 0.01, 0.1, 1.0] + [0.03] * 4, pa.float32()),
        }
    )
    pq.write_table(table, tmp_path / "timings.dat")
    found, csv = conclude(read(tmp_path / "timings.dat")), conclude(read(write(HEADER, *LONG)))
    for name in ("verdict", "bracket_low", "bracket_high"):
        assert found[name] == csv[name]
    assert found["estimate"] == pytest.approx(csv["estimate"], rel=1e-5)


def test_groups_and_nulls_of_parquet(tmp_path):
    table = pa.table(
        {
            "size": [1, 10, 1, 10, 1, 10],
            "target": ["cpu", "cpu", "gpu", "gpu", "gpu", "gpu"],
            "seconds": [1.0, 1.0, 2.0, 2.0, None, 3.0],
            "batch": pa.array([8, 8, 8, 8, 16, 16]),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    timings = read(tmp_path / "t.parquet", group_by=("batch",))
    assert timings.warnings == ("1 measurement without a value left out",)
    found, _ = conclude_timings(timings)
    assert found["batch"].tolist() == [8, 16]
    assert found["verdict"].tolist() == ["always_baseline", "undetermined"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"size": [1], "target": ["cpu"], "seconds": [[1.0, 2.0]]}, r"row 1, column \"seconds\": .* is not a number"),
        ({"size": [1], "target": ["cpu"], "seconds": [True]}, "has type bool, not numbers"),
        ({"size": [], "target": [], "seconds": []}, "has no rows"),
    ],
)
def test_parquet_of_another_kind_is_refused(tmp_path, columns, message):
    columns["target"] = [*columns["target"], *["gpu"] * bool(columns["target"])]
    columns = {n: v * 2 if len(v) == 1 else v for n, v in columns.items()}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=message):
        read(tmp_path / "t.parquet")


def test_a_damaged_parquet_file_is_refused(tmp_path):
    pq.write_table(pa.table({"size": list(range(1000))}), tmp_path / "t.parquet")
    cut = tmp_path / "cut.parquet"
    cut.write_bytes((tmp_path / "t.parquet").read_bytes()[:100])
    with pytest.raises(InputError, match="damaged Parquet"):
        read(cut)


# --------------------------------------------------------------------------------------- refused, by row and by column


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "timings.csv: is empty"),
        ([HEADER], "has a header and no rows"),
        (["size,target,secs", *LONG], 'no column is named "seconds" (--time). Did you mean secs?'),
        (["n,target,seconds", *LONG], 'no column is named "size" (--axis). It has: n, target, seconds.'),
        (["size,device,seconds", *LONG], 'no column is named "target" (--target). It has: size, device, seconds.'),
        (["size,target,seconds,size", "1,cpu,1,1"], 'columns 1 and 4 are both named "size"'),
        ([HEADER, *LONG, "10,cpu,fast"], 'row 9 (line 10), column "seconds": "fast" is not a number'),
        ([HEADER, "", *LONG, "10,cpu,1e"], 'row 9 (line 11), column "seconds": "1e" is not a number'),
        ([HEADER, *LONG, '10,cpu,"1,5"'], '"1,5" is not a number'),
        ([HEADER, *LONG, "10,cpu,1_5"], '"1_5" is not a number'),
        ([HEADER, *LONG, "10,cpu,inf"], '"inf" is not finite'),
        ([HEADER, "1,cpu,-2", *LONG, "1,gpu,-3"], '"-2" is negative; nor can 1 more row there be used'),
        ([HEADER, "big,cpu,2", *LONG], 'row 1 (line 2), column "size": "big" is not a number'),
        ([HEADER, "0,cpu,2", *LONG], '"0" is not above 0, as a size must be; if the column holds exponents'),
        ([HEADER, *LONG, "10,cpu"], "row 9 (line 10) has 2 values under 3 column names."),
        ([HEADER, "1,cpu,2,3", "1,cpu,2,3,4", "1,gpu"], "row 1 (line 2) has 4 values under 3 column names, and 2 more"),
        ([HEADER, '1,"cpu,2'], "is not CSV"),
        ([HEADER, "1,CPU,2", "1,gpu,2"], 'no row has "cpu" in column "target" (--baseline). It has: CPU, gpu.'),
        ([HEADER, "1,cpu,2", "1,gpus,2"], 'no row has "gpu" in column "target" (--challenger). It has: cpu, gpus.'),
        ([HEADER, *(f"1,cpu-{n},2" for n in range(9))], "(--baseline). Did you mean cpu-"),
    ],
)
def test_what_cannot_be_read_is_refused(write, lines, message):
    with pytest.raises(InputError) as refused:
        read(write(*lines))
    assert message in str(refused.value)
    assert len(str(refused.value).splitlines()) <= 2


def test_columns_that_moved_between_versions_are_read_by_name(write):
    old = read(write("size,target,seconds", *LONG, name="old.csv"))
    new = read(write("seconds,size,target", *(",".join(row.split(",")[i] for i in (2, 0, 1)) for row in LONG)))
    pd.testing.assert_frame_equal(old.frame, new.frame)


@pytest.mark.parametrize(
    ("encoding", "message"), [("latin-1", "line 2 is not UTF-8 (byte 0xe9)"), ("utf-16", "line 1 is not UTF-8")]
)
def test_other_encodings_are_refused(write, encoding, message):
    with pytest.raises(InputError) as refused:
        read(write(HEADER, "1,cpué,2", encoding=encoding))
    assert message in str(refused.value)


def test_a_byte_order_mark_and_spaces_are_no_part_of_a_name(write):
    assert len(read(write("size, target, seconds ", *LONG, encoding="utf-8-sig")).frame) == len(LONG)


def test_there_is_no_such_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "none.csv")
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"where": conditions([["note=x"]])}, 'no column is named "note" \\(--where\\)'),
        ({"where": conditions([["kind=c"]])}, 'no row has "c" in column "kind" \\(--where\\). It has: a, b.'),
        ({"where": conditions([["kind=a", "size=1000"]])}, "no row fulfils all conditions"),
        ({"where": conditions([["kind=b"]])}, 'no row that --where keeps holds a measurement of "cpu"'),
        ({"status": "kind"}, 'no measurement of either target is "ok"; there is: a, b'),
        ({"passes": ("run",)}, 'no column is named "run" \\(--pass\\)'),
        ({"group_by": ("kinds",)}, "Did you mean kind"),
        ({"per": "half"}, 'column "half": "0" is not a number above 0'),
        ({"wide": ("a", "b")}, 'no column is named "a" \\(--wide\\)'),
    ],
)
def test_columns_and_values_that_are_not_there_are_named(write, options, message):
    rows = [f"{row},{'a' if index < 5 else 'b'},0" for index, row in enumerate(LONG)]
    rows = rows[:5] + [row.replace("cpu", "gpu") for row in rows[5:]]
    with pytest.raises(InputError, match=message):
        read(write(HEADER + ",kind,half", *rows), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"challenger": "cpu"}, "name two different targets"),
        ({"rate": "r", "unit": Unit.MS}, "--rate reads rates instead of times, so --unit cannot be given"),
        ({"rate": "r", "per": "n", "resolution_s": 1.0}, "so --per and --resolution cannot be given"),
        ({"wide": ("a", "b"), "status": "s"}, "--status cannot be given with --wide"),
        ({"exponent": 1.0}, "--exponent is 1"),
        ({"exponent": float("nan")}, "--exponent is nan"),
        ({"resolution_s": 0.0}, "--resolution is 0"),
        ({"axis": "status"}, "has a meaning of its own"),
        ({"group_by": ("size",)}, "that is the axis"),
        ({"group_by": ("target",)}, "that is the column of targets"),
        ({"group_by": ("a", "a")}, "names a column twice"),
        ({"group_by": ("verdict",)}, "has a meaning of its own"),
        ({"group_by": ("rung",)}, "has a meaning of its own"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Reading(**(ASKED | options))


# ------------------------------------------------------------------------------------------------------- what is said


def test_the_text_holds_sentence_estimate_definitions_and_reasons_in_80_columns(write):
    timings = read(write(HEADER, *LONG))
    told, row = tell(timings), conclude(timings)
    flat = " ".join(told.split())
    assert flat.startswith(row["sentence"])
    assert row["sentence"].endswith("gpu is faster than cpu.")
    assert "measured between size 10 and 100" in flat
    assert "cpu: 1.00 ms to 1.00 s, at 4 sizes, each measured once" in flat
    for definition in (
        "every change of the faster one, within the noise or not: gpu between 10 and 100",
        "first size at which gpu was faster: size 100",
        "first size at which that is beyond the noise: size 100",
        "smallest size from which it was so at every larger one: size 100",
        "a practical win, at least 10 % faster: From size",
        *row["reasons"],
    ):
        assert definition in flat
    assert max(map(len, told.splitlines())) <= 80


def test_a_percentage_is_not_broken_at_the_end_of_a_line(write, monkeypatch):
    timings = read(write(HEADER, *LONG))
    for width in range(60, 90):
        monkeypatch.setattr(timings_text, "WIDTH", width)
        told = tell(timings)
        assert " %" in told
        assert not any(line.lstrip().startswith("%") for line in told.splitlines())
        assert "\N{NO-BREAK SPACE}" not in told


def test_json_has_the_form_of_a_study(write):
    timings = read(write(HEADER, *LONG, "1,cpu,"))
    told = json.loads(to_json(timings), parse_constant=pytest.fail)
    assert set(told) == {"study", "crossovers", "warnings"}
    assert told["study"] == "timings.csv"
    assert told["warnings"] == list(timings.warnings) != []
    row = conclude(timings)
    assert set(told["crossovers"][0]) == set(row.index)
    assert told["crossovers"][0]["estimate"] == row["estimate"]


def stated(ratios):
    """Rows of a CPU that takes 1 s at every size, and of a GPU that takes so many times that, twice each."""
    return [
        f"{4**number},{name},{time * (1 + rep / 1000)},{rep}"
        for number, ratio in enumerate(ratios, 1)
        for name, time in (("cpu", 1.0), ("gpu", ratio))
        for rep in range(5)
    ]


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([2, 1.4, 0.7, 0.5], "crosses"),
        ([0.5, 0.7, 1.4, 2], "crosses"),
        ([2, 0.5, 2, 0.5], "several"),
        ([1, 1, 1, 1], "tie"),
        ([2, 2, 2, 2], "always_baseline"),
        ([0.5, 0.5, 0.5, 0.5], "always_challenger"),
        ([2, 1.4, 1, 1], "undetermined"),
        ([1, 1, 0.5, 0.5], "undetermined"),
        ([1, 2, 2, 1], "undetermined"),
    ],
)
def test_no_verdict_speaks_of_training_or_of_options_of_a_sweep(write, ratios, verdict):
    timings = read(write(HEADER + ",rep", *stated(ratios)), passes=("rep",))
    row = conclude(timings)
    assert row["verdict"] == verdict
    for word in ("train", "passes=", "timings.csv"):
        assert word not in tell(timings)
    _, (group,) = conclude_timings(timings)
    assert "train" not in group.practical


def test_a_rival_that_stalls_is_named_where_the_winner_changes_again_and_again(write):
    rows = [
        f"{size},{name},{time * (1 + rep / 1000)},{rep}"
        for size in range(1, 13)
        for name, time in (("cpu", 0.5 if size % 3 == 0 else 0.002), ("gpu", 0.03))
        for rep in range(5)
    ]
    row = conclude(read(write(HEADER + ",rep", *rows), passes=("rep",)))
    assert row["verdict"] == "several"
    assert row["reasons"][0].startswith("the winner changes 7 times, the first time between 2 and 3")
    assert row["reasons"][1] == (
        "where the winner changes, it is the time of cpu that jumps, by 250x or 499 ms, and that of gpu hardly does: "
        "look into cpu before believing in a threshold"
    )


def test_a_target_whose_time_knows_no_size_is_doubted(write):
    rows = [f"{10**n},{name},{time}" for n in range(4) for name, time in (("cpu", 0.001 * 10**n), ("gpu", 0.02))]
    doubt = "gpu takes 20.0 ms whatever the size, while cpu takes 1000x as long at one size as at another"
    assert any(reason.startswith(doubt) for reason in conclude(read(write(HEADER, *rows)))["reasons"])
    rows[-1] = "1000,gpu,0.03"
    assert not any("whatever the size" in reason for reason in conclude(read(write(HEADER, *rows)))["reasons"])


@pytest.mark.parametrize(
    "options",
    [
        {"wide": ("cpu_s", "cpu_s")},
        {"wide": ("size", "gpu_s")},
        {"time": "size"},
        {"rate": "size"},
        {"time": "seconds", "per": "seconds"},
    ],
)
def test_one_column_is_not_two_things(options):
    with pytest.raises(InputError, match="have to be different columns"):
        Reading(**(ASKED | options))
