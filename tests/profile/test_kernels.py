"""Which kernels are measured; needs no PyTorch."""

from __future__ import annotations

import pytest

from hetopt.cost.operators.file import GROUP_MATMUL, MATMUL, MEMORY, SDP_FORWARD
from hetopt.cost.operators.work import Rates
from hetopt.profile.kernels import (
    Attention,
    Elementwise,
    Kernel,
    Product,
    expected_s,
    kernel_label,
    kernels,
    rows_of,
)

FAST = Rates(flops=1e15, bytes_per_s=3e12)
SLOW = Rates(flops=2e10, bytes_per_s=5e9)


def test_a_product_has_the_three_layouts_of_training() -> None:
    rows = rows_of(Product(m=512, k=256, n=1024), "bf16", (1e-3, 2e-3, 3e-3))
    assert [(row.layout, row.m, row.k, row.n) for row in rows] == [
        ("TN", 512, 256, 1024),
        ("NN", 512, 1024, 256),
        ("NT", 1024, 512, 256),
    ]
    assert [row.time_us for row in rows] == [1000.0, 2000.0, 3000.0]
    assert [row.output_bytes for row in rows] == [2, 2, 8]
    assert {row.op for row in rows} == {MATMUL}


def test_other_kernels_have_a_row_for_each_pass() -> None:
    core = Attention(batch=1, seq=512, heads=8, kv_heads=2, head_dim=64)
    assert [row.op for row in rows_of(core, "fp16", (1, 2))] == ["sdp_fwd", "sdp_bwd"]
    norm = Elementwise(what="rmsnorm", tokens=128, width=256)
    rows = rows_of(norm, "bf16", (1, 2))
    assert [row.bytes for row in rows] == [131072, 262144]
    assert [(row.kernel, row.n) for row in rows] == [("rmsnorm", 256)] * 2
    residual = Elementwise(what="add", tokens=128, width=256)
    assert [row.bytes for row in rows_of(residual, "bf16", (1,))] == [196608]


@pytest.mark.parametrize("rates", [FAST, SLOW])
def test_every_beginning_covers_all_classes(rates: Rates) -> None:
    found = kernels(rates, quick=True, most_s=0.1)
    classes = {MATMUL, GROUP_MATMUL, SDP_FORWARD, MEMORY}
    assert {kernel.kind for kernel in found} == classes
    assert {kernel.kind for kernel in found[:12]} == classes
    assert all(expected_s(kernel, rates) <= 0.1 for kernel in found)
    assert len(set(found)) == len(found)


def test_products_cover_their_range_early() -> None:
    found = [k for k in kernels(FAST, quick=True, most_s=1.0) if isinstance(k, Product)]
    early = [kernel for kernel in found if kernel.kind == MATMUL][:16]
    for sizes in ([k.m for k in early], [k.k for k in early], [k.n for k in early]):
        assert max(sizes) > 16 * min(sizes)
        assert all(size % 128 == 0 for size in sizes)


def test_a_whole_profile_has_four_times_as_many() -> None:
    quick, whole = (kernels(FAST, quick=quick, most_s=1.0) for quick in (True, False))
    assert len(quick) == 152
    assert len(whole) == pytest.approx(4 * 152, rel=0.05)


@pytest.mark.parametrize(
    ("kernel", "label"),
    [
        (Product(m=1, k=2, n=3), "matmul (groups 1, m 1, k 2, n 3)"),
        (
            Elementwise(what="swiglu", tokens=1, width=2),
            "memory (what swiglu, tokens 1, width 2)",
        ),
    ],
)
def test_labels(kernel: Kernel, label: str) -> None:
    assert kernel_label(kernel) == label
