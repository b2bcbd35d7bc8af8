"""One division of the nodes among pipelines that run side by side.

See ``divisions`` for what is minimised.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.cost.table_file.file import table_digest
from hetopt.plans.plan import Plan, Share
from hetopt.pricing.several import price_several
from hetopt.results.priced_plan import PricedPlan
from hetopt.solvers.search.branchings.batches import least_longest
from hetopt.solvers.search.node import Found, Node, best_of, spread
from hetopt.solvers.search.one_of import OneOf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hetopt.results.result import Objective
    from hetopt.solvers.dividing import Division
    from hetopt.solvers.search.branchings.runnable import InCommon
    from hetopt.solvers.search.node import Bools, Floats, Leaf, OfLeaf, Step
    from hetopt.solvers.search.space import Space

#: Bounds in floating point are lowered by this share of themselves.
ROUNDING = 1e-12


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
        priced = PricedPlan.of(plan, known)
        time_s = priced.time_s(self._objective)
        return Found(value=time_s, time_s=time_s, priced=priced, space=whole)

    def next(self, cutoff: float) -> Step | None:
        """See ``Node``; the part that takes longest is searched first."""
        limit = min(cutoff, self.value)
        batches: tuple[int, ...] = ()
        while True:
            known = batches
            low, batches = least_longest([seat.low for seat in self._seats])
            if low >= limit * (1 - ROUNDING):
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
            if not low < limit * (1 - ROUNDING):
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

    def searched(self) -> Iterator[Leaf]:
        """See ``Node``."""
        for seat in dict.fromkeys(self._seats):
            for node in seat.nodes.values():
                yield from node.searched()

    def claim(self, of_leaf: OfLeaf | None = None) -> dict[str, Any] | None:
        """Return the claims of the pipelines that were searched."""
        parts = []
        for seat in dict.fromkeys(self._seats):
            number = self._seats.index(seat)
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
        found = self._whole.next(min(cutoff, self.last))
        if found is None and self._whole.value < self.value:
            return super().next(cutoff)
        return found

    def open_leaves(self, cutoff: float) -> int:
        """See ``Node``."""
        return int(self.next(cutoff) is not None)

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
