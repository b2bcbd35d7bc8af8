"""Brute force over the whole space of MODEL.md section 2, pruned or not: the oracle.

Every micro-batch count, subset and order of clusters, strategy and stage count per
cluster, and split of the units is tried. Windows of the period are enumerated one
by one. Where P3 or P4 is relaxed, every sequence of stages is tried
(``tests.oracle.wide``). Nothing here is shared with hetopt.schedule, hetopt.pricing,
hetopt.formulations or hetopt.solvers.

How the open ends of the model are read:

* A plan's *value* is its closed form with the period rounded up to a whole
  nanosecond. Plans are ranked by (value, devices, key); the exact closed form of
  the best plan may exceed another's by less than q - 1 nanoseconds.
* ``stages`` and ``units`` pins of a cluster that is not used see the value 0;
  ``dp``, ``cp``, ``tp`` and ``recompute`` pins are already in the table.
* A forbidden pair (a, b) says that b does not directly follow a along the pipeline.
* Under ``free-1f1b`` every plan is tried with all warm-up counts that may matter; of
  the best ones it has those of least sum, then the lexicographically smallest. For the
  simulated time all counts up to q are tried, the last stage's too.
* Tied embeddings add ``tied_ns[first, last]`` to g of the first and the last stage
  when p > 1, and nothing when p = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise, permutations, product
from typing import TYPE_CHECKING

from hetopt.cost.table_file.file import table_digest
from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.problem.training.choices import RESHARDING
from hetopt.problem.training.principles import PRUNED
from tests.oracle import chunks, folding, weights, wide
from tests.oracle.nodes import room
from tests.oracle.plan_times import (
    Pieces,
    closed_form,
    freely,
    freely_simulated,
    hapt_steps,
    simulated_ns,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles

    #: Stages, micro-batches; cluster, strategy and stages of each run.
    Shape = tuple[int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One plan.

    Attributes
    ----------
    shape
        (p, q, clusters in pipeline order, strategy index of each, stages of each);
        where P3 or P4 is relaxed, of each run.
    units
        Units per stage.
    value_ns
        Closed form with the period rounded up to a whole nanosecond.
    closed_form_ns
        The exact closed form.
    warmups
        Per stage.
    simulated_ns
        The simulated time; None where nobody asked for it.
    """

    shape: Shape
    units: tuple[int, ...]
    devices: int
    value_ns: int
    closed_form_ns: Fraction
    warmups: tuple[int, ...]
    simulated_ns: int | None = None

    @property
    def rank(self) -> tuple[object, ...]:
        """What plans are ordered by, best first."""
        key = (self.devices, self.shape, self.units)
        if self.simulated_ns is not None:
            return (self.simulated_ns, self.closed_form_ns, *key)
        return (self.value_ns, *key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """All that brute force finds.

    Attributes
    ----------
    shapes
        The best plan of every shape, best first; empty when infeasible.
    plans
        Number of feasible plans.
    """

    shapes: tuple[Found, ...]
    plans: int

    @property
    def best(self) -> Found | None:
        """The plan to be reported, or None when the instance is infeasible."""
        return self.shapes[0] if self.shapes else None

    @property
    def programs(self) -> dict[tuple[int, int], Found]:
        """Best plan of every feasible (p, q)."""
        best: dict[tuple[int, int], Found] = {}
        for found in self.shapes:
            best.setdefault(found.shape[:2], found)
        return best


def solve(
    problem: Problem,
    table: CostTable,
    principles: Principles = PRUNED,
    *,
    simulated: bool = False,
) -> Answer:
    """Try every plan, and rank them by simulated time if asked to."""
    best: dict[Shape, Found] = {}
    plans = 0
    for found in every_plan(problem, table, principles, simulated=simulated):
        plans += 1
        known = best.get(found.shape)
        if known is None or found.rank < known.rank:
            best[found.shape] = found
    return Answer(
        shapes=tuple(sorted(best.values(), key=lambda found: found.rank)), plans=plans
    )


def every_plan(
    problem: Problem,
    table: CostTable,
    principles: Principles = PRUNED,
    *,
    simulated: bool = False,
) -> Iterator[Found]:
    """Yield every feasible plan."""
    for part in table.slices:
        if not problem.pins.microbatches.permits(part.microbatches):
            continue
        pieces = Pieces(table, part)
        skeletons = (
            wide.skeletons(problem, table, part, principles)
            if principles.relaxed
            else _skeletons(problem, table, part)
        )
        for order, strategies, stages in skeletons:
            shape = (sum(stages), part.microbatches, order, strategies, stages)
            yield from _splits(problem, table, pieces, shape, simulated=simulated)


def to_plan(problem: Problem, table: CostTable, found: Found) -> Plan:
    """Write a found plan as hetopt's own."""
    _, q, order, strategies, stages = found.shape
    part = table.at(q)
    hosts = _hosts(order, strategies, stages)
    ends = _ends(found.units)
    made = []
    for i, (cluster, k) in enumerate(hosts):
        own = part.clusters[cluster]
        resharding = None
        cut = table.cuts[ends[i + 1] - 1] if i + 1 < len(hosts) else table.way_back
        if cut is not None:
            after, k_after = hosts[i + 1] if i + 1 < len(hosts) else hosts[0]
            index = part.resharding[
                cut, own.layout[k], part.clusters[after].layout[k_after]
            ]
            resharding = RESHARDING[index]
        strategy: Strategy = own.strategies[k]
        made.append(
            Stage(
                cluster=table.cluster_names[cluster],
                first_unit=ends[i],
                end_unit=ends[i + 1],
                strategy=strategy,
                warmup=found.warmups[i],
                resharding=resharding,
            )
        )
    return Plan(
        schedule=problem.training.schedule,
        warmup_epsilon=problem.training.epsilon,
        pipelines=(Pipeline(microbatches=q, stages=tuple(made)),),
        problem_digest=table.problem_digest,
        table_digest=table_digest(table),
        chunks=table.chunks,
    )


def _skeletons(
    problem: Problem, table: CostTable, part: TableSlice
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """Yield (clusters in order, strategy of each, stages of each)."""
    names = table.cluster_names
    pins = problem.pins
    body = sum(table.body[kind] for kind in table.units)
    for used in range(1, len(names) + 1):
        for order in permutations(range(len(names)), used):
            named = tuple(names[j] for j in order)
            if pins.order is not None and named != pins.order:
                continue
            if any(pair in pins.forbidden_next for pair in pairwise(named)):
                continue
            met = set(pairwise(named))
            if part.tied_ns is not None and used > 1:
                met.add((named[0], named[-1]))
            if any(problem.links.between(*pair) is None for pair in met):
                continue
            idle = [name for name in names if name not in named]
            if not all(
                pins.of(name).stages.permits(0) and pins.of(name).units.permits(0)
                for name in idle
            ):
                continue
            for strategies in product(
                *(range(len(part.clusters[j].strategies)) for j in order)
            ):
                used_ones = [
                    part.clusters[j].strategies[k]
                    for j, k in zip(order, strategies, strict=True)
                ]
                most_stages = [
                    room(problem.clusters[j], own.devices, own.inside)
                    for j, own in zip(order, used_ones, strict=True)
                ]
                if any(
                    problem.training.global_batch
                    % (part.microbatches * part.clusters[j].strategies[k].dp)
                    for j, k in zip(order, strategies, strict=True)
                ):
                    continue
                for stages in product(*(range(1, most + 1) for most in most_stages)):
                    p = sum(stages)
                    if p > body or not pins.stages.permits(p):
                        continue
                    # Megatron-LM asks for both where stages hold several chunks.
                    if table.chunks > 1 and (p < 2 or part.microbatches % p):
                        continue
                    if table.pairs is not None and part.microbatches <= p:
                        continue
                    if all(
                        pins.of(name).stages.permits(count)
                        for name, count in zip(named, stages, strict=True)
                    ):
                        yield order, strategies, stages


# Rule after rule, as MODEL.md has them: to be read beside it.
def _splits(
    problem: Problem,
    table: CostTable,
    pieces: Pieces,
    shape: Shape,
    *,
    simulated: bool,
) -> Iterator[Found]:
    """Yield every feasible plan of one shape."""
    p, q, order, strategies, stages = shape
    pins = problem.pins
    total = len(table.units)
    is_body = [table.body[kind] for kind in table.units]
    hosts = _hosts(order, strategies, stages)
    layouts = [int(pieces.part.clusters[j].layout[k]) for j, k in hosts]
    devices = sum(pieces.part.clusters[j].strategies[k].devices for j, k in hosts)
    schedule = table.schedule
    steps: list[int] | None = None
    if schedule != "h-1f1b":
        steps = [
            2
            if schedule in ("eager-1f1b", "interleaved-1f1b")
            or (schedule == "virtual-1f1b" and hosts[i][0] != hosts[i + 1][0])
            else 1
            for i in range(p - 1)
        ]
    for cuts in combinations(range(1, total), p - 1):
        ends = (0, *cuts, total)
        units = tuple(b - a for a, b in pairwise(ends))
        if pins.units is not None and units != pins.units:
            continue
        if not all(any(is_body[a:b]) for a, b in pairwise(ends)):
            continue
        if not _unit_pins_hold(problem, table, order, stages, units):
            continue
        forward, backward, sync = [], [], []
        for i, host in enumerate(hosts):
            phi, beta, g = pieces.times(host, ends[i], ends[i + 1])
            forward.append(phi)
            backward.append(beta)
            sync.append(g)
        if p > 1 and pieces.tied is not None:
            extra = pieces.tied[layouts[0]][layouts[-1]]
            sync[0] += extra
            sync[-1] += extra
        kappa, omega = [], []
        for i, cut in enumerate(cuts):
            x = table.cuts[cut - 1]
            kappa.append(pieces.transfer[x][layouts[i]][layouts[i + 1]])
            omega.append(pieces.occupancy[x][layouts[i]][layouts[i + 1]])
        _share(
            pieces.part,
            [j for j, _ in hosts],
            omega,
            in_phases=schedule == "gpipe",
        )
        warmups = [q] * p
        if schedule == "free-1f1b":
            caps = [
                max(
                    (
                        w
                        for w in range(1, q + 1)
                        if pieces.memory(host, ends[i], ends[i + 1], w)
                        <= table.usable_bytes[host[0]]
                    ),
                    default=0,
                )
                for i, host in enumerate(hosts)
            ]
            if simulated:
                chosen = freely_simulated(
                    q, forward, backward, kappa, omega, sync, caps
                )
            else:
                chosen = freely(q, forward, backward, kappa, omega, caps)
            if chosen is None:
                continue
            warmups = list(chosen)
        elif schedule != "gpipe":
            used = steps
            if used is None:
                used = hapt_steps(forward, backward, kappa, problem.training.epsilon)
            warmups = [1] * p
            for i in range(p - 2, -1, -1):
                warmups[i] = warmups[i + 1] + used[i]
        v = table.chunks
        if v > 1:
            warmups = chunks.warmups(p, v)
        if schedule == "zb-v":
            warmups = [2 * p - i for i in range(p)]
        held = [min(warmup, q * v) for warmup in warmups]
        at_ends = [(0, 0)] * p
        if v > 1:
            held = [chunks.most_held(p, q, v, i, None) for i in range(p)]
            at_ends[0] = (held[0], chunks.most_held(p, q, v, 0, 0))
            at_ends[-1] = (held[-1], chunks.most_held(p, q, v, p - 1, v - 1))
        needs = [
            pieces.memory(host, ends[i], ends[i + 1], held[i], at_ends[i])
            for i, host in enumerate(hosts)
        ]
        if schedule == "zb-h1":
            needs = [
                weights.memory(
                    table,
                    pieces.part,
                    host,
                    (ends[i], ends[i + 1]),
                    (held[i], min(p, q) - held[i]),
                )
                for i, host in enumerate(hosts)
            ]
        if schedule == "zb-v":
            needs = [
                folding.memory(
                    table, pieces.part, host, (ends[i], ends[i + 1]), (p, q, i)
                )
                for i, host in enumerate(hosts)
            ]
        if any(
            need > table.usable_bytes[j]
            for need, (j, _) in zip(needs, hosts, strict=True)
        ):
            continue
        all_first = schedule == "free-1f1b" and min(warmups) >= q
        if v > 1:
            tau = [f + b for f, b in zip(forward, backward, strict=True)]
            around = pieces.way_back(hosts[-1], hosts[0])
            value, exact = chunks.closed_form(q, v, tau, kappa, omega, sync, around)
        elif schedule == "zb-v":
            pairs = [
                folding.pairs(table, pieces.part, host, (ends[i], ends[i + 1]))
                for i, host in enumerate(hosts)
            ]
            value, exact = folding.closed_form(q, pairs, kappa, omega, sync)
        elif schedule == "zb-h1":
            later = [
                weights.weights(table, pieces.part, host, ends[i], ends[i + 1])
                for i, host in enumerate(hosts)
            ]
            value, exact = weights.closed_form(
                q, forward, backward, later, kappa, omega, sync
            )
        else:
            value, exact = closed_form(
                "gpipe" if all_first else schedule,
                q,
                forward,
                backward,
                kappa,
                omega,
                sync,
                warmups,
            )
        yield Found(
            shape=shape,
            units=units,
            devices=devices,
            value_ns=value,
            closed_form_ns=exact,
            warmups=tuple(warmups),
            simulated_ns=(
                simulated_ns(q, forward, backward, kappa, omega, sync, warmups)
                if simulated
                else None
            ),
        )


def _share(
    part: TableSlice, clusters: Sequence[int], omega: list[int], *, in_phases: bool
) -> None:
    """Have all boundaries that share an uplink or a link pass it in a period.

    (MODEL.md, section 4.)
    """
    shared = part.shared
    if shared is None:
        return
    crossing = [i for i, (a, b) in enumerate(pairwise(clusters)) if a != b]
    for i in crossing:
        a, b = clusters[i], clusters[i + 1]
        for ends, alone in (
            ({a}, shared.uplink_ns[a]),
            ({b}, shared.uplink_ns[b]),
            ({a, b}, shared.link_ns[a, b]),
        ):
            users = [k for k in crossing if ends <= {*clusters[k : k + 2]}]
            n = len(users)
            if in_phases:
                # Activations all go one way, then gradients the other.
                out = sum(clusters[k] == min(ends) for k in users)
                n = max(out, n - out)
            # One transfer alone takes the time of its own tensor, not of the largest.
            if n > 1:
                omega[i] = max(omega[i], n * int(alone))


def _hosts(
    order: Sequence[int], strategies: Sequence[int], stages: Sequence[int]
) -> list[tuple[int, int]]:
    """Return (cluster, strategy) of every stage."""
    return [
        (j, k)
        for j, k, count in zip(order, strategies, stages, strict=True)
        for _ in range(count)
    ]


def _ends(units: Sequence[int]) -> list[int]:
    ends = [0]
    for count in units:
        ends.append(ends[-1] + count)
    return ends


def _unit_pins_hold(
    problem: Problem,
    table: CostTable,
    order: Sequence[int],
    stages: Sequence[int],
    units: Sequence[int],
) -> bool:
    start = 0
    hosted: dict[int, int] = {}
    for j, count in zip(order, stages, strict=True):
        hosted[j] = hosted.get(j, 0) + sum(units[start : start + count])
        start += count
    return all(
        problem.pins.of(table.cluster_names[j]).units.permits(count)
        for j, count in hosted.items()
    )
