"""The passes of one stage in the plan's order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from .boundaries import Boundaries
from .groups import Place
from .stage import Stage


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One forward (``F``) or backward (``B``) pass of this rank.

    Attributes
    ----------
    start_s, end_s
        By ``time.perf_counter``, from when its input is there. On a GPU, where the host
        runs ahead, these are times of launching, unless the executor ``settles``.
    """

    kind: str
    microbatch: int
    start_s: float
    end_s: float


def order(warmup: int, microbatches: int) -> Iterator[tuple[str, int]]:
    """Yield F_1 .. F_W, B_1, F_(W+1), B_2, ... with micro-batches from 0."""
    first = min(warmup, microbatches)
    for number in range(first):
        yield "F", number
    for number in range(microbatches):
        yield "B", number
        if first + number < microbatches:
            yield "F", first + number


class Executor:
    """Runs an iteration of one stage; gradients add up in the parameters' buckets.

    Parameters
    ----------
    last_backward
        Called before the backward pass of the last micro-batch.

    Attributes
    ----------
    passes
        What the last iteration ran, in order.
    settles
        Whether a pass on a GPU is waited for before its times are taken.
    """

    def __init__(
        self,
        place: Place,
        stage: Stage,
        boundaries: Boundaries,
        last_backward: Callable[[], None],
    ) -> None:
        self.place, self.stage, self.boundaries = place, stage, boundaries
        self.last_backward = last_backward
        self.passes: list[Pass] = []
        self.settles = False
        # Of micro-batches in flight: the input, and where the result's gradient goes.
        # The result itself is not kept: nothing needs it.
        self.inputs: dict[int, Tensor] = {}
        self.edges: dict[int, GradientEdge] = {}

    def run(self, batch: Tensor, scale: float) -> Tensor:
        """Run all micro-batches of a global batch; the last transfers may go on.

        Parameters
        ----------
        batch
            Tokens of the global batch and the one behind each sequence, (B, s + 1).
        scale
            What gradients are multiplied by.

        Returns
        -------
        This rank's part of the mean loss per token; 0 but on the last stage.
        """
        job = self.place.job
        self.loss = torch.zeros((), device=self.place.device)
        self.seed = torch.full((), scale, device=self.place.device)
        self.passes.clear()
        self.boundaries.start()
        microbatches = batch.chunk(job.microbatches)
        for kind, number in order(self.place.plan.warmup, job.microbatches):
            if kind == "F":
                self._forward(number, microbatches[number])
            else:
                self._backward(number)
        return self.loss

    def _forward(self, number: int, batch: Tensor) -> None:
        place = self.place
        own = batch[place.sequences.start : place.sequences.stop]
        if place.is_first:
            x = own[:, place.positions].to(place.device)
        else:
            x = self.boundaries.take("receive-forward", number).requires_grad_()
            self.inputs[number] = x
        targets = (
            own[:, place.positions + 1].to(place.device) if place.is_last else None
        )
        start = self._now()
        y = self.stage(x, targets)
        if place.is_last:
            y = y / (place.job.global_batch * place.job.seq_len)
            self.loss += y.detach()
        self._note("F", number, start)
        self.edges[number] = get_gradient_edge(y)
        if not place.is_last:
            self.boundaries.give("send-forward", number, y.detach())

    def _backward(self, number: int) -> None:
        place = self.place
        if number == place.job.microbatches - 1:
            self.last_backward()
        grad = (
            self.seed
            if place.is_last
            else self.boundaries.take("receive-backward", number)
        )
        start = self._now()
        torch.autograd.backward((self.edges.pop(number),), (grad,))
        self._note("B", number, start)
        if not place.is_first:
            of_input = self.inputs.pop(number).grad
            assert of_input is not None
            self.boundaries.give("send-backward", number, of_input)

    def _note(self, kind: str, number: int, start: float) -> None:
        self.passes.append(
            Pass(
                kind=kind,
                microbatch=number,
                start_s=start,
                end_s=self._now(),
            )
        )

    def _now(self) -> float:
        if self.settles:
            torch.cuda.current_stream().synchronize()
        return time.perf_counter()
