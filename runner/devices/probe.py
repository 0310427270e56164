"""Which accelerator a machine has, asked in a process of its own.

`python -m runner.devices.probe` prints one line of JSON. The asking process stays free of torch and CUDA.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass

from runner.environment import ROOT


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What was found.

    Attributes:
        kind: `cuda` or `mps`; None without an accelerator.
        name: Name of the hardware.
        count: How many there are.
        cause: Why there is none; empty where there is one.
    """

    kind: str | None
    name: str | None
    count: int
    cause: str


def probe(timeout_s: float = 120.0) -> Probe:
    """Look for an accelerator on this machine, in a fresh process.

    Never raises: a probe that fails says so as the cause.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", "runner.devices.probe"],
            cwd=ROOT,  # where `runner` is found, whatever the folder that this was started from
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=True,
        )
        return Probe(**json.loads(done.stdout.splitlines()[-1]))
    except (subprocess.SubprocessError, OSError, ValueError, IndexError) as error:
        detail = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        return Probe(
            kind=None,
            name=None,
            count=0,
            cause=f"the search for one failed: {detail[-1] if detail else error}",
        )


def _look() -> Probe:
    import torch

    from runner.devices.device import DeviceUnavailable, open_device

    try:
        device = open_device("gpu")
    except DeviceUnavailable as error:
        return Probe(kind=None, name=None, count=0, cause=str(error))
    count = torch.accelerator.device_count()
    return Probe(kind=device.torch_device.type, name=device.name, count=count, cause="")


if __name__ == "__main__":
    print(json.dumps(asdict(_look())))
