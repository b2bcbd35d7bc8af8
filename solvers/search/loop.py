"""Search the leaf on which the root's bound rests, again and again.

Under a time limit a leaf gets a slice of the time that is left: half of it until there
is a plan, as that is the cutoff of all others; then by the number of leaves that are
open. If that was too short, it gets twice as much the next time its bound is the least.
A leaf whose search ends by itself is settled.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hetopt.base.deadline import Deadline
from hetopt.base.interruption import requested
from hetopt.errors import InputError
from hetopt.solvers.search.journal import JournalError
from hetopt.solvers.search.node import spread

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.solvers.search.node import Leaf, Node, Step

#: Shortest slice; seconds that a search gets even if the time is up.
_SLICE_S, LEAST_S = 1.0, 0.01


class Loop:
    """One search of a tree.

    Attributes
    ----------
    searches
        Number of searches of leaves.
    interrupted
        Whether the user stopped it.
    failure
        Why the solver cannot search the first leaf that it cannot, if any.

    Parameters
    ----------
    told
        Called after every search, and before the first.
    cutoff
        Only plans of a smaller value are of interest.
    """

    def __init__(
        self,
        root: Node,
        deadline: Deadline,
        told: Callable[[], None],
        *,
        cutoff: float = math.inf,
    ) -> None:
        self.searches, self.interrupted = 0, False
        self._root, self._deadline, self._told = root, deadline, told
        self._cutoff = cutoff
        # Whether there is a plan, found with more than no time.
        self._has_plan = False
        self.failure: InputError | None = None

    def run(self) -> None:
        """Search until nothing is open, the time is up or the user interrupts.

        Raises
        ------
        InputError
            The solver cannot search any leaf; it says why not the first.
        """
        self._told()
        try:
            while not self.interrupted and not self._is_late():
                step = self._root.next(self._cutoff)
                if step is None:
                    break
                self._search(step)
        except KeyboardInterrupt:
            # Between two searches, where signals are not held.
            if not self.searches:
                raise
            self.interrupted = True
        self.failure = self.failure or self._root.failure
        if not self.searches and self.failure is not None:
            raise self.failure

    def _search(self, step: Step) -> None:
        leaf, over = step.leaf, self._deadline.is_over()
        deadline = Deadline.after(0.0) if step.quick else self._slice(leaf)
        try:
            leaf.advance(step.cutoff, deadline, quick=step.quick)
        except JournalError:
            raise
        except InputError as error:
            leaf.give_up(error)
            self.failure = self.failure or error
            return
        self.searches += 1
        assert leaf.result is not None
        self.interrupted = leaf.result.interrupted or requested() is not None
        if over or leaf is self._root:
            # It had its first plan, or all the time there is.
            leaf.leave()
        spread(leaf)
        self._has_plan |= bool(self._root.best) and not step.quick
        self._told()

    def _is_late(self) -> bool:
        """Whether the time is up; a first plan is looked for a little longer."""
        deadline = self._deadline
        is_over = deadline.is_over if self._root.best else deadline.is_long_over
        return self.searches > 0 and is_over()

    def _slice(self, leaf: Leaf) -> Deadline:
        """Return how long a leaf may be searched."""
        left_s = self._deadline.left_s()
        if leaf is self._root or left_s is None:
            return self._deadline
        open_ = self._root.open_leaves(self._cutoff)
        is_last = open_ <= 1 and not leaf.splits
        parts = max(open_, 1) if self._has_plan else 1
        share_s = left_s if is_last else left_s / 2 / parts
        slice_s = max(_SLICE_S, 2 * leaf.slice_s, share_s)
        return self._deadline.within(slice_s, least_s=LEAST_S)
