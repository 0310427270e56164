"""A folder: on this machine, or a prefix in an object store such as s3://bucket/studies/default.

What is written is whole or not there: a file beside that is renamed, or an object that is put at once.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from sweeps.errors import StudyError

#: Prefix of what a killed program may leave behind on a local disk.
UNFINISHED = ".writing-"


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A place for files, through a pyarrow filesystem.

    Attributes:
        filesystem: Where it is.
        path: Its path there.
        shown: As people write it.
    """

    filesystem: fs.FileSystem
    path: str
    shown: str

    @staticmethod
    def at(place: Folder | Path | str) -> Folder:
        """Return the folder of a path, or of a URI such as `s3://bucket/prefix`.

        Raises:
            StudyError: The URI cannot be understood.
        """
        if isinstance(place, Folder):
            return place
        text = str(place)
        if "://" not in text:
            local = Path(text).expanduser()
            return Folder(filesystem=fs.LocalFileSystem(), path=str(local.absolute()), shown=str(local))
        try:
            filesystem, path = fs.FileSystem.from_uri(text)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise StudyError(f"{text}: is no address of a folder: {str(error).splitlines()[0]}") from None
        if not path.strip("/"):
            raise StudyError(f"{text}: is no address of a folder: it names no bucket")
        return Folder(filesystem=filesystem, path=path.rstrip("/"), shown=text.partition("?")[0].rstrip("/"))

    def __str__(self) -> str:
        return self.shown

    @property
    def is_local(self) -> bool:
        """Whether it lies on a disk of this machine."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    @property
    def local(self) -> Path:
        """Its path on this machine; only where `is_local`."""
        return Path(self.path)

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]

    def exists(self) -> bool:
        """Whether there is such a folder; an object store has only those that hold something."""
        return bool(self.filesystem.get_file_info(self.path).type == fs.FileType.Directory)

    def has(self, name: str) -> bool:
        """Whether a file of that name is in it."""
        return bool(self.filesystem.get_file_info(f"{self.path}/{name}").type == fs.FileType.File)

    def names(self, inner: str = "") -> list[str]:
        """Return the names of what lies in it, or in a folder in it, sorted; nothing where there is no such folder."""
        if self.is_local:  # dead links too
            inside = self.local / inner
            return sorted(each.name for each in inside.iterdir()) if inside.is_dir() else []
        where = fs.FileSelector(f"{self.path}/{inner}".rstrip("/"), allow_not_found=True)
        return sorted(info.base_name for info in self.filesystem.get_file_info(where))

    def open(self, name: str) -> pa.NativeFile:
        """Open a file for reading anywhere in it."""
        return self.filesystem.open_input_file(f"{self.path}/{name}")

    def read(self, name: str) -> bytes:
        """Return what a file holds.

        Raises:
            FileNotFoundError: There is no such file.
            OSError: It cannot be read.
        """
        with self.open(name) as file:
            content: bytes = file.read()
        return content

    def write(self, name: str, content: bytes | pa.Buffer) -> None:
        """Make or replace a file as a whole, in a folder that is there.

        Raises:
            OSError: It cannot be written; what was there is there still.
        """
        if self.is_local:
            beside = self.local / f"{UNFINISHED}{Path(name).name}"  # not where readers look for files
            beside.write_bytes(content)
            beside.replace(self.local / name)
            return
        with self.filesystem.open_output_stream(f"{self.path}/{name}") as file:
            file.write(content)

    def make(self, inner: str = "") -> None:
        """Make the folder, or a folder in it, where a store has such things.

        Raises:
            OSError: It cannot be made.
        """
        if self.is_local:
            (self.local / inner).mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def kept_locally(self, name: str) -> Iterator[Path]:
        """Give a file on this machine to append to: the file itself, or a copy that is put back at the end."""
        if self.is_local:
            yield self.local / name
            return
        with tempfile.TemporaryDirectory() as beside:
            copy = Path(beside) / name
            copy.write_bytes(self.read(name) if self.has(name) else b"")
            try:
                yield copy
            finally:
                self.write(name, copy.read_bytes())

    def remove(self, name: str) -> None:
        """Delete a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_file(f"{self.path}/{name}")
