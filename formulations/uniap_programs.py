"""The pairs (pp_size, c) that UniAP enumerates for a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cost.layer_costs import LayerCosts
from hetopt.formulations.uniap_choice import UniapProgram

if TYPE_CHECKING:
    from hetopt.cost.source import LatencySource
    from hetopt.problem.problem import Problem


def uniap_programs(
    problem: Problem, source: LatencySource | None = None
) -> tuple[UniapProgram, ...]:
    """Return a program for every pp_size that divides the devices and every c.

    UniAP takes c = 1 with one stage only; here every c goes with every pp_size, as
    one stage may accumulate gradients. Pairs without any strategy are left out.

    Raises
    ------
    InputError
        The problem has more than one cluster.
    """
    costs = LayerCosts(problem, source)
    programs = []
    for stages in problem.stage_counts:
        for microbatches in problem.microbatch_counts:
            graph = costs.graph(stages, microbatches)
            if graph is not None:
                programs.append(
                    UniapProgram(stages=stages, microbatches=microbatches, graph=graph)
                )
    return tuple(programs)
