"""Read a runtime's files back as a plan, and price it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.cli.flag import Flag, writes
from hetopt.cli.flags import PROBLEM, READ_FROM, TABLE
from hetopt.cli.inputs import load_problem
from hetopt.cli.output import complain, emit, json_text
from hetopt.cli.paths import ensure_files

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from hetopt.cost.table.table import CostTable
    from hetopt.export.back.importing import Imported
    from hetopt.problem.problem import Problem


#: What this command takes.
TAKES = (
    PROBLEM,
    Flag(
        "folder",
        "a folder that `hetopt export` wrote, or made by hand",
        "DIR",
        role="reads",
    ),
    READ_FROM,
    TABLE,
    writes("--out", "the plan to write, as JSON", required=True),
)


def run(options: argparse.Namespace) -> int:
    """Import, write the plan with its times, and warn if it is not feasible."""
    from hetopt.base.files import write_text

    ensure_files(options, plans=True)
    problem = load_problem(options.problem, divided=False)
    read = None if options.table is None else partial(_own, options.table, problem)
    imported = read_folder(problem, options.folder, options.form, read)
    text = json_text(imported.result().to_json())
    write_text(options.out, text + "\n")
    price = imported.price
    emit(
        f"{options.out}: {price.closed_form_s:.4f} s in closed form, "
        f"{price.iteration_time_s:.4f} s simulated"
        + (", but it is not feasible" if imported.findings else "")
    )
    for told in imported.reported:
        emit(str(told))
    complain(*(f"warning: {text}" for text in imported.findings))
    return 0


def _own(path: str, asked: Problem, scheduled: Problem) -> CostTable:
    """Read the user's table of the problem under the schedule of the files."""
    from hetopt.cost.table_file.file import read_table
    from hetopt.errors import DigestError

    try:
        return read_table(path, scheduled)
    except DigestError as error:
        name = scheduled.training.schedule
        if name == asked.training.schedule:
            raise
        msg = (
            f"{error.message} of the problem with `schedule: {name}`, which the files "
            "run"
        )
        raise DigestError(msg, file=error.file, field=error.field) from error


def read_folder(
    problem: Problem,
    folder: str,
    form: str | None,
    read: Callable[[Problem], CostTable] | None,
) -> Imported:
    """Read a runtime's files as a plan of a problem.

    Parameters
    ----------
    form
        Name of the launcher, or None to recognise it.
    read
        ``read_table`` of ``import_plan``.
    """
    from hetopt.base.reading import named
    from hetopt.export.back.importing import import_plan
    from hetopt.export.registry import reader

    pipeline = reader(Path(folder), form).read(Path(folder))
    with named(folder):
        return import_plan(pipeline, problem, read)
