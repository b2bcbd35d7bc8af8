"""Every schedule as the passes of each stage, in order, read off its paper.

A *pass* is a kind, a chunk and a micro-batch; all numbers count from 0. The lists of
stages that wait for transfers have *messages* as well: one starts when both stages have
reached it, and both wait until it has arrived.
"""

from __future__ import annotations

from itertools import chain, pairwise
from typing import NamedTuple

#: Kinds of passes. BACKWARD computes all gradients, or before WEIGHT those of inputs.
FORWARD, BACKWARD, WEIGHT = range(3)
#: Kinds of messages: to and from the next stage, and the one before.
ACTIVATION_OUT, ACTIVATION_IN, GRADIENT_OUT, GRADIENT_IN = range(3, 7)

#: Kind, chunk, micro-batch.
Pass = tuple[int, int, int]


class Position(NamedTuple):
    """Stage i of p with v chunks, for q micro-batches.

    ``warm`` is how many forwards it runs before its first backward, if there are
    enough.
    """

    i: int
    p: int
    q: int
    v: int
    warm: int


def one_by_one(at: Position) -> list[Pass]:
    """Return F_1..F_W, B_1, F_(W+1), B_2, ...: 1F1B, and with W = q GPipe."""
    forwards = [(FORWARD, 0, m) for m in range(at.q)]
    return _alternating(at.warm, forwards, [(BACKWARD, 0, m) for m in range(at.q)])


def _alternating(warm: int, forwards: list[Pass], backwards: list[Pass]) -> list[Pass]:
    later = forwards[warm:]
    pairs = zip(backwards, later, strict=False)
    left = backwards[len(later) :]
    return [*forwards[:warm], *chain.from_iterable(pairs), *left]


def weights_later(at: Position) -> list[Pass]:
    """Return ZB-H1: 1F1B with w i micro-batches later (Qi et al., section 2.3)."""
    listed = []
    for each in one_by_one(at):
        listed.append(each)
        if each[0] == BACKWARD and each[2] >= at.i:
            listed.append((WEIGHT, 0, each[2] - at.i))
    return listed + [(WEIGHT, 0, m) for m in range(max(at.q - at.i, 0), at.q)]


def in_groups(at: Position) -> list[Pass]:
    """Return interleaved 1F1B: p micro-batches through every chunk, then the next p.

    Backwards begin with the last chunk (Megatron-LM's order).
    """
    groups = [range(first, first + at.p) for first in range(0, at.q, at.p)]
    ahead, back = range(at.v), range(at.v)[::-1]
    return _alternating(
        at.warm,
        [(FORWARD, chunk, m) for group in groups for chunk in ahead for m in group],
        [(BACKWARD, chunk, m) for group in groups for chunk in back for m in group],
    )


def most_held(p: int, q: int, v: int, i: int, chunk: int) -> int:
    """Return the most micro-batches that a chunk of stage i holds if interleaved."""
    held = most = 0
    warm = 2 * (p - i - 1) + (v - 1) * p + 1
    for kind, own, _ in in_groups(Position(i, p, q, v, warm)):
        if own == chunk:
            held += 1 if kind == FORWARD else -1
            most = max(most, held)
    return most


def folded(at: Position) -> list[Pass]:
    """Return ZB-V: chunk 0 on the way down, chunk 1 up (Qi et al., section 6)."""
    i, p, down, up = at.i, at.p, 0, 1
    steps = [(FORWARD, down)] * (2 * (p - i) - 1)
    steps += [(FORWARD, up), (FORWARD, down)] * i
    steps += [(FORWARD, up), (BACKWARD, up), (WEIGHT, up)] * (p - i)
    whole = max(at.q, 2 * p - 1)
    for m in range(p, whole):
        if m + p - i - 1 < whole:
            steps.append((FORWARD, down))
        steps += [(BACKWARD, down), (WEIGHT, down)]
        steps += [(FORWARD, up), (BACKWARD, up), (WEIGHT, up)]
    steps += [(BACKWARD, down), (BACKWARD, up)] * i
    steps += [(BACKWARD, down), (WEIGHT, down)] * (p - i)
    steps += [(WEIGHT, up)] * i + [(WEIGHT, down)] * i
    run: dict[tuple[int, int], int] = {}
    listed = []
    for step in steps:
        m = run[step] = run.get(step, -1) + 1
        # The order is made for at least 2 p - 1 micro-batches, of which q exist.
        if m < at.q:
            listed.append((*step, m))
    return listed


def batched(at: Position) -> list[Pass]:
    """Return 1F1B in which an activation and a gradient are exchanged at once."""
    return _with_messages(at, 1)


def blocking(at: Position) -> list[Pass]:
    """Return 1F1B in which a gradient follows the activation sent the other way."""
    return _with_messages(at, 2)


def _with_messages(at: Position, most: int) -> list[Pass]:
    """Return 1F1B with what a stage waits for before and sends after every pass.

    Parameters
    ----------
    most
        How many messages an exchange takes: between a forward and a backward, one
        comes and one goes over the same boundary.
    """
    needs = {FORWARD: ACTIVATION_IN, BACKWARD: GRADIENT_IN}
    sends = {FORWARD: ACTIVATION_OUT, BACKWARD: GRADIENT_OUT}
    passes = one_by_one(at)
    listed = [(ACTIVATION_IN, 0, 0), passes[0]]
    for before, after in pairwise(passes):
        met = [(sends[before[0]], 0, before[2]), (needs[after[0]], 0, after[2])]
        # With W > q the first gradient is not on its way after the last forward.
        if before[0] != after[0] and abs(before[2] - after[2]) >= at.warm - 1:
            met = sorted(met)[:most]
        listed += [*met, after]
    listed.append((GRADIENT_OUT, 0, at.q - 1))
    missing = {ACTIVATION_IN, GRADIENT_OUT} if at.i == 0 else set()
    missing |= {ACTIVATION_OUT, GRADIENT_IN} if at.i == at.p - 1 else set()
    return [each for each in listed if each[0] not in missing]
