"""Build the latency table of a problem: the one place where costs are evaluated."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.boundaries.resharding import permitted_strategies
from hetopt.cost.boundaries.slices import table_slices
from hetopt.cost.chunks import folded
from hetopt.cost.communication.synchronisation import (
    OPTIMIZER_START_S,
    exposed_s,
    reduction_s,
    update_s,
)
from hetopt.cost.communication.within_stage import (
    exposed_ring_s,
    stage_communication,
)
from hetopt.cost.correction import CorrectedSource, with_corrected_links
from hetopt.cost.held_alike import held_alike
from hetopt.cost.memory import (
    activation_bytes,
    fixed_bytes,
    state_bytes,
    temporary_bytes,
    weight_bytes,
)
from hetopt.cost.model_flops import model_flops
from hetopt.cost.per_unit.unit_table import SHARDINGS, has_unit_table, unit_table
from hetopt.cost.pieces.operations import sum_of
from hetopt.cost.ranges import (
    at_most_half,
    ensure_sums_fit,
    nanoseconds,
    whole_bytes,
)
from hetopt.cost.rows import StrategyRows, strategy_rows
from hetopt.cost.shapes import Floats, Ints
from hetopt.cost.sources.by_cluster import latency_sources
from hetopt.cost.sources.source import LatencySource, ShardQuery, ShardTimes
from hetopt.cost.table import ClusterTable, CostTable
from hetopt.problem.digest import problem_digest
from hetopt.problem.kinds import END_KINDS
from hetopt.problem.training import RECOMPUTE
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.problem.cluster import Cluster
    from hetopt.problem.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class _Memory:
    """Bytes of every row; (R, N), and ``fixed`` (R,).

    ``weight`` is None where the schedule has no gradients of weights apart.
    """

    state: Ints
    activation: Ints
    temporary: Ints
    fixed: Ints
    weight: Ints | None


def build_table(problem: Problem, source: LatencySource | None = None) -> CostTable:
    """Evaluate every coefficient of a problem.

    Parameters
    ----------
    source
        Where compute times come from; if None, what the problem's ``latency`` names.

    Raises
    ------
    InputError
        The pins leave no resharding strategy, a latency source is unknown, or sums of
        coefficients exceed 64 bits.

    Examples
    --------
    >>> import hetopt
    >>> table = hetopt.build_table(hetopt.read_problem("problem.yaml"))
    >>> table.cluster_names, [part.microbatches for part in table.slices]
    (('fast', 'slow'), [1, 2, 4])
    """
    table = coefficients(problem, source)
    ensure_sums_fit(table)
    return table


def coefficients(problem: Problem, source: LatencySource | None = None) -> CostTable:
    """Evaluate every coefficient; see ``build_table``, which limits their sums."""
    source = CorrectedSource(source or latency_sources(problem), problem.calibration)
    digest = problem_digest(problem)
    problem = with_corrected_links(problem)
    model, training = problem.model, problem.training
    kinds = tuple(dict.fromkeys(model.units))
    cut_classes = tuple(dict.fromkeys(model.cuts))
    body = tuple(kind not in END_KINDS for kind in kinds)
    usable = tuple(usable_bytes(problem, cluster) for cluster in problem.clusters)
    permitted = permitted_strategies(problem.pins.resharding)
    per_cluster = [
        _cluster_tables(problem, cluster, kinds, body, limit, source)
        for cluster, limit in zip(problem.clusters, usable, strict=True)
    ]
    by_count = {q: [own[q] for own in per_cluster] for q in problem.microbatch_counts}
    able = {
        q: tables
        for q, tables in by_count.items()
        if any(table.strategies for table in tables)
    }
    slices = table_slices(problem, able, cut_classes, permitted)
    per_unit = None
    if has_unit_table(problem):
        shardings = {
            zero: _cluster_tables(
                replace(problem, training=replace(training, zero=zero)),
                problem.clusters[0],
                kinds,
                body,
                usable[0],
                source,
            )
            for zero in SHARDINGS
        }
        per_unit = unit_table(problem, shardings, permitted)
    table = CostTable(
        problem_digest=digest,
        schedule=training.schedule,
        kinds=kinds,
        cut_classes=cut_classes,
        units=tuple(kinds.index(kind) for kind in model.units),
        cuts=tuple(cut_classes.index(cut) for cut in model.cuts),
        body=body,
        cluster_names=tuple(cluster.name for cluster in problem.clusters),
        cluster_devices=tuple(cluster.devices for cluster in problem.clusters),
        usable_bytes=usable,
        sources=tuple(source.source_kind(cluster) for cluster in problem.clusters),
        slices=tuple(slices),
        tokens=training.global_batch * training.seq_len,
        model_flops=model_flops(model, training),
        peak_flops=tuple(
            cluster.accelerator.peak_flops_of(training.precision, training.emulate)
            for cluster in problem.clusters
        ),
        per_unit=per_unit,
    )
    return folded(table, model, training.chunks)


def usable_bytes(problem: Problem, cluster: Cluster) -> int:
    """Return what the framework may allocate on a device."""
    kept = math.floor(cluster.memory_bytes * (1 - problem.training.reserve))
    return max(kept - cluster.overhead_bytes, 0)


def _cluster_tables(
    problem: Problem,
    cluster: Cluster,
    kinds: tuple[str, ...],
    body: tuple[bool, ...],
    limit_bytes: int,
    source: LatencySource,
) -> dict[int, ClusterTable]:
    """Return a cluster's coefficients by micro-batch count."""
    rows = strategy_rows(problem, cluster)
    memory = _memory(problem, rows, kinds, limit_bytes)
    one_unit = memory.state + memory.activation + memory.temporary
    least = memory.fixed + one_unit[:, list(body)].min(axis=1)
    rows = rows.select(keep := np.flatnonzero(least <= limit_bytes))
    # Rows that differ in q, dp or recomputation alone compute the same shard.
    keys = np.stack(rows.shape.columns, axis=1)
    _, first, where = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    times = source.shard_times(
        ShardQuery(
            model=problem.model,
            training=problem.training,
            cluster=rows.cluster,
            kinds=kinds,
            shape=rows.shape.take(first),
        )
    )
    # numpy 2.0 alone keeps the reduced axis.
    forward_s, backward_s = _passes_s(problem, rows, kinds, times, where.reshape(-1))
    sync_s, sync_unit_s = _sync_s(
        problem, rows, kinds, body, backward_s, times.update_s_per_parameter
    )
    forward, backward = nanoseconds(forward_s), nanoseconds(backward_s)
    weight = None
    if rule_of(problem.training.schedule).splits:
        weight = at_most_half(times.weight_s[where.reshape(-1)], backward)
    sync, sync_unit = nanoseconds(sync_s), nanoseconds(sync_unit_s)
    tables = {}
    for q in problem.microbatch_counts:
        at = np.flatnonzero(rows.microbatches == q)
        part, kept = rows.select(at), keep[at]
        devices = part.dp * part.shape.cp * part.shape.tp
        tables[q] = ClusterTable(
            strategies=part.strategies,
            microbatch=part.shape.microbatch,
            devices=devices,
            max_stages=part.most_stages,
            # Renumbered when the slice's layouts are known.
            layout=np.zeros(len(at), dtype=np.int64),
            forward_ns=forward[at],
            backward_ns=backward[at],
            state_bytes=memory.state[kept],
            activation_bytes=memory.activation[kept],
            temporary_bytes=memory.temporary[kept],
            fixed_bytes=memory.fixed[kept],
            sync_ns=sync[at],
            sync_unit_ns=sync_unit[at],
            weight_ns=None if weight is None else weight[at],
            weight_bytes=None if memory.weight is None else memory.weight[kept],
        )
    return tables


def _memory(
    problem: Problem, rows: StrategyRows, kinds: tuple[str, ...], limit_bytes: int
) -> _Memory:
    """Evaluate the memory of every row on devices with so many bytes."""
    model, training, shape = problem.model, problem.training, rows.shape
    policies = np.array(
        [RECOMPUTE.index(strategy.recompute) for strategy in rows.strategies],
        dtype=np.int64,
    )
    alone = _alone(problem, rows)
    state: list[Floats] = []
    activation: list[Floats] = []
    temporary: list[Floats] = []
    weight: list[Floats] = []
    splits = rule_of(training.schedule).splits
    for kind in kinds:
        state.append(
            state_bytes(model, training, kind, shape, rows.replicas, alone=alone)
        )
        if splits:
            weight.append(weight_bytes(model, training, kind, shape))
        for found, evaluate in (
            (activation, activation_bytes),
            (temporary, temporary_bytes),
        ):
            by_policy = [
                evaluate(model, training, kind, shape, policy) for policy in RECOMPUTE
            ]
            found.append(np.choose(policies, by_policy))
    return _Memory(
        state=whole_bytes(np.stack(state, axis=1), limit_bytes),
        activation=whole_bytes(np.stack(activation, axis=1), limit_bytes),
        temporary=whole_bytes(np.stack(temporary, axis=1), limit_bytes),
        fixed=whole_bytes(fixed_bytes(model, training, shape), limit_bytes),
        weight=(whole_bytes(np.stack(weight, axis=1), limit_bytes) if splits else None),
    )


def _alone(problem: Problem, rows: StrategyRows) -> NDArray[np.bool_]:
    """Return which rows leave no room for a second stage; (R,)."""
    one: NDArray[np.bool_] = rows.most_stages == 1
    return one & (len(problem.clusters) == 1)


def _passes_s(
    problem: Problem,
    rows: StrategyRows,
    kinds: tuple[str, ...],
    times: ShardTimes,
    where: Ints,
) -> tuple[Floats, Floats]:
    """Forward and backward seconds per unit and micro-batch; (R, N).

    Parameters
    ----------
    where
        The shard of ``times`` that each row computes; (R,).
    """
    model, training, shape = problem.model, problem.training, rows.shape
    selective = np.array(
        [s.recompute == "selective" for s in rows.strategies], dtype=np.bool_
    )
    full = np.array([s.recompute == "full" for s in rows.strategies], dtype=np.bool_)
    forward, backward = [], []
    for number, kind in enumerate(kinds):
        computed = times.forward_s[where, number]
        core = times.attention_core_s[where, number]
        core_backward = times.attention_core_backward_s[where, number]
        moved = stage_communication(
            model, training, rows.cluster, kind, shape, rows.replicas, rows.per_node
        )
        ring = exposed_ring_s(moved.ring_s, core, shape.cp)
        ring_backward = exposed_ring_s(moved.ring_backward_s, core_backward, shape.cp)
        alone = not times.communicates[number]
        sent_s = alone * moved.forward_s / times.tensor + moved.dispatch_s
        once = computed + sent_s + ring
        repeated = np.where(full & (kind not in END_KINDS), once, 0.0)
        repeated = np.where(selective, core + np.where(core > 0, ring, 0), repeated)
        returned_s = alone * moved.backward_s / times.tensor + moved.dispatch_s
        back = times.backward_s[where, number] + returned_s + ring_backward
        gather_s = moved.gather_s / times.sharding
        forward.append(once + gather_s)
        backward.append(back + repeated + gather_s + moved.scatter_s / times.sharding)
    return np.stack(forward, axis=1), np.stack(backward, axis=1)


def _sync_s(
    problem: Problem,
    rows: StrategyRows,
    kinds: tuple[str, ...],
    body: tuple[bool, ...],
    backward_s: Floats,
    update_s_per_parameter: float | None,
) -> tuple[Floats, Floats]:
    """Return g as seconds per stage (R,) and per unit (R, N)."""
    training, cluster = problem.training, rows.cluster
    reductions, updates = [], []
    for kind in kinds:
        parts = held_alike(problem.model, kind, rows.shape, rows.replicas)
        reductions.append(
            sum_of(
                reduction_s(training, cluster, part, rows.per_node) for part in parts
            )
        )
        updates.append(
            sum_of(
                update_s(training, cluster, part, rows.per_node, update_s_per_parameter)
                for part in parts
            )
        )
    stage_s, unit_s = exposed_s(
        np.stack(reductions, axis=1),
        backward_s,
        body,
        overlap=problem.training.overlap_gradients,
    )
    return stage_s + OPTIMIZER_START_S, unit_s + np.stack(updates, axis=1)
