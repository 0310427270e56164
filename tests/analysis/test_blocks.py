"""The further answers of a report: which blocks a study gets, and what they say."""

import math

import pytest

from analysis import report
from analysis.breakeven import break_even
from analysis.conclusion import conclude
from analysis.contents import gather
from analysis.frontier import frontier
from analysis.load import KIND, load
from analysis.rivals import bars, best_of
from analysis.why import labels
from analysis.without import without
from sweeps.definition import RESERVED

SIZES = [4, 16, 64, 256, 1024, 4096]


def contents_of(folder):
    study = load(folder)
    return gather(study, conclude(study))


def study_blocks(folder):
    return {block.heading: block for block in contents_of(folder).blocks}


def group_blocks(folder):
    (section,) = contents_of(folder).sections
    return {block.heading: block for block in section.blocks}


def test_a_plain_study_has_no_further_answers(make_study):
    """Two targets, one axis, no ladder, no prices: nothing more is known, and nothing is said."""
    contents = contents_of(make_study())
    assert contents.blocks == ()
    assert contents.sections[0].blocks == ()


THREE = {
    "targets": [{"name": "cpu-1", "device": "cpu", "threads": 1}, "cpu", "gpu"],
    "baseline": "cpu-1",
    "challenger": "gpu",
    "times": dict.fromkeys(("cpu-1", "cpu", "gpu")),
}


def by_threads(trial):
    size = trial.parameters["batch_size"]
    return {"cpu-1": 2e-5 + 1e-5 * size, "cpu": 2e-4 + 2e-6 * size, "gpu": 9e-4 + 1e-7 * size}[trial.target.name]


def threads(target, *_):
    return {"threads_observed": 1 if target == "cpu-1" else 8}


def test_the_best_of_each_side_is_told_with_the_variant_that_set_the_bar(make_study):
    blocks = study_blocks(make_study(**THREE, time_of=by_threads, row=threads, noise=0.01))
    block = blocks["Best against best"]
    assert block.header == ("batch_size", "best cpu", "best gpu", "compared", "95 % band")
    assert [row[1].partition(": ")[2] for row in block.rows] == ["cpu-1"] * 2 + ["cpu"] * 4
    assert {row[2].partition(": ")[2] for row in block.rows} == {"gpu"}
    (sentence,) = block.sentences
    # 2e-4 + 2e-6 n = 9e-4 + 1e-7 n: the CPU that uses its cores holds out to 368, one thread only to 88.
    crossover = block.drawing.crossover
    assert crossover["verdict"] == "crosses"
    assert crossover["low"] < 368 < crossover["high"]
    assert "best gpu trains this mlp model faster than best cpu" in sentence


def test_a_crossover_against_one_thread_is_labelled_as_such(make_study):
    folder = make_study(**THREE, time_of=by_threads, row=threads)
    (group,) = conclude(load(folder)).groups
    assert group.sentence.endswith("(cpu-1 is one CPU thread on 8 cores: a CPU that uses them all is another rival.)")
    alone = make_study("single", **THREE, time_of=by_threads, row=lambda t, *_: threads(t) | {"cores_usable": 1})
    (group,) = conclude(load(alone)).groups
    assert "one CPU thread" not in group.sentence


def test_two_numbers_of_threads_of_one_cpu_are_no_sides(make_study):
    asked = {"targets": ["cpu-1", "cpu"], "times": dict.fromkeys(("cpu-1", "cpu"))}
    folder = make_study(**asked, time_of=by_threads, row=threads)
    assert study_blocks(folder) == {}
    (group,) = conclude(load(folder)).groups
    assert "is one CPU thread" not in group.sentence


def test_a_lever_that_says_how_is_a_variant_and_no_comparison_of_its_own(make_study):
    def time_of(trial):
        size, transfer = trial.parameters["batch_size"], trial.parameters["transfer"]
        copy = {None: 0, "pageable": 3e-4, "pinned": 1e-4}[transfer]
        return 1e-5 * size if trial.target.name == "cpu" else 9e-4 + copy + 1e-7 * size

    axes = {"batch_size": SIZES, "transfer": ["pageable", "pinned"]}
    blocks = study_blocks(make_study(axes=axes, time_of=time_of, noise=0.01))
    block = blocks["Best against best"]
    assert {row[2].partition(": ")[2] for row in block.rows} == {"gpu, transfer pinned"}
    assert {row[1].partition(": ")[2] for row in block.rows} == {"cpu"}
    (moved,) = blocks["How far transfer moves the change"].sentences
    assert moved.startswith("With transfer pinned, the crossover in batch_size is 1.")
    assert "lower than with transfer pageable (95 % interval " in moved


def over_width(trial):
    size, width = trial.parameters["batch_size"], trial.parameters["width"]
    return 1e-7 * size * width if trial.target.name == "cpu" else 9e-4 + 1e-9 * size * width


def test_two_axes_of_sizes_are_a_map(make_study):
    folder = make_study(axes={"batch_size": SIZES, "width": [16, 64, 256]}, time_of=over_width, noise=0.01)
    block = study_blocks(folder)["batch_size and width together"]
    (sentence,) = block.sentences
    assert sentence.startswith("gpu trains this mlp model faster from batch_size ")
    assert all(f"(width {width})" in sentence for width in (16, 64, 256))
    # The two are equal where 9e-4 = 9.9e-8 x size x width.
    for row in block.drawing.frontier.along.to_dict("records"):
        assert row["low"] < 9e-4 / 9.9e-8 / row["width"] < row["high"]
    written = report.write(folder)
    assert "charts/frontier-width.svg" in written.files
    page, prose = ((folder / f"report.{kind}").read_text() for kind in ("html", "md"))
    assert "charts/frontier-width.svg" in prose
    assert "frontier-width.svg and .png beside this page" in page


def test_a_second_axis_of_two_values_or_of_a_lever_is_no_map(make_study):
    for axes in ({"width": [16, 64]}, {"sync_every": [1, 10, 100]}):
        extra = {"parameters": {"sync": "every_step"}} if "sync_every" in axes else {}
        folder = make_study("-".join(axes), axes={"batch_size": SIZES} | axes, times=TIMES, noise=0.01, **extra)
        headings = list(study_blocks(folder))
        (name,) = axes
        assert headings == [f"How far {name} moves the change"]


TIMES = {"cpu": lambda size: 1e-5 * size, "gpu": lambda size: 9e-4 + 1e-6 * size}


def test_no_difference_is_said_where_a_lever_moves_nothing(make_study):
    axes = {"batch_size": SIZES, "sync_every": [1, 10, 100]}
    folder = make_study(axes=axes, parameters={"sync": "every_step"}, noise=0.01)
    sentences = study_blocks(folder)["How far sync_every moves the change"].sentences
    assert len(sentences) == 2
    assert all("no difference is seen" in sentence for sentence in sentences)


def by_rung(trial):
    """The accelerator spends 0.5 ms on its loader and 0.3 ms on launches, whatever the size; the CPU only computes."""
    size = trial.parameters["batch_size"]
    if trial.target.name == "cpu":
        return 1e-5 * size
    gone = {"e2e": 0, "preload": 5e-4, "resident": 5.5e-4, "kernel": 8.5e-4, "twin": 0}[trial.rung]
    return 9e-4 - gone + 1e-6 * size


def test_what_holds_the_slower_back_and_what_would_help_is_said(make_study):
    explained = [{"batch_size": size} for size in SIZES]
    block = group_blocks(make_study(time_of=by_rung, explained=explained, noise=0.01))[
        "What holds the slower one back, and what would help"
    ]
    text = " ".join(block.sentences)
    assert "At batch_size 4 gpu is" in text
    assert "loader-bound: the loader takes" in text
    assert "Without loading (batches are ready on the host): From batch_size" in text
    # 1e-5 n = 4e-4 + 1e-6 n at 44 without the loader, against 100 with it.
    assert "2.2x lower" in text or "2.3x lower" in text


def test_a_start_is_repaid_in_steps_and_seconds(make_study):
    cold = {"cpu": 0.1, "gpu": 2.1}
    row = lambda target, *_: {"warmup_s": 10 * TIMES[target](4096), "prepare_s": cold[target]}  # noqa: E731
    block = group_blocks(make_study(row=row, sizes=(4, 4096), noise=0.0))["When gpu has paid back its start"]
    ((size, longer, steps, seconds, _),) = block.rows
    gained = TIMES["cpu"](4096) - TIMES["gpu"](4096)
    assert (size, longer.split(" (")[0]) == ("4096", "2.00 s")
    assert float(steps.split(" (")[0]) == pytest.approx(2.0 / gained, rel=0.02)
    assert seconds
    assert math.isfinite(float(block.rows[0][2].split(" (")[0]))


@pytest.mark.parametrize(("later_s", "is_told"), [(0.5, True), (0.0, False)])
def test_two_of_a_kind_have_a_start_to_repay_only_where_one_starts_decidedly_later(make_study, later_s, is_told):
    targets = [{"name": name, "device": "cpu", "threads": count} for name, count in (("one", 1), ("many", 8))]
    pace = {"one": TIMES["cpu"], "many": TIMES["gpu"]}
    count = []

    def row(target, size, _):
        count.append(target)
        noise_s = 0.001 * (len(count) % 7)  # neither target is the later one by that
        beyond_s, step_s = 0.01 + later_s * (target == "many") + noise_s, pace[target](size)
        return {"prepare_s": 0.1, "first_step_s": beyond_s + step_s, "warmup_s": beyond_s + 10 * step_s}

    asked = {"targets": targets, "baseline": "one", "challenger": "many", "times": pace, "row": row, "noise": 0.001}
    blocks = group_blocks(make_study(**asked))
    assert ("When many has paid back its start" in blocks) == is_told
    assert "When one has paid back its start" not in blocks
    cold, warm = blocks["From a cold start, and once warm"].sentences
    assert cold.startswith("First step, from the beginning of a trial: ")
    assert warm.startswith("Once warm: From batch_size ")


def test_prices_give_a_crossover_in_money(make_study):
    targets = [
        {"name": "cpu", "device": "cpu", "price_per_hour": 1},
        {"name": "gpu", "device": "gpu", "price_per_hour": 4},
    ]
    block = group_blocks(make_study(targets=targets, noise=0.01))["In money"]
    (sentence,) = block.sentences
    assert "cheaper" in sentence
    low, high = (float(word) for word in sentence.partition("95 % interval ")[2].partition(")")[0].split(" to "))
    # 1e-5 n = 4 x (9e-4 + 1e-6 n) at 600, not at 100 as in time.
    assert low < 600 < high
    assert block.notes == ("At these prices: cpu 1 an hour and gpu 4 an hour.",)


def test_energy_is_compared_where_both_sides_measured_it(make_study):
    power = {"cpu": 50.0, "gpu": 200.0}
    row = lambda target, size, _: {"energy_j": 40 * power[target] * TIMES[target](size)}  # noqa: E731
    blocks = group_blocks(make_study(row=row, noise=0.01))
    (sentence,) = blocks["In energy"].sentences
    assert "with less energy" in sentence
    assert blocks["In energy"].notes[0]
    only = lambda target, *case: row(target, *case) if target == "gpu" else {}  # noqa: E731
    assert "In energy" not in group_blocks(make_study("one", row=only))


def test_no_parameter_can_be_called_like_a_column_of_these_answers(make_study):
    """Else an axis of a user's own workload would be lost among them, and that after hours of measuring."""
    explained = [{"batch_size": size, "width": 64} for size in SIZES]
    axes = {"batch_size": SIZES, "width": [16, 64, 256]}
    cold = lambda target, *_: {"warmup_s": 1.0, "prepare_s": 0.5 + (target == "gpu")}  # noqa: E731
    study = load(make_study(axes=axes, time_of=by_rung, explained=explained, row=cold))
    asked = {"axis": "batch_size", "baseline": "cpu", "challenger": "gpu"}
    conclusion = conclude(study)
    rows = conclusion.rows
    best = best_of(study.frame, axis="batch_size", sides={"a": ["cpu"], "b": ["gpu"]}, group_by=["width"])
    group = conclusion.groups[1]
    maps = frontier(study.frame, axes=("batch_size", "width"), baseline="cpu", challenger="gpu", planned=None)
    tables = [
        conclusion.crossovers,
        group.sizes,
        group.parts,
        without(rows, group_by=["width"], **asked),
        labels(group.parts, group.sizes, group.parts.iloc[:0], **asked),
        best,
        bars(best, axis="batch_size", group_by=["width"]),
        maps[0].cells,
        break_even(study.frame, group_by=["width"], **asked),
    ]
    assert all(len(table) for table in tables)
    added = {name for table in tables for name in table.columns} - {"batch_size", "width", KIND}
    assert added <= RESERVED | set(study.frame.columns)


def test_an_axis_may_be_called_place(make_study, tmp_path):
    (tmp_path / "own.py").write_text("def make(*, seed, size, place): ...")
    axes = {"size": SIZES, "place": [70, 10]}

    def time_of(trial):
        size, place = trial.parameters["size"], trial.parameters["place"]
        return 1e-5 * size if trial.target.name == "cpu" else 9e-4 * (1 + (place == 10)) + 1e-6 * size

    folder = make_study(axes=axes, workload=f"{tmp_path / 'own.py'}:make", time_of=time_of, noise=0.01)
    (sentence,) = study_blocks(folder)["How far place moves the change"].sentences
    assert sentence.startswith("With place 10, the crossover in size is ")
    assert "x higher than with place 70 (95 % interval " in sentence
