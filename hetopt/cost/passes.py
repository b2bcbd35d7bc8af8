"""Seconds of a unit's forward and backward pass: compute and exposed communication."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.communication.within_stage import (
    exposed_dispatch_s,
    exposed_ring_s,
    overlapped_s,
    stage_communication,
)
from hetopt.cost.recompute import Once, repeated_s
from hetopt.cost.shapes import Floats, Ints, distinct_rows
from hetopt.cost.sources.source import LatencySource, ShardQuery, ShardTimes
from hetopt.problem.training.choices import RECOMPUTE_OPTIONS

if TYPE_CHECKING:
    from hetopt.cost.rows import StrategyRows
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.training import Training


def hidden_share(training: Training, microbatches: Ints, ep: Ints) -> Floats:
    """Return the share of expert dispatches that another micro-batch hides; (R,).

    With ep = 1 there is no all-to-all to hide, and no runtime hides the gathers of
    ranks that share experts.

    Of q micro-batches, the first one's forward pass and the last one's backward pass
    have no other pass to overlap with.
    """
    share: Floats = training.moe.overlap * (1 - 1 / microbatches) * (ep > 1)
    return share


def shard_times(
    problem: Problem, rows: StrategyRows, kinds: tuple[str, ...], source: LatencySource
) -> tuple[ShardTimes, Ints]:
    """Return the times of every shard, and the shard that each row computes; (R,)."""
    # Rows that differ only in q, dp or recomputation compute the same shard.
    first, where = distinct_rows(rows.shape.columns)
    times = source.shard_times(
        ShardQuery(
            model=problem.model,
            training=problem.training,
            cluster=rows.cluster,
            kinds=kinds,
            shape=rows.shape.take(first),
        )
    )
    return times, where


def passes_s(
    problem: Problem,
    rows: StrategyRows,
    kinds: tuple[str, ...],
    times: ShardTimes,
    where: Ints,
    hidden: Floats,
) -> tuple[Floats, Floats]:
    """Return the forward and backward seconds per unit and micro-batch; (R, N).

    Parameters
    ----------
    where
        The shard of ``times`` that each row computes; (R,).
    hidden
        Share of expert dispatches that another micro-batch hides; (R,). Those that full
        recomputation repeats are not hidden.
    """
    alike = [where, rows.policies, rows.per_node, hidden]
    if problem.training.zero >= 2:
        # Every micro-batch's gradients are scattered over the replicas.
        alike.append(rows.replicas)
    first, place = distinct_rows(alike)
    found = _passes_s(
        problem, rows.select(first), kinds, times, where[first], hidden[first]
    )
    return found[0][place], found[1][place]


def _passes_s(
    problem: Problem,
    rows: StrategyRows,
    kinds: tuple[str, ...],
    times: ShardTimes,
    where: Ints,
    hidden: Floats,
) -> tuple[Floats, Floats]:
    """Return ``passes_s`` without merging equal rows."""
    model, training, shape = problem.model, problem.training, rows.shape
    policies = rows.policies
    used = [(policies == n, RECOMPUTE_OPTIONS[n]) for n in np.unique(policies)]
    forward, backward = [], []
    for number, kind in enumerate(kinds):
        computed = times.forward_s[where, number]
        computed_back = times.backward_s[where, number]
        core = times.attention_core_s[where, number]
        core_backward = times.attention_core_backward_s[where, number]
        moved = stage_communication(
            model, training, rows.cluster, kind, shape, rows.replicas, rows.per_node
        )
        dispatch_s = moved.dispatch_s / times.dispatch
        ring = exposed_ring_s(moved.ring_s, core, shape.cp)
        ring_backward = exposed_ring_s(moved.ring_backward_s, core_backward, shape.cp)
        alone = ~times.communicates[where, number]
        sent_s = alone * moved.forward_s / times.tensor
        # Multiplications take as long as gradients of weights, which have their FLOPs.
        products = times.weight_s[where, number]
        unit = model, training, kind, shape, rows.cluster.accelerator
        once_s = Once(*unit, computed, core, products, sent_s, dispatch_s, ring)
        repeated = busy_again = np.zeros(len(computed))
        for rows_of, option in used:
            added, busy_s = repeated_s(option, once_s)
            repeated = np.where(rows_of, added, repeated)
            busy_again = np.where(rows_of, busy_s, busy_again)
        dispatch, dispatch_back = (
            exposed_dispatch_s(dispatch_s, each, hidden)
            for each in (computed, computed_back)
        )
        once = computed + (sent_s + dispatch) + ring
        returned_s = alone * moved.backward_s / times.tensor + dispatch_back
        back = computed_back + returned_s + ring_backward
        gather_s = moved.gather_s / times.sharding
        scatter_s = gather_s + moved.scatter_s / times.sharding
        if times.sharding_beside:
            busy = computed_back + busy_again
            gather_s = overlapped_s(computed, gather_s) - computed
            scatter_s = overlapped_s(busy, scatter_s) - busy
        forward.append(once + gather_s)
        backward.append(back + repeated + scatter_s)
    return np.stack(forward, axis=1), np.stack(backward, axis=1)
