"""Tensors that cross from one stage to the next, beside the computation.

Each direction of each boundary has a thread and a process group of its own, so that no
transfer waits for one of the other direction, nor for a computation: as simulated, a
transfer starts as soon as the tensor is there and the one before it is through.
What arrives early waits as it came; a stage takes in no more than its schedule lets the
one before it run ahead, which is W - W' micro-batches.

A rank that tokens pass through on their way holds them for that moment: all of its part
of the batch under ``leader`` and ``send-recv-all-gather``, where hetopt's table takes
them to pass in pieces.

Without sequence parallelism a boundary is still split over all ranks, as hetopt prices
it: each sends its part of the tokens, and the receivers gather them.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .groups import Place
from .region import Region
from .routes import ALL, Step, steps_of


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """One tensor that crossed.

    Attributes
    ----------
    kind
        ``receive-forward``, ``send-forward``, ``receive-backward``, ``send-backward``.
    start_s, end_s
        By ``time.perf_counter``; waiting for the other end is in it.
    sent_bytes, received_bytes
        Over all steps of this rank.
    """

    kind: str
    microbatch: int
    start_s: float
    end_s: float
    sent_bytes: int
    received_bytes: int


class Channel:
    """One rank's end of one direction of one boundary.

    Parameters
    ----------
    kind
        As of ``Transfer``.
    ends
        The stage that sends and the one that receives.
    """

    def __init__(self, place: Place, kind: str, ends: tuple[int, int]) -> None:
        self.place, self.kind = place, kind
        self.receives = kind.startswith("receive")
        behind = int(max(ends) > place.stage)
        groups = place.forward if kind.endswith("forward") else place.backward
        self.group = groups[behind]
        self.steps = steps_of(place.job, place.rank, ends, place.device)
        self.transfers: list[Transfer] = []
        cuda = place.device.type == "cuda"
        self.stream = torch.cuda.Stream(place.device) if cuda else None
        self.thread = ThreadPoolExecutor(1, initializer=self._settle)

    def send(self, microbatch: int, x: Tensor) -> Future[Any]:
        """Send a tensor, (b, m, h), once it is computed."""
        x = x.flatten(0, 1)
        ready = torch.cuda.current_stream().record_event() if self.stream else None
        return self.thread.submit(self._timed, microbatch, x, ready)

    def receive(self, microbatch: int) -> Future[Tensor]:
        """Receive the tensor of a micro-batch, (b * m, h)."""
        return self.thread.submit(self._timed, microbatch, None, None)

    def _settle(self) -> None:
        if self.stream:
            torch.cuda.set_device(self.place.device)

    def _timed(self, microbatch: int, x: Tensor | None, ready: Any) -> Tensor:
        start = time.perf_counter()
        counts = [0, 0]
        with torch.cuda.stream(self.stream) if self.stream else nullcontext():
            if ready is not None:
                ready.wait()
            found = self._run(microbatch, x, counts)
            if self.stream:
                self.stream.synchronize()
        self.transfers.append(
            Transfer(
                kind=self.kind,
                microbatch=microbatch,
                start_s=start,
                end_s=time.perf_counter(),
                sent_bytes=counts[0],
                received_bytes=counts[1],
            )
        )
        return found

    def _run(self, microbatch: int, x: Tensor | None, counts: list[int]) -> Tensor:
        """Go through the steps; a receiver starts with nothing."""
        if x is None:
            x = self._empty(0)
        for number, step in enumerate(self.steps):
            x = self._exchange(step, x, microbatch * len(self.steps) + number, counts)
        return x

    def _exchange(self, step: Step, x: Tensor, tag: int, counts: list[int]) -> Tensor:
        """Return the tensor of the next holding; empty for a rank without a part."""
        arriving = [
            (source, at, self._empty(count)) for source, at, count in step.receives
        ]
        leaving = [(to, x[rows]) for to, rows in step.sends]
        messages = [
            dist.P2POp(dist.irecv, part, source, self.group, tag)
            for source, _, part in arriving
        ] + [dist.P2POp(dist.isend, part, to, self.group, tag) for to, part in leaving]
        counts[0] += sum(part.nbytes for _, part in leaving)
        counts[1] += sum(part.nbytes for _, _, part in arriving)
        # At once, or two ranks that swap parts would wait for each other on NCCL.
        for each in dist.batch_isend_irecv(messages) if messages else ():
            each.wait()
        if len(arriving) == 1 and arriving[0][1] == ALL:
            return arriving[0][2]
        found = self._empty(step.rows)
        for rows, at in step.kept:
            found[at] = x[rows]
        for _, at, part in arriving:
            found[at] = part
        return found

    def _empty(self, rows: int) -> Tensor:
        job = self.place.job
        shape = (rows, job.model["hidden"])
        return torch.empty(shape, dtype=job.dtype, device=self.place.device)


class Boundaries:
    """What a stage receives and sends, forward and backward.

    ``transfers`` lists what crossed since ``start`` was called.
    """

    def __init__(self, place: Place) -> None:
        self.place, self.region = place, Region.of(place)
        self.parts = replace(self.region, splits=True)
        number = place.stage
        before, behind = (number - 1, number), (number, number + 1)
        self.channels: dict[str, Channel] = {}
        if not place.is_first:
            self._open("receive-forward", before)
            self._open("send-backward", before[::-1])
        if not place.is_last:
            self._open("send-forward", behind)
            self._open("receive-backward", behind[::-1])
        self.coming: dict[str, dict[int, Future[Tensor]]] = {}
        self.going: list[Future[Any]] = []

    def _open(self, kind: str, ends: tuple[int, int]) -> None:
        self.channels[kind] = Channel(self.place, kind, ends)

    def start(self) -> None:
        """Ask for everything that this iteration will receive."""
        for kind, channel in self.channels.items():
            channel.transfers.clear()
            if channel.receives:
                every = range(self.place.job.microbatches)
                self.coming[kind] = {m: channel.receive(m) for m in every}

    def take(self, kind: str, microbatch: int) -> Tensor:
        """Wait for a tensor; return it as (b, m, h)."""
        coming = self.coming[kind].pop(microbatch)
        while not wait([coming], timeout=1.0).done:
            # It may never come because something could not be sent.
            self._check_sent()
        x = coming.result()
        if x.is_cuda:
            x.record_stream(torch.cuda.current_stream())
        x = x.unflatten(0, (len(self.place.sequences), -1))
        return x if self.region.splits else self.parts.spread(x)

    def give(self, kind: str, microbatch: int, x: Tensor) -> None:
        """Send a tensor, (b, m, h)."""
        if not self.region.splits:
            x = x.chunk(self.region.size, 1)[self.region.rank]
        self.going.append(self.channels[kind].send(microbatch, x))

    def finish(self) -> None:
        """Wait until everything has been sent."""
        for each in self.going:
            each.result()
        self.going.clear()

    def _check_sent(self) -> None:
        """Raise what went wrong in sending, if anything did."""
        for each in [each for each in self.going if each.done()]:
            each.result()
            self.going.remove(each)

    @property
    def transfers(self) -> list[Transfer]:
        """What crossed since the start, by the end of it."""
        found = [each for one in self.channels.values() for each in one.transfers]
        return sorted(found, key=lambda each: each.end_s)
