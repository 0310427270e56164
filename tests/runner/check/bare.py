"""An environment with torch, numpy and pyarrow, what these need themselves, and nothing else."""

import os
import subprocess
import venv
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[3]
GUARANTEED = ("torch", "numpy", "pyarrow")
#: All that the program has besides, by the names under which they are imported.
ABSENT = (
    "contourpy", "cpuinfo", "matplotlib", "pandas", "psutil", "pydantic", "pydantic_core", "pynvml", "ray", "rich",
    "scipy", "seaborn", "typer", "yaml",
)  # fmt: skip


def needed(*names):
    """Return the names of these distributions and of all that they need on this machine."""
    found = {}
    open_ = list(names)
    while open_:
        name = open_.pop()
        if name in found:
            continue
        found[name] = distribution(name)
        for text in found[name].requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                open_.append(requirement.name)
    return found


def make_bare(folder):
    """Make the environment, its packages linked to those of this one; return its Python."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    python = folder / "bin" / "python"
    (site,) = (folder / "lib").glob("python*/site-packages")
    for each in needed(*GUARANTEED).values():
        for file in each.files:
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (site / top).exists():
                (site / top).symlink_to(each.locate_file(top))
    return python


def run_bare(python, *words, **variables):
    """Run this Python in the root of the project, as a person without any of our settings would.

    Nor with those of a make that runs the tests: its child would say which folder it enters.
    """
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "MAKE", "MFLAGS"))}
    return subprocess.run(
        [python, *words],
        cwd=ROOT,
        env={**environment, "PYTHONDONTWRITEBYTECODE": "1", **variables},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def amiss(python):
    """Return which of the absent packages this Python finds, and which of the guaranteed ones it does not."""
    code = "import sys; from importlib.util import find_spec; print(*(n for n in sys.argv[1:] if find_spec(n)))"
    found = set(run_bare(python, "-c", code, *ABSENT, *GUARANTEED).stdout.split())
    return sorted(found ^ set(GUARANTEED))
