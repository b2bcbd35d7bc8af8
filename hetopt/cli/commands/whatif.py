"""Solve variants: other clusters, nodes, links, settings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.base import interruption
from hetopt.cli.asking import naming, search_of
from hetopt.cli.flag import as_json, repeated, switch, writes
from hetopt.cli.flags import (
    JOBS,
    LAUNCHER,
    OBJECTIVE,
    PROBLEM,
    SCHEDULES,
    SEED,
    SOLVER,
    TIME_LIMIT,
)
from hetopt.cli.inputs import load_problem, only_one, schedule_of
from hetopt.cli.output import complain, report, told
from hetopt.cli.paths import ensure_files
from hetopt.cli.preparing import prepare
from hetopt.errors import InputError
from hetopt.solvers.kernels import kernels_for

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from hetopt.report.whatif.table import Row
    from hetopt.results.result import Result


#: What this command takes.
TAKES = (
    PROBLEM,
    switch(
        "--drop-each", "without each cluster in turn, and with one node less of each"
    ),
    repeated(
        "--add",
        "CLUSTER:NODES",
        "with NODES more nodes; several clusters between commas are one variant, and "
        "the option given again is another",
    ),
    repeated(
        "--set",
        "KEY=VALUE",
        "with another value of a key of the problem file, such as "
        "links.default.bandwidth=25Gbps or clusters.h100.nodes=4; several between "
        "commas are one variant, and the option given again is another",
    ),
    repeated(
        "--sweep",
        "KEY=A,B,...",
        "with each of these values; given twice: with every combination",
    ),
    SOLVER,
    OBJECTIVE.but(
        "which iteration time to minimise: in closed form (default), or as simulated",
        choices=("closed", "simulated"),
        default="closed",
    ),
    *SCHEDULES,
    LAUNCHER,
    TIME_LIMIT.but(
        "end the search of each variant after this many seconds, with the best plan so "
        "far"
    ),
    JOBS.but(
        "variants, or workers of one search, at the same time (default: one per core); "
        "1: work in this process, start none"
    ),
    SEED,
    writes("--svg", "draw the variants as bars"),
    writes("--csv", "write a line per variant"),
    writes("--out", "write what --json prints, plans included"),
    as_json("variants"),
)


def run(options: argparse.Namespace) -> int:
    """Make the variants, solve them, and report the results."""
    from hetopt.problem.named import problem_path
    from hetopt.report.whatif.table import rows
    from hetopt.whatif.solving import Solving
    from hetopt.whatif.variants import Variants

    if not (options.drop_each or options.add or options.set or options.sweep):
        msg = "no change is asked for: give --drop-each, --add, --set or --sweep"
        raise InputError(msg)
    ensure_files(options)
    schedule = schedule_of(options)
    # With --schedule and --chunks first, so that errors name the options, not the file.
    own = load_problem(options.problem, schedule, options.chunks, any_schedule=True)
    # With any schedule the searches choose from the numbers.
    chunks = None if own.training.any_schedule else only_one(options.chunks)
    made = Variants(problem_path(options.problem), schedule, chunks)
    variants = made.all(
        drop_each=options.drop_each,
        added=options.add,
        settings=options.set,
        sweeps=options.sweep,
    )
    asked = search_of(options, problem=made.base, schedule=schedule)
    with naming(options):
        searches = [
            replace(asked, problem=each.problem) for each in variants if each.problem
        ]
    kernels = kernels_for(
        options.solver,
        objective=options.objective,
        schedules={name for search in searches for name in search.schedule_names},
        limited=options.time_limit is not None,
    )
    prepare(kernels, options.jobs)
    # From here on a signal ends the searches, and the results so far are reported.
    interruption.hold()
    solving = Solving(variants, asked, told())
    answers = solving.answers()
    found = rows(variants, answers)
    _report(made.base.name, found, answers[0].result, options)
    if solving.interrupted:
        complain("stopped: interrupted; variants without a plan were not searched")
    return _exit_code(found)


def _exit_code(found: Sequence[Row]) -> int:
    from hetopt.cli.exit_codes import NO_PLAN, STOPPED

    if any(row.plan is not None for row in found):
        return 0
    return NO_PLAN if all(row.status == "infeasible" for row in found) else STOPPED


def _report(
    name: str,
    found: Sequence[Row],
    base: Result | None,
    options: argparse.Namespace,
) -> None:
    """Print the variants, and write the files that were asked for."""
    from hetopt.base.files import write_bytes, write_text
    from hetopt.report.whatif.table import Whatif, whatif_csv, whatif_report

    data = Whatif(
        problem=name, objective=options.objective, rows=tuple(found)
    ).to_json()
    parts = whatif_report(found, options.objective, base)
    report(data, parts, as_json=options.json, out=options.out)
    if options.csv is not None:
        write_text(options.csv, whatif_csv(found))
    if options.svg is not None:
        from hetopt.report.drawing import plots
        from hetopt.report.whatif.plot import whatif_figure

        write_bytes(
            options.svg, plots.svg(whatif_figure(found, options.objective, name))
        )
