"""Time shards one by one; every row is written to the file immediately."""

from __future__ import annotations

import gc
import math
import statistics
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.cost.profiles.file import (
    PROFILE_SCHEMA,
    Profile,
    ProfileRow,
    append_row,
    interquartile_range,
    read_profile,
    write_profile,
)
from hetopt.cost.profiles.units import estimated_bytes, forward_flops, shard_key
from hetopt.cost.shard_shape import ShardShape
from hetopt.errors import HetoptError, InputError
from hetopt.profile.device import NOMINAL_FLOPS, Device
from hetopt.profile.task_loop import (
    MeasuringOutcome,
    MeasuringProgress,
    Task,
    measure_tasks,
)
from hetopt.profile.units.timed import ShardUnit, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: HetAuto, section 7.6.
WARM_UP = 5
REPETITIONS = 10
#: Least number of repetitions of a shape that takes long.
FEWEST = 3

#: Text for the notes of profiles.
HOW_OFTEN = f"{REPETITIONS} repetitions after {WARM_UP} to warm up"

#: Header keys that must agree before rows are added to a profile.
SAME_DEVICE = ("accelerator", "device", "driver", "libraries")

#: Seconds to measure the smallest shard, for estimates of the time left.
OVERHEAD_S = 0.01


def measure_grid(
    path: str,
    shapes: Sequence[ShardShape],
    device: Device,
    description: Mapping[str, str],
    on_progress: Callable[[MeasuringProgress], None] = lambda progress: None,
    *,
    flops_per_s: float | None = None,
    most_s: float = math.inf,
    budget_s: float = math.inf,
) -> MeasuringOutcome[ProfileRow]:
    """Measure those of ``shapes`` that ``path`` lacks, appending row by row.

    Ctrl-C stops the run and keeps finished rows; the same call continues from there.

    Parameters
    ----------
    path
        A new profile, or one of the same device to continue.
    description
        Header lines about the device.
    flops_per_s
        Rate for estimates of the time left; by default a usual one.
    most_s
        Long shapes are repeated less often, so that one takes about this long.
    budget_s
        See ``measure_tasks``; one shape may take all of it.

    Raises
    ------
    InputError
        The file cannot be written, is no profile, or is another device's.
    """
    rate = flops_per_s or NOMINAL_FLOPS[device.kind]
    known = {shard_key(row) for row in _open(path, description).rows}
    todo = [shape for shape in shapes if shard_key(shape) not in known]
    return measure_tasks(
        [
            Task(
                label=shape_label(shape),
                kind=shape.unit,
                expected_s=expected_s(shape, rate, most_s),
                measure=partial(measure, shape, device, most_s),
            )
            for shape in todo
        ],
        partial(append_row, path),
        on_progress,
        found=len(shapes) - len(todo),
        what="shards",
        budget_s=budget_s,
        most_share=1.0,
    )


def measure(shape: ShardShape, device: Device, most_s: float = math.inf) -> ProfileRow:
    """Time one shard; a shard that runs out of memory has a row with status oom.

    Parameters
    ----------
    most_s
        See ``measure_grid``.

    Raises
    ------
    HetoptError
        PyTorch failed for another reason, such as an unsupported type.
    """
    times = time_if_it_fits(
        lambda: time_unit(ShardUnit(shape, device.torch_device), device, most_s),
        device,
        estimated_bytes(shape),
        shape_label(shape),
    )
    columns = {item.name: getattr(shape, item.name) for item in fields(ShardShape)}
    forward, backward = times or ([], [])
    return ProfileRow(
        **columns,
        forward_s=_rounded(statistics.median, forward),
        backward_s=_rounded(statistics.median, backward),
        forward_spread_s=_rounded(interquartile_range, forward),
        backward_spread_s=_rounded(interquartile_range, backward),
        repetitions=len(forward),
        status="ok" if times else "oom",
    )


def time_if_it_fits(
    work: Callable[[], list[list[float]]], device: Device, bytes_: int, label: str
) -> list[list[float]] | None:
    """Return what ``work`` times; None if it runs out of the device's memory.

    Parameters
    ----------
    bytes_
        What it needs; more than the device has is not tried.
    label
        Its name in errors.

    Raises
    ------
    HetoptError
        PyTorch failed for another reason, such as an unsupported type.
    """
    times = None
    if device.fits(bytes_):
        try:
            times = work()
        except (MemoryError, RuntimeError) as error:
            if not device.is_out_of_memory(error):
                reason = str(error).strip().partition("\n")[0]
                msg = f"PyTorch cannot run {label}: {reason}"
                raise HetoptError(msg) from error
    device.empty_cache()
    return times


def time_unit(
    unit: Unit, device: Device, most_s: float = math.inf
) -> list[list[float]]:
    """Return the seconds of forward and of backward; see ``time_steps``."""
    return time_steps((unit.forward, unit.backward), device, most_s)


def time_steps(
    steps: tuple[Callable[[], None], ...], device: Device, most_s: float = math.inf
) -> list[list[float]]:
    """Return every step's seconds by repetition, after warm-up repetitions.

    Parameters
    ----------
    most_s
        Long steps are repeated less often, so that all takes about this long.
    """
    with _no_garbage_collection():
        first = device.seconds_between(steps, 1)
        warm_up, often = _repetitions(sum(part[0] for part in first), most_s)
        device.seconds_between(steps, warm_up)
        return device.seconds_between(steps, often)


def _repetitions(once_s: float, most_s: float) -> tuple[int, int]:
    """Return how often to warm up after the first time, and how often to time."""
    often = int(min(max(most_s / max(once_s, 1e-9), FEWEST), REPETITIONS))
    return min(WARM_UP - 1, often - FEWEST), often


def measured_rate(shapes: Sequence[ShardShape], device: Device) -> float:
    """Return the FLOP/s that forward and backward of the middle shape reach."""
    shape = sorted(shapes, key=forward_flops)[len(shapes) // 2]
    once = measure(shape, device, 0.0)
    if once.forward_s is None or once.backward_s is None:
        return NOMINAL_FLOPS[device.kind]
    return 3 * forward_flops(shape) / (once.forward_s + once.backward_s)


def shape_label(shape: ShardShape) -> str:
    """Return a shard's name: unit, type, b, s, h, cp and tp."""
    return (
        f"{shape.unit} {shape.dtype} b={shape.microbatch} s={shape.seq_len} "
        f"h={shape.hidden} cp={shape.cp} tp={shape.tp}"
    )


def _open(path: str, description: Mapping[str, str]) -> Profile:
    """Read the profile to continue, or begin one."""
    if not Path(path).exists():
        header = {
            "schema": PROFILE_SCHEMA,
            "kind": "measured",
            **description,
            "date": today(),
            "notes": f"{HOW_OFTEN}; tensor parallelism with sequence parallelism",
        }
        write_profile(path, Profile(header=header, rows=()))
        return read_profile(path)
    drop_unfinished_row(path)
    profile = read_profile(path)
    ensure_same_device(path, profile.header, description)
    return profile


def today() -> str:
    """Return date and time in the format of headers."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def ensure_same_device(
    path: str, header: Mapping[str, str], description: Mapping[str, str]
) -> None:
    """Raise InputError unless a file was measured on this device."""
    expected = {"kind": "measured", **description}
    for key in ("kind", *SAME_DEVICE):
        found, value = header.get(key, ""), " ".join(expected[key].split())
        if found != value:
            msg = f"is {found!r} in the file but {value!r} now; choose another --out"
            raise InputError(msg, file=path, field=key)


def drop_unfinished_row(path: str) -> None:
    """Remove a last line without line end: the run stopped while it was written."""
    try:
        with open(path, "r+b") as file:
            content = file.read()
            if content and not content.endswith(b"\n"):
                file.truncate(content.rfind(b"\n") + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot be written: {reason}", file=path) from error


def expected_s(shape: ShardShape, flops_per_s: float, most_s: float) -> float:
    """Estimate a shard's time over all repetitions; backward is twice forward."""
    once = 3 * forward_flops(shape) / flops_per_s
    return OVERHEAD_S + (1 + sum(_repetitions(once, most_s))) * once


def _rounded(of: Callable[[list[float]], float], values: list[float]) -> float | None:
    """Return six digits, far below the noise of timing; None without values."""
    return float(f"{of(values):.6g}") if values else None


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
