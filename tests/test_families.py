"""Every family at its smallest: its rows say what they should. How long that takes, `benchmarks/families.py` says."""

import contextlib

import pytest

from benchmarks import families
from runner.local import Local
from sweeps.families import FAMILIES


@pytest.fixture(scope="module")
def local():
    with contextlib.closing(Local(accelerators=0, source=None)) as executor:
        yield executor


def test_the_benchmark_asks_every_family():
    assert [sweep.workload for sweep in families.sweeps()] == list(FAMILIES)
    assert all(sweep.size == 4 for sweep in families.sweeps())


@pytest.mark.parametrize("sweep", families.sweeps(sizes=(8,)), ids=lambda sweep: sweep.name)
def test_a_family_fills_its_rows(sweep, local, tmp_path):
    rows = families.rows_of(sweep, local, tmp_path)
    assert {row["target"] for row in rows} == {"cpu-1", "cpu"}
    assert [families.lacking(row) for row in rows] == [[], []]


def test_a_row_that_leaves_something_out_is_noticed(local, tmp_path):
    row = families.rows_of(families.sweeps(sizes=(8,))[0], local, tmp_path)[0]
    assert families.lacking(row | {"flops_per_step": 0.0}) == ["flops_per_step"]
    assert families.lacking(row | {"ops_per_step": None, "torch": None}) == ["ops_per_step", "torch"]
    assert "threads_observed" in families.lacking(row | {"threads_observed": 99})
    assert families.lacking(row | {"status": "error", "error_message": "why"}) == ["error: why"]
