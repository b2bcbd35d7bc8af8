"""Nodes of the tree: a problem to search, and problems whose plans are alternatives.

A node has a *bound*, which no plan below it beats and which never falls, and its best
plans. ``rest`` says how far it is searched: every plan below ``rest`` that is not among
the best ones is no better than the last of these. Cutoffs come from above: only plans
below the cutoff are of interest. ``next`` walks down to the open leaf on which the
bound rests; a leaf that was searched passes what it found up to all its parents.

What is compared is the *value* of a plan: the time that is minimised, or what an
iteration costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.results.settlement import OPTIMALITY_GAP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hetopt.base.deadline import Deadline
    from hetopt.errors import InputError
    from hetopt.results.priced_plan import PricedPlan
    from hetopt.results.result import Result
    from hetopt.solvers.search.space import Space

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]
    #: Returns what is claimed of a leaf, as plain JSON data; None: nothing.
    OfLeaf = Callable[["Leaf"], dict[str, Any] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A plan with its value.

    Attributes
    ----------
    value
        What is minimised: ``time_s``, or the cost of an iteration.
    time_s
        The time that is minimised, or that the cost is of.
    priced
        The plan, of the problem that ``space`` reports plans for.
    space
        Where it was found.
    """

    value: float
    time_s: float
    priced: PricedPlan
    space: Space

    @property
    def shape(self) -> object:
        """A key that is the same for plans of which only the best is listed.

        They differ in their units only, or divide the same nodes among pipelines.
        """
        plan = self.priced.plan
        pipelines: tuple[object, ...] = tuple(
            tuple(sorted(each.share.nodes.items()))
            for each in plan.pipelines
            if each.share is not None
        )
        if not pipelines:
            own = plan.pipeline
            stages = tuple((stage.cluster, stage.strategy) for stage in own.stages)
            pipelines = (own.microbatches, stages)
        return plan.schedule, plan.chunks, plan.warmup_epsilon, pipelines


@dataclass(frozen=True, slots=True)
class Step:
    """A leaf to search next.

    Attributes
    ----------
    cutoff
        Only plans below it are of interest.
    quick
        Whether only the first plan is wanted, one of a single strategy.
    """

    leaf: Leaf
    cutoff: float
    quick: bool = False


class Node:
    """A problem of the tree.

    Attributes
    ----------
    parents
        Nodes that have this one among their children, with its key there.
    bound, rest, best
        See the module; ``best`` is ascending by value.
    failure
        Why the first problem that cannot be searched cannot; it is left to its bound.
    """

    def __init__(self, least: float = 0.0) -> None:
        self.parents: list[tuple[Node, Any]] = []
        self.bound = self.rest = least
        self.best: tuple[Found, ...] = ()
        self.failure: InputError | None = None

    @property
    def value(self) -> float:
        """The value of the best plan; inf if none is known."""
        return self.best[0].value if self.best else math.inf

    def next(self, cutoff: float) -> Step | None:
        """Return the open leaf that the bound rests on.

        None: no plan below the cutoff is left to be found.
        """
        raise NotImplementedError

    def update(self, key: Any) -> bool:
        """Take what a child has found; return whether anything became known."""
        raise NotImplementedError

    def open_leaves(self, cutoff: float) -> int:
        """Return about how many leaves may have a plan below the cutoff."""
        return int(self.next(cutoff) is not None)

    def searched(self) -> Iterator[Leaf]:
        """Yield the leaves below that were searched, each once."""
        raise NotImplementedError

    def claim(self, of_leaf: OfLeaf | None = None) -> dict[str, Any] | None:
        """Return what is claimed, as plain JSON data; None: nothing but the obvious.

        Parameters
        ----------
        of_leaf
            Returns what is claimed of a leaf that was searched; by default its bound.
        """
        raise NotImplementedError


def spread(node: Node) -> None:
    """Tell all parents of a node, and theirs, what it has found."""
    for parent, key in node.parents:
        if parent.update(key):
            spread(parent)


def claimed(node: Node) -> dict[str, Any]:
    """Return the bound of a node and the time of its best plan as plain JSON data."""
    claim: dict[str, Any] = {"bound_s": None if math.isinf(node.bound) else node.bound}
    return {**claim, **best_of(node)}


def best_of(node: Node) -> dict[str, Any]:
    """Return the time of the best plan of a node as plain JSON data."""
    return {"best_s": node.best[0].time_s} if node.best else {}


def is_settled(result: Result) -> bool:
    """Whether a search showed that no plan below its cutoff is missing."""
    if result.claims is not None or not result.settlements:
        return result.status in ("optimal", "infeasible")
    return "unsettled" not in result.settled


#: A search that ends with more than this share of its time left has given up.
_EARLY = 0.25


class Leaf(Node):
    """One problem that a solver searches.

    Attributes
    ----------
    space
        The problem.
    least
        The bound that it had from the start.
    result
        The result of its last search; None before.
    proof
        The result from which its bound follows, of all its searches.
    slice_s
        Seconds that its last search had.
    splits
        Whether its problem may have to be split when it was searched.
    """

    def __init__(
        self,
        space: Space,
        solve: Callable[[Leaf, float, Deadline], Result],
        least: float,
        *,
        top: int,
        proves: bool,
    ) -> None:
        super().__init__(least)
        self.least = least
        self.space, self._solve = space, solve
        self.top, self._proves = top, proves
        self.result: Result | None = None
        self.proof: Result | None = None
        self.slice_s = 0.0
        self.splits = False
        #: Whether its last search was for a first plan only.
        self.was_quick = False
        #: What a race keeps, to go on from where it stopped.
        self.memory: dict[str, Any] = {}
        # The largest cutoff of a search that ended by itself.
        self._tried = -math.inf

    def next(self, cutoff: float) -> Step | None:
        """See ``Node``; a search that ended is repeated only for a larger cutoff."""
        if self.rest >= cutoff or self._tried >= cutoff:
            return None
        return Step(self, cutoff)

    def searched(self) -> Iterator[Leaf]:
        """See ``Node``."""
        if self.result is not None:
            yield self

    @property
    def ended(self) -> bool:
        """Whether it need not be searched again for the same cutoff."""
        return self._tried > -math.inf

    @property
    def is_new(self) -> bool:
        """Whether it was never searched."""
        return self.result is None and not self.ended

    def give_up(self, error: InputError) -> None:
        """Leave the problem to its bound: the solver cannot search it."""
        self.failure = error
        self.leave()

    def leave(self) -> None:
        """Leave the problem to its bound; it is not searched again."""
        self._tried = math.inf

    def advance(
        self, cutoff: float, deadline: Deadline, *, quick: bool = False
    ) -> None:
        """Search for plans below the cutoff until the deadline.

        Parameters
        ----------
        quick
            Whether it is over from the start: only a first plan is looked for.

        Raises
        ------
        InputError
            The solver cannot search this problem.
        """
        limit_s, self.was_quick = deadline.limit_s, quick
        if not quick:
            self.slice_s = math.inf if limit_s is None else limit_s
        result = self._solve(self, cutoff, deadline)
        self._keep(result)
        settled = self._proves and is_settled(result)
        bound = self._bound_of(result, cutoff, settled=settled)
        if self.proof is None or bound >= self.bound:
            self.proof = result
        self.bound = max(self.bound, bound)
        self.result = result
        self.rest = max(self.rest, self.bound)
        if settled and (result.gap or 0.0) <= OPTIMALITY_GAP:
            full = len(self.best) >= self.top
            last = min(cutoff, self.best[-1].value) if full else cutoff
            self.rest = max(self.rest, last)
        left_s = deadline.left_s()
        if settled or left_s is None or left_s > _EARLY * (limit_s or 0.0):
            # What is left open stays so.
            self._tried = cutoff

    def _keep(self, result: Result) -> None:
        new = tuple(
            Found(
                value=each.time_s(result.objective),
                time_s=each.time_s(result.objective),
                priced=self.space.reported(each),
                space=self.space,
            )
            for each in result.plans
        )
        known = {each.shape for each in new}
        kept = [each for each in self.best if each.shape not in known]
        both = sorted([*new, *kept], key=lambda each: each.value)
        self.best = tuple(both[: self.top])

    def _bound_of(self, result: Result, cutoff: float, *, settled: bool) -> float:
        if result.status == "infeasible":
            return math.inf
        if result.best is None and settled:
            # A plan within the cutoff would have been found.
            return math.nextafter(cutoff, math.inf)
        return result.lower_bound_s or 0.0

    def claim(self, of_leaf: OfLeaf | None = None) -> dict[str, Any] | None:
        """See ``Node``."""
        if self.result is None:
            return None
        if of_leaf is not None:
            return of_leaf(self)
        if self.result.claims is not None:
            return {**self.result.claims, **best_of(self)}
        return claimed(self)
