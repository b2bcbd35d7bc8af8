"""Bound one q by boxes of lambda and g, least bound first, and find plans in them."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from hetopt.solvers.bounds.box_sums import combined
from hetopt.solvers.bounds.cluster_costs import FIRST, LAST
from hetopt.solvers.bounds.ordering import Ordering

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.decision import Decision
    from hetopt.problem.training.pins import Pins
    from hetopt.solvers.bounds.boxes import Box, BoxBounds

#: Bounds computed at the first visit, and at later ones.
_GLANCE, _LOOK = 8, 48
#: Orders tried per plan.
_TRIES = 120
#: Boxes are cut until their width is at most this share of the cutoff.
_WIDTH = 1 / 2048
#: The same share for finding out what is left of a q.
_CLOSE = 1 / 256
#: If a box has more options than this, those that lead beyond the cutoff are removed.
_MANY = 48
#: A box is searched for plans if its width is at most this share of its bound; the
#: second share holds while there is no plan.
_NARROW, _FIRST = 0.04, 0.25
#: Factors by which lambda and g may exceed the box in the plans that are searched.
_SLACK = (1.0, 1.006, 1.02)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundTask:
    """Bound one q more closely, starting from its boxes.

    Attributes
    ----------
    known
        Result of the last visit; None at the first one.
    goal
        A bound in ns that is good enough.
    plans
        Whether to look for plans, too.
    order
        Clusters of the best known plan, from the end of its pipeline.
    """

    microbatches: int
    visit: int = 0
    plans: bool = False
    known: QBounds | None = None
    goal: float = inf
    order: tuple[int, ...] | None = None

    @property
    def evaluations(self) -> int:
        """How many bounds to compute."""
        return _LOOK if self.visit else _GLANCE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QBounds:
    """What is known of one q.

    Attributes
    ----------
    boxes
        Boxes that may hold a plan within the cutoff and can be cut.
    leaves
        Boxes that may hold a plan within the cutoff but are too narrow to be cut.
    plan_searches
        How often plans were searched.
    """

    boxes: tuple[Box, ...]
    leaves: tuple[Box, ...] = ()
    plan_searches: int = 0

    @property
    def bound(self) -> float:
        """Lower bound on the closed form in ns; infinite if nothing is left."""
        return min((box.bound for box in (*self.boxes, *self.leaves)), default=inf)

    @property
    def best(self) -> Box | None:
        """The box with the least bound."""
        boxes = (*self.boxes, *self.leaves)
        return min(boxes, key=lambda box: box.bound, default=None)

    @property
    def is_done(self) -> bool:
        """Whether cutting boxes cannot raise the bound any more."""
        return min((box.bound for box in self.boxes), default=inf) > self.bound


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Left:
    """The lambda and the strategies that plans of one q within a cutoff may have.

    Attributes
    ----------
    low, high
        Range of their lambda in ns; infinite and 0 if there is no such plan.
    keep
        By cluster, indices of strategies that some such plan may use.
    """

    low: float
    high: float
    keep: tuple[NDArray[np.int64], ...]


def left_within(box_bounds: BoxBounds, cutoff: float) -> Left:
    """Return what is left of a q within a cutoff in ns, over all p.

    Bounding lambda and g together leaves much less than lambda alone if synchronising
    gradients takes long.
    """
    low, high, alive = inf, 0.0, np.zeros(len(box_bounds.names), dtype=bool)
    root = box_bounds.bounded(box_bounds.root(), cutoff)
    boxes = [] if root is None else [root]
    while boxes:
        box = boxes.pop()
        if low <= box.low and box.high <= high and alive[box.alive].all():
            # All that it may leave is left already.
            continue
        halves = box_bounds.halves(box, _CLOSE * cutoff)
        if halves is None:
            low, high = min(low, box.low), max(high, box.high)
            alive[box.alive] = True
            continue
        for half in halves:
            kept = box_bounds.bounded(half, cutoff)
            if kept is not None:
                able = box_bounds.by_option(kept) <= cutoff
                boxes.append(replace(kept, alive=kept.alive[able]))
    by_cluster: list[list[int]] = [[] for _ in box_bounds.may_rest]
    for index in np.flatnonzero(alive).tolist():
        j, k = box_bounds.names[index]
        by_cluster[j].append(k)
    keep = tuple(np.array(own, dtype=np.int64) for own in by_cluster)
    return Left(low=low, high=high, keep=keep)


def explore(
    box_bounds: BoxBounds,
    known: QBounds | None,
    *,
    cutoff: float,
    goal: float,
    evaluations: int,
) -> QBounds:
    """Cut boxes, the least bound first.

    Parameters
    ----------
    cutoff
        In ns; infinite while no plan is known.
    goal
        A bound that is good enough.
    """
    if known is None:
        root = box_bounds.bounded(box_bounds.root(), cutoff)
        known = QBounds(boxes=() if root is None else (root,))
    heap = [(box.bound, n, box) for n, box in enumerate(known.boxes)]
    heapq.heapify(heap)
    leaves = [box for box in known.leaves if box.bound <= cutoff]
    number = len(heap)
    while heap and evaluations > 0:
        bound, _, box = heap[0]
        if bound > goal or bound > min((leaf.bound for leaf in leaves), default=inf):
            break
        heapq.heappop(heap)
        if bound > cutoff:
            continue
        halves = box_bounds.halves(box, _WIDTH * min(cutoff, 2 * bound))
        if halves is None:
            leaves.append(box)
            continue
        for half in halves:
            evaluations -= 1
            kept = box_bounds.bounded(half, cutoff)
            if kept is None:
                continue
            if cutoff < inf and len(kept.alive) > _MANY:
                able = box_bounds.by_option(kept) <= cutoff
                kept = replace(kept, alive=kept.alive[able])
            number += 1
            heapq.heappush(heap, (kept.bound, number, kept))
    boxes = tuple(box for bound, _, box in heap if bound <= cutoff)
    return QBounds(boxes=boxes, leaves=tuple(leaves), plan_searches=known.plan_searches)


def is_narrow(box_bounds: BoxBounds, found: QBounds, *, first: bool) -> bool:
    """Whether the best box is narrow enough to be searched for plans.

    In a wide box, the least fill says little about the lambda and g of plans.

    Parameters
    ----------
    first
        Whether there is no plan yet.
    """
    best, share = found.best, _FIRST if first else _NARROW
    return best is not None and box_bounds.width(best) <= share * best.bound


def plans(
    box_bounds: BoxBounds,
    found: QBounds,
    *,
    table: CostTable,
    pins: Pins,
    groups: Sequence[int],
    seed: str,
    order: Sequence[int] | None,
) -> Iterator[Decision]:
    """Yield plans near the box with the least bound; they are not priced yet.

    Parameters
    ----------
    groups
        Leaders of identical clusters.
    order
        Clusters of a good plan, from the end of the pipeline.
    """
    best = found.best
    if best is None or pins.units is not None:
        return
    if pins.order is not None:
        order = [table.cluster_names.index(name) for name in pins.order][::-1]
    for slack in _SLACK:
        box = replace(best, high=best.high * slack, most_sync=best.most_sync * slack)
        order_clusters = Ordering(
            box_bounds,
            box,
            table=table,
            pins=pins,
            groups=groups,
            seed=f"{seed} {slack}",
        )
        starts = [_order(box_bounds, box)] if pins.order is None else []
        if order is not None:
            starts.append(list(order))
        for start in starts:
            decision = order_clusters.improved(_TRIES // len(starts), start)
            if decision is not None:
                yield decision


def _order(box_bounds: BoxBounds, box: Box) -> list[int]:
    """Return the clusters of a box's relaxed optimum, from the end of the pipeline."""
    costs = box_bounds.costs(box.alive, box.high, box.most_sync)
    chosen = np.empty((len(box_bounds.may_rest), 2), dtype=np.int64)
    combined(costs, box_bounds.may_rest, chosen)
    used = [(role, j) for j, (role, _) in enumerate(chosen.tolist()) if role >= 0]
    place = {LAST: 0, LAST | FIRST: 0, 0: 1, FIRST: 2}
    return [j for _, j in sorted((place[role], j) for role, j in used)]
