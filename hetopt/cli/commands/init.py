"""Write a commented example problem.

Without ``--out`` it goes to ``problem.yaml``; an existing file is never replaced.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.cli.flag import writes
from hetopt.cli.flags import LAUNCHER, LIMITED
from hetopt.cli.output import emit
from hetopt.errors import InputError

if TYPE_CHECKING:
    import argparse


#: What this command takes.
TAKES = (
    writes(
        "--out",
        "where to write it (default: problem.yaml; - is standard output)",
        default="problem.yaml",
    ),
    LAUNCHER.but(
        f"with a schedule and pins under which this launcher runs every plan: {LIMITED}"
    ),
)


def run(options: argparse.Namespace) -> int:
    """Write the example."""
    from hetopt.base.files import ensure_writable, write_text

    text = _text(options.launcher)
    if options.out == "-":
        emit(text)
        return 0
    ensure_writable(options.out)
    if Path(options.out).is_file():
        msg = "exists already and is not replaced: name another with --out"
        raise InputError(msg, file=options.out)
    write_text(options.out, text)
    emit(f"wrote {options.out}; next: hetopt plan {options.out} --out plan.json")
    return 0


def _text(launcher: str | None) -> str:
    """Return the example, within the limits of a launcher if one is named."""
    if launcher is None:
        from hetopt.problem.example import EXAMPLE

        return EXAMPLE
    from hetopt.export.planning.example import example_for

    try:
        return example_for(launcher)
    except InputError as error:
        raise InputError(error.message, field="--for") from None
