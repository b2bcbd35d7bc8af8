"""Write the files from which a runtime launches a plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.cli.flag import Flag, count, switch
from hetopt.cli.flags import PLANNED
from hetopt.cli.inputs import load_problem_of
from hetopt.cli.output import complain, emit
from hetopt.cli.planned import load_reported
from hetopt.cli.warned import note
from hetopt.errors import CheckError
from hetopt.export.registry import SHIPPED, launcher_for

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from hetopt.cost.table.table import CostTable
    from hetopt.export.job import Job
    from hetopt.export.launcher import Launcher


#: What this command takes.
TAKES = (
    *PLANNED,
    Flag(
        "--to",
        f"one of {', '.join(SHIPPED)}, or one of your own (default: the problem's "
        "launcher)",
        "LAUNCHER",
    ),
    Flag("--out", "a new or empty folder", "DIR", required=True),
    count(
        "--top",
        "the plan and its best alternatives, as DIR/1, DIR/2, ... (the plan file holds "
        "as many as `hetopt plan --top` asked for)",
        "K",
    ),
    switch(
        "--allow-lossy",
        "export even what the launcher cannot do exactly as planned; LOSSY.md lists "
        "what is lost",
    ),
)


def run(options: argparse.Namespace) -> int:
    """Check the plan, write the folder, and report its content."""
    from hetopt.export.bundle import bundle, ensure_free, ensure_runs, write_folder
    from hetopt.export.job import Job
    from hetopt.problem.reading import read_problem

    target = launcher_for(options.to, read_problem(options.problem))
    ensure_free(options.out)
    problem, table, plans, _ = load_reported(
        options.problem, options.plan, options.table, several=True
    )
    chosen = plans[: options.top or 1]
    for number, plan in enumerate(chosen):
        field = f"alternatives.{number - 1}.plan.pipelines" if number else "pipelines"
        ensure_runs(target, plan, field, options.plan)
    jobs = [Job.of(problem, plan) for plan in chosen]
    try:
        bundles = [bundle(job, target, allow_lossy=options.allow_lossy) for job in jobs]
    except CheckError as error:
        instead = _remedy(options, target, table, jobs)
        raise CheckError([*error.findings, *instead]) from None
    if options.top is None:
        files = bundles[0]
    else:
        files = {
            str(Path(str(number)) / name): text
            for number, each in enumerate(bundles, start=1)
            for name, text in each.items()
        }
    write_folder(options.out, files)
    note(problem, [job.plan for job in jobs], target)
    if options.top is not None and len(plans) < options.top:
        complain(
            f"warning: {options.plan} holds {counted(len(plans), 'plan')}, not "
            f"{options.top}: ask for more with `hetopt plan --top {options.top}`"
        )
    whose = "" if options.top is None else f" of {counted(len(bundles), 'plan')}"
    made = f"{counted(len(files), 'file')}{whose}"
    emit(f"{options.out}: {made} for {target.title}; see README.md")
    return 0


def _remedy(
    options: argparse.Namespace, target: Launcher, table: CostTable, jobs: list[Job]
) -> Iterator[str]:
    """Yield what to do about plans that the launcher does not run as they are."""
    from hetopt.cli.remedy import remedy
    from hetopt.export.bundle import losses_of
    from hetopt.pricing.price import price

    plan = jobs[0].plan
    # A search for the launcher takes no table, and a single pipeline.
    time_s = None
    if options.table is None and len(plan.pipelines) == 1:
        time_s = price(plan, table).iteration_time_s
    lossy = not options.allow_lossy and all(
        loss.instead is not None for job in jobs for loss in losses_of(job, target)
    )
    problem = load_problem_of(options.problem, plan, options.plan)
    found = remedy(problem, target, time_s, lossy=lossy)
    if found is not None:
        yield found
