"""What importing a room costs and brings along, and that the rooms are all installed.

The import contracts themselves stand in pyproject.toml and are checked by `make check`; here is what they
cannot see: what is really loaded, who imports a lone module, what a wheel would leave out.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("analysis", "runner", "sweeps")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


BLOCK = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
"""


def loaded_by(statement: str, *, blocked: tuple[str, ...] = ()) -> set[str]:
    """Run the statement in a fresh Python that cannot import `blocked`; return what was loaded."""
    code = BLOCK.format(blocked=blocked) + f"{statement}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def imported_names(path: Path) -> set[str]:
    """Return the full names of all modules that a file imports, wherever in the file it does."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return names


def sources() -> list[Path]:
    """Return every Python file of the rooms."""
    return sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize(
    ("room", "absent"),
    [
        ("sweeps", {"torch", "ray", "pandas", "scipy", "matplotlib", "seaborn", "runner", "analysis"}),
        ("analysis", {"torch", "ray", "matplotlib", "seaborn", "scipy.stats", "scipy.interpolate", "runner"}),
        ("runner", {"torch", "ray", "pandas", "matplotlib", "seaborn", "analysis"}),
    ],
)
def test_importing_a_room_is_cheap(room: str, absent: set[str]):
    assert not loaded_by(f"import {room}") & absent


@pytest.mark.parametrize("room", ["sweeps", "analysis"])
def test_every_module_of_the_room_works_where_torch_and_ray_are_missing(room: str):
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in sources()
        if path.is_relative_to(ROOT / room) and path.name != "__main__.py"
    ]
    assert len(modules) > 3
    assert not loaded_by(f"import {', '.join(modules)}", blocked=("torch", "ray")) & {"torch", "ray"}


def test_the_driver_loads_no_torch():
    """Its Ray workers import the same modules: a torch in there costs seconds and leaves threads behind."""
    assert "torch" not in loaded_by("import runner.run, runner.cluster, runner.local")


@pytest.mark.parametrize(("room", "names"), [("analysis", ["crossovers", "sizes_to_explain"])])
def test_the_public_names_are_frozen(room: str, names: list[str]):
    """A name that is added or taken away is told in the changelog."""
    module = importlib.import_module(room)
    assert sorted(module.__all__) == names
    assert all(hasattr(module, name) for name in names)


def test_nothing_imports_the_command():
    assert [path for path in sources() if "sweep" in imported_names(path)] == []


def test_the_command_joins_the_rooms():
    """The other half of the rule above: if this fails, the rooms have come to meet somewhere else."""
    rooms = {name.partition(".")[0] for name in imported_names(ROOT / "sweep.py")}
    assert set(ROOMS) <= rooms


def test_every_package_and_data_file_is_installed():
    setuptools = PROJECT["tool"]["setuptools"]
    folders = {path.parent for path in sources()}
    assert set(setuptools["packages"]) == {".".join(each.relative_to(ROOT).parts) for each in folders}
    assert [each for each in folders if not (each / "__init__.py").is_file()] == []

    named = {
        path
        for package, patterns in setuptools["package-data"].items()
        for pattern in patterns
        for path in (ROOT / package).glob(pattern)
    }
    data = {
        path
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert data
    assert data <= named


def required(*lists: list[str]) -> set[str]:
    """Return the names of the distributions in lists of requirements, in their canonical spelling."""
    return {canonicalize_name(Requirement(each).name) for each in itertools.chain(*lists)}


def test_every_direct_dependency_has_a_tested_version():
    project = PROJECT["project"]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.\-]+==[\w.]+", pin) for pin in pins)
    wanted = required(project["dependencies"], *project["optional-dependencies"].values())
    assert wanted - {project["name"]} <= required(pins)
    assert "torch==2.13.0" in pins


def test_every_import_is_a_declared_dependency():
    """What only comes along with another package can go away with it."""
    spelt_otherwise = {"py-cpuinfo": "cpuinfo", "pyyaml": "yaml"}
    declared = {spelt_otherwise.get(name, name) for name in required(PROJECT["project"]["dependencies"])}
    imported = {name.partition(".")[0] for path in [*sources(), ROOT / "sweep.py"] for name in imported_names(path)}
    assert imported - set(sys.stdlib_module_names) - {*ROOMS, "sweep"} == declared
