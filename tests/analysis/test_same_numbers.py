"""One study, four places: the sentence, the table, the chart and the JSON say the same numbers."""

import json
import math
import re

import pytest

from analysis.report import write

POWER = {"cpu": lambda size: 1e-5 * size, "gpu": lambda size: 9e-4 + 1e-6 * size}
SEVERAL = {
    "cpu": lambda size: 1e-3,
    "gpu": lambda size: 1e-3 * (3.0 if size < 30 or size > 600 else 0.4),
}
ONE_WINNER = {"cpu": lambda size: 1e-5 * size, "gpu": lambda size: 1e-6 * size}
STUDIES = {
    "crosses": {},
    "several": {"times": SEVERAL},
    "always_challenger": {"times": ONE_WINNER},
    "undetermined": {"times": {"cpu": lambda size: 1e-3, "gpu": lambda size: 0.98e-3}, "noise": 0.05},
}


def numbers_in(text):
    return [float(found) for found in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)", text)]


def is_shown(value, text):
    """Whether a number stands in a text: as it is, or rounded by no more than a size, or the third digit."""
    return any(
        math.isclose(value, found, rel_tol=5e-3, abs_tol=0.5 if value >= 100 else 1.0) for found in numbers_in(text)
    )


def read(folder):
    """Return what each place says: JSON, sentence, cells of the table, texts of the chart."""
    said = json.loads((folder / "crossovers.json").read_text())["crossovers"]
    prose = (folder / "report.md").read_text()
    table = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in prose[prose.index("| batch_size") :].splitlines()
        if re.match(r"\| \d", line)
    ]
    chart = re.sub(
        r"\s+", " ", " ".join(re.findall(r"<!--(.*?)-->", (folder / "charts/crossover.svg").read_text(), re.DOTALL))
    )
    return said, prose, table, chart


@pytest.mark.parametrize("verdict", STUDIES)
def test_the_same_study_says_the_same_everywhere(make_study, verdict):
    folder = make_study(**STUDIES[verdict])
    report = write(folder)
    (row,), prose, table, chart = read(folder)
    (sentence,) = report.sentences
    assert row["verdict"] == verdict
    assert row["sentence"] == sentence
    assert f"**{sentence}**" in prose.replace("\\", "")
    assert sentence in (folder / "report.html").read_text().replace("&#39;", "'")
    assert all(word in chart for word in re.findall(r"\w+", sentence))
    turns = row["changes"] or [row]
    for turn in turns:
        for key in ("estimate", "low", "high"):
            if turn[key] is not None:
                assert is_shown(turn[key], sentence), (key, turn[key], sentence)
                assert is_shown(turn[key], chart), (key, turn[key], chart)
    faster = {float(cells[0]): cells[4] for cells in table}
    assert sorted(faster) == [4, 16, 64, 256, 1024, 4096]
    for turn in turns:
        for end, states in (("bracket_low", ("cpu", "gpu")), ("bracket_high", ("gpu", "cpu"))):
            if turn[end] is not None and turn.get("direction"):
                expected = states[turn["direction"] == "baseline_above"]
                assert faster[turn[end]] == expected
    assert sum(int(cells[5]) for cells in table) == row["pairs"]
    if verdict == "always_challenger":
        assert set(faster.values()) == {"gpu"}


def test_times_of_the_table_are_those_of_the_chart(make_study):
    folder = make_study(noise=0.0)
    write(folder)
    _, _, table, chart = read(folder)
    assert "time per training step (ms)" in chart or "(µs)" in chart
    units = {"µs": 1e-6, "ms": 1e-3, "s": 1.0}
    for cells in table:
        size = float(cells[0])
        for cell, target in ((cells[1], "cpu"), (cells[2], "gpu")):
            value, unit = cell.split()[:2]
            assert float(value) * units[unit] == pytest.approx(POWER[target](size), rel=5e-3)
