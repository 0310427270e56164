"""Published timings of CPUs against GPUs get the answer that they support, and never one that they do not.

The files lie beside the checkout and are no part of the project; where they are absent, their tests are skipped. Series
of a few points are typed in, as numbers with their source, and tried everywhere. Most hold one measurement a point, so
that "undetermined" with its reason is never wrong: what counts is which answers must not come out.
"""

import math
import re
import shlex
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.timings import Reading, Unit, conditions, read_timings
from analysis.timings_text import conclude_timings, tell
from sweeps.errors import InputError

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
NAMES = {"baseline": "cpu", "challenger": "gpu"}


@pytest.fixture
def published():
    def path(name):
        if not (DATA / name).is_file():
            pytest.skip(f"{name} is not beside this checkout")
        return DATA / name

    return path


@pytest.fixture
def typed(tmp_path):
    """Return a function that writes times of CPU and GPU by size, and concludes from them."""

    told = []

    def conclude_from(cpu, gpu, **options):
        rows = [
            f"{size},{name},{time}\n"
            for name, times in (("cpu", cpu), ("gpu", gpu))
            for size, several in times.items()
            for time in (several if isinstance(several, list) else [several])
        ]
        path = tmp_path / "typed.csv"
        path.write_text("size,target,seconds\n" + "".join(rows))
        timings = read_timings(path, Reading(axis="size", **NAMES, **options))
        told.append(" ".join(tell(timings).split()))
        return only(timings)

    conclude_from.told = lambda: told[-1]
    return conclude_from


def only(timings):
    found, _ = conclude_timings(timings)
    assert len(found) == 1
    assert max(map(len, tell(timings).splitlines())) <= 80
    return found.iloc[0]


def by_group(timings, name):
    found, _ = conclude_timings(timings)
    return {row[name]: row for _, row in found.iterrows()}


def open_above(row):
    """No turn below the largest size is claimed."""
    return row["verdict"] == "undetermined" and math.isnan(row["estimate"]) and math.isnan(row["high"])


def open_below(row):
    """No turn above the smallest size is claimed."""
    return row["verdict"] == "undetermined" and math.isnan(row["estimate"]) and math.isnan(row["low"])


def says(row, text):
    return any(text in reason for reason in row["reasons"])


def agrees(row, answer, bracket=None):
    """Whether a crossover is the right answer, or stops short of it."""
    verdict = row["verdict"]
    match answer:
        case "none":
            return verdict in ("undetermined", "several", "tie")
        case "cpu throughout":
            return verdict == "always_baseline" or open_above(row)
        case "gpu from the smallest":
            return verdict == "always_challenger" or open_below(row)
        case "tie at the top":
            return verdict == "tie" or open_above(row)
        case "tie at the bottom":
            return verdict == "tie" or open_below(row)
        case "crosses" if verdict == "crosses":
            low, high = bracket
            holds = row["bracket_low"] <= low and row["bracket_high"] >= high
            return holds and row["direction"] == "challenger_above"
        case "reverse" if verdict == "crosses":
            return row["direction"] == "baseline_above"
    return verdict == "undetermined"


def documented():
    """The commands of docs/timings.md, as words behind `python -m analysis`."""
    guide = Path(__file__).resolve().parents[2] / "docs" / "timings.md"
    blocks = re.findall(r"^```sh\n(.*?)^```", guide.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [words[3:] for words in (shlex.split(line, comments=True) for line in lines) if words]


@pytest.mark.parametrize("words", documented()[2:], ids=lambda words: words[1])
def test_the_commands_of_the_guide_work(published, capsys, words):
    command, name, *options = words
    assert main([command, str(published(name)), *options]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_the_guide_speaks_of_every_file_that_can_be_read():
    assert {words[1] for words in documented()[2:]} == {
        "gpu-blob.csv",
        "keras-cpu-gpu.csv",
        "pyhpc-benchmarks.csv",
        "gbm-perf.csv",
        "jvectorcuda-header-v1.csv",
    }


# ----------------------------------------------------------------------------------------------- GPU-BLOB: no threshold


@pytest.mark.parametrize("mode", ["once", "every_iteration", "unified"])
@pytest.mark.parametrize("by", [{"rate": "gflops"}, {"per": "iterations"}])
def test_stalls_of_the_cpu_are_no_threshold(published, mode, by):
    where = conditions([["transfer=none", f"transfer={mode}"]])
    row = only(
        read_timings(published("gpu-blob.csv"), Reading(axis="size", target="device", **NAMES, where=where, **by))
    )
    assert agrees(row, "none")
    assert says(row, "provisional")
    assert "seconds" not in by or says(row, "it is the time of cpu that jumps")


# ------------------------------------------------------------------------------------------------ Keras: no size axis


def keras(path, epochs, gpu):
    where = conditions([["system=gce cpu2", f"system={gpu}"], [epochs]])
    reading = Reading(
        axis="iterations",
        target="device",
        **NAMES,
        passes=("system", "rep"),
        group_by=("kernel_or_model",),
        where=where,
    )
    return by_group(read_timings(path, reading), "kernel_or_model")


@pytest.mark.parametrize("gpu", ["aws gpu", "gce gpu"])
@pytest.mark.parametrize("epochs", ["size=0", "size!=0"])
def test_a_first_epoch_and_the_later_ones_have_a_verdict_each(published, gpu, epochs):
    rows = keras(published("keras-cpu-gpu.csv"), epochs, gpu)
    for model in ("cifar10_cnn", "imdb_fasttext", "lstm_text_generation", "mnist_cnn"):
        assert rows[model]["verdict"] == "always_challenger"
    assert rows["imdb_bidirectional_lstm"]["verdict"] == "always_baseline"
    assert all(says(row, "assumed spread") for row in rows.values())  # of the one run of the CPU


def test_cold_the_cpu_and_warm_the_gpu(published):
    path = published("keras-cpu-gpu.csv")
    assert keras(path, "size=0", "aws gpu")["mnist_mlp"]["verdict"] == "always_baseline"
    assert keras(path, "size!=0", "aws gpu")["mnist_mlp"]["verdict"] == "always_challenger"


def test_an_epoch_is_no_size(published):
    path = published("keras-cpu-gpu.csv")
    reading = Reading(axis="size", target="device", **NAMES, group_by=("kernel_or_model",))
    with pytest.raises(InputError, match=r'row 1 \(line 2\), column "size": "0" is not above 0'):
        read_timings(path, reading)


# --------------------------------------------------------------------------- pyhpc: at or below the clock's resolution


PYTORCH = {
    ("aws", "turbulent_kinetic_energy"): (16_384, 65_536),
    ("aws", "isoneutral_mixing"): (4_096, 16_384),
    ("colab", "turbulent_kinetic_energy"): (4_096, 16_384),
    ("colab", "isoneutral_mixing"): (4_096, 16_384),
    ("magni", "turbulent_kinetic_energy"): (4_096, 16_384),
    ("magni", "isoneutral_mixing"): (4_096, 16_384),
}


def pyhpc(path, system, kernel, **options):
    where = conditions([["stat=median", f"system={system}", f"kernel_or_model={kernel}"]])
    return only(read_timings(path, Reading(axis="size", target="device", **NAMES, where=where, **options)))


@pytest.mark.parametrize(("series", "bracket"), PYTORCH.items())
@pytest.mark.parametrize("resolution_s", [None, 0.001])
def test_a_crossing_near_the_resolution_of_the_source(published, series, bracket, resolution_s):
    system, kernel = series
    row = pyhpc(published("pyhpc-benchmarks.csv"), system, f"{kernel}/pytorch", resolution_s=resolution_s)
    assert agrees(row, "crosses", bracket)
    # Where the GPU wins at the larger size of the bracket, no change may be looked for beyond it.
    known = row["bracket_high"] if math.isnan(row["high"]) else row["high"]
    assert known <= 65_536
    assert says(row, "gpu did not run at 16777216") or system == "colab"


@pytest.mark.parametrize("system", ["aws", "colab", "magni"])
@pytest.mark.parametrize("end", ["pytorch", "tensorflow", "jax"])
@pytest.mark.parametrize("resolution_s", [None, 0.001])
def test_what_is_below_resolution_is_no_crossing(published, system, end, resolution_s):
    row = pyhpc(published("pyhpc-benchmarks.csv"), system, f"equation_of_state/{end}", resolution_s=resolution_s)
    assert agrees(row, "gpu from the smallest")


def test_one_common_size_is_no_curve(published):
    row = pyhpc(published("pyhpc-benchmarks.csv"), "aws", "isoneutral_mixing/taichi")
    assert (row["verdict"], math.isnan(row["estimate"])) == ("always_challenger", True)
    assert row["reasons"][0] == "gpu is faster at 1048576, the only size compared"
    assert says(row, "compared on 1 of 7 sizes")


def test_two_runs_that_differ_fivefold_are_not_averaged_in_silence(published):
    where = conditions([["stat=median", "system=colab"], ["kernel_or_model=isoneutral_mixing/jax"]])
    timings = read_timings(
        published("pyhpc-benchmarks.csv"), Reading(axis="size", target="device", **NAMES, where=where)
    )
    assert any("repeats of one target and size differ by up to" in warning for warning in timings.warnings)
    assert only(timings)["verdict"] != "crosses"


# ------------------------------------------------------------------------------ GBM-perf: three sizes, several verdicts


GBM = [
    ("xgboost", "r4.8xlarge 2024-06-04", "p3.2xlarge 2024-06-06", "crosses", (1e5, 1e6)),
    ("xgboost", "r4.8xlarge 2021-01-14", "p3.2xlarge 2021-01-15", "crosses", (1e6, 1e7)),
    ("xgboost", "m7i.8xlarge 2024-06-07", "p3.2xlarge 2024-06-06", "crosses", (1e5, 1e7)),
    ("lightgbm", "r4.8xlarge 2024-06-04", "p3.2xlarge 2024-06-06", "cpu throughout", None),
    ("lightgbm", "r4.8xlarge 2024-06-04", "L4 g6.4xlarge 2024-06-07", "tie at the top", None),
    ("lightgbm", "r4.8xlarge 2024-06-04", "A10 gpu_1x_a10 2024-06-08", "crosses", (1e6, 1e7)),
    ("catboost", "r4.8xlarge 2024-06-04", "p3.2xlarge 2024-06-06", "gpu from the smallest", None),
    ("catboost", "r4.8xlarge 2024-06-04", "H100 gpu_1x_h100_pcie 2024-06-08", "tie at the bottom", None),
    ("h2o", "r4.8xlarge 2024-06-04", "p3.2xlarge 2024-06-06", "none", None),
    ("h2o", "m7i.8xlarge 2024-06-07", "A10G g5.4xlarge 2024-06-07", "reverse", None),
]


@pytest.mark.parametrize(("tool", "cpu", "gpu", "answer", "bracket"), GBM)
def test_single_runs_at_three_sizes(published, tool, cpu, gpu, answer, bracket):
    where = conditions([[f"kernel_or_model={tool}"]])
    reading = Reading(axis="size", target="system", baseline=cpu, challenger=gpu, where=where)
    row = only(read_timings(published("gbm-perf.csv"), reading))
    assert agrees(row, answer, bracket)
    assert says(row, "not paired")
    assert says(row, "provisional")


def test_releases_moved_the_crossing_of_one_pair_of_machines(published):
    def crossing(cpu, gpu):
        where = conditions([["kernel_or_model=xgboost"]])
        reading = Reading(axis="size", target="system", baseline=cpu, challenger=gpu, where=where)
        return only(read_timings(published("gbm-perf.csv"), reading))

    older = crossing("r4.8xlarge 2021-01-14", "p3.2xlarge 2021-01-15")
    newer = crossing("r4.8xlarge 2024-06-04", "p3.2xlarge 2024-06-06")
    assert (older["verdict"], newer["verdict"]) == ("crosses", "crosses")
    assert newer["high"] <= older["low"]  # sizes ten times apart: no curve says where between them


def test_more_threads_are_not_faster(published):
    def compared(tool, few, many, cpus):
        where = conditions([["note=thread_sweep", f"kernel_or_model={tool}", "size=100000"]])
        names = {"baseline": f"c7i.metal-48xl ncores={few} cpus={cpus[0]}"}
        names["challenger"] = f"c7i.metal-48xl ncores={many} cpus={cpus[1]}"
        return only(
            read_timings(published("gbm-perf.csv"), Reading(axis="size", target="system", **names, where=where))
        )

    systems = {}
    for line in published("gbm-perf.csv").read_text().splitlines():
        system = line.split(",")[1]
        if "ncores=" in system:
            systems[int(system.split("ncores=")[1].split()[0])] = system.split("cpus=")[1]
    assert compared("xgboost", 1, 16, (systems[1], systems[16]))["verdict"] == "always_challenger"
    assert compared("xgboost", 16, 192, (systems[16], systems[192]))["verdict"] == "always_baseline"
    assert compared("lightgbm", 2, 192, (systems[2], systems[192]))["verdict"] == "always_baseline"


def test_rows_without_a_time_are_counted(published, capsys):
    asked = ["--axis", "size", "--target", "device", "--baseline", "cpu", "--challenger", "gpu"]
    assert main(["timings", str(published("gbm-perf.csv")), *asked, "--group-by", "kernel_or_model"]) == 0
    assert "Warning: 18 measurements without a value left out" in capsys.readouterr().err


# ------------------------------------------------------------------------------------- jvectorcuda: columns that moved


def test_old_headers_are_read_by_name(published):
    reading = Reading(
        axis="vector_count",
        **NAMES,
        wide=("cpu_time_ms", "gpu_time_ms"),
        unit=Unit.MS,
        group_by=("query_count",),
    )
    rows = by_group(read_timings(published("jvectorcuda-header-v1.csv"), reading), "query_count")
    assert rows[1]["verdict"] == "always_baseline"
    assert agrees(rows[10], "tie at the top")
    assert rows[10]["low"] > 10_000
    assert rows[100]["verdict"] == "crosses"
    assert (rows[100]["bracket_low"], rows[100]["bracket_high"]) == (1_000, 10_000)
    assert rows[100]["pairs"] == 6


def test_rows_with_more_values_than_names_are_refused(published, capsys):
    wide = ["--axis", "vector_count", "--wide", "cpu_ms,gpu_ms", "--baseline", "cpu", "--challenger", "gpu"]
    assert main(["timings", str(published("jvectorcuda-header-v2.csv")), *wide]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "row 1 (line 2) has 17 values under 15 column names, and 8 more rows do not fit either" in told.err


def test_the_same_rows_with_the_name_joined(published, tmp_path):
    header, *lines = published("jvectorcuda-header-v2.csv").read_text().splitlines()
    joined = [[*cells[:1], ";".join(cells[1:4]), *cells[4:]] for cells in (line.split(",") for line in lines)]
    (tmp_path / "joined.csv").write_text("\n".join([header, *map(",".join, joined)]))
    reading = Reading(axis="vector_count", **NAMES, wide=("cpu_ms", "gpu_ms"), unit=Unit.MS, group_by=("query_count",))
    rows = by_group(read_timings(tmp_path / "joined.csv", reading), "query_count")
    assert agrees(rows[1], "cpu throughout")
    assert agrees(rows[10], "gpu from the smallest")
    assert agrees(rows[100], "gpu from the smallest")


# ------------------------------------------------------------------------------------------------- typed in, everywhere


def test_batch_of_a_tabular_network(typed):
    """Q33, documentation of brulee: 1,000 rows, AdamW, seconds by batch size."""
    cpu, gpu = {128: 90.1, 512: 26.2, 2048: 11.1, 8192: 4.4}, {128: 111.5, 512: 28.6, 2048: 8.3, 8192: 3.6}
    assert agrees(typed(cpu, gpu), "crosses", (512, 2048))
    assert "within the noise or not: gpu between 512 and 2048" in typed.told()


def test_boosting_that_meets_at_the_edge(typed):
    """Q50, szilard/GBM-perf issue 12: xgboost, seconds by rows."""
    cpu, gpu = {1e5: 4.2, 1e6: 16.0, 1e7: 104.6}, {1e5: 17.5, 1e6: 38.5, 1e7: 103.2}
    row = typed(cpu, gpu)
    assert agrees(row, "tie at the top")
    assert row["low"] >= 1e6


def test_single_runs_that_change_twice_have_no_winner_throughout(typed):
    """szilard/GBM-perf, h2o on r4.8xlarge and p3.2xlarge, June 2024: ratios 0.58, 1.16 and 0.70."""
    cpu, gpu = {1e5: 11.136, 1e6: 12.382, 1e7: 60.674}, {1e5: 6.439, 1e6: 14.324, 1e7: 42.503}
    row = typed(cpu, gpu)
    assert agrees(row, "none")
    assert row["reasons"][0].startswith("size 1000000 disagrees with the neighbours, by 16 % or less")
    assert agrees(typed(gpu, cpu), "none")


@pytest.mark.parametrize(("cpu", "gpu"), [(0.456, 0.458), (0.458, 0.456)])
def test_two_milliseconds_are_no_evidence(typed, cpu, gpu):
    """Q32, a blog on the M1: 1000 x 10 by 10 x 50."""
    assert agrees(typed({1000: cpu}, {1000: gpu}), "none")


def test_a_line_that_was_not_waited_for_is_doubted(typed):
    """Q36, copy of a forum thread: b += b on n x n, seconds by n."""
    cpu, gpu = {4: 0.009, 40: 0.015, 400: 0.97, 4000: 38.1}, {4: 0.043, 40: 0.045, 400: 0.044, 4000: 0.043}
    row = typed(cpu, gpu)
    assert agrees(row, "crosses", (40, 400))
    assert row["reasons"][1] == (
        "gpu takes 43.0 ms to 45.0 ms whatever the size, while cpu takes 4233x as long at one size as at another: "
        "was gpu waited for?"
    )


def test_zeros_make_no_speed_up(typed):
    """B36, FlagGems issue 6540: some times are 0.0."""
    cpu, gpu = {64: 0.0, 256: 0.004, 1024: 0.060, 4096: 0.9}, {64: 0.0, 256: 0.0, 1024: 0.006, 4096: 0.04}
    row = typed(cpu, gpu)
    assert agrees(row, "gpu from the smallest")
    assert says(row, "compared on 2 of 4 sizes")
    assert says(typed(cpu, gpu, resolution_s=0.0001), "gpu below resolution at 256")


@pytest.mark.parametrize(("dip", "verdicts"), [(1.02, {"always_challenger"}), (3.0, {"several", "undetermined"})])
@pytest.mark.parametrize("repeats", [1, 5])
def test_a_dip_is_named_and_nothing_jumps_over_it(tmp_path, dip, verdicts, repeats):
    """B37, GPU-BLOB commits 3b5af1a and e25678e: winner by size G G C G G G."""
    ratios = {1: 0.5, 2: 0.5, 3: dip, 4: 0.5, 5: 0.5, 6: 0.5}
    rows = [
        f"{size},{name},{time * (1 + 0.03 * (-1) ** repeat * (name == 'gpu'))},{repeat}\n"
        for size, ratio in ratios.items()
        for name, time in (("cpu", 0.01 * size), ("gpu", 0.01 * size * ratio))
        for repeat in range(repeats)
    ]
    path = tmp_path / "dip.csv"
    path.write_text("size,target,seconds,rep\n" + "".join(rows))
    timings = read_timings(path, Reading(axis="size", **NAMES, passes=("rep",)))
    row, told = only(timings), " ".join(tell(timings).split())
    assert row["verdict"] in verdicts | ({"undetermined"} if repeats == 1 else set())
    assert "first size at which gpu was faster: at or below size 1" in told
    assert "smallest size from which it was so at every larger one: size 4" in told
    assert repeats == 1 or says(row, "size 3") or says(row, "between 2 and 3")


def test_sizes_of_one_target_are_listed(typed):
    """B39, nvbench issue 295: CPU at 10 sizes, GPU at 7 of them."""
    cpu = {2**n: 0.001 * 2**n for n in range(1, 11)}
    row = typed(cpu, {size: 0.020 + 0.0001 * size for size in list(cpu)[:7]})
    assert (row["verdict"], row["bracket_low"], row["bracket_high"]) == ("crosses", 16, 32)
    assert says(row, "compared on 7 of 10 sizes: gpu did not run at 256, 512 and 1024")


@pytest.mark.parametrize("samples", [(1, 1), (2, 2), (1, 2), (2, 1)])
def test_few_samples_have_an_assumed_interval(typed, samples):
    """B41, nvbench issues 273 and 402: one sample everywhere; two; mixed."""
    cpu, gpu = (
        {size: [time(size) * (1 + 0.01 * number) for number in range(many)] for size in (4, 16, 64, 256)}
        for time, many in ((lambda size: 0.001 * size, samples[0]), (lambda size: 0.03, samples[1]))
    )
    row = typed(cpu, gpu)
    assert row["verdict"] == "crosses"
    assert math.isfinite(row["low"])
    assert math.isfinite(row["high"])
    assert says(row, "assumed spread") is (min(samples) == 1)


def test_a_cpu_that_stalls_again_and_again_has_no_threshold(typed):
    """After B56a: a product of matrices that takes microseconds, and at half of the sizes a stall of 10 ms."""
    sizes = range(40, 80)
    cpu = {size: 1e-5 + (0.010 if size // 5 % 2 else 0.0) for size in sizes}
    row = typed(cpu, dict.fromkeys(sizes, 0.0008))
    assert agrees(row, "none")
    assert says(row, "it is the time of cpu that jumps")


@pytest.mark.parametrize(
    ("cpu", "gpu", "verdict"),
    [(4.20, 5.74, "always_baseline"), (4.40, 2.45, "always_challenger")],
    ids=["cold", "warm"],
)
def test_one_run_against_ten(tmp_path, cpu, gpu, verdict):
    """B57, mnist_mlp of ReDeiPirati's benchmark: the first epoch and the later ones, one run against ten."""
    rows = [f"1,cpu,{cpu},gce-1\n", *(f"1,gpu,{gpu * (1 + number / 500)},aws-{number}\n" for number in range(10))]
    path = tmp_path / "epochs.csv"
    path.write_text("model,target,seconds,run\n" + "".join(rows))
    timings = read_timings(path, Reading(axis="model", **NAMES, passes=("run",)))
    row, told = only(timings), " ".join(tell(timings).split())
    assert row["verdict"] == verdict
    assert "cpu: " in told
    assert "at 1 size, each measured once" in told
    assert "at 1 size, each measured 10 times" in told
    assert says(row, "assumed spread")
