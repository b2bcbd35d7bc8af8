"""The weights and gradients of a unit, grouped in rows by the ranks that hold them."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .groups import Copies, Place, gather_parts, sum_parts
from .pieces import Pieces


class Bucket:
    """Parameters of a unit that the same ranks hold, updated in shares with ZeRO-1.

    Parameters are views of one row of weights, and autograd's gradients are added to
    one row of gradients. Both are padded so that all replicas have equally long shares.

    Attributes
    ----------
    copies
        The ranks that hold them.
    names
        Names of its parameters, in order.
    weights, gradients
        The rows, in the job's precision and in that of its gradients.
    share
        The numbers that this replica updates; all of them without ZeRO-1.
    pieces
        Pieces of the gradients, if there are several pipelines; else None.
    """

    def __init__(
        self, place: Place, copies: Copies, parameters: dict[str, nn.Parameter]
    ) -> None:
        self.copies, self.names = copies, list(parameters)
        self.parameters = list(parameters.values())
        sizes = [each.numel() for each in self.parameters]
        self.ends = torch.tensor([0, *sizes]).cumsum(0).tolist()
        parts = copies.size
        length = -(-self.ends[-1] // parts) * parts
        job, device = place.job, place.device
        wide = torch.float32 if job.gradients == "fp32" else job.dtype
        self.weights = torch.zeros(length, dtype=job.dtype, device=device)
        self.gradients = torch.zeros(length, dtype=wide, device=device)
        sharded = place.plan.zero > 0 and parts > 1
        each = length // parts
        first = copies.rank * each
        self.share = slice(first, first + each) if sharded else slice(0, length)
        self.sharded = sharded
        #: Parameters whose last gradient is still to come, after ``expect``.
        self.missing = 0
        self.reduced = False
        self.work: Any = None
        self.received: Tensor | None = None
        self.hooks: list[Any] = []
        for number, parameter in enumerate(self.parameters):
            own = self.view(self.weights, number)
            own.copy_(parameter.detach())
            parameter.data = own
            hook = self._hook(number)
            self.hooks.append(parameter.register_post_accumulate_grad_hook(hook))
        self.pieces: Pieces | None = None
        if len(place.jobs) > 1:
            count = range(len(self.parameters))
            views = [self.view(self.gradients, number) for number in count]
            self.pieces = Pieces(self.parameters, views, (parts, copies.rank))

    def view(self, row: Tensor, number: int) -> Tensor:
        """Return the part of a row that belongs to a parameter, in its shape."""
        start, end = self.ends[number : number + 2]
        return row[start:end].view_as(self.parameters[number])

    def close(self) -> None:
        """Let go of the parameters, whose hooks hold this bucket and its group."""
        for each in self.hooks:
            each.remove()

    def expect(self, among: set[nn.Parameter] | None) -> None:
        """Reduce gradients as soon as each parameter has got one more gradient.

        Parameters
        ----------
        among
            Those that get one more; None for all.
        """
        coming = [each for each in self.parameters if among is None or each in among]
        self.missing = len(coming)
        if not coming:
            self.reduce()

    def reduce(self) -> None:
        """Start to sum gradients over the ranks that hold the same parameters."""
        self.reduced = True
        for number, parameter in enumerate(self.parameters):
            group = getattr(parameter, "sum_over", None)
            if group is not None:
                dist.all_reduce(self.view(self.gradients, number), group=group)
        group = self.copies.group
        if group is None:
            return
        if self.pieces is not None:
            self.received, self.work = sum_parts(self.pieces.packed(), group)
        elif self.sharded:
            parts = self.gradients.view(self.copies.size, -1)
            self.received, self.work = sum_parts(parts, group)
        else:
            self.work = dist.all_reduce(self.gradients, group=group, async_op=True)

    def wait(self) -> None:
        """Wait for the sums; those of the share are then in ``gradients``.

        With several pipelines they are in ``pieces``, until ``spread``.
        """
        if self.work is not None:
            self.work.wait()
        if self.pieces is not None:
            own = self.received
            self.pieces.own.copy_(self.pieces.packed()[0] if own is None else own)
        elif self.received is not None:
            self.gradients[self.share] = self.received
        self.work, self.received = None, None
        self.missing, self.reduced = 0, False

    def spread(self) -> None:
        """Put the pieces of all replicas into ``gradients``."""
        if self.pieces is not None:
            self.pieces.spread(self.copies.group)

    def gather(self) -> None:
        """Get the other replicas' shares of the weights."""
        if self.sharded:
            self.weights.copy_(self.gathered(self.weights))

    def gathered(self, row: Tensor) -> Tensor:
        """Return a row made of the shares of all ranks that hold it."""
        own, copies = row[self.share], self.copies
        return gather_parts(own, copies.group, copies.size).view(-1)

    def _hook(self, number: int) -> Any:
        def add(parameter: Tensor) -> None:
            if parameter.grad is None:
                # It was put aside: a W pass computes it.
                return
            self.view(self.gradients, number).add_(parameter.grad)
            parameter.grad = None
            if self.missing > 0:
                self.missing -= 1
                if self.missing == 0:
                    self.reduce()

        return add
