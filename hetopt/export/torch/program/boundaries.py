"""Transfers between stages, concurrent with the computation.

Each direction of each boundary has a thread and a process group of its own, so that no
transfer waits for one in the other direction or for a computation. Where the ranks of
both stages do not reach each other directly, the steps from one stage to the other go
through the hosts, and those inside a stage do not (``crossing``). As in the simulation,
a transfer starts once its tensor is computed and the previous one is over. Tensors that
arrive early are buffered as they came: at most W - W' micro-batches, by which the
schedule lets the stage before run ahead. Where stages hold several chunks, there is one
more boundary, from the last stage back to the first, which buffers at most p
micro-batches. In a folded pipeline activations of one chunk and gradients of the other
go in the same direction, in the order in which the sender computes them; from chunk to
chunk of the last stage nothing is sent.

A rank that relays tokens holds them meanwhile: under ``leader`` and
``send-recv-all-gather`` all of its part of the batch, where hetopt's table assumes that
they pass in pieces.

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
from torch import Tensor

from .devices import accelerator
from .groups import Place
from .passes import Side
from .region import Region
from .routes import ALL, Step, steps_of

#: The direction of a pass's result, by the kind of pass.
_WAYS = {"F": "forward", "B": "backward"}


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """One tensor sent or received at a boundary.

    Attributes
    ----------
    kind
        ``receive-forward``, ``send-forward``, ``receive-backward``, ``send-backward``:
        an activation, or a gradient.
    number
        Number, on the sending stage, of the pass whose result it is.
    start_s, end_s
        By ``time.perf_counter``, including the wait for the other end.
    sent_bytes, received_bytes
        Sums over all steps of this rank.
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
    side
        Whether the boundary is before or behind this stage.
    receives
        Whether this rank receives here; else it sends.
    """

    def __init__(self, place: Place, side: Side, *, receives: bool) -> None:
        self.place, self.receives = place, receives
        job, onward = place.job, receives == (side == "before")
        groups = place.forward if onward else place.backward
        crossing = groups[int(side == "behind")]
        assert crossing is not None
        self.crossing = crossing
        boundary = (place.stage - (side == "before")) % len(job.stages)
        ends = boundary, (boundary + 1) % len(job.stages)
        way = job.stages[boundary].resharding
        assert way is not None
        self.steps = steps_of(
            job, place.rank, ends if onward else ends[::-1], way, place.device
        )
        self.transfers: list[Transfer] = []
        self.api = accelerator(place.device)
        self.stream = self.api.Stream(place.device) if self.api else None
        self.thread = ThreadPoolExecutor(1, initializer=self._settle)

    def send(self, kind: str, number: int, x: Tensor) -> Future[Any]:
        """Send the result of a pass, (b, m, h), once it is computed."""
        x = x.flatten(0, 1)
        ready = self.api.current_stream().record_event() if self.api else None
        return self.thread.submit(self._timed, kind, number, x, ready)

    def receive(self, kind: str, number: int) -> Future[Tensor]:
        """Receive the result of a pass, (b * m, h)."""
        return self.thread.submit(self._timed, kind, number, None, None)

    def _settle(self) -> None:
        if self.api:
            self.api.set_device(self.place.device)

    def _timed(self, kind: str, number: int, x: Tensor | None, ready: Any) -> Tensor:
        start = time.perf_counter()
        counts = [0, 0]
        with self.api.stream(self.stream) if self.api else nullcontext():
            if ready is not None:
                ready.wait()
            found = self._run(number, x, counts)
            if self.stream:
                self.stream.synchronize()
        self.transfers.append(
            Transfer(
                kind=("receive-" if self.receives else "send-") + _WAYS[kind],
                number=number,
                start_s=start,
                end_s=time.perf_counter(),
                sent_bytes=counts[0],
                received_bytes=counts[1],
            )
        )
        return found

    def _run(self, number: int, x: Tensor | None, counts: list[int]) -> Tensor:
        """Run all steps; a receiver starts with an empty tensor."""
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
        counts[0] += sum(part.nbytes for _, part in leaving)
        counts[1] += sum(part.nbytes for _, _, part in arriving)
        parts = [(source, part) for source, _, part in arriving]
        self.crossing.exchange(leaving, parts, tag)
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
    """Receives and sends a stage's activations and gradients.

    ``transfers`` lists the transfers since ``start`` was called.
    """

    def __init__(self, place: Place) -> None:
        self.place, self.region = place, Region.of(place)
        self.parts = replace(self.region, splits=True)
        self.passes = place.job.passes
        stages = len(place.job.stages)
        sides: list[tuple[Side, int]] = [
            ("before", (place.stage - 1) % stages),
            ("behind", place.stage),
        ]
        open_ = [side for side, number in sides if number < place.job.boundaries]
        self.into = {side: Channel(place, side, receives=True) for side in open_}
        self.out = {side: Channel(place, side, receives=False) for side in open_}
        #: By side, kind and number of the pass whose result it is.
        self.coming: dict[tuple[Side, str, int], Future[Tensor]] = {}
        self.staying: dict[tuple[str, int], Tensor] = {}
        self.going: list[Future[Any]] = []

    def start(self) -> None:
        """Post all receives of this iteration, in the order in which others send."""
        stages = self.passes.stages
        for channel in (*self.into.values(), *self.out.values()):
            channel.transfers.clear()
        for side, channel in self.into.items():
            sender = (self.place.stage + (1 if side == "behind" else -1)) % stages
            facing = "before" if side == "behind" else "behind"
            for kind, number in self.passes.order(sender):
                if kind == "W" or self.passes.target(kind, sender, number) != facing:
                    continue
                self.coming[side, kind, number] = channel.receive(kind, number)

    def take(self, kind: str, number: int) -> Tensor:
        """Wait for the input of a pass of this stage; return it as (b, m, h).

        Parameters
        ----------
        kind
            ``F`` or ``B``.
        """
        source = self.passes.source(kind, self.place.stage, number)
        assert source is not None
        side, sent = source
        if side == "here":
            return self.staying.pop((kind, sent))
        coming = self.coming.pop((side, kind, sent))
        while not wait([coming], timeout=1.0).done:
            # It never comes if one of this rank's own sends has failed.
            self._check_sent()
        x = coming.result()
        if api := accelerator(x.device):
            x.record_stream(api.current_stream())
        x = x.unflatten(0, (len(self.place.sequences), -1))
        return x if self.region.splits else self.parts.spread(x)

    def give(self, kind: str, number: int, x: Tensor) -> None:
        """Send the result of a pass of this stage, (b, m, h)."""
        side = self.passes.target(kind, self.place.stage, number)
        assert side is not None
        if side == "here":
            self.staying[kind, number] = x
            return
        if not self.region.splits:
            x = x.chunk(self.region.size, 1)[self.region.rank]
        self.going.append(self.out[side].send(kind, number, x))

    def finish(self) -> None:
        """Wait until everything has been sent."""
        for each in self.going:
            each.result()
        self.going.clear()

    def _check_sent(self) -> None:
        """Raise the error of a send that has failed, if any."""
        for each in [each for each in self.going if each.done()]:
            each.result()
            self.going.remove(each)

    @property
    def transfers(self) -> list[Transfer]:
        """The transfers since ``start``, ordered by their end."""
        channels = *self.into.values(), *self.out.values()
        found = [each for one in channels for each in one.transfers]
        return sorted(found, key=lambda each: each.end_s)
