"""The commands that make the plans of a page again, and check them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.words import shell_quoted
from hetopt.problem.training.choices import ANY, INTERLEAVED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.plans.plan import Plan
    from hetopt.report.page.contents import Contents, ReportedPlan
    from hetopt.results.result import Result


def commands(contents: Contents, plan: ReportedPlan) -> Iterator[str]:
    """Yield the command that finds a plan, if it has a result, and that checks it."""
    problem, result = contents.problem_name, plan.result
    table = [] if contents.table is None else ["--table", contents.table]
    if result is not None:
        named = plan.problem.launcher is not None
        options = _options(plan.plan, result, has_launcher=named)
        # ``hetopt plan`` refuses a table together with these.
        without_table = (result.launcher, result.several, result.stability)
        if not result.schedules and without_table == (None, None, None):
            options += table
        again = ["hetopt", "plan", problem, *options, "--out", plan.name]
        yield " ".join(map(shell_quoted, again))
    checked = ["hetopt", "check", problem, plan.name, *table]
    yield " ".join(map(shell_quoted, checked))


def _options(plan: Plan, result: Result, *, has_launcher: bool) -> list[str]:
    """Return the options by which ``hetopt plan`` finds a result again.

    Parameters
    ----------
    has_launcher
        Whether the problem names a launcher.
    """
    options = [*_schedule(plan, result), "--solver", result.solver]
    if result.launcher is not None:
        options += ["--for", result.launcher]
    elif has_launcher:
        options += ["--for", "none"]
    if result.objective in ("simulated", "cost"):
        options += ["--objective", result.objective]
    if result.spent is not None:
        for name, limit in result.spent.spending.to_json().items():
            if limit is not None:
                options += [f"--{name.replace('_', '-')}", str(limit)]
    if result.relaxed:
        options += ["--relax", ",".join(result.relaxed)]
    if result.several is not None:
        options += ["--pipelines", str(result.several.most)]
    if result.alternatives:
        options += ["--top", str(1 + len(result.alternatives))]
    if result.stability is not None:
        options += ["--stability"]
    return options


def _schedule(plan: Plan, result: Result) -> list[str]:
    """Return the options that name the schedule or schedules to search."""
    if result.schedules:
        tried = [each for each in result.schedules if each.schedule == INTERLEAVED]
        chunks = ",".join(str(each.chunks) for each in tried)
        return ["--schedule", ANY, "--chunks", chunks]
    launch = result.launch
    if launch is not None and launch.schedule != plan.schedule:
        # The launcher cannot run the problem's own schedule, which is replaced only if
        # no option names one.
        return []
    chunks_too = ["--chunks", str(plan.chunks)] if plan.chunks > 1 else []
    return ["--schedule", plan.schedule, *chunks_too]
