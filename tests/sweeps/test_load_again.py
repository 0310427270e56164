"""The sweep of a study, asked again: perhaps on another machine."""

import pytest

from sweeps.errors import InputError
from sweeps.sweep_file import catalog, load, load_again
from tests.sweeps.asking import sweep

OWN = "class Work:\n    def __init__(self, *, seed, size): ...\n"


@pytest.mark.parametrize("name", list(catalog()))
def test_what_a_study_holds_of_a_sweep_that_ships_can_be_asked_again(name):
    asked = load(name)
    assert load_again(asked.dump().encode(), "sweep.yaml") == asked


def test_the_command_line_comes_on_top():
    asked = load_again(
        load("batch_size").dump().encode(), "sweep.yaml", settings=["passes=7"], targets=["cpu-1", "gpu"]
    )
    assert asked.passes == 7
    assert (asked.baseline, asked.challenger) == ("cpu-1", "gpu")


def test_a_search_can_be_asked_again_as_a_grid():
    axes = {"batch_size": {"from": 2, "to": 64}}
    search = sweep(axes=axes, targets=["cpu", "gpu"], strategy="adaptive", half_width=0.05, max_pairs=20)
    grid = load_again(search.dump().encode(), "sweep.yaml", settings=["strategy=grid", "axes.batch_size=2,16"])
    assert (grid.strategy, grid.axes) == ("grid", {"batch_size": [2, 16]})


@pytest.fixture
def kept():
    """The text of a study whose workload lies in a file of another machine."""
    return (
        b"name: own\nworkload: /somewhere/else/own.py:Work\naxes: {size: [1, 2]}\n"
        b"targets: [{name: cpu, device: cpu}, {name: gpu, device: gpu}]\n"
    )


def test_a_users_own_file_is_looked_for_here_where_it_is_not_where_it_was(kept, tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    assert load_again(kept, "sweep.yaml").workload == f"{tmp_path / 'own.py'}:Work"


def test_a_users_own_file_that_is_where_it_was_is_that_one(kept, tmp_path, monkeypatch):
    there = tmp_path / "there"
    there.mkdir()
    for folder in (tmp_path, there):
        (folder / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    moved = kept.replace(b"/somewhere/else", str(there).encode())
    assert load_again(moved, "sweep.yaml").workload == f"{there / 'own.py'}:Work"


def test_a_users_own_file_that_is_nowhere_is_named(kept, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"^studies/h/sweep\.yaml: workload: there is no file own\.py in "):
        load_again(kept, "studies/h/sweep.yaml")


@pytest.mark.parametrize(
    ("setting", "expected"),
    [("passes=0", r"^--set passes=0: passes: 0 is not allowed"), ("pases=3", r"^--set pases=3: pases: unknown key")],
)
def test_a_bad_setting_is_named_as_everywhere(setting, expected):
    with pytest.raises(InputError, match=expected):
        load_again(load("width").dump().encode(), "sweep.yaml", settings=[setting])
