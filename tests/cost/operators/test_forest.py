from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hetopt.cost.operators.file import MATMUL, SDP_BACKWARD, SDP_FORWARD, OperatorRow
from hetopt.cost.operators.forest import OperatorForest
from hetopt.cost.operators.work import Rates, product, work_of_rows
from hetopt.cost.pieces.operations import multiply

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
    forest = OperatorForest(work_of_rows(MATMUL, known, RATES), seconds)
    wanted = rows((1024, 2048, 1536), (65536, 16384, 16384))
    found = forest.predict_s(work_of_rows(MATMUL, wanted, RATES))
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
            work_of_rows(MATMUL, [row], RATES),
        )
        assert ours.features == pytest.approx(theirs.features)
        assert ours.compute_s == pytest.approx(2 * 4096 * 1024 * 512 / 1e14)


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
        work_of_rows(
            op, [OperatorRow(op=op, dtype="bf16", time_us=1.0, **sizes)], RATES
        )
        for op in (SDP_FORWARD, SDP_BACKWARD)
    )
    pairs = 2 * 8 * 1024 * 1024 / 2
    assert forward.compute_s == pytest.approx(2 * pairs * (192 + 128) / 1e14)
    assert backward.compute_s == pytest.approx(2.5 * forward.compute_s)
