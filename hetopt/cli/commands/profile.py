"""Measure how long this machine's device computes.

Times single kernels (``--operators``), whose sums are times of layers of any model; or
forward and backward of a transformer's units, as one device holds them under
context and tensor parallelism, and writes them as a CSV. The file is written row by
row: after Ctrl-C the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from hetopt.base.threads import threads
from hetopt.base.words import counted
from hetopt.cli.inputs import add_count, add_file, add_switch, whole
from hetopt.cli.output import emit
from hetopt.cli.paths import ensure_outputs
from hetopt.cost.shard_shape import DTYPES, UNITS
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetopt.cost.operators.file import OperatorRow
    from hetopt.cost.profiles.file import ProfileRow
    from hetopt.profile.device import Device
    from hetopt.profile.grid import Grid
    from hetopt.profile.task_loop import MeasuringOutcome

T = TypeVar("T")

FAMILIES = ("llama", "gpt")
DEVICES = ("cuda", "npu", "cpu")
DEFAULT_OUT = "profile.csv"
OPERATORS_OUT = "operators.csv"

#: Precisions of measured operators, which are for 16-bit training.
OPERATOR_DTYPES = ("bf16", "fp16")

#: Options that replace a field of the grid, with their help.
SIZES = {
    "hidden": "hidden sizes",
    "heads": "attention heads",
    "kv_heads": "key and value heads (default: as many as heads)",
    "ffn": "inner widths of the MLP (default: from the hidden size)",
    "vocab": "vocabulary sizes",
    "microbatch": "sequences per micro-batch",
    "seq_len": "tokens per sequence",
}


# One statement for each option.
def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add_switch(
        command,
        "--quick",
        "small shapes of every unit: about 2 minutes on 2 CPU cores; with "
        "--operators a quarter of the kernels, in at most 10 minutes on any device",
    )
    add_switch(
        command,
        "--operators",
        "time single kernels instead, from which times of any model's layers are "
        "added up: multiplications, fused attention, element-wise kernels",
    )
    for field, text in SIZES.items():
        command.add_argument(
            f"--{field.replace('_', '-')}",
            type=_several(whole(1)),
            metavar="N,...",
            help=f"{text}, instead of the grid's",
        )
    command.add_argument(
        "--degrees",
        type=_several(_pair),
        metavar="CPxTP,...",
        help="context and tensor parallel degrees, such as 1x1,2x4",
    )
    command.add_argument(
        "--units",
        type=_several(_one_of(UNITS)),
        metavar="UNIT,...",
        help=f"of {', '.join(UNITS)}",
    )
    command.add_argument(
        "--layers",
        type=_several(_one_of(FAMILIES)),
        metavar="KIND,...",
        help="llama: RMSNorm, rotary, SwiGLU; gpt: LayerNorm, GELU (default: llama)",
    )
    command.add_argument(
        "--dtype",
        choices=DTYPES,
        metavar="TYPE",
        help=f"{', '.join(DTYPES)} (default: bf16; of layers on a CPU fp32, of "
        "operators fp16 where the device lacks bf16)",
    )
    command.add_argument(
        "--device",
        choices=DEVICES,
        metavar="KIND",
        help=f"{', '.join(DEVICES)} (default: the first that PyTorch sees)",
    )
    add_count(
        command,
        "--threads",
        "on a CPU (default: OMP_NUM_THREADS of the environment, else 1, as the ranks "
        "of a plan have; 1 is timed by the CPU's time, so that other programs do not "
        "count)",
    )
    add_switch(
        command,
        "--collectives",
        "time collectives instead, and print the lines of a problem file that "
        "state them; start with torchrun, one process per device",
    )
    add_file(
        command,
        "--out",
        f"the CSV to write (default: {DEFAULT_OUT}, of operators {OPERATORS_OUT})",
    )


def run(options: argparse.Namespace) -> int:
    """Measure what the file does not have yet."""
    if importlib.util.find_spec("torch") is None:
        msg = "measuring needs PyTorch: pip install '.[profile]' in hetopt's source"
        raise InputError(msg)

    import torch

    torch.set_num_threads(options.threads or threads())
    if options.collectives:
        if options.operators:
            raise InputError("is not for --collectives", field="--operators")
        return _collectives(options)
    path = options.out or (OPERATORS_OUT if options.operators else DEFAULT_OUT)
    ensure_outputs((path,))
    if options.operators:
        _refuse_grid(options)

    from hetopt.profile.device import find_device

    device = find_device(options.device)
    if options.operators:
        return _operators(options, path, device)
    return _layers(options, path, device)


def _layers(options: argparse.Namespace, path: str, device: Device) -> int:
    from hetopt.profile.device import describe
    from hetopt.profile.grid import distinct_shapes
    from hetopt.profile.measuring import measure_grid
    from hetopt.report.profiling import ProfilingBar

    dtype = options.dtype or ("fp32" if device.kind == "cpu" else "bf16")
    shapes = distinct_shapes(_grid(options, dtype))
    if not shapes:
        raise InputError(
            "no shape is left: heads must divide the hidden size, and the degrees "
            "heads, ffn and seq_len"
        )
    with ProfilingBar(sys.stderr) as bar:
        outcome = measure_grid(path, shapes, device, describe(device), bar.update)
    emit(_summary(path, outcome))
    return 0


def _operators(options: argparse.Namespace, path: str, device: Device) -> int:
    from hetopt.problem.catalogue import accelerators
    from hetopt.profile.device import describe
    from hetopt.profile.operators import measure_operators
    from hetopt.report.profiling import ProfilingBar

    dtype = options.dtype or ("bf16" if device.has_bf16 else "fp16")
    about = describe(device)
    with ProfilingBar(sys.stderr) as bar:
        outcome = measure_operators(
            path, device, dtype, about, bar.update, quick=options.quick
        )
    emit(_operators_summary(path, outcome))
    name = about["accelerator"]
    own = f"preset {name}" if name in accelerators() else "a device without preset"
    emit(
        f"in a problem: latency: {{CLUSTER: {path}}}; times are as measured for {own}, "
        "and scaled by peaks for others"
    )
    return 0


def _refuse_grid(options: argparse.Namespace) -> None:
    """Raise InputError for options that apply only to layers."""
    given = ("units", "layers", "degrees", *SIZES)
    for name in given:
        if getattr(options, name) is not None:
            msg = "is for layers: --operators measures single kernels of all sizes"
            raise InputError(msg, field=f"--{name.replace('_', '-')}")
    if options.dtype is not None and options.dtype not in OPERATOR_DTYPES:
        known = ", ".join(OPERATOR_DTYPES)
        msg = f"is {options.dtype}, expected {known} with --operators"
        raise InputError(msg, field="--dtype")


def _operators_summary(
    path: str, outcome: MeasuringOutcome[tuple[OperatorRow, ...]]
) -> str:
    kernels = outcome.measured
    parts = [
        f"{counted(len(kernels), 'kernel')} measured, "
        f"{counted(sum(map(len, kernels)), 'row')}"
    ]
    if outcome.found:
        parts.append(f"{outcome.found} were there already")
    missing = sum(not rows for rows in kernels)
    if missing:
        parts.append(f"{missing} out of memory")
    if outcome.interrupted:
        parts.append(
            f"stopped with {outcome.remaining} to go: the same command continues"
        )
    elif outcome.remaining:
        parts.append(
            f"{outcome.remaining} left out for lack of time: the same command continues"
        )
    return f"{path}: {'; '.join(parts)}"


def _grid(options: argparse.Namespace, dtype: str) -> Grid:
    from hetopt.profile.grid import hetauto_grid, quick_grid

    grid = quick_grid(dtype) if options.quick else hetauto_grid(dtype)
    wanted = {
        "families": options.layers,
        "units": options.units,
        "degrees": options.degrees,
        **{field: getattr(options, field) for field in SIZES},
    }
    return replace(grid, **{name: value for name, value in wanted.items() if value})


def _summary(path: str, outcome: MeasuringOutcome[ProfileRow]) -> str:
    rows = outcome.measured
    oom = sum(row.status == "oom" for row in rows)
    parts = [f"{counted(len(rows), 'shard')} measured"]
    if outcome.found:
        parts.append(f"{outcome.found} were there already")
    if oom:
        parts.append(f"{oom} out of memory")
    spreads = [
        row.forward_spread_s / row.forward_s
        for row in rows
        if row.forward_s is not None and row.forward_spread_s is not None
    ]
    if spreads:
        parts.append(
            f"median spread of repetitions {100 * statistics.median(spreads):.1f}%"
        )
    if outcome.remaining:
        parts.append(
            f"stopped with {outcome.remaining} to go: the same command continues"
        )
    return f"{path}: {'; '.join(parts)}"


def _collectives(options: argparse.Namespace) -> int:
    from hetopt.profile.collectives import run_collectives

    text = run_collectives(options.out or "collectives.csv", options.device)
    if text is not None:
        emit(text)
    return 0


def _several(convert: Callable[[str], T]) -> Callable[[str], tuple[T, ...]]:
    """Return an argument type: comma-separated values, without duplicates."""

    def convert_all(text: str) -> tuple[T, ...]:
        return tuple(dict.fromkeys(convert(part.strip()) for part in text.split(",")))

    return convert_all


def _one_of(known: Sequence[str]) -> Callable[[str], str]:
    def convert(text: str) -> str:
        if text not in known:
            msg = f"{text!r}, expected one of {', '.join(known)}"
            raise argparse.ArgumentTypeError(msg)
        return text

    return convert


def _pair(text: str) -> tuple[int, int]:
    """Argument type: ``CPxTP``."""
    parts = text.split("x")
    if len(parts) != 2 or not all(
        part.isascii() and part.isdecimal() and int(part) > 0 for part in parts
    ):
        msg = f"{text!r}, expected CPxTP such as 2x4"
        raise argparse.ArgumentTypeError(msg)
    return int(parts[0]), int(parts[1])
