"""The same rows in every type that pandas may hold them in."""

import pandas as pd
import pyarrow as pa
import pytest

from analysis import crossovers
from tests.analysis.synthetic import ASKED, falling, made_frame, with_status


def rows():
    frame = with_status(made_frame(falling(100)), "timeout", target="cpu", sizes=[2048])
    frame.loc[0, "status"] = None
    return frame.assign(paired=True, rung="e2e", interference=["contended", None, "clean", "clean"] * 20, attempt=1)


@pytest.mark.parametrize("column", ["target", "status", "rung", "interference"])
@pytest.mark.parametrize("kind", ["object", "category", "string", pd.ArrowDtype(pa.string())], ids=str)
def test_text_of_any_type(column, kind):
    plain = rows()
    expected = crossovers(plain.astype({column: object}), **ASKED)
    assert expected["verdict"][0] == "crosses"
    pd.testing.assert_frame_equal(crossovers(plain.astype({column: kind}), **ASKED), expected)


@pytest.mark.parametrize("kind", ["object", "boolean", pd.ArrowDtype(pa.bool_())], ids=str)
def test_truth_values_of_any_type(kind):
    for paired in (True, False, None):
        plain = rows().assign(paired=pd.Series([paired] * 80, dtype=object))
        typed = plain.astype({"paired": kind})
        assert ("not paired" in " ".join(crossovers(typed, **ASKED)["reasons"][0])) is (paired is False)


def test_a_frame_as_arrow_gives_it(tmp_path):
    plain = rows()
    path = tmp_path / "rows.parquet"
    plain.to_parquet(path)
    expected = crossovers(plain, **ASKED)
    for backend in ("numpy_nullable", "pyarrow"):
        pd.testing.assert_frame_equal(crossovers(pd.read_parquet(path, dtype_backend=backend), **ASKED), expected)
