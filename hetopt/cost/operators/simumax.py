"""Operators that SimuMax measured: a system's JSON file (``configs/system``).

``accelerator.op`` states per operator a peak (``tflops``) and, by shape, the measured
share of it (``accurate_efficient_factor``); times are computed from both. In
``sdp_fwd`` and ``sdp_bwd`` FLOPs count the causal kernel as a full square. ``group_
matmul`` has forward sizes in all three stages. Kernels in fp8 are left out.

``accelerator.bandwidth.default`` states a fitted share of the memory's bandwidth and a
latency for all other kernels: they give one row for each of four sizes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hetopt.base.reading import read_json
from hetopt.base.words import describe
from hetopt.cost.operators.file import (
    GROUP_MATMUL,
    MATMUL,
    MEMORY,
    SDP_BACKWARD,
    SDP_FORWARD,
    OperatorRow,
)
from hetopt.cost.profiles.csv_text import whole_number
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NOTES = (
    "times are FLOPs over (peak * efficiency) of the source; sdp FLOPs count the "
    "causal kernel as a full square there; memory rows state its share of bandwidth "
    "and its latency of other element-wise kernels at four sizes"
)
_DTYPE = "bf16"
_BYTES = (10**6, 10**7, 10**8, 10**9)
#: Products in a pass of the attention core, as SimuMax counts them.
_PRODUCTS = {SDP_FORWARD: 2, SDP_BACKWARD: 5}
_STAGES = {"fwd": "TN", "bwd_grad_act": "NN", "bwd_grad_w": "NT"}


def read_simumax(path: str) -> tuple[list[OperatorRow], dict[str, str]]:
    """Read a system's file.

    Returns
    -------
    The operators, and the header lines ``peak_flops`` and ``memory_bandwidth``.

    Raises
    ------
    InputError
        The file is malformed, or has no measured matmul; messages have file and field.
    """
    data = read_json(path, "a system of SimuMax")
    accelerator = _mapping(data, path, "", "accelerator")
    operators = _mapping(accelerator, path, "accelerator", "op")
    peak = 0.0
    rows: list[OperatorRow] = []
    for op in operators:
        make = _MAKERS.get(op)
        if make is None:
            continue
        field = f"accelerator.op.{op}"
        part = _mapping(operators, path, "accelerator.op", op)
        flops = 1e12 * _positive(part, path, field, "tflops")
        peak = max(peak, flops)
        if part.get("accurate_efficient_factor") is None:
            continue
        shares = _mapping(part, path, field, "accurate_efficient_factor")
        field += ".accurate_efficient_factor"
        for shape in shares:
            share = _positive(shares, path, field, shape)
            try:
                rows.append(make(op, _sizes(shape), flops * share))
            except ValueError as error:
                msg = f"{error}, in {shape!r}"
                raise InputError(msg, file=path, field=field) from error
    if not any(row.op == MATMUL for row in rows):
        msg = "has no measured shape, expected accurate_efficient_factor to state some"
        raise InputError(msg, file=path, field="accelerator.op.matmul")
    bandwidth = _mapping(accelerator, path, "accelerator", "bandwidth")
    default = _mapping(bandwidth, path, "accelerator.bandwidth", "default")
    field = "accelerator.bandwidth.default"
    gbps = _positive(default, path, field, "gbps")
    share = _positive(default, path, field, "efficient_factor")
    latency_us = _positive(default, path, field, "latency_us")
    rows += [
        OperatorRow(
            op=MEMORY,
            dtype=_DTYPE,
            bytes=size,
            time_us=_six_digits(latency_us + size / (gbps * share * 1e3)),
        )
        for size in _BYTES
    ]
    header = {
        "peak_flops": f"{peak / 1e12:g} TFLOPS",
        "memory_bandwidth": f"{gbps:g} GB/s",
    }
    return rows, header


def _product(op: str, sizes: Mapping[str, str], flops_per_s: float) -> OperatorRow:
    """Return a multiplication; a ValueError's message is ``key: what is wrong``."""
    m, k, n = (_size(sizes, name) for name in ("m", "k", "n"))
    batch = _size(sizes, "b")
    return OperatorRow(
        op=op,
        dtype=_DTYPE,
        m=batch * m,
        k=k,
        n=n,
        groups=1,
        layout=_word(sizes, "layout"),
        time_us=_six_digits(2e6 * batch * m * k * n / flops_per_s),
        output=_word(sizes, "out_dtype"),
    )


def _grouped(op: str, sizes: Mapping[str, str], flops_per_s: float) -> OperatorRow:
    """Return grouped multiplications; a ValueError is ``key: what is wrong``."""
    groups, m, k, n = (_size(sizes, name) for name in ("ng", "M", "K", "N"))
    stage = _word(sizes, "stage")
    if stage not in _STAGES:
        raise ValueError(f"stage: {stage!r}, expected {', '.join(_STAGES)}")
    layout = _STAGES[stage]
    shape = {"TN": (m, k, n), "NN": (m, n, k), "NT": (n, m, k)}[layout]
    return OperatorRow(
        op=op,
        dtype=_DTYPE,
        m=shape[0],
        k=shape[1],
        n=shape[2],
        groups=groups,
        layout=layout,
        time_us=_six_digits(2e6 * groups * m * k * n / flops_per_s),
        output=sizes.get("main_grad_dtype", "fp32") if layout == "NT" else _DTYPE,
    )


def _core(op: str, sizes: Mapping[str, str], flops_per_s: float) -> OperatorRow:
    """Return an attention core; a ValueError's message is ``key: what is wrong``."""
    batch, seq = _size(sizes, "batch"), _size(sizes, "seq_len")
    heads, kv_heads = _size(sizes, "head_num"), _size(sizes, "kv_head_num")
    qk_dim, v_dim = _size(sizes, "qk_head_dim"), _size(sizes, "v_head_dim")
    flops = _PRODUCTS[op] * batch * heads * seq**2 * (qk_dim + v_dim)
    return OperatorRow(
        op=op,
        dtype=_DTYPE,
        batch=batch,
        seq=seq,
        heads=heads,
        kv_heads=kv_heads,
        qk_dim=qk_dim,
        v_dim=v_dim,
        time_us=_six_digits(1e6 * flops / flops_per_s),
    )


_MAKERS: Mapping[str, Callable[[str, Mapping[str, str], float], OperatorRow]] = {
    MATMUL: _product,
    GROUP_MATMUL: _grouped,
    SDP_FORWARD: _core,
    SDP_BACKWARD: _core,
}


def _sizes(shape: str) -> dict[str, str]:
    """Parse ``key=value, key=value``."""
    parts = (part.partition("=") for part in shape.split(","))
    return {key.strip(): value.strip() for key, _, value in parts}


def _size(sizes: Mapping[str, str], name: str) -> int:
    value = whole_number(name, _word(sizes, name))
    if value < 1:
        raise ValueError(f"{name}: {value}, expected at least 1")
    return value


def _word(sizes: Mapping[str, str], name: str) -> str:
    if name not in sizes:
        raise ValueError(f"{name}: missing")
    return sizes[name]


def _mapping(data: Any, path: str, field: str, key: str) -> Mapping[str, Any]:
    value = data.get(key) if isinstance(data, dict) else None
    if not isinstance(value, dict):
        where = f"{field}.{key}".removeprefix(".")
        msg = f"is {describe(value)}, expected a mapping as in SimuMax's systems"
        raise InputError(msg, file=path, field=where)
    return value


def _positive(part: Mapping[str, Any], path: str, field: str, key: str) -> float:
    value = part.get(key)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value <= 0
    ):
        msg = f"is {describe(value)}, expected a number above 0"
        raise InputError(msg, file=path, field=f"{field}.{key}")
    return float(value)


def _six_digits(value: float) -> float:
    return float(f"{value:.6g}")
