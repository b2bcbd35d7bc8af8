"""Warm-up rules of the schedules (MODEL.md section 4): the checker's own table.

It shares nothing with ``hetopt.schedule``, so that an error in one of them is found.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hetopt.check.plan.schedule import orders

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hetopt.check.plan.schedule.orders import Pass, Position


#: Bytes before B, and before w.
Sizes = tuple[Any, Any]


@cache
def _at_once(
    order: Callable[[Position], list[Pass]], p: int, q: int, i: int
) -> NDArray[np.int64]:
    """Return what folded stage i of p holds at once; (n, 6)."""
    return np.array(orders.sizes_at_once(order(orders.Position(i, p, q, 2, 0))))


class Steps(NamedTuple):
    """How many more warm-ups a stage has than the next one.

    Attributes
    ----------
    inside, across
        The least, if both stages are on one cluster, and if they are on two.
    most
        The most on one cluster, unless ``free``; more than ``inside`` only if it
        depends on times.
    parts
        If it depends on times: 1 / ``warmup_epsilon`` unless the problem chooses one.
    all_first
        Whether all forwards come before the first backward.
    free
        Whether the plan chooses.
    blocking
        Consecutive transfers per micro-batch that both stages of a boundary wait for:
        1 for an exchange, 2 for there and back; 0 if stages compute meanwhile.
    interleaved
        Whether stages hold several chunks, each of which begins on the first stage.
    splits
        Whether gradients of weights run later.
    folded
        Whether stages hold two chunks, the second on the way back.
    order
        The passes of a stage.
    room
        If stages repeat a building block: the most passes that stage i of p holds, and
        of its first chunk. Warm-ups are then counted in the order.
    """

    inside: int
    across: int
    most: int
    parts: int = 0
    all_first: bool = False
    free: bool = False
    blocking: int = 0
    interleaved: bool = False
    splits: bool = False
    folded: bool = False
    order: Callable[[Position], list[Pass]] = orders.one_by_one
    room: Callable[[int, int], tuple[int, int]] | None = None

    @property
    def mixes(self) -> bool:
        """Whether micro-batches may have sequences of several lengths."""
        apart = self.blocking or self.interleaved or self.splits or self.free
        return self.most == self.inside and not (apart or self.all_first)

    def between(
        self,
        transfer: int,
        slowest: int,
        *,
        crosses: bool,
        epsilon: float | None = None,
    ) -> int:
        """Return the warm-ups that a boundary adds; not if ``all_first`` or ``free``.

        Parameters
        ----------
        transfer, slowest
            kappa, and lambda_0: the largest tau or kappa of the pipeline.
        epsilon
            The problem's ``warmup_epsilon``, 1 / n; None: 1 / ``parts``.
        """
        if self.most == self.inside:
            return self.across if crosses else self.inside
        parts = self.parts if epsilon is None else round(1 / epsilon)
        if parts * transfer <= slowest:
            return self.inside
        # HAPT Eq. 1, 2 and 10: ceil(1 + 2 kappa / lambda_0)
        return self.inside - (-2 * transfer // slowest)

    def pair_bytes(self, p: int, q: int, down: Sizes, up: Sizes) -> tuple[Any, Any]:
        """Return what folded stages hold of a pair of units at rest, and ahead.

        Ahead: for each micro-batch that a stage runs ahead on its first chunk, which
        are p - i on stage i, at most q - p. At rest: so much that no stage holds more.

        Parameters
        ----------
        down, up
            Bytes of a micro-batch of either unit, before its B and before its w; each a
            number or an array.
        """
        most = [np.maximum(*sizes) for sizes in (down, up)]
        ahead = 0 * most[0]
        if self.room is None:
            ahead = np.maximum(most[0] - most[1], 0)
        sizes = np.array([*down, most[0], *up, most[1]])
        rest = [
            np.tensordot(_at_once(self.order, p, q, i), sizes, 1).max(axis=0)
            - min(p - i, q - p) * ahead
            for i in range(p)
        ]
        return np.max(rest, axis=0), ahead

    def most_at_ends(self, p: int, q: int) -> tuple[int, int]:
        """Return how many passes the first folded stage holds on either chunk."""
        passes = self.order(orders.Position(0, p, q, 2, 0))
        first, second = (orders.most_until_weight(passes, chunk) for chunk in (0, 1))
        return first, second


STEPS = {
    "1f1b": Steps(inside=1, across=1, most=1),
    "1f1b-batched": Steps(inside=1, across=1, most=1, blocking=1, order=orders.batched),
    "1f1b-blocking": Steps(
        inside=1, across=1, most=1, blocking=2, order=orders.blocking
    ),
    "eager-1f1b": Steps(inside=2, across=2, most=2),
    "virtual-1f1b": Steps(inside=1, across=2, most=1),
    "h-1f1b": Steps(inside=1, across=1, most=3, parts=20),
    "interleaved-1f1b": Steps(
        inside=2, across=2, most=2, interleaved=True, order=orders.in_groups
    ),
    "zb-h1": Steps(inside=1, across=1, most=1, splits=True, order=orders.weights_later),
    "zb-v": Steps(
        inside=1, across=1, most=1, splits=True, folded=True, order=orders.folded
    ),
    "v-half": Steps(
        inside=1,
        across=1,
        most=1,
        splits=True,
        folded=True,
        order=orders.v_half,
        room=partial(orders.v_room, True),
    ),
    "v-min": Steps(
        inside=1,
        across=1,
        most=1,
        splits=True,
        folded=True,
        order=orders.v_min,
        room=partial(orders.v_room, False),
    ),
    "gpipe": Steps(inside=0, across=0, most=0, all_first=True),
    "free-1f1b": Steps(inside=0, across=0, most=0, free=True),
}
