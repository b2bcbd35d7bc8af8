"""How far the latencies of a table were measured, and where they are extrapolated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.words import shell_quoted
from hetopt.cost.shapes import Shape
from hetopt.cost.sources.by_cluster import latency_sources
from hetopt.cost.sources.forest_source import ForestSource, not_covered
from hetopt.cost.sources.operator_source import OperatorSource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from hetopt.cost.sources.source import Sizes
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem

_ROUNDING = 1.001


def table_shape(problem: Problem, table: CostTable, name: str) -> Shape:
    """Return the distinct shards of a cluster whose times a table has."""
    number = problem.cluster_index(name)
    rows = {
        (int(b), own.cp, own.tp, own.ep, own.etp)
        for part in table.slices
        for own, b in zip(
            part.clusters[number].strategies,
            part.clusters[number].microbatch,
            strict=True,
        )
    }
    parallel = problem.training.sequence_parallel
    return Shape.of(sorted(rows), sequence_parallel=parallel)


def extrapolated(
    problem: Problem, table: CostTable, plan: Plan, file: str
) -> list[str]:
    """Return warnings on clusters whose profile lacks sizes that the problem needs.

    Operators that ship are not looked at: their errors on iterations are known.

    Parameters
    ----------
    file
        The problem's, for the remedy.
    """
    model, training = problem.model, problem.training
    kinds = tuple(dict.fromkeys(model.units))
    remedy = f": measure them with `hetopt profile --for {shell_quoted(file)}`"
    if not_covered(model, training):
        remedy = ""
    found = []
    for name, source in latency_sources(problem).by_cluster.items():
        if not isinstance(source, ForestSource | OperatorSource):
            continue
        for which, shape in (
            ("the plan uses shapes", _plan_shape(problem, plan, name)),
            ("{} shapes that were compared are", table_shape(problem, table, name)),
        ):
            out, how = _outside(source.sizes(model, training, kinds, shape))
            if out.any():
                which = which.format(f"{int(out.sum())} of {len(out)}")
                where = f"{which} outside of {source.name}, {how}"
                found.append(f"cluster {name!r}: {where}{remedy}")
                break
    return found


def coverage_notes(problem: Problem, table: CostTable) -> list[str]:
    """Return for each cluster with a profile how many of its shards were measured."""
    notes = []
    kinds = tuple(dict.fromkeys(problem.model.units))
    for name, source in latency_sources(problem).by_cluster.items():
        if isinstance(source, ForestSource):
            shape = table_shape(problem, table, name)
            left = source.predicted(problem.model, problem.training, kinds, shape).sum()
            total = len(shape.tp)
            known = f"all {total}" if not left else f"{total - left} of {total}"
            others = ", a forest predicts the others" if left else ""
            kind = source.source_kind(problem.clusters[problem.cluster_index(name)])
            notes.append(
                f"{name}: {known} shapes that were compared are {kind}{others} "
                f"({source.name})"
            )
    return notes


def _outside(sizes: Iterable[Sizes]) -> tuple[NDArray[np.bool_], str]:
    """Return whether shards are outside of what was measured, (R,), and how first."""
    found, how = np.zeros(1, dtype=np.bool_), ""
    for what, names, known, wanted in sizes:
        least, most = known.min(axis=0), known.max(axis=0)
        # Sizes may be rounded: those of kernels are kept as logarithms.
        out = (wanted > most * _ROUNDING) | (wanted < least / _ROUNDING)
        told = [
            f"{names[i]} {wanted[out[:, i], i].max():.7g}, measured {least[i]:.7g} to "
            f"{most[i]:.7g}"
            for i in np.flatnonzero(out.any(axis=0))
        ]
        how = how or (f"{what} ({'; '.join(told)})" if told else "")
        found = found | out.any(axis=1)
    return found, how


def _plan_shape(problem: Problem, plan: Plan, name: str) -> Shape:
    """Return the distinct shards of a plan's stages on a cluster."""
    rows = set()
    for pipeline in plan.pipelines:
        share = pipeline.share
        batch = problem.training.global_batch if share is None else share.batch
        for stage in pipeline.stages:
            for own in stage.unit_strategies or (stage.strategy,):
                if stage.cluster == name:
                    b = max(batch // pipeline.microbatches // own.dp, 1)
                    rows.add((b, own.cp, own.tp, own.ep, own.etp))
    parallel = problem.training.sequence_parallel
    return Shape.of(sorted(rows), sequence_parallel=parallel)
