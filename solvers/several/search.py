"""Search for the best pipelines side by side (Hetu v2).

Let V(S, n) be the least time of a pipeline that has a share S of the nodes and takes n
sequences. A plan of R pipelines takes max_r V(S_r, n_r), minimised over all ways to
divide the nodes and all n_r that add up to the global batch. Each V is the optimum of a
separate problem (``hetopt.cost.divided``), which a solver for one pipeline solves. All
V are bounded by device time first. Then the search repeatedly takes the division and
batches with the least bound. If all their pipelines are solved, they are optimal; if
not, one of these pipelines is solved, which raises its bound.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.device_work import least_device_seconds
from hetopt.cost.divided import depends_on, part
from hetopt.cost.sources.by_cluster import latency_sources
from hetopt.cost.sources.remembered import RememberedSource
from hetopt.formulations.chain import Chain
from hetopt.plans.plan import Share
from hetopt.problem.division import everything
from hetopt.results.several import PartBound
from hetopt.solvers.fleets.search import bound_of
from hetopt.solvers.progress import Progress
from hetopt.solvers.several.batches import least_longest
from hetopt.solvers.several.divisions import divisions

if TYPE_CHECKING:
    from hetopt.cost.shapes import Floats
    from hetopt.plans.plan import Pipeline
    from hetopt.solvers.request import Request, Solve
    from hetopt.solvers.several.divisions import Division, Parts

#: Bounds in floating point are lowered by this share of themselves.
_ROUNDING = 1e-12


@dataclass(slots=True, eq=False)
class Seat:
    """What is known of pipelines on one share of the nodes, for up to B sequences.

    Attributes
    ----------
    least_s, found_s
        By batch, 0 to B: a lower bound on V, and the time of the best known plan; inf
        if there is none; (B + 1,).
    plans
        The best known plan by batch.
    done
        Batches that were searched.
    """

    least_s: Floats
    found_s: Floats
    done: set[int] = field(default_factory=set)
    plans: dict[int, Pipeline] = field(default_factory=dict)


class SeveralSearch:
    """Searches divisions of nodes and batch until the best is proven, or time is up.

    Attributes
    ----------
    ways
        All divisions; in the first, one pipeline has all nodes.
    bounds
        The bounds that were found, in the order of the search.
    best_s, best
        The least time found, and its pipelines; before a plan is found, the request's
        cutoff (inf without one) and none.
    solver, choice, interrupted
        See ``hetopt.solvers.fleets.search.FleetSearch``.

    Raises
    ------
    InputError
        There are too many divisions.
    """

    def __init__(self, request: Request, solve: Solve, most: int) -> None:
        self._request, self._solve = request, solve
        problem = request.problem
        whole: Parts = tuple(everything(problem).items())
        self.ways: list[Division] = [
            (whole,),
            *divisions(problem, most, cuts=request.params.principles.sharing == "one"),
        ]
        self.bounds: list[PartBound] = []
        self.best_s = math.inf if request.cutoff_s is None else request.cutoff_s
        self.best: tuple[Pipeline, ...] = ()
        self.solver = ""
        self.choice: str | None = None
        self.interrupted = False
        self._source = RememberedSource(latency_sources(problem))
        self._work = least_device_seconds(problem, self._source)
        self._units = Chain.of(request.table).length
        seats: dict[object, Seat] = {}
        self._seats = [
            [self._seat(way, r, seats) for r in range(len(way))] for way in self.ways
        ]
        self._least = np.array(
            [least_longest(self._times(i))[0] for i in range(len(self.ways))]
        )
        self._of: dict[int, list[int]] = defaultdict(list)
        for index, own in enumerate(self._seats):
            for seat in set(map(id, own)):
                self._of[seat].append(index)

    def run(self) -> None:
        """Search what may be better than the best plan so far, and report progress."""
        while not self.interrupted and not self._request.deadline.is_over():
            index = int(self._least.argmin())
            if self._least[index] >= self.best_s * (1 - _ROUNDING):
                break
            _, batches = least_longest(self._times(index))
            left = [
                (self._seats[index][r].least_s[n], -r)
                for r, n in enumerate(batches)
                if n not in self._seats[index][r].done
            ]
            if not left:
                break
            number = -max(left)[1]
            self._search(index, number, batches[number])
            self._tell()
        # Whatever the deadline, a single pipeline on all nodes has a first plan soon.
        late = self._request.deadline.is_over() and not self.interrupted
        batch = self._request.problem.training.global_batch
        if late and not self.best and batch not in self._seats[0][0].done:
            self._search(0, 0, batch)

    def lower_bound(self) -> float:
        """Return a lower bound on all plans; inf if there are none."""
        return float(self._least.min())

    def _times(self, index: int) -> list[Floats]:
        return [seat.least_s for seat in self._seats[index]]

    def _seat(self, way: Division, number: int, seats: dict[object, Seat]) -> Seat:
        """Return the seat of a share, which several divisions may have in common."""
        key = depends_on(self._request.problem, [dict(x) for x in way], number)
        if key not in seats:
            own = dict(way[number])
            problem = self._request.problem
            devices = np.array([sum(own.get(x.name, ())) for x in problem.clusters])
            batch = problem.training.global_batch
            rate = devices @ (1 / self._work)
            n = np.arange(1, batch + 1)
            with np.errstate(divide="ignore"):
                least = n * self._units / rate * (1 - _ROUNDING)
            seats[key] = Seat(
                least_s=np.concatenate(([np.inf], least)),
                found_s=np.full(batch + 1, np.inf),
            )
        return seats[key]

    def _search(self, index: int, number: int, batch: int) -> None:
        """Solve the problem of one pipeline, and record its plan and its bound."""
        seat, way = self._seats[index][number], self.ways[index]
        seat.done.add(batch)
        request = replace(
            self._request,
            params=replace(self._request.params, on_progress=None),
            cutoff_s=None if math.isinf(self.best_s) else self.best_s,
        )
        if len(way) > 1:
            nodes = [dict(parts) for parts in way]
            own = part(request.problem, nodes, number, batch, self._source)
            request = replace(request, problem=own.problem, table=own.table)
        result = self._solve(request)
        self.interrupted = result.interrupted
        self.solver, self.choice = result.solver, result.choice
        if result.best is not None:
            seat.found_s[batch] = result.best.closed_form_s
            seat.plans[batch] = result.best.plan.pipeline
        bound = bound_of(result, self.best_s)
        seat.least_s[batch] = max(seat.least_s[batch], bound)
        self.bounds.append(
            PartBound(
                division=tuple(dict(parts) for parts in way),
                pipeline=number,
                batch=batch,
                bound_s=None if math.isinf(bound) else bound,
            )
        )
        for other in self._of[id(seat)]:
            self._least[other] = least_longest(self._times(other))[0]
            self._take(other)

    def _take(self, index: int) -> None:
        """Keep the best plan of a division if it is better than the best so far."""
        seats, way = self._seats[index], self.ways[index]
        value, batches = least_longest([seat.found_s for seat in seats])
        if value >= self.best_s:
            return
        self.best_s = value
        self.best = tuple(
            replace(
                seat.plans[n],
                share=None if len(way) == 1 else Share(batch=n, nodes=dict(parts)),
            )
            for seat, parts, n in zip(seats, way, batches, strict=True)
        )

    def _tell(self) -> None:
        told = self._request.params.on_progress
        if told is None:
            return
        known = math.isfinite(self.best_s)
        bound = min(self.lower_bound(), self.best_s)
        told(
            Progress(
                elapsed_s=self._request.deadline.elapsed_s(),
                incumbent_s=self.best_s if known else None,
                bound_s=bound if math.isfinite(bound) else None,
                gap=(self.best_s - bound) / self.best_s if known else None,
                settled=int((self._least >= self.best_s).sum()),
                programs=len(self.ways),
            )
        )
