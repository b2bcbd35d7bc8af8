"""The plans that a launcher can run: a space is split where its best plan is none.

A space is searched without the limits that concern several stages. If the launcher
cannot run one of the best plans found, the space is split by the reason; the parts have
its bound from the start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hetopt.errors import InputError
from hetopt.results.settlement import Settlement
from hetopt.solvers.search.node import Leaf, Node, Step, best_of, claimed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.results.settlement import How
    from hetopt.solvers.search.branchings.schedules import ScheduleVariant
    from hetopt.solvers.search.node import Found, OfLeaf
    from hetopt.solvers.search.space import Space

    #: By stages and micro-batches.
    Known = dict[tuple[int, int], Settlement]


#: The rule that every space is split by first.
STRATEGIES = "strategies"


@dataclass(frozen=True, slots=True, kw_only=True)
class InCommon:
    """What a launcher's pipelines side by side have in common.

    Attributes
    ----------
    values
        Names of what all pipelines may have in common: they share one of them. Empty:
        they need have nothing in common.
    sharing
        Returns the space of one pipeline with such a value.
    is_shared
        Whether all pipelines of a plan have one of them.
    """

    values: tuple[str, ...] = ()
    sharing: Callable[[Problem, CostTable, str], tuple[Problem, CostTable]]
    is_shared: Callable[[Problem, Plan], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launchable:
    """Which plans a launcher can run.

    Attributes
    ----------
    name
        The launcher.
    broken
        Returns the rule about several stages that a plan breaks; None: it can be run.
    split
        Returns narrower spaces that hold all plans of one that it can run, and none
        that breaks a rule: ``STRATEGIES``, for which strategies a plan may have
        together, or what ``broken`` returns.
    passed_over
        Returns why it does not run a schedule; None: it does.
    together
        What pipelines side by side have in common; None: it runs one.
    """

    name: str
    broken: Callable[[Problem, Plan], str | None]
    split: Callable[[Problem, CostTable, str], Sequence[tuple[Problem, CostTable]]]
    passed_over: Callable[[ScheduleVariant], str | None]
    together: InCommon | None = None


class Runnable(Node):
    """The plans of a space that can be run.

    Attributes
    ----------
    leaf, parts
        The search of the space as a whole, and the spaces that replace it.
    rule
        By which it was divided into these; None: it is not.

    Parameters
    ----------
    leaf
        Returns the leaf of a space, given its least bound.
    rule
        By which to divide the space at once; None: it is searched as a whole first.
    quick
        Whether to look for plans of one strategy first, which can mostly be run.
    """

    def __init__(
        self,
        space: Space,
        leaf: Callable[[Space, float], Leaf],
        launcher: Launchable,
        *,
        top: int,
        least: float = 0.0,
        rule: str | None = None,
        quick: bool = False,
    ) -> None:
        super().__init__(least)
        self.top = top
        self._space, self._make, self._launcher = space, leaf, launcher
        self._quick = quick
        self._known: dict[object, Found] = {}
        self.leaf: Leaf | None = None
        self.parts: list[Runnable] = []
        self.rule: str | None = None
        if rule is None:
            self.leaf = leaf(space, least)
            self.leaf.parents.append((self, None))
            self.leaf.splits = True
            self.bound = self.rest = self.leaf.bound
        else:
            self._divide(rule, quick=quick)

    def _divide(self, rule: str, *, quick: bool = False) -> None:
        """Replace this space by narrower ones, whose plans are reported alike."""
        own = self._space
        spaces = self._launcher.split(own.problem, own.table, rule)
        self.rule = rule
        for problem, table in spaces:
            space = own.narrowed(problem, table)
            part = Runnable(
                space,
                self._make,
                self._launcher,
                top=self.top,
                least=self.bound,
                quick=quick,
            )
            part.parents.append((self, len(self.parts)))
            self.parts.append(part)
        self._sum_up()

    def _sum_up(self) -> None:
        self.bound = max(
            self.bound, min((each.bound for each in self.parts), default=math.inf)
        )
        self.rest = max(
            self.rest, min((each.rest for each in self.parts), default=math.inf)
        )

    def update(self, key: Any) -> bool:
        """See ``Node``."""
        before = self.bound, self.rest, self.best, len(self.parts)
        if key is None:
            self._take_leaf()
        else:
            self._keep(self.parts[key].best)
            self._sum_up()
            self.failure = self.failure or self.parts[key].failure
        return before != (self.bound, self.rest, self.best, len(self.parts))

    def _take_leaf(self) -> None:
        """Take the plans of the own leaf, and divide the space if one cannot be run."""
        leaf, space = self.leaf, self._space
        assert leaf is not None
        self.bound = max(self.bound, leaf.bound)
        able, reason = [], None
        for each in leaf.best:
            rule = self._launcher.broken(space.problem, each.priced.plan)
            if rule is None:
                able.append(each)
            reason = reason or rule
        self._keep(able)
        # Plans that can be run may be hidden behind one that cannot.
        self.rest = max(self.rest, leaf.rest if reason is None else self.bound)
        if reason is not None and (leaf.ended or not leaf.was_quick):
            try:
                self._divide(reason)
            except InputError as error:
                # There may be too many narrower spaces: this one keeps its bound.
                leaf.give_up(error)
                self.failure = error

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
        if not self.parts:
            step = None if self.leaf is None else self.leaf.next(limit)
            return step and replace(step, quick=self.is_quick)
        for part in self.parts:
            if part.is_quick and (found := part.next(limit)) is not None:
                return found
        for part in sorted(self.parts, key=lambda part: part.rest):
            found = part.next(limit)
            if found is not None:
                return found
        return None

    @property
    def is_quick(self) -> bool:
        """Whether a plan of one strategy is to be looked for first."""
        leaf = self.leaf
        return self._quick and leaf is not None and leaf.is_new

    def open_leaves(self, cutoff: float) -> int:
        """See ``Node``."""
        limit = min(cutoff, self._last)
        if not self.parts:
            return 0 if self.leaf is None else self.leaf.open_leaves(limit)
        return sum(each.open_leaves(limit) for each in self.parts)

    def searched(self) -> Iterator[Leaf]:
        """See ``Node``."""
        if self.leaf is not None:
            yield from self.leaf.searched()
        for part in self.parts:
            yield from part.searched()

    def claim(self, of_leaf: OfLeaf | None = None) -> dict[str, Any] | None:
        """Return the bound in seconds, or what it follows from; None: nothing."""
        if of_leaf is not None:
            return self._certified(of_leaf)
        is_known = math.isinf(self.bound) or any(True for _ in self.searched())
        return claimed(self) if is_known else None

    def _certified(self, of_leaf: OfLeaf) -> dict[str, Any]:
        """Return what the bound follows from: the whole space, and its parts."""
        found: dict[str, Any] = {"by": "launcher"}
        if self.leaf is not None and self.leaf.result is not None:
            # Its best plan may be one that cannot be run.
            whole = of_leaf(self.leaf) or {}
            found |= {key: each for key, each in whole.items() if key != "best_s"}
        if self.rule is not None:
            parts = [part._certified(of_leaf) for part in self.parts]
            found |= {"rule": self.rule, "parts": parts}
        return {**found, **best_of(self)}


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
    return tuple(_settled(node, {}).values())


def _settled(node: Runnable, above: Known) -> Known:
    """Return how each (p, q) of a space was settled.

    Parameters
    ----------
    above
        The same of the space that it is a part of; its bounds hold here, too.
    """
    leaf = node.leaf
    known = {
        key: each if each.how == "infeasible" else replace(each, how="unsettled")
        for key, each in above.items()
    }
    if leaf is not None and leaf.result is not None:
        known = {(one.stages, one.microbatches): one for one in leaf.result.settlements}
    known = {
        # The bound of the whole space may be higher.
        key: each
        if each.bound_s is None or math.isinf(node.bound)
        else replace(each, bound_s=max(each.bound_s, node.bound))
        for key, each in known.items()
    }
    if not node.parts:
        return known
    # A space without plans is settled whatever (p, q) is.
    left = [part for part in node.parts if not math.isinf(part.bound)]
    parts = [(part, _settled(part, known)) for part in left or node.parts]
    found: Known = {}
    for key in dict.fromkeys([*known, *(key for _, own in parts for key in own)]):
        for part, own in parts:
            one = own.get(key) or _untold(part, *key)
            found[key] = _both(found.get(key, one), one)
    return found


def _untold(part: Runnable, stages: int, microbatches: int) -> Settlement:
    """Return the settlement of a (p, q) of which a search of a space says nothing."""
    searched = part.leaf is not None and part.leaf.result is not None
    return Settlement(
        stages=stages,
        microbatches=microbatches,
        # Narrower pins, or tables without its strategies, rule it out there.
        how="infeasible" if searched else "unsettled",
        bound_s=None if searched else part.bound,
    )


def _both(one: Settlement, other: Settlement) -> Settlement:
    """Return the settlement of one (p, q) for two spaces together."""
    bounds = [each.bound_s for each in (one, other) if each.bound_s is not None]
    return replace(
        one,
        how=min(one.how, other.how, key=_HOWS.index),
        bound_s=min(bounds, default=None),
    )
