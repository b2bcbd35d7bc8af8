"""The best hosts of a pinned layout of chunks, and the proof that there are no better.

With the chunks of all stages given, a plan is a cluster and a strategy for each stage.
Every (p, q) is searched stage by stage, best bound first. Stage i of some plan begins
no earlier than its first micro-batch can reach it, then runs all its passes, and after
that its last gradient still goes back to the first stage (``hetopt.schedule.uneven``):
the largest of these times of the stages placed so far, and of the quickest hosts of the
others, bounds all plans that begin alike. Whole plans are priced.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
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
        raise InputError(msg, field="pin.cuts")
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
        for program in sorted(ledger.open(), key=lambda each: each.rank):
            if program.how is None:
                _Search(request, ledger, program).run()
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
        self.rest = self._rest()

    def _rest(self) -> list[int]:
        """Return the least bound of the stages from each one on, from its begin."""
        never, rest = NO_CUTOFF, [0]
        for i in reversed(range(len(self.units))):
            able = [(own, own.fits[:, i]) for own in self.hosts]
            busy = np.concatenate([own.busy[fits, i] for own, fits in able])
            first = np.concatenate([own.first[fits, i] for own, fits in able])
            later = int(first.min(initial=never)) + rest[0]
            rest.insert(0, min(never, max(int(busy.min(initial=never)), later)))
        return rest

    def run(self) -> None:
        """Search until the program is settled or the time is up."""
        ledger, program, stages = self.ledger, self.program, len(self.units)
        number, deep = count(), not ledger.plans
        waiting: list[tuple[int, int, int, _Node]] = []

        def push(node: _Node) -> None:
            depth, bound = -len(node.hosts), node.bound
            key = (depth, bound) if deep else (bound, depth)
            heapq.heappush(waiting, (*key, next(number), node))

        push(_Node((), self.rest[0], 0, 0))
        searched = 0
        while waiting:
            with released():
                *_, node = heapq.heappop(waiting)
                if node.bound * PERIOD_SCALE > ledger.cutoff:
                    if deep:
                        continue
                    break
                searched += 1
                if len(node.hosts) < stages:
                    for child in self._children(node):
                        push(child)
                else:
                    self._price(node)
                if deep and ledger.plans:
                    # The first plan is found depth first, all others bound first.
                    deep, left = False, [each[-1] for each in waiting]
                    waiting.clear()
                    for each in left:
                        push(each)
            if searched % _TOLD == 0:
                self._tell()
            over = self.request.deadline
            late = over.is_long_over() if deep else over.is_over()
            if late or len(waiting) > _MOST:
                least = min((each[-1].bound for each in waiting), default=node.bound)
                self._settle(closed=False, bound=least * PERIOD_SCALE)
                return
        best = [each.value for each in ledger.plans.values() if program.holds(each)]
        self._settle(closed=True, bound=min([ledger.cutoff + 1, *best]))

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
            for k in np.flatnonzero(own.fits[:, i]).tolist():
                if goes_on and (node.hosts[-1][1] != k or used.count(j) >= own.most[k]):
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
                    max(bound, reached + self.rest[i + 1]),
                    reached,
                    left + int(own.last[k, i]),
                )

    def _price(self, node: _Node) -> None:
        """Record a whole plan, unless pins forbid it."""
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
            return
        found = self.ledger.value_of(decision)
        if self.ledger.find(found) and self.request.journal is not None:
            self.request.journal.found(self.ledger, found)
