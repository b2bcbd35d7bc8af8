"""Compile the searches before the first command does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cli.inputs import add_count
from hetopt.cli.output import emit
from hetopt.cli.preparing import prepare

if TYPE_CHECKING:
    import argparse


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add_count(command, "--jobs", "processes that compile (default: one per core)")


def run(options: argparse.Namespace) -> int:
    """Compile everything, and say where it is kept."""
    from hetopt.base.machine_code import kept_folder
    from hetopt.solvers.kernels import KERNELS

    before = kept_folder()
    prepare(KERNELS, options.jobs)
    if kept_folder() == before:
        emit(f"{before}: the searches are compiled")
    return 0
