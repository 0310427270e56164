"""Has the calibration run in a process of its own, and hears what it tells."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable
from typing import Any

from runner.environment import ROOT
from runner.nursery import PYTHON
from runner.process import THREAD_VARIABLES, WAIT_VARIABLES


def calibrate_apart(kind: str, limit_s: float, tell: Callable[[str, Any], None]) -> str:
    """Run `runner.check.calibration`.

    Args:
        kind: `cpu` or `gpu`.
        limit_s: Seconds after which it is ended; what it has told by then counts.
        tell: Called with the name and the value of each thing that it tells.

    Returns:
        Why it did not tell everything; empty if it did.
    """
    environment = {name: text for name, text in os.environ.items() if name not in (*THREAD_VARIABLES, *WAIT_VARIABLES)}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            [*PYTHON, "runner.check.calibration", kind],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            env=environment,
            text=True,
        )
        alarm = threading.Timer(limit_s, child.kill)
        alarm.start()
        has_ended = False
        try:
            for line in child.stdout or ():
                for name, value in json.loads(line).items():
                    has_ended = has_ended or name == "ended"
                    tell(name, value)
        finally:
            is_late = not alarm.is_alive()
            alarm.cancel()
            child.kill()  # whatever ended this; a process that has ended takes no harm
            child.wait()
        if has_ended:
            return ""
        said.seek(0)
        last = said.read().decode(errors="replace").strip().splitlines()[-1:]
        return f"stopped after {limit_s:.0f} s" if is_late else f"it ended early: {(last or ['it said nothing'])[0]}"
