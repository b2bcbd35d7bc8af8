"""The checker's folded pipelines (ZB-V), written for readability.

Of 2 p chunks, stage i of p holds the i-th from the embedding ("down") and the i-th from
the head ("up"). Every unit of a plan is a pair of the model's units, as far from the
embedding as from the head. The order of passes is Qi et al.'s (section 6).
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetopt.check.plan.schedule.meeting import Alone
    from hetopt.cost.table.cluster import ClusterTable

    #: "forward", "backward" or "weight", and whether it runs on the chunk up.
    Step = tuple[str, bool]


class Folded(NamedTuple):
    """Times of every stage, in nanoseconds.

    Attributes
    ----------
    took
        Time of each of a micro-batch's six passes.
    between
        What a stage adds to a window that begins before it: the longer of forward and
        B, pair by pair.
    fill
        What a stage adds to the fill: the largest of B / 2, B - w and forward - B / 2,
        pair by pair.
    """

    took: tuple[Mapping[Step, int], ...]
    between: tuple[int, ...]
    fill: tuple[int, ...]


def warm_ups(p: int, i: int) -> int:
    """Return how many forwards down stage i runs before its first backward down."""
    return 2 * p - i


def folded_passes(i: int, p: int, q: int) -> list[tuple[str, bool, int]]:
    """Return the passes of stage i in order: name, whether it is up, micro-batch."""
    down, up = False, True
    steps: list[Step] = [("forward", down)] * (2 * (p - i) - 1)
    steps += [("forward", up), ("forward", down)] * i
    steps += [("forward", up), ("backward", up), ("weight", up)] * (p - i)
    whole = max(q, 2 * p - 1)
    for m in range(p, whole):
        if m + p - i - 1 < whole:
            steps.append(("forward", down))
        steps += [("backward", down), ("weight", down)]
        steps += [("forward", up), ("backward", up), ("weight", up)]
    steps += [("backward", down), ("backward", up)] * i
    steps += [("backward", down), ("weight", down)] * (p - i)
    steps += [("weight", up)] * i + [("weight", down)] * i
    run: dict[Step, int] = {}
    listed = []
    for step in steps:
        m = run[step] = run.get(step, -1) + 1
        # the order is made for at least 2 p - 1 micro-batches, of which q exist
        if m < q:
            listed.append((*step, m))
    return listed


def simulate_folded(
    folded: Folded, transfer: Sequence[int], alone: Alone, q: int
) -> list[int]:
    """Return the end of every stage's last pass, in nanoseconds.

    A boundary carries activations and gradients of either chunk. Transfers in the same
    direction take turns: the one that is ready first goes first; of several,
    activations before gradients, upstream before downstream, then by micro-batch and
    down before up. Each takes half of the boundary's times.

    Parameters
    ----------
    transfer
        Transfer time of every boundary, for both chunks together, like ``alone``.
    """
    p = len(folded.took)
    passes = [folded_passes(i, p, q) for i in range(p)]
    ran, free = [0] * p, [0] * p
    here: dict[tuple[int, tuple[str, bool, int]], int] = {}
    until: dict[object, int] = {}
    waiting: list[tuple[int, int, int, int, bool]] = []
    while True:
        for i, own in enumerate(passes):
            while ran[i] < len(own):
                name, up, m = own[ran[i]]
                # its input comes from where a pass of the other kind would send to
                comes = _next(i, "backward" if name == "forward" else "forward", up, p)
                if (
                    name != "weight"
                    and comes is not None
                    and (i, own[ran[i]]) not in here
                ):
                    break
                free[i] = max(free[i], here.get((i, own[ran[i]]), 0))
                free[i] += folded.took[i][name, up]
                ran[i] += 1
                if name != "weight" and _next(i, name, up, p) is not None:
                    waiting.append((free[i], int(name == "backward"), i, m, up))
        if not waiting:
            return free
        ready, gradients, i, m, up = min(waiting)
        waiting.remove((ready, gradients, i, m, up))
        name = "backward" if gradients else "forward"
        to = _next(i, name, up, p)
        assert to is not None
        b, sign = min(i, to), to - i
        kept: dict[object, int] = {(b, sign): alone.occupancy[b] // 2}
        kept |= {(way.place, sign * way.side): way.keeps // 2 for way in alone.ways[b]}
        start = max([ready, *(until.get(key, 0) for key in kept)])
        until |= {key: start + keeps for key, keeps in kept.items()}
        here[to, (name, up, m)] = start + transfer[b] // 2


def _next(i: int, name: str, up: bool, p: int) -> int | None:
    """Return the stage that receives a pass's output; None at an end and the turn."""
    to = i - 1 if up == (name == "forward") else i + 1
    return to if 0 <= to < p else None


def folded_closed_form(
    folded: Folded,
    transfer: Sequence[int],
    slowest: int,
    sync: Sequence[int],
    steps: int,
) -> Fraction:
    """Return the closed form in nanoseconds, exactly (MODEL.md section 4).

    Parameters
    ----------
    slowest
        The longest occupancy of a boundary.
    steps
        q - 1.
    """
    both = [sum(took.values()) for took in folded.took]
    steady = Fraction(max(*both, slowest))
    for i in range(len(both)):
        length = both[i]
        for k in range(i + 1, len(both)):
            length += 2 * transfer[k - 1] + folded.between[k]
            steady = max(steady, Fraction(length, k - i + 1))
    rest = zip(sync, both, folded.fill, strict=True)
    end = max(g + tau - filled for g, tau, filled in rest)
    return sum(folded.fill) + 2 * sum(transfer) + end + steps * steady


def pair_bytes(
    own: ClusterTable, k: int, pair: tuple[int, int], held: tuple[int, int, int, int]
) -> int:
    """Return the bytes that a pair of units holds for all passes in flight.

    Parameters
    ----------
    k
        Row of the strategy.
    held
        p, q, W, and 1 if the pair holds an end of the model, otherwise 0.
    """
    assert own.weight_bytes is not None
    down, up = (
        max(int(own.activation_bytes[k, unit]), int(own.weight_bytes[k, unit]))
        for unit in pair
    )
    p, q, warm, is_end = held
    if is_end:
        # the first stage runs B and w of the head directly after its forward
        return min(2 * p, q) * down + up
    # at most 2 p passes, and on the chunk down at most those that it runs ahead
    ahead = min(warm, q) - p
    return p * (down + up) + ahead * max(down - up, 0)
