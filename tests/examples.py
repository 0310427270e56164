"""The examples of the guide, and other sweeps, run as a user runs them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "docs" / "examples"


def run_example(name, folder):
    """Run a sweep of the guide through real Ray into a study folder, and return that."""
    return _run(EXAMPLES / f"{name}.yaml", folder)


def run_sweep(file, folder, *flags):
    """Run a sweep file, or one that ships, without Ray into a study folder, and return that."""
    return _run(file, folder, "--local", *flags)


def _run(file, folder, *flags):
    done = subprocess.run(
        [sys.executable, "sweep.py", str(file), "--out", str(folder), *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return folder
