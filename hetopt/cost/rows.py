"""The strategies of a cluster as rows of arrays, which the cost model works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.shapes import Ints, Shape
from hetopt.cost.strategies import strategies
from hetopt.plans import DEGREES
from hetopt.problem.packing import packed

if TYPE_CHECKING:
    from hetopt.plans import Strategy
    from hetopt.problem.cluster import Cluster
    from hetopt.problem.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyRows:
    """Feasible strategies of one cluster over all micro-batch counts; R rows.

    Arrays are (R,) or (R, N).

    Attributes
    ----------
    microbatches
        The count that a row belongs to.
    per_node
        Devices that a stage has in each of its nodes.
    most_stages
        That the nodes have room for.
    """

    cluster: Cluster
    strategies: tuple[Strategy, ...]
    microbatches: Ints
    shape: Shape
    dp: Ints
    replicas: Ints
    per_node: Ints
    most_stages: Ints

    def select(self, keep: Ints) -> StrategyRows:
        """Return some of the rows, in the order of ``keep``."""
        return StrategyRows(
            cluster=self.cluster,
            strategies=tuple(self.strategies[row] for row in keep),
            microbatches=self.microbatches[keep],
            shape=self.shape.take(keep),
            dp=self.dp[keep],
            replicas=self.replicas[keep],
            per_node=self.per_node[keep],
            most_stages=self.most_stages[keep],
        )


def strategy_rows(problem: Problem, cluster: Cluster) -> StrategyRows:
    """List the strategies of a cluster over all micro-batch counts."""
    found = [
        (q, strategy)
        for q in problem.microbatch_counts
        for strategy in strategies(problem, cluster, q)
    ]
    batch = problem.training.global_batch
    numbers = np.array(
        [
            (
                q,
                batch // (q * strategy.dp),
                *(getattr(strategy, degree) for degree in DEGREES),
            )
            for q, strategy in found
        ],
        dtype=np.int64,
    ).reshape(len(found), 2 + len(DEGREES))
    q, microbatch, dp, cp, tp, ep, etp = numbers.T
    pairs = [packed(cluster, own.devices, own.inside) for _, own in found]
    per_node, most_stages = np.array(pairs, dtype=np.int64).reshape(len(found), 2).T
    return StrategyRows(
        cluster=cluster,
        strategies=tuple(strategy for _, strategy in found),
        microbatches=q,
        shape=Shape(
            microbatch=microbatch,
            cp=cp,
            tp=tp,
            ep=ep,
            etp=etp,
            sequence_parallel=problem.training.sequence_parallel,
        ),
        dp=dp,
        replicas=dp * cp,
        per_node=per_node,
        most_stages=most_stages,
    )
