"""What a decision is worth in its program, exactly: solvers' answers are checked.

A program's slice of the table may be cut at a cutoff and hold few strategies; plans are
priced over the whole table (``hetopt.pricing``). The race holds the one against the
other (``Worker._ensure_same``), so neither is made of the other.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from hetopt.schedule.chunks import Chunks
from hetopt.schedule.folding import Fold
from hetopt.schedule.times import PipelineTimes
from hetopt.schedule.warmup import warmup_counts
from hetopt.solvers.decisions.assembly import value_of
from hetopt.solvers.decisions.free_warmups import (
    free_warmups,
    most_in_flight,
    steady_warmups,
)

if TYPE_CHECKING:
    from hetopt.cost.table import ClusterTable
    from hetopt.formulations.decision import Decision
    from hetopt.formulations.program import ProgramData

    #: Cluster, its coefficients, the strategy's index.
    Host = tuple[int, ClusterTable, int]


def exact_value(decision: Decision, data: ProgramData) -> int | None:
    """Return a decision's objective in 1 / PERIOD_SCALE ticks.

    None if a stage does not fit into memory. The rest of what a program demands is
    of small whole numbers, which floating point does not get wrong.
    """
    hosts = _hosts(decision, data)
    counts = _counts(decision, data)
    most = _most_in_flight(hosts, counts, data)
    times = _times(decision, data, hosts, counts)
    if decision.warmups is None and data.rule.free:
        warmups = free_warmups(times, most)
        if warmups is None:
            return None
        times = replace(times, warmups=warmups)
    ahead = data.part.ahead
    if any(map(int.__lt__, most, (held - ahead for held in times.inflight))):
        return None
    return value_of(times)


def with_warmups(
    decision: Decision, data: ProgramData, *, steady: bool = False
) -> Decision:
    """Return a decision under ``auto`` with its best warm-up counts, if it fits.

    Parameters
    ----------
    steady
        Whether to leave out that all forwards come first.
    """
    hosts = _hosts(decision, data)
    counts = _counts(decision, data)
    most = _most_in_flight(hosts, counts, data)
    times = _times(decision, data, hosts, counts)
    if steady:
        found = steady_warmups(times, most)
        return decision if found is None else replace(decision, warmups=found[1])
    return replace(decision, warmups=free_warmups(times, most))


def _hosts(decision: Decision, data: ProgramData) -> list[Host]:
    """Return the host of each stage."""
    hosts: list[Host] = []
    for j, strategy, hosted in zip(
        decision.order, decision.strategies, decision.hosted, strict=True
    ):
        table = data.part.clusters[j]
        hosts += [(j, table, table.row(strategy))] * hosted
    return hosts


def _most_in_flight(
    hosts: list[Host], counts: list[list[int]], data: ProgramData
) -> list[int]:
    """Return how many micro-batches fit on each stage, or passes beside those ahead."""
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


def _counts(decision: Decision, data: ProgramData) -> list[list[int]]:
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


def _times(
    decision: Decision,
    data: ProgramData,
    hosts: list[Host],
    counts: list[list[int]],
) -> PipelineTimes:
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
    chunks = None
    if part.way_back is not None:
        # What the ends add to which chunk is not part of the closed form.
        back = part.way_back, layouts[-1], layouts[0]
        chunks = Chunks(
            count=part.chunks,
            way_back_ns=int(part.transfer_ns[back]),
            way_back_occupancy_ns=int(part.occupancy_ns[back]),
        )
    weights = None
    if data.rule.splits:
        weights = tuple(sums("weight_ns"))
    fold = None
    if data.rule.folded:
        # What is of which chunk is no part of the closed form either.
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
        chunks=chunks,
        weight_ns=weights,
        fold=fold,
    )


def _warmups(
    decision: Decision,
    data: ProgramData,
    hosts: list[Host],
    round_trip: list[int],
    transfer: list[int],
) -> tuple[int, ...]:
    if decision.warmups is not None or data.rule.free:
        return decision.warmups or (1,) * len(hosts)
    return warmup_counts(
        data.schedule,
        microbatches=decision.microbatches,
        crosses=[before[0] != after[0] for before, after in pairwise(hosts)],
        round_trip_ns=round_trip,
        transfer_ns=transfer,
        chunks=data.part.chunks,
    )
