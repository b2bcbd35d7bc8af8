"""Messages between ranks, straight from device to device or through their hosts.

Devices that share a collective library, and that the plan lets send to each other, are
*near*: their messages go through a process group of that library. All others go through
the hosts' memory, as HetAuto has it (sections 5.1 and 6): a copy from the device, gloo
between the hosts, a copy to the device. The caller's thread waits for all three, so a
thread of its own, with a stream of its own, overlaps them with the computation.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .devices import accelerator

#: Tensors by the rank that they come from or go to.
Messages = Sequence[tuple[int, Tensor]]


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """Ranks that exchange tensors.

    Attributes
    ----------
    near
        The process group for messages between near ranks; None if there is none.
    far
        That of all ranks, on gloo, for other messages; None if all ranks are near.
    reached
        The ranks that are near this one.
    """

    near: Any
    far: Any = None
    reached: Collection[int] = ()

    def exchange(self, leaving: Messages, arriving: Messages, tag: int = 0) -> None:
        """Send tensors, and fill those that arrive.

        As with a collective on a device, they are filled for its current stream.
        """
        near_in, far_in = self._parted(arriving)
        near_out, far_out = self._parted(leaving)
        work = _post(near_out, near_in, self.near, tag)
        if far_out or far_in:
            self._through_hosts(far_out, far_in, tag)
        for each in work:
            each.wait()

    def total(self, x: Tensor, operation: Any = dist.ReduceOp.SUM) -> None:
        """Sum a small tensor over all ranks, in place, or reduce it otherwise."""
        if self.far is None:
            dist.all_reduce(x, op=operation, group=self.near)
            return
        host = x.cpu()
        dist.all_reduce(host, op=operation, group=self.far)
        x.copy_(host)

    def _parted(self, messages: Messages) -> tuple[Messages, Messages]:
        """Return the messages with near ranks, and the others."""
        if self.far is None:
            return messages, ()
        reached = () if self.near is None else self.reached
        near = [each for each in messages if each[0] in reached]
        return near, [each for each in messages if each[0] not in reached]

    def _through_hosts(self, leaving: Messages, arriving: Messages, tag: int) -> None:
        sent = [(to, _host_like(x).copy_(x, non_blocking=True)) for to, x in leaving]
        received = [(source, _host_like(x)) for source, x in arriving]
        for _, x in leaving[:1]:
            if api := accelerator(x.device):
                api.current_stream().synchronize()
        for each in _post(sent, received, self.far, tag):
            each.wait()
        for (_, x), (_, host) in zip(arriving, received, strict=True):
            x.copy_(host)


def _host_like(x: Tensor) -> Tensor:
    """Return memory of the host for a tensor, which its device copies by itself."""
    return torch.empty(x.shape, dtype=x.dtype, pin_memory=x.device.type != "cpu")


def _post(leaving: Messages, arriving: Messages, group: Any, tag: int) -> list[Any]:
    """Start all messages of a process group.

    In one batch: on NCCL two ranks that swap parts would deadlock otherwise.
    """
    work = [dist.P2POp(dist.irecv, x, source, group, tag) for source, x in arriving]
    work += [dist.P2POp(dist.isend, x, to, group, tag) for to, x in leaving]
    return list(dist.batch_isend_irecv(work)) if work else []
