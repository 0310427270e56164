"""A Ray of somebody's on this machine, started as one starts it: `ray start --head`."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

#: Runs Ray's command line; what is put before it changes the Ray that is started.
COMMAND = "import sys; from ray.scripts.scripts import main; sys.argv[0] = 'ray'; main()"


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def answers(port):
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@contextmanager
def head(folder: Path, *flags, before="", **environment):
    """A head until the end of the block; yields its address.

    Args:
        folder: For its log.
        flags: Of `ray start`.
        before: Code that runs before Ray's.
        environment: Variables for it.
    """
    port = free_port()
    command = [sys.executable, "-c", f"{before}\n{COMMAND}", "start", "--head", f"--port={port}", "--block"]
    with (folder / "head.log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--object-store-memory=80000000", "--disable-usage-stats", *flags],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + 90
        while "will now block" not in (folder / "head.log").read_text():
            is_starting = process.poll() is None and time.monotonic() < until
            assert is_starting, (folder / "head.log").read_text()
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
