"""Time single kernels of one device, in a new operator profile or one to continue."""

from __future__ import annotations

import statistics
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from hetopt.base.reading import read_text
from hetopt.cost.operators.file import (
    OPERATORS_SCHEMA,
    WRITTEN,
    append_operators,
    parse_operators,
    read_operators,
    write_operators,
)
from hetopt.cost.operators.relatives import rates_of_header
from hetopt.errors import InputError
from hetopt.problem.quantity import tflops
from hetopt.profile.kernels import expected_s, kernel_label, kernels, rows_of
from hetopt.profile.measuring import (
    HOW_OFTEN,
    OVERHEAD_S,
    REPETITIONS,
    WARM_UP,
    drop_unfinished_row,
    ensure_same_device,
    time_if_it_fits,
    time_steps,
    today,
)
from hetopt.profile.task_loop import MOST_SHARE, Task, measure_tasks
from hetopt.profile.units.edges import DTYPES
from hetopt.profile.units.kernel_steps import steps_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hetopt.cost.operators.file import OperatorProfile, OperatorRow
    from hetopt.profile.device import Device
    from hetopt.profile.kernels import Kernel
    from hetopt.profile.task_loop import MeasuringOutcome, MeasuringProgress

#: Time budgets in seconds. A quick profile should end within 10 minutes, including the
#: start and a last kernel that takes longer than expected.
QUICK_S, WHOLE_S = 480.0, 2400.0

#: Assumed ratio of a kernel's time to its least time, on devices that are slow at it.
_SLOWER = 4.0

#: A kernel that measures a peak rate takes this long, or has a tensor this large.
_LONG_ENOUGH_S, _LARGE_ENOUGH_BYTES = 0.02, 2**29


def measure_operators(
    path: str,
    device: Device,
    dtype: str,
    description: Mapping[str, str],
    on_progress: Callable[[MeasuringProgress], None] = lambda progress: None,
    *,
    quick: bool = False,
) -> MeasuringOutcome[tuple[OperatorRow, ...]]:
    """Measure the kernels that ``path`` lacks, appending each as it is measured.

    Parameters
    ----------
    path
        A new profile, or one of the same device to continue.
    dtype
        bf16 or fp16.
    description
        Header lines about the device, as ``device.describe`` has them.
    quick
        Whether to measure for ``QUICK_S``, and a quarter of the kernels.

    Raises
    ------
    InputError
        The file cannot be written, is no operator profile, or is another device's.
    """
    profile = _open(path, device, dtype, description)
    rates = rates_of_header(profile.header, path)
    budget_s = QUICK_S if quick else WHOLE_S
    times = WARM_UP + REPETITIONS
    most_s = MOST_SHARE * budget_s / times / _SLOWER
    wanted = kernels(rates, quick=quick, most_s=most_s)
    known = Counter(_key(row) for row in profile.rows)
    todo = [kernel for kernel in wanted if not _found(kernel, dtype, known)]
    return measure_tasks(
        [
            Task(
                label=kernel_label(kernel),
                kind=kernel.kind,
                expected_s=OVERHEAD_S + times * expected_s(kernel, rates),
                measure=partial(measure_kernel, kernel, dtype, device),
            )
            for kernel in todo
        ],
        partial(append_operators, path),
        on_progress,
        found=len(wanted) - len(todo),
        what="kernels",
        budget_s=budget_s,
    )


def measure_kernel(
    kernel: Kernel, dtype: str, device: Device
) -> tuple[OperatorRow, ...]:
    """Time a kernel's passes; no rows if it does not fit in the device's memory.

    Raises
    ------
    HetoptError
        PyTorch failed for another reason, such as an unsupported type.
    """
    times = time_if_it_fits(
        lambda: time_steps(steps_of(kernel, dtype, device.torch_device), device),
        device,
        int(kernel.moved_bytes),
        kernel_label(kernel),
    )
    if not times:
        return ()
    return rows_of(kernel, dtype, [statistics.median(part) for part in times])


def best_rates(device: Device, dtype: str) -> dict[str, str]:
    """Measure a device's peak rates; return them as header lines.

    They are those of a square multiplication and of a copy, doubled until large enough.
    """

    def square(size: int) -> torch.Tensor:
        return torch.ones(size, size, device=device.torch_device, dtype=DTYPES[dtype])

    def product_s(size: int) -> float:
        x = square(size)
        return min(time_steps((partial(torch.mm, x, x),), device)[0])

    def copy_s(size: int) -> float:
        x = square(size)
        y = torch.empty_like(x)
        return min(time_steps((partial(y.copy_, x),), device)[0])

    flops = _best(lambda size: 2.0 * size**3, product_s)
    bytes_per_s = _best(lambda size: 4.0 * size**2, copy_s)
    return {
        "peak_flops": f"{flops / 1e12:.4g} TFLOPS",
        "memory_bandwidth": f"{bytes_per_s / 1e9:.4g} GB/s",
    }


def _best(work: Callable[[int], float], time_s: Callable[[int], float]) -> float:
    """Return the work per second of a square; its side doubles until large enough."""
    size = 512
    while True:
        taken_s = time_s(size)
        if taken_s >= _LONG_ENOUGH_S or 2 * size**2 >= _LARGE_ENOUGH_BYTES:
            return work(size) / taken_s
        size *= 2


def _open(
    path: str, device: Device, dtype: str, description: Mapping[str, str]
) -> OperatorProfile:
    """Read the profile to continue, or begin one."""
    from hetopt.problem.catalogue import accelerators

    if Path(path).exists():
        drop_unfinished_row(path)
        text = read_text(path, "an operator profile")
        profile = parse_operators(text, path)
        ensure_same_device(path, profile.header, description)
        for row in profile.rows:
            if row.dtype != dtype:
                msg = (
                    f"is {row.dtype} in the file but {dtype} now; choose another --out"
                )
                raise InputError(msg, file=path, field="dtype")
        if "\n" + ",".join(WRITTEN) + "\n" not in text:
            # Older files lack columns that added rows have.
            write_operators(path, profile.header, profile.rows)
        return profile
    rates, notes = {}, ""
    if description["accelerator"] not in accelerators():
        rates = best_rates(device, dtype)
        notes = "; peak_flops and memory_bandwidth are the best that was measured"
    header = {
        "schema": OPERATORS_SCHEMA,
        "kind": "measured",
        "source": "hetopt profile --operators",
        "licence": "chosen by whoever measured",
        **description,
        **rates,
        "date": today(),
        "notes": f"medians of {HOW_OFTEN}; weight gradients are added to an fp32 "
        f"buffer; bytes of memory operators are what hetopt counts for them{notes}",
    }
    write_operators(path, header, ())
    return read_operators(path)


def mended_peak(path: str) -> dict[str, str]:
    """Return the rates that a file states; none if its device is in the catalogue.

    A peak that some multiplication of the file exceeds is no peak: it is replaced, in
    the file too, by the most that was measured.
    """
    profile = read_operators(path)
    rates = {
        key: profile.header[key]
        for key in ("peak_flops", "memory_bandwidth")
        if key in profile.header
    }
    reached = max(
        (
            2e6 * (row.groups or 1) * row.m * row.k * row.n / row.time_us
            for row in profile.rows
            if row.m and row.k and row.n
        ),
        default=0.0,
    )
    if rates and reached > rates_of_header(profile.header, path).flops:
        rates["peak_flops"] = tflops(reached)
        write_operators(path, {**profile.header, **rates}, profile.rows)
    return rates


def _key(row: OperatorRow) -> tuple[object, ...]:
    """Return the columns that identify the operator of a row."""
    sizes = (row.kernel, row.m, row.k, row.n, row.groups, row.layout, row.batch)
    widths = (row.seq, row.heads, row.kv_heads, row.qk_dim, row.v_dim, row.bytes)
    return (row.op, row.dtype, *sizes, *widths)


def _found(kernel: Kernel, dtype: str, known: Counter[tuple[object, ...]]) -> bool:
    """Whether a file has all rows of a kernel; if so, remove them from ``known``.

    A backward pass may have the same key as the forward pass of another size, so each
    row counts for one kernel.
    """
    passes = len(kernel.operators)
    keys = Counter(_key(row) for row in rows_of(kernel, dtype, [1.0] * passes))
    if not keys <= known:
        return False
    known.subtract(keys)
    return True
