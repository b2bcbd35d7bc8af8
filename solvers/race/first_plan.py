"""A quick first plan: one strategy for all stages, found without compiled code.

It is reported if the time is up before a search has found a plan. Every (strategy, p,
q) gets an estimate: stages of equally many units, on the quickest clusters. The best
estimates are made into plans: the slowest stage is made as quick as possible within
the memory of each stage. Plans that fit are priced exactly.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.chunks import with_stages
from hetopt.formulations.chain import Chain
from hetopt.formulations.decision import Decision
from hetopt.formulations.restricting import restrict
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.decisions.pricer import Pricer
from hetopt.solvers.race.device_time import least_ns
from hetopt.solvers.race.ledger import Ledger
from hetopt.solvers.race.messages import NO_CUTOFF, Found

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.problem import Problem

#: Strategies of one cluster and q that are tried; models with experts have tens of
#: thousands.
_MOST_STRATEGIES = 300
#: Decisions of one q that are tried before the next q gets its turn.
_TRIES = 30
#: CPU seconds after which the search ends, with a plan and without one.
_MORE_S, _MOST_S = 0.1, 1.5


def ensure_plan(ledger: Ledger, problem: Problem) -> None:
    """Add a first plan if no plan was found but one may exist."""
    if ledger.is_settled or ledger.plans:
        return
    # A second search would find the same, and takes longest if there is no plan.
    found = None if ledger.looked_at_once else first_plan(problem, ledger.table)
    if found is not None:
        ledger.find(found)


def first_plan(
    problem: Problem, table: CostTable, *, context: bool = True, equal: bool = False
) -> Found | None:
    """Return a plan of one strategy, the best of a few; None if none was found.

    Takes a fraction of a second, at most ``_MOST_S`` CPU seconds. It may miss the only
    plans that fit where memory is very tight.

    Parameters
    ----------
    context
        Whether context parallelism may be used.
    equal
        Whether body units of any two stages differ by one at most, and those with one
        more are the first or the last stages.
    """
    pricer = Pricer(problem, table)
    began, best = time.thread_time(), None
    waiting = deque(
        _decisions(problem, pricer, part, equal=equal)
        for part in _by_bound(problem, table, context=context)
    )
    while waiting:
        decisions = waiting.popleft()
        tried = list(islice(decisions, _TRIES))
        for decision in tried:
            spent_s = time.thread_time() - began
            if spent_s > (_MOST_S if best is None else _MORE_S):
                return best
            if decision is None:
                continue
            value = pricer.value(decision)
            # A longer time is no plan: it waits for a link that is practically dead.
            if value is not None and value <= NO_CUTOFF:
                if best is None or value < best.value:
                    best = Found(decision=decision, value=value)
                break
        else:
            if len(tried) == _TRIES:
                waiting.append(decisions)
    return best


def _by_bound(problem: Problem, table: CostTable, *, context: bool) -> list[TableSlice]:
    """Return the slices with their promising strategies, least bound first.

    Where a slice has many strategies, its bound is over those with room for the model.
    """
    ledger = Ledger(problem, table, top=1, limit=NO_CUTOFF)
    bounds = {each.microbatches: each.bound for each in ledger.programs.values()}
    wanted = []
    for part in table.slices:
        q = part.microbatches
        if q not in bounds:
            continue
        if not context:
            keep = [
                np.flatnonzero([strategy.cp == 1 for strategy in own.strategies])
                for own in part.clusters
            ]
            part = restrict(part, keep)
        if max(len(own.strategies) for own in part.clusters) > _MOST_STRATEGIES:
            part, least = _promising(table, part)
            bounds[q] = max(bounds[q], least)
        wanted.append(part)
    return sorted(wanted, key=lambda part: bounds[part.microbatches])


def _promising(table: CostTable, part: TableSlice) -> tuple[TableSlice, int]:
    """Return the slice with its most promising strategies, and their least bound.

    Those with room for the whole model come first, then those with the least bounds:
    other clusters may hold the rest. The bound, an objective, is over the former alone.
    """
    chain, keep, bound = Chain.of(table), [], float(NO_CUTOFF)
    for j, least in enumerate(least_ns(part, chain)):
        roomy = _held_units(table, part, j, chain) >= chain.length
        bound = min(bound, float(least[roomy].min(initial=np.inf)) * PERIOD_SCALE)
        order = np.lexsort((least, ~roomy))
        keep.append(np.sort(order[:_MOST_STRATEGIES]))
    return restrict(part, keep), int(min(bound, NO_CUTOFF))


def _held_units(
    table: CostTable, part: TableSlice, j: int, chain: Chain
) -> NDArray[np.int64]:
    """Return about how many body units all stages of each strategy hold; (K,)."""
    own, kinds = part.clusters[j], list(chain.kinds)
    body = chain.prefix[-1][kinds] / chain.length
    state, each = (
        own.state_bytes[:, kinds] @ body,
        own.activation_bytes[:, kinds] @ body,
    )
    temporary = own.temporary_bytes[:, kinds].max(axis=1, initial=0)
    room = table.usable_bytes[j] - own.fixed_bytes - temporary
    rule, stages = rule_of(table.schedule), np.minimum(own.max_stages, chain.length)
    held = np.zeros(len(own.strategies), dtype=np.int64)
    for place in range(chain.length):
        inflight = rule.in_flight(1 + rule.inside * place, part.most_held)
        units = np.maximum(room // np.maximum(state + inflight * each, 1), 0)
        held += np.where(place < stages, units, 0).astype(np.int64)
    return held


def _decisions(
    problem: Problem, pricer: Pricer, part: TableSlice, *, equal: bool
) -> Iterator[Decision | None]:
    """Yield decisions at one q that may be plans, roughly the least estimate first.

    None stands for a failed try, which counts because it takes time too.
    """
    q, length = part.microbatches, pricer.chain.length
    rests = pricer.permitted.may_rest
    needed = {j for j in range(len(part.clusters)) if not rests(j)}
    counts = np.array(
        [p for p, m in problem.programs if m == q and len(needed) <= p <= length]
    )
    hosts: dict[Strategy, dict[int, int]] = {}
    for j, own in enumerate(part.clusters):
        for k, strategy in enumerate(own.strategies):
            hosts.setdefault(strategy, {})[j] = k
    places = [
        _OneStrategy(pricer, part, each, hosts[each], needed, equal=equal)
        for each in sorted(hosts)
        if needed <= hosts[each].keys()
    ]
    if not places or not len(counts):
        return
    grid = np.array([alike.estimates(counts) for alike in places])
    # Of each strategy the best p first, then the second best ones.
    ranked = np.argsort(grid, axis=1, kind="stable")
    values = np.take_along_axis(grid, ranked, axis=1)
    for column, value in enumerate(values.T):
        for row in np.argsort(value, kind="stable"):
            if np.isfinite(value[row]):
                yield from places[row].decisions(int(counts[ranked[row, column]]))


class _OneStrategy:
    """Plans of one micro-batch count whose stages all have one strategy.

    Parameters
    ----------
    hosts
        The strategy's index, by cluster that has it.
    needed
        Clusters that have to be used.
    """

    def __init__(
        self,
        pricer: Pricer,
        part: TableSlice,
        strategy: Strategy,
        hosts: dict[int, int],
        needed: set[int],
        *,
        equal: bool,
    ) -> None:
        self._needed, self._equal = needed, equal
        self._pricer = pricer
        self._rule = rule_of(pricer.table.schedule)
        self._part = part
        self._strategy = strategy
        chain = pricer.chain
        self._kinds = list(chain.kinds)
        self._ends = [np.array(chain.lead), np.array(chain.trail)]
        self._hosts = {j: (part.clusters[j], k) for j, k in hosts.items()}
        body = np.bincount(chain.body, minlength=len(chain.lead)) / chain.length
        #: Mean time of a body unit in ns, by cluster; the quickest cluster first.
        tau = {
            j: float((own.forward_ns[k] + own.backward_ns[k]) @ body)
            for j, (own, k) in self._hosts.items()
        }
        self._tau = dict(sorted(tau.items(), key=lambda item: (item[1], item[0])))

    def estimates(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Estimate the time of plans by p, in ns; infinite where none fits."""
        room = np.cumsum([self._room(j) for j in self._tau])
        slowest = np.append(list(self._tau.values()), np.inf)
        length = self._pricer.chain.length
        tau = slowest[np.searchsorted(room, counts)]
        each = -(-length // counts)
        more = self._part.passes - 1
        estimate = tau * (more * each + length)
        # As if every stage were on the cluster with most room for it.
        places = np.arange(counts.max())
        most = np.max([self._most_at(j, places) for j in self._hosts], axis=0)
        fits = (np.cumsum(most) >= length) & (most >= 1)
        return np.where(fits[counts - 1], estimate, np.inf)

    def _most_at(self, j: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the most body units of a stage by place, without the ends."""
        q, rule = self._part.passes, self._rule
        inflight = np.minimum(q, 1 + rule.inside * places)
        if rule.all_first:
            inflight[:] = q
        own, k = self._hosts[j]
        state = int(own.state_bytes[k][self._kinds].min())
        each = state + inflight * int(own.activation_bytes[k][self._kinds].min())
        left = self._pricer.table.usable_bytes[j] - int(own.fixed_bytes[k])
        most: NDArray[np.int64] = max(0, left) // np.maximum(each, 1)
        return most

    def decisions(self, stages: int) -> Iterator[Decision | None]:
        """Yield a few decisions with p = ``stages``; None for one that cannot fit."""
        usable = self._pricer.table.usable_bytes
        quick = self._filled(tuple(self._tau), stages)
        roomy = sorted(quick, key=lambda j: -usable[j])
        spare = self._filled(sorted(self._tau, key=lambda j: -usable[j]), stages)
        for runs in dict.fromkeys(
            (
                tuple((j, quick[j]) for j in roomy),
                tuple(quick.items()),
                tuple(reversed(quick.items())),
                # The quickest clusters may have too little memory for a stage.
                tuple(spare.items()),
            )
        ):
            hosts = [j for j, count in runs for _ in range(count)]
            units = self._shared(hosts, self._most_units(hosts, self._at_rest(stages)))
            if units is None:
                yield None
                continue
            units[0] += int(self._ends[0].sum())
            units[-1] += int(self._ends[1].sum())
            yield Decision(
                microbatches=self._part.microbatches,
                order=tuple(j for j, _ in runs),
                strategies=(self._strategy,) * len(runs),
                hosted=tuple(count for _, count in runs),
                units=tuple(units),
            )

    def _shared(self, hosts: Sequence[int], most: Sequence[int]) -> list[int] | None:
        """Return the body units of each stage; None if some stage has no room."""
        length = self._pricer.chain.length
        if not self._equal:
            return shared(length, [self._tau[j] for j in hosts], most)
        each, rest = divmod(length, len(hosts))
        longer, others = [each + 1] * rest, [each] * (len(hosts) - rest)
        for units in (longer + others, others + longer):
            if all(own <= room for own, room in zip(units, most, strict=True)):
                return units
        return None

    def _filled(self, clusters: Sequence[int], stages: int) -> dict[int, int]:
        """Return the stages of each cluster, with one cluster filled after another."""
        hosted, left = {}, stages - len(self._needed)
        for j in clusters:
            least = int(j in self._needed)
            more = max(0, min(left, self._room(j) - least))
            if least + more:
                hosted[j], left = least + more, left - more
        return hosted

    def _room(self, j: int) -> int:
        own, k = self._hosts[j]
        return int(own.max_stages[k])

    def _at_rest(self, stages: int) -> TableSlice:
        """Return the slice for p = ``stages``, with the passes stages hold ahead."""
        lead, trail = (ends > 0 for ends in self._ends)
        return with_stages(self._part, lead, trail, stages)

    def _most_units(self, hosts: Sequence[int], part: TableSlice) -> list[int]:
        """Return the most body units of each stage, with the fewest warm-ups."""
        rule, q = self._rule, part.most_held
        most, warmups = [], 1
        for place, j in enumerate(reversed(hosts)):
            if place:
                warmups += rule.inside if j == hosts[-place] else rule.across
            inflight = rule.in_flight(warmups, q)
            ends = np.zeros(len(self._ends[0]), dtype=np.int64)
            ends += self._ends[1] if place == 0 else 0
            ends += self._ends[0] if place == len(hosts) - 1 else 0
            most.append(self._most_on(j, part.clusters[j], inflight, ends))
        return most[::-1]

    def _most_on(
        self, j: int, own: ClusterTable, inflight: int, ends: NDArray[np.int64]
    ) -> int:
        k = self._hosts[j][1]
        present = [*self._kinds, *np.flatnonzero(ends)]
        bytes_each = own.state_bytes[k] + inflight * own.activation_bytes[k]
        left = (
            self._pricer.table.usable_bytes[j]
            - int(own.fixed_bytes[k])
            - int(own.temporary_bytes[k][present].max())
            - int(bytes_each @ ends)
        )
        return max(0, left // max(1, int(bytes_each[self._kinds].max())))


def shared(total: int, tau: Sequence[float], most: Sequence[int]) -> list[int] | None:
    """Divide units so that the slowest stage takes the least time; None if none fits.

    Parameters
    ----------
    tau, most
        Time of a unit on each stage, and the most units it holds.
    """
    if min(most) < 1 or sum(most) < total:
        return None
    units = [1] * len(tau)
    # Ordered by the time that a stage would take with one more unit.
    able = [(2 * each, i) for i, each in enumerate(tau) if most[i] > 1]
    heapq.heapify(able)
    for _ in range(total - len(tau)):
        _, i = heapq.heappop(able)
        units[i] += 1
        if units[i] < most[i]:
            heapq.heappush(able, ((units[i] + 1) * tau[i], i))
    return units
