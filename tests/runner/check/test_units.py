"""Numbers as people read them."""

import pytest

from runner.check.units import shown


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.000312, "s", "312 us"),
        (2.5, "s", "2.5 s"),
        (0.1, "s", "100 ms"),
        (4.2e-9, "s", "4.2 ns"),
        (1e-11, "s", "0.01 ns"),
        (0.0, "s", "0 s"),
        (4096, "B", "4 KiB"),
        (256 * 2**20, "B", "256 MiB"),
        (17.3e9, "B", "16.1 GiB"),
        (51.94, "GB/s", "51.9 GB/s"),
        (4321.0, "GB/s", "4320 GB/s"),
        (5.6e-7, "of the largest", "5.6e-07 of the largest"),
        (0.02, "TFLOP/s", "0.02 TFLOP/s"),
        (0.998, "", "0.998"),
        (2, "", "2"),
    ],
)
def test_a_number_has_three_digits_and_a_unit_that_fits(value, unit, text):
    assert shown(value, unit) == text
