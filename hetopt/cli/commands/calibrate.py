"""Correct a problem's latency table by what a plan really took."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.cli.inputs import add_problem, load_problem
from hetopt.cli.output import emit
from hetopt.cli.paths import ensure_outputs
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.calibrating import Fit
    from hetopt.problem.problem import Problem

CORRECTED = ("efficiency", "bandwidth")

#: Endings by which a problem knows a file's name from another text.
FILE_SUFFIXES = (".yaml", ".yml", ".json")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add_problem(command)
    command.add_argument(
        "plan", metavar="PLAN", help="a file that `hetopt plan --out` wrote"
    )
    command.add_argument(
        "--measured",
        type=_time,
        required=True,
        metavar="TIME",
        help="what one iteration took, such as '6.2 s'",
    )
    command.add_argument(
        "--memory",
        type=_memory,
        metavar="SIZE",
        help="what the fullest device held at its peak, as its driver counts it, such "
        "as '71 GB': corrects the overhead of its cluster",
    )
    command.add_argument(
        "--correct",
        choices=CORRECTED,
        default="efficiency",
        help="what the time corrects: the devices' efficiency (default), or the "
        "bandwidth of the networks between nodes and clusters",
    )
    command.add_argument(
        "--clusters",
        metavar="NAME,...",
        help="whose efficiency is corrected (default: all that the plan uses)",
    )
    command.add_argument(
        "--out",
        default="calibration.yaml",
        metavar="FILE",
        help="where to write it (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    """Fit, write the file, and say what changed."""
    from hetopt.calibrating import fit
    from hetopt.cli.planned import load_checked
    from hetopt.files import write_text

    _ensure_consistent(options)
    ensure_outputs((options.out,), (options.plan,), problems=(options.problem,))
    table, plan = load_checked(options.problem, options.plan, None)
    problem = load_problem(options.problem, plan.schedule)
    clusters = () if options.clusters is None else _names(options.clusters)
    used = {stage.cluster for stage in plan.pipeline.stages}
    for name in clusters:
        if name not in used:
            known = ", ".join(
                cluster for cluster in table.cluster_names if cluster in used
            )
            msg = f"--clusters: {name!r} is not in the plan, which uses {known}"
            raise InputError(msg)
    found = fit(
        problem,
        plan,
        options.measured,
        measured_bytes=options.memory,
        correct=options.correct,
        clusters=clusters,
    )
    write_text(options.out, _text(problem, found, options))
    emit(
        f"iteration: {options.measured:.4g} s measured, {found.before_s:.4g} s "
        f"planned, {found.after_s:.4g} s corrected"
    )
    for name, factor in found.calibration.efficiency.items():
        emit(f"efficiency of {name}: {factor:g}")
    emit(f"bandwidth: {found.calibration.bandwidth:g}")
    for name, size in found.overhead.items():
        emit(
            f"memory: {options.memory / 1e9:.4g} GB measured, "
            f"{found.memory_bytes / 1e9:.4g} GB planned; overhead of {name}: "
            f"{size / 1e9:.4g} GB"
        )
    for bound in found.bounded:
        emit(f"not corrected in full, at the bound of {bound}: something else is wrong")
    named = _as_named(options.out, options.problem)
    emit(f"wrote {options.out}; name it in the problem (calibration: {named})")
    return 0


def _ensure_consistent(options: argparse.Namespace) -> None:
    """Refuse clusters where none is corrected."""
    if options.correct != "efficiency" and options.clusters is not None:
        msg = f"says whose efficiency is corrected, but --correct is {options.correct}"
        raise InputError(msg, field="--clusters")


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",")))


def _as_named(out: str, problem: str) -> str:
    """Return ``out`` as the problem has to write it: its paths start at its folder."""
    name = out
    if Path(problem).is_file() and not Path(out).is_absolute():
        name = os.path.relpath(out, Path(problem).parent)
    return name if name.endswith(FILE_SUFFIXES) else f"{{file: {name}}}"


def _text(problem: Problem, found: Fit, options: argparse.Namespace) -> str:
    import json

    overhead = {
        cluster.name: found.overhead.get(cluster.name, cluster.overhead_bytes)
        for cluster in problem.clusters
    }
    notes = (
        f"one run: {options.measured:g} s measured, {found.before_s:.4g} s planned"
        + ("" if options.memory is None else f", {options.memory / 1e9:g} GB measured")
    )
    lines = [
        "# Written by hetopt calibrate. In the problem file: `calibration: this file`.",
        "# How much faster the devices compute than their latency source says, and how",
        "# much more bandwidth networks have than the problem says; 1 changes nothing.",
        f"efficiency: {json.dumps(dict(found.calibration.efficiency))}",
        f"bandwidth: {found.calibration.bandwidth:g}",
    ]
    lines += [
        "# What a device holds outside of what the framework allocates, by cluster.",
        "overhead: "
        + json.dumps({name: f"{size} B" for name, size in overhead.items()}),
    ]
    return "\n".join([*lines, f"notes: {json.dumps(notes)}", ""])


def _quantity(parse: Callable[[str], float]) -> Callable[[str], float]:
    def convert(text: str) -> float:
        try:
            value = parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        if not value > 0:
            msg = f"{text!r} is not above 0"
            raise argparse.ArgumentTypeError(msg)
        return value

    return convert


def _time(text: str) -> float:
    from hetopt.problem.quantity import parse_time

    return _quantity(parse_time)(text)


def _memory(text: str) -> int:
    from hetopt.problem.quantity import parse_memory

    return int(_quantity(parse_memory)(text))
