"""Every schedule as the passes of each stage, in order, read off its paper.

A *pass* is a kind, a chunk and a micro-batch; all numbers count from 0. The lists of
stages that wait for transfers have *messages* as well: one starts when both stages have
reached it, and both wait until it has arrived.
"""

from __future__ import annotations

from functools import cache
from itertools import chain, pairwise
from typing import Any, NamedTuple

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


def run_ahead(passes: list[Pass]) -> int:
    """Return the forwards of a stage's first chunk before its first backward."""
    return [kind for kind, chunk, _ in passes if chunk == 0].index(BACKWARD)


def most_until_weight(passes: list[Pass], chunk: int) -> int:
    """Return the most micro-batches that a chunk holds, each until its w."""
    held = most = 0
    for kind, own, _ in passes:
        if own == chunk:
            held += {FORWARD: 1, BACKWARD: 0, WEIGHT: -1}[kind]
            most = max(most, held)
    return most


def sizes_at_once(passes: list[Pass]) -> list[list[int]]:
    """Return what the two chunks of a stage hold at once, as counts of six sizes.

    Of each chunk: a micro-batch before its B, one before its w, and one in its B.
    """
    counts, found = [0] * 6, set[tuple[int, ...]]()
    for kind, chunk, _ in passes:
        before, later, inside = range(3 * chunk, 3 * chunk + 3)
        counts[before] += {FORWARD: 1, BACKWARD: -1, WEIGHT: 0}[kind]
        counts[inside] = int(kind == BACKWARD)
        found.add(tuple(counts))
        counts[inside] = 0
        counts[later] += {FORWARD: 0, BACKWARD: 1, WEIGHT: -1}[kind]
    return [list(each) for each in found]


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


def v_half(at: Position) -> list[Pass]:
    """Return V-Half, at half of 1F1B's activations (Qi et al. 2024, section 3)."""
    return list(_by_clock(True, at.p, at.q)[at.i])


def v_min(at: Position) -> list[Pass]:
    """Return V-Min, at a third of 1F1B's activations (Qi et al. 2024, section 3)."""
    return list(_by_clock(False, at.p, at.q)[at.i])


def _due(half: bool, p: int, i: int) -> list[tuple[int, int, int]]:
    """Return when stage i is due to run F, F, B, B of micro-batch 0, kind and chunk.

    Every pass takes 1, and the next micro-batch is due 6 later.
    """
    if half:
        gap = 3 - 3 * (p % 2)
        at = [2 * i, 3 * p - 2 - i, 3 * p + gap - 1 + 2 * i, 6 * p + gap - 2 - i]
    else:
        gap = 0 if p % 3 else 2
        at = [i, 2 * p - 1 - i, 2 * p + gap + i, 4 * p + gap - 1 - i]
    return [
        (at[0], FORWARD, 0),
        (at[1], FORWARD, 1),
        (at[2], BACKWARD, 1),
        (at[3], BACKWARD, 0),
    ]


@cache
def v_room(half: bool, p: int, i: int) -> tuple[int, int]:
    """Return the most passes that stage i holds, and the most of its first chunk.

    If every pass runs when it is due, and w as soon as nothing else does.
    """
    due = {at + 6 * m: each for m in range(2 * p + 2) for at, *each in _due(half, p, i)}
    held, late, most, most_down = [0, 0], list[int](), 0, 0
    for now in range(min(due), max(due) + 1):
        if now not in due:
            if late:
                held[late.pop(0)] -= 1
            continue
        kind, chunk = due[now]
        if kind == BACKWARD:
            late.append(chunk)
        else:
            held[chunk] += 1
        most, most_down = max(most, sum(held)), max(most_down, held[0])
    return most, most_down


# One loop over time, so that its rules are in one place.
@cache
def _by_clock(half: bool, p: int, q: int) -> tuple[tuple[Pass, ...], ...]:
    """Return the passes of all stages if each takes 1 and none sends late.

    At every time a stage runs the first due pass that it can, else a w. Between the
    first B on the first stage's first chunk and its last F, none runs before it is due.
    A stage holds no more than ``v_room``, and its last place is for the first F due.
    """
    listed: list[list[Pass]] = [[] for _ in range(p)]
    plans = [_due(half, p, i) for i in range(p)]
    counts = [[0] * 4 for _ in range(p)]
    late: list[list[tuple[int, int]]] = [[] for _ in range(p)]
    held = [[0, 0] for _ in range(p)]
    start, end = plans[0][0][0], plans[0][-1][0]
    ended: dict[Pass | tuple[int, int, int, int], int] = {}
    now = 0

    def is_ready(i: int, kind: int, chunk: int, m: int) -> bool:
        up = chunk == 1
        if (i, chunk) == (0, 0) and kind == FORWARD:
            return True
        if (i, chunk) == (0, 1) and kind == BACKWARD:
            needed = FORWARD, 0, 1, m
        elif i == p - 1 and up == (kind == FORWARD):
            needed = kind, i, 1 - chunk, m
        else:
            needed = kind, i + (1 if up == (kind == FORWARD) else -1), chunk, m
        return ended.get(needed, now + 1) <= now

    def may_run(i: int, each: tuple[int, int, int, int], first: Any) -> bool:
        at, kind, chunk, m = each
        if end <= now <= start + 6 * (q - 1) and at > now:
            return False
        if kind == FORWARD:
            most, most_down = v_room(half, p, i)
            left = most - sum(held[i])
            if left == 0 or (left == 1 and each != first):
                return False
            if chunk == 0 and held[i][0] == most_down:
                return False
        return is_ready(i, kind, chunk, m)

    while any(len(own) < 6 * q for own in listed):
        ran = []
        for i in range(p):
            pairs = zip(plans[i], counts[i], strict=True)
            heads = sorted(
                (at + 6 * m, kind, chunk, m) for (at, kind, chunk), m in pairs if m < q
            )
            first = next((each for each in heads if each[1] == FORWARD), None)
            found = next((each for each in heads if may_run(i, each, first)), None)
            if found is not None:
                _, kind, chunk, m = found
                counts[i][2 * (kind == BACKWARD) + (chunk != (kind == BACKWARD))] += 1
                if kind == BACKWARD:
                    late[i].append((chunk, m))
                else:
                    held[i][chunk] += 1
            elif late[i]:
                kind, (chunk, m) = WEIGHT, late[i].pop(0)
                held[i][chunk] -= 1
            else:
                continue
            listed[i].append((kind, chunk, m))
            ran.append((kind, i, chunk, m))
        now += 1
        ended |= dict.fromkeys(ran, now)
    return tuple(map(tuple, listed))


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
