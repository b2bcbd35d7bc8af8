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

Between the two matrices of a layer's MLP a boundary carries two tensors, the residual
and the inner activations. They go together: two ranks exchange one message.

A rank that relays tokens holds them meanwhile: under ``leader`` and
``send-recv-all-gather`` all of its part of the batch, where hetopt's table assumes that
they pass in pieces.

Without sequence parallelism a boundary is still split over all ranks, as hetopt prices
it: each sends its part of the tokens, and the receivers gather them. Inner activations
are split by tensor parallelism anyway.
"""

from __future__ import annotations

import time
from collections import defaultdict
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .devices import accelerator
from .groups import Place
from .job import Carried
from .passes import Side
from .region import Region
from .routes import ALL, Select, Step, steps_of

#: The direction of a pass's result, by the kind of pass.
_WAYS = {"F": "forward", "B": "backward"}


#: What a boundary carries (``job.Carried``); in a channel each as (rows, numbers).
Tensors: TypeAlias = tuple[Tensor, ...]

#: Part of a message: the tensor that it belongs to, which rows, and how many.
Part: TypeAlias = tuple[Tensor, Select, int]


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """The tensors of one pass sent or received at a boundary.

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
        self.passes = job.passes
        # Gradients that go back round are of the chunk before the one they come from.
        self.ahead = not onward and not ends[1]
        ends = ends if onward else ends[::-1]
        chunks = range(self.passes.chunks)
        self.by_chunk = [job.carried(boundary, chunk) for chunk in chunks]
        self.steps = {each: self._steps(each, ends, way) for each in {*self.by_chunk}}
        self.transfers: list[Transfer] = []
        self.api = accelerator(place.device)
        self.stream = self.api.Stream(place.device) if self.api else None
        self.thread = ThreadPoolExecutor(1, initializer=self._settle)

    def send(self, kind: str, number: int, x: Tensors) -> Future[Any]:
        """Send the results of a pass, (b, m, h) or (b, n, f / tp), once computed."""
        pairs = zip(x, self.carried(number), strict=True)
        x = tuple(each.reshape(-1, of.width // of.runs) for each, of in pairs)
        ready = self.api.current_stream().record_event() if self.api else None
        return self.thread.submit(self._timed, kind, number, x, ready)

    def receive(self, kind: str, number: int) -> Future[Tensors]:
        """Receive the results of a pass."""
        return self.thread.submit(self._timed, kind, number, None, None)

    def _steps(
        self, carried: tuple[Carried, ...], ends: tuple[int, int], way: str
    ) -> list[tuple[tuple[Carried, Step], ...]]:
        """Return the steps to the other stage: for each, that of every tensor."""
        job, rank, device = self.place.job, self.place.rank, self.place.device
        routes = [
            [(each, step) for step in steps_of(job, rank, ends, way, device, each)]
            for each in carried
        ]
        return list(zip(*routes, strict=True))

    def carried(self, number: int) -> tuple[Carried, ...]:
        """Return what is carried of a pass, by its number on the sending stage."""
        chunk, _ = self.passes.chunk_and_microbatch(number)
        return self.by_chunk[chunk - self.ahead]

    def close(self) -> None:
        """End the thread that transfers, once it has nothing left to do."""
        self.thread.shutdown()

    def _settle(self) -> None:
        if self.api:
            self.api.set_device(self.place.device)

    def _timed(self, kind: str, number: int, x: Tensors | None, ready: Any) -> Tensors:
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

    def _run(self, number: int, x: Tensors | None, counts: list[int]) -> Tensors:
        """Run all steps; a receiver starts with empty tensors."""
        carried = self.carried(number)
        steps = self.steps[carried]
        if x is None:
            x = tuple(self._empty(of, 0) for of in carried)
        for tag, each in enumerate(steps, number * len(steps)):
            x = self._exchange(each, x, tag, counts)
        return x

    def _exchange(
        self,
        steps: tuple[tuple[Carried, Step], ...],
        x: Tensors,
        tag: int,
        counts: list[int],
    ) -> Tensors:
        """Return the tensors of the next holding; empty for a rank without a part."""
        out: dict[int, list[Tensor]] = defaultdict(list)
        into: dict[int, list[Part]] = defaultdict(list)
        found = []
        for (of, step), own in zip(steps, x, strict=True):
            found.append(self._empty(of, step.rows))
            for to, rows in step.sends:
                out[to].append(own[rows])
            for source, at, count in step.receives:
                into[source].append((found[-1], at, count))
            for rows, at in step.kept:
                found[-1][at] = own[rows]
        leaving = [(to, _message(parts)) for to, parts in sorted(out.items())]
        arriving = [(source, _buffer(into[source])) for source in sorted(into)]
        counts[0] += sum(data.nbytes for _, data in leaving)
        counts[1] += sum(data.nbytes for _, data in arriving)
        self.crossing.exchange(leaving, arriving, tag)
        for source, data in arriving:
            _unpack(data, into[source])
        return tuple(found)

    def _empty(self, of: Carried, rows: int) -> Tensor:
        shape = (rows, of.width // of.runs)
        place = self.place
        return torch.empty(shape, dtype=place.job.dtype, device=place.device)


def _message(parts: list[Tensor]) -> Tensor:
    """Return the parts of all tensors for one rank."""
    return parts[0] if len(parts) == 1 else torch.cat([x.flatten() for x in parts])


def _buffer(parts: list[Part]) -> Tensor:
    """Return what a message is received in: its tensor, if that is all of it."""
    whole, at, _ = parts[0]
    if len(parts) == 1 and at == ALL:
        return whole
    return whole.new_empty(sum(count * into.shape[1] for into, _, count in parts))


def _unpack(data: Tensor, parts: list[Part]) -> None:
    """Write a message into its tensors."""
    if data is parts[0][0]:
        return
    sizes = [count * into.shape[1] for into, _, count in parts]
    for (into, at, count), part in zip(parts, data.split(sizes), strict=True):
        into[at] = part.view(count, -1)


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
        self.coming: dict[tuple[Side, str, int], Future[Tensors]] = {}
        self.staying: dict[tuple[str, int], Tensors] = {}
        self.going: list[Future[Any]] = []

    def start(self) -> None:
        """Post all receives of this iteration, in the order in which others send."""
        stages = self.passes.stages
        for channel in (*self.into.values(), *self.out.values()):
            channel.transfers.clear()
        for side, channel in self.into.items():
            sender = (self.place.stage + (1 if side == "behind" else -1)) % stages
            facing = "before" if side == "behind" else "behind"
            for kind, number in self.passes.of(sender):
                if kind == "W" or self.passes.goes_to(kind, sender, number) != facing:
                    continue
                self.coming[side, kind, number] = channel.receive(kind, number)

    def take(self, kind: str, number: int) -> Tensors:
        """Wait for the inputs of a pass of this stage.

        The first is (b, m, h); inner activations, if they follow, (b, n, f / tp).

        Parameters
        ----------
        kind
            ``F`` or ``B``.
        """
        source = self.passes.comes_from(kind, self.place.stage, number)
        assert source is not None
        side, sent = source
        if side == "here":
            return self.staying.pop((kind, sent))
        coming = self.coming.pop((side, kind, sent))
        while not wait([coming], timeout=1.0).done:
            # It never comes if one of this rank's own sends has failed.
            self._check_sent()
        found, api = [], accelerator(self.place.device)
        for of, x in zip(self.into[side].carried(sent), coming.result(), strict=True):
            if api:
                x.record_stream(api.current_stream())
            x = x.view(len(self.place.sequences), -1, self._width(of))
            whole = self.region.splits or of.runs > 1
            found.append(x if whole else self.parts.spread(x))
        return tuple(found)

    def give(self, kind: str, number: int, x: Tensors) -> None:
        """Send the results of a pass of this stage, as ``take`` returns them.

        Raises
        ------
        ValueError
            A unit has returned something else.
        """
        side = self.passes.goes_to(kind, self.place.stage, number)
        assert side is not None
        if side == "here":
            self.staying[kind, number] = x
            return
        carried = self.out[side].carried(number)
        widths = [self._width(of) for of in carried]
        if [each.shape[-1] for each in x] != widths:
            msg = (
                f"stage {self.place.stage} has results of width "
                f"{[each.shape[-1] for each in x]} to send {side}, expected {widths}: "
                "a unit must return what program/units.py says"
            )
            raise ValueError(msg)
        parts = [
            own
            if self.region.splits or of.runs > 1
            else own.chunk(self.region.size, 1)[self.region.rank]
            for own, of in zip(x, carried, strict=True)
        ]
        self.going.append(self.out[side].send(kind, number, tuple(parts)))

    def _width(self, of: Carried) -> int:
        """Return this rank's numbers of a token."""
        return of.width // (self.region.size if of.runs > 1 else 1)

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

    def close(self) -> None:
        """End the threads of all channels."""
        for channel in (*self.into.values(), *self.out.values()):
            channel.close()

    @property
    def transfers(self) -> list[Transfer]:
        """The transfers since ``start``, ordered by their end."""
        channels = *self.into.values(), *self.out.values()
        found = [each for one in channels for each in one.transfers]
        return sorted(found, key=lambda each: each.end_s)
