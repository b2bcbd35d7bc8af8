"""Tensors that cross from one stage to the next, beside the computation.

Each direction of each boundary has a thread and a process group of its own, so that no
transfer waits for one of the other direction, nor for a computation: as simulated, a
transfer starts as soon as the tensor is there and the one before it is through.
What arrives early waits as it came; a stage takes in no more than its schedule lets the
one before it run ahead, which is W - W' micro-batches. Where stages hold several
chunks, there is one more boundary, from the last stage back to the first, which takes
in at most p micro-batches before it runs them.

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
    number
        Of the pass whose result it is, on the sending stage.
    start_s, end_s
        By ``time.perf_counter``; waiting for the other end is in it.
    sent_bytes, received_bytes
        Over all steps of this rank.
    """

    kind: str
    number: int
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
    boundary
        The stage that it is behind.
    """

    def __init__(self, place: Place, kind: str, boundary: int) -> None:
        self.place, self.kind = place, kind
        self.receives = kind.startswith("receive")
        job, onward = place.job, kind.endswith("forward")
        groups = place.forward if onward else place.backward
        self.group = groups[int(boundary == place.stage)]
        ends = boundary, (boundary + 1) % len(job.stages)
        way = job.stages[boundary].resharding
        assert way is not None
        self.steps = steps_of(
            job, place.rank, ends if onward else ends[::-1], way, place.device
        )
        self.transfers: list[Transfer] = []
        cuda = place.device.type == "cuda"
        self.stream = torch.cuda.Stream(place.device) if cuda else None
        self.thread = ThreadPoolExecutor(1, initializer=self._settle)

    def send(self, number: int, x: Tensor) -> Future[Any]:
        """Send a tensor, (b, m, h), once it is computed."""
        x = x.flatten(0, 1)
        ready = torch.cuda.current_stream().record_event() if self.stream else None
        return self.thread.submit(self._timed, number, x, ready)

    def receive(self, number: int) -> Future[Tensor]:
        """Receive the result of a pass, (b * m, h)."""
        return self.thread.submit(self._timed, number, None, None)

    def _settle(self) -> None:
        if self.stream:
            torch.cuda.set_device(self.place.device)

    def _timed(self, number: int, x: Tensor | None, ready: Any) -> Tensor:
        start = time.perf_counter()
        counts = [0, 0]
        with torch.cuda.stream(self.stream) if self.stream else nullcontext():
            if ready is not None:
                ready.wait()
            found = self._run(number, x, counts)
            if self.stream:
                self.stream.synchronize()
        self.transfers.append(
            Transfer(
                kind=self.kind,
                number=number,
                start_s=start,
                end_s=time.perf_counter(),
                sent_bytes=counts[0],
                received_bytes=counts[1],
            )
        )
        return found

    def _run(self, number: int, x: Tensor | None, counts: list[int]) -> Tensor:
        """Go through the steps; a receiver starts with nothing."""
        if x is None:
            x = self._empty(0)
        for tag, step in enumerate(self.steps, number * len(self.steps)):
            x = self._exchange(step, x, tag, counts)
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
        stages = len(place.job.stages)
        before, behind = (place.stage - 1) % stages, place.stage
        self.channels: dict[str, Channel] = {}
        if before < place.job.boundaries:
            self._open("receive-forward", before)
            self._open("send-backward", before)
        if behind < place.job.boundaries:
            self._open("send-forward", behind)
            self._open("receive-backward", behind)
        self.coming: dict[str, dict[int, Future[Tensor]]] = {}
        self.going: list[Future[Any]] = []

    def _open(self, kind: str, boundary: int) -> None:
        self.channels[kind] = Channel(self.place, kind, boundary)

    def start(self) -> None:
        """Ask for everything that this iteration will receive, in order."""
        place, passes = self.place, self.place.job.passes
        for channel in self.channels.values():
            channel.transfers.clear()
        for kind, number in passes.order(place.plan.warmup):
            source = passes.source(kind, place.stage, number)
            if source is not None:
                name = "receive-forward" if kind == "F" else "receive-backward"
                own = self.coming.setdefault(name, {})
                own[source] = self.channels[name].receive(source)

    def take(self, kind: str, number: int) -> Tensor:
        """Wait for the result of a pass; return it as (b, m, h)."""
        coming = self.coming[kind].pop(number)
        while not wait([coming], timeout=1.0).done:
            # It may never come because something could not be sent.
            self._check_sent()
        x = coming.result()
        if x.is_cuda:
            x.record_stream(torch.cuda.current_stream())
        x = x.unflatten(0, (len(self.place.sequences), -1))
        return x if self.region.splits else self.parts.spread(x)

    def give(self, kind: str, number: int, x: Tensor) -> None:
        """Send the result of a pass, (b, m, h)."""
        if not self.region.splits:
            x = x.chunk(self.region.size, 1)[self.region.rank]
        self.going.append(self.channels[kind].send(number, x))

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
