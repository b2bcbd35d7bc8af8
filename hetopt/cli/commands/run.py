"""Run iterations of a plan here, and compare their times."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.cli.flag import Flag, count, writes
from hetopt.cli.flags import PLAN, TABLE
from hetopt.cli.output import emit, json_text
from hetopt.cli.paths import ensure_files, ensure_outputs
from hetopt.cli.planned import load_reported
from hetopt.errors import InputError

if TYPE_CHECKING:
    import argparse

    from hetopt.plans.plan import Plan
    from hetopt.pricing.price import Price
    from hetopt.problem.problem import Problem
    from hetopt.running.run import Run

#: Default number of timed iterations.
ITERATIONS = 5

#: Options that need a plan.
_OF_PLANS = ("out", "table", "svg", "trace")


#: What this command takes.
TAKES = (
    Flag(
        "problem",
        "a problem, as in other commands, whose plan follows; or a folder that `hetopt "
        "export --to torch` wrote, alone",
        "PROBLEM|DIR",
        role="problem",
    ),
    PLAN.but(nargs="?"),
    TABLE,
    count(
        "--iterations",
        "iterations to time, after one that is not timed (default: %(default)s)",
        default=ITERATIONS,
    ),
    Flag(
        "--units",
        "what builds a unit of your own model by its index, as for the bundle",
        "FILE:FUNCTION",
    ),
    Flag(
        "--data",
        "(step, job) -> tokens of a global batch, as for the bundle (default: made up)",
        "FILE:FUNCTION",
    ),
    Flag("--out", "keep the bundle in this new or empty folder", "DIR"),
    writes(
        "--measured",
        "where to write what was measured (default: %(default)s); `hetopt calibrate "
        "--run` takes it",
        default="measured.json",
    ),
    writes("--svg", "draw the iteration of median time, below the simulated one"),
    writes("--trace", "write both for Perfetto (JSON trace events)"),
)


def run(options: argparse.Namespace) -> int:
    """Run, write the file, and compare the measurements with the plan."""
    from hetopt.running.devices import ensure_torch

    ensure_torch()
    if options.plan is None:
        return _run_folder(options)
    return _run_plan(options)


def _run_folder(options: argparse.Namespace) -> int:
    """Run a bundle by itself, without its plan."""
    from hetopt.report.drawing.console import draw
    from hetopt.report.running import measured_report
    from hetopt.running.explaining import replayed_s
    from hetopt.running.run import read_bundle

    if not Path(options.problem).is_dir():
        msg = "is no folder: name a bundle alone, or a problem and its plan"
        raise InputError(msg, file=options.problem)
    for name in _OF_PLANS:
        if getattr(options, name) is not None:
            msg = "is for a problem and its plan, not for a folder alone"
            raise InputError(msg, field=f"--{name}")
    ensure_outputs((options.measured,), (options.problem,))
    read = read_bundle(Path(options.problem))
    found = _measure(Path(options.problem), options)
    warmups = [stage.warmup or 1 for stage in read.stages]
    replayed = replayed_s(found.measured, warmups, read.microbatches, read.schedule)
    emit(draw(measured_report(found.measured, replayed), sys.stdout))
    emit(f"wrote {options.measured}")
    return 0


def _run_plan(options: argparse.Namespace) -> int:
    """Export a plan, run it, and compare the run with the plan."""
    from hetopt.export.bundle import bundle, ensure_free, write_folder
    from hetopt.export.job import Job
    from hetopt.export.torch.launcher import LAUNCHER
    from hetopt.pricing.price import price
    from hetopt.report.drawing.console import draw
    from hetopt.report.running import run_report
    from hetopt.running.explaining import explain_run

    ensure_files(options)
    if options.out is not None:
        ensure_free(options.out)
    problem, table, (plan, *_), _ = load_reported(
        options.problem, options.plan, options.table
    )
    files = bundle(Job.of(problem, plan), LAUNCHER, allow_lossy=False)
    with tempfile.TemporaryDirectory(prefix="hetopt-run-") as temporary:
        folder = options.out or str(Path(temporary) / "bundle")
        write_folder(folder, files)
        found = _measure(Path(folder), options)
    priced = price(plan, table)
    explained = explain_run(priced.times, found.measured)
    emit(draw(run_report(plan, priced, found.measured, explained), sys.stdout))
    names = [options.measured, *_draw(problem, plan, priced, found, options)]
    emit(f"wrote {', '.join(names)}")
    return 0


def _measure(folder: Path, options: argparse.Namespace) -> Run:
    """Run a bundle, and write the measurements."""
    from hetopt.base.files import write_text
    from hetopt.running.run import run_bundle

    found = run_bundle(
        folder,
        iterations=options.iterations,
        units=options.units,
        data=options.data,
    )
    text = json_text(found.measured.to_json())
    write_text(options.measured, text + "\n")
    return found


def _draw(
    problem: Problem,
    plan: Plan,
    priced: Price,
    found: Run,
    options: argparse.Namespace,
) -> list[str]:
    """Write the pictures that were asked for; return their names."""
    if options.svg is None and options.trace is None:
        return []
    from hetopt.cli.pictures import write_pictures
    from hetopt.report.timeline.measured import with_measured
    from hetopt.report.timeline.modelled import modelled_timeline
    from hetopt.schedule.run import simulate

    timeline = modelled_timeline(problem.name, plan, priced, simulate(priced.times))
    timeline = with_measured(timeline, found.typical)
    return write_pictures(timeline, options.svg, options.trace)
