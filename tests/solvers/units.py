"""One small problem whose units may have strategies of their own."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hetopt.cost.build import build_table
from hetopt.problem.catalogue import problem_files
from hetopt.problem.reading import read_problem
from hetopt.problem.training.pins import Domain, Pins
from hetopt.solvers.request import Request
from hetopt.solvers.uniap.solver import solve

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result

#: So little that units of one stage differ in their strategies.
TIGHT_BYTES = 1_250_000_000


@lru_cache(maxsize=1)
def problem() -> Problem:
    """Return six layers of BERT-Huge on EnvB, short of memory."""
    bert = read_problem(str(problem_files()["uniap-bert-huge"]))
    cluster = replace(
        bert.clusters[0],
        memory_bytes=TIGHT_BYTES,
        overhead_bytes=TIGHT_BYTES * 6 // 100,
    )
    return replace(
        bert,
        model=replace(bert.model, layers=6),
        clusters=(cluster,),
        training=replace(bert.training, global_batch=8),
        pins=Pins(microbatches=Domain(allowed=frozenset({2, 4}))),
    )


@lru_cache(maxsize=1)
def table() -> CostTable:
    """Return its table."""
    return build_table(problem())


def solved(of: Problem | None = None, **options: Any) -> Result:
    """Plan the problem, or another one."""
    if of is None and not options:
        return _solved()
    costs = table() if of is None else build_table(of)
    return solve(Request(problem=of or problem(), table=costs, **options))


@lru_cache(maxsize=1)
def _solved() -> Result:
    return solve(Request(problem=problem(), table=table()))
