"""Which ranks the tokens of routed experts go to, and the exchange there and back.

Every expert that a token chose gets a copy of its row. Copies are sorted by expert,
sent to the ranks that have these experts (an all-to-all over ep), gathered by the ranks
that share the experts' matrices (over etp), and sorted by a rank's own experts. After
the experts all of this is undone, and a token's copies are summed. No copy is dropped,
so the number that each rank gets is known only once experts are chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .groups import Place, gather_parts


@dataclass(frozen=True, kw_only=True)
class Routes:
    """Where the copies of one micro-batch go in one layer.

    Attributes
    ----------
    sends, receives
        Numbers of copies sent to each rank of ``place.spread``, and received from it.
    shares
        Number of copies that each rank of ``place.cutters`` receives in this exchange.
    order
        Sorts the copies of all ``cutters`` by this rank's experts; None if it has one.
    ends
        End (exclusive) of the copies of each of this rank's experts, in that order.
    """

    place: Place
    sends: list[int]
    receives: list[int]
    shares: list[int]
    order: Tensor | None
    ends: list[int]

    @classmethod
    def of(cls, place: Place, choice: Tensor, experts: int) -> Routes:
        """Return the routes of tokens that chose these experts, int64 (n, k)."""
        plan, own = place.plan, experts // place.plan.ep
        counts = torch.bincount(choice.flatten(), minlength=experts).view(plan.ep, own)
        arriving = counts
        if place.spread is not None:
            one = [1] * plan.ep
            arriving = exchanged(counts, one, one, place.spread)
        everyone = arriving[None]
        if place.cutters is not None:
            everyone = gather_parts(arriving, place.cutters, plan.etp)
        order = None
        if own > 1:
            which = torch.arange(own, device=choice.device).repeat(plan.ep * plan.etp)
            rows = which.repeat_interleave(everyone.flatten())
            order = rows.argsort(stable=True)
        return cls(
            place=place,
            sends=counts.sum(1).tolist(),
            receives=arriving.sum(1).tolist(),
            shares=everyone.sum((1, 2)).tolist(),
            order=order,
            ends=list(accumulate(everyone.sum((0, 1)).tolist())),
        )

    def there(self, x: Tensor) -> Tensor:
        """Send rows sorted by expert; return the rows of this rank's experts."""
        place = self.place
        if place.spread is not None:
            x = _Exchange.apply(x, self.sends, self.receives, place.spread)
        if place.cutters is not None:
            x = _Gather.apply(x, self.shares, place)
        return x if self.order is None else Copied.apply(x, self.order, 1)

    def back(self, x: Tensor) -> Tensor:
        """Return the results of the rows given to ``there``; sum over ``cutters``."""
        place = self.place
        if self.order is not None:
            x = Joined.apply(x, self.order, 1)
        if place.cutters is not None:
            x = _Reduce.apply(x, self.shares, place)
        if place.spread is not None:
            x = _Exchange.apply(x, self.receives, self.sends, place.spread)
        return x


class Copied(torch.autograd.Function):
    """Copies of tokens in another order; keeps the order."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, copies: int) -> Tensor:
        """Return (n * copies, width), copies of the rows of (n, width) by ``order``."""
        ctx.save_for_backward(order)
        ctx.copies = copies
        return x[order // copies]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Add the gradients of a token's copies."""
        (order,) = ctx.saved_tensors
        return _joined(grad, order, ctx.copies), None, None


class Joined(torch.autograd.Function):
    """The sum of each token's copies; keeps the order that ``Copied`` put them in."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, copies: int) -> Tensor:
        """Sum the copies (n * copies, width) of each token; return (n, width)."""
        ctx.save_for_backward(order)
        ctx.copies = copies
        return _joined(x, order, copies)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Give the gradient of a sum to each of its copies."""
        (order,) = ctx.saved_tensors
        return grad[order // ctx.copies], None, None


def _joined(x: Tensor, order: Tensor, copies: int) -> Tensor:
    found = torch.empty_like(x)
    found[order] = x
    return found if copies == 1 else found.unflatten(0, (-1, copies)).sum(1)


class _Exchange(torch.autograd.Function):
    """An all-to-all of rows; keeps nothing."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, sends: list[int], receives: list[int], group: Any
    ) -> Tensor:
        ctx.sends, ctx.receives, ctx.group = sends, receives, group
        return exchanged(x, sends, receives, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return exchanged(grad, ctx.receives, ctx.sends, ctx.group), None, None, None


class _Gather(torch.autograd.Function):
    """The rows of all ranks that share experts, one after the other; keeps nothing."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shares: list[int], place: Place) -> Tensor:
        ctx.shares, ctx.place = shares, place
        return _gathered(x, shares, place)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _reduced(grad, ctx.shares, ctx.place), None, None


class _Reduce(torch.autograd.Function):
    """A rank's own rows of a sum over those that share experts; keeps nothing."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shares: list[int], place: Place) -> Tensor:
        ctx.shares, ctx.place = shares, place
        return _reduced(x, shares, place)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _gathered(grad, ctx.shares, ctx.place), None, None


def _gathered(x: Tensor, shares: list[int], place: Place) -> Tensor:
    """Gather (own share, width) of all ranks; return (sum of shares, width)."""
    size = len(shares)
    copies = x.expand(size, *x.shape).flatten(0, 1)
    return exchanged(copies, [len(x)] * size, shares, place.cutters)


def _reduced(x: Tensor, shares: list[int], place: Place) -> Tensor:
    """Sum (sum of shares, width) over the ranks; return (own share, width)."""
    size, own = len(shares), shares[place.etp]
    parts = exchanged(x, shares, [own] * size, place.cutters)
    return parts.unflatten(0, (size, own)).sum(0)


def exchanged(x: Tensor, sends: list[int], receives: list[int], group: Any) -> Tensor:
    """Send a number of rows to each rank of a group; return those that arrive.

    An all-to-all that posts all receives before it sends. gloo's own sends first: where
    a rank's receive request is then queued behind its data, a connection carries one
    direction after the other.
    """
    ranks, own = dist.get_process_group_ranks(group), dist.get_rank(group)
    received = x.new_empty((sum(receives), *x.shape[1:]))
    arriving, leaving = received.split(receives), x.contiguous().split(sends)
    arriving[own].copy_(leaving[own])
    # Every rank begins with a different partner.
    others = [(own + step) % len(ranks) for step in range(1, len(ranks))]
    work = [
        dist.P2POp(dist.irecv, arriving[number], ranks[number], group)
        for number in reversed(others)
        if receives[number]
    ]
    work += [
        dist.P2POp(dist.isend, leaving[number], ranks[number], group)
        for number in others
        if sends[number]
    ]
    for each in dist.batch_isend_irecv(work) if work else []:
        each.wait()
    return received
