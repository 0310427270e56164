"""A user's own code, read without running it."""

import pytest

from sweeps.errors import InputError
from sweeps.own import resolve_own, short_name, source_of, takes_rung
from sweeps.workload import complete

SOURCE = """\
from dataclasses import dataclass
from functools import partial
raise RuntimeError("reading must not run this")
def make(*, seed, size, depth=2): ...
def anything(**parameters): ...
def unseeded(size): ...
def positional(seed, size, depth=2): ...
class Model:
    def __init__(self, *, seed, size): ...
class Inherits(Model): ...
@dataclass
class Data:
    seed: int
assigned = partial(make, depth=3)
def apart(*, seed, size, rung): ...
def chosen(seed, size, rung="e2e"): ...
def apart_or_anything(*, seed, rung, **parameters): ...
class Apart:
    def __init__(self, *, seed, size, rung): ...
class Whole:
    def __init__(self, *, seed, size): ...
    def prepare(self, rung): ...
@partial
def decorated(*, seed, size, rung): ...
def by_place(rung, /, seed): ...
def _hidden(*, seed): ...
"""


@pytest.fixture
def own(tmp_path):
    (tmp_path / "own.py").write_text(SOURCE)
    return lambda factory: resolve_own(f"own.py:{factory}", tmp_path)


@pytest.mark.parametrize(
    ("factory", "given"),
    [
        ("make", {"size": 1}),
        ("make", {"size": 1, "depth": "deep"}),
        ("anything", {"whatever": 1.5}),
        ("positional", {"size": 1}),
        ("Model", {"size": 1}),
        ("Inherits", {"size": 1}),
        ("Data", {"size": 1}),
        ("assigned", {"size": 1}),
        ("apart", {"size": 1}),
        ("chosen", {"size": 1}),
        ("apart_or_anything", {"whatever": 1}),
    ],
)
def test_own_code_takes_what_its_source_says(own, factory, given):
    assert complete(own(factory), given, ()) == given


@pytest.mark.parametrize(
    ("factory", "given", "why"),
    [
        ("make", {"size": 1, "widht": 2}, r"axes\.widht: own\.py:make takes no such argument; size, depth\."),
        ("make", {"dept": 2, "size": 1}, r"Did you mean depth\?"),
        ("make", {"depth": 2}, "parameters: own.py:make also needs size"),
        ("positional", {}, "parameters: own.py:positional also needs size"),
        ("Model", {"size": 1, "self": 2}, r"parameters\.self: own\.py:Model takes no such argument; size"),
        ("unseeded", {"size": 1}, "workload: own.py:unseeded takes no seed"),
        ("apart", {"size": 1, "rung": "preload"}, r"parameters\.rung: own\.py:apart takes no such argument; size\."),
        ("chosen", {}, "parameters: own.py:chosen also needs size$"),
    ],
)
def test_what_own_code_does_not_take(own, factory, given, why):
    with pytest.raises(InputError, match=why):
        complete(own(factory), given, ("widht",))


@pytest.mark.parametrize(
    ("factory", "takes"),
    [
        *((name, True) for name in ("apart", "chosen", "apart_or_anything", "Apart")),
        *((name, False) for name in ("make", "anything", "Whole", "Inherits", "Data", "assigned", "decorated")),
        ("by_place", False),
    ],
)
def test_what_can_be_taken_apart_names_the_rung_in_its_source(own, factory, takes):
    assert takes_rung(own(factory)) is takes
    assert takes_rung(f"/gone/own.py:{factory}", SOURCE) is takes  # a node has the text, and no file
    assert takes_rung(f"gone.own:{factory}", SOURCE) is takes


def test_a_text_that_has_no_such_factory_is_told_by_the_name_of_its_file():
    with pytest.raises(InputError, match=r"own\.py has no function or class gone; it has: make, "):
        takes_rung("/gone/own.py:gone", SOURCE)


def test_a_factory_that_is_not_there_is_told_what_is(own):
    with pytest.raises(
        InputError, match=r"own\.py has no function or class mak; it has: make, .*Did you mean make\?"
    ) as e:
        own("mak")
    assert "_hidden" not in str(e.value)
    assert "partial" not in str(e.value)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"def make(:", "own.py line 1 is not Python: invalid syntax"),
        (b"\xff\xfe", "own.py is not UTF-8 text"),
        (b"\x00", "own.py is not Python"),
        (b"x = " + b"-" * 100_000 + b"1", "own.py is not Python"),
    ],
)
def test_a_file_that_is_no_python(tmp_path, content, why):
    (tmp_path / "own.py").write_bytes(content)
    with pytest.raises(InputError, match=why):
        resolve_own("own.py:make", tmp_path)


@pytest.mark.parametrize(
    ("workload", "why"),
    [
        ("gone.py:make", "workload: there is no file gone.py in "),
        (".py:make", "workload: there is no file"),
        ("own.py:", "is not FILE.py:factory nor package.module:factory"),
        (":make", "is not FILE.py:factory nor package.module:factory"),
        ("own.py:a b", "is not FILE.py:factory nor package.module:factory"),
        ("no_such_package.module:make", "no module for .* can be found"),
        ("math:sqrt", "no module for .* can be found"),
        (".:make", "cannot be imported"),
    ],
)
def test_a_place_where_nothing_is(tmp_path, workload, why):
    with pytest.raises(InputError, match=why):
        resolve_own(workload, tmp_path)


def test_the_file_beside_the_sweep_comes_before_the_one_here(tmp_path, monkeypatch):
    here, beside = tmp_path / "here", tmp_path / "beside"
    for folder in (here, beside):
        folder.mkdir()
        (folder / "own.py").write_text("def make(*, seed): ...")
    monkeypatch.chdir(here)
    assert resolve_own("own.py:make", beside) == f"{beside / 'own.py'}:make"
    (beside / "own.py").unlink()
    assert resolve_own("own.py:make", beside) == f"{here / 'own.py'}:make"


def test_a_module_is_found_without_running_it(tmp_path, monkeypatch):
    (tmp_path / "found_module.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    assert resolve_own("found_module:make", tmp_path) == "found_module:make"
    assert source_of("found_module:make") == tmp_path / "found_module.py"
    assert short_name("found_module:make") == "found_module:make"


@pytest.mark.parametrize("body", ["raise RuntimeError('no')", "import gone_for_good", "1 / 0"])
def test_a_package_that_cannot_be_imported_is_named(tmp_path, monkeypatch, body):
    package = tmp_path / "broken_package"
    package.mkdir()
    (package / "__init__.py").write_text(body)
    (package / "module.py").write_text("def make(*, seed): ...")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match="broken_package"):
        resolve_own("broken_package.module:make", tmp_path)


def test_rows_and_identities_hold_no_folder(own):
    assert short_name(own("make")) == "own.py:make"
    assert short_name("mlp") == "mlp"
    assert source_of("mlp") is None
