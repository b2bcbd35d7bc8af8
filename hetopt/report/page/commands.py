"""The commands that make the plans of a page again, and check them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.words import command_line
from hetopt.results.asked import arguments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.report.page.contents import Contents, ReportedPlan


def commands(contents: Contents, plan: ReportedPlan) -> Iterator[str]:
    """Yield the command that finds a plan, if it has a result, and that checks it."""
    problem, result = contents.problem_name, plan.result
    table = [] if contents.table is None else ["--table", contents.table]
    if result is not None and result.asked is not None:
        own = table if "table" in result.asked else []
        options = [*arguments(result.asked), *own]
        yield command_line(["hetopt", "plan", problem, *options, "--out", plan.name])
    yield command_line(["hetopt", "check", problem, plan.name, *table])
