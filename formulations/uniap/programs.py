"""The pairs (pp_size, c) that UniAP enumerates for a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cost.per_unit.layer_costs import layer_graph, unit_costs
from hetopt.formulations.uniap.choice import UniapProgram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem


def uniap_pairs(problem: Problem) -> Iterator[tuple[int, int]]:
    """Yield every pp_size that divides the devices with every c, as pins permit."""
    cluster = problem.clusters[0]
    own = problem.pins.of(cluster.name).stages
    for stages in problem.stage_counts:
        if cluster.devices % stages == 0 and own.permits(stages):
            for microbatches in problem.microbatch_counts:
                yield stages, microbatches


def uniap_programs(problem: Problem, table: CostTable) -> tuple[UniapProgram, ...]:
    """Return a program for every pp_size that divides the devices and every c.

    UniAP takes c = 1 with one stage only; here every c is combined with every pp_size,
    as one stage may accumulate gradients. Pairs without any strategy are left out.

    Raises
    ------
    InputError
        The problem is not one that UniAP plans.
    """
    unit_costs(table)
    programs = []
    for stages, microbatches in uniap_pairs(problem):
        graph = layer_graph(table, stages, microbatches)
        if graph is not None:
            programs.append(
                UniapProgram(stages=stages, microbatches=microbatches, graph=graph)
            )
    return tuple(programs)
