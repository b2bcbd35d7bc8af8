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
* Under ``auto`` every plan is tried with all warm-up counts that may matter; of the
  best ones it has those of least sum, then the lexicographically smallest. For the
  simulated time all counts up to q are tried, the last stage's too.
* Tied embeddings add ``tied_ns[first, last]`` to g of the first and the last stage
  when p > 1, and nothing when p = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise, permutations, product
from typing import TYPE_CHECKING

from hetopt.cost.table_file import table_digest
from hetopt.plans import Pipeline, Plan, Stage
from hetopt.problem.principles import PRUNED
from hetopt.problem.training import RESHARDING
from tests.oracle import wide

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.cost.table import CostTable, TableSlice
    from hetopt.plans import Strategy
    from hetopt.problem.principles import Principles
    from hetopt.problem.problem import Problem

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
        pieces = _Pieces(table, part)
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
        if i + 1 < len(hosts):
            after, k_after = hosts[i + 1]
            index = part.resharding[
                table.cuts[ends[i + 1] - 1],
                own.layout[k],
                part.clusters[after].layout[k_after],
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
        pipelines=(Pipeline(microbatches=q, stages=tuple(made)),),
        problem_digest=table.problem_digest,
        table_digest=table_digest(table),
    )


# --- enumeration --------------------------------------------------------------------


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
            idle = [name for name in names if name not in named]
            if not all(
                pins.of(name).stages.permits(0) and pins.of(name).units.permits(0)
                for name in idle
            ):
                continue
            for strategies in product(
                *(range(len(part.clusters[j].strategies)) for j in order)
            ):
                room = [
                    table.cluster_devices[j] // part.clusters[j].strategies[k].devices
                    for j, k in zip(order, strategies, strict=True)
                ]
                if any(
                    problem.training.global_batch
                    % (part.microbatches * part.clusters[j].strategies[k].dp)
                    for j, k in zip(order, strategies, strict=True)
                ):
                    continue
                for stages in product(*(range(1, most + 1) for most in room)):
                    p = sum(stages)
                    if p > body or not pins.stages.permits(p):
                        continue
                    if all(
                        pins.of(name).stages.permits(count)
                        for name, count in zip(named, stages, strict=True)
                    ):
                        yield order, strategies, stages


def _splits(
    problem: Problem,
    table: CostTable,
    pieces: _Pieces,
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
            if schedule == "eager-1f1b"
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
        warmups = [q] * p
        if schedule == "auto":
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
                chosen = _freely(q, forward, backward, kappa, omega, caps)
            if chosen is None:
                continue
            warmups = list(chosen)
        elif schedule != "gpipe":
            used = steps
            if used is None:
                used = _hapt_steps(forward, backward, kappa)
            warmups = [1] * p
            for i in range(p - 2, -1, -1):
                warmups[i] = warmups[i + 1] + used[i]
        if any(
            pieces.memory(host, ends[i], ends[i + 1], min(warmups[i], q))
            > table.usable_bytes[host[0]]
            for i, host in enumerate(hosts)
        ):
            continue
        all_first = schedule == "auto" and min(warmups) >= q
        value, exact = _closed_form(
            schedule == "gpipe" or all_first,
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
                _simulated(q, forward, backward, kappa, omega, sync, warmups)
                if simulated
                else None
            ),
        )


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


# --- pricing ------------------------------------------------------------------------


class _Pieces:
    """Sums over units, remembered; plain integers, which are exact and quick."""

    def __init__(self, table: CostTable, part: TableSlice) -> None:
        self.table = table
        self.part = part
        self.transfer: list[list[list[int]]] = part.transfer_ns.tolist()
        self.occupancy: list[list[list[int]]] = part.occupancy_ns.tolist()
        self.tied: list[list[int]] | None = (
            None if part.tied_ns is None else part.tied_ns.tolist()
        )
        self._times: dict[tuple[tuple[int, int], int, int], tuple[int, int, int]] = {}
        self._bytes: dict[tuple[tuple[int, int], int, int], tuple[int, int]] = {}

    def times(
        self, host: tuple[int, int], first: int, end: int
    ) -> tuple[int, int, int]:
        """Forward, backward and g of a stage."""
        key = (host, first, end)
        if key not in self._times:
            own, k = self.part.clusters[host[0]], host[1]
            phi = beta = 0
            g = int(own.sync_ns[k])
            for kind in self.table.units[first:end]:
                phi += int(own.forward_ns[k, kind])
                beta += int(own.backward_ns[k, kind])
                g += int(own.sync_unit_ns[k, kind])
            self._times[key] = (phi, beta, g)
        return self._times[key]

    def memory(
        self, host: tuple[int, int], first: int, end: int, in_flight: int
    ) -> int:
        """Bytes a stage needs on each device."""
        key = (host, first, end)
        if key not in self._bytes:
            own, k = self.part.clusters[host[0]], host[1]
            base, each, peak = int(own.fixed_bytes[k]), 0, 0
            for kind in self.table.units[first:end]:
                base += int(own.state_bytes[k, kind])
                each += int(own.activation_bytes[k, kind])
                peak = max(peak, int(own.temporary_bytes[k, kind]))
            self._bytes[key] = (base + peak, each)
        base, each = self._bytes[key]
        return base + in_flight * each


def _hapt_steps(
    forward: Sequence[int], backward: Sequence[int], kappa: Sequence[int]
) -> list[int]:
    """HAPT Eq. 1, 2, 10: how many warm-ups a stage has more than the next."""
    longest = max(f + b for f, b in zip(forward, backward, strict=True))
    if kappa:
        longest = max(longest, *kappa)
    steps = []
    for k in kappa:
        share = Fraction(k, longest)
        steps.append(1 if share <= Fraction(1, 100) else -((-1 - 2 * share) // 1))
    return [int(step) for step in steps]


def _freely(
    q: int,
    forward: Sequence[int],
    backward: Sequence[int],
    kappa: Sequence[int],
    omega: Sequence[int],
    caps: Sequence[int],
) -> tuple[int, ...] | None:
    """Try all warm-up counts; None if nothing fits.

    Lambda is at least every tau, so more than 1 + ceil(2 kappa / max tau) at a
    boundary cannot shorten any window that matters: without the boundary the two
    parts of the window fit into it.

    Parameters
    ----------
    caps
        Most micro-batches of each stage that memory has room for, at most q.
    """
    if min(caps) < 1:
        return None
    p = len(caps)
    tau = [f + b for f, b in zip(forward, backward, strict=True)]
    longest = max(*tau, *omega, 1)
    floor = 1000 * max(*tau, *omega, 0)
    best: tuple[int, int, tuple[int, ...]] | None = None

    def extend(counts: tuple[int, ...], period: int) -> None:
        """Put one more stage before those that have their counts."""
        nonlocal best
        i = p - 1 - len(counts)
        if best is not None and period > best[0]:
            return
        if i < 0:
            found = (period if q > 1 else 0, sum(counts), counts)
            if best is None or found < best:
                best = found
            return
        most = 1 - (-2 * kappa[i] // longest)
        for delta in range(most + 1):
            w = counts[0] + delta
            if min(w, q) > caps[i]:
                break
            length, needed = tau[i], period
            for k, last in enumerate(counts, start=i + 1):
                length += 2 * kappa[k - 1] + tau[k]
                needed = max(needed, -(-1000 * length // (w - last + 1)))
            extend((w, *counts), needed)

    extend((1,), floor)
    if min(caps) == q:
        slowest = max(omega, default=0)
        pace = 1000 * (max(*forward, slowest) + max(*backward, slowest))
        found = (pace if q > 1 else 0, p * q, (q,) * p)
        best = found if best is None else min(best, found)
    return None if best is None else best[2]


def freely_simulated(
    q: int,
    forward: Sequence[int],
    backward: Sequence[int],
    kappa: Sequence[int],
    omega: Sequence[int],
    sync: Sequence[int],
    caps: Sequence[int],
) -> tuple[int, ...] | None:
    """Simulate all warm-up counts that fit; None if nothing does.

    Of the quickest ones those of least sum, then the lexicographically smallest.

    Parameters
    ----------
    caps
        Most micro-batches of each stage that memory has room for, at most q.
    """
    vectors: list[tuple[int, ...]] = [()]
    for cap in reversed(caps):
        vectors = [
            (w, *after)
            for after in vectors
            for w in range(after[0] if after else 1, cap + 1)
        ]
    return min(
        vectors,
        key=lambda counts: (
            _simulated(q, forward, backward, kappa, omega, sync, counts),
            sum(counts),
            counts,
        ),
        default=None,
    )


def _closed_form(
    gpipe: bool,
    q: int,
    forward: Sequence[int],
    backward: Sequence[int],
    kappa: Sequence[int],
    omega: Sequence[int],
    sync: Sequence[int],
    warmups: Sequence[int],
) -> tuple[int, Fraction]:
    """Return the value plans are ranked by, and the exact closed form."""
    tau = [f + b for f, b in zip(forward, backward, strict=True)]
    fill = sum(tau) + 2 * sum(kappa) + max(sync)
    if gpipe:
        slowest = max(omega, default=0)
        steady = max(*forward, slowest) + max(*backward, slowest)
        total = fill + (q - 1) * steady
        return total, Fraction(total)
    period = Fraction(max(*tau, *omega, 0))
    for i in range(len(tau)):
        for k in range(i + 1, len(tau)):
            window = Fraction(
                sum(tau[i : k + 1]) + 2 * sum(kappa[i:k]),
                warmups[i] - warmups[k] + 1,
            )
            period = max(period, window)
    rounded_up = -(-period.numerator // period.denominator)
    return fill + (q - 1) * rounded_up, fill + (q - 1) * period


def _simulated(
    q: int,
    forward: Sequence[int],
    backward: Sequence[int],
    kappa: Sequence[int],
    omega: Sequence[int],
    sync: Sequence[int],
    warmups: Sequence[int],
) -> int:
    """Let every stage do the next thing on its list as soon as its input is there."""
    p = len(forward)
    # What stages have received: micro-batch -> time, forwards and gradients apart.
    inputs: list[dict[int, int]] = [
        dict.fromkeys(range(q), 0) if not i else {} for i in range(p)
    ]
    gradients: list[dict[int, int]] = [
        dict.fromkeys(range(q), 0) if i == p - 1 else {} for i in range(p)
    ]
    lists = []
    for warmup in warmups:
        first = min(warmup, q)
        todo = [(True, n) for n in range(first)]
        for n in range(q):
            todo.append((False, n))
            if first + n < q:
                todo.append((True, first + n))
        lists.append(todo[::-1])
    clock = [0] * p
    down, up = [0] * p, [0] * p
    moved = True
    while moved:
        moved = False
        for i, todo in enumerate(lists):
            while todo and todo[-1][1] in (inputs if todo[-1][0] else gradients)[i]:
                moved = True
                ahead, n = todo.pop()
                arrived = (inputs if ahead else gradients)[i][n]
                took = forward[i] if ahead else backward[i]
                clock[i] = max(clock[i], arrived) + took
                if ahead and i + 1 < p:
                    leaves = max(clock[i], down[i])
                    down[i] = leaves + omega[i]
                    inputs[i + 1][n] = leaves + kappa[i]
                if not ahead and i:
                    leaves = max(clock[i], up[i])
                    up[i] = leaves + omega[i - 1]
                    gradients[i - 1][n] = leaves + kappa[i - 1]
    assert not any(lists)
    return max(end + g for end, g in zip(clock, sync, strict=True))
