"""The passes of one stage in the plan's order."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from .boundaries import Boundaries
from .devices import accelerator
from .groups import Place
from .later import parameters_of, put_aside, run_aside
from .stage import Stage


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One forward (``F``), backward (``B``) or weights' (``W``) pass of this rank.

    Attributes
    ----------
    number
        As in ``passes``: the micro-batch if the stage has one chunk.
    start_s, end_s
        By ``time.perf_counter``, from the arrival of its input. On a GPU, where the
        host runs ahead, these are launch times unless the executor ``settles``.
    """

    kind: str
    number: int
    start_s: float
    end_s: float


class Executor:
    """Runs an iteration of one stage; gradients add up in the parameters' buckets.

    Parameters
    ----------
    last_pass
        Called with a chunk before the pass that adds the last of its gradients, and
        with the parameters that get a gradient in this pass; None for all.

    Attributes
    ----------
    ran
        The passes of the last iteration, in order.
    settles
        Whether times are taken only after the device has finished a pass.
    """

    def __init__(
        self,
        place: Place,
        stage: Stage,
        boundaries: Boundaries,
        last_pass: Callable[[int, set[nn.Parameter] | None], None],
    ) -> None:
        self.place, self.stage, self.boundaries = place, stage, boundaries
        self.last_pass = last_pass
        self.passes = place.job.passes
        self.ran: list[Pass] = []
        self.settles = False
        # Passes in flight: the inputs, and the graph edges for gradients of results.
        # Results themselves are not kept: nothing needs them.
        self.inputs: dict[int, tuple[Tensor, ...]] = {}
        self.edges: dict[int, list[GradientEdge]] = {}
        # Passes whose gradients of weights are still to be computed.
        self.aside: dict[int, list[Tensor]] = {}

    def run(self, batch: Tensor, scale: float) -> Tensor:
        """Run all micro-batches of a global batch; the last sends may still be running.

        Parameters
        ----------
        batch
            Tokens of the global batch and the one after each sequence, (B, s + 1).
        scale
            The loss scale, by which gradients are multiplied.

        Returns
        -------
        This rank's part of the mean loss per token; 0 on stages without the head.
        """
        job = self.place.job
        self.loss = torch.zeros((), device=self.place.device)
        self.seed = torch.full((), scale, device=self.place.device)
        self.ran.clear()
        self.boundaries.start()
        own = batch[job.first_sequence : job.first_sequence + job.batch]
        microbatches = own.chunk(job.microbatches)
        for kind, number in self.passes.of(self.place.stage):
            chunk, microbatch = self.passes.chunk_and_microbatch(number)
            is_last = microbatch == job.microbatches - 1
            if not self.stage.chunks[chunk]:
                self._hand_on(kind, number)
            elif kind == "F":
                self._forward(number, chunk, microbatches[microbatch])
            elif kind == "W":
                self._weights(number, chunk, is_last)
            elif self.passes.splits:
                with put_aside() as self.aside[number]:
                    self._backward(number)
            else:
                if is_last:
                    self.last_pass(chunk, None)
                self._backward(number)
        return self.loss

    def _hand_on(self, kind: str, number: int) -> None:
        """Run a pass of an empty chunk, whose result is its input."""
        x = self.boundaries.take(kind, number)
        self._note(kind, number, self._now())
        self.boundaries.give(kind, number, x)

    def _forward(self, number: int, chunk: int, batch: Tensor) -> None:
        place = self.place
        own = batch[place.sequences.start : place.sequences.stop]
        has_loss = self.passes.target("F", place.stage, number) is None
        if self.passes.source("F", place.stage, number) is None:
            x: tuple[Tensor, ...] = (own[:, place.positions].to(place.device),)
        else:
            x = self.boundaries.take("F", number)
            self.inputs[number] = tuple(each.requires_grad_() for each in x)
        targets = own[:, place.positions + 1].to(place.device) if has_loss else None
        start = self._now()
        y = self.stage(chunk, x, targets)
        if has_loss:
            y = (y[0] / (place.job.global_batch * place.job.seq_len),)
            self.loss += y[0].detach()
        self._note("F", number, start)
        self.edges[number] = [get_gradient_edge(each) for each in y]
        if not has_loss:
            self.boundaries.give("F", number, tuple(each.detach() for each in y))

    def _backward(self, number: int) -> None:
        stage = self.place.stage
        has_loss = self.passes.source("B", stage, number) is None
        grads = (self.seed,) if has_loss else self.boundaries.take("B", number)
        start = self._now()
        torch.autograd.backward(self.edges.pop(number), grads)
        self._note("B", number, start)
        if self.passes.target("B", stage, number) is not None:
            of_inputs = [each.grad for each in self.inputs.pop(number)]
            self.boundaries.give(
                "B", number, tuple(each for each in of_inputs if each is not None)
            )

    def _weights(self, number: int, chunk: int, is_last: bool) -> None:
        aside = self.aside.pop(number)
        start = self._now()
        if is_last:
            self.last_pass(chunk, parameters_of(aside))
        run_aside(aside)
        self._note("W", number, start)

    def _note(self, kind: str, number: int, start: float) -> None:
        self.ran.append(
            Pass(
                kind=kind,
                number=number,
                start_s=start,
                end_s=self._now(),
            )
        )

    def _now(self) -> float:
        if self.settles:
            accelerator(self.place.device).current_stream().synchronize()
        return time.perf_counter()
