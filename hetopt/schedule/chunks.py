"""Interleaved 1F1B: stages hold several chunks, which are visited in rounds.

Stage i of p holds v *chunks*; its chunk c is in the c-th of v equal parts of the model:
a micro-batch passes all p stages v times, and between two rounds goes from the last
stage back to the first, over the *way back*. q is a multiple of p. Every stage runs the
forwards of p micro-batches through its chunk 0, of the same through chunk 1, ..., then
of the next p (Megatron-LM's order); its backwards likewise with the last chunk first.
A *pass* is one micro-batch on one chunk, numbered by the order of the forwards: pass
``n = (m // p) p v + c p + m % p``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from hetopt.base.words import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunks:
    """Further data of a pipeline whose stages hold several chunks.

    Attributes
    ----------
    count
        v, at least 2.
    way_back_ns, way_back_occupancy_ns
        kappa and omega from the last stage to the first; if links are shared, omega
        as the closed form uses it.
    lead_ns, trail_ns
        Forward and backward time of the units before the body, on the first stage, and
        of those after it, on the last. Mean times contain a v-th of them; in fact the
        first chunk runs the former and the last chunk the latter.
    """

    count: int
    way_back_ns: int
    way_back_occupancy_ns: int
    lead_ns: tuple[int, int] = (0, 0)
    trail_ns: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        if self.count < 2:
            msg = f"{counted(self.count, 'chunk')}, expected at least 2"
            raise ValueError(msg)

    def durations_ns(
        self, mean_ns: int, kind: int, *, first: bool, last: bool
    ) -> list[int]:
        """Return the time of one pass on each chunk of a stage.

        Parameters
        ----------
        mean_ns
            Mean over the chunks.
        kind
            0 forward, 1 backward.
        first, last
            Whether the stage is the first, and the last, of the pipeline.
        """
        lead, trail = self.lead_ns[kind] * first, self.trail_ns[kind] * last
        body = mean_ns - lead // self.count - trail // self.count
        return [body + lead, *[body] * (self.count - 2), body + trail]


def held_ahead(stages: int, chunks: int) -> int:
    """Return how many passes every stage runs ahead besides its warm-ups: (v - 1) p."""
    return (chunks - 1) * stages


def pass_number(microbatch: int, chunk: int, stages: int, chunks: int) -> int:
    """Return the number of a pass; everything counts from 0."""
    group, place = divmod(microbatch, stages)
    return (group * chunks + chunk) * stages + place


def chunk_and_microbatch(number: int, stages: int, chunks: int) -> tuple[int, int]:
    """Return the chunk and the micro-batch of a pass; everything counts from 0."""
    turn, place = divmod(number, stages)
    group, chunk = divmod(turn, chunks)
    return chunk, group * stages + place


def backward_number(place: int, stages: int, chunks: int) -> int:
    """Return the number of the pass whose backward is run at a place, from 0."""
    turn, rest = divmod(place, stages)
    group, back = divmod(turn, chunks)
    return (group * chunks + chunks - 1 - back) * stages + rest


@lru_cache(maxsize=4096)
def ends_in_flight(stages: int, microbatches: int, chunks: int) -> tuple[int, int]:
    """Return how many micro-batches the first and the last chunk hold at once.

    That is the first chunk of the first stage and the last chunk of the last stage;
    counted along the order of passes, which does not depend on times.

    Parameters
    ----------
    stages, microbatches
        p and q; q is a multiple of p.
    """
    passes = microbatches * chunks
    held = held_ahead(stages, chunks)
    most = []
    for stage, chunk in ((0, 0), (stages - 1, chunks - 1)):
        warmup = min(held + 1 + 2 * (stages - 1 - stage), passes)
        count = peak = 0
        for place in range(passes + warmup):
            if place < passes:
                count += chunk_and_microbatch(place, stages, chunks)[0] == chunk
                peak = max(peak, count)
            if place >= warmup - 1 and place - warmup + 1 < passes:
                back = backward_number(place - warmup + 1, stages, chunks)
                count -= chunk_and_microbatch(back, stages, chunks)[0] == chunk
        most.append(peak)
    return most[0], most[1]
