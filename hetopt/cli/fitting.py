"""Checks, before the search, that the options of ``hetopt plan`` fit each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.export.registry import limits_of
from hetopt.results.per_schedule import BEST
from hetopt.solvers.refusals import ensure_races, ensure_samples
from hetopt.solvers.registry import solver

if TYPE_CHECKING:
    import argparse

    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles
    from hetopt.results.spending import Spending


def fit(options: argparse.Namespace, principles: Principles) -> None:
    """Raise InputError, before the search, if options do not fit each other."""
    for flag, given in (
        ("--certificate", options.certificate is not None),
        ("--journal", options.journal is not None),
        ("--executor", options.executor != "process"),
    ):
        if given:
            ensure_races(options.solver, flag)
    for flag, given in (
        ("--iterations", options.iterations is not None),
        ("--exploration", options.exploration is not None),
    ):
        if given:
            ensure_samples(options.solver, flag)
    if options.cost is not None and options.solver != "dfs":
        msg = f"solver {options.solver} minimises the closed form: this is for dfs"
        raise InputError(msg, field="--cost")
    if options.launcher is not None:
        _fit_launcher(options, principles)
    if options.schedule == BEST:
        _fit_best(options)
    if options.stability:
        _fit_stability(options)
    if options.svg is not None and not options.pareto:
        msg = "draws the front: use it with --pareto, or see `hetopt simulate --svg`"
        raise InputError(msg, field="--svg")


def _fit_best(options: argparse.Namespace) -> None:
    """Raise InputError for options that cannot be used with ``--schedule best``."""
    from hetopt.planning.refusals import ensure_best

    given = {
        "--blocking": options.blocking is not None,
        "--budget": options.budget is not None,
        "--certificate": options.certificate is not None,
        "--journal": options.journal is not None,
        "--objective cost": options.objective == "cost",
        "--pareto": options.pareto,
        "--pipelines": options.pipelines > 1,
        "--stability": options.stability,
        "--table": options.table is not None,
        "--top": options.top > 1,
    }
    ensure_best(options.solver, given)


def _fit_stability(options: argparse.Namespace) -> None:
    """Raise InputError for options that cannot be used with ``--stability``."""
    ensure_races(options.solver, "--stability")
    for flag, given in (
        ("--for", options.launcher is not None),
        ("--pareto", options.pareto),
        ("--budget", options.budget is not None),
        ("--objective cost", options.objective == "cost"),
        # With changed links or memory the given table is no longer valid.
        ("--table", options.table is not None),
    ):
        if given:
            raise InputError(
                "cannot be combined with --stability: leave it out", field=flag
            )


def fit_spending(options: argparse.Namespace) -> Spending | None:
    """Return how prices are used; None if no option asks for them.

    Raises
    ------
    InputError
        Other options cannot be used with prices.
    """
    from hetopt.planning.refusals import ensure_spends
    from hetopt.results.spending import spending_of

    flags = {
        "--objective cost": options.objective == "cost",
        "--budget": options.budget is not None,
        "--pareto": options.pareto,
    }
    asked = next((flag for flag, given in flags.items() if given), None)
    if options.pareto and options.objective == "cost":
        msg = "is one point of what --pareto finds: leave one of both out"
        raise InputError(msg, field="--objective cost")
    spending = spending_of(
        "cost" if options.pareto else options.objective,
        options.budget,
        options.min_tokens_per_s,
        field="--min-tokens-per-s",
    )
    if asked is None:
        return None
    ensure_spends(options.solver, asked, top=options.top, field="--top")
    for flag, given in (
        ("--certificate", options.certificate is not None),
        ("--journal", options.journal is not None),
        ("--for", options.launcher is not None),
    ):
        if given:
            msg = (
                f"applies to one set of nodes, but {asked} considers all: leave it "
                "out, or plan the problem again with the nodes that are found"
            )
            raise InputError(msg, field=flag)
    return spending


def fit_pipelines(
    options: argparse.Namespace, problem: Problem, principles: Principles
) -> None:
    """Raise InputError if ``--pipelines`` does not fit the problem or other options."""
    from hetopt.solvers.several.possible import ensure_several

    lengths = problem.training.lengths is not None
    if options.pipelines == 1 and not lengths:
        return
    given = {
        "--budget": options.budget is not None,
        "--certificate": options.certificate is not None,
        "--for": options.launcher is not None,
        "--journal": options.journal is not None,
        "--objective": options.objective not in (None, "closed"),
        "--pareto": options.pareto,
        "--stability": options.stability,
        "--table": options.table is not None,
        "--top": options.top > 1,
    }
    if lengths:
        from hetopt.solvers.lengths.outcome import ensure_lengths

        given |= {"--relax": bool(options.relax)}
        ensure_lengths(problem, options.solver, options.pipelines, given)
        return
    ensure_several(problem, options.solver, options.pipelines, given, principles)


def _fit_launcher(options: argparse.Namespace, principles: Principles) -> None:
    """Raise InputError for options that cannot be used with ``--for``."""
    limits_of(options.launcher)
    if not solver(options.solver).races:
        msg = f"solver {options.solver} proves nothing about launchers' plans: use dp"
        raise InputError(msg, field="--solver")
    for flag, given in (
        ("--relax", bool(principles.relaxed)),
        ("--objective", options.objective not in (None, "closed")),
        ("--certificate", options.certificate is not None),
        ("--journal", options.journal is not None),
        # A table has the cheapest resharding, which the launcher may not support.
        ("--table", options.table is not None),
    ):
        if given:
            raise InputError("cannot be combined with --for: leave it out", field=flag)
