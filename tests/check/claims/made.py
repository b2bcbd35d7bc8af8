"""Results and fronts of one small problem, for every nesting of branchings."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from hetopt.base.deadline import Deadline
from hetopt.cost.build import build_table
from hetopt.planning.posed import search, tree_of
from hetopt.problem.reading import read_problem_text
from hetopt.results.spending import Spending
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from hetopt.solvers.search.branchings.runnable import Launchable
from hetopt.solvers.search.branchings.schedules import ScheduleVariant
from hetopt.solvers.search.over import Over

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.results.claims import Measure
    from hetopt.results.result import Objective

PROBLEM = read_problem_text(
    """\
model: {layers: 4, hidden: 512, heads: 4, ffn: 2048, vocab: 32000}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 2, price_per_hour: 6,
     inter_node: {bandwidth: 100 Gbps}}
  - {name: b, accelerator: A40, nodes: 2, devices_per_node: 1, price_per_hour: 1,
     inter_node: {bandwidth: 100 Gbps}}
links: {default: {bandwidth: 10 Gbps, latency: 1 ms}}
training: {global_batch: 4, seq_len: 1024, precision: fp16, schedule: 1f1b}
"""
)
#: Its best plan has two pipelines, with two nodes and with one.
SHARED_TEXT = """\
model: {layers: 4, hidden: 1024, heads: 8, ffn: 4096, vocab: 4000}
clusters:
  - {name: a, accelerator: A100-40GB, nodes: 3, devices_per_node: 1, price_per_hour: 2,
     inter_node: {bandwidth: 100 Gbps}}
training: {global_batch: 8, seq_len: 8192, schedule: 1f1b}
"""
SHARED = read_problem_text(SHARED_TEXT)
#: The problem's own schedule, one with chunks, one whose chunks do not divide the
#: model.
VARIANTS = (
    ScheduleVariant(schedule="1f1b"),
    ScheduleVariant(schedule="gpipe"),
    ScheduleVariant(schedule="interleaved-1f1b", chunks=2),
    ScheduleVariant(schedule="interleaved-1f1b", chunks=3),
)
#: Runs every plan of a single pipeline, but no gpipe.
LAUNCHER = Launchable(
    name="tractor",
    broken=lambda *_: None,
    split=lambda problem, table, rule: [(problem, table)],
    passed_over=lambda each: "no" if each.schedule == "gpipe" else None,
)


def over_of(nesting: str, measure: Measure = "time", **limits: float) -> Over:
    """Return what to branch over.

    Parameters
    ----------
    nesting
        Of ``f``leets, ``s``chedules, ``d``ivisions and a ``l``auncher.
    """
    return Over(
        spending=Spending(**limits) if "f" in nesting else None,
        measure=measure,
        schedules=VARIANTS if "s" in nesting else (),
        pipelines=2 if "d" in nesting else 1,
        launcher=LAUNCHER if "l" in nesting else None,
    )


def request(problem: Problem = PROBLEM, **params: Any) -> Request:
    """Return what asks for plans of a problem."""
    return Request(
        problem=problem,
        table=build_table(problem),
        params=RaceParams(jobs=1, **params),
    )


@cache
def _made(
    over: Over,
    objective: Objective,
    top: int,
    limit_s: float | None,
    *,
    shared: bool,
) -> tuple[Problem, CostTable, dict[str, Any]]:
    problem = SHARED if shared else PROBLEM
    asked = replace(request(problem, top=top), deadline=Deadline.after(limit_s))
    if over.measure == "front":
        tree = tree_of(asked, solver="dp", objective=objective, over=over)
        return problem, asked.table, tree.front().to_json()
    found = search(asked, solver="dp", objective=objective, over=over)
    return found.problem or problem, found.table or asked.table, found.to_json()


def made(
    over: Over,
    objective: Objective = "closed",
    *,
    shared: bool = False,
    top: int = 1,
    limit_s: float | None = None,
) -> tuple[Problem, CostTable, dict[str, Any]]:
    """Return what was found, as JSON to forge, with its problem and table."""
    problem, table, data = _made(over, objective, top, limit_s, shared=shared)
    return problem, table, deepcopy(data)
