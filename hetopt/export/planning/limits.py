"""Applies a launcher's limits to a problem and to the plans that are searched."""

from __future__ import annotations

import operator
from dataclasses import replace
from itertools import permutations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.cost.table.cluster import ClusterTable
from hetopt.cost.table.table import CostTable
from hetopt.errors import InputError
from hetopt.export.job import parts_of
from hetopt.export.shared.losses import (
    cut_losses,
    group_loss,
    offload_losses,
    part_losses,
    shard_copies,
)
from hetopt.problem.digest import problem_digest
from hetopt.problem.training.pins import Domain
from hetopt.solvers.search.branchings.runnable import STRATEGIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hetopt.cost.table.slice import TableSlice
    from hetopt.export.launcher import Limits, Shared, SideBySide
    from hetopt.plans.plan import Plan
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.pins import Pins

#: Orders of clusters are listed one by one up to this many clusters.
_MOST_ORDERED = 5
#: Rules about the number of stages, and about the first and the last one. Others have
#: the name of what all stages share.
_STAGES, _ENDS_TP, _ENDS_DP = "stages", "ends tp", "ends dp"


def fitted(limits: Limits, problem: Problem) -> Problem:
    """Return a problem with a schedule and with resharding that the launcher has.

    Raises
    ------
    InputError
        The launcher cannot run any plan of this problem.
    """
    problem = resharded(limits, problem)
    # Pinned cuts have one schedule, of whose chunks ``why_not`` says more.
    if problem.training.schedule not in limits.schedules and not problem.pins.cuts:
        problem = problem.under(limits.schedules[0])
    if why := why_not(limits, problem):
        raise InputError(why, field="launcher")
    return problem


def resharded(limits: Limits, problem: Problem) -> Problem:
    """Return a problem with resharding that the launcher has, under any schedule.

    Raises
    ------
    InputError
        The launcher cannot run any plan of this problem.
    """
    _ensure_runs(limits, problem)
    pins = problem.pins
    known = frozenset(limits.resharding)
    ways = replace(pins.resharding, allowed=known & (pins.resharding.allowed or known))
    return replace(problem, pins=replace(pins, resharding=ways))


def _ensure_runs(limits: Limits, problem: Problem) -> None:
    """Raise InputError if the launcher cannot run any plan of a problem."""
    if problem.training.zero not in limits.zero:
        known = " or ".join(map(str, limits.zero))
        msg = f"is {problem.training.zero}, the launcher knows {known}"
        raise InputError(msg, field="training.zero")
    for name, policies in problem.training.recompute.items():
        if not {*limits.recomputes} & {*policies}:
            known = ", ".join(limits.recomputes)
            where = f"{', '.join(policies)} on cluster {name!r}"
            msg = f"is {where}, the launcher knows {known}"
            raise InputError(msg, field="training.recompute")
    if problem.model.granularity != "layer" and not limits.blocks:
        msg = "is 'block', the launcher cuts between layers: set 'layer'"
        raise InputError(msg, field="model.granularity")
    if not problem.model.is_decoder_only:
        msg = "the launcher trains decoder-only models with causal attention"
        raise InputError(msg, field="model")
    for loss in part_losses(problem.model, limits.parts):
        raise InputError(f"the launcher cannot do: {loss.what}", field="launcher")


def why_not(limits: Limits, problem: Problem) -> str | None:
    """Return why the launcher runs no plan under the problem's schedule, if so."""
    losses = [*(limits.losses(problem) if limits.losses else ())]
    if problem.training.shard_group is not None and not limits.copies:
        losses.append(group_loss(problem))
    if problem.pins.cuts is not None:
        losses += cut_losses(limits)
    if not _sides(limits, problem):
        losses += offload_losses(problem.clusters, limits.no_offload(problem))
    if not losses:
        return None
    msg = f"the launcher cannot do: {'; '.join(loss.what for loss in losses)}"
    if all(loss.instead for loss in losses):
        msg += " (a plan made with --for none is exported with --allow-lossy)"
    return msg


def _sides(limits: Limits, problem: Problem) -> set[bool]:
    """Return whether a plan's clusters may all offload the optimizer, or none."""
    sides = {each.offload is not None for each in problem.clusters}
    return sides if limits.no_offload(problem) is None else sides - {True}


def runs(limits: Limits, problem: Problem, plan: Plan) -> bool:
    """Whether the launcher runs a plan of a fitted problem as it is."""
    if plan.cuts is not None and not limits.cuts:
        return False
    if len(plan.pipelines) > 1:
        parts = parts_of(problem, plan)
        several = limits.together is not None and is_shared(limits.together, parts)
        return several and all(runs(limits, *each) for each in parts)
    stages = plan.pipeline.stages
    used = [stage.strategy for stage in stages]
    offload = {each.name: each.offload is not None for each in problem.clusters}
    policies = {each.recompute for each in used}
    alike = limits.alike if problem.model.experts is not None else None
    sides = {offload[stage.cluster] for stage in stages}
    return (
        any(policies <= set(each) for each in limits.recompute)
        and (alike is None or len(set(map(alike, used))) == 1)
        and len(sides) == 1
        and sides <= _sides(limits, problem)
        and all(permits(limits, each, problem) for each in used)
        and broken(limits, problem, plan) is None
    )


def is_shared(together: SideBySide, parts: Sequence[tuple[Problem, Plan]]) -> bool:
    """Whether pipelines have in common what they must."""
    # A pipeline's own problem has a part of the batch.
    values = {value for own, _ in parts for value in together.values(own)}
    return not values or any(
        all(
            together.has(own, plan.pipeline.microbatches, stage.strategy, value)
            for own, plan in parts
            for stage in plan.pipeline.stages
        )
        for value in values
    )


def permits(limits: Limits, strategy: Strategy, problem: Problem) -> bool:
    """Whether a stage may have a strategy, regardless of the other stages."""
    return (
        (limits.context_parallel or strategy.cp == 1)
        and problem.training.seq_len % (strategy.tp * strategy.cp) == 0
        and (limits.fits is None or limits.fits(strategy, problem))
        and len(shard_copies(problem, strategy)) == 1
    )


def sharing(
    limits: Limits, problem: Problem, table: CostTable, value: str
) -> tuple[Problem, CostTable]:
    """Return the space of a pipeline with a value that all pipelines share."""
    together = limits.together
    assert together is not None

    def kept(part: TableSlice) -> TableSlice:
        return _narrowed(
            part, lambda _, each: together.has(problem, part.microbatches, each, value)
        )

    return problem, _of_slices(table, map(kept, table.slices))


def permitted(limits: Limits, problem: Problem, table: CostTable) -> list[CostTable]:
    """Return one table for each set of strategies that stages of one plan may mix."""
    alike = limits.alike if problem.model.experts is not None else None
    kinds = (None,) if alike is None else (True, False)
    offloads = [each.offload is not None for each in problem.clusters]
    tables = []
    for together, kind, side in product(
        limits.recompute, kinds, sorted(_sides(limits, problem))
    ):

        def kept(
            cluster: int,
            strategy: Strategy,
            together: tuple[str, ...] = together,
            kind: bool | None = kind,
            side: bool = side,
        ) -> bool:
            return (
                strategy.recompute in together
                and offloads[cluster] == side
                and (alike is None or alike(strategy) == kind)
                and permits(limits, strategy, problem)
            )

        tables.append(narrow(table, kept))
    return tables


def broken(limits: Limits, problem: Problem, plan: Plan) -> str | None:
    """Return the rule about several stages that a plan breaks; None: it breaks none."""
    stages = plan.pipeline.stages
    for name in limits.shared_under(plan.schedule):
        if len({getattr(stage.strategy, name) for stage in stages}) > 1:
            return name
    spreads = any(stage.strategy.ep > 1 for stage in stages)
    if spreads and not limits.spread(problem).permits(len(stages)):
        return _STAGES
    first, last = stages[0].strategy, stages[-1].strategy
    if limits.equal_ends and problem.model.tied:
        if first.tp != last.tp:
            return _ENDS_TP
        if problem.training.zero and not _divide(first.dp, last.dp):
            return _ENDS_DP
    return None


def split(
    limits: Limits, problem: Problem, table: CostTable, rule: str
) -> list[tuple[Problem, CostTable]]:
    """Split a search space by a rule of the launcher.

    Parameters
    ----------
    rule
        ``STRATEGIES``, or what ``broken`` returns.

    Returns
    -------
    Narrower spaces that together hold every plan of this one that can be run, but none
    that breaks the rule.

    Raises
    ------
    InputError
        The launcher has no such rule; or the ends need matching degrees, and there are
        too many clusters to list all orders.
    """
    if rule == STRATEGIES:
        return [(problem, each) for each in permitted(limits, problem, table)]
    for name in limits.shared_under(problem.training.schedule):
        if rule == name:
            values = _values(table, name)
            return [(problem, _where(table, name, value)) for value in values]
    if rule == _STAGES:
        return list(_with_stages(problem, table, limits.spread(problem)))
    if limits.equal_ends and rule == _ENDS_TP:
        return list(_with_ends(problem, table, "tp", operator.eq))
    if limits.equal_ends and rule == _ENDS_DP:
        return list(_with_ends(problem, table, "dp", _divide))
    raise InputError(f"is {rule!r}, which is no rule of the launcher", field="rule")


def _with_stages(
    problem: Problem, table: CostTable, numbers: Domain
) -> Iterator[tuple[Problem, CostTable]]:
    """Split a space into plans that spread no experts, and those of some stages."""
    yield problem, _where(table, "ep", 1)
    able = {p for p in problem.stage_counts if numbers.permits(p)}
    if able:
        pins = replace(problem.pins, stages=Domain(allowed=frozenset(able)))
        yield _pinned(problem, table, pins)


def _pinned(
    problem: Problem, table: CostTable, pins: Pins
) -> tuple[Problem, CostTable]:
    """Return a space with narrower pins."""
    pinned = replace(problem, pins=pins)
    return pinned, replace(table, problem_digest=problem_digest(pinned))


def _values(table: CostTable, name: Shared) -> list[Any]:
    """Return the values of an attribute of a table's strategies, ascending."""
    return sorted(
        {
            getattr(strategy, name)
            for part in table.slices
            for cluster in part.clusters
            for strategy in cluster.strategies
        }
    )


def _where(table: CostTable, name: Shared, value: Any) -> CostTable:
    return narrow(table, lambda _, strategy: getattr(strategy, name) == value)


def _with_orders(
    problem: Problem, table: CostTable
) -> Iterator[tuple[Problem, CostTable]]:
    """Split a space by the order of its clusters."""
    count = len(table.cluster_names)
    orders: list[tuple[str, ...]] = []
    if problem.pins.order is not None:
        orders = [problem.pins.order]
    elif count > _MOST_ORDERED:
        msg = (
            "tied embeddings need matching ends of the pipeline, and "
            f"{count} clusters have too many orders: pin the order, or untie"
        )
        raise InputError(msg, field="model.tied")
    else:
        for used in range(1, count + 1):
            orders += permutations(table.cluster_names, used)
    for order in orders:
        yield _pinned(problem, table, replace(problem.pins, order=order))


def _with_ends(
    problem: Problem, table: CostTable, name: Shared, match: Callable[[Any, Any], bool]
) -> Iterator[tuple[Problem, CostTable]]:
    """Split a space by the order of its clusters and a degree of the first stage.

    Parameters
    ----------
    match
        Whether the first and the last stage may have these degrees together.
    """
    for pinned, part in _with_orders(problem, table):
        assert pinned.pins.order is not None
        first, last = (
            table.cluster_names.index(pinned.pins.order[place]) for place in (0, -1)
        )
        for value in _values(part, name):

            def kept(
                cluster: int,
                strategy: Strategy,
                first: int = first,
                last: int = last,
                value: Any = value,
            ) -> bool:
                degree = getattr(strategy, name)
                return (cluster != first or degree == value) and (
                    cluster != last or match(value, degree)
                )

            narrowed = narrow(part, kept)
            if narrowed.slices:
                yield pinned, narrowed


def _divide(one: int, other: int) -> bool:
    return one % other == 0 or other % one == 0


def narrow(table: CostTable, keep: Callable[[int, Strategy], bool]) -> CostTable:
    """Return a table with some of the strategies.

    Parameters
    ----------
    keep
        Whether a strategy stays, given the cluster's index and the strategy.
    """
    return _of_slices(table, (_narrowed(part, keep) for part in table.slices))


def _of_slices(table: CostTable, slices: Iterable[TableSlice]) -> CostTable:
    """Return a table of the slices with any strategies."""
    able = (part for part in slices if any(own.strategies for own in part.clusters))
    return replace(table, slices=tuple(able), per_unit=None)


def _narrowed(part: TableSlice, keep: Callable[[int, Strategy], bool]) -> TableSlice:
    clusters = tuple(
        _rows(cluster, [keep(j, strategy) for strategy in cluster.strategies])
        for j, cluster in enumerate(part.clusters)
    )
    return replace(part, clusters=clusters)


def _rows(cluster: ClusterTable, keep: list[bool]) -> ClusterTable:
    """Return some of a cluster's strategies."""
    rows = np.flatnonzero(keep)
    arrays: Any = {name: column[rows] for name, column in cluster.columns().items()}
    return replace(
        cluster, strategies=tuple(cluster.strategies[row] for row in rows), **arrays
    )
