"""The sections on a page's inputs, and on how to make it again."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from hetopt.base.words import command_line
from hetopt.report.drawing.sheet import labelled
from hetopt.report.page.commands import commands
from hetopt.report.page.markup import folded, table, tag, words
from hetopt.report.plan_report import alternatives_table
from hetopt.report.summary import latencies
from hetopt.version import __version__

if TYPE_CHECKING:
    from hetopt.report.page.contents import Contents, ReportedPlan

#: Libraries on whose versions plans and times may depend.
_LIBRARIES = ("highspy", "numba", "numpy", "ortools", "pyomo", "scikit-learn", "scipy")
#: Lines of a problem beyond which it is folded at first.
_MOST_LINES = 60
_SEED = (
    "A plan file does not keep --seed, --time-limit, --iterations, --exploration and "
    "--cost. A plan that is proven optimal does not depend on them; for another plan, "
    "repeat those that were given."
)


def alternatives(contents: Contents) -> str:
    """Return the section of the next best plans; empty if no file has any."""
    return contents.of_each(_alternatives)


def _alternatives(plan: ReportedPlan) -> str:
    result = plan.result
    if result is None or result.best is None or not result.alternatives:
        return ""
    ranked = alternatives_table(result, plan.problem)
    return table([ranked], f"the best plans in {plan.name}")


def problem(contents: Contents) -> str:
    """Return the section with the problem's file, unchanged."""
    text = tag("pre", words("code", contents.problem_text), tabindex="0")
    shown = contents.problem_text.count("\n") <= _MOST_LINES
    return folded(contents.problem_name, text, open_=shown)


def reproduction(contents: Contents) -> str:
    """Return the section with commands, versions and digests."""
    lines = [line for plan in contents.plans for line in commands(contents, plan)]
    lines.append(command_line(contents.command))
    pairs = [("hetopt", __version__), ("Python", platform.python_version())]
    pairs += [(name, found) for name in _LIBRARIES if (found := _version(name))]
    digests = [("problem", contents.plans[0].plan.problem_digest)]
    for plan in contents.plans:
        digests += [
            (f"table of {plan.name}", plan.plan.table_digest),
            (f"plan in {plan.name}", plan.plan.digest),
        ]
        if plan.result is not None:
            digests.append((f"latencies of {plan.name}", latencies(plan.result)))
    parts = (
        tag("pre", words("code", "\n".join(lines)), tabindex="0"),
        words("p", _SEED),
        table([labelled(digests)], "digests"),
        words("p", "This page was made with:"),
        table([labelled(pairs)], "versions"),
    )
    return "".join(parts)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
