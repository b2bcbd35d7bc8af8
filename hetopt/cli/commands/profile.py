"""Measure how long this machine's device computes.

Times single kernels (``--operators``), whose sums are times of layers of any model; or
forward and backward of a transformer's units, as one device holds them under
context and tensor parallelism, of a grid or of problems (``--for``), and writes them as
a CSV. The file is written row by row: after Ctrl-C the same command goes on where it
stopped.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hetopt.base.threads import threads
from hetopt.cli.flag import Flag, count, switch, writes
from hetopt.cli.flags import TIME_LIMIT
from hetopt.cli.measuring_for import LIMIT_S
from hetopt.cli.numbers import whole
from hetopt.cli.output import emit
from hetopt.cli.paths import ensure_outputs
from hetopt.cost.shard_shape import DTYPES, UNITS
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetopt.profile.device import Device
    from hetopt.profile.grid import Grid

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

#: Options that say which layers are measured.
_OF_GRID = ("units", "layers", "degrees", *SIZES)
_OF_LAYERS = ("quick", *_OF_GRID)
_MEASURES = {
    "--for": "which measures the layers of problems in their precision",
    "--collectives": "which measures links",
    "--operators": "which measures single kernels of all sizes",
}


def _several(name: str, text: str, value: str, convert: Callable[[str], Any]) -> Flag:
    """Return an option with several values between commas, without duplicates."""

    def convert_all(given: str) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(convert(part.strip()) for part in given.split(",")))

    return Flag(name, text, f"{value},...", type=convert_all)


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


#: What this command takes.
TAKES = (
    Flag(
        "--for",
        "measure exactly the shapes that this problem needs; for several problems once "
        "each",
        "PROBLEM",
        action="append",
        dest="problems",
    ),
    _several(
        "--cluster",
        "of --for: the clusters that this machine stands for (default: those whose "
        "accelerator has the name of its device, on a CPU `CPU`)",
        "NAME",
        str,
    ),
    TIME_LIMIT.but(
        "of --for: seconds of measuring, smallest shapes first (default: "
        f"{LIMIT_S:.0f})"
    ),
    switch(
        "--quick",
        "small shapes of every unit: about 2 minutes on 2 CPU cores; with --operators "
        "a quarter of the kernels, in at most 10 minutes on any device",
    ),
    switch(
        "--operators",
        "time single kernels instead, from which times of any model's layers are added "
        "up: multiplications, fused attention, element-wise kernels",
    ),
    *(
        _several(
            f"--{name.replace('_', '-')}",
            f"{what}, instead of the grid's",
            "N",
            whole(1),
        )
        for name, what in SIZES.items()
    ),
    _several(
        "--degrees",
        "context and tensor parallel degrees, such as 1x1,2x4",
        "CPxTP",
        _pair,
    ),
    _several("--units", f"of {', '.join(UNITS)}", "UNIT", _one_of(UNITS)),
    _several(
        "--layers",
        "llama: RMSNorm, rotary, SwiGLU; gpt: LayerNorm, GELU (default: llama)",
        "KIND",
        _one_of(FAMILIES),
    ),
    Flag(
        "--dtype",
        f"{', '.join(DTYPES)} (default: bf16, or fp16 where the device lacks it)",
        "TYPE",
        choices=DTYPES,
    ),
    Flag(
        "--device",
        f"{', '.join(DEVICES)} (default: the first that PyTorch sees)",
        "KIND",
        choices=DEVICES,
    ),
    count(
        "--threads",
        "on a CPU (default: OMP_NUM_THREADS of the environment, else 1, as the ranks "
        "of a plan have; 1 is timed by the CPU's time, so that other programs do not "
        "count)",
    ),
    switch(
        "--collectives",
        "time collectives instead, and print the lines of a problem file that state "
        "them; start with torchrun, one process per device",
    ),
    writes(
        "--out",
        f"the CSV to write (default: {DEFAULT_OUT}, of operators {OPERATORS_OUT})",
    ),
)


def run(options: argparse.Namespace) -> int:
    """Measure what the file does not have yet."""
    _refuse(options)
    if importlib.util.find_spec("torch") is None:
        msg = "measuring needs PyTorch: pip install '.[profile]' in hetopt's source"
        raise InputError(msg)
    import torch

    from hetopt.profile.device import find_device

    torch.set_num_threads(options.threads or threads())
    if options.collectives:
        return _collectives(options)
    path = options.out or (OPERATORS_OUT if options.operators else DEFAULT_OUT)
    ensure_outputs((path,))
    device = find_device(options.device)
    if options.problems:
        from hetopt.cli.measuring_for import measure_for

        measure_for(options, path, device)
    elif options.operators:
        _operators(options, path, device)
    else:
        _layers(options, path, device)
    return 0


def _layers(options: argparse.Namespace, path: str, device: Device) -> None:
    from hetopt.problem.catalogue import accelerators
    from hetopt.profile.device import default_dtype, describe
    from hetopt.profile.grid import distinct_shapes
    from hetopt.profile.measuring import measure_grid
    from hetopt.profile.operators import best_rates
    from hetopt.report.profiling import (
        ProfilingBar,
        accelerator_line,
        ready_line,
        shards_text,
    )

    dtype, about = options.dtype or default_dtype(device), describe(device)
    shapes = distinct_shapes(_grid(options, dtype))
    if not shapes:
        raise InputError(
            "no shape is left: heads must divide the hidden size, and the degrees "
            "heads, ffn and seq_len"
        )
    with ProfilingBar(sys.stderr) as bar:
        outcome = measure_grid(path, shapes, device, about, bar.update)
    emit(shards_text(path, outcome))
    emit(ready_line(path, about["accelerator"], dtype))
    if about["accelerator"] not in accelerators():
        rates = best_rates(device, dtype)
        emit(accelerator_line(about["accelerator"], dtype, rates))


def _operators(options: argparse.Namespace, path: str, device: Device) -> None:
    from hetopt.profile.device import default_dtype, describe
    from hetopt.profile.operators import measure_operators, mended_peak
    from hetopt.report.profiling import (
        ProfilingBar,
        accelerator_line,
        kernels_text,
        ready_line,
    )

    dtype, about = options.dtype or default_dtype(device), describe(device)
    with ProfilingBar(sys.stderr) as bar:
        outcome = measure_operators(
            path, device, dtype, about, bar.update, quick=options.quick
        )
    emit(kernels_text(path, outcome))
    emit(ready_line(path, about["accelerator"], dtype))
    if rates := mended_peak(path):
        emit(accelerator_line(about["accelerator"], dtype, rates))


def _refuse(options: argparse.Namespace) -> None:
    """Raise InputError for options that do not go together."""
    modes = {
        "--for": (options.problems, ("operators", "collectives", *_OF_LAYERS, "dtype")),
        "--collectives": (options.collectives, ("operators", *_OF_LAYERS)),
        "--operators": (options.operators, _OF_GRID),
    }
    wrong: dict[str, str] = {}
    for mode, (asked, others) in modes.items():
        if asked:
            why = f"does not go with {mode}, {_MEASURES[mode]}: leave it out"
            wrong |= dict.fromkeys(others, why)
    if not options.problems:
        why = "goes with --for PROBLEM alone: leave it out, or name the problem"
        wrong |= dict.fromkeys(("cluster", "time_limit"), why)
    for name, why in wrong.items():
        if getattr(options, name):
            raise InputError(why, field=f"--{name.replace('_', '-')}")
    if options.operators and options.dtype not in (None, *OPERATOR_DTYPES):
        known = ", ".join(OPERATOR_DTYPES)
        msg = f"is {options.dtype}, expected {known} with --operators"
        raise InputError(msg, field="--dtype")


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


def _collectives(options: argparse.Namespace) -> int:
    from hetopt.profile.collectives import run_collectives

    out = options.out or "collectives.csv"
    text = run_collectives(out, options.device, options.dtype)
    if text is not None:
        emit(text)
    return 0
