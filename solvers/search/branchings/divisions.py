"""Pipelines side by side (Hetu v2): a child for every division of the nodes.

Let V(S, n) be the least time of a pipeline that has a share S of the nodes and takes n
sequences. A division into R shares takes max_r V(S_r, n_r), minimised over all n_r that
add up to the global batch. Each V is a problem of its own (``hetopt.cost.divided``); it
is bounded by device time before it is searched. Divisions have shares in common.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.cost.divided import depends_on
from hetopt.cost.table_file.file import table_digest
from hetopt.plans.plan import Plan, Share
from hetopt.pricing.several import price_several
from hetopt.problem.division import everything
from hetopt.results.priced_plan import PricedPlan
from hetopt.solvers.dividing import divisions
from hetopt.solvers.search.branchings.batches import least_longest
from hetopt.solvers.search.node import Found, Leaf, Node, best_of, spread
from hetopt.solvers.search.one_of import OneOf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hetopt.results.result import Objective
    from hetopt.solvers.dividing import Division
    from hetopt.solvers.search.branchings.runnable import InCommon
    from hetopt.solvers.search.node import Bools, Floats, OfLeaf, Step
    from hetopt.solvers.search.space import Space

#: Bounds in floating point are lowered by this share of themselves.
_ROUNDING = 1e-12


class Seat(Node):
    """Pipelines on one share of the nodes, for 1 to B sequences.

    Attributes
    ----------
    low, known
        By batch, 0 to B: a lower bound on V, and the time of the best known plan; inf
        if there is none; (B + 1,).

    Parameters
    ----------
    wider
        The same share with more plans, whose bounds hold here, too.
    """

    def __init__(
        self, low: Floats, make: Callable[[int], Node], wider: Seat | None = None
    ) -> None:
        super().__init__()
        self.low, self._wider = low, wider
        if wider is not None:
            wider.parents.append((self, None))
        self.known = np.full(len(low), np.inf)
        self.nodes: dict[int, Node] = {}
        self._make = make

    def node(self, batch: int) -> Node:
        """Return the node of a pipeline with so many sequences."""
        if batch not in self.nodes:
            node = self.nodes[batch] = self._make(batch)
            node.parents.append((self, batch))
            if self.update(batch):
                spread(self)
        return self.nodes[batch]

    def update(self, key: Any) -> bool:
        """See ``Node``; the key is the batch, or None of the wider share."""
        if key is None:
            assert self._wider is not None
            higher = np.maximum(self.low, self._wider.low)
            rose = not np.array_equal(higher, self.low)
            self.low[:] = higher
            return rose
        node = self.nodes[key]
        before = self.low[key], self.known[key]
        self.low[key] = max(self.low[key], node.bound)
        self.known[key] = node.value
        return bool(before != (self.low[key], self.known[key]))


def _open(seat: Seat, limit: float) -> Bools:
    """Return for which batches there may be something to search; shape (B + 1,)."""
    left = np.ones(len(seat.low), dtype=bool)
    for n, node in seat.nodes.items():
        left[n] = node.next(limit) is not None
    return left


class Together(Node):
    """One division of the nodes among several pipelines.

    In simulated time the plan takes longer than its slowest pipeline alone, as stages
    wait for those of others; its bound is that of the slowest.
    """

    def __init__(
        self, space: Space, way: Division, seats: Sequence[Seat], objective: Objective
    ) -> None:
        super().__init__()
        self.way, self._space, self._objective = way, space, objective
        self._seats = tuple(seats)
        for seat in dict.fromkeys(seats):
            seat.parents.append((self, None))
        self._longest = math.inf
        self.update(None)

    def update(self, key: Any) -> bool:
        """See ``Node``."""
        low, _ = least_longest([seat.low for seat in self._seats])
        self.bound = max(self.bound, low)
        self.rest = self.bound
        longest, batches = least_longest([seat.known for seat in self._seats])
        if longest < self._longest:
            self._longest = longest
            found = self._joined(batches)
            if found.value < self.value:
                self.best = (found,)
        # Other pipelines may be open now, even if the bound is the same.
        return True

    def _joined(self, batches: Sequence[int]) -> Found:
        """Return the plan of the best known pipelines with so many sequences."""
        whole = self._space.whole
        pipelines = tuple(
            replace(
                seat.node(n).best[0].priced.plan.pipeline,
                share=Share(batch=n, nodes=dict(parts)),
            )
            for seat, parts, n in zip(self._seats, self.way, batches, strict=True)
        )
        plan = Plan(
            schedule=whole.table.schedule,
            chunks=whole.table.chunks,
            cuts=whole.table.layout,
            warmup_epsilon=whole.table.warmup_epsilon,
            pipelines=pipelines,
            problem_digest=whole.table.problem_digest,
            table_digest=table_digest(whole.table),
        )
        known = price_several(whole.problem, plan)
        priced = PricedPlan(
            plan=plan,
            closed_form_s=known.closed_form_s,
            iteration_time_s=known.iteration_time_s,
        )
        time_s = priced.time_s(self._objective)
        return Found(value=time_s, time_s=time_s, priced=priced, space=whole)

    def next(self, cutoff: float) -> Step | None:
        """See ``Node``; the part that takes longest is searched first."""
        limit = min(cutoff, self.value)
        batches: tuple[int, ...] = ()
        while True:
            known = batches
            low, batches = least_longest([seat.low for seat in self._seats])
            if low >= limit * (1 - _ROUNDING):
                return None
            if batches == known:
                return self._elsewhere(limit)
            parts = [
                (-seat.low[n], r, seat, n)
                for r, (seat, n) in enumerate(zip(self._seats, batches, strict=True))
            ]
            for _, _, seat, n in sorted(parts, key=lambda part: part[:2]):
                # Its own bound may be above the cheap one.
                found = seat.node(n).next(limit)
                if found is not None:
                    return found

    def _elsewhere(self, limit: float) -> Step | None:
        """Return a leaf if the batches of the least bound are exhausted.

        They need not be exact if a search was given up. Then plans are looked for with
        the time of the best known plan where nothing is left to search.
        """
        while True:
            open_ = [_open(seat, limit) for seat in self._seats]
            times = [
                np.where(left, seat.low, seat.known)
                for seat, left in zip(self._seats, open_, strict=True)
            ]
            low, batches = least_longest(times)
            if not low < limit * (1 - _ROUNDING):
                return None
            left = [
                (seat, n)
                for seat, left, n in zip(self._seats, open_, batches, strict=True)
                if left[n]
            ]
            for seat, n in left:
                found = seat.node(n).next(limit)
                if found is not None:
                    return found
            if not left:
                return None

    def open_leaves(self, cutoff: float) -> int:
        """See ``Node``."""
        return int(self.next(cutoff) is not None)

    def searched(self) -> Iterator[Leaf]:
        """See ``Node``."""
        for seat in dict.fromkeys(self._seats):
            for node in seat.nodes.values():
                yield from node.searched()

    def claim(self, of_leaf: OfLeaf | None = None) -> dict[str, Any] | None:
        """Return the claims of the pipelines that were searched."""
        parts, seen = [], set()
        for number, seat in enumerate(self._seats):
            if id(seat) in seen:
                continue
            seen.add(id(seat))
            for batch, node in sorted(seat.nodes.items()):
                claim = node.claim(of_leaf)
                if claim is not None:
                    parts.append({"pipeline": number, "batch": batch, **claim})
        return {"parts": parts, **best_of(self)} if parts else None


class Alike(OneOf):
    """One division, whose pipelines have to have something in common.

    It is searched without that first. If the best pipelines have nothing in common, it
    is searched for each of what they may have; these have its bound from the start.

    Parameters
    ----------
    whole
        The division without that.
    together
        What pipelines may have in common.
    make
        Returns the division with one of these values.
    """

    def __init__(
        self, whole: Together, together: InCommon, make: Callable[[str], Together]
    ) -> None:
        self._whole, self._together = whole, together
        values = together.values
        super().__init__(
            np.full(len(values), whole.bound), lambda index: make(values[index])
        )
        whole.parents.append((self, None))
        self.update(None)

    def update(self, key: Any) -> bool:
        """See ``Node``; the key None is of the division without that."""
        if key is not None:
            return super().update(key)
        before, whole = (self.bound, self.rest, self.best), self._whole
        for low, new in (
            (self.known.bound, whole.bound),
            (self.known.rest, whole.rest),
        ):
            np.maximum(low, new, out=low)
        is_shared = self._together.is_shared
        self.keep(
            each
            for each in whole.best
            if is_shared(each.space.problem, each.priced.plan)
        )
        return before != (self.bound, self.rest, self.best)

    def next(self, cutoff: float) -> Step | None:
        """See ``Node``."""
        return self._whole.next(min(cutoff, self.last)) or super().next(cutoff)

    def open_leaves(self, cutoff: float) -> int:
        """See ``Node``."""
        whole = self._whole.open_leaves(min(cutoff, self.last))
        return whole or super().open_leaves(cutoff)

    def searched(self) -> Iterator[Leaf]:
        """See ``Node``."""
        yield from self._whole.searched()
        yield from super().searched()

    def claim(self, of_leaf: OfLeaf | None = None) -> dict[str, Any] | None:
        """Return the claims of the pipelines that were searched."""
        parts = (self._whole.claim(of_leaf) or {}).get("parts", [])
        for index, node in sorted(self.known.nodes.items()):
            value = self._together.values[index]
            own = (node.claim(of_leaf) or {}).get("parts", [])
            parts = [*parts, *({"alike": value, **part} for part in own)]
        return {"parts": parts, **best_of(self)} if parts else None


class Divisions(OneOf):
    """Every division of the nodes among up to so many pipelines.

    In the first, one pipeline has all nodes.

    Attributes
    ----------
    ways
        The divisions.

    Parameters
    ----------
    below
        Returns the node of one pipeline's problem, with the number of plans to keep.
    objective
        Which time is minimised.
    cuts
        Whether nodes may be cut in halves.
    quick
        Whether to look for a plan of one pipeline first, which takes little time.
    together
        What a launcher's have in common; None: nothing is asked.

    Raises
    ------
    InputError
        There are too many divisions.
    """

    by = "divisions"

    def __init__(
        self,
        space: Space,
        below: Callable[[Space, int], Node],
        most: int,
        objective: Objective,
        *,
        cuts: bool,
        top: int = 1,
        quick: bool = False,
        together: InCommon | None = None,
    ) -> None:
        self._space, self._below, self._objective = space, below, objective
        self._quick, self._sharing = quick, together
        problem = space.own
        whole = tuple(everything(problem).items())
        self.ways: list[Division] = [(whole,)]
        self.ways += divisions(problem, most, cuts=cuts)
        self._known: dict[object, Seat] = {}
        least = [
            least_longest([self._least_s(way, r) for r in range(len(way))])[0]
            for way in self.ways
        ]
        super().__init__(np.array(least), self._child, top=top)

    def _least_s(self, way: Division, number: int) -> Floats:
        """Return the device time of a pipeline by its batch, 0 to B; (B + 1,)."""
        own, problem = dict(way[number]), self._space.whole.problem
        devices = np.array([sum(own.get(x.name, ())) for x in problem.clusters])
        batch = problem.training.global_batch
        rate = devices @ (1 / self._space.devices.seconds)
        n = np.arange(1, batch + 1)
        with np.errstate(divide="ignore"):
            least = n * self._space.units / rate * (1 - _ROUNDING)
        return np.concatenate(([np.inf], least))

    def _child(self, index: int) -> Node:
        way = self.ways[index]
        if len(way) == 1:
            return self._below(self._space, self.top)
        whole = self._together(way, None)
        if self._sharing is None or not self._sharing.values:
            return whole
        return Alike(whole, self._sharing, lambda value: self._together(way, value))

    def _together(self, way: Division, value: str | None) -> Together:
        seats = [self._seat(way, number, value) for number in range(len(way))]
        return Together(self._space, way, seats, self._objective)

    def next(self, cutoff: float) -> Step | None:
        """See ``Node``."""
        if self._quick and not self.best:
            alone = self.child(0)
            found = alone.next(cutoff)
            is_first = isinstance(alone, Leaf) and alone.is_new
            if found is not None and (found.quick or is_first):
                return replace(found, quick=True)
        return super().next(cutoff)

    def _seat(self, way: Division, number: int, value: str | None) -> Seat:
        """Return what is known of a share, which several divisions may have.

        Parameters
        ----------
        value
            What all pipelines share; None: nothing.
        """
        nodes = [dict(parts) for parts in way]
        key = value, depends_on(self._space.own, nodes, number)
        if key not in self._known:

            def make(batch: int) -> Node:
                source = self._space.devices.source
                part = self._space.part(nodes, number, batch, source)
                if value is not None and self._sharing is not None:
                    space = self._sharing.sharing(part.problem, part.table, value)
                    part = part.narrowed(*space)
                return self._below(part, 1)

            if value is None:
                self._known[key] = Seat(self._least_s(way, number), make)
            else:
                wider = self._seat(way, number, None)
                self._known[key] = Seat(wider.low.copy(), make, wider)
        return self._known[key]

    def edit(self, index: int) -> Any:
        """Return, for each pipeline and cluster, the devices of each node."""
        return [
            {name: list(sizes) for name, sizes in parts} for parts in self.ways[index]
        ]
