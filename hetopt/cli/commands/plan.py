"""Find the best plan, with proof of how good it is."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hetopt.cli.again import repeat
from hetopt.cli.asking import naming, plan_asked
from hetopt.cli.exit_codes import NO_PLAN, STOPPED
from hetopt.cli.flags import OF_PLAN
from hetopt.cli.output import complain, emit, json_text, report, told
from hetopt.cli.paths import ensure_files, holds_plan
from hetopt.cli.reported import plan_text
from hetopt.cli.searching import searching
from hetopt.cli.warned import note, warn
from hetopt.errors import InputError
from hetopt.export.registry import launcher

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from hetopt.base.deadline import Deadline
    from hetopt.cost.table.table import CostTable
    from hetopt.planning.posed import Posed
    from hetopt.problem.problem import Problem
    from hetopt.results.front import Front
    from hetopt.results.result import Result
    from hetopt.solvers.search.search import TreeSearch

#: Exit code by status; a status with a plan is 0.
EXIT_CODES = {"optimal": 0, "feasible": 0, "infeasible": 1, "unknown": 3}


#: What this command takes.
TAKES = OF_PLAN
#: Share of a time limit for the plan, if the rest is for how sure it is.
_SEARCH_SHARE = 0.75


def run(options: argparse.Namespace) -> int:
    """Search, check the result, and report it."""
    from hetopt.planning.posed import Posed, ensure_holds

    repeat(options)
    ensure_files(options, plans=True)
    asked = plan_asked(options)
    with naming(options):
        posed = Posed.of(asked)
    if asked.measure == "front":
        return _run_front(posed, options)
    with searching(posed) as request:
        deadline = request.deadline
        if options.stability and deadline.limit_s is not None:
            part = deadline.within(_SEARCH_SHARE * deadline.limit_s)
            request = replace(request, deadline=part)
        tree = posed.tree(request)
        result = posed.found_by(tree)
    ensure_holds(posed.problem, posed.table, result)
    if options.stability:
        result = _moved(posed, result, deadline)
    problem, table = result.problem or posed.problem, result.table or posed.table
    return _conclude(problem, table, result, tree, asked.target, options)


def _run_front(posed: Posed, options: argparse.Namespace) -> int:
    """Find the front, check it, and report it; return the exit code."""
    from hetopt.planning.posed import ensure_front_holds

    with searching(posed) as request:
        front = posed.tree(request).front()
    front = replace(front, asked=posed.asked.to_json())
    ensure_front_holds(posed.problem, posed.table, front)
    _report_front(posed.problem, front, options)
    if front.journal_failure is not None:
        raise front.journal_failure
    if front.points:
        return 0
    complain(front.reason)
    return NO_PLAN if front.status == "infeasible" else STOPPED


def _report_front(problem: Problem, front: Front, options: argparse.Namespace) -> None:
    from hetopt.base.files import write_bytes
    from hetopt.base.words import command_line
    from hetopt.report.front.table import front_report

    command = command_line(["hetopt", "plan", options.problem, "--budget"])
    step = f"next: {command} with the price an hour of one of these plans"
    parts = front_report(front, step, verbose=options.verbose)
    report(front.to_json(), parts, as_json=options.json, out=options.out)
    if options.svg is not None:
        from hetopt.report.drawing import plots
        from hetopt.report.front.plot import front_figure

        write_bytes(options.svg, plots.svg(front_figure(front, problem.name)))


def _conclude(
    problem: Problem,
    table: CostTable,
    result: Result,
    tree: TreeSearch,
    target: str | None,
    options: argparse.Namespace,
) -> int:
    """Report the result, of plans for a launcher if any; return the exit code."""
    failures = list(_deliver(problem, table, result, tree, options))
    warn(problem, options.problem, table, result, own_table=options.table is not None)
    if target is not None and result.best is not None:
        note(problem, [result.best.plan], launcher(target))
    if result.best is None:
        from hetopt.report.summary import headline

        complain(headline(result))
    if failures:
        complain(*(str(error) for error in failures[:-1]))
        raise failures[-1]
    return EXIT_CODES[result.status]


def _deliver(
    problem: Problem,
    table: CostTable,
    result: Result,
    tree: TreeSearch,
    options: argparse.Namespace,
) -> Iterator[InputError]:
    """Print and write as much as possible; yield the errors.

    Printing comes first, so that a plan that took hours is not lost to a full disk.
    """
    text = json_text(result.to_json())

    def show() -> None:
        if options.json:
            emit(text)
        elif result.best is not None:
            emit(plan_text(problem, table, result, options))

    def certificate() -> str:
        from hetopt.solvers.certificate.tree import certificate_of

        return certificate_of(tree, problem, table, result)

    acts = (
        show,
        partial(_write, result, options.out, lambda: text + "\n"),
        partial(_write, result, options.certificate, certificate),
    )
    for act in acts:
        try:
            act()
        except InputError as error:
            yield error
    if result.journal_failure is not None:
        yield result.journal_failure


def _write(result: Result, path: str | None, text: Callable[[], str]) -> None:
    """Write a file, unless that replaces a plan by a result without one."""
    from hetopt.base.files import write_text

    if path is None:
        return
    if result.best is None and holds_plan(path):
        complain(f"{path}: kept: it holds a plan, and this search ended without one")
        return
    write_text(path, text())


def _moved(posed: Posed, result: Result, deadline: Deadline) -> Result:
    """Return the result with how far coefficients may change, in the time left."""
    from hetopt.whatif.stability import Stability

    if result.best is None:
        return result
    with searching(posed) as request:
        own = replace(request, deadline=deadline)
        stability = Stability(posed, own, result.best.plan)
    crossings = tuple(stability.crossings(told()))
    return replace(
        result,
        stability=crossings,
        interrupted=result.interrupted or stability.interrupted,
    )
