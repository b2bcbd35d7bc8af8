"""What a decision is worth, exactly: floating-point solvers' answers are checked."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hetopt.schedule.times import PipelineTimes
from hetopt.schedule.warmup import warmup_counts
from hetopt.solvers.assembly import value_of

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
    part = data.part
    hosts: list[Host] = []
    for j, strategy, hosted in zip(
        decision.order, decision.strategies, decision.hosted, strict=True
    ):
        table = part.clusters[j]
        hosts += [(j, table, table.strategies.index(strategy))] * hosted
    counts = _counts(decision, data)
    times = _times(decision, data, hosts, counts)
    for (j, table, k), count, inflight in zip(
        hosts, counts, times.inflight, strict=True
    ):
        per_unit = table.state_bytes[k] + inflight * table.activation_bytes[k]
        need = int(table.fixed_bytes[k]) + sum(
            n * int(bytes_) for n, bytes_ in zip(count, per_unit, strict=True)
        )
        need += max(int(table.temporary_bytes[k][f]) for f, n in enumerate(count) if n)
        if need > data.usable_bytes[j]:
            return None
    return value_of(times)


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
    return PipelineTimes(
        schedule=data.schedule,
        microbatches=decision.microbatches,
        forward_ns=tuple(forward),
        backward_ns=tuple(backward),
        transfer_ns=tuple(transfer),
        occupancy_ns=tuple(int(part.occupancy_ns[key]) for key in keys),
        sync_ns=tuple(sync),
        warmups=warmup_counts(
            data.schedule,
            microbatches=decision.microbatches,
            crosses=[before[0] != after[0] for before, after in pairwise(hosts)],
            round_trip_ns=[f + b for f, b in zip(forward, backward, strict=True)],
            transfer_ns=transfer,
        ),
    )
