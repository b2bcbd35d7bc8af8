"""Makes a solver's request from the options of ``hetopt plan``."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hetopt.base import interruption
from hetopt.base.deadline import Deadline
from hetopt.cli.clock import left_s
from hetopt.cli.inputs import workers
from hetopt.solvers.params import DfsParams, MctsParams, RaceParams
from hetopt.solvers.registry import solver
from hetopt.solvers.request import Request

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles
    from hetopt.solvers.progress import Progress


@contextmanager
def searching(
    problem: Problem,
    table: CostTable,
    options: argparse.Namespace,
    principles: Principles,
) -> Iterator[Request]:
    """Yield a solver's request, and show the progress of the search.

    From here on a signal ends only the search; what follows it is completed.
    """
    from hetopt.report.progress import ProgressBar

    interruption.hold()
    with ProgressBar(sys.stderr) as bar:
        yield Request(
            problem=problem,
            table=table,
            params=_params(options, principles, bar.update),
            deadline=Deadline.after(left_s(options.time_limit)),
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
