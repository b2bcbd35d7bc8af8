"""Tiny programs: the plain table with one thing changed, solved on the spot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from ortools.sat.python import cp_model

from hetopt.formulations.chain import Chain
from hetopt.formulations.cp_sat.program import PipelineProgram
from hetopt.formulations.program import ProgramData
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.plans.strategy import Strategy
from hetopt.problem.training.choices import ScheduleName
from hetopt.problem.training.pins import ClusterPins, Domain, Pins
from tests.oracle import plain

if TYPE_CHECKING:
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.decision import Decision

#: More ticks than any plan of a tiny table takes.
ENOUGH = 10**6
ONE = Strategy(dp=1, cp=1, tp=1, recompute="none")
TWO = Strategy(dp=1, cp=1, tp=2, recompute="none")
#: tau of one layer, of the embedding and of the head of the plain table.
LAYER, END = 3000, 300
#: g of the plain table.
SYNC = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """An optimum: what was decided, and the objective in 1 / PERIOD_SCALE ticks."""

    decision: Decision
    value: int


def table(
    *strategies: Strategy, schedule: ScheduleName = "1f1b", **changes: Any
) -> CostTable:
    """The plain table: clusters a of 8 devices and b of 4, six layers."""
    return plain.table(
        plain.problem(training=replace(plain.TRAINING, schedule=schedule)),
        strategies or (ONE,),
        **changes,
    )


def with_cluster(costs: CostTable, j: int, **columns: Any) -> CostTable:
    """The table with columns of cluster j set, at every q, to what broadcasts."""

    def changed(part: TableSlice) -> TableSlice:
        own = part.clusters[j]
        new: dict[str, Any] = {
            name: np.broadcast_to(
                np.asarray(value, dtype=np.int64), getattr(own, name).shape
            ).copy()
            for name, value in columns.items()
        }
        clusters = list(part.clusters)
        clusters[j] = replace(own, **new)
        return replace(part, clusters=tuple(clusters))

    return replace(costs, slices=tuple(changed(part) for part in costs.slices))


def with_slices(costs: CostTable, **arrays: Any) -> CostTable:
    """The table with arrays of all slices set to what broadcasts."""

    def changed(part: TableSlice) -> TableSlice:
        pairs = part.transfer_ns.shape[1:]
        new: dict[str, Any] = {
            name: np.broadcast_to(
                np.asarray(value, dtype=np.int64),
                pairs if name == "tied_ns" else (len(costs.cut_classes), *pairs),
            ).copy()
            for name, value in arrays.items()
        }
        return replace(part, **new)

    return replace(costs, slices=tuple(changed(part) for part in costs.slices))


def data_of(
    costs: CostTable,
    p: int,
    q: int,
    pins: Pins | None = None,
    cutoff: int = ENOUGH * PERIOD_SCALE,
) -> ProgramData:
    return ProgramData.of(
        costs, costs.at(q), Chain.of(costs), pins or Pins(), stages=p, cutoff=cutoff
    )


def program_of(
    costs: CostTable, p: int, q: int, pins: Pins | None = None
) -> PipelineProgram:
    return PipelineProgram(data_of(costs, p, q, pins))


def solver_of() -> cp_model.CpSolver:
    """A solver with the settings that the race uses where they matter."""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    solver.parameters.max_time_in_seconds = 10
    return solver


def optimum(program: PipelineProgram) -> Best | None:
    """Solve to the end; None when there is no plan."""
    solver = solver_of()
    solver.parameters.relative_gap_limit = 0.0
    solver.parameters.absolute_gap_limit = 0.0
    solver.solve(program.model)
    status = solver.status_name()
    if status == "INFEASIBLE":
        return None
    assert status == "OPTIMAL"
    return Best(
        decision=program.extract(solver.value), value=round(solver.objective_value)
    )


def best(costs: CostTable, p: int, q: int, pins: Pins | None = None) -> Best | None:
    return optimum(program_of(costs, p, q, pins))


def plan(costs: CostTable, p: int, q: int, pins: Pins | None = None) -> Best:
    """The optimum of a program that has one."""
    found = best(costs, p, q, pins)
    assert found is not None
    return found


def exactly(value: object) -> Domain:
    return Domain(allowed=frozenset({value}))


def hosting(a: int, b: int, **pins: Any) -> Pins:
    """Pins: so many stages on a and on b."""
    return Pins(
        clusters={
            "a": ClusterPins(stages=exactly(a)),
            "b": ClusterPins(stages=exactly(b)),
        },
        **pins,
    )
