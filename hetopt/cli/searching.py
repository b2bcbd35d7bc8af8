"""Makes a solver's request from the options of ``hetopt plan``."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hetopt.base import interruption
from hetopt.base.deadline import Deadline
from hetopt.cli.inputs import workers
from hetopt.cli.preparing import prepare
from hetopt.solvers.kernels import kernels_for
from hetopt.solvers.params import DfsParams, MctsParams, RaceParams
from hetopt.solvers.registry import solver
from hetopt.solvers.request import Request

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from hetopt.cost.table.table import CostTable
    from hetopt.planning.asked import Search
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles
    from hetopt.results.result import Objective
    from hetopt.solvers.progress import Progress
    from hetopt.solvers.search.over import Over


@contextmanager
def searching(
    problem: Problem,
    table: CostTable,
    options: argparse.Namespace,
    asked: Search,
    over: Over,
    objective: Objective,
) -> Iterator[Request]:
    """Yield a solver's request, and show the progress of the search.

    What the search needs is compiled first, before its clock starts. From then on a
    signal ends only the search; what follows it is completed.

    Parameters
    ----------
    over
        What is branched over.
    objective
        The time that is minimised.
    """
    from hetopt.report.progress import ProgressBar

    kernels = kernels_for(
        options.solver,
        objective=objective,
        schedules=(
            problem.training.schedule,
            *(each.schedule for each in over.schedules),
        ),
        limited=options.time_limit is not None,
    )
    prepare(kernels, options.jobs)
    interruption.hold()
    with ProgressBar(sys.stderr) as bar:
        yield Request(
            problem=problem,
            table=table,
            params=_params(options, asked.principles, bar.update),
            deadline=Deadline.after(options.time_limit),
            seed=options.seed,
        )


def _params(
    options: argparse.Namespace,
    principles: Principles,
    on_progress: Callable[[Progress], None],
) -> RaceParams:
    here = options.executor == "process"
    shared: dict[str, Any] = {
        "jobs": workers(options.jobs) if here else options.jobs,
        "top": options.top,
        "on_progress": on_progress,
        "principles": principles,
        "journal": options.journal,
        "executor": options.executor,
    }
    if options.solver == "dfs":
        return DfsParams(**shared, cost=options.cost or "closed")
    if solver(options.solver).samples:
        return MctsParams(
            **shared, exploration=options.exploration, iterations=options.iterations
        )
    return RaceParams(**shared)
