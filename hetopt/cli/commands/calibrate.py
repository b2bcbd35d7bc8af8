"""Correct a problem's latency table by measured runs."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, NamedTuple

from hetopt.cli.flag import Flag, repeated, switch, writes
from hetopt.cli.flags import PLAN, PROBLEM
from hetopt.cli.inputs import load_problem_of
from hetopt.cli.numbers import quantity
from hetopt.cli.output import complain, emit
from hetopt.cli.paths import ensure_outputs
from hetopt.errors import InputError
from hetopt.problem.quantity import parse_memory, parse_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.calibrating.factors import Corrected, Factor
    from hetopt.calibrating.overhead import Overhead
    from hetopt.calibrating.runs import MeasuredRun
    from hetopt.plans.plan import Plan
    from hetopt.problem.calibration import Calibration
    from hetopt.problem.problem import Problem
    from hetopt.running.measured import Measured

CORRECTED = ("efficiency", "intra_node", "bandwidth")

#: Endings by which a problem file recognises the name of another file.
FILE_SUFFIXES = (".yaml", ".yml", ".json")


def _measured_run(text: str) -> tuple[str, str]:
    plan, _, path = text.rpartition("=")
    if not (plan and path):
        msg = f"{text!r} is not PLAN=FILE"
        raise argparse.ArgumentTypeError(msg)
    return plan, path


_time = quantity(parse_time)


#: What this command takes.
TAKES = (
    PROBLEM,
    PLAN.but(f"{PLAN.text}; with --measured", nargs="?"),
    Flag(
        "--measured",
        "what one iteration of PLAN took, such as '6.2 s'",
        "TIME",
        type=_time,
    ),
    repeated(
        "--run",
        "PLAN=FILE",
        "a plan of PROBLEM, and what `hetopt run` measured of it; may be given several "
        "times, instead of PLAN and --measured or beside them",
        # ``run`` is the command's function.
        dest="measured_runs",
        type=_measured_run,
    ),
    repeated(
        "--also",
        ("PROBLEM", "PLAN", "TIME"),
        "another run on the same clusters, and what its iteration took; may be given "
        "several times. Several runs correct everything at once",
        nargs=3,
    ),
    Flag(
        "--memory",
        "what the fullest device of PLAN held at its peak, as its driver counts it, "
        "such as '71 GB': corrects the overhead of its cluster",
        "SIZE",
        type=quantity(parse_memory),
    ),
    Flag(
        "--correct",
        "the one thing that is corrected: the devices' efficiency (default for one "
        "run), the bandwidth of the links inside nodes (intra_node), or that of the "
        "networks between nodes and clusters (bandwidth)",
        choices=CORRECTED,
    ),
    Flag(
        "--clusters",
        "whose efficiency is corrected (default: all that the plans use)",
        "NAME,...",
    ),
    switch(
        "--force",
        "let a run set a factor to its bound although its iterations differ by more "
        "than 10%% or the machine was busy",
    ),
    writes(
        "--out", "where to write it (default: %(default)s)", default="calibration.yaml"
    ),
)


def run(options: argparse.Namespace) -> int:
    """Fit, write the file, and say what changed."""
    from hetopt.base.files import write_text
    from hetopt.calibrating.doubts import doubts, of_other_devices
    from hetopt.calibrating.overhead import fit_overhead

    _ensure_consistent(options)
    ensure_outputs(
        (options.out,),
        (
            options.plan,
            *(name for pair in options.measured_runs for name in pair),
            *(plan for _, plan, _ in options.also),
        ),
        problems=(options.problem, *(problem for problem, _, _ in options.also)),
    )
    runs = _runs(options)
    clusters = _clusters(options.clusters, runs)
    found = (_one if len(runs) == 1 else _several)(runs, options, clusters)
    overhead = None
    if options.memory is not None:
        overhead = fit_overhead(runs[0], options.memory)
    notes = found.notes
    if overhead is not None:
        notes += f", {options.memory / 1e9:g} GB measured"
    text = _text(runs[0].problem, found.calibration, overhead, notes)
    write_text(options.out, text)
    emit("\n".join(found.lines))
    _emit_factors(found.calibration)
    bounded = found.bounded
    if overhead is not None:
        emit(
            f"memory: {options.memory / 1e9:.4g} GB measured, "
            f"{overhead.planned_bytes / 1e9:.4g} GB planned; overhead of "
            f"{overhead.cluster}: {overhead.overhead_bytes / 1e9:.4g} GB"
        )
        bounded += () if overhead.bounded is None else (overhead.bounded,)
    for bound in bounded:
        emit(f"not corrected in full, at the bound of {bound}: something else is wrong")
    named = _as_named(options.out, options.problem)
    emit(f"wrote {options.out}; name it in the problem (calibration: {named})")
    for run in runs:
        if run.noise:
            complain(
                f"warning: {run.file} has {' and '.join(run.noise)}: factors are as "
                "uncertain; run again on a quiet machine"
            )
        if run.on_cpu:
            complain(*of_other_devices(run))
    doubt = doubts(runs, found.calibration, found.factors)
    if doubt is not None:
        complain(f"warning: {doubt}")
    return 0


class _Found(NamedTuple):
    """The fitted calibration, and the texts about it.

    Attributes
    ----------
    lines
        Lines on each run, printed first.
    notes
        The file's notes.
    """

    calibration: Calibration
    factors: tuple[Factor, ...]
    bounded: tuple[str, ...]
    lines: tuple[str, ...]
    notes: str


def _one(
    runs: Sequence[MeasuredRun], options: argparse.Namespace, clusters: tuple[str, ...]
) -> _Found:
    from hetopt.calibrating.factors import factors_of
    from hetopt.calibrating.one_run import fit

    (run,) = runs
    correct: Corrected = options.correct or "efficiency"
    found = fit(run, correct=correct, clusters=clusters, force=options.force)
    return _Found(
        calibration=found.calibration,
        factors=tuple(factors_of([correct], clusters or run.plan.clusters)),
        bounded=found.bounded,
        lines=(
            f"iteration: {run.measured_s:.4g} s measured, {found.before_s:.4g} s "
            f"planned, {found.after_s:.4g} s corrected",
        ),
        notes=(
            f"one run: {run.measured_s:g} s measured, {found.before_s:.4g} s planned"
        ),
    )


def _several(
    runs: Sequence[MeasuredRun], options: argparse.Namespace, clusters: tuple[str, ...]
) -> _Found:
    from hetopt.calibrating.several_runs import fit_jointly

    found = fit_jointly(
        runs, correct=options.correct, clusters=clusters, force=options.force
    )
    lines = [
        f"run {number}: {run.measured_s:.4g} s measured, {before:.4g} s planned, "
        f"{after:.4g} s corrected"
        for number, (run, before, after) in enumerate(
            zip(runs, found.before_s, found.after_s, strict=True), start=1
        )
    ]
    errors = []
    for number, (run, predicted) in enumerate(
        zip(runs, found.left_out_s, strict=True), start=1
    ):
        errors.append(predicted / run.measured_s - 1)
        lines.append(
            f"run {number} left out: {run.measured_s:.4g} s measured, "
            f"{predicted:.4g} s predicted by the others, {errors[-1]:+.1%}"
        )
    off = f"{mean(map(abs, errors)):.1%}"
    lines.append(f"mean absolute error of runs left out: {off}")
    return _Found(
        calibration=found.calibration,
        factors=found.factors,
        bounded=found.bounded,
        lines=tuple(lines),
        notes=f"{len(runs)} runs, each predicted by the others within {off} on average",
    )


def _emit_factors(calibration: Calibration) -> None:
    for name, factor in calibration.efficiency.items():
        emit(f"efficiency of {name}: {factor:g}")
    emit(f"intra_node: {calibration.intra_node:g}")
    emit(f"bandwidth: {calibration.bandwidth:g}")


def _runs(options: argparse.Namespace) -> list[MeasuredRun]:
    """Read every run; plans are checked as `hetopt check` does."""
    given = []
    if options.plan is not None:
        given.append((options.problem, options.plan, options.measured))
    for plan, path in options.measured_runs:
        given.append((options.problem, plan, Path(path)))
    for problem, plan, text in options.also:
        try:
            given.append((problem, plan, _time(text)))
        except (argparse.ArgumentTypeError, ValueError) as error:
            raise InputError(str(error), field="--also") from error
    return [_run(*each) for each in given]


def _run(name: str, path: str, measured: float | Path) -> MeasuredRun:
    """Read one run; ``measured`` is its time, or the file that has it."""
    from hetopt.calibrating.runs import MeasuredRun
    from hetopt.cli.planned import load_reported

    plan = load_reported(name, path, None).plans[0]
    problem = load_problem_of(name, plan, path)
    if not isinstance(measured, Path):
        return MeasuredRun(name=name, problem=problem, plan=plan, measured_s=measured)
    timed = _timed(problem, plan, measured)
    return MeasuredRun(
        name=name,
        problem=problem,
        plan=plan,
        measured_s=timed.time_s,
        file=str(measured),
        noise=timed.noise,
        on_cpu=timed.on_cpu,
    )


def _timed(problem: Problem, plan: Plan, path: Path) -> Measured:
    """Return what `hetopt run` measured of a plan."""
    from hetopt.export.job import Job
    from hetopt.export.torch.launcher import LAUNCHER
    from hetopt.running.measured import read_measured

    job = Job.of(problem, plan)
    if lost := [loss.what for loss in LAUNCHER.losses(job) if loss.instead is None]:
        raise InputError(f"cannot be of this plan, with {lost[0]}", file=str(path))
    launched = LAUNCHER.launched(job).plan
    return read_measured(str(path), launched.digest)


def _clusters(text: str | None, runs: Sequence[MeasuredRun]) -> tuple[str, ...]:
    """Read ``--clusters``; the plans have to use all of them."""
    if text is None:
        return ()
    used = {name for run in runs for name in run.plan.clusters}
    for name in (names := _names(text)):
        if name not in used:
            every = [cluster.name for cluster in runs[0].problem.clusters]
            known = ", ".join(cluster for cluster in every if cluster in used)
            where = "the plan, which uses" if len(runs) == 1 else "the plans, which use"
            msg = f"--clusters: {name!r} is not in {where} {known}"
            raise InputError(msg)
    return names


def _ensure_consistent(options: argparse.Namespace) -> None:
    """Raise InputError for a plan without a time, or clusters that have no effect."""
    if options.plan is None and options.measured is not None:
        raise InputError("is the time of PLAN: name it too", field="--measured")
    if options.plan is not None and options.measured is None:
        msg = "has no time: give it by --measured, or name PLAN=FILE by --run"
        raise InputError(msg, file=options.plan)
    if options.plan is None and not options.measured_runs:
        raise InputError("no run: name PLAN and --measured TIME, or --run PLAN=FILE")
    if options.correct not in (None, "efficiency") and options.clusters is not None:
        msg = f"says whose efficiency is corrected, but --correct is {options.correct}"
        raise InputError(msg, field="--clusters")


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",")))


def _as_named(out: str, problem: str) -> str:
    """Return ``out`` as the problem file has to name it: relative to its folder."""
    name = out
    if Path(problem).is_file() and not Path(out).is_absolute():
        name = os.path.relpath(out, Path(problem).parent)
    return name if name.endswith(FILE_SUFFIXES) else f"{{file: {name}}}"


def _text(
    problem: Problem, calibration: Calibration, found: Overhead | None, notes: str
) -> str:
    import json

    overhead = {
        cluster.name: cluster.overhead_bytes
        for cluster in problem.clusters
        if cluster.name in problem.calibration.overheads
    }
    if found is not None:
        overhead[found.cluster] = found.overhead_bytes
    sizes = {name: f"{size} B" for name, size in overhead.items()}
    known = problem.calibration.reserve
    reserve = "" if known is None else f"reserve: {known:g}\n"
    return f"""\
# Written by hetopt calibrate. In the problem file: `calibration: this file`.
# How much faster the devices compute than their latency source says, and how much
# more bandwidth networks and the links inside nodes have than the problem says; 1
# changes nothing.
efficiency: {json.dumps(dict(calibration.efficiency))}
bandwidth: {calibration.bandwidth:g}
intra_node: {calibration.intra_node:g}
# What a device holds outside of what the framework allocates, by cluster.
overhead: {json.dumps(sizes)}
{reserve}notes: {json.dumps(notes)}
"""
