"""What the speed benchmark writes is a study, and what it measures is the answer to it."""

import pytest

from benchmarks import analysis_speed
from sweeps.study import read_records


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.setattr(analysis_speed, "ROWS_A_PART", 800)
    analysis_speed.write_study(tmp_path, rows=2 * analysis_speed.ROWS_A_GROUP)
    return tmp_path


def test_the_rows_are_records(study):
    table, warnings = read_records(study)
    assert warnings == []
    assert table.num_rows == 2000
    frame = table.to_pandas()
    assert frame["trial_id"].is_unique
    assert frame["pair_id"].value_counts().eq(2).all()
    assert frame["step_times_s"].map(len).eq(10).all()
    assert frame.groupby([*analysis_speed.GROUPED, "batch_size", "pass_index", "target"]).size().eq(1).all()


def test_it_is_measured_in_a_process_of_its_own(study):
    figures = analysis_speed.in_new_process("conclude", str(study))
    assert figures["s"] >= figures["read_s"] > 0
    assert figures["peak_bytes"] > 2**24
    assert analysis_speed.in_new_process("read", str(study))["s"] > 0
