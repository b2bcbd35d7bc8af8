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
    from collections.abc import Callable, Iterable, Iterator

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.problem.training.principles import Principles
    from hetopt.results.result import Objective
    from hetopt.solvers.progress import Progress


@contextmanager
def searching(
    problem: Problem,
    table: CostTable,
    options: argparse.Namespace,
    principles: Principles,
    objective: Objective,
    schedules: Iterable[ScheduleName] = (),
) -> Iterator[Request]:
    """Yield a solver's request, and show the progress of the search.

    What the search needs is compiled first, before its clock starts. From then on a
    signal ends only the search; what follows it is completed.

    Parameters
    ----------
    objective
        What is minimised.
    schedules
        Schedules that are searched beside the problem's own.
    """
    from hetopt.report.progress import ProgressBar

    kernels = kernels_for(
        options.solver,
        objective=objective,
        schedules=(problem.training.schedule, *schedules),
        limited=options.time_limit is not None,
    )
    prepare(kernels, options.jobs)
    interruption.hold()
    with ProgressBar(sys.stderr) as bar:
        yield Request(
            problem=problem,
            table=table,
            params=_params(options, principles, bar.update),
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
