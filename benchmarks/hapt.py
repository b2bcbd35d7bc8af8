"""HAPT's two ablations on GPT-39B, with proven plans (HAPT, sections 6.4 and 6.5).

Run with ``python -m benchmarks.hapt``; prints Markdown.

*Granularity*: pipelines cut between groups of 6 or 3 transformer layers (8 and 16
units, as Alpa cuts), between layers (48, as HexiScale does) and between the three
blocks of each layer (146 units with the ends). A group costs the sum of its layers, so
all plans are of the same model. *Joint optimisation*: planned with the true times of
boundaries, or as if they took no time. In the latter case the schedule's warm-ups
follow from zero times, and the true times are charged afterwards.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.deadline import Deadline
from hetopt.cost.build import build_table
from hetopt.pricing.balance import balance
from hetopt.pricing.price import price
from hetopt.problem.catalogue import problem_files
from hetopt.problem.digest import problem_digest
from hetopt.problem.model.kinds import EMBEDDING, HEAD, LAYER
from hetopt.problem.reading import read_problem
from hetopt.schedule.warmup import warmup_counts
from hetopt.solvers.dp.solver import solve
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result

PROBLEM = "hapt-gpt39b"
#: Transformer layers per unit.
GROUPS = (6, 3, 1)
TIME_LIMIT_S = 600
COLUMNS = "p, q | closed form s | simulated s | balance | boundaries ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A problem at one granularity, with its table."""

    name: str
    problem: Problem
    table: CostTable


def granularities(block: Problem) -> Iterator[Case]:
    """Yield the problem at every granularity, coarsest first."""
    layer = replace(block, model=replace(block.model, granularity="layer"))
    table = build_table(layer)
    for group in GROUPS:
        yield coarsened(layer, table, group)
    count = len(block.model.units)
    yield Case(name=f"{count} units", problem=block, table=build_table(block))


def coarsened(problem: Problem, table: CostTable, group: int) -> Case:
    """Join ``group`` layers into one unit: times and bytes add up."""
    layers = problem.model.layers // group
    joined = replace(problem, model=replace(problem.model, layers=layers))
    scale = np.array(
        [group if kind not in (EMBEDDING, HEAD) else 1 for kind in table.kinds]
    )

    def join(cluster: ClusterTable) -> ClusterTable:
        names = (
            "forward_ns",
            "backward_ns",
            "state_bytes",
            "activation_bytes",
            "sync_unit_ns",
        )
        return replace(
            cluster, **{name: getattr(cluster, name) * scale for name in names}
        )

    first, last = table.kinds.index(EMBEDDING), table.kinds.index(HEAD)
    body = table.kinds.index(LAYER)
    return Case(
        name=f"{layers} layers",
        problem=joined,
        table=replace(
            table,
            problem_digest=problem_digest(joined),
            units=(first, *(body,) * layers, last),
            cuts=(table.cuts[0],) * (layers + 1),
            slices=tuple(
                replace(part, clusters=tuple(map(join, part.clusters)))
                for part in table.slices
            ),
        ),
    )


def deaf(case: Case) -> CostTable:
    """Return the table with zero times for all boundaries."""
    return replace(
        case.table,
        slices=tuple(
            replace(
                part,
                transfer_ns=np.zeros_like(part.transfer_ns),
                occupancy_ns=np.zeros_like(part.occupancy_ns),
            )
            for part in case.table.slices
        ),
    )


def planned(case: Case, table: CostTable) -> Result:
    """Plan a case with another table."""
    return solve(
        Request(
            problem=case.problem,
            table=table,
            params=RaceParams(jobs=0),
            deadline=Deadline.after(TIME_LIMIT_S),
        )
    )


def rescheduled(plan: Plan, table: CostTable) -> Plan:
    """Return a plan with the warm-ups of its schedule under a table's times."""
    stages = plan.pipeline.stages
    times = price(plan, table).times
    counts = warmup_counts(
        plan.schedule,
        microbatches=plan.pipeline.microbatches,
        crosses=[here.cluster != after.cluster for here, after in pairwise(stages)],
        round_trip_ns=times.round_trip_ns,
        transfer_ns=times.transfer_ns,
        epsilon=plan.warmup_epsilon,
    )
    pipeline = replace(
        plan.pipeline,
        stages=tuple(
            replace(stage, warmup=count)
            for stage, count in zip(stages, counts, strict=True)
        ),
    )
    return replace(plan, pipelines=(pipeline,))


def line(name: str, plan: Plan, case: Case, *more: str) -> str:
    """Return a row of a table."""
    priced = price(plan, case.table)
    crossing = sum(priced.times.transfer_ns) / 1e6
    cells = (
        name,
        f"{len(plan.pipeline.stages)}, {plan.pipeline.microbatches}",
        f"{priced.closed_form_s:.3f}",
        f"{priced.iteration_time_s:.3f}",
        f"{balance(case.problem, plan, priced):.1%}",
        f"{crossing:.1f}",
        *more,
    )
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Print both tables."""
    block = read_problem(str(problem_files()[PROBLEM]))
    print(f"| granularity | {COLUMNS} | status | search s |\n|{'---|' * 8}")
    cases = list(granularities(block))
    for case in cases:
        began = time.perf_counter()
        result = planned(case, case.table)
        spent = time.perf_counter() - began
        if result.best is None:
            print(f"| {case.name} | {result.status} |" + " |" * 6)
            continue
        print(
            line(case.name, result.best.plan, case, result.status, f"{spent:.1f}"),
            flush=True,
        )
    finest = cases[-1]
    print(f"\n| planned with | {COLUMNS} | fits |\n|{'---|' * 7}")
    for name, table in (
        ("boundaries of no time", deaf(finest)),
        ("boundaries as they are", finest.table),
    ):
        result = planned(finest, table)
        if result.best is None:
            continue
        plan = rescheduled(result.best.plan, finest.table)
        priced = price(plan, finest.table)
        fits = all(
            need <= usable
            for need, usable in zip(
                priced.memory_bytes, priced.usable_bytes, strict=True
            )
        )
        print(line(name, plan, finest, "yes" if fits else "no"), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
