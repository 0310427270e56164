"""Check the path to an accelerator, or rehearse it on a CPU: `main` is the map. See docs/gpu-check.md."""

from __future__ import annotations

import argparse
import importlib.util
import re
import signal
import sys
import time
from importlib.metadata import version
from pathlib import Path

#: What has to be installed; nothing else has.
NEEDED = ("torch", "numpy", "pyarrow")
OLDEST_TORCH = (2, 9)
#: The check begins nothing more after this time, so that it ends by itself before four minutes are over.
SECONDS = 200.0


def main() -> int:
    """Run the check; return 0, 3 if something is amiss or was not run, 2 if nothing can be, 130 if it was stopped."""
    asked = _arguments()
    if lacking := [name for name in NEEDED if not importlib.util.find_spec(name)]:
        return _refuse(f"{sys.executable} has no {', '.join(lacking)}; name another Python: make gpu-check PYTHON=...")
    if tuple(map(int, (has := version("torch")).split(".")[:2])) < OLDEST_TORCH:
        return _refuse(f"torch {has} is too old; {'.'.join(map(str, OLDEST_TORCH))} or newer is needed")
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means it
            signal.signal(number, signal.default_int_handler)
    begun = time.monotonic()
    from runner.check.stages import check
    from runner.devices.probe import probe
    from sweeps.errors import CrossoverError

    found = probe()
    if asked.device == "gpu" and found.kind is None:
        return _refuse(f"{found.cause} (make gpu-check DEVICE=cpu rehearses without one)")
    folder = Path(asked.out) if asked.out else _usual_folder(asked.device, found.name)
    try:
        return check(asked.device, found, folder, begun=begun, until=begun + asked.seconds)
    except CrossoverError as error:
        return _refuse(str(error))
    except OSError as error:  # a disk that is full, say
        return _refuse(f"--out {folder}: cannot be written: {error.strerror}; what was measured before is kept")
    except KeyboardInterrupt:
        print("gpu-check: stopped; what was measured is kept, and the same command measures the rest", file=sys.stderr)
        return 130


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m runner.check", description=__doc__)
    parser.add_argument("--device", choices=["gpu", "cpu"], default="gpu", help="cpu is a rehearsal (default: gpu)")
    parser.add_argument("--out", metavar="FOLDER", help="default: studies/<name of the GPU>, or results/gpu-check")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="N", help=f"begin nothing after these (default: {SECONDS:g})"
    )
    return parser.parse_args()


def _usual_folder(device: str, name: str | None) -> Path:
    if device == "cpu":
        return Path("results", "gpu-check")
    return Path("studies", re.sub(r"[^a-z0-9]+", "-", (name or "gpu").lower()).strip("-"))


def _refuse(why: str) -> int:
    print(f"gpu-check: {why}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.exit(code)
