"""Write a commented example problem.

Without ``--out`` it goes to ``problem.yaml``; an existing file is never replaced.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.cli.output import emit
from hetopt.errors import InputError

if TYPE_CHECKING:
    import argparse


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    command.add_argument(
        "--out",
        metavar="FILE",
        default="problem.yaml",
        help="where to write it (default: problem.yaml; - is standard output)",
    )


def run(options: argparse.Namespace) -> int:
    """Write the example."""
    from hetopt.base.files import write_text
    from hetopt.problem.example import EXAMPLE

    if options.out == "-":
        emit(EXAMPLE)
        return 0
    if Path(options.out).is_file():
        raise InputError("exists already and is not replaced", file=options.out)
    write_text(options.out, EXAMPLE)
    emit(f"wrote {options.out}; next: hetopt plan {options.out}")
    return 0
