"""Times and memory of a decision's stages in its program, added up unit by unit."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hetopt.schedule.times import Chunks, Fold, PipelineTimes
from hetopt.schedule.warmup import warmup_counts

if TYPE_CHECKING:
    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.formulations.decision import Decision
    from hetopt.formulations.program import ProgramData

    #: Cluster, its coefficients, the strategy's index.
    Host = tuple[int, ClusterTable, int]


def hosts_of(decision: Decision, data: ProgramData) -> list[Host]:
    """Return the host of each stage."""
    hosts: list[Host] = []
    for j, strategy, hosted in zip(
        decision.order, decision.strategies, decision.hosted, strict=True
    ):
        table = data.part.clusters[j]
        hosts += [(j, table, table.row(strategy))] * hosted
    return hosts


def most_in_flight(usable: int, base: int, each: int, microbatches: int) -> int:
    """Return how many micro-batches fit on a stage, at most q.

    Parameters
    ----------
    usable, base, each
        Bytes of memory, of the stage without activations, and of one micro-batch.
    """
    if base + microbatches * each <= usable:
        return microbatches
    # Micro-batches without bytes do not fit either if ``base`` exceeds the memory.
    return max(0, (usable - base) // each) if each else 0


def most_held(
    hosts: list[Host], counts: list[list[int]], data: ProgramData
) -> list[int]:
    """Return how many micro-batches (passes beside those ahead) fit on each stage."""
    most = []
    for (j, table, k), count in zip(hosts, counts, strict=True):
        base = int(table.fixed_bytes[k]) + sum(
            n * int(state) for n, state in zip(count, table.state_bytes[k], strict=True)
        )
        base += max(int(table.temporary_bytes[k][f]) for f, n in enumerate(count) if n)
        each = sum(
            n * int(active)
            for n, active in zip(count, table.activation_bytes[k], strict=True)
        )
        most.append(
            most_in_flight(data.usable_bytes[j], base, each, data.part.most_held)
        )
    return most


def counts_of(decision: Decision, data: ProgramData) -> list[list[int]]:
    """Return the units of each kind on each stage."""
    chain = data.chain
    kinds = range(len(chain.lead))
    units = [f for f in kinds for _ in range(chain.lead[f])]
    units += [*chain.body, *(f for f in kinds for _ in range(chain.trail[f]))]
    counts = []
    first = 0
    for count in decision.units:
        held = units[first : first + count]
        counts.append([held.count(f) for f in kinds])
        first += count
    return counts


def times_of(
    decision: Decision,
    data: ProgramData,
    hosts: list[Host],
    counts: list[list[int]],
) -> PipelineTimes:
    """Return the times of a decision's stages, with the warm-ups of its schedule."""
    part, chain = data.part, data.chain

    def sums(name: str) -> list[int]:
        return [
            sum(n * int(t) for n, t in zip(count, getattr(table, name)[k], strict=True))
            for (_, table, k), count in zip(hosts, counts, strict=True)
        ]

    forward, backward = sums("forward_ns"), sums("backward_ns")
    layouts = [int(table.layout[k]) for _, table, k in hosts]
    ends = [sum(decision.units[: i + 1]) for i in range(len(hosts) - 1)]
    keys = [
        (chain.cuts[end - sum(chain.lead) - 1], a, b)
        for end, (a, b) in zip(ends, pairwise(layouts), strict=True)
    ]
    transfer = [int(part.transfer_ns[key]) for key in keys]
    sync = [
        int(table.sync_ns[k]) + unit
        for (_, table, k), unit in zip(hosts, sums("sync_unit_ns"), strict=True)
    ]
    if part.tied_ns is not None and len(hosts) > 1:
        tied = int(part.tied_ns[layouts[0], layouts[-1]])
        sync[0] += tied
        sync[-1] += tied
    weights = None
    if data.rule.splits:
        weights = tuple(sums("weight_ns"))
    fold = None
    if data.rule.folded:
        # The closed form does not depend on how times divide between the two chunks.
        fold = Fold(
            forward_ns=tuple(forward),
            backward_ns=tuple(backward),
            weight_ns=weights or (),
            handed_on_ns=tuple(sums("handed_on_ns")),
            fill_ns=tuple(sums("fill_ns")),
        )
    round_trip = [f + b for f, b in zip(forward, backward, strict=True)]
    return PipelineTimes(
        schedule=data.schedule,
        microbatches=decision.microbatches,
        forward_ns=tuple(forward),
        backward_ns=tuple(backward),
        transfer_ns=tuple(transfer),
        occupancy_ns=tuple(int(part.occupancy_ns[key]) for key in keys),
        sync_ns=tuple(sync),
        warmups=_warmups(decision, data, hosts, round_trip, transfer),
        chunks=_chunks(data, layouts),
        weight_ns=weights,
        fold=fold,
    )


def _chunks(data: ProgramData, layouts: list[int]) -> Chunks | None:
    """Return the way back from the last stage to the first; None with one chunk."""
    part = data.part
    if part.way_back is None:
        return None
    # The closed form does not depend on which chunk the ends are in.
    back = part.way_back, layouts[-1], layouts[0]
    return Chunks(
        count=part.chunks,
        way_back_ns=int(part.transfer_ns[back]),
        way_back_occupancy_ns=int(part.occupancy_ns[back]),
    )


def _warmups(
    decision: Decision,
    data: ProgramData,
    hosts: list[Host],
    round_trip: list[int],
    transfer: list[int],
) -> tuple[int, ...]:
    if decision.warmups is not None:
        return decision.warmups
    return warmup_counts(
        data.schedule,
        microbatches=decision.microbatches,
        crosses=[before[0] != after[0] for before, after in pairwise(hosts)],
        round_trip_ns=round_trip,
        transfer_ns=transfer,
        chunks=data.part.chunks,
        epsilon=data.warmup_epsilon,
    )
