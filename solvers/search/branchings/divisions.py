"""Pipelines side by side (Hetu v2): a child for every division of the nodes.

Let V(S, n) be the least time of a pipeline that has a share S of the nodes and takes n
sequences. A division into R shares takes max_r V(S_r, n_r), minimised over all n_r that
add up to the global batch. Each V is a problem of its own (``hetopt.cost.divided``); it
is bounded by device time before it is searched. Divisions have shares in common.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.cost.divided import depends_on
from hetopt.problem.division import everything
from hetopt.solvers.dividing import divisions
from hetopt.solvers.search.branchings.batches import least_longest
from hetopt.solvers.search.branchings.together import ROUNDING, Alike, Seat, Together
from hetopt.solvers.search.node import Leaf, Node
from hetopt.solvers.search.one_of import OneOf

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.results.result import Objective
    from hetopt.solvers.dividing import Division
    from hetopt.solvers.search.branchings.runnable import InCommon
    from hetopt.solvers.search.node import Floats, Step
    from hetopt.solvers.search.space import Space


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
            least = n * self._space.units / rate * (1 - ROUNDING)
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
