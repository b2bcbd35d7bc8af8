"""The part of the latency table for plans with one strategy per unit.

A unit's strategy is (dp, tp) of its stage's devices, with replicated states (ZeRO-0,
DDP) or fully sharded ones (ZeRO-3, FSDP), and a recomputation policy that the problem
permits; the problem's own ZeRO stage is ignored. Sharding within groups of replicas
(dp x fsdp) and context parallelism are not supported.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.boundaries.resharding import stage_per_node
from hetopt.cost.boundaries.slices import boundary_bytes, table_slices
from hetopt.cost.communication.collectives import all_gather_s
from hetopt.cost.ranges import nanoseconds
from hetopt.cost.table.cluster import ClusterTable
from hetopt.cost.table.slice import TableSlice
from hetopt.cost.table.table import UnitTable
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetopt.cost.shapes import Ints
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import Resharding

#: Supported ZeRO stages: replicated and fully sharded states.
SHARDINGS = (0, 3)


def has_unit_table(problem: Problem) -> bool:
    """Whether a solver with one strategy per unit can plan this problem."""
    rule = rule_of(problem.training.schedule)
    return len(problem.clusters) == 1 and rule.all_first


def unit_table(
    problem: Problem,
    tables: Mapping[int, Mapping[int, ClusterTable]],
    permitted: tuple[Resharding, ...],
) -> UnitTable:
    """Join the strategies of all shardings, and add the costs of tensors between units.

    Parameters
    ----------
    tables
        Coefficients of the only cluster by ZeRO stage and micro-batch count.
    permitted
        Resharding strategies that a boundary may use.
    """
    edges = problem.model.edges
    tensors = tuple(dict.fromkeys(tensor for _, _, tensor in edges))
    joined = {
        q: _joined(problem, {zero: tables[zero][q] for zero in SHARDINGS})
        for q in problem.microbatch_counts
    }
    able = {q: [table] for q, table in joined.items() if table.strategies}
    slices = [
        replace(part, within_ns=_within_ns(problem, part, tensors))
        for part in table_slices(problem, able, tensors, permitted)
    ]
    return UnitTable(
        tensors=tensors,
        edges=tuple((u, v, tensors.index(tensor)) for u, v, tensor in edges),
        slices=tuple(slices),
    )


def _joined(problem: Problem, tables: Mapping[int, ClusterTable]) -> ClusterTable:
    """Return the supported strategies of all shardings as one table."""
    devices = problem.clusters[0].devices
    parts = []
    for zero, table in tables.items():
        keep = [
            row
            for row, strategy in enumerate(table.strategies)
            if devices % strategy.devices == 0
            and strategy.cp == 1
            and (zero == 0 or strategy.dp > 1)
        ]
        parts.append(_select(table, keep, zero))
    columns = [part.columns() for part in parts]
    return ClusterTable(
        strategies=tuple(strategy for part in parts for strategy in part.strategies),
        **{
            name: np.concatenate([column[name] for column in columns])
            for name in columns[0]
        },
    )


def _select(table: ClusterTable, keep: Sequence[int], zero: int) -> ClusterTable:
    rows = np.array(keep, dtype=np.int64)
    return ClusterTable(
        strategies=tuple(replace(table.strategies[row], zero=zero) for row in keep),
        **{name: column[rows] for name, column in table.columns().items()},
    )


def _within_ns(problem: Problem, part: TableSlice, tensors: tuple[str, ...]) -> Ints:
    """Return the time to change from one layout to another on the same devices.

    Ranks whose pieces overlap exchange their shares in an all-to-all, in which a rank
    moves as much as in an all-gather of one share. Layouts on different numbers of
    devices are never combined; their entries are 0.
    """
    cluster = problem.clusters[0]
    dp = np.array([layout.dp for layout in part.layouts], dtype=np.int64)
    shards = np.array([layout.shards for layout in part.layouts], dtype=np.int64)
    devices = dp * shards
    first, second = shards[:, None], shards[None, :]
    common = np.gcd(first, second)
    size = np.lcm(first, second) // common
    per_node = stage_per_node(cluster, devices)[:, None]
    within = []
    for tensor in tensors:
        total = boundary_bytes(problem, part.microbatches, tensor, within=True)
        share = np.broadcast_to(total / devices[:, None], size.shape)
        seconds = all_gather_s(cluster, size, common, per_node, share)
        meet = devices[:, None] == devices[None, :]
        within.append(np.where(meet, nanoseconds(seconds), 0))
    return np.stack(within)
