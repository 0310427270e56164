"""The files of a report: the same numbers in all of them, nothing of the results taken for markup."""

import json
import re
from html.parser import HTMLParser

import pytest

from analysis import report
from analysis.conclusion import conclude
from analysis.load import load
from sweeps.errors import StudyError

NASTY = '<script>alert("x")</script> | `code` | <img src=x onerror=y> *bold* [a](b) & -->'


class Page(HTMLParser):
    """Reads what a browser would see: the tags, and the text outside of style."""

    VOID = frozenset({"meta", "br", "img", "link", "hr"})

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.open, self.words = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)


def page_of(folder):
    return Page((folder / "report.html").read_text())


def test_a_report_is_these_files(make_study):
    folder = make_study()
    written = report.write(folder)
    assert list(written.files) == [
        "report.html",
        "report.md",
        "crossovers.json",
        "charts/crossover.svg",
        "charts/crossover.png",
    ]
    assert all((folder / name).stat().st_size for name in written.files)
    assert sorted(path.name for path in folder.rglob("*") if path.name.startswith(".")) == []


@pytest.mark.parametrize("margin", [0.0, 0.1])
def test_one_verdict_reads_the_same_everywhere(make_study, margin):
    folder = make_study(margin=margin)
    written = report.write(folder)
    (sentence,) = written.sentences
    numbers = re.findall(r"\d+", sentence)
    found = json.loads((folder / "crossovers.json").read_text())["crossovers"][0]
    assert found["sentence"] == sentence
    assert numbers[0] == str(round(found["estimate"]))
    assert sentence in (folder / "report.md").read_text()
    page = page_of(folder)
    assert sentence in page.words
    drawn = re.sub(
        r"\s+", " ", " ".join(re.findall(r"<!--(.*?)-->", (folder / "charts/crossover.svg").read_text(), re.DOTALL))
    )
    assert sentence in drawn
    assert written.crossovers["sentence"].tolist() == [sentence]


def test_the_json_is_strict_and_exactly_as_contracted(make_study):
    folder = make_study("named", fail=lambda target, *_: ("unavailable", "none") if target == "gpu" else None)
    report.write(folder)
    read = json.loads((folder / "crossovers.json").read_text(), parse_constant=pytest.fail)
    assert list(read) == ["study", "crossovers", "warnings"]
    assert read["study"] == "named"
    (row,) = read["crossovers"]
    assert list(row) == [
        "verdict",
        "direction",
        "estimate",
        "low",
        "high",
        "bracket_low",
        "bracket_high",
        "pairs",
        "changes",
        "reasons",
        "sentence",
    ]
    assert (row["verdict"], row["estimate"], row["pairs"]) == ("undetermined", None, 0)
    assert all(isinstance(reason, str) for reason in row["reasons"])


def test_the_json_holds_changes_and_groups(make_study):
    def gpu(size):
        return 1e-5 * size * (0.5 if 30 < size < 600 else 1.6)

    times = {"cpu": lambda size: 1e-5 * size, "gpu": gpu}
    folder = make_study(times=times, axes={"batch_size": [4, 16, 64, 256, 1024, 4096], "width": [8, 16]})
    report.write(folder)
    rows = json.loads((folder / "crossovers.json").read_text(), parse_constant=pytest.fail)["crossovers"]
    assert [row["width"] for row in rows] == [8, 16]
    assert [row["verdict"] for row in rows] == ["several", "several"]
    assert [change["direction"] for change in rows[0]["changes"]] == ["challenger_above", "baseline_above"]


def test_the_page_stands_alone(make_study):
    folder = make_study()
    report.write(folder)
    page = page_of(folder)
    assert page.open == []
    assert not {"script", "link", "iframe", "img", "object"} & set(page.tags)
    assert "svg" in page.tags
    for tag, name, value in page.attributes:
        if name in ("href", "src", "xlink:href"):
            assert value.startswith("#"), (tag, name, value)
        assert not name.startswith("on")
    assert not re.search(r"url\((?!#)|@import", (folder / "report.html").read_text())
    assert (folder / "report.html").stat().st_size < 3_000_000


def test_the_page_follows_the_readers_colours_and_width(make_study):
    folder = make_study()
    report.write(folder)
    text = (folder / "report.html").read_text()
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text


def test_names_in_the_page_are_unique_even_with_many_charts(make_study):
    folder = make_study(axes={"batch_size": [4, 64, 4096], "width": [8, 16]})
    report.write(folder)
    ids = [value for _, name, value in page_of(folder).attributes if name == "id"]
    assert len(ids) == len(set(ids))
    targets = re.findall(r'(?:href="|url\()#([^")]+)', (folder / "report.html").read_text())
    assert set(targets) <= set(ids)


def test_texts_of_the_results_are_never_markup(make_study):
    folder = make_study(
        question=NASTY,
        fail=lambda target, *_: ("error", NASTY) if target == "gpu" else None,
        row=lambda *_: {"host": NASTY, "cpu_model": NASTY, "os": NASTY, "code_version": NASTY},
    )
    report.write(folder)
    page = page_of(folder)
    assert not {"script", "img"} & set(page.tags)
    assert page.open == []
    assert any(NASTY in words for words in page.words)
    prose = (folder / "report.md").read_text()
    assert "<script" not in prose
    assert "<img" not in prose


def test_tables_of_the_markdown_keep_their_columns(make_study):
    folder = make_study(
        fail=lambda target, size, index: ("error", NASTY) if (target, index) == ("gpu", 0) else None,
        row=lambda *_: {"host": NASTY + "\nnext line", "cpu_model": "a|b\\"},
    )
    report.write(folder)
    lines = (folder / "report.md").read_text().splitlines()
    tables = "\n".join(line if line.startswith("|") else "" for line in lines).strip("\n")
    checked = 0
    for table in re.split(r"\n{2,}", tables):
        widths = {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in table.splitlines()}
        assert len(widths) == 1
        checked += 1
    assert checked == 3


def test_markdown_escapes_only_what_has_a_meaning():
    assert report.markdown("batch_size 4") == "batch_size 4"
    assert report.markdown("a|b `c` *d* [e] <f> _g_\nh") == r"a\|b \`c\` \*d\* \[e\] &lt;f&gt; \_g\_ h"
    assert report.markdown("\\|") == r"\\\|"


def test_groups_have_a_chart_each_and_charts_of_lost_groups_go(make_study):
    folder = make_study(axes={"batch_size": [4, 64, 4096], "width": [8, 16]})
    charts = folder / "charts"
    charts.mkdir()
    for name in ("crossover.svg", "crossover-old.png", "crossover-mine.txt", "mine.svg"):
        (charts / name).write_text("old")
    report.write(folder)
    assert sorted(path.name for path in charts.iterdir()) == [
        "crossover-mine.txt",
        "crossover-width-16.png",
        "crossover-width-16.svg",
        "crossover-width-8.png",
        "crossover-width-8.svg",
        "mine.svg",
    ]


def parts_of(trial):
    """A step of 1 ms whose loader takes 40 % of it, on a GPU that wins above 100."""
    whole = 1e-5 * trial.parameters["batch_size"] if trial.target.device == "cpu" else 1e-3
    return whole * {"e2e": 1, "preload": 0.6, "resident": 0.5, "kernel": 0.2, "twin": 0.5}[trial.rung]


EXPLAINED = [{"batch_size": 4}, {"batch_size": 4096}]


def test_where_the_time_goes_is_in_the_page_the_text_and_a_chart(make_study):
    folder = make_study(time_of=parts_of, explained=EXPLAINED)
    paths = list(report.write(folder).files)
    assert paths[-2:] == ["charts/ladder.svg", "charts/ladder.png"]
    page, prose = page_of(folder), (folder / "report.md").read_text()
    assert page.open == []
    assert "Where the time goes" in page.words
    (sentence, *_) = [words for words in page.words if "the loader takes" in words]
    assert re.fullmatch(
        r"On (cpu|gpu) at batch_size (4|4096) the loader takes (3[7-9]|4[0-4]) % of a step "
        r"\(95 % interval \d\d to \d\d %\)\.",
        sentence,
    )
    assert sentence in prose
    assert "![Where the time of a step goes](charts/ladder.svg)" in prose
    assert "charts/ladder.svg" in (folder / "report.html").read_text()


def test_the_ladder_changes_no_verdict(make_study):
    plain, explained = (
        make_study("plain", time_of=parts_of),
        make_study("plain/again", time_of=parts_of, explained=EXPLAINED),
    )
    found = [conclude(load(folder)).crossovers for folder in (plain, explained)]
    for numbers in found:
        assert numbers["verdict"].tolist() == ["crosses"]
        assert numbers["pairs"].tolist() == [30]
    drawn = [(folder / "charts/crossover.svg") for folder in (plain, explained)]
    for folder in (plain, explained):
        report.write(folder)
    assert "dots" in drawn[0].read_text()
    assert drawn[0].read_text().count("<use") == drawn[1].read_text().count("<use")


def test_without_a_ladder_nothing_is_said_of_it_and_an_old_chart_goes(make_study):
    folder = make_study()
    (folder / "charts").mkdir()
    (folder / "charts" / "ladder.svg").write_text("old")
    report.write(folder)
    assert not (folder / "charts" / "ladder.svg").exists()
    assert "Where the time goes" not in page_of(folder).words
    assert "Where the time goes" not in (folder / "report.md").read_text()


def test_a_study_with_a_ladder_has_tables_that_keep_their_columns(make_study):
    folder = make_study(workload="lstm_loop", time_of=parts_of, explained=EXPLAINED, passes=1)
    report.write(folder)
    lines = (folder / "report.md").read_text().splitlines()
    tables = "\n".join(line if line.startswith("|") else "" for line in lines).strip("\n")
    counts = [
        {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in table.splitlines()}
        for table in re.split(r"\n{2,}", tables)
    ]
    assert counts == [{8}, {8}, {9}]


def test_the_same_study_gives_the_same_bytes(make_study):
    folder = make_study()
    first = [(folder / name).read_bytes() for name in report.write(folder).files]
    assert [(folder / name).read_bytes() for name in report.write(folder).files] == first


def test_too_many_charts_stay_beside_the_page(make_study, monkeypatch):
    monkeypatch.setattr(report, "INLINE_BYTES", 1000)
    folder = make_study()
    report.write(folder)
    assert "svg" not in page_of(folder).tags
    assert "charts/crossover.svg" in (folder / "report.html").read_text()


@pytest.mark.parametrize(
    "changes",
    [
        {"sizes": (64,)},
        {"passes": 1},
        {"passes": 1, "sizes": (64,)},
        {"fail": lambda *_: ("error", "boom")},
        {"skip": lambda target, *_: target == "cpu"},
        {"sizes": tuple(range(1, 41)), "passes": 1},
    ],
    ids=["one size", "one pass", "one of each", "all failed", "one side not run", "forty sizes"],
)
def test_thin_studies_have_a_report_too(make_study, changes):
    folder = make_study(**changes)
    written = report.write(folder)
    assert written.sentences[0].endswith(".")
    assert "nan" not in written.sentences[0]
    assert page_of(folder).open == []


def test_warnings_are_in_every_file(make_study):
    folder = make_study()
    (folder / "trials" / "stray.csv").write_text("")
    (warning,) = report.write(folder).warnings
    assert "stray.csv" in warning
    assert warning in page_of(folder).words
    assert warning in (folder / "report.md").read_text()
    assert json.loads((folder / "crossovers.json").read_text())["warnings"] == [warning]


def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(make_study):
    folder = make_study()
    (folder / "charts").write_text("a file where a folder belongs")
    with pytest.raises(StudyError, match="the report cannot be written") as refused:
        report.write(folder)
    assert str(folder) in str(refused.value)
