"""What a launcher can run at all, as limits on the space that is searched.

A launcher's ``losses`` judge a plan that is there; its limits keep the search to plans
without losses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hetopt.cost.table import ClusterTable, CostTable
from hetopt.errors import InputError
from hetopt.export import (
    hetu_losses,
    hexiscale_losses,
    megatron,
    nemo,
    torch_pipelining,
)
from hetopt.export.shared_losses import heads_divide
from hetopt.problem.digest import problem_digest
from hetopt.problem.training import RECOMPUTE, SCHEDULE_CHOICES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hetopt.export.launcher import Loss
    from hetopt.plan import Plan, Strategy
    from hetopt.problem.problem import Problem
    from hetopt.problem.training import Recompute, ScheduleName

Shared = Literal["dp", "cp", "tp", "recompute"]

_DIRECT = frozenset({"p2p"})

#: Orders of clusters are listed one by one up to this many clusters.
_MOST_ORDERED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What plans a runtime can run.

    Attributes
    ----------
    schedules
        The first takes the place of a problem's schedule that is none of them.
    shared
        What all stages have in common.
    context_parallel
        Whether cp may exceed 1.
    recompute
        Policies that stages of one plan may have together.
    zero
        ZeRO stages it knows.
    equal_ends
        Whether tied embeddings need the same tp on the first and the last stage, and
        with sharded optimizer states a dp that divides the other's.
    losses
        Yields what it cannot do of a problem, whatever the plan.
    fits
        Says whether a stage may have such degrees, where the fields above do not.
    """

    schedules: tuple[ScheduleName, ...] = SCHEDULE_CHOICES
    shared: tuple[Shared, ...] = ()
    context_parallel: bool = True
    recompute: tuple[tuple[Recompute, ...], ...] = (RECOMPUTE,)
    zero: tuple[int, ...] = (0, 1, 2, 3)
    equal_ends: bool = False
    losses: Callable[[Problem], Iterator[Loss]] | None = None
    fits: Callable[[Strategy, Problem], bool] | None = None

    def fitted(self, problem: Problem, asked: ScheduleName | None) -> Problem:
        """Return a problem with a schedule and with resharding that can be had.

        Parameters
        ----------
        asked
            The schedule that the user insists on.

        Raises
        ------
        InputError
            The user insists on another one, or no plan of this problem can be run,
            whatever it decides.
        """
        if asked is not None and asked not in self.schedules:
            msg = f"the launcher runs {', '.join(self.schedules)}, not {asked}"
            raise InputError(msg, field="--schedule")
        self._ensure_runs(problem)
        training, pins = problem.training, problem.pins
        if training.schedule not in self.schedules:
            training = replace(training, schedule=self.schedules[0])
        # Every launcher here sends from device to device, each its own part.
        ways = replace(
            pins.resharding, allowed=_DIRECT & (pins.resharding.allowed or _DIRECT)
        )
        return replace(problem, training=training, pins=replace(pins, resharding=ways))

    def _ensure_runs(self, problem: Problem) -> None:
        if problem.training.zero not in self.zero:
            known = " or ".join(map(str, self.zero))
            msg = f"is {problem.training.zero}, the launcher knows {known}"
            raise InputError(msg, field="training.zero")
        if problem.model.granularity != "layer":
            msg = "is 'block', the launcher cuts between layers: set 'layer'"
            raise InputError(msg, field="model.granularity")
        if not problem.model.is_decoder_only:
            msg = "the launcher trains decoder-only models with causal attention"
            raise InputError(msg, field="model")
        for loss in self.losses(problem) if self.losses else ():
            raise InputError(f"the launcher cannot do: {loss.what}", field="--for")

    def permits(self, strategy: Strategy, problem: Problem) -> bool:
        """Whether a stage may have such degrees, whatever the other stages have."""
        return (
            (self.context_parallel or strategy.cp == 1)
            and problem.training.seq_len % (strategy.tp * strategy.cp) == 0
            and (self.fits is None or self.fits(strategy, problem))
        )


_MEGATRON = Limits(
    schedules=("1f1b",),
    shared=("dp", "cp", "tp", "recompute"),
    zero=(0, 1),
    losses=megatron.problem_losses,
    fits=heads_divide,
)

#: By launcher, for ``hetopt plan --for``.
LIMITS: Mapping[str, Limits] = MappingProxyType(
    {
        "flagscale": Limits(
            schedules=("1f1b",),
            context_parallel=False,
            recompute=(("none", "full"), ("selective",)),
            zero=(0, 1),
            equal_ends=True,
            losses=megatron.problem_losses,
            fits=heads_divide,
        ),
        "hetu": Limits(
            schedules=("1f1b",),
            shared=("dp", "cp"),
            recompute=(("none", "full"),),
            losses=hetu_losses.problem_losses,
            fits=hetu_losses.fits,
        ),
        "hexiscale": Limits(
            schedules=("gpipe",),
            shared=("dp",),
            context_parallel=False,
            recompute=(("none",), ("full",)),
            losses=hexiscale_losses.problem_losses,
            fits=hexiscale_losses.fits,
        ),
        "megatron": _MEGATRON,
        "nemo": replace(_MEGATRON, losses=nemo.problem_losses),
        "torch": Limits(
            schedules=SCHEDULE_CHOICES,
            shared=("dp", "cp", "tp"),
            zero=(0, 1),
            losses=torch_pipelining.problem_losses,
        ),
    }
)


def permitted(limits: Limits, problem: Problem, table: CostTable) -> list[CostTable]:
    """Return tables of all that each stage may be, whatever the others are."""
    tables = []
    for together in limits.recompute:

        def kept(
            cluster: int, strategy: Strategy, together: tuple[str, ...] = together
        ) -> bool:
            return strategy.recompute in together and limits.permits(strategy, problem)

        tables.append(narrow(table, kept))
    return tables


def branches(
    limits: Limits, problem: Problem, table: CostTable, plan: Plan
) -> list[tuple[Problem, CostTable]]:
    """Split a space by what makes a plan of it impossible to run.

    Returns
    -------
    Narrower spaces: together they hold every plan of this one that can be run, and none
    holds ``plan``. Empty if ``plan`` can be run.

    Raises
    ------
    InputError
        The ends must have the same tp and there are too many clusters to list orders.
    """
    stages = plan.pipeline.stages
    for name in limits.shared:
        if len({getattr(stage.strategy, name) for stage in stages}) > 1:
            return [
                (problem, _where(table, name, value)) for value in _values(table, name)
            ]
    first, last = stages[0].strategy, stages[-1].strategy
    if limits.equal_ends and problem.model.tied:
        if first.tp != last.tp:
            return list(_with_equal_ends(problem, table))
        if problem.training.zero and first.dp % last.dp and last.dp % first.dp:
            return list(_with_dividing_ends(problem, table))
    return []


def _values(table: CostTable, name: Shared) -> list[Any]:
    """Return what an attribute of strategies may be, ascending."""
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
        pinned = replace(problem, pins=replace(problem.pins, order=order))
        yield pinned, replace(table, problem_digest=problem_digest(pinned))


def _with_equal_ends(
    problem: Problem, table: CostTable
) -> Iterator[tuple[Problem, CostTable]]:
    """Split a space by the order of its clusters and the tp of both ends."""
    for pinned, part in _with_orders(problem, table):
        assert pinned.pins.order is not None
        ends = {
            table.cluster_names.index(pinned.pins.order[place]) for place in (0, -1)
        }
        for tp in _values(part, "tp"):

            def kept(
                cluster: int,
                strategy: Strategy,
                ends: set[int] = ends,
                tp: int = tp,
            ) -> bool:
                return cluster not in ends or strategy.tp == tp

            narrowed = narrow(part, kept)
            if narrowed.slices:
                yield pinned, narrowed


def _with_dividing_ends(
    problem: Problem, table: CostTable
) -> Iterator[tuple[Problem, CostTable]]:
    """Split a space by the order of its clusters and the dp of the first one."""
    for pinned, part in _with_orders(problem, table):
        assert pinned.pins.order is not None
        first, last = (
            table.cluster_names.index(pinned.pins.order[place]) for place in (0, -1)
        )
        for dp in _values(part, "dp"):

            def kept(
                cluster: int,
                strategy: Strategy,
                first: int = first,
                last: int = last,
                dp: int = dp,
            ) -> bool:
                if cluster == first:
                    return strategy.dp == dp
                divides = strategy.dp % dp == 0 or dp % strategy.dp == 0
                return cluster != last or divides

            narrowed = narrow(part, kept)
            if narrowed.slices:
                yield pinned, narrowed


def narrow(table: CostTable, keep: Callable[[int, Strategy], bool]) -> CostTable:
    """Return a table with some of the strategies.

    Parameters
    ----------
    keep
        Says of a cluster's index and a strategy whether it stays.
    """
    slices = []
    for part in table.slices:
        clusters = tuple(
            _rows(cluster, [keep(j, strategy) for strategy in cluster.strategies])
            for j, cluster in enumerate(part.clusters)
        )
        if any(cluster.strategies for cluster in clusters):
            slices.append(replace(part, clusters=clusters))
    return replace(table, slices=tuple(slices), per_unit=None)


def _rows(cluster: ClusterTable, keep: list[bool]) -> ClusterTable:
    """Return some of a cluster's strategies."""
    rows = np.flatnonzero(keep)
    arrays: Any = {
        name: getattr(cluster, name)[rows]
        for name in ClusterTable.__dataclass_fields__
        if name != "strategies"
    }
    return replace(
        cluster, strategies=tuple(cluster.strategies[row] for row in rows), **arrays
    )
