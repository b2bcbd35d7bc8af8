"""The plans that a launcher can run: a space is split where its best plan is none.

A space is searched without the limits that concern several stages. If the launcher
cannot run one of the best plans found, the space is split by the reason; the parts have
its bound from the start.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hetopt.solvers.search.node import Leaf, Node, Step, claimed
from hetopt.solvers.search.space import Space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.results.settlement import How, Settlement
    from hetopt.solvers.search.node import Found, OfLeaf

    #: Returns narrower spaces without a plan, given a space; none if it can be run.
    Split = Callable[[Problem, CostTable, Plan], Sequence[tuple[Problem, CostTable]]]


class Runnable(Node):
    """The plans of a space that can be run.

    Parameters
    ----------
    leaf
        Returns the leaf of a space, given its least bound.
    split
        See ``Split``.
    parts
        Spaces that hold all plans that can be run; None: those of ``space``.
    quick
        Whether to look for plans of one strategy first, which can mostly be run.
    """

    def __init__(
        self,
        space: Space,
        leaf: Callable[[Space, float], Leaf],
        split: Split,
        *,
        top: int,
        least: float = 0.0,
        parts: Sequence[Space] | None = None,
        quick: bool = False,
    ) -> None:
        super().__init__(least)
        self.top = top
        self._space, self._make, self._split = space, leaf, split
        self._quick = quick
        self._known: dict[object, Found] = {}
        self._leaf: Leaf | None = None
        self._parts: list[Runnable] = []
        if parts is None:
            self._leaf = leaf(space, least)
            self._leaf.parents.append((self, None))
            self._leaf.splits = True
            self.bound = self.rest = self._leaf.bound
        else:
            self._divide([(each.problem, each.table) for each in parts], quick=quick)

    def _divide(
        self, spaces: Sequence[tuple[Problem, CostTable]], *, quick: bool = False
    ) -> None:
        """Replace this space by narrower ones, whose plans are reported alike."""
        for problem, table in spaces:
            space = self._space.narrowed(problem, table)
            part = Runnable(
                space,
                self._make,
                self._split,
                top=self.top,
                least=self.bound,
                quick=quick,
            )
            part.parents.append((self, len(self._parts)))
            self._parts.append(part)
        self._sum_up()

    def _sum_up(self) -> None:
        self.bound = max(
            self.bound, min((each.bound for each in self._parts), default=math.inf)
        )
        self.rest = max(
            self.rest, min((each.rest for each in self._parts), default=math.inf)
        )

    def update(self, key: Any) -> bool:
        """See ``Node``."""
        before = self.bound, self.rest, self.best, len(self._parts)
        if key is None:
            self._take_leaf()
        else:
            self._keep(self._parts[key].best)
            self._sum_up()
        return before != (self.bound, self.rest, self.best, len(self._parts))

    def _take_leaf(self) -> None:
        """Take the plans of the own leaf, and divide the space if one cannot be run."""
        leaf, space = self._leaf, self._space
        assert leaf is not None
        self.bound = max(self.bound, leaf.bound)
        able, reason = [], None
        for each in leaf.best:
            found = self._split(space.problem, space.table, each.priced.plan)
            if not found:
                able.append(each)
            elif reason is None:
                reason = found
        self._keep(able)
        # Plans that can be run may be hidden behind one that cannot.
        self.rest = max(self.rest, leaf.rest if reason is None else self.bound)
        if reason is not None and (leaf.ended or not leaf.was_quick):
            self._divide(reason)

    def _keep(self, plans: Sequence[Found]) -> None:
        for each in plans:
            known = self._known.get(each.shape)
            if known is None or each.value < known.value:
                self._known[each.shape] = each
        ranked = sorted(self._known.values(), key=lambda each: each.value)
        self.best = tuple(ranked[: self.top])

    @property
    def _last(self) -> float:
        return self.best[-1].value if len(self.best) >= self.top else math.inf

    def next(self, cutoff: float) -> Step | None:
        """See ``Node``."""
        limit = min(cutoff, self._last)
        if not self._parts:
            step = None if self._leaf is None else self._leaf.next(limit)
            return step and replace(step, quick=self.is_quick)
        for part in self._parts:
            if part.is_quick and (found := part.next(limit)) is not None:
                return found
        for part in sorted(self._parts, key=lambda part: part.rest):
            found = part.next(limit)
            if found is not None:
                return found
        return None

    @property
    def is_quick(self) -> bool:
        """Whether a plan of one strategy is to be looked for first."""
        leaf = self._leaf
        return self._quick and leaf is not None and leaf.is_new

    def open_leaves(self, cutoff: float) -> int:
        """See ``Node``."""
        limit = min(cutoff, self._last)
        if not self._parts:
            return 0 if self._leaf is None else self._leaf.open_leaves(limit)
        return sum(each.open_leaves(limit) for each in self._parts)

    def searched(self) -> Iterator[Leaf]:
        """See ``Node``."""
        if self._leaf is not None:
            yield from self._leaf.searched()
        for part in self._parts:
            yield from part.searched()

    def ends(self) -> Iterator[Leaf]:
        """Yield the leaves of the spaces that are not divided."""
        if not self._parts and self._leaf is not None:
            yield self._leaf
        for part in self._parts:
            yield from part.ends()

    def claim(self, of_leaf: OfLeaf | None = None) -> dict[str, Any] | None:
        """Return the bound in seconds; None: there is no plan that can be run."""
        is_known = math.isinf(self.bound) or any(True for _ in self.searched())
        return claimed(self) if is_known else None


#: How a program was settled, from the weakest statement to the strongest.
_HOWS: tuple[How, ...] = (
    "unsettled",
    "solved",
    "refuted-by-search",
    "refuted-by-bound",
    "infeasible",
)


def merged(node: Runnable) -> tuple[Settlement, ...]:
    """Return how each (p, q) was settled in all parts of a space together."""
    found: dict[tuple[int, int], Settlement] = {}
    # Of what was not searched only the bound that it had from the start is known.
    unsearched = [each.least for each in node.ends() if each.result is None]
    for leaf in node.ends():
        for one in () if leaf.result is None else leaf.result.settlements:
            own = one
            if one.bound_s is not None:
                own = replace(one, bound_s=max(one.bound_s, leaf.least))
            key = one.stages, one.microbatches
            found[key] = _both(found.get(key, own), own)
    if not unsearched:
        return tuple(found.values())
    return tuple(
        _both(each, replace(each, how="unsettled", bound_s=min(unsearched)))
        for each in found.values()
    )


def _both(one: Settlement, other: Settlement) -> Settlement:
    """Return the settlement of one (p, q) for two spaces together."""
    bounds = [each.bound_s for each in (one, other) if each.bound_s is not None]
    return replace(
        one,
        how=min(one.how, other.how, key=_HOWS.index),
        bound_s=min(bounds, default=None),
    )
