from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hetopt.cost.forests.forest import Forest
from hetopt.cost.operators.file import (
    MATMUL,
    MEMORY,
    SDP_BACKWARD,
    SDP_FORWARD,
    OperatorRow,
)
from hetopt.cost.operators.work import (
    SETTINGS,
    Rates,
    core,
    elementwise,
    product,
    samples_of_rows,
)
from hetopt.cost.pieces.operations import AttentionCore, MemoryKernel, moving, multiply

RATES = Rates(flops=1e14, bytes_per_s=1e12)


def rows(*sizes: tuple[int, int, int]) -> list[OperatorRow]:
    """Multiplications at half of the peak, which start in 5 us."""
    return [
        OperatorRow(
            op=MATMUL,
            dtype="bf16",
            m=m,
            k=k,
            n=n,
            groups=1,
            layout="TN",
            time_us=5 + 4 * m * k * n / 1e8,
        )
        for m, k, n in sizes
    ]


SIZES = [
    (m, k, n) for m in (512, 2048, 8192) for k in (1024, 4096) for n in (768, 3072)
]


def test_a_linear_device_is_learnt_and_extrapolated() -> None:
    known = rows(*SIZES)
    seconds = np.array([row.time_us * 1e-6 for row in known])
    samples = samples_of_rows(MATMUL, known, RATES)
    forest = Forest.grown(samples, seconds, SETTINGS[MATMUL])
    wanted = rows((1024, 2048, 1536), (65536, 16384, 16384))
    found = forest.predict_s(samples_of_rows(MATMUL, wanted, RATES))
    expected = [row.time_us * 1e-6 for row in wanted]
    assert found == pytest.approx(expected, rel=0.05)


def test_a_layers_products_are_described_as_measured_ones_are() -> None:
    part = multiply(np.array([4096.0]), 1024, 512, 2)
    for layout, (m, k, n) in {
        "TN": (4096, 1024, 512),
        "NN": (4096, 512, 1024),
        "NT": (512, 4096, 1024),
    }.items():
        row = OperatorRow(
            op=MATMUL,
            dtype="bf16",
            m=m,
            k=k,
            n=n,
            groups=1,
            layout=layout,
            time_us=1.0,
        )
        ours, theirs = (
            product(part, layout, RATES),
            samples_of_rows(MATMUL, [row], RATES),
        )
        assert ours.features == pytest.approx(theirs.features)
        assert ours.terms[:, 0] == pytest.approx(2 * 4096 * 1024 * 512 / 1e14)


def test_the_attention_core_counts_what_causality_leaves() -> None:
    sizes: dict[str, Any] = {
        "batch": 2,
        "seq": 1024,
        "heads": 8,
        "kv_heads": 2,
        "qk_dim": 192,
        "v_dim": 128,
    }
    forward, backward = (
        samples_of_rows(
            op, [OperatorRow(op=op, dtype="bf16", time_us=1.0, **sizes)], RATES
        )
        for op in (SDP_FORWARD, SDP_BACKWARD)
    )
    pairs = 2 * 8 * 1024 * 1024 / 2
    assert forward.terms[:, 0] == pytest.approx(2 * pairs * (192 + 128) / 1e14)
    assert backward.terms == pytest.approx(2.5 * forward.terms)
    assert forward.features[0, -1] == pytest.approx(np.log((192 + 128) / 2))


def test_a_layers_core_is_described_as_measured_ones_are() -> None:
    sizes: dict[str, Any] = {"batch": 1, "seq": 512, "heads": 8, "kv_heads": 8}
    row = OperatorRow(
        op=SDP_FORWARD, dtype="bf16", time_us=1.0, qk_dim=64, v_dim=64, **sizes
    )
    rows, pairs = 8 * 512, 8 * 512 * 256
    part = AttentionCore(
        flops=np.array([4.0 * pairs * 64]),
        traffic_bytes=np.array([2.0 * rows * 64 * 4]),
        rows=np.array([float(rows)]),
        keys=np.array([256.0]),
    )
    ours, theirs = (
        core(part, RATES, backward=False),
        samples_of_rows(SDP_FORWARD, [row], RATES),
    )
    assert ours.features == pytest.approx(theirs.features)


@pytest.mark.parametrize(
    ("m", "n", "share"),
    [
        # 128 tiles of 128 x 128 are one whole wave.
        (2048, 1024, 1.0),
        # Eight tiles more take a second wave, or one of tiles twice as large.
        (2048 + 128, 1024, 136 / 256),
        (128, 128, 1 / 128),
    ],
)
def test_the_last_wave_takes_as_long_as_a_full_one(
    m: int, n: int, share: float
) -> None:
    work = samples_of_rows(MATMUL, rows((m, 1024, n)), RATES)
    assert work.terms[:, 1] == pytest.approx(work.terms[:, 0] / share)


def test_alignment_tells_sizes_apart() -> None:
    """The power of two that divides each of m, k and n, 128 at most."""
    work = samples_of_rows(MATMUL, rows((4096, 1000, 50257), (64, 96, 514)), RATES)
    # Behind three bounds, three sizes, the tiles, and how tiles of each kind fill.
    found = work.features[:, 10:13]
    assert found.tolist() == [[7, 3, 0], [6, 5, 1]]


def moved(kernel: str | None, *sizes: int, us_per_mb: float) -> list[OperatorRow]:
    """Element-wise kernels of so many bytes."""
    return [
        OperatorRow(
            op=MEMORY,
            dtype="bf16",
            bytes=size,
            time_us=us_per_mb * size / 1e6,
            kernel=kernel,
        )
        for size in sizes
    ]


def memory_forest(*known: OperatorRow) -> Forest:
    seconds = np.array([row.time_us * 1e-6 for row in known])
    samples = samples_of_rows(MEMORY, known, RATES)
    return Forest.grown(samples, seconds, SETTINGS[MEMORY])


def test_each_kernel_has_a_curve_and_rows_without_one_answer_for_the_rest() -> None:
    sizes = (10**6, 10**7, 10**8)
    forest = memory_forest(
        *moved("rope", *sizes, us_per_mb=2.0),
        *moved("add", *sizes, us_per_mb=1.0),
        *moved(None, *sizes, us_per_mb=5.0),
    )
    moving_2mb = np.array([2e6, 4e6])
    factors: dict[MemoryKernel | None, float]
    factors = {"rope": 2.0, "add": 1.0, "swiglu": 5.0, None: 5.0}
    for kernel, factor in factors.items():
        part = moving(moving_2mb, kernel, None if kernel is None else 128)
        samples = elementwise(part, RATES, backward=False)
        assert forest.predict_s(samples) == pytest.approx(factor * moving_2mb / 1e12)
        backward = elementwise(part, RATES, backward=True)
        expected = 2 * factor * moving_2mb / 1e12
        assert forest.predict_s(backward) == pytest.approx(expected)


def test_a_kernel_that_no_row_names_takes_the_roofline_of_all() -> None:
    """Corrections of other kernels would say nothing of it."""
    sizes = (10**6, 10**7, 10**8)
    forest = memory_forest(
        *moved("rope", *sizes, us_per_mb=2.0), *moved("add", *sizes, us_per_mb=1.0)
    )
    gelu = moving(np.array([1e7]), "gelu", 128)
    samples = elementwise(gelu, RATES, backward=False)
    found = forest.predict_s(samples)
    assert found == forest.roofline_s(samples)
    # The least squares of relative errors: (1/2 + 1) / (1/4 + 1) us per megabyte.
    assert found == pytest.approx([1.2e-5], rel=1e-6)


def test_the_width_of_a_row_tells_norms_of_equal_bytes_apart() -> None:
    known = [
        OperatorRow(
            op=MEMORY,
            dtype="bf16",
            n=width,
            bytes=size,
            time_us=size / 1e6 * (3.0 if width == 1024 else 1.0),
            kernel="rmsnorm",
        )
        for width in (1024, 8192)
        for size in (10**6, 10**7, 10**8)
    ]
    forest = memory_forest(*known)
    narrow, wide = (
        forest.predict_s(
            elementwise(
                moving(np.array([1e7]), "rmsnorm", width), RATES, backward=False
            )
        )[0]
        for width in (1024, 8192)
    )
    assert (narrow, wide) == pytest.approx((3e-5, 1e-5), rel=1e-6)
