"""Time collectives between the processes that torchrun starts, and fit links.

Every size of every collective is timed like a shard; the slowest rank counts. Latency
and bandwidth are fitted to the times (``profile.link_fits``).

The result is a CSV file (schema ``hetopt-collectives/1``): a header like a profile's,
one line per collective with its fit, the lines of a problem file that state what was
measured, then one row per measurement.
"""

from __future__ import annotations

import csv
import io
import os
import statistics
from dataclasses import asdict, fields
from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from hetopt.base.files import ensure_writable, write_text
from hetopt.cost.profiles.file import interquartile_range
from hetopt.errors import InputError
from hetopt.problem.catalogue import accelerators
from hetopt.problem.facts import UNKNOWN_INTRA_NODE_SHARE
from hetopt.profile.device import Device, default_dtype, describe, find_device
from hetopt.profile.link_fits import (
    SEND_RECV,
    CollectiveRow,
    fit_lines,
    problem_lines,
    traffic_bytes,
)
from hetopt.profile.measuring import REPETITIONS, WARM_UP, today
from hetopt.profile.units.edges import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    #: Makes a buffer of so many ones, on the device and in the precision measured.
    _Ones = Callable[[int], torch.Tensor]

COLLECTIVES_SCHEMA = "hetopt-collectives/1"
BACKENDS = {"cuda": "nccl", "npu": "hccl", "cpu": "gloo"}

#: Bytes of the whole buffer, by factors of four; gloo's are smaller.
SIZES = {
    "cuda": tuple(4**power for power in range(6, 15)),
    "npu": tuple(4**power for power in range(6, 15)),
    "cpu": tuple(4**power for power in range(6, 13)),
}


def run_collectives(
    path: str, device_kind: str | None = None, dtype: str | None = None
) -> str | None:
    """Measure all collectives; rank 0 writes the file.

    Parameters
    ----------
    dtype
        Precision of the buffers; by default the device's, see ``default_dtype``.

    Returns
    -------
    Message for the user; None on other ranks.

    Raises
    ------
    InputError
        The process was not started by torchrun, or there is only one.
    """
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if "RANK" not in os.environ or ranks < 2:
        msg = (
            "needs one process per device: torchrun --nproc-per-node N -m hetopt "
            "profile --collectives"
        )
        raise InputError(msg, field="--collectives")
    ensure_writable(path)
    device = find_device(device_kind)
    device.waits = True
    dtype = dtype or default_dtype(device)
    own = {}
    if device.kind != "cpu":
        device.select(int(os.environ.get("LOCAL_RANK", "0")))
        own = {"device_id": device.torch_device}
    dist.init_process_group(BACKENDS[device.kind], **own)
    try:
        rows, missing = _measure_all(device, ranks, DTYPES[dtype])
        if dist.get_rank() != 0:
            return None
    finally:
        dist.destroy_process_group()
    about = describe(device)
    here = int(os.environ.get("LOCAL_WORLD_SIZE", ranks))
    nodes = -(-ranks // here)
    header = {
        "schema": COLLECTIVES_SCHEMA,
        "kind": "measured",
        **about,
        "date": today(),
        "backend": BACKENDS[device.kind],
        "ranks": f"{ranks}, {here} per node",
        "dtype": dtype,
    }
    if missing:
        header["notes"] = f"not offered by this backend: {', '.join(missing)}"
    fits = fit_lines(rows, nodes)
    stated = problem_lines(rows, nodes, _intra_node_share(about["accelerator"]))
    found = [*fits, *(f"in a problem: {line}" for line in stated)]
    write_text(path, collectives_text(header, found, rows))
    return "\n".join([*found, f"wrote {path}"])


def _intra_node_share(accelerator: str) -> float:
    """Return the share of a node's bandwidth that this device's collectives reach."""
    known = accelerators().get(accelerator)
    return UNKNOWN_INTRA_NODE_SHARE if known is None else known.intra_node_share


def collectives_text(
    header: Mapping[str, str], found: Sequence[str], rows: Sequence[CollectiveRow]
) -> str:
    """Return the file's text: header, what was found, rows."""
    lines = [f"# {key}: {' '.join(value.split())}" for key, value in header.items()]
    lines += [f"# {line}" for line in found]
    text = io.StringIO()
    names = [item.name for item in fields(CollectiveRow)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return "\n".join(lines) + "\n" + text.getvalue()


def _measure_all(
    device: Device, ranks: int, dtype: torch.dtype
) -> tuple[list[CollectiveRow], list[str]]:
    rows: list[CollectiveRow] = []
    missing: list[str] = []
    ones = partial(torch.ones, device=device.torch_device, dtype=dtype)
    for name, make in _COLLECTIVES.items():
        for size in SIZES[device.kind]:
            elements = -(-size // (dtype.itemsize * ranks)) * ranks
            try:
                call = make(elements, ranks, ones)
                call()
            except RuntimeError as error:
                # The backend lacks this collective: it fails on every rank.
                if "not support" not in str(error).lower():
                    raise
                missing.append(name)
                break
            taking_part = 2 if name == SEND_RECV else ranks
            rows.append(
                _timed(name, taking_part, elements * dtype.itemsize, call, device)
            )
    return rows, missing


def _timed(
    name: str, ranks: int, size: int, call: Callable[[], None], device: Device
) -> CollectiveRow:
    device.seconds_between((call,), WARM_UP)
    times = []
    for _ in range(REPETITIONS):
        # All ranks start together: waiting for others must not count as transfer.
        dist.barrier()
        times.append(device.seconds_between((call,), 1)[0][0])
    slowest = torch.tensor(times, dtype=torch.float64).to(
        device.torch_device, torch.float32
    )
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    values = [float(value) for value in slowest.tolist()]
    seconds = statistics.median(values)
    return CollectiveRow(
        collective=name,
        ranks=ranks,
        total_bytes=size,
        seconds=float(f"{seconds:.6g}"),
        spread_s=float(f"{interquartile_range(values):.6g}"),
        bus_bytes_per_s=float(f"{traffic_bytes(name, ranks, size) / seconds:.6g}"),
    )


def _all_reduce(elements: int, ranks: int, ones: _Ones) -> Callable[[], None]:
    del ranks
    # Zeros, so that repeated sums do not overflow.
    buffer = ones(elements).zero_()
    return lambda: _discard(dist.all_reduce(buffer))


def _all_gather(elements: int, ranks: int, ones: _Ones) -> Callable[[], None]:
    whole = ones(elements)
    part = ones(elements // ranks)
    gather = _named("all_gather_single", "all_gather_into_tensor")
    return lambda: _discard(gather(whole, part))


def _reduce_scatter(elements: int, ranks: int, ones: _Ones) -> Callable[[], None]:
    whole = ones(elements)
    part = ones(elements // ranks)
    scatter = _named("reduce_scatter_single", "reduce_scatter_tensor")
    return lambda: _discard(scatter(part, whole))


def _send_recv(elements: int, ranks: int, ones: _Ones) -> Callable[[], None]:
    """Return a call that sends from the first rank to the last, across nodes if any."""
    buffer = ones(elements)

    def call() -> None:
        if dist.get_rank() == 0:
            dist.send(buffer, ranks - 1)
        elif dist.get_rank() == ranks - 1:
            dist.recv(buffer, 0)

    return call


def _named(new: str, old: str) -> Callable[..., object]:
    """Return a function that was renamed in PyTorch 2.13."""
    found: Callable[..., object] = getattr(dist, new if hasattr(dist, new) else old)
    return found


def _discard(work: object) -> None:
    """Discard the result of a blocking collective."""


_COLLECTIVES = {
    "all-reduce": _all_reduce,
    "all-gather": _all_gather,
    "reduce-scatter": _reduce_scatter,
    SEND_RECV: _send_recv,
}
