"""Costs of strategies that do not fit in memory, or that pins exclude."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.cost.build import build_table
from hetopt.plans.strategy import DEGREES
from hetopt.problem.training.pins import ClusterPins, Domain, Pins

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hetopt.cost.table.table import CostTable
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import Recompute

#: Memory of a device that is large enough for every strategy.
_ROOMY_BYTES = 2**50


def roomy_table(
    problem: Problem,
    microbatches: Iterable[int],
    wanted: Iterable[tuple[str, Strategy]],
) -> CostTable:
    """Return costs of certain strategies, even if they do not fit or pins exclude them.

    Times and bytes needed are those of the problem's table: they depend neither on the
    memory of the devices nor on the other strategies.

    Parameters
    ----------
    wanted
        Pairs of a cluster's name and a strategy. The table has every combination of a
        cluster's degrees and recomputations.
    """
    own: dict[str, list[Strategy]] = {}
    for name, strategy in wanted:
        own.setdefault(name, []).append(strategy)
    recompute: dict[str, tuple[Recompute, ...]] = {
        name: tuple(dict.fromkeys(s.recompute for s in used))
        for name, used in own.items()
    }
    nothing = ClusterPins(dp=Domain(allowed=frozenset()))
    pins = {cluster.name: nothing for cluster in problem.clusters} | {
        name: ClusterPins(
            **{
                degree: Domain(allowed=frozenset(getattr(s, degree) for s in used))
                for degree in DEGREES
            }
        )
        for name, used in own.items()
    }
    return build_table(
        replace(
            problem,
            clusters=tuple(
                replace(cluster, memory_bytes=_ROOMY_BYTES)
                for cluster in problem.clusters
            ),
            training=replace(problem.training, recompute=recompute),
            pins=Pins(
                microbatches=Domain(allowed=frozenset(microbatches)),
                clusters=pins,
                cuts=problem.pins.cuts,
                resharding=problem.pins.resharding,
            ),
        )
    )
