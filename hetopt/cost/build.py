"""Build the latency table of a problem: the one place where costs are evaluated."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.boundaries.resharding import permitted_strategies
from hetopt.cost.boundaries.slices import table_slices
from hetopt.cost.chunks import folded, with_one_beside
from hetopt.cost.communication.synchronisation import (
    exposed_s,
    reduction_s,
    update_s,
    update_start_s,
)
from hetopt.cost.correction import CorrectedSource, with_corrected_links
from hetopt.cost.folding import folded as with_pairs
from hetopt.cost.held_alike import held_alike
from hetopt.cost.model_flops import iteration_flops
from hetopt.cost.passes import hidden_share, passes_s, shard_times
from hetopt.cost.per_unit.unit_table import SHARDINGS, has_unit_table, unit_table
from hetopt.cost.pieces.operations import sum_of
from hetopt.cost.ranges import at_most_half, ensure_sums_fit, nanoseconds
from hetopt.cost.row_memory import holders, memory_of
from hetopt.cost.rows import StrategyRows, strategy_rows
from hetopt.cost.shapes import Floats, distinct_rows
from hetopt.cost.sources.by_cluster import latency_sources
from hetopt.cost.sources.source import LatencySource
from hetopt.cost.table.cluster import ClusterTable
from hetopt.cost.table.table import CostTable
from hetopt.errors import InputError
from hetopt.problem.digest import problem_digest
from hetopt.problem.model.kinds import END_KINDS
from hetopt.problem.training.choices import ANY
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetopt.cost.communication.between_pipelines import Between
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem


def build_table(
    problem: Problem,
    source: LatencySource | None = None,
    *,
    whole: Problem | None = None,
) -> CostTable:
    """Evaluate every coefficient of a problem.

    Parameters
    ----------
    source
        Source of compute times; if None, the one that the problem's ``latency`` names.
    whole
        The problem with all nodes, if this one has only some of them: plans then need
        the memory that they need as plans of that one.

    Raises
    ------
    InputError
        The problem has no one schedule, the pins leave no resharding strategy, a
        latency source is unknown, or sums of coefficients exceed 64 bits.

    Examples
    --------
    >>> import hetopt
    >>> table = hetopt.build_table(hetopt.read_problem("problem.yaml"))
    >>> table.cluster_names, [part.microbatches for part in table.slices]
    (('fast', 'slow'), [1, 2, 4])
    """
    if problem.training.any_schedule:
        msg = f"is {ANY}, but a table is under one schedule: name it (problem.under)"
        raise InputError(msg, field="training.schedule")
    table = coefficients(problem, source, whole=whole)
    ensure_sums_fit(table)
    return table


def coefficients(
    problem: Problem,
    source: LatencySource | None = None,
    between: Mapping[str, Between] | None = None,
    *,
    whole: Problem | None = None,
) -> CostTable:
    """Evaluate every coefficient as ``build_table``, without the check of their sums.

    Parameters
    ----------
    between
        By cluster, how gradients are added up over several pipelines; None if the
        problem has one pipeline.
    whole
        See ``build_table``.
    """
    return under_schedule(unplaced(problem, source, between, whole=whole), problem)


def unplaced(
    problem: Problem,
    source: LatencySource | None = None,
    between: Mapping[str, Between] | None = None,
    *,
    whole: Problem | None = None,
) -> CostTable:
    """Evaluate every coefficient as ``coefficients``, for the model's own units.

    A schedule changes them only if it splits the backward pass, or if it makes a unit
    table possible (``has_unit_table``).
    """
    between = between or {}
    source = CorrectedSource(source or latency_sources(problem), problem.calibration)
    digest = problem_digest(problem)
    problem = with_corrected_links(problem)
    model, training = problem.model, problem.training
    kinds = tuple(dict.fromkeys(model.units))
    cut_classes = tuple(dict.fromkeys(model.cuts))
    body = tuple(kind not in END_KINDS for kind in kinds)
    usable = tuple(usable_bytes(problem, cluster) for cluster in problem.clusters)
    permitted = permitted_strategies(problem.pins.resharding)
    columns = partial(_cluster_tables, whole=whole)
    per_cluster = [
        columns(problem, own, kinds, body, limit, source, between.get(own.name))
        for own, limit in zip(problem.clusters, usable, strict=True)
    ]
    able = _with_strategies(problem, per_cluster)
    slices = table_slices(problem, able, cut_classes, permitted)
    per_unit = None
    if has_unit_table(problem):
        shardings = _by_sharding(problem, kinds, body, usable[0], source)
        per_unit = unit_table(problem, shardings, permitted)
    return CostTable(
        problem_digest=digest,
        schedule=training.schedule,
        warmup_epsilon=training.epsilon,
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
        tokens=training.tokens,
        model_flops=iteration_flops(model, training),
        peak_flops=tuple(
            cluster.accelerator.peak_flops_of(training.precision, training.emulate)
            for cluster in problem.clusters
        ),
        per_unit=per_unit,
    )


def under_schedule(table: CostTable, problem: Problem) -> CostTable:
    """Return the table whose units are those that the problem's schedule places.

    Parameters
    ----------
    table
        As of ``unplaced``.
    """
    training, cuts = problem.training, problem.pins.cuts
    if cuts is not None:
        table = replace(table, chunks=training.chunks, layout=cuts)
    elif rule_of(training.schedule).folded:
        table = with_pairs(table)
    else:
        table = folded(table, problem.model, training.chunks)
    return with_one_beside(table) if training.moe.overlap else table


def _with_strategies(
    problem: Problem, per_cluster: Sequence[Mapping[int, ClusterTable]]
) -> dict[int, list[ClusterTable]]:
    """Return coefficients by those micro-batch counts for which a strategy exists."""
    by_count = {q: [own[q] for own in per_cluster] for q in problem.microbatch_counts}
    return {
        q: tables
        for q, tables in by_count.items()
        if any(table.strategies for table in tables)
    }


def _by_sharding(
    problem: Problem,
    kinds: tuple[str, ...],
    body: tuple[bool, ...],
    limit_bytes: int,
    source: LatencySource,
) -> dict[int, dict[int, ClusterTable]]:
    """Return the only cluster's coefficients by ZeRO stage and micro-batch count."""
    return {
        zero: _cluster_tables(
            _sharded(problem, zero),
            problem.clusters[0],
            kinds,
            body,
            limit_bytes,
            source,
        )
        for zero in SHARDINGS
    }


def _sharded(problem: Problem, zero: int) -> Problem:
    """Return a problem under a ZeRO stage; without one no groups share shards."""
    group = problem.training.shard_group if zero else None
    training = replace(problem.training, zero=zero, shard_group=group)
    return replace(problem, training=training)


def usable_bytes(problem: Problem, cluster: Cluster) -> int:
    """Return the bytes that the framework may allocate on a device."""
    kept = math.floor(cluster.memory_bytes * (1 - problem.training.reserve))
    return max(kept - cluster.overhead_bytes, 0)


def _cluster_tables(
    problem: Problem,
    cluster: Cluster,
    kinds: tuple[str, ...],
    body: tuple[bool, ...],
    limit_bytes: int,
    source: LatencySource,
    between: Between | None = None,
    whole: Problem | None = None,
) -> dict[int, ClusterTable]:
    """Return a cluster's coefficients by micro-batch count."""
    rows = strategy_rows(problem, cluster)
    memory = memory_of(problem, rows, kinds, limit_bytes, whole or problem)
    one_unit = memory.state + memory.activation + memory.temporary
    # A stage holds a unit of the body, or of any kind if cuts are pinned.
    held = one_unit if problem.pins.cuts is not None else one_unit[:, list(body)]
    least = memory.fixed + held.min(axis=1)
    rows = rows.select(keep := np.flatnonzero(least <= limit_bytes))
    times, where = shard_times(problem, rows, kinds, source)
    hidden = hidden_share(problem.training, rows.microbatches, rows.shape.ep)
    forward_s, backward_s = passes_s(problem, rows, kinds, times, where, hidden)
    parameter_s = times.update_s_per_parameter
    sync_s, sync_unit_s = _sync_s(
        problem, rows, kinds, body, backward_s, parameter_s, between
    )
    forward, backward = nanoseconds(forward_s), nanoseconds(backward_s)
    weight = None
    if rule_of(problem.training.schedule).splits:
        weight = at_most_half(times.weight_s[where], backward)
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


def _sync_s(
    problem: Problem,
    rows: StrategyRows,
    kinds: tuple[str, ...],
    body: tuple[bool, ...],
    backward_s: Floats,
    update_s_per_parameter: float | None,
    between: Between | None,
) -> tuple[Floats, Floats]:
    """Return g in seconds: per stage (R,) and per unit (R, N)."""
    training, cluster = problem.training, rows.cluster
    first, where = distinct_rows((*holders(rows), rows.per_node))
    shape, replicas = rows.shape.take(first), rows.replicas[first]
    per_node = rows.per_node[first]
    reductions, updates = [], []
    for kind in kinds:
        parts = held_alike(problem.model, training, kind, shape, replicas)
        reductions.append(
            sum_of(reduction_s(training, cluster, part, per_node) for part in parts)
        )
        if between is not None:
            reductions[-1] = reductions[-1] + between.unit_s(training, parts)
        updates.append(
            sum_of(
                update_s(training, cluster, part, per_node, update_s_per_parameter)
                for part in parts
            )
        )
    stage_s, unit_s = exposed_s(
        np.stack(reductions, axis=1)[where],
        backward_s,
        body,
        overlap=problem.training.overlap_gradients,
    )
    if between is not None:
        stage_s = stage_s + between.start_s
    start_s = update_start_s(cluster)
    return stage_s + start_s, unit_s + np.stack(updates, axis=1)[where]
