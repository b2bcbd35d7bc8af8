"""Why a problem has no plan, in one line: the first constraint that rules it out."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.deadline import Deadline, Stopped
from hetopt.base.run_until import run_until
from hetopt.base.words import counted
from hetopt.cost.build import coefficients, usable_bytes
from hetopt.cost.folding import at_any_stages
from hetopt.cost.table.ticks import LONGEST_NS, LONGEST_S
from hetopt.formulations.chain import Chain
from hetopt.problem.pinned_units import units_fault
from hetopt.problem.quantity import TOO_MANY_BYTES
from hetopt.problem.training.choices import FOLDED
from hetopt.problem.training.pins import Pins
from hetopt.problem.training.principles import PRUNED
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.bounds.by_count import survey
from hetopt.solvers.bounds.relaxation import Relaxation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles

#: The ZeRO stage that shards most.
_MOST_ZERO = 3
#: Seconds for finding out which constraint the bounds refute.
_MOST_S = 1.5


def why_infeasible(
    problem: Problem, table: CostTable, principles: Principles = PRUNED
) -> str:
    """Return in one line which constraint leaves no plan, and what would help."""
    if not problem.microbatch_counts:
        return (
            "pin.microbatches: no permitted number of micro-batches divides the "
            f"global batch of {problem.training.global_batch}"
        )
    units = problem.pins.units
    fault = units and units_fault(units, problem.model, problem.training)
    if fault:
        path = ".".join(map(str, ("pin", *fault.path)))
        return f"{path}: {fault.message}"
    if not problem.stage_counts:
        return _without_stages(problem)
    if not problem.programs:
        return _without_programs(problem)
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
        return (
            "memory or time: finding out which of the two rules out all plans takes "
            "too long"
        )


def _without_stages(problem: Problem) -> str:
    """Say why no number of stages is possible."""
    chunks, is_folded = problem.training.chunks, problem.training.schedule in FOLDED
    least = min(chunks, 2)
    body = (len(problem.model.units) - 2) // (2 if is_folded else chunks)
    devices = sum(cluster.devices for cluster in problem.clusters)
    if body < least:
        return (
            f"training.chunks: is {chunks}, so a chunk has {body} unit between "
            "embedding and head, but several chunks need at least "
            f"{counted(least, 'stage')}: use fewer chunks, or a schedule with one chunk"
        )
    if devices < least:
        return (
            f"clusters: there is {devices} device, but several chunks (training.chunks "
            f"is {chunks}) need at least {counted(least, 'stage')}, each on a device "
            "of its own: add devices, or use a schedule with one chunk"
        )
    whose, what = ("a chunk's" if chunks > 1 else "the"), "pairs" * is_folded or "units"
    return (
        f"pin.stages: no permitted number of stages is between {least} and "
        f"{min(body, devices)}: {whose} transformer layers are {body} {what}, and the "
        f"clusters have {counted(devices, 'device')}"
    )


def _without_programs(problem: Problem) -> str:
    """Say why no permitted numbers of stages and micro-batches go together."""
    if problem.training.schedule in FOLDED:
        return (
            f"training.schedule: {problem.training.schedule} needs more micro-batches "
            "than stages, but no permitted number of micro-batches exceeds a permitted "
            "number of stages; permit more micro-batches, or use another schedule"
        )
    return (
        f"training.chunks: is {problem.training.chunks}, so the number of "
        "micro-batches must be a multiple of the number of stages, but no permitted "
        "pair is; change training.global_batch, pin.microbatches or pin.stages, or "
        "use a schedule with one chunk"
    )


def _by_bounds(problem: Problem, table: CostTable, principles: Principles) -> str:
    """Name the constraint that the bounds refute; required clusters have strategies."""
    if table.layout is not None:
        return (
            f"pin.{problem.pins.cuts_key}: no permitted clusters have the memory and "
            f"the links for the stages that it fixes; {_of_help(problem)} or other "
            "stages would help"
        )
    chain = Chain.of(table)
    held = _most_units(table, chain, principles)
    if sum(held) < chain.length:
        shares = ", ".join(
            f"{name} {units}"
            for name, units in zip(table.cluster_names, held, strict=True)
        )
        return (
            f"memory: all clusters together hold at most {sum(held)} of "
            f"{_placed_words(table, chain)} ({shares}); {_of_help(problem)} would help"
        )
    least_ns = _least_ns(problem, table, chain, principles)
    if np.isfinite(least_ns) and least_ns > LONGEST_NS:
        return (
            f"time: every plan takes more than {LONGEST_S} s per iteration, the "
            "longest permitted time; faster links or devices, or a smaller global "
            "batch, would help"
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
            "links: no order of clusters along existing links fits; there is no link "
            f"between {', '.join(missing)}"
        )
    rule = rule_of(table.schedule, table.warmup_epsilon)
    rises = not (rule.all_first or rule.folded)
    leaner = "" if rule.is_lean else " or schedule 1f1b"
    return (
        "memory: no order of clusters and split of layers fits at every pipeline "
        f"position{', as earlier stages keep more micro-batches in flight' * rises}; "
        f"{_of_help(problem)}{leaner} would help"
    )


def _placed_words(table: CostTable, chain: Chain) -> str:
    """Return a phrase for the body units, which stages divide among themselves."""
    if table.pairs is not None:
        return f"the model's {chain.length} pairs of body units"
    if table.chunks > 1:
        return (
            f"the {counted(chain.length, 'body unit')} of each of "
            f"{counted(table.chunks, 'chunk')}"
        )
    return f"the model's {counted(chain.length, 'body unit')}"


def _of_help(problem: Problem) -> str:
    """Return a phrase for what would let the devices hold more."""
    training, found = problem.training, ["more memory or devices"]
    if not all("full" in permitted for permitted in training.recompute.values()):
        found.append("full recomputation")
    if training.zero < _MOST_ZERO:
        found.append("a higher ZeRO stage")
    return " or ".join(found)


def _least_ns(
    problem: Problem, table: CostTable, chain: Chain, principles: Principles
) -> float:
    """Return the relaxation's bound on every plan in ns; infinite if there is none."""
    counts = [p for p in problem.stage_counts if p <= chain.length]
    least = np.inf
    for part in table.slices:
        relaxation = _relaxation(table, part, chain, problem.rules, principles)
        bound = survey(relaxation, cutoff=None).bound
        least = min(least, bound[counts].min(initial=np.inf))
    return least


def without_strategy(table: CostTable) -> list[str]:
    """Return the clusters that have no strategy at any micro-batch count."""
    return [
        name
        for j, name in enumerate(table.cluster_names)
        if not any(part.clusters[j].strategies for part in table.slices)
    ]


def _is_needed(problem: Problem, name: str) -> bool:
    """Whether the pins require a cluster to be used."""
    pins = problem.pins
    return not pins.of(name).stages.permits(0) or name in (pins.order or ())


def unusable(problem: Problem, table: CostTable) -> Iterator[str]:
    """Yield why each cluster without a strategy cannot host one body unit."""
    names = without_strategy(table)
    if not names:
        return
    # The table without pins shows which clusters the pins alone rule out.
    free = table
    if problem.pins != (unpinned := _without_pins(problem)):
        free = coefficients(replace(problem, pins=unpinned))
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
        if need <= usable:
            # The table has only rows that a launcher permits.
            yield (
                f"{cluster.name}: the launcher permits none of the strategies that fit "
                "its memory"
            )
            continue
        pinned = cluster.name not in without_strategy(free)
        yield (
            f"memory: one {_body_name(ample)} on {cluster.name} at any allowed "
            f"strategy needs at least {need / 1e9:.1f} GB ({strategy}), of "
            f"{usable / 1e9:.1f} GB usable"
            + ("; strategies that its pins rule out would fit" if pinned else "")
        )


def _least_bytes(table: CostTable, cluster: ClusterTable) -> NDArray[np.int64]:
    """Return the bytes of a stage with its smallest unit and one micro-batch."""
    kinds = _placed_kinds(table)
    unit = (cluster.state_bytes + cluster.activation_bytes + cluster.temporary_bytes)[
        :, kinds
    ]
    least: NDArray[np.int64] = cluster.fixed_bytes + unit.min(axis=1, initial=2**62)
    return least


def _placed_kinds(table: CostTable) -> list[int]:
    """Return the kinds of the units of which every stage has one."""
    kinds = dict.fromkeys(table.units)
    return [kind for kind in kinds if table.body[kind] or table.layout is not None]


def _body_name(table: CostTable) -> str:
    if table.layout is not None:
        return "unit"
    name = " or ".join(table.kinds[kind] for kind in _placed_kinds(table))
    return (
        name
        if table.chunks == 1
        else f"{name} of each of {counted(table.chunks, 'chunk')}"
    )


def _most_units(table: CostTable, chain: Chain, principles: Principles) -> list[int]:
    """Return the most body units each cluster can hold at any q, by memory alone."""
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
    """Return a pin without which the relaxation becomes feasible, or None."""
    if _bounds_allow(table, chain, problem, problem.rules, principles):
        return None
    free = _without_pins(problem)
    for pin in fields(Pins):
        pins = replace(problem.pins, **{pin.name: getattr(free, pin.name)})
        looser = replace(problem, pins=pins)
        if pins != problem.pins and _bounds_allow(
            table, chain, looser, looser.rules, principles
        ):
            return pin.name
    return None


def _without_pins(problem: Problem) -> Pins:
    """Return no pins but the cuts: without them chunks would have to be equal."""
    return Pins(cuts=problem.pins.cuts, layout=problem.pins.layout)


def _bounds_allow(
    table: CostTable,
    chain: Chain,
    problem: Problem,
    pins: Pins,
    principles: Principles,
) -> bool:
    """Whether some p and q have a finite bound under ``pins``."""
    counts = [p for p in problem.stage_counts if p <= chain.length]
    for part in table.slices:
        relaxation = _relaxation(table, part, chain, pins, principles)
        fill = relaxation.fill(np.inf)
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
        part=at_any_stages(part),
        chain=chain,
        pins=pins,
        most_stages=min(chain.length, sum(table.cluster_devices)),
        principles=principles,
    )
