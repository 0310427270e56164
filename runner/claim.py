"""A study has one writer: whoever comes second is refused, and told by whom.

On a local disk the kernel keeps the claim, and ends it with the process, however that ends. An object store has no such
thing: there the claim is an object that says when its owner was last seen.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
import weakref
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sweeps.errors import StudyError
from sweeps.folder import Folder

LOCK = ".lock"
#: How often the owner of an object is seen, and after what silence it counts as gone.
SEEN_EVERY_S = 20.0
GONE_AFTER = timedelta(seconds=90)


class Claim:
    """The right to write a study, until `release` or the end of the process."""

    def __init__(self, folder: Folder) -> None:
        """Claim a study.

        Raises:
            StudyError: Another run has it.
            OSError: The folder cannot be written.
        """
        self._folder = folder
        self._since = datetime.now(UTC)
        self._seen = time.monotonic()
        self.release: Callable[[], object]
        """Give it up."""
        if folder.is_local:
            self.release = weakref.finalize(self, os.close, self._lock())
        else:
            self._refuse_second()
            folder.write(LOCK, self._text())
            self.release = weakref.finalize(self, folder.remove, LOCK)

    def renew(self) -> None:
        """Be seen, where that is needed and it is time.

        Raises:
            OSError: The folder cannot be written.
        """
        if not self._folder.is_local and time.monotonic() - self._seen >= SEEN_EVERY_S:
            self._folder.write(LOCK, self._text())
            self._seen = time.monotonic()

    def _lock(self) -> int:
        held = os.open(self._folder.local / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = os.read(held, 1000).decode(errors="replace")
            os.close(held)
            raise self._refusal(who) from None
        os.ftruncate(held, 0)
        os.write(held, self._text())
        return held

    def _refuse_second(self) -> None:
        try:
            text = self._folder.read(LOCK).decode(errors="replace")
            process, host, _, seen = text.splitlines()
        except (FileNotFoundError, ValueError):
            return
        import psutil

        if host == socket.gethostname() and not psutil.pid_exists(int(process)):
            return
        if datetime.now(UTC) - datetime.fromisoformat(seen) < GONE_AFTER:
            raise self._refusal(text)

    def _text(self) -> bytes:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        since = self._since.isoformat(timespec="seconds")
        return f"{os.getpid()}\n{socket.gethostname()}\n{since}\n{now}\n".encode()

    def _refusal(self, text: str) -> StudyError:
        lines = text.splitlines()
        who = f"process {lines[0]} on {lines[1]} (since {lines[2]})" if len(lines) == 4 else "another run"
        return StudyError(
            f"--out {self._folder}: {who} is writing this study at this moment; wait for it, or choose another --out"
        )
