"""Boundaries that meet on a link or an uplink, worked out for the check alone.

Symbols as in MODEL.md, section 4: omega of a boundary, and the time for which one
transfer keeps what several use.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.check.plan.times import Times
    from hetopt.cost.table import SharedLinks


class Way(NamedTuple):
    """What a boundary uses that others use as well.

    Attributes
    ----------
    place
        The cluster whose uplink it is, or the two clusters that a link joins.
    side
        1 or -1 by the direction of activations; gradients go the other way.
    keeps
        How long one transfer keeps it, in nanoseconds.
    """

    place: frozenset[int]
    side: int
    keeps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """Omega of boundaries as if they met no other; the ways of each.

    Attributes
    ----------
    in_phases
        Whether all forwards come first, so that activations meet no gradients.
    """

    in_phases: bool
    occupancy: tuple[int, ...]
    ways: tuple[tuple[Way, ...], ...]

    def together(self) -> tuple[int, ...]:
        """Return omega with what the other boundaries take in a period."""
        every = [way for own in self.ways for way in own]

        def meeting(way: Way) -> int:
            sides = [met.side for met in every if met.place == way.place]
            if self.in_phases:
                return max(sides.count(1), sides.count(-1))
            return len(sides)

        return tuple(
            max([omega, *(meeting(way) * way.keeps for way in own)])
            for omega, own in zip(self.occupancy, self.ways, strict=True)
        )


def ways_of(
    shared: SharedLinks | None, clusters: Sequence[int]
) -> tuple[tuple[Way, ...], ...]:
    """Return the ways of every boundary that another one takes as well.

    Parameters
    ----------
    clusters
        Of every stage.
    """
    every: list[list[Way]] = []
    for here, there in pairwise(clusters):
        own = []
        if shared is not None and here != there:
            own.append(Way(frozenset({here}), 1, int(shared.uplink_ns[here])))
            own.append(Way(frozenset({there}), -1, int(shared.uplink_ns[there])))
            side = 1 if here < there else -1
            own.append(
                Way(frozenset({here, there}), side, int(shared.link_ns[here, there]))
            )
        every.append([way for way in own if way.keeps])
    places = [way.place for own in every for way in own]
    return tuple(
        tuple(way for way in own if places.count(way.place) > 1) for own in every
    )


def simulate_together(times: Times, counts: Sequence[int]) -> list[int]:
    """Return when every stage has run its last pass.

    Transfers that meet take turns: the one that is ready first goes first, of equals
    activations before gradients and upstream before downstream.

    Parameters
    ----------
    counts
        Warm-ups per stage, at most q, not increasing along the pipeline.
    """
    alone, p, q = times.alone, len(counts), times.microbatches
    assert alone is not None
    passes = [_passes(count, q) for count in counts]
    ran, free = [0] * p, [0] * p
    here: dict[tuple[str, int, int], int] = {}
    for m in range(q):
        here["forward", 0, m] = here["backward", p - 1, m] = 0
    until: dict[object, int] = {}
    waiting: list[tuple[int, int, int, int]] = []
    while True:
        for i in range(p):
            while (
                ran[i] < 2 * q
                and (passes[i][ran[i]][0], i, passes[i][ran[i]][1]) in here
            ):
                name, m = passes[i][ran[i]]
                took = times.forward[i] if name == "forward" else times.backward[i]
                free[i] = max(free[i], here[name, i, m]) + took
                ran[i] += 1
                to = i + 1 if name == "forward" else i - 1
                if 0 <= to < p:
                    waiting.append((free[i], 0 if name == "forward" else 1, i, m))
        if not waiting:
            return free
        ready, gradients, i, m = min(waiting)
        waiting.remove((ready, gradients, i, m))
        b = i - gradients
        sign = -1 if gradients else 1
        kept: dict[object, int] = {(b, sign): alone.occupancy[b]}
        kept |= {(way.place, sign * way.side): way.keeps for way in alone.ways[b]}
        start = max([ready, *(until.get(key, 0) for key in kept)])
        until |= {key: start + keeps for key, keeps in kept.items()}
        arrives = start + times.transfer[b]
        if gradients:
            here["backward", i - 1, m] = arrives
        else:
            here["forward", i + 1, m] = arrives


def _passes(warm: int, q: int) -> list[tuple[str, int]]:
    """Return F_1..F_w, B_1, F_w+1, B_2, ... of one stage."""
    listed = [("forward", m) for m in range(warm)]
    for m in range(q):
        listed.append(("backward", m))
        if warm + m < q:
            listed.append(("forward", warm + m))
    return listed
