"""A problem whose plans are all plans of other problems: its children.

Children are kept in arrays, and made when they are first looked at, as there may be a
million of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.errors import InputError
from hetopt.results.settlement import OPTIMALITY_GAP
from hetopt.solvers.search.node import Node, best_of, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from hetopt.solvers.search.node import Bools, Floats, Found, Leaf, OfLeaf, Step


@dataclass(slots=True)
class _Known:
    """What a node of alternatives knows of its children, as arrays; N children."""

    bound: Floats
    rest: Floats
    tried: Floats
    nodes: dict[int, Node] = field(default_factory=dict)


class OneOf(Node):
    """Alternatives: every plan of this problem is a plan of one of its children.

    Children are made when they are first looked at; before, they have a cheap bound.

    Parameters
    ----------
    least
        Cheap bounds of the children's values; shape (N,).
    make
        Returns a child.
    top
        How many best plans to keep.
    """

    #: What the children differ in, as it is called in claims.
    by = ""

    def __init__(
        self, least: Floats, make: Callable[[int], Node], *, top: int = 1
    ) -> None:
        super().__init__(float(least.min(initial=np.inf)))
        self.top = top
        self._make = make
        self.known = _Known(
            bound=least.copy(),
            rest=least.copy(),
            tried=np.full(len(least), -np.inf),
        )
        self._plans: dict[object, Found] = {}

    # ------------------------------------------------------- of the branchings

    @property
    def count(self) -> int:
        """Number of children."""
        return len(self.known.bound)

    def edit(self, index: int) -> Any:
        """Return what makes a child, as plain JSON data."""
        raise NotImplementedError

    def inside(self, index: int) -> Bools | None:
        """Return which children's plans are all plans of a child; None: its own."""
        return None

    def cutoffs(self, cutoff: float) -> Floats:
        """Return the cutoff of every child, in its own value; shape (N,)."""
        return np.full(len(self.known.rest), cutoff)

    def first(self, open_: NDArray[np.int64]) -> int:
        """Return the one of the open children to look at first."""
        return int(open_[self.known.rest[open_].argmin()])

    def taken(self, index: int, found: Found) -> Found | None:
        """Return a plan of a child as one of this node; None if it is none."""
        return found

    def least(self, known: Floats) -> float:
        """Return the least of the children's bounds, in the value of this node."""
        return float(known.min(initial=np.inf))

    # ------------------------------------------------------------------- nodes

    @property
    def last(self) -> float:
        """The value that a plan has to beat to be among the best."""
        return self.best[-1].value if len(self.best) >= self.top else math.inf

    def child(self, index: int) -> Node:
        """Return a child, made if it is not yet there."""
        nodes = self.known.nodes
        if index not in nodes:
            node = nodes[index] = self._make(index)
            node.parents.append((self, index))
            if self._take(index):
                spread(self)
        return nodes[index]

    def next(self, cutoff: float) -> Step | None:
        """See ``Node``."""
        while True:
            limits = self.cutoffs(min(cutoff, self.last))
            open_ = np.flatnonzero(self._open(limits))
            if not len(open_) and self.top > 1:
                # All best plans are known, but the bound on the first may be low.
                limits = self.cutoffs(min(cutoff, self.value))
                low = self.known.bound < limits * (1 - OPTIMALITY_GAP)
                open_ = np.flatnonzero(low & (self.known.tried < limits))
            if not len(open_):
                return None
            index = self.first(open_)
            if index not in self.known.nodes:
                try:
                    # Its own bound may be above the cheap one.
                    self.child(index)
                except InputError as error:
                    self.failure = self.failure or error
                    self.known.tried[index] = np.inf
                continue
            limit, child = float(limits[index]), self.child(index)
            found = child.next(limit)
            if found is not None:
                return found
            self.failure = self.failure or child.failure
            self.known.tried[index] = limit

    def _open(self, limits: Floats) -> Bools:
        open_: Bools = (self.known.rest < limits) & (self.known.tried < limits)
        return open_

    def open_leaves(self, cutoff: float) -> int:
        """See ``Node``."""
        limits = self.cutoffs(min(cutoff, self.last))
        open_ = self._open(limits)
        made = list(self.known.nodes)
        count = int(open_.sum()) - int(open_[made].sum())
        return count + sum(
            self.known.nodes[index].open_leaves(float(limits[index]))
            for index in made
            if open_[index]
        )

    def searched(self) -> Iterator[Leaf]:
        """See ``Node``."""
        # Nodes may have children in common.
        nodes = self.known.nodes.values()
        yield from dict.fromkeys(leaf for node in nodes for leaf in node.searched())

    def update(self, key: Any) -> bool:
        """See ``Node``."""
        # What was not open there may be open now, here and above.
        was_tried = bool(self.known.tried[key] > -np.inf)
        self.known.tried[key] = -np.inf
        return self._take(key) or was_tried

    def _take(self, index: int) -> bool:
        """Take what a child has found; return whether this node's claims changed."""
        before = self.bound, self.rest, self.best
        node, known = self.known.nodes[index], self.known
        for low, new in ((known.bound, node.bound), (known.rest, node.rest)):
            inside = self.inside(index)
            if inside is None:
                low[index] = max(low[index], new)
            else:
                low[inside] = np.maximum(low[inside], new)
        taken = (self.taken(index, each) for each in node.best)
        self.keep(own for own in taken if own is not None)
        return before != (self.bound, self.rest, self.best)

    def keep(self, plans: Iterable[Found]) -> None:
        """Keep the best of these plans and those known, and sum the bounds up."""
        for own in plans:
            kept = self._plans.get(own.shape)
            if kept is None or own.value < kept.value:
                self._plans[own.shape] = own
        ranked = sorted(self._plans.values(), key=lambda each: each.value)
        self.best = self.ranked(ranked)
        self.bound = max(self.bound, self.least(self.known.bound))
        # Plans that are no better than the last may be left out.
        self.rest = max(self.rest, min(self.least(self.known.rest), self.last))

    def ranked(self, plans: Sequence[Found]) -> tuple[Found, ...]:
        """Return the plans to keep, of all, which ascend by value."""
        return tuple(plans[: self.top])

    def claim(self, of_leaf: OfLeaf | None = None) -> dict[str, Any] | None:
        """Return the claims of the children that have any."""
        listed = []
        for index in sorted(self.known.nodes):
            claim = self.known.nodes[index].claim(of_leaf)
            if claim is not None:
                listed.append({"at": self.edit(index), **claim})
        return {
            "by": self.by,
            "of": self.count,
            "children": listed,
            **best_of(self),
        }
