"""Run solvers side by side: what each finds, how soon."""

from __future__ import annotations

import sys
from math import ceil
from typing import TYPE_CHECKING

from hetopt.base import interruption
from hetopt.base.files import make_folder, write_bytes, write_text
from hetopt.base.words import counted
from hetopt.cli.asking import naming, search_of
from hetopt.cli.exit_codes import STOPPED
from hetopt.cli.flag import Flag, count, switch
from hetopt.cli.flags import (
    JOBS,
    LAUNCHER,
    PIPELINES,
    PROBLEM,
    RELAX,
    SCHEDULES,
    SEED,
    TIME_LIMIT,
    principles_of,
    workers,
)
from hetopt.cli.inputs import load_problem, schedule_of
from hetopt.cli.output import complain, emit, json_text
from hetopt.cli.paths import ensure_outputs
from hetopt.cli.preparing import prepare
from hetopt.errors import CheckError, InputError
from hetopt.problem.training.principles import PRUNED
from hetopt.solvers.kernels import kernels_for
from hetopt.solvers.registry import SOLVERS, sampling_names, solver

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from hetopt.problem.problem import Problem
    from hetopt.report.comparison.comparison import Comparison

#: Name and endings of the files written to DIR.
NAME = "compare"
ENDINGS = ("csv", "json", "md", "png", "svg")
#: File in DIR that keeps every run so far, until those are written.
RUNS = f"{NAME}.runs.jsonl"
DEFAULT_SOLVERS = "auto,mcts"
DEFAULT_LIMIT_S = 120.0
#: About the seconds of a run before and after its search, and of warm-ups, for each.
STARTING_S = 5.0
#: One draw says little: the median of three is the least that shows a spread.
DEFAULT_SEEDS = 3


#: What this command takes.
TAKES = (
    PROBLEM.but(
        "problem files, or names of some that ship with hetopt",
        name="problems",
        nargs="+",
    ),
    Flag(
        "--solvers",
        f"some of {', '.join(SOLVERS)}, or of your own (default: {DEFAULT_SOLVERS})",
        "A,B,...",
        default=DEFAULT_SOLVERS,
    ),
    TIME_LIMIT.but(
        f"seconds for every run (default: {DEFAULT_LIMIT_S:g})", default=DEFAULT_LIMIT_S
    ),
    SEED.but("the first; default: 0"),
    count(
        "--seeds",
        f"run {sampling_names()} K times, with the seeds N, N + 1, ... "
        f"(default: {DEFAULT_SEEDS})",
        "K",
        default=DEFAULT_SEEDS,
    ),
    JOBS.but("workers of every run (default: one per core)"),
    *SCHEDULES,
    PIPELINES.but("up to N pipelines side by side (default: 1; at most 4)"),
    RELAX,
    LAUNCHER,
    Flag(
        "--out",
        f"folder for {NAME}.csv, .json, .md, .png and .svg; until these are there it "
        f"keeps every run in {RUNS}, and the same command goes on from it",
        "DIR",
        required=True,
    ),
    switch(
        "--fresh", f"forget the runs that {RUNS} keeps of a comparison that was cut off"
    ),
)


def run(options: argparse.Namespace) -> int:
    """Run everything, write the files, and print the tables."""
    from hetopt.comparing.compare import REFERENCE, compare, entries_of, most_runs
    from hetopt.comparing.kept_runs import KeptRuns
    from hetopt.report.drawing.console import draw
    from hetopt.report.progress import StepBar

    solvers = _solvers(options.solvers)
    principles = principles_of(options.relax)
    problems = _problems(options)
    folder = make_folder(options.out)
    ensure_outputs(
        [str(folder / f"{NAME}.{each}") for each in ENDINGS] + [str(folder / RUNS)],
        problems=options.problems,
    )
    jobs = workers(options.jobs)
    entries = entries_of(
        solvers,
        seeds=range(options.seed, options.seed + options.seeds),
        principles=principles,
        time_limit_s=options.time_limit,
        jobs=jobs,
        launcher=options.launcher,
        pipelines=options.pipelines,
        chunks=options.chunks,
    )
    longest = most_runs(problems, entries)
    minutes = ceil(longest * (options.time_limit + STARTING_S) / 60)
    complain(
        f"at most {counted(longest, 'run')} of {options.time_limit:g} s: about "
        f"{counted(minutes, 'minute')}, less for every search that ends sooner"
    )
    used = (*solvers, REFERENCE)
    prepare([kernel for name in used for kernel in kernels_for(name, limited=True)])
    # From here on a signal ends only the current run; finished runs are kept.
    interruption.hold()
    kept = KeptRuns(str(folder / RUNS), said=complain, fresh=options.fresh)
    try:
        with StepBar(sys.stderr, "comparing") as bar:
            comparison = compare(
                problems,
                entries,
                time_limit_s=options.time_limit,
                jobs=jobs,
                told=bar.update,
                kept=kept,
            )
    except KeyboardInterrupt:
        complain(kept.summary())
        return STOPPED
    from hetopt.report.comparison.text import comparison_parts

    emit(draw(comparison_parts(comparison), sys.stdout))
    write_comparison(folder, comparison)
    kept.remove()
    emit(f"wrote {folder / NAME}.csv, .json, .md, .png, .svg")
    if findings := comparison.findings():
        raise CheckError(findings)
    return 0


def _problems(options: argparse.Namespace) -> list[Problem]:
    """Return the problems; InputError if one of them cannot be compared."""
    schedule = schedule_of(options)
    problems = [
        load_problem(name, schedule, options.chunks, any_schedule=True)
        for name in options.problems
    ]
    for name, problem in zip(options.problems, problems, strict=True):
        try:
            asked = search_of(
                options,
                problem=problem,
                time="closed",
                schedule=schedule,
                principles=PRUNED,
                jobs=None,
            )
            with naming(options):
                asked.over()
        except InputError as error:
            if (error.field or "").startswith("--"):
                raise
            raise InputError(error.message, file=name, field=error.field) from None
    _ensure_different([problem.name for problem in problems])
    return problems


def write_comparison(folder: Path, comparison: Comparison) -> None:
    """Write all five files."""
    from hetopt.report.comparison import text as comparison_text
    from hetopt.report.comparison.plot import best_so_far
    from hetopt.report.drawing import plots

    data = json_text(comparison.to_json())
    figure = best_so_far(comparison)
    path = str(folder / NAME)
    write_text(f"{path}.csv", comparison_text.comparison_csv(comparison))
    write_text(f"{path}.json", data + "\n")
    write_text(f"{path}.md", comparison_text.comparison_markdown(comparison))
    write_bytes(f"{path}.png", plots.png(figure))
    write_bytes(f"{path}.svg", plots.svg(figure))


def _solvers(text: str) -> list[str]:
    """Read ``--solvers``."""
    names = text.split(",")
    for name in names:
        solver(name, field="--solvers")
        if names.count(name) > 1:
            raise InputError(f"{name} is named twice", field="--solvers")
    return names


def _ensure_different(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            msg = f"two problems are named {name!r}, expected different names"
            raise InputError(msg, field="PROBLEM")
