"""The strategies of a cluster as rows of arrays, which the cost model works on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.shapes import Ints, Shape
from hetopt.cost.strategies import strategies
from hetopt.plans.strategy import DEGREES
from hetopt.problem.cluster.packing import packed
from hetopt.problem.meshes import divisors
from hetopt.problem.training.choices import RECOMPUTE_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hetopt.plans.strategy import Strategy
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem

_DEGREES = attrgetter(*DEGREES)


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyRows:
    """Strategies of one cluster over all micro-batch counts; arrays are (R,).

    Attributes
    ----------
    microbatches
        Micro-batch count of the row, q.
    replicas
        dp * cp.
    per_node
        Devices that a stage has in each of its nodes.
    most_stages
        Number of stages for which the nodes have room.
    """

    cluster: Cluster
    strategies: tuple[Strategy, ...]
    microbatches: Ints
    shape: Shape
    dp: Ints
    replicas: Ints
    per_node: Ints
    most_stages: Ints

    @property
    def policies(self) -> Ints:
        """Index in ``RECOMPUTE_OPTIONS`` of each row's recomputation; (R,)."""
        number = {policy: place for place, policy in enumerate(RECOMPUTE_OPTIONS)}
        return np.array([number[s.recompute] for s in self.strategies], dtype=np.int64)

    def select(self, keep: Ints) -> StrategyRows:
        """Return some of the rows, in the order of ``keep``."""
        return StrategyRows(
            cluster=self.cluster,
            strategies=tuple(map(self.strategies.__getitem__, keep.tolist())),
            microbatches=self.microbatches[keep],
            shape=self.shape.take(keep),
            dp=self.dp[keep],
            replicas=self.replicas[keep],
            per_node=self.per_node[keep],
            most_stages=self.most_stages[keep],
        )


def strategy_rows(problem: Problem, cluster: Cluster) -> StrategyRows:
    """List the strategies of a cluster over all micro-batch counts."""
    batch, counts = problem.training.global_batch, problem.microbatch_counts
    # With q micro-batches, a strategy is possible if its dp divides each one's batch.
    every = strategies(problem, cluster, 1)
    dp = np.array([own.dp for own in every], dtype=np.int64)
    able = [np.flatnonzero(batch % q + batch // q % dp == 0) for q in counts]
    at = np.concatenate([np.zeros(0, dtype=np.int64), *able])
    q = np.repeat(np.array(counts, dtype=np.int64), [len(rows) for rows in able])
    return _rows(problem, cluster, every, at, q, np.full(len(q), batch))


def rows_of_batches(
    problem: Problem, cluster: Cluster, batches: Iterable[int]
) -> StrategyRows:
    """List the strategies of a cluster with each batch in a single micro-batch.

    Parameters
    ----------
    batches
        Sequences of each batch, at least 1.
    """
    batches = list(batches)
    training = problem.training
    # A batch has the strategies whose dp divides it.
    by_dp: dict[int, list[Strategy]] = {}
    for dp in range(1, min(cluster.devices, max(batches, default=0)) + 1):
        asked = replace(problem, training=replace(training, global_batch=dp))
        found = strategies(asked, cluster, 1)
        by_dp[dp] = [own for own in found if own.dp == dp]
    pairs = [
        (strategy, batch)
        for batch in batches
        for dp in divisors(batch)
        for strategy in by_dp.get(dp, ())
    ]
    every = [strategy for strategy, _ in pairs]
    each = np.array([batch for _, batch in pairs], dtype=np.int64)
    at = np.arange(len(every))
    return _rows(problem, cluster, every, at, np.ones_like(each), each)


def _rows(
    problem: Problem,
    cluster: Cluster,
    every: Sequence[Strategy],
    at: Ints,
    q: Ints,
    batch: Ints,
) -> StrategyRows:
    """Return rows: strategies ``every[at]``, micro-batch counts and batches; (R,)."""
    degrees = np.array([_DEGREES(own) for own in every], dtype=np.int64)
    degrees = degrees.reshape(len(every), len(DEGREES))
    known = {
        pair: packed(cluster, *pair)
        for pair in {(own.devices, own.inside) for own in every}
    }
    pairs = np.array([known[own.devices, own.inside] for own in every], dtype=np.int64)
    dp, cp, tp, ep, etp = degrees[at].T
    per_node, most_stages = pairs.reshape(len(every), 2)[at].T
    return StrategyRows(
        cluster=cluster,
        strategies=tuple(map(every.__getitem__, at.tolist())),
        microbatches=q,
        shape=Shape(
            microbatch=batch // (q * dp),
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
