"""Why a problem has no plan, in one line: the first constraint found in the way."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.build import coefficients, usable_bytes
from hetopt.cost.table import LONGEST_NS, LONGEST_S
from hetopt.deadline import Deadline, Stopped, run_until
from hetopt.formulations.chain import Chain
from hetopt.problem.principles import PRUNED
from hetopt.problem.quantity import TOO_MANY_BYTES
from hetopt.problem.training import FOLDED, Pins
from hetopt.solvers.bounds.by_count import survey
from hetopt.solvers.bounds.relaxation import Relaxation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hetopt.cost.table import ClusterTable, CostTable, TableSlice
    from hetopt.problem.principles import Principles
    from hetopt.problem.problem import Problem

#: Seconds for finding out what the bounds refute.
_MOST_S = 1.5


def why_infeasible(
    problem: Problem, table: CostTable, principles: Principles = PRUNED
) -> str:
    """Name the constraint that leaves no plan, and what would have to give."""
    if not problem.microbatch_counts:
        return (
            "pin.microbatches: no permitted number of micro-batches divides the "
            f"global batch of {problem.training.global_batch}"
        )
    chunks = problem.training.chunks
    is_folded = problem.training.schedule == FOLDED
    if not problem.stage_counts:
        parts = 2 if is_folded else chunks
        what = "pairs" if is_folded else "units"
        return (
            f"pin.stages: no permitted number of stages is between {min(chunks, 2)} "
            f"and {(len(problem.model.units) - 2) // parts}, the transformer layers' "
            f"{what}{' of a chunk' if chunks > 1 else ''}, with a device for each"
        )
    if not problem.programs and is_folded:
        return (
            "training.schedule: zb-v has more micro-batches than stages, and no "
            "permitted number of micro-batches is more than a permitted number of "
            "stages; permit more of the former, or name another schedule"
        )
    if not problem.programs:
        return (
            "training.chunks: no permitted number of micro-batches is a multiple of a "
            "permitted number of stages"
        )
    if not table.slices:
        return "; ".join(unusable(problem, table))
    if any(_is_needed(problem, name) for name in without_strategy(table)):
        return "; ".join(unusable(problem, table))
    try:
        return run_until(
            Deadline.after(_MOST_S),
            lambda: _by_bounds(problem, table, principles),
        )
    except Stopped:
        return "memory or time: which of both is in the way takes long to find out"


def _by_bounds(problem: Problem, table: CostTable, principles: Principles) -> str:
    """Name what the bounds refute, where each cluster by itself could do its part."""
    chain = Chain.of(table)
    held = _most_units(table, chain, principles)
    if sum(held) < chain.length:
        shares = ", ".join(
            f"{name} {units}"
            for name, units in zip(table.cluster_names, held, strict=True)
        )
        return (
            f"memory: all clusters together hold at most {sum(held)} of the model's "
            f"{chain.length} body units ({shares})"
        )
    least_ns = _least_ns(problem, table, chain, principles)
    if np.isfinite(least_ns) and least_ns > LONGEST_NS:
        return (
            f"time: every plan takes more than {LONGEST_S} s an iteration, the longest "
            "there may be; quicker links or devices, or a smaller global batch, would "
            "help"
        )
    culprit = _pin_in_the_way(problem, table, chain, principles)
    if culprit is not None:
        return f"pin.{culprit}: leaves no plan; without it the bounds allow one"
    missing = [
        f"{first} and {second}"
        for first, second in combinations(table.cluster_names, 2)
        if problem.links.between(first, second) is None
    ]
    if missing:
        return (
            "links: no order of clusters that links join fits; there is none between "
            f"{', '.join(missing)}"
        )
    return (
        "memory: no order of clusters and split of layers fits at every pipeline "
        "position, as earlier stages keep more micro-batches in flight; full "
        "recomputation, a higher ZeRO stage or schedule 1f1b need less"
    )


def _least_ns(
    problem: Problem, table: CostTable, chain: Chain, principles: Principles
) -> float:
    """Return what every plan takes at least, by the relaxation; infinite: none is."""
    counts = [p for p in problem.stage_counts if p <= chain.length]
    least = np.inf
    for part in table.slices:
        relaxation = _relaxation(table, part, chain, problem.rules, principles)
        bound = survey(relaxation, cutoff=None).bound
        least = min(least, bound[counts].min(initial=np.inf))
    return least


def without_strategy(table: CostTable) -> list[str]:
    """Return the clusters that can host nothing at any micro-batch count."""
    return [
        name
        for j, name in enumerate(table.cluster_names)
        if not any(part.clusters[j].strategies for part in table.slices)
    ]


def _is_needed(problem: Problem, name: str) -> bool:
    """Whether pins ask for a cluster's use."""
    pins = problem.pins
    return not pins.of(name).stages.permits(0) or name in (pins.order or ())


def unusable(problem: Problem, table: CostTable) -> Iterator[str]:
    """Say what keeps each cluster without a strategy from hosting one body unit."""
    names = without_strategy(table)
    if not names:
        return
    # Which pins are in the way is only asked where there are some.
    free = table
    if problem.pins != Pins():
        free = coefficients(replace(problem, pins=Pins()))
    ample = coefficients(
        replace(
            problem,
            clusters=tuple(
                replace(cluster, memory_bytes=TOO_MANY_BYTES)
                for cluster in problem.clusters
            ),
        )
    )
    for j, cluster in enumerate(problem.clusters):
        if cluster.name not in names:
            continue
        needs = [
            (int(need), strategy)
            for part in ample.slices
            for need, strategy in zip(
                _least_bytes(ample, part.clusters[j]),
                part.clusters[j].strategies,
                strict=True,
            )
        ]
        if not needs:
            yield (
                f"{cluster.name}: no allowed (dp, cp, tp) fits its nodes, the model's "
                "heads, the sequence length and the global batch"
            )
            continue
        need, strategy = min(needs)
        usable = usable_bytes(problem, cluster)
        pinned = cluster.name not in without_strategy(free)
        yield (
            f"memory: one {_body_name(ample)} on {cluster.name} at any allowed "
            f"strategy needs at least {need / 1e9:.1f} GB ({strategy}), of "
            f"{usable / 1e9:.1f} GB usable"
            + ("; strategies that its pins rule out would fit" if pinned else "")
        )


def _least_bytes(table: CostTable, cluster: ClusterTable) -> NDArray[np.int64]:
    """Bytes of a stage with the smallest body unit, one micro-batch in flight."""
    body = [kind for kind, inside in enumerate(table.body) if inside]
    unit = (cluster.state_bytes + cluster.activation_bytes + cluster.temporary_bytes)[
        :, body
    ]
    least: NDArray[np.int64] = cluster.fixed_bytes + unit.min(axis=1, initial=2**62)
    return least


def _body_name(table: CostTable) -> str:
    return " or ".join(
        kind for kind, inside in zip(table.kinds, table.body, strict=True) if inside
    )


def _most_units(table: CostTable, chain: Chain, principles: Principles) -> list[int]:
    """Most body units each cluster can hold at any q, by memory alone."""
    most = [0] * len(table.cluster_names)
    for part in table.slices:
        relaxation = _relaxation(table, part, chain, Pins(), principles)
        for j, cluster in enumerate(relaxation.clusters):
            for costs in cluster.costs(np.inf).values():
                units = np.flatnonzero(np.isfinite(costs).any(axis=0))
                most[j] = max(most[j], *map(int, units[-1:]), 0)
    return most


def _pin_in_the_way(
    problem: Problem, table: CostTable, chain: Chain, principles: Principles
) -> str | None:
    """Name a pin without which the relaxation is feasible."""
    if _bounds_allow(table, chain, problem, problem.rules, principles):
        return None
    free = Pins()
    for pin in fields(Pins):
        pins = replace(problem.pins, **{pin.name: getattr(free, pin.name)})
        looser = replace(problem, pins=pins)
        if pins != problem.pins and _bounds_allow(
            table, chain, looser, looser.rules, principles
        ):
            return pin.name
    return None


def _bounds_allow(
    table: CostTable,
    chain: Chain,
    problem: Problem,
    pins: Pins,
    principles: Principles,
) -> bool:
    """Whether some p and q have a bound under ``pins``."""
    counts = [p for p in problem.stage_counts if p <= chain.length]
    for part in table.slices:
        relaxation = _relaxation(table, part, chain, pins, principles)
        fill = relaxation.fill(np.inf, roles=True)
        if np.isfinite(fill[counts]).any():
            return True
    return False


def _relaxation(
    table: CostTable,
    part: TableSlice,
    chain: Chain,
    pins: Pins,
    principles: Principles,
) -> Relaxation:
    return Relaxation(
        table=table,
        part=part,
        chain=chain,
        pins=pins,
        most_stages=min(chain.length, sum(table.cluster_devices)),
        principles=principles,
    )
