"""Options of a pipeline on one seat, which is its share of the nodes.

If there are too many ways to cut the units, one option is a bound on all of them, and
the others are the cuts that are even for one of the lengths.
"""

from __future__ import annotations

from itertools import pairwise, permutations, product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from hetopt.formulations.lengths.option import SCALE, Host, Option
from hetopt.solvers.lengths.cuts import all_cuts, even_cut
from hetopt.solvers.lengths.front import Front
from hetopt.solvers.lengths.paths import PathPricing
from hetopt.solvers.lengths.prices import ROUNDING, Pricing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.base.deadline import Deadline
    from hetopt.cost.shapes import Ints
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.problem import Problem

#: Most choices of hosts for the stages of pipelines over several clusters that are
#: tried for one size of micro-batches.
MOST_CHOICES = 2_000


def options_of(
    problem: Problem,
    own: Problem,
    tables: Sequence[CostTable],
    deadline: Deadline | None = None,
    *,
    simulated: bool = False,
    alone: bool = False,
) -> list[Option]:
    """Return options of one seat; bounds among them cover all other pipelines.

    Parameters
    ----------
    problem, own
        The whole problem, and that of the seat.
    tables
        Tables of the seat by length, the shortest first.
    deadline
        When it is over, and some pipeline takes all sequences, one bound for each size
        of micro-batches covers what is left.
    simulated
        Whether they are bounds on the simulated time, not priced in closed form.
    alone
        Whether there is no other pipeline, so that this one takes all sequences.
    """
    sequences = [n for _, n in sorted(problem.training.sequences.items())]
    batch = problem.training.global_batch
    body = [tables[-1].body[kind] for kind in tables[-1].units]
    counts = [{part.microbatches for part in each.slices} for each in tables]
    front = Front()
    todo: list[tuple[int, int, Pricing, tuple[Host, ...]]] = []
    for microbatches in sorted(counts[0]):
        # Longer sequences may not fit in such large micro-batches.
        able = next(
            (n for n, each in enumerate(counts) if microbatches not in each),
            len(counts),
        )
        each = batch // microbatches
        counts_each = [-(-n // each) for n in sequences[:able]]
        pricing = (PathPricing if simulated else Pricing)(
            tables[:able], microbatches, counts_each
        )
        if isinstance(pricing, PathPricing):
            pricing.takes_all = alone and able == len(tables)
        chosen, complete = choices(own, pricing, sum(body))
        if not complete:
            front.add(_unseen(own, pricing, each))
        todo += [(len(hosts), each, pricing, hosts) for hosts in chosen]
    # Few stages come first: pipelines that these dominate need not be cut.
    todo.sort(key=lambda one: one[:2])
    for done, (_, each, pricing, hosts) in enumerate(todo):
        if deadline is not None and _is_late(deadline, front, len(tables)):
            for size, left in {each: own for _, each, own, _ in todo[done:]}.items():
                front.add(_unseen(own, left, size))
            break
        bounds = _bounds(pricing, hosts, each)
        if front.passes(bounds):
            front.add(_cut(pricing, hosts, body, bounds))
    return front.options()


def _is_late(deadline: Deadline, front: Front, lengths: int) -> bool:
    """Whether the time is up; a first pipeline is looked for a little longer."""
    return deadline.is_over() and (
        deadline.is_long_over()
        or any(
            option.hosts and option.longest == lengths - 1 for option in front.options()
        )
    )


def choices(
    own: Problem, pricing: Pricing, most: int
) -> tuple[list[tuple[Host, ...]], bool]:
    """Return choices of hosts for the stages, and whether they are complete.

    Parameters
    ----------
    most
        Most stages.
    """
    strategies = [pricing.strategies(j) for j in range(len(own.clusters))]
    orders = list(_orders(own))
    complete = True
    kept = max((len(each) for each in strategies), default=0)
    while True:
        runs = [
            _runs(pricing, j, _quickest(pricing, j, each, kept))
            for j, each in enumerate(strategies)
        ]
        many = sum(prod(len(runs[j]) for j in o) for o in orders if len(o) > 1)
        if many <= MOST_CHOICES or kept <= 1:
            break
        kept, complete = kept // 2, False
    every = [_runs(pricing, j, strategies[j]) for j in range(len(own.clusters))]
    found = []
    for order in orders:
        own_runs = [(runs if len(order) > 1 else every)[j] for j in order]
        for chosen in product(*own_runs):
            hosts = tuple(host for host, stages in chosen for _ in range(stages))
            if len(hosts) <= most:
                found.append(hosts)
    return found, complete


def _orders(own: Problem) -> Iterator[tuple[int, ...]]:
    """Yield the orders of clusters along a pipeline that pins and links permit."""
    names = [cluster.name for cluster in own.clusters]
    forbidden = own.rules.forbidden_next
    for number in range(1, len(names) + 1):
        for order in permutations(range(len(names)), number):
            along = [names[j] for j in order]
            ends = own.links.between(along[0], along[-1]) if number > 1 else True
            if own.model.shares_table and ends is None:
                continue
            if not any(pair in forbidden for pair in pairwise(along)):
                yield order


def _quickest(
    pricing: Pricing, cluster: int, strategies: Sequence[Strategy], kept: int
) -> list[Strategy]:
    """Return strategies that take the least device time for some length."""
    if kept >= len(strategies):
        return list(strategies)
    found: dict[Strategy, None] = {}
    for number in pricing.lengths:
        spent = {}
        for strategy in strategies:
            row = pricing.row(number, Host(cluster, strategy))
            if row is not None:
                times = pricing.unit_times([row])[0]
                spent[strategy] = int(times.sum()) * strategy.devices
        for strategy in sorted(spent, key=lambda each: spent[each])[:kept]:
            found[strategy] = None
    return list(found)[: max(kept, 1) * 2]


def _runs(
    pricing: Pricing, cluster: int, strategies: Sequence[Strategy]
) -> list[tuple[Host, int]]:
    """Return the strategies of a cluster with every possible number of stages."""
    return [
        (host, stages)
        for strategy in strategies
        for host in [Host(cluster, strategy)]
        for stages in range(1, pricing.most_stages(host) + 1)
    ]


def _cut(
    pricing: Pricing,
    hosts: tuple[Host, ...],
    body: Sequence[bool],
    bounds: Sequence[Option],
) -> list[Option]:
    """Return options whose stages have these hosts.

    Parameters
    ----------
    bounds
        Bounds on all these options; not empty.
    """
    cuts = all_cuts(body, len(hosts))
    found: list[Option] = []
    if cuts is None:
        found += bounds
        cuts = _even_cuts(pricing, hosts, body)
    if not len(cuts):
        return found
    for longest, prices in pricing.of(hosts, cuts).items():
        fixed, rates = prices.fixed.tolist(), prices.rates.tolist()
        found += [
            Option(
                per_microbatch=bounds[0].per_microbatch,
                longest=longest,
                fixed=fixed[s],
                rates=tuple(rates[s]),
                hosts=hosts,
                cut=tuple(cuts[s].tolist()),
            )
            for s in np.flatnonzero(prices.fits).tolist()
        ]
    return found


def _even_cuts(pricing: Pricing, hosts: tuple[Host, ...], body: Sequence[bool]) -> Ints:
    found: dict[tuple[int, ...], None] = {}
    for number in pricing.lengths:
        rows = pricing.able(number, hosts)
        cut = None if rows is None else even_cut(pricing.unit_times(rows), body)
        if cut is not None:
            found[tuple(cut.tolist())] = None
    return np.array(list(found), dtype=np.int64).reshape(-1, len(hosts) + 1)


def _bounds(pricing: Pricing, hosts: tuple[Host, ...], each: int) -> list[Option]:
    """Return bounds on all cuts, one for each longest length."""
    return [
        Option(per_microbatch=each, longest=longest, fixed=fixed, rates=rates)
        for longest, (fixed, rates) in pricing.bounds(hosts).items()
    ]


def _unseen(own: Problem, pricing: Pricing, each: int) -> list[Option]:
    """Return bounds on all pipelines over several clusters, by device time."""
    rates = []
    for number in pricing.lengths:
        quickest = []
        for j, cluster in enumerate(own.clusters):
            rows = [
                (row, strategy.devices)
                for strategy in pricing.strategies(j)
                if (row := pricing.row(number, Host(j, strategy))) is not None
            ]
            if rows:
                spent = [pricing.unit_times([row])[0] * n for row, n in rows]
                quickest.append((np.min(spent, axis=0).astype(float), cluster.devices))
        if not quickest:
            rates.append(-1)
            continue
        first = np.maximum(quickest[0][0], 1)
        pace = sum(n / float((t / first).min()) for t, n in quickest)
        rates.append(int(float(first.sum()) / pace * SCALE * (1 - ROUNDING)))
    return [
        Option(
            per_microbatch=each,
            longest=longest,
            fixed=0,
            rates=tuple(rates[: longest + 1]),
        )
        for longest in pricing.lengths
        if rates[longest] >= 0
    ]
