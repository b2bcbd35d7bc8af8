"""How a plan's boundaries use the links between clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.boundaries.resharding import (
    Side,
    link_use,
    outer_degree,
    plan_transfer,
)
from hetopt.cost.correction import with_corrected_links

if TYPE_CHECKING:
    from hetopt.cost.boundaries.resharding import LinkUse
    from hetopt.plans.plan import Stage
    from hetopt.problem.problem import Problem


def boundary_use(problem: Problem, before: Stage, after: Stage) -> LinkUse | None:
    """Return how a boundary uses the link between its clusters; arrays have one entry.

    None inside a cluster, or if there is no link or no resharding strategy.
    """
    problem = with_corrected_links(problem)
    link = problem.links.between(before.cluster, after.cluster)
    if before.cluster == after.cluster or link is None or before.resharding is None:
        return None
    sender, receiver = _side(problem, before), _side(problem, after)
    same = sender.dp == receiver.dp and sender.shards == receiver.shards
    name = "p2p" if same else before.resharding
    transfer = plan_transfer(
        name, sender, receiver, 1.0, outer_degree(sender, receiver)
    )
    return link_use(sender, receiver, link, transfer.pairs)


def _side(problem: Problem, stage: Stage) -> Side:
    (cluster,) = (own for own in problem.clusters if own.name == stage.cluster)
    strategy = stage.strategy
    return Side(
        cluster=cluster,
        dp=np.array([strategy.dp]),
        shards=np.array([strategy.cp * strategy.tp]),
    )
