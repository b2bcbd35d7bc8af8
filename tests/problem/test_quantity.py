"""Quantities: what people write, and what is refused."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetopt.problem.quantity import (
    BANDWIDTH,
    DIMENSIONS,
    FLOPS,
    MEMORY,
    TIME,
    Dimension,
    parse_bandwidth,
    parse_flops,
    parse_memory,
    parse_quantity,
    parse_time,
)


@pytest.mark.parametrize(
    ("text", "bytes_per_s"),
    [
        ("100 Gbps", 12.5e9),
        ("100Gbps", 12.5e9),
        ("100 Gbit/s", 12.5e9),
        ("100 Gb/s", 12.5e9),
        ("900 GB/s", 900e9),
        ("4.8 TB/s", 4.8e12),
        ("1.5e3 MB/s", 1.5e9),
        ("1 GiB/s", 2.0**30),
        ("10 kbps", 1250.0),
        ("  10   Gbps ", 1.25e9),
    ],
)
def test_bandwidth(text: str, bytes_per_s: float) -> None:
    assert parse_bandwidth(text) == bytes_per_s


@pytest.mark.parametrize(
    ("text", "size"),
    [("80 GB", 80 * 10**9), ("80 GiB", 80 * 2**30), ("1.5 kB", 1500), ("0.5 B", 0)],
)
def test_memory(text: str, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5 us", 5e-6),
        ("5 µs", 5e-6),
        ("5 μs", 5e-6),
        ("1 ms", 1e-3),
        ("2.5s", 2.5),
        ("3 ns", 3e-9),
        (0, 0.0),
        (0.0, 0.0),
        ("0", 0.0),
        ("0 s", 0.0),
    ],
)
def test_time(text: object, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("312 TFLOPS", 312e12),
        ("990 TFLOP/s", 990e12),
        ("989.4 TFLOPs", 989.4e12),
        ("2.25 PFLOPS", 2.25e15),
    ],
)
def test_flops(text: str, rate: float) -> None:
    assert parse_flops(text) == rate


@pytest.mark.parametrize(
    ("value", "dimension", "said"),
    [
        (100, BANDWIDTH, "is 100 without a unit"),
        ("100", BANDWIDTH, "is '100' without a unit"),
        ("80 GB", BANDWIDTH, "is '80 GB', which is a memory size"),
        ("5 us", MEMORY, "is '5 us', which is a time"),
        ("10 Gbps", TIME, "is '10 Gbps', which is a bandwidth"),
        ("312 TFLOPS", BANDWIDTH, "which is a compute rate"),
        ("10 gbps", BANDWIDTH, "did you mean 'Gbps' or 'GBps'?"),
        ("10 US", TIME, "did you mean 'us'?"),
        ("10 parsecs", TIME, "unknown unit 'parsecs'"),
        ("-5 us", TIME, "expected 0 or more"),
        ("1,000 GB", MEMORY, "unknown unit"),
        ("fast", BANDWIDTH, "is 'fast'"),
        ("", TIME, "is ''"),
        ("1e99 GB", MEMORY, "which no machine has"),
        ("1e9999 GB", MEMORY, "is '1e9999 GB'"),
        ("1" * 100 + " GB", MEMORY, "..."),
        ("nan GB", MEMORY, "is 'nan GB'"),
        ("inf s", TIME, "is 'inf s'"),
        (math.nan, TIME, "is nan without a unit"),
        (None, TIME, "is empty"),
        (True, TIME, "is true"),
        ([1], TIME, "is a list"),
        ({}, FLOPS, "is a mapping"),
    ],
)
def test_refused(value: object, dimension: Dimension, said: str) -> None:
    with pytest.raises(ValueError, match="expected") as caught:
        parse_quantity(value, dimension)
    message = str(caught.value)
    assert said in message
    if "0 or more" not in message:
        assert dimension.name in message
        assert dimension.examples in message


def test_no_unit_has_two_dimensions() -> None:
    units = [unit for dimension in DIMENSIONS for unit in dimension.units]
    assert len(units) == len(set(units))


@given(
    dimension=st.sampled_from(DIMENSIONS),
    number=st.decimals(0, 10**6, places=3),
    data=st.data(),
)
def test_number_times_unit(
    dimension: Dimension, number: object, data: st.DataObject
) -> None:
    unit = data.draw(st.sampled_from(sorted(dimension.units)))
    space = data.draw(st.sampled_from(["", " ", "  "]))
    expected = Fraction(str(number)) * dimension.units[unit]
    assert parse_quantity(f"{number}{space}{unit}", dimension) == expected


@given(st.just(0.0) | st.floats(min_value=1e-29, max_value=1e18))
def test_a_float_in_base_units_comes_back_exactly(value: float) -> None:
    assert parse_time(f"{value!r} s") == value
    assert parse_bandwidth(f"{value!r} B/s") == value


@given(st.text(max_size=30), st.sampled_from(DIMENSIONS))
def test_any_text_is_read_or_refused(text: str, dimension: Dimension) -> None:
    message = "expected"
    try:
        assert parse_quantity(text, dimension) >= 0
    except ValueError as error:
        message = str(error)
    assert "expected" in message
