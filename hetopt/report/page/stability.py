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
    if plan.result is None or plan.result.stability is None:
        return ""
    simulated = plan.result.objective == "simulated"
    _, *parts = stability_report(
        plan.result.stability, plan.plan, simulated=simulated, complete=True
    )
    return table(parts, "how far coefficients may move")
