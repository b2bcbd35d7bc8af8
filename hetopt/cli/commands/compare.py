"""Run solvers side by side: what each finds, how soon."""

from __future__ import annotations

import sys
from math import ceil
from typing import TYPE_CHECKING

from hetopt.base import interruption
from hetopt.base.files import make_folder, write_bytes, write_text
from hetopt.base.words import counted
from hetopt.cli.asking import naming
from hetopt.cli.exit_codes import STOPPED
from hetopt.cli.inputs import (
    add_count,
    add_launcher,
    add_relax,
    add_schedule,
    add_switch,
    add_time_limit,
    load_problem,
    principles_of,
    schedule_of,
    workers,
)
from hetopt.cli.output import complain, emit, json_text
from hetopt.cli.paths import ensure_outputs
from hetopt.cli.preparing import prepare
from hetopt.errors import CheckError, InputError
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


# One statement for each option.
def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    command.add_argument(
        "problems",
        nargs="+",
        metavar="PROBLEM",
        help="problem files, or names of some that ship with hetopt",
    )
    command.add_argument(
        "--solvers",
        metavar="A,B,...",
        default=DEFAULT_SOLVERS,
        help=f"some of {', '.join(SOLVERS)}, or of your own "
        f"(default: {DEFAULT_SOLVERS})",
    )
    add_time_limit(
        command,
        f"seconds for every run (default: {DEFAULT_LIMIT_S:g})",
        default=DEFAULT_LIMIT_S,
    )
    add_count(command, "--seed", "the first; default: 0", least=0, default=0)
    add_count(
        command,
        "--seeds",
        f"run {sampling_names()} K times, with the seeds N, N + 1, ... "
        f"(default: {DEFAULT_SEEDS})",
        default=DEFAULT_SEEDS,
        metavar="K",
    )
    add_count(command, "--jobs", "workers of every run (default: one per core)")
    add_schedule(command, several=True)
    add_count(
        command,
        "--pipelines",
        "up to N pipelines side by side (default: 1; at most 4)",
        default=1,
    )
    add_relax(command)
    add_launcher(command)
    command.add_argument(
        "--out",
        metavar="DIR",
        required=True,
        help=f"folder for {NAME}.csv, .json, .md, .png and .svg; until these are there "
        f"it keeps every run in {RUNS}, and the same command goes on from it",
    )
    add_switch(
        command,
        "--fresh",
        f"forget the runs that {RUNS} keeps of a comparison that was cut off",
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
    from hetopt.planning.asked import Search

    schedule = schedule_of(options)
    problems = [
        load_problem(name, schedule, options.chunks, any_schedule=True)
        for name in options.problems
    ]
    for name, problem in zip(options.problems, problems, strict=True):
        try:
            with naming(options):
                asked = Search(
                    problem=problem,
                    time="closed",
                    launcher=options.launcher,
                    schedule=schedule,
                    pipelines=options.pipelines,
                    chunks=options.chunks,
                )
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
