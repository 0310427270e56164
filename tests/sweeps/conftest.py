"""A sweep file that can be spoilt."""

import pytest

from tests.sweeps.asking import MINE


@pytest.fixture
def file(tmp_path):
    """Return a function that writes a sweep file, MINE with something replaced, and returns its path."""

    def write(old="", new="", *, more="", text=None, raw=None):
        assert old in MINE
        path = tmp_path / "mine.yaml"
        path.write_bytes(raw if raw is not None else ((text or MINE.replace(old, new)) + more).encode())
        return str(path)

    return write
