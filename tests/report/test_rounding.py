"""Numbers carry the digits that their error leaves, and differences stay apart."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetopt.report import rounding
from hetopt.report.rounding import (
    at_least,
    differences,
    digits_of,
    large,
    percent,
    rounded,
)


def test_the_examples_hold() -> None:
    assert doctest.testmod(rounding).failed == 0


@given(st.floats(1e-6, 1e9), st.floats(1e-3, 0.5))
def test_rounding_changes_a_time_by_less_than_its_error(
    value: float, error: float
) -> None:
    text = rounded(value, digits_of(value, error))
    told = float(text.replace(",", ""))
    assert abs(told - value) <= max(value * error, 0.005 * value) * (1 + 1e-9)


@given(st.floats(0.01, 990e12), st.sampled_from((2, 3)))
def test_large_numbers_have_no_exponent(value: float, digits: int) -> None:
    text = large(value, digits)
    assert "e" not in text
    scale = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.get(text[-1], 1.0)
    assert float(text.rstrip("kMGT")) * scale == pytest.approx(value, 0.06)


@given(st.floats(1e-4, 1e3))
def test_at_least_is_never_too_much(share: float) -> None:
    assert float(at_least(share).removesuffix("%")) / 100 <= share * (1 + 1e-9)
    assert float(percent(share).removesuffix("%")) / 100 == pytest.approx(share, 0.06)


def test_plans_that_are_close_are_told_apart() -> None:
    assert differences([8.2530, 8.2532, 8.2534], 8.2530) == [
        "+0.000%",
        "+0.002%",
        "+0.005%",
    ]
    assert differences([2.0, 2.0 * (1 + 1e-12), 1.0], 2.0) == [
        "+0.0%",
        "+0.0%",
        "-50.0%",
    ]
    assert differences([1.0], None) == ["-"]
