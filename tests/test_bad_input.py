"""The command and bad input: one or two lines that say what, where and what is legal; exit code 2; nothing written.

Every way in which a sweep can be wrong is tried in tests/sweeps; here is the whole program, once for each kind.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MINE = "name: mine\nworkload: mlp\naxes: {batch_size: [2, 4]}\ntargets: [cpu-1, cpu]\n"


def contents(folder):
    """Return everything below a folder, as far as its bytes."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def refused(tmp_path):
    """Return a function that runs the command in a folder of its own and returns what it complained of."""

    def run(*arguments):
        before = contents(tmp_path)
        command = [sys.executable, str(ROOT / "sweep.py"), *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 2, done.stdout + done.stderr
        assert contents(tmp_path) == before
        assert "Traceback" not in done.stderr
        assert "done " not in done.stdout
        return done.stderr

    return run


def is_short(said):
    """Whether a complaint has one or two lines of a length that can be read."""
    lines = said.splitlines()
    return 1 <= len(lines) <= 2 and all(len(line) < 500 for line in lines)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "defualt",
            None,
            [
                '"defualt"',
                "default, hardware, lstm_fused, lstm_loop",
                "Did you mean default?",
            ],
        ),
        ("gone.yaml", None, ["gone.yaml", "there is no such file"]),
        ("folder.yaml", "", ["folder.yaml", "is not a file"]),
        ("mine.yaml", b"", ["mine.yaml", "is empty", "name, question, workload"]),
        ("mine.yaml", b"name: [unclosed", ["mine.yaml", "line 1", "is not plain YAML"]),
        ("mine.yaml", b"\x89PNG\r\n\xff\xfe\x00", ["mine.yaml", "is not UTF-8 text"]),
        ("mine.yaml", b"[" * 100_000, ["mine.yaml", "line 1", "more than 20 levels"]),
        ("mine.yaml", b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", ["mine.yaml", "line 2", "aliases"]),
        ("mine.yaml", MINE + "question: !!python/object/apply:os.system [touch x]\n", ["line 5", "tags (!!python"]),
        ("mine.yaml", MINE + "name: twice\n", ["mine.yaml", "line 5", "name is there twice"]),
        ("mine.yaml", MINE + "? [a]\n: b\n", ["mine.yaml", "line 5", "a key has to be a name"]),
        ("mine.yaml", MINE + "pases: 5\n", ["mine.yaml", "pases", "unknown key", "Did you mean passes?"]),
        ("mine.yaml", MINE + "passes: three\n", ["mine.yaml", "passes", '"three"', "a whole number from 1 to 1000"]),
        ("mine.yaml", MINE + "deadline_s: 1e400\n", ["mine.yaml", "deadline_s", "Infinity", "at most 86400"]),
        ("mine.yaml", MINE + "margin: .nan\n", ["mine.yaml", "margin", "NaN", "from 0 to below 1"]),
        ("mine.yaml", MINE + "seed: -.inf\n", ["mine.yaml", "seed", "-Infinity", "a whole number from 0"]),
        ("mine.yaml", MINE + f"seed: {'9' * 9000}\n", ["mine.yaml", "too many digits"]),
        (
            "mine.yaml",
            MINE.replace("mlp", "mpl"),
            ["mine.yaml", "workload", '"mpl"', "linear, mlp", "Did you mean mlp?"],
        ),
        (
            "mine.yaml",
            MINE.replace("[cpu-1, cpu]", "[cpu, tpux]"),
            ["targets.1", '"tpux"', "gpu, gpu-graph, gpu-compile, gpu-tf32, cuda, mps, cpu-1, cpu-N"],
        ),
        ("mine.yaml", MINE.replace("[2, 4]", "[0]"), ["mine.yaml", "axes.batch_size", ": 0 ", "numbers above 0"]),
        ("mine.yaml", MINE.replace("[2, 4]", "[4, -1]"), ["mine.yaml", "axes.batch_size", ": -1 ", "numbers above 0"]),
        ("mine.yaml", MINE.replace("[2, 4]", "[]"), ["mine.yaml", "axes.batch_size", "empty", "at least one value"]),
        ("mine.yaml", MINE.replace("batch_size", "image"), ["axes.image", "mlp has no such parameter", "batch_size"]),
    ],
)
def test_a_sweep_that_is_none(tmp_path, refused, name, content, words):
    if content == "":
        (tmp_path / name).mkdir()
    elif content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    said = refused(name)
    assert is_short(said), said
    assert [word for word in words if word not in said] == [], said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "passes"], ["--set passes", "key=value", "passes=5"]),
        (["--set", "passes=0"], ["--set passes=0", "a whole number from 1 to 1000"]),
        (["--set", "axes.batch_size="], ["--set axes.batch_size=", "key=value"]),
        (["--set", "axes.batch_size=0,4"], ["axes.batch_size", ": 0 ", "numbers above 0"]),
        (["--set", "axes.image=4"], ["axes.image", "mlp has no such parameter", "batch_size"]),
        (["--targets", "cpu"], ["--targets cpu", "a list of at least two"]),
        (["--targets", "cpu,gpuu"], ['"gpuu"', "gpu-tf32, cuda, mps, cpu-1, cpu-N", "Did you mean gpu?"]),
        (["--set", "parameters.optimizer=Adma"], ["parameters.optimizer", '"Adma"', "one of ASGD, ", "SGD"]),
        (["--set", "parameters.loader=fast"], ["parameters.loader", '"fast"', "dataloader, gather, slice, resident"]),
        (["--set", "parameters.sync_every=10"], ["parameters.sync_every", "sync: every_step only"]),
        (["--set", "parameters.rows=1"], ["axes.batch_size", "more than the 1 rows"]),
        (["--set", "explain=yes"], ["--set explain=yes", "true or false"]),
        (["--out", "s3://"], ["s3://", "no address of a folder"]),
        (["--retry", "eror"], ["--retry eror", "ok, oom, timeout, error", "Did you mean error?"]),
        (["--address", "nonsense"], ["Ray at nonsense"]),
    ],
)
def test_a_flag_that_cannot_be_used(tmp_path, refused, arguments, words):
    (tmp_path / "mine.yaml").write_text(MINE)
    said = refused("mine.yaml", *arguments)
    assert is_short(said), said
    assert [word for word in words if word not in said] == [], said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--no-such-flag"], ["--no-such-flag"]),
        (["--max-minutes", "-1"], ["--max-minutes"]),
        (["--wait", "long"], ["--wait"]),
        (["--wait", "-1"], ["--wait"]),
        (["--out"], ["--out"]),
        (["another.yaml"], ["another.yaml"]),
    ],
)
def test_words_that_are_no_command(tmp_path, refused, arguments, words):
    (tmp_path / "mine.yaml").write_text(MINE)
    said = refused("mine.yaml", *arguments)
    assert [word for word in words if word not in said] == [], said


def a_file(place):
    place.write_text("a file")


def a_folder_of_somebody(place):
    place.mkdir()
    (place / "thesis.txt").write_text("mine")


def a_study(old, new):
    def make(place):
        place.mkdir()
        (place / "sweep.yaml").write_text(MINE.replace(old, new))

    return make


def a_damaged_study(place):
    place.mkdir()
    (place / "sweep.yaml").write_text("name: [")


@pytest.mark.parametrize(
    ("prepare", "out", "words"),
    [
        (a_file, "busy", ["--out busy", "cannot be written"]),
        (a_file, "busy/deeper", ["--out busy/deeper", "cannot be written"]),
        (None, "/proc/no/such", ["/proc/no/such", "cannot be written", "choose another --out"]),
        (a_folder_of_somebody, "busy", ["--out busy", "not empty and not a study", "choose another"]),
        (a_study("mine", "yours"), "busy", ["--out busy", "another study", "yours", "mine"]),
        (a_study("mlp", "linear"), "busy", ["another study", "workload linear", "mlp"]),
        (a_study("batch_size", "width"), "busy", ["another study", "axes width", "batch_size"]),
        (a_study("targets", "parameters: {width: 8}\ntargets"), "busy", ["another study", "parameters"]),
        (a_study("targets", "seed: 3\ntargets"), "busy", ["another study", "seed 3", "0"]),
        (a_damaged_study, "busy", ["busy/sweep.yaml", "line 1", "is not plain YAML"]),
        (
            a_study("[cpu-1, cpu]", "[cpu-1, {name: cpu, device: cpu, threads: 2}]"),
            "busy",
            ["targets: cpu is another one in the study", "threads: 2", "threads: all"],
        ),
    ],
    ids=["file", "below-file", "proc", "folder", "name", "workload", "axes", "parameters", "seed", "damaged", "target"],
)
def test_an_output_folder_that_cannot_be_used(tmp_path, refused, prepare, out, words):
    (tmp_path / "mine.yaml").write_text(MINE)
    if prepare:
        prepare(tmp_path / "busy")
    said = refused("mine.yaml", "--local", "--out", out)
    assert is_short(said), said
    assert [word for word in words if word not in said] == [], said


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (None, ["mine.yaml", "workload", "there is no file own.py"]),
        ("def make(:", ["workload", "own.py line 1 is not Python"]),
        ("def mack(*, seed, size): ...", ["own.py has no function or class make", "mack", "Did you mean mack?"]),
        ("def make(*, seed): ...", ["axes.size", "own.py:make takes no such argument", "none"]),
        ("def make(*, size): ...", ["workload", "own.py:make takes no seed"]),
        ("def make(*, seed, size, depth): ...", ["parameters", "own.py:make also needs depth"]),
    ],
)
def test_own_code_that_cannot_be_used(tmp_path, refused, source, words):
    (tmp_path / "mine.yaml").write_text(MINE.replace("mlp", "own.py:make").replace("batch_size", "size"))
    if source:
        (tmp_path / "own.py").write_text(source)
    said = refused("mine.yaml")
    assert is_short(said), said
    assert [word for word in words if word not in said] == [], said
