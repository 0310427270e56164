"""Sweep files: what they mean, every way in which a file or a flag can be wrong, and joining with older ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.axis import Span
from sweeps.errors import InputError
from sweeps.sweep_file import join, load, read
from sweeps.target import Target
from tests.sweeps.asking import MINE, sweep

# ------------------------------------------------------------------------------------------------------ reading


def test_a_file_and_its_defaults(file):
    found = load(file())
    assert found == sweep()
    assert (found.passes, found.margin, found.pairing, found.seed, found.deadline_s) == (3, 0.0, "same_node", 0, 120.0)
    assert (found.baseline, found.challenger, found.axis, found.size) == ("cpu-1", "cpu", "batch_size", 12)


def test_a_byte_order_mark_and_a_folded_question(file):
    found = load(file(raw=b"\xef\xbb\xbf" + MINE.encode() + b"question: >\n  is it\n  so?\n"))
    assert found.question == "is it so?"


def test_full_targets_and_the_pair_that_is_compared(file):
    old, new = "[cpu-1, cpu]", "[{name: a, device: cpu, threads: 2}, cpu, gpu]"
    found = load(file(old, new, more="baseline: cpu\nchallenger: gpu\n"))
    assert found.target("a") == Target(name="a", device="cpu", threads=2)
    assert (found.baseline, found.challenger) == ("cpu", "gpu")


def test_what_is_asked_instead_without_an_accelerator(file):
    more = "without_accelerator: {passes: 5, targets: [cpu-1, cpu-2]}\n"
    path = file("[cpu-1, cpu]", "[cpu, gpu]", more=more)
    assert load(path).targets == sweep(targets=["cpu", "gpu"]).targets
    without = load(path, accelerator=False)
    assert (without.passes, without.challenger) == (5, "cpu-2")
    assert load(path, accelerator=False, settings=["passes=1"]).passes == 1, "a flag is stronger than the file"


def test_a_resolved_sweep_is_readable_and_needs_no_workload_file(tmp_path):
    (tmp_path / "own.py").write_text("def make(*, seed, size): ...")
    (tmp_path / "own.yaml").write_text(
        "name: own\nworkload: own.py:make\naxes: {size: {from: 1, to: 8, factor: 2}, kind: ['1e3', 'on']}\n"
        "targets: [cpu, {name: half, device: cpu, threads: 2}]\nquestion: 'größer: #1?'\n"
    )
    (tmp_path / "own.py").write_text("def make(*, seed, size, kind): ...")
    found = load(str(tmp_path / "own.yaml"))
    (tmp_path / "own.py").unlink()
    (tmp_path / "resolved.yaml").write_text(found.dump())
    assert read((tmp_path / "resolved.yaml").read_bytes(), "resolved.yaml") == found
    assert found.axes == {"size": [1, 2, 4, 8], "kind": ["1e3", "on"]}


# -------------------------------------------------------------------------------------------------------- flags


@pytest.mark.parametrize(
    ("setting", "key", "value"),
    [
        ("passes=5", "passes", 5),
        ("margin=.1", "margin", 0.1),
        ("deadline_s=1e3", "deadline_s", 1000.0),
        ("question=a, b: c #1", "question", "a, b: c #1"),
        ("question=", "question", ""),
        ("name=2026", "name", "2026"),
        ("axes.batch_size=8", "axes", {"batch_size": [8]}),
        ("axes.batch_size=8,16", "axes", {"batch_size": [8, 16]}),
        ("axes.batch_size=[8, 16]", "axes", {"batch_size": [8, 16]}),
        ("axes.batch_size={from: 8, to: 32, factor: 2}", "axes", {"batch_size": [8, 16, 32]}),
        ("axes.width=8,16", "axes", {"batch_size": [2, 4], "width": [8, 16]}),
        ("parameters.width=8", "parameters", {"width": 8}),
        ("targets=cpu-1,cpu-2", "challenger", "cpu-2"),
    ],
)
def test_a_setting_changes_one_key(file, setting, key, value):
    assert getattr(load(file(), settings=[setting]), key) == value


def test_the_last_setting_wins_and_a_new_axis_is_fixed_no_longer(file):
    found = load(file(more="parameters: {width: 8, depth: 1}\n"), settings=["passes=5", "axes.width=4,8", "passes=1"])
    assert (found.passes, found.parameters, found.axes["width"]) == (1, {"depth": 1}, [4, 8])


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("passes", "--set passes: expected key=value, such as passes=5 or axes.batch_size=32,64"),
        ("passes=", "--set passes=: expected key=value"),
        ("=5", "--set =5: expected key=value"),
        ("axes.=5", "--set axes.=5: expected key=value"),
        ("axes..x=5", "expected key=value"),
        ("\udcff=5", "expected key=value"),
        ("passes=0", "--set passes=0: passes: 0 is not allowed; a whole number from 1 to 1000"),
        ("passes=3,4", '--set passes=3,4: passes: "3,4" is not allowed; a whole number'),
        ("pases=3", "--set pases=3: pases: unknown key; name, question, "),
        ("passes.x=3", '--set passes.x=3: passes: {"x": 3} is not allowed; a whole number'),
        ("axes=3", "--set axes=3: axes: 3 is not allowed; a mapping with at least one axis"),
        ("axes.batch_size=0", "--set axes.batch_size=0: axes.batch_size: 0 is not allowed; "),
        ("axes.batch_size=-1", "axes.batch_size: -1 is not allowed; "),
        ("axes.batch_size=a", 'axes.batch_size: "a" is not allowed; the axis that is solved for has numbers above 0'),
        ("axes.batch_size=[]", "axes.batch_size: the list is empty; at least one value"),
        ("axes.batch_size=2,,4", "--set axes.batch_size=2,,4: line 1 is not plain YAML"),
        ("axes.batch_size=*a", "aliases (*name) are not allowed"),
        ("axes.batch_size=!!python/name:os.system", "tags (!!python/name:os.system) are not allowed"),
        ("axes.batch_size.from=3", "--set axes.batch_size.from=3: batch_size holds no keys of its own"),
        ("axes.image=3", "--set axes.image=3: axes.image: mlp has no such parameter; features, width, depth"),
        ("parameters.batch_size=3", "parameters.batch_size: is an axis too; give it in one place"),
        ("parameters.widht=3", "--set parameters.widht=3: parameters.widht: mlp has no such parameter; "),
        ("targets=cpu", '--set targets=cpu: targets: ["cpu"] is not allowed; a list of at least two'),
        ("targets.0=gpu", "--set targets.0=gpu: targets holds no keys of its own"),
        ("without_accelerator.passes=1", "only a sweep file can say this"),
        ("passes=" + "[" * 5000, "more than 20 levels"),
        ("passes=" + "9" * 5000, "too many digits"),
        ("passes=1\n2", '--set "passes=1\\n2": '),
        ("question=\udcff", '"\\udcff" is not allowed'),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(file, setting, why):
    with pytest.raises(InputError) as caught:
        load(file(), settings=[setting])
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_targets_replace_those_of_the_file_and_choose_among_its_own(file):
    old, new = "[cpu-1, cpu]", "[{name: half, device: cpu, threads: 2}, cpu, gpu]"
    path = file(old, new, more="baseline: cpu\nchallenger: gpu\n")
    found = load(path, targets=["half", " cpu-1"])
    assert found.targets == [Target(name="half", device="cpu", threads=2), Target.model_validate("cpu-1")]
    assert (found.baseline, found.challenger) == ("half", "cpu-1")
    kept = load(path, targets=["gpu", "cpu", "cpu-1"])
    assert (kept.baseline, kept.challenger) == ("cpu", "gpu"), "both are still there"


def test_targets_of_the_command_line_replace_broken_ones_too(file):
    path = file("[cpu-1, cpu]", "[{name: [a]}, 3, {}]", more="baseline: [cpu]\n")
    assert load(path, targets=["cpu-1", "cpu"]) == sweep()


@pytest.mark.parametrize(
    ("targets", "why"),
    [
        (["cpu"], '--targets cpu: targets: ["cpu"] is not allowed; a list of at least two, such as [cpu, gpu]'),
        (
            ["cpu", "tpux"],
            '--targets cpu,tpux: targets.1: "tpux" is not a target; one of cpu, cpu-passive, cpu-compile',
        ),
        (["cpu", "cpu"], "--targets cpu,cpu: targets: cpu is there twice"),
    ],
)
def test_targets_that_cannot_be_compared(file, targets, why):
    with pytest.raises(InputError) as caught:
        load(file(), targets=targets)
    assert why in str(caught.value)


# ---------------------------------------------------------------------------------------------------- bad files


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("name: mine", "name: 3", "name: 3 is not allowed; letters, digits"),
        ("name: mine", "name:", "name: null is not allowed; letters, digits"),
        ("name: mine", "name: ../up", 'name: "../up" is not allowed; letters, digits'),
        ("name: mine", "name: 'a\nb'", 'name: "a b" is not allowed; letters, digits'),
        ("name: mine", "names: mine", "names: unknown key; name, question, .* Did you mean name?"),
        ("name: mine\n", "", "name: this key is missing; letters, digits"),
        ("workload: mlp\n", "", "workload: this key is missing; a text: linear, mlp, .*, FILE.py:factory"),
        ("mlp", "mpl", 'workload: "mpl" is not known; linear, mlp, .*, or FILE.py:factory. Did you mean mlp?'),
        ("mlp", "[mlp]", 'workload: ["mlp"] is not allowed; a text: linear, mlp'),
        ("mlp", "gone.py:make", "workload: there is no file gone.py in "),
        ("{batch_size: [2, 4]}", "[2, 4]", "axes: [2, 4] is not allowed; a mapping with at least one axis"),
        ("{batch_size: [2, 4]}", "{}", "axes: {} is not allowed; a mapping with at least one axis"),
        ("[2, 4]", "4", "axes.batch_size: 4 is not allowed; a list such as [32, 64], or {from: 4"),
        ("[2, 4]", "[]", "axes.batch_size: the list is empty; at least one value"),
        ("[2, 4]", "[0, 4]", "axes.batch_size: 0 is not allowed; the axis that is solved for has numbers above 0"),
        ("[2, 4]", "[-1]", "axes.batch_size: -1 is not allowed; the axis that is solved for has numbers above 0"),
        ("[2, 4]", "[a]", 'axes.batch_size: "a" is not allowed; the axis that is solved for has numbers above 0'),
        ("[2, 4]", "[2.5]", "axes.batch_size: 2.5 is not allowed; batch_size of mlp is a whole number >= 1"),
        ("[2, 4]", "[.nan]", "axes.batch_size.0: NaN is not allowed; a number of at most"),
        ("[2, 4]", "[1e400]", "axes.batch_size.0: Infinity is not allowed; a number of at most"),
        ("[2, 4]", "[null]", "axes.batch_size.0: null is not allowed; a number, a text, true or false"),
        ("[2, 4]", "{from: 8, to: 2, factor: 2}", "axes.batch_size: from 8 to 2 is not a range"),
        ("batch_size: [2, 4]", "bach_size: [2]", "axes.bach_size: mlp has no such parameter; .*mean batch_size?"),
        ("batch_size: [2, 4]", "image: [2]", "axes.image: mlp has no such parameter; features, width, depth"),
        ("batch_size: [2, 4]", "target: [2]", "axes.target: the name is taken by a column"),
        ("batch_size: [2, 4]", "Target: [2]", "axes.Target: the name is taken by a column"),
        ("batch_size: [2, 4]", "seed: [2]", "axes.seed: the name is taken by a column"),
        ("batch_size: [2, 4]", "'a b': [2]", "axes.a b: is no name for a parameter"),
        ("batch_size: [2, 4]", "3: [2]", "axes.3: is no name for a parameter"),
        ("[cpu-1, cpu]", "cpu", 'targets: "cpu" is not allowed; a list of at least two, such as [cpu, gpu]'),
        ("[cpu-1, cpu]", "[cpu]", 'targets: ["cpu"] is not allowed; a list of at least two'),
        ("[cpu-1, cpu]", "[cpu, cpu]", "targets: cpu is there twice"),
        ("[cpu-1, cpu]", "[cpu, gpuu]", 'targets.1: "gpuu" is not a target; one of cpu, .*Did you mean gpu?'),
        ("[cpu-1, cpu]", "[cpu, null]", "targets.1: null is not allowed; one of cpu, cpu-passive, cpu-compile"),
        ("[cpu-1, cpu]", "[cpu, [gpu]]", 'targets.1: ["gpu"] is not allowed; one of cpu'),
        ("[cpu-1, cpu]", "[cpu, {name: a}]", "targets.1.device: this key is missing; one of cpu, gpu, cuda, mps"),
        (
            "[cpu-1, cpu]",
            "[cpu, {name: a, device: cpu, threads: 0}]",
            "targets.1.threads: 0 is not allowed; a whole number from 1 to 9999, or all",
        ),
        ("[cpu-1, cpu]", "[cpu, {name: a, device: cpu, tread: 2}]", "targets.1.tread: unknown key; name, device, thre"),
    ],
)
def test_a_key_that_cannot_be_used_is_named(file, old, new, why):
    path = file(old, new)
    with pytest.raises(InputError) as caught:
        load(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    first, _, second = why.partition(".*")
    assert first in said
    assert second in said
    assert_is_for_people(said)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("pases: 3", "pases: unknown key; .*Did you mean passes?"),
        ("1: 2", "1: unknown key; name, question"),
        ("baseline: gpu", 'baseline: "gpu" is not one of the targets; cpu-1, cpu'),
        ("baseline: 3", "baseline: 3 is not allowed; name of a target"),
        ("challenger: cpu-1", 'challenger: "cpu-1" is the baseline too; name another target'),
        ("margin: -0.1", "margin: -0.1 is not allowed; a number from 0 to below 1; 0.1 is 10 %"),
        ("margin: 1", "margin: 1 is not allowed; a number from 0 to below 1"),
        ("margin: 10%", 'margin: "10%" is not allowed; a number from 0 to below 1'),
        ("margin: '0.1'", 'margin: "0.1" is not allowed; a number from 0 to below 1'),
        ("margin: .nan", "margin: NaN is not allowed; a number from 0 to below 1"),
        ("passes: 0", "passes: 0 is not allowed; a whole number from 1 to 1000"),
        ("passes: 1.5", "passes: 1.5 is not allowed; a whole number from 1 to 1000"),
        ("passes: '3'", 'passes: "3" is not allowed; a whole number from 1 to 1000'),
        ("passes: true", "passes: true is not allowed; a whole number from 1 to 1000"),
        ("passes: " + "9" * 400, "... is not allowed; a whole number from 1 to 1000"),
        ("pairing: same", 'pairing: "same" is not allowed; same_node or by_target'),
        ("deadline_s: 0", "deadline_s: 0 is not allowed; seconds, above 0 and at most 86400"),
        ("deadline_s: .inf", "deadline_s: Infinity is not allowed; seconds, above 0"),
        ("deadline_s: true", "deadline_s: true is not allowed; seconds, above 0"),
        ("deadline_s: 1 h", 'deadline_s: "1 h" is not allowed; seconds, above 0'),
        ("seed: -1", "seed: -1 is not allowed; a whole number from 0 to 4294967295"),
        ("question: [a]", 'question: ["a"] is not allowed; a text of at most 500 characters'),
        ('question: "\\ud800"', 'question: "\\ud800" is not allowed; '),
        ("parameters: 3", "parameters: 3 is not allowed; a mapping of names to values"),
        ("parameters:", "parameters: null is not allowed; a mapping of names to values"),
        ("parameters: {width: [8]}", "parameters.width: [8] is not allowed; a number, a text, true or false"),
        ("parameters: {width: 0}", "parameters.width: 0 is not allowed; width of mlp is a whole number >= 1"),
        ("parameters: {batch_size: 3}", "parameters.batch_size: is an axis too; give it in one place"),
        ("parameters: {width: " + "9" * 30 + "}", "parameters.width: .*a number of at most 9007199254740992"),
        ("without_accelerator: 3", "without_accelerator: 3 is not allowed; a mapping of keys to replace"),
        ("name: twice", "line 5 is not plain YAML: the key name is there twice"),
        ("question: &a [*a]", "line 5 is not plain YAML: aliases (*name) are not allowed"),
        (
            "question: !!python/object/apply:os.getcwd []",
            "line 5 is not plain YAML: tags (!!python/object/apply:os.get",
        ),
        ("? [a, b]\n: 2", "line 5 is not plain YAML: a key has to be a name"),
        ("question: " + "[" * 900 + "]" * 900, "line 5 is not plain YAML: more than 20 levels"),
        ("question: [a", "is not plain YAML: while parsing a flow sequence"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(file, line, why):
    path = file(more=line + "\n")
    with pytest.raises(InputError) as caught:
        load(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    first, _, second = why.partition(".*")
    assert first in said
    assert second in said
    assert_is_for_people(said)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty; a sweep file has the keys name, question, workload"),
        (b"# nothing\n", "is empty; a sweep file has the keys"),
        (b"- a\n", 'holds ["a"]; a sweep file has the keys'),
        (b"hello", 'holds "hello"; a sweep file has the keys'),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "is not UTF-8 text; a sweep file is YAML"),
        (MINE.encode("utf-16"), "is not UTF-8 text; a sweep file is YAML"),
        (b"\x00\x01\x02", "is not plain YAML: unacceptable character"),
        (b"#" * 1_000_001, "is larger than 1000000 bytes; a sweep file is a short text"),
    ],
)
def test_a_file_that_is_no_sweep(file, content, why):
    path = file(raw=content)
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: {why}")
    assert_is_for_people(str(caught.value))


def assert_is_for_people(said):
    """One line of a readable length, in our words and not in those of the libraries underneath."""
    assert "\n" not in said
    assert len(said) < 500
    for jargon in ("nput should", "after validation", "value_error", "dictionary", "NoneType", "Errno", "codec"):
        assert jargon not in said


def test_a_fault_in_what_is_asked_instead_says_so(file):
    path = file(more="without_accelerator: {passes: 0}\n")
    assert load(path).passes == 3
    with pytest.raises(InputError, match=r"mine\.yaml: without_accelerator: passes: 0 is not allowed"):
        load(path, accelerator=False)


def test_several_faults_are_counted(file):
    with pytest.raises(InputError, match=r"margin: 7 is not allowed; .* \(and 2 more such mistakes\)$"):
        load(file(more="passes: 0\nseed: -1\nmargin: 7\n"))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("defualt", r'no sweep is called "defualt"; .*batch_size, branching, .* Did you mean default\?'),
        ("", r'no sweep is called ""; .*batch_size, branching, '),
        ("mine", r"or a file that ends in \.yaml"),
        ("gone.yaml", r"gone\.yaml: there is no such file"),
        ("folder.yaml", r"folder\.yaml: is not a file"),
        ("x" * 300 + ".yaml", "cannot be read: File name too long"),
    ],
)
def test_a_name_that_is_no_sweep(tmp_path, monkeypatch, name, why):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(InputError, match=why):
        load(name)


# ------------------------------------------------------------------------------------------------------ joining


def test_a_study_grows_by_values_passes_and_targets():
    older = sweep(axes={"batch_size": [8, 2]}, passes=5, targets=["cpu-1", "cpu", "gpu"])
    joined = join(sweep(axes={"batch_size": [4, 2]}, targets=["cpu-1", "cpu-2"], margin=0.2), older)
    assert joined.axes == {"batch_size": [2, 4, 8]}
    assert joined.passes == 5
    assert [target.name for target in joined.targets] == ["cpu-1", "cpu-2", "cpu", "gpu"]
    assert (joined.baseline, joined.challenger, joined.margin) == ("cpu-1", "cpu-2", 0.2)


@given(st.sets(st.integers(1, 50), min_size=1), st.sets(st.integers(1, 50), min_size=1))
def test_joining_is_the_same_either_way_and_twice(first, second):
    one, two = (sweep(axes={"batch_size": sorted(sizes)}) for sizes in (first, second))
    assert join(one, two) == join(two, one)
    assert join(join(one, two), two) == join(one, two)
    assert join(one, one) == one


def test_what_is_joined_can_be_read_again(tmp_path):
    older = sweep(axes={"batch_size": [2], "width": [8]})
    (tmp_path / "sweep.yaml").write_text(join(sweep(axes={"batch_size": [4], "width": [16]}), older).dump())
    assert read((tmp_path / "sweep.yaml").read_bytes(), "sweep.yaml").axes == {"batch_size": [2, 4], "width": [8, 16]}


SPAN = {"axes": {"batch_size": {"from": 4, "to": 64}}, "strategy": "adaptive"}


@pytest.mark.parametrize(
    ("older", "newer", "axis"),
    [
        (SPAN, SPAN, Span(low=4, high=64)),
        (SPAN, SPAN | {"axes": {"batch_size": {"from": 8, "to": 4096}}}, Span(low=4, high=4096)),
        (SPAN, SPAN | {"axes": {"batch_size": [2, 8, 100]}}, Span(low=2, high=100)),
        ({"axes": {"batch_size": [2, 16]}, "passes": 5}, SPAN, Span(low=2, high=64)),
        ({"axes": {"batch_size": [2, 16]}, "passes": 5}, SPAN | {"explain": True}, Span(low=2, high=64)),
    ],
)
def test_a_search_goes_on_from_a_search_or_a_grid(older, newer, axis):
    joined = join(sweep(**newer), sweep(**older))
    assert joined.axes == {"batch_size": axis}
    assert joined.strategy == "adaptive"
    assert joined.passes == (5 if newer.get("explain") else 3)
    assert read(joined.dump().encode(), "sweep.yaml") == joined


def test_a_range_that_was_whole_is_continuous_once_a_size_is_not(tmp_path):
    (tmp_path / "own.py").write_text("def make(*, seed, size): ...")
    own = {"workload": f"{tmp_path / 'own.py'}:make"}
    older = sweep(**own, axes={"size": [4.5, 100]})
    joined = join(sweep(**own, axes={"size": {"from": 4, "to": 64}}, strategy="adaptive"), older)
    assert joined.axes["size"] == Span(low=4.0, high=100.0)
    assert joined.axes["size"].holds(4.5)


def test_a_share_can_be_said_in_per_cent(file):
    more = "strategy: adaptive\nhalf_width: 5%\n"
    assert load(file("[2, 4]", "{from: 2, to: 64}", more=more)).half_width == 0.05
    with pytest.raises(InputError, match=r'half_width: "x%" is not allowed; a number from 0\.01 to 1, or 1% to 100%'):
        load(file("[2, 4]", "{from: 2, to: 64}", more=more.replace("5%", "x%")))


def test_another_strategy_does_not_keep_the_passes_of_the_file(file):
    path = file("[2, 4]", "[2, 4, 8]", more="passes: 5\n")
    assert load(path, settings=["strategy=adaptive"]).strategy == "adaptive"
    with pytest.raises(InputError, match="--set passes=5: passes: with strategy: adaptive"):
        load(path, settings=["strategy=adaptive", "passes=5"])


@pytest.mark.parametrize(
    ("older", "newer", "why"),
    [
        (
            {"targets": [{"name": "a", "device": "cpu", "threads": 1}, "cpu"]},
            {"targets": [{"name": "a", "device": "cpu", "threads": 2}, "cpu"]},
            r"targets: a is another one in the study \(device: cpu, threads: 1; now device: cpu, threads: 2\)",
        ),
        (
            {"axes": {"batch_size": list(range(1, 700))}},
            {"axes": {"batch_size": list(range(700, 1400))}},
            "together with what the study holds: axes.batch_size: 1399 values are too many; at most 1000",
        ),
        (
            {"axes": {"batch_size": list(range(1, 901))}, "passes": 55},
            {"axes": {"batch_size": list(range(1, 961))}},
            "together with what the study holds: axes: 105600 trials are too many",
        ),
        (SPAN, {}, "strategy: the study was measured with strategy: adaptive, which a grid sweep cannot go on with"),
        (SPAN, SPAN | {"strategy": "largest"}, "strategy: adaptive, which a largest sweep cannot go on with"),
    ],
)
def test_what_does_not_go_together(older, newer, why):
    with pytest.raises(InputError, match=why):
        join(sweep(**newer), sweep(**older))
