"""The checker's interleaved 1F1B: stages of v chunks, written for readability.

Micro-batches go through the stages in groups of p, each group once for every chunk, and
between two chunks from the last stage back to the first. A *pass* is one micro-batch on
one chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetopt.check.plan.schedule.meeting import Way
    from hetopt.problem.model.model import Model

    #: "forward" or "backward", chunk, micro-batch.
    Pass = tuple[str, int, int]


class Rounds(NamedTuple):
    """Further times of a pipeline with several chunks a stage, in nanoseconds.

    Attributes
    ----------
    chunks
        v.
    back
        Transfer from the last stage to the first, and its occupancy in the closed form.
    first, last
        Forward and backward of the model's units before the body, which are in the
        first stage's first chunk, and after it, in the last stage's last.
    occupancy
        Omega of every boundary, the way back's last, without sharing.
    ways
        For each of these, the links and uplinks that it shares.
    """

    chunks: int
    back: tuple[int, int]
    first: tuple[int, int]
    last: tuple[int, int]
    occupancy: tuple[int, ...]
    ways: tuple[tuple[Way, ...], ...]


def warm_passes(p: int, i: int, chunks: int) -> int:
    """Return how many forwards stage i of p runs before its first backward."""
    return 2 * (p - i - 1) + (chunks - 1) * p + 1


def order(p: int, q: int, chunks: int, warm: int) -> list[Pass]:
    """Return the passes of a stage that runs ``warm`` forwards first."""
    groups = [range(first, first + p) for first in range(0, q, p)]
    forwards = [
        ("forward", chunk, m)
        for group in groups
        for chunk in range(chunks)
        for m in group
    ]
    backwards = [
        ("backward", chunk, m)
        for group in groups
        for chunk in reversed(range(chunks))
        for m in group
    ]
    listed = forwards[:warm]
    left = forwards[warm:]
    for place, backward in enumerate(backwards):
        listed.append(backward)
        listed += left[place : place + 1]
    return listed


def most_held(p: int, q: int, chunks: int, i: int, chunk: int) -> int:
    """Return the most micro-batches that a chunk of stage i holds at once."""
    held = most = 0
    warm = min(warm_passes(p, i, chunks), q * chunks)
    for name, own, _ in order(p, q, chunks, warm):
        if own == chunk:
            held += 1 if name == "forward" else -1
            most = max(most, held)
    return most


def simulate_rounds(
    passes: Sequence[Sequence[Pass]],
    durations: Mapping[tuple[str, int, int], int],
    transfer: Sequence[int],
    rounds: Rounds,
) -> list[int]:
    """Return the end of every stage's last pass, in nanoseconds.

    A transfer starts when its pass has ended and the boundary, and all that it shares,
    is free. The one that is ready first goes first; of several, activations before
    gradients, upstream before downstream, then in the order of their forwards.

    Parameters
    ----------
    passes
        Passes of every stage, in order.
    durations
        By name, stage and chunk.
    transfer
        Transfer time of every boundary, the way back's last.
    """
    p, last = len(passes), rounds.chunks - 1
    ran, free = [0] * p, [0] * p
    here: dict[tuple[Pass, int], int] = {}
    until: dict[object, int] = {}
    waiting: list[tuple[int, int, int, tuple[int, int, int], Pass]] = []
    while True:
        for i, own in enumerate(passes):
            while ran[i] < len(own):
                name, chunk, m = own[ran[i]]
                sourced = (i, chunk) == ((0, 0) if name == "forward" else (p - 1, last))
                if not sourced and (own[ran[i]], i) not in here:
                    break
                arrived = here.get((own[ran[i]], i), 0)
                free[i] = max(free[i], arrived) + durations[name, i, chunk]
                ran[i] += 1
                if (i, chunk) != ((p - 1, last) if name == "forward" else (0, 0)):
                    turn = (m // p, chunk, m % p)
                    way = 0 if name == "forward" else 1
                    waiting.append((free[i], way, i, turn, (name, chunk, m)))
        if not waiting:
            return free
        ready, gradients, i, turn, (name, chunk, m) = min(waiting)
        waiting.remove((ready, gradients, i, turn, (name, chunk, m)))
        b, sign = (i - gradients) % p, -1 if gradients else 1
        kept: dict[object, int] = {(b, sign): rounds.occupancy[b]}
        kept |= {(w.place, sign * w.side): w.keeps for w in rounds.ways[b]}
        start = max([ready, *(until.get(key, 0) for key in kept)])
        until |= {key: start + keeps for key, keeps in kept.items()}
        to = (i + sign) % p
        onward = chunk + sign * (b == p - 1)
        here[(name, onward, m), to] = start + transfer[b]


def units_of_chunk(model: Model, body: Sequence[str], chunks: int) -> list[str] | None:
    """Return the units of one chunk of the model; None if it has no v equal chunks.

    Parameters
    ----------
    body
        Kinds of units that belong to transformer layers.
    """
    inner = [kind for kind in model.units if kind in body]
    length = len(inner) // chunks
    if inner[:length] * chunks != inner:
        return None
    first = model.units.index(inner[0])
    ends = model.units[:first], model.units[first + len(inner) :]
    return [*ends[0], *inner[:length], *ends[1]]
