"""The best hosts of a pinned layout of chunks, and the proof that there are no better.

With the chunks of all stages given, a plan is a cluster and a strategy for each stage.
Every (p, q) is searched stage by stage, best bound first. Stage i of some plan begins
no earlier than its first micro-batch can reach it, then runs all its passes, and after
that its last gradient still goes back to the first stage (``schedule.chunk_paths``):
the largest of these times of the stages placed so far bounds all plans that begin
alike, and so does the least that the slowest of the others takes on the clusters that
are left. Whole plans are priced.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.base.interruption import released
from hetopt.errors import InputError
from hetopt.formulations.decision import Decision
from hetopt.formulations.permitted import Permitted
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.pricing.uneven import counts_by_chunk
from hetopt.problem.training.principles import PRUNED
from hetopt.schedule.warmup import held_by_chunk
from hetopt.solvers.race.ledger import Ledger
from hetopt.solvers.race.messages import NO_CUTOFF, Verdict, cutoff_of
from hetopt.solvers.race.outcome import result_of
from hetopt.solvers.simulated.ledger import SimulatedLedger
from hetopt.solvers.simulated.solver import ENDED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.slice import TableSlice
    from hetopt.results.result import Objective, Result
    from hetopt.solvers.race.ledger import Program
    from hetopt.solvers.request import Request

    Ints = NDArray[np.int64]

#: Nodes between two reports of progress, and most that wait to be searched.
_TOLD, _MOST = 500, 1_000_000
#: With more clusters than this a bound may use each of them more than once.
_MOST_CLUSTERS = 8


def solve_uneven(
    request: Request, objective: Objective, solver: str, patience_s: float | None
) -> Result:
    """Find the best plan of a table with a layout, and bound all others.

    Parameters
    ----------
    patience_s
        Seconds for the proof if there is no time limit; None: no limit.

    Raises
    ------
    InputError
        The solver is not ``auto``.
    """
    if solver != "auto":
        msg = f"fixes where chunks end, which {solver} does not search: use auto"
        raise InputError(msg, field=f"pin.{request.problem.pins.cuts_key}")
    deadline = request.deadline
    if patience_s is not None and deadline.limit_s is None:
        request = replace(request, deadline=deadline.until(patience_s))
    kind = SimulatedLedger if objective == "simulated" else Ledger
    ledger = kind(
        request.problem,
        request.table,
        top=request.params.top,
        limit=cutoff_of(request.cutoff_s),
    )
    if request.journal is not None:
        request.journal.resume(ledger, request)
    interrupted = False
    try:
        programs = sorted(ledger.open(), key=lambda each: each.rank)
        searches = [_Search(request, ledger, each) for each in programs]
        for first in (True, False):
            for search in searches:
                search.run(first=first)
    except KeyboardInterrupt:
        interrupted = True
    result = result_of(
        ledger,
        request.problem,
        request.table,
        solver=solver,
        principles=PRUNED,
        search_time_s=request.deadline.elapsed_s(),
        objective=objective,
    )
    if request.deadline is not deadline and request.deadline.is_over():
        result = replace(result, choice=ENDED % patience_s)
    return replace(result, interrupted=interrupted)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hosts:
    """What stages take on one cluster, by strategy and stage; shapes (K, p).

    Attributes
    ----------
    busy
        All passes of the iteration.
    first, last
        The forward and the backward pass of the stage's first chunk.
    sync
        g, without tied embeddings.
    fits
        Whether the stage fits into memory.
    most
        Stages of a strategy that the cluster has room for; shape (K,).
    """

    layout: Ints
    busy: Ints
    first: Ints
    last: Ints
    sync: Ints
    fits: NDArray[np.bool_]
    most: Ints

    @classmethod
    def of(
        cls, own: ClusterTable, counts: Ints, microbatches: int, usable: int
    ) -> _Hosts:
        """Return them from the units of each kind by stage and chunk; (p, v, N)."""
        p, v, _ = counts.shape
        every = counts.sum(axis=1)
        forward, backward = own.forward_ns, own.backward_ns
        held = [
            (
                held_by_chunk(p, v, microbatches, i)
                @ (counts[i] @ own.activation_bytes.T)
            ).max(axis=0)
            for i in range(p)
        ]
        temporary = [own.temporary_bytes[:, each > 0].max(axis=1) for each in every]
        need = own.state_bytes @ every.T + np.stack([*map(np.add, held, temporary)], 1)
        return cls(
            layout=own.layout,
            busy=microbatches * ((forward + backward) @ every.T),
            first=forward @ counts[:, 0].T,
            last=backward @ counts[:, 0].T,
            sync=own.sync_ns[:, None] + own.sync_unit_ns @ every.T,
            fits=need + own.fixed_bytes[:, None] <= usable,
            most=own.max_stages,
        )

    def running(self, i: int) -> Ints:
        """Return the time of the slowest of stages i to e, by strategy and e.

        NO_CUTOFF if one of them does not fit; shape (K, p - i).
        """
        spent = np.where(self.fits, self.busy + self.sync, NO_CUTOFF)[:, i:]
        return np.maximum.accumulate(spent, axis=1)

    def longest(self, i: int) -> Ints:
        """Return the same, NO_CUTOFF beyond the stages that there is room for."""
        found = self.running(i)
        found[np.arange(found.shape[1]) >= self.most[:, None]] = NO_CUTOFF
        return found


class _Node(NamedTuple):
    """Stages 0 to i - 1 with their hosts.

    Attributes
    ----------
    hosts
        Cluster and strategy of each stage.
    bound
        Of all plans that begin alike, in ns.
    reached, left
        Until stage i can begin, and from the end of its last gradient to the end of the
        iteration, without what its own boundary takes.
    """

    hosts: tuple[tuple[int, int], ...]
    bound: int
    reached: int
    left: int


class _Search:
    """The search of one (p, q)."""

    def __init__(self, request: Request, ledger: Ledger, program: Program) -> None:
        table = request.table
        self.request, self.ledger, self.program = request, ledger, program
        self.part: TableSlice = table.at(program.microbatches)
        counts = counts_by_chunk(table)
        self.units = tuple(map(int, counts.sum(axis=(1, 2))))
        pairs = zip(self.part.clusters, table.usable_bytes, strict=True)
        self.hosts = [
            _Hosts.of(own, counts, program.microbatches, usable)
            for own, usable in pairs
        ]
        assert table.layout is not None
        self.cuts = [table.cuts[end - 1] for end in table.layout[: len(counts)]]
        self.permitted = Permitted.of(request.problem.rules, table.cluster_names)
        # Without sets of clusters where these are too many.
        self.every = (1 << len(self.hosts)) - 1
        self.one_each = len(self.hosts) <= _MOST_CLUSTERS
        self.alone = [
            [own.longest(i) for i in range(len(self.units) + 1)] for own in self.hosts
        ]
        self.least = lru_cache(maxsize=None)(self._least)
        self.number, self.searched = count(), count(1)
        self.waiting: list[tuple[int, int, int, _Node]] = []
        self._push(_Node((), self.least(self.every, 0), 0, 0), deep=True)

    def _least(self, left: int, i: int) -> int:
        """Return the least time of the slowest stage from i on, on some clusters.

        Parameters
        ----------
        left
            The clusters, as bits.
        """
        if i == len(self.units):
            return 0
        found = NO_CUTOFF
        for j, own in enumerate(self.alone):
            if left >> j & 1:
                rest = left & ~(1 << j) if self.one_each else left
                for stages, longest in enumerate(
                    own[i].min(axis=0, initial=NO_CUTOFF).tolist(), start=1
                ):
                    if longest < found:
                        later = self.least(rest, i + stages)
                        found = min(found, max(longest, later))
        return found

    def _later(self, j: int, i: int, used: int, rooms: Ints) -> Ints:
        """Return the least time of the slowest stage from i on, by strategy of j; (K,).

        Parameters
        ----------
        used
            The clusters that host the stages before, as bits.
        rooms
            Stages for which each strategy has room; shape (K,).
        """
        left = self.every & ~used if self.one_each else self.every
        count = len(self.units) - i
        later = np.array([self.least(left, i + n) for n in range(count + 1)])
        own = np.pad(self.hosts[j].running(i), ((0, 0), (1, 0)))
        both = np.maximum(own, later)
        both[np.arange(count + 1) > rooms[:, None]] = NO_CUTOFF
        found: Ints = both.min(axis=1)
        return found

    def run(self, *, first: bool) -> None:
        """Search until the program is settled or the time is up.

        Parameters
        ----------
        first
            Whether to stop at the first plan, which is searched depth first.
        """
        ledger, program = self.ledger, self.program
        while self.waiting and program.how is None:
            with released():
                *_, node = heapq.heappop(self.waiting)
                if node.bound * PERIOD_SCALE > ledger.cutoff:
                    if first:
                        continue
                    break
                done = len(node.hosts) == len(self.units) and self._price(node)
                if len(node.hosts) < len(self.units):
                    for child in self._children(node):
                        self._push(child, deep=first)
            if next(self.searched) % _TOLD == 0:
                self._tell()
            over = self.request.deadline
            late = over.is_over() if ledger.plans else over.is_long_over()
            if self.waiting and (late or len(self.waiting) > _MOST):
                least = min(each[-1].bound for each in self.waiting)
                least = max(program.bound, min(least, node.bound) * PERIOD_SCALE)
                self._settle(closed=False, bound=least)
            elif first and done:
                # All others are searched bound first.
                left = [each[-1] for each in self.waiting]
                self.waiting.clear()
                for each in left:
                    self._push(each, deep=False)
                return
        if program.how is None:
            own = [each.value for each in ledger.plans.values() if program.holds(each)]
            self._settle(closed=True, bound=min([ledger.cutoff + 1, *own]))

    def _push(self, node: _Node, *, deep: bool) -> None:
        depth, bound = -len(node.hosts), node.bound
        key = (depth, bound) if deep else (bound, depth)
        heapq.heappush(self.waiting, (*key, next(self.number), node))

    def _settle(self, *, closed: bool, bound: int) -> None:
        verdict = Verdict(closed=closed, searched=True, bound=bound)
        self.ledger.settle(self.program, verdict)
        if self.request.journal is not None:
            self.request.journal.settled(self.ledger, self.program)
        self._tell()

    def _tell(self) -> None:
        told = self.request.params.on_progress
        if told is not None:
            told(self.ledger.progress(self.request.deadline.elapsed_s()))

    def _children(self, node: _Node) -> Iterator[_Node]:
        """Yield the node with one stage more, on every host that it may have."""
        i, used = len(node.hosts), [j for j, _ in node.hosts]
        for j, own in enumerate(self.hosts):
            goes_on = bool(used) and used[-1] == j
            if used and not goes_on:
                if j in used or not self.permitted.may_follow(used[-1], j):
                    continue
            elif not used and not self.permitted.may_open(j):
                continue
            used_bits = sum(1 << other for other in {*used, j})
            rooms = own.most - (used.count(j) + 1)
            later = self._later(j, i + 1, used_bits, rooms)
            for k in np.flatnonzero(own.fits[:, i]).tolist():
                if rooms[k] < 0 or (goes_on and node.hosts[-1][1] != k):
                    continue
                kappa = 0
                if used:
                    before = self.hosts[used[-1]].layout[node.hosts[-1][1]]
                    kappa = int(
                        self.part.transfer_ns[self.cuts[i - 1], before, own.layout[k]]
                    )
                reached = node.reached + kappa
                left = max(int(own.sync[k, i]), node.left + kappa if used else 0)
                bound = max(node.bound, reached + int(own.busy[k, i]) + left)
                reached += int(own.first[k, i])
                yield _Node(
                    (*node.hosts, (j, k)),
                    max(bound, reached + int(later[k])),
                    reached,
                    left + int(own.last[k, i]),
                )

    def _price(self, node: _Node) -> bool:
        """Record a whole plan; return whether pins permit it."""
        runs = list(dict.fromkeys(node.hosts))
        clusters = self.part.clusters
        decision = Decision(
            microbatches=self.program.microbatches,
            order=tuple(j for j, _ in runs),
            strategies=tuple(clusters[j].strategies[k] for j, k in runs),
            hosted=tuple(map(node.hosts.count, runs)),
            units=self.units,
        )
        if not self.permitted.permits(decision):
            return False
        found = self.ledger.value_of(decision)
        if self.ledger.find(found) and self.request.journal is not None:
            self.request.journal.found(self.ledger, found)
        return True
