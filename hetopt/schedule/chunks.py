"""Interleaved 1F1B: stages of several chunks, visited one round after the other.

Stage i of p holds v *chunks*, chunk c of them the c-th of v equal parts of its layers:
a micro-batch passes all p stages v times, and goes back from the last stage to the
first in between, over the *way back*. q is a multiple of p. Every stage runs the
forwards of p micro-batches through its chunk 0, of the same through chunk 1, ..., then
of the next p (Megatron-LM's order); its backwards likewise with the last chunk first.
A *pass* is one micro-batch on one chunk, numbered by when its forward runs: pass
``n = (m // p) p v + c p + m % p``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunks:
    """What a pipeline of several chunks a stage has beside what any pipeline has.

    Attributes
    ----------
    count
        v, at least 2.
    way_back_ns, way_back_occupancy_ns
        kappa and omega from the last stage to the first; where links are shared, omega
        as the closed form has it.
    lead_ns, trail_ns
        Forward and backward of the units before the body on the first stage, and of
        those after it on the last: a v-th of them is in every chunk's time, but the
        first chunk runs the former and the last chunk the latter.
    """

    count: int
    way_back_ns: int
    way_back_occupancy_ns: int
    lead_ns: tuple[int, int] = (0, 0)
    trail_ns: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        if self.count < 2:
            msg = f"{self.count} chunks, expected at least 2"
            raise ValueError(msg)

    def durations_ns(
        self, mean_ns: int, kind: int, *, first: bool, last: bool
    ) -> list[int]:
        """Return how long one pass of each chunk of a stage takes.

        Parameters
        ----------
        mean_ns
            Over the chunks.
        kind
            0 forward, 1 backward.
        first, last
            Which end of the pipeline the stage is.
        """
        lead, trail = self.lead_ns[kind] * first, self.trail_ns[kind] * last
        body = mean_ns - lead // self.count - trail // self.count
        return [body + lead, *[body] * (self.count - 2), body + trail]


def held_ahead(stages: int, chunks: int) -> int:
    """Return how many passes every stage runs before what 1F1B's warm-ups are."""
    return (chunks - 1) * stages


def pass_number(microbatch: int, chunk: int, stages: int, chunks: int) -> int:
    """Return the number of a pass; all count from 0."""
    group, place = divmod(microbatch, stages)
    return (group * chunks + chunk) * stages + place


def chunk_and_microbatch(number: int, stages: int, chunks: int) -> tuple[int, int]:
    """Return the chunk and the micro-batch of a pass; all count from 0."""
    turn, place = divmod(number, stages)
    group, chunk = divmod(turn, chunks)
    return chunk, group * stages + place


def backward_number(place: int, stages: int, chunks: int) -> int:
    """Return which pass's backward a stage runs at this place, counted from 0."""
    turn, rest = divmod(place, stages)
    group, back = divmod(turn, chunks)
    return (group * chunks + chunks - 1 - back) * stages + rest


@lru_cache(maxsize=4096)
def ends_in_flight(stages: int, microbatches: int, chunks: int) -> tuple[int, int]:
    """Return how many micro-batches the ends of the model hold at once.

    Of the first stage's first chunk, and of the last stage's last; found by walking
    the order of passes, which does not depend on times.

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
