"""Write a plan as the files that a training runtime launches from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.cli.inputs import whole
from hetopt.cli.output import complain, emit
from hetopt.cli.planned import add_planned, load_ranked
from hetopt.export.registry import SHIPPED, launcher

if TYPE_CHECKING:
    import argparse


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add_planned(command)
    command.add_argument(
        "--to",
        metavar="LAUNCHER",
        required=True,
        help=f"one of {', '.join(SHIPPED)}, or one of your own",
    )
    command.add_argument(
        "--out", metavar="DIR", required=True, help="a new or empty folder"
    )
    command.add_argument(
        "--top",
        type=whole(1),
        metavar="K",
        help="the plan and its best alternatives, as DIR/1, DIR/2, ... (the plan file "
        "holds as many as `hetopt plan --top` asked for)",
    )
    command.add_argument(
        "--allow-lossy",
        action="store_true",
        help="export even what the launcher cannot do exactly as planned; LOSSY.md "
        "lists what is lost",
    )


def run(options: argparse.Namespace) -> int:
    """Check the plan, write the folder, and report its content."""
    from hetopt.export.bundle import bundle, ensure_free, ensure_runs, write_folder
    from hetopt.export.job import Job

    target = launcher(options.to)
    ensure_free(options.out)
    problem, plans = load_ranked(
        options.problem, options.plan, options.table, several=True
    )
    chosen = plans[: options.top or 1]
    ensure_runs(target, plans[0], options.plan)
    bundles = [
        bundle(Job.of(problem, plan), target, allow_lossy=options.allow_lossy)
        for plan in chosen
    ]
    if options.top is None:
        files = bundles[0]
    else:
        files = {
            str(Path(str(number)) / name): text
            for number, each in enumerate(bundles, start=1)
            for name, text in each.items()
        }
    write_folder(options.out, files)
    if options.top is not None and len(plans) < options.top:
        complain(
            f"warning: {options.plan} holds {counted(len(plans), 'plan')}, not "
            f"{options.top}: ask for more with `hetopt plan --top {options.top}`"
        )
    whose = "" if options.top is None else f" of {counted(len(bundles), 'plan')}"
    made = f"{counted(len(files), 'file')}{whose}"
    emit(f"{options.out}: {made} for {target.title}; see README.md")
    return 0
