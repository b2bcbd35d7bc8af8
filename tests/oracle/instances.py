"""Small synthetic instances: a problem and a latency table that agree.

Every time and byte is drawn at random and straight into the table, so that an
instance can be as odd as the table's format permits (a boundary that costs more
one way than the other, a head slower than all layers together) where tables built
by the cost model never are. What the table must share with the problem (names,
devices, permitted strategies, memory) it does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetopt.cost.folding import folded, pair_columns
from hetopt.cost.table.cluster import ClusterTable
from hetopt.cost.table.table import CostTable
from hetopt.problem.digest import problem_digest
from hetopt.problem.problem import Problem
from hetopt.problem.training.choices import INTERLEAVED, SCHEDULES, ScheduleName
from hetopt.problem.training.epsilon import EPSILONS
from hetopt.problem.training.pins import Domain
from hetopt.problem.training.principles import Principles
from hetopt.schedule.schedules import rule_of
from tests.oracle import wide
from tests.oracle.problems import draw_problem
from tests.oracle.tables import draw_table

#: Schedules whose stages hold one chunk of the model.
ONE_CHUNK = tuple(
    name
    for name in SCHEDULES
    if not (rule_of(name).interleaved or rule_of(name).folded)
)
#: Those whose stages also compute while boundaries transfer, and run whole backward
#: passes.
OVERLAPPING = tuple(
    name for name in ONE_CHUNK if not (rule_of(name).blocking or rule_of(name).splits)
)
#: All others.
OTHERS = tuple(name for name in SCHEDULES if name not in OVERLAPPING)
#: Plans an instance may have before memory and pins, so that brute force is quick.
MAX_PLANS = 40_000
#: The same where no principle is kept.
MAX_WIDE_PLANS = 6_000
#: The same where warm-up counts are free.
MAX_FREE_PLANS = 4_000
#: Nothing but P2.
WIDEST = Principles(consecutive=False, sharing="any")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A problem and its table; ``seed`` makes the same one again."""

    seed: int
    problem: Problem
    table: CostTable


def make_instance(
    seed: int,
    *,
    schedule: ScheduleName | None = None,
    pinned: bool | None = None,
    clusters: int | None = None,
    widest: bool = False,
    most: int | None = None,
    experts: bool = False,
) -> Instance:
    """Draw an instance; consecutive seeds go through the five schedules.

    Parameters
    ----------
    seed
        Of the generator.
    schedule
        The schedule, or None for ``OVERLAPPING[seed % 5]``.
    pinned
        Whether there may be pins; None leaves it to the generator.
    clusters
        Number of clusters, or None to draw it.
    widest
        Whether brute force is to be quick even where P3 and P4 are relaxed.
    most
        Plans it may have before memory and pins, or None for what suits the schedule.
    experts
        Whether some layers or all have routed experts.
    """
    rng = Random(seed)
    schedule = schedule or OVERLAPPING[seed % len(OVERLAPPING)]
    if most is None:
        most = MAX_FREE_PLANS if schedule == "free-1f1b" else MAX_PLANS
    pinned = rng.random() < 0.5 if pinned is None else pinned
    size = 1.0
    while True:
        problem = draw_problem(
            rng, schedule, clusters, pinned=pinned, size=size, experts=experts
        )
        table = draw_table(rng, problem, size=size)
        few = count_plans(table) <= most
        if few and widest:
            counted = wide.count_plans(table, WIDEST, MAX_WIDE_PLANS)
            few = counted <= MAX_WIDE_PLANS
        if few:
            return Instance(seed=seed, problem=problem, table=table)
        size *= 0.85


#: How much longer transfers take, and which share of that the link is busy.
SLOWNESS = ((0.02, 1.0), (1.0, 0.3), (8.0, 1.0), (60.0, 0.01))


def make_slow(seed: int, **options: Any) -> Instance:
    """Draw an instance under ``h-1f1b``; consecutive seeds have ever slower links.

    Four seeds each have the default epsilon, and two others.

    Parameters
    ----------
    options
        As of ``make_instance``.
    """
    drawn = {"schedule": "h-1f1b", "pinned": seed % 3 == 0, **options}
    epsilon = EPSILONS[seed // len(SLOWNESS) % len(EPSILONS)]
    return slowed(
        make_instance(seed, **drawn), *SLOWNESS[seed % len(SLOWNESS)], epsilon
    )


def slowed(
    instance: Instance, times: float, busy: float, epsilon: float | None
) -> Instance:
    """Return the instance with links that are so many times as slow.

    Parameters
    ----------
    busy
        Share of its transfers for which a link is busy, at most.
    epsilon
        As of ``Training``.
    """
    slices = tuple(
        replace(
            part,
            transfer_ns=(part.transfer_ns * times).astype(np.int64),
            occupancy_ns=np.minimum(
                part.transfer_ns * times, part.occupancy_ns * times * busy
            ).astype(np.int64),
        )
        for part in instance.table.slices
    )
    problem = instance.problem.under(
        instance.problem.training.schedule, epsilon=epsilon
    )
    table = replace(
        instance.table,
        slices=slices,
        warmup_epsilon=epsilon,
        problem_digest=problem_digest(problem),
    )
    return replace(instance, problem=problem, table=table)


def make_chunked(seed: int, chunks: int, **options: Any) -> Instance:
    """Draw an instance whose stages hold so many chunks.

    Parameters
    ----------
    options
        As of ``make_instance``.
    """
    return chunked(make_instance(seed, schedule="eager-1f1b", **options), chunks)


def chunked(instance: Instance, chunks: int) -> Instance:
    """Return the instance with so many chunks a stage.

    What is drawn for a model stands for one chunk of one that has as many times its
    layers.
    """
    problem, table = instance.problem, instance.table
    layers, experts = problem.model.layers, problem.model.experts
    if experts is not None:
        # Every chunk is like the first.
        starts = range(0, layers * chunks, layers)
        dense = tuple(own + start for start in starts for own in experts.dense_layers)
        experts = replace(experts, dense_layers=dense)
    model = replace(problem.model, layers=layers * chunks, experts=experts)
    training = replace(problem.training, schedule=INTERLEAVED, chunks=chunks)
    problem = replace(problem, model=model, training=training)
    # Between two chunks as between two layers.
    first = [table.body[kind] for kind in table.units].index(True)
    length = sum(table.body[kind] for kind in table.units)
    way_back = table.cuts[first + length - 1]
    table = replace(
        table,
        problem_digest=problem_digest(problem),
        schedule=INTERLEAVED,
        chunks=chunks,
        way_back=way_back,
        slices=tuple(
            replace(part, chunks=chunks, way_back=way_back) for part in table.slices
        ),
    )
    return replace(instance, problem=problem, table=table)


def make_split(seed: int, schedule: ScheduleName = "zb-h1", **options: Any) -> Instance:
    """Draw an instance whose gradients of weights run apart.

    Parameters
    ----------
    options
        As of ``make_instance``.
    """
    return split(make_instance(seed, schedule="1f1b", **options), schedule)


def split(instance: Instance, schedule: ScheduleName) -> Instance:
    """Return the instance with gradients of weights that run apart."""
    problem, table = instance.problem, instance.table
    training = replace(problem.training, schedule=schedule)
    problem = replace(problem, training=training)
    table = replace(table, problem_digest=problem_digest(problem), schedule=schedule)
    return replace(instance, problem=problem, table=with_weights(table))


def make_folded(seed: int, schedule: ScheduleName = "zb-v", **options: Any) -> Instance:
    """Draw an instance whose stages hold two chunks, the second on the way back.

    Parameters
    ----------
    options
        As of ``make_instance``.
    """
    instance = make_instance(seed, schedule="1f1b", **options)
    if len(set(instance.table.cuts)) > 1:
        # What crosses a boundary up would not be what crosses it down.
        return make_folded(seed + 100_000, schedule, **options)
    return folded_back(instance, Random(seed), schedule)


def folded_back(
    instance: Instance, rng: Random, schedule: ScheduleName = "zb-v"
) -> Instance:
    """Return the instance, which has one class of cuts, as half of a folded one.

    What is drawn for a model stands for its first half; in the second half units of the
    same kinds may come in another order.
    """
    problem, table, pins = instance.problem, instance.table, instance.problem.pins
    if pins.units is not None and len(table.units) - 1 == sum(pins.units) - 1:
        # Embedding and head are one pair.
        pins = replace(pins, units=(*pins.units[:-1], pins.units[-1] - 1))
    problem = replace(
        problem,
        model=replace(problem.model, layers=2 * problem.model.layers),
        training=replace(problem.training, schedule=schedule),
        pins=pins,
    )
    first, *body, last = table.units
    back = [kind if rng.random() < 0.7 else rng.choice(body) for kind in body]
    table = replace(
        table,
        problem_digest=problem_digest(problem),
        schedule=schedule,
        units=(first, *body, *reversed(back), last),
        cuts=(0,) * (2 * len(body) + 1),
    )
    table = folded(with_weights(table))
    return replace(instance, problem=problem, table=table)


def with_weights(table: CostTable) -> CostTable:
    """Return a table in which gradients of weights are apart, drawn by its content."""
    slices = tuple(
        replace(part, clusters=tuple(map(_split, part.clusters)))
        for part in table.slices
    )
    return replace(table, slices=slices)


def _split(own: ClusterTable) -> ClusterTable:
    """Draw gradients of weights; equal clusters have equal ones."""
    rng = Random(f"{own.backward_ns.tolist()} {own.activation_bytes.tolist()}")
    most = rng.choice((0.0, 0.2, 0.5, 0.5))
    shape = own.backward_ns.shape

    def shares(limit: float) -> NDArray[np.float64]:
        return np.array(
            [rng.uniform(0, limit) for _ in range(own.backward_ns.size)]
        ).reshape(shape)

    # At most half, to the nanosecond.
    weight_ns = np.floor(own.backward_ns * shares(most)).astype(np.int64)
    waiting = own.activation_bytes * shares(rng.choice((0.5, 1.5)))
    return replace(own, weight_ns=weight_ns, weight_bytes=waiting.astype(np.int64))


def make_other(seed: int, kind: ScheduleName, **options: Any) -> Instance:
    """Draw an instance of any schedule, of two to four chunks where it has several.

    Parameters
    ----------
    options
        As of ``make_instance``.
    """
    if rule_of(kind).interleaved:
        return make_chunked(seed, 2 + seed % 3, **options)
    if rule_of(kind).folded:
        return make_folded(seed, kind, **options)
    if rule_of(kind).splits:
        return make_split(seed, kind, **options)
    return make_instance(seed, schedule=kind, **options)


def make_apart(seed: int, kind: ScheduleName) -> Instance:
    """Draw an instance of unequal clusters, all used, with slow links between them.

    All stages of one cluster may take many times as long, and boundaries to another
    cluster as long as its slowest units. So windows of the period are as long as its
    busiest stage. Plans need little memory, and the ends of the model little time.
    """
    instance = make_other(seed, kind, clusters=2 + seed % 2, most=3000, pinned=False)
    problem, rng = instance.problem, Random(f"apart {seed}")
    own = {
        each.name: replace(
            problem.pins.of(each.name), stages=Domain(allowed=frozenset({1, 2}))
        )
        for each in problem.clusters
    }
    problem = replace(problem, pins=replace(problem.pins, clusters=own))
    slowest, times = rng.choice(problem.clusters).name, rng.choice((1, 3, 10, 30))
    link, weight = rng.choice((0.1, 0.3, 1.0, 2.0)), rng.choice((0, 1, 2))
    slices = []
    for part in instance.table.slices:
        clusters = tuple(
            _apart(
                each,
                times=times if name == slowest else 1,
                quarters=weight,
                ends=~np.array(instance.table.body),
                pairs=part.pairs,
            )
            for name, each in zip(
                instance.table.cluster_names, part.clusters, strict=True
            )
        )
        longest = max(int(each.round_trip_ns.max(initial=1)) for each in clusters)
        home = np.array([layout.cluster for layout in part.layouts])
        across = int(link * longest) + part.transfer_ns % 97
        transfer = np.where(home[:, None] == home[None, :], part.transfer_ns, across)
        slices.append(
            replace(
                part,
                clusters=clusters,
                transfer_ns=transfer,
                occupancy_ns=np.minimum(transfer, part.occupancy_ns),
            )
        )
    table = replace(
        instance.table, problem_digest=problem_digest(problem), slices=tuple(slices)
    )
    return Instance(seed=seed, problem=problem, table=table)


def _apart(
    own: ClusterTable,
    *,
    times: int,
    quarters: int,
    ends: NDArray[np.bool_],
    pairs: tuple[tuple[int, int], ...] | None,
) -> ClusterTable:
    """Return a cluster as ``make_apart`` has it.

    Parameters
    ----------
    quarters
        Of the backward pass that gradients of weights take, if they are apart.
    ends
        Which kinds are at the ends of the model; shape (N,).
    """
    columns = own.columns()
    changed = {name: column.copy() for name, column in columns.items()}
    for name in ("forward_ns", "backward_ns"):
        changed[name] *= times
        changed[name][:, ends] //= 20
    if own.weight_ns is not None:
        changed["weight_ns"] = changed["backward_ns"] * quarters // 4
    for name in changed:
        if name.endswith("_bytes"):
            changed[name] //= 8
        elif name.startswith("sync"):
            changed[name] //= 10
    made = replace(own, strategies=own.strategies, **changed)
    if pairs is None:
        return made
    for name, column in pair_columns(made, pairs).items():
        changed[name][:, -len(pairs) :] = column
    return replace(own, strategies=own.strategies, **changed)


def count_plans(table: CostTable) -> int:
    """Plans of the pruned space, memory and pins aside.

    Counts (stages per used cluster, strategies) pairs of every subset of clusters
    by a product of polynomials in the number of stages, times orders and splits.
    """
    body = sum(table.body[kind] for kind in table.units)
    total = 0
    for part in table.slices:
        # ways[used][p]: strategies and stage counts of `used` clusters, p stages
        ways = {(0, 0): 1}
        for own in part.clusters:
            after = dict(ways)
            for (used, stages), count in ways.items():
                for limit in own.max_stages:
                    for more in range(1, int(limit) + 1):
                        key = (used + 1, stages + more)
                        after[key] = after.get(key, 0) + count
            ways = after
        total += sum(
            count * math.factorial(used) * math.comb(body - 1, stages - 1)
            for (used, stages), count in ways.items()
            if 0 < stages <= body
        )
    return total
