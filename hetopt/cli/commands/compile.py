"""Compile the searches before the first command does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cli.flags import JOBS
from hetopt.cli.output import emit
from hetopt.cli.preparing import prepare

if TYPE_CHECKING:
    import argparse


#: What this command takes.
TAKES = (JOBS.but("processes that compile (default: one per core)"),)


def run(options: argparse.Namespace) -> int:
    """Compile everything, and say where it is kept."""
    from hetopt.base.machine_code import kept_folder
    from hetopt.solvers.kernels import KERNELS

    before = kept_folder()
    prepare(KERNELS, options.jobs)
    if kept_folder() == before:
        emit(f"{before}: the searches are compiled")
    return 0
