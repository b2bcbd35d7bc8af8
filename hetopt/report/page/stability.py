"""The section on how far coefficients may change, if a plan's file has that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.report.page.markup import table
from hetopt.report.whatif.stability import stability_report

if TYPE_CHECKING:
    from hetopt.report.page.contents import Contents, ReportedPlan


def stability(contents: Contents) -> str:
    """Return the section; empty if no file has it."""
    return contents.of_each(_table)


def _table(plan: ReportedPlan) -> str:
    result = plan.result
    if result is None or result.stability is None:
        return ""
    _, *parts = stability_report(
        result.stability, plan.plan, objective=result.objective, complete=True
    )
    return table(parts, "how far coefficients may move")
