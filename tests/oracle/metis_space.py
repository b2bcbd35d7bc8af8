"""Every plan that ``metis`` looks at, by its definition and in plain Python.

What the definition says of stages before their warm-up counts are known: a stage's
pace is its mean time per body unit; memory takes every body unit for the largest of
its stage's strategy; warm-up counts are those of the schedule
where some stage takes as long as all would that share the units without loss.
"""

from __future__ import annotations

from itertools import groupby, pairwise, permutations, product
from typing import TYPE_CHECKING

from tests.oracle import brute_force

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from tests.oracle.brute_force import Found

    Host = tuple[int, int]


def plans(problem: Problem, table: CostTable) -> Iterator[Found]:
    """Yield them, feasible or not by what the pins say of stages and order."""
    for part in table.slices:
        if problem.pins.microbatches.permits(part.microbatches):
            for hosts, body in layouts(problem, table, part):
                yield from _priced(problem, table, part, hosts, body)


def layouts(
    problem: Problem, table: CostTable, part: TableSlice
) -> Iterator[tuple[list[Host], list[int]]]:
    """Yield hosts and body units of every stage."""
    pins, names = problem.pins, table.cluster_names
    length = sum(table.body[kind] for kind in table.units)
    sizes = [
        sorted({s.devices for s in own.strategies if s.cp == 1})
        for own in part.clusters
    ]
    for counts in product(*(range(devices + 1) for devices in table.cluster_devices)):
        if not 1 <= sum(counts) <= length or not pins.stages.permits(sum(counts)):
            continue
        if not all(
            pins.of(name).stages.permits(count)
            for name, count in zip(names, counts, strict=True)
        ):
            continue
        rows = [
            groups(devices, own, count)
            for devices, own, count in zip(
                table.cluster_devices, sizes, counts, strict=True
            )
        ]
        if any(len(row) != count for row, count in zip(rows, counts, strict=True)):
            continue
        for order in permutations(j for j, count in enumerate(counts) if count):
            named = tuple(names[j] for j in order)
            if pins.order not in (None, named):
                continue
            if not any(pair in pins.forbidden_next for pair in pairwise(named)):
                line = [(j, size) for j in order for size in rows[j]]
                yield from walk(table, part, line, length)


def groups(devices: int, sizes: Sequence[int], stages: int) -> list[int]:
    """Return two neighbouring sizes: the smaller one as large as can be."""
    for small in reversed(range(len(sizes))):
        if stages and sizes[small] * stages <= devices:
            for more in range(stages, -1, -1):
                large = sizes[min(small + 1, len(sizes) - 1)]
                row = [large] * more + [sizes[small]] * (stages - more)
                if sum(row) <= devices:
                    return row
    return []


def walk(
    table: CostTable, part: TableSlice, line: Sequence[tuple[int, int]], length: int
) -> Iterator[tuple[list[Host], list[int]]]:
    """Go from strategy to strategy while memory is short somewhere."""
    levels = ("none", "selective", "full")
    ladders = []
    for j, size in line:
        own = part.clusters[j].strategies
        rungs = [k for k, s in enumerate(own) if s.cp == 1 and s.devices == size]
        rungs.sort(key=lambda k: (levels.index(own[k].recompute), own[k].tp, own[k].dp))
        ladders.append([(j, k) for k in rungs])
    while True:
        hosts = [ladder[0] for ladder in ladders]
        time = [max(1.0, _mean(table, part, host)) for host in hosts]
        pace = length / sum(1 / own for own in time)
        room = _rooms(table, part, hosts, int(pace))
        if min(room) >= 1 and sum(room) >= length:
            units = [1] * len(hosts)
            while sum(units) < length:
                _, i = min(
                    (_ends(table, part, hosts, i) + (units[i] + 1) * time[i], i)
                    for i in range(len(hosts))
                    if units[i] < room[i]
                )
                units[i] += 1
            yield hosts, units
        lacking = [
            (room[i] - pace / time[i], i)
            for i, ladder in enumerate(ladders)
            if room[i] < max(1.0, pace / time[i]) and len(ladder) > 1
        ]
        if not lacking:
            return
        ladders[min(lacking)[1]].pop(0)


def _body(table: CostTable) -> list[int]:
    return [kind for kind in table.units if table.body[kind]]


def _tau(part: TableSlice, host: Host, kind: int) -> int:
    own = part.clusters[host[0]]
    return int(own.forward_ns[host[1], kind] + own.backward_ns[host[1], kind])


def _mean(table: CostTable, part: TableSlice, host: Host) -> float:
    body = _body(table)
    return sum(_tau(part, host, kind) for kind in body) / len(body)


def _end_kinds(table: CostTable, i: int, stages: int) -> list[int]:
    """Kinds of the units outside of the body that stage i holds."""
    body = [u for u, kind in enumerate(table.units) if table.body[kind]]
    kinds = list(table.units[: body[0]]) if i == 0 else []
    return kinds + (list(table.units[body[-1] + 1 :]) if i == stages - 1 else [])


def _ends(table: CostTable, part: TableSlice, hosts: Sequence[Host], i: int) -> int:
    kinds = _end_kinds(table, i, len(hosts))
    return sum(_tau(part, hosts[i], kind) for kind in kinds)


def _rooms(
    table: CostTable, part: TableSlice, hosts: Sequence[Host], pace: int
) -> list[int]:
    """Most body units per stage, found by adding one after the other."""
    q, body = part.microbatches, sorted(set(_body(table)))
    counts = _warmups(table, part, hosts, pace)
    rooms = []
    for i, (j, k) in enumerate(hosts):
        own = part.clusters[j]
        held, alive = _end_kinds(table, i, len(hosts)), min(q, counts[i])

        peak = max(int(own.temporary_bytes[k, kind]) for kind in (*body, *held))
        need = int(own.fixed_bytes[k]) + peak
        for kind in held:
            need += int(own.state_bytes[k, kind])
            need += alive * int(own.activation_bytes[k, kind])
        each = max(int(own.state_bytes[k, kind]) for kind in body)
        each += alive * max(int(own.activation_bytes[k, kind]) for kind in body)
        most = 0
        while most < len(_body(table)) and need + each <= table.usable_bytes[j]:
            need, most = need + each, most + 1
        rooms.append(most)
    return rooms


def _warmups(
    table: CostTable, part: TableSlice, hosts: Sequence[Host], pace: int
) -> list[int]:
    if table.schedule == "gpipe":
        return [part.microbatches] * len(hosts)
    inside = [u for u, kind in enumerate(table.units) if table.body[kind]]
    classes = sorted({table.cuts[u] for u in inside[:-1]})
    kappa = []
    for before, after in pairwise(hosts):
        a, b = (int(part.clusters[j].layout[k]) for j, k in (before, after))
        kappa.append(max(int(part.transfer_ns[x, a, b]) for x in classes))
    counts = [1]
    for i in reversed(range(len(hosts) - 1)):
        step = {"1f1b": 1, "eager-1f1b": 2}.get(table.schedule)
        if table.schedule == "virtual-1f1b":
            step = 1 + (hosts[i][0] != hosts[i + 1][0])
        if step is None:
            longest = max(pace, *kappa)
            assert table.warmup_epsilon is not None
            quick = round(1 / table.warmup_epsilon) * kappa[i] <= longest
            step = 1 if quick else 2 + (2 * kappa[i] > longest)
        counts.insert(0, counts[0] + step)
    return counts


def _priced(
    problem: Problem,
    table: CostTable,
    part: TableSlice,
    hosts: Sequence[Host],
    body: Sequence[int],
) -> Iterator[Found]:
    """Yield the plan, if it fits with the warm-up counts it then has."""
    runs = [(host, len(list(run))) for host, run in groupby(hosts)]
    shape = (
        len(hosts),
        part.microbatches,
        tuple(j for (j, _), _ in runs),
        tuple(k for (_, k), _ in runs),
        tuple(count for _, count in runs),
    )
    units = tuple(
        count + len(_end_kinds(table, i, len(hosts))) for i, count in enumerate(body)
    )
    for found in brute_force._splits(problem, table, part, shape):
        if found.units == units:
            yield found
