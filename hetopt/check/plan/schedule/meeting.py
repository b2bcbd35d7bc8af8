"""Boundaries that share a link or an uplink, derived for the checker alone.

Symbols as in MODEL.md, section 4: omega of a boundary; ``keeps`` is the time for which
one transfer occupies what several share.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.cost.table.slice import TableSlice


class Way(NamedTuple):
    """A link or uplink that a boundary uses and others may use as well.

    Attributes
    ----------
    place
        The cluster whose uplink it is, or the two clusters that a link joins.
    side
        1 or -1 by the direction of activations; gradients go the other way.
    keeps
        How long one transfer occupies it, in nanoseconds.
    """

    place: frozenset[int]
    side: int
    keeps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """Omega of boundaries without sharing, and the ways of each boundary.

    Attributes
    ----------
    in_phases
        Whether all forwards come first, so that activations meet no gradients.
    """

    in_phases: bool
    occupancy: tuple[int, ...]
    ways: tuple[tuple[Way, ...], ...]

    def together(self) -> tuple[int, ...]:
        """Return omega with the time that sharing boundaries take in a period."""
        every = [way for own in self.ways for way in own]

        def meeting(way: Way) -> int:
            sides = [met.side for met in every if met.place == way.place]
            if self.in_phases:
                return max(sides.count(1), sides.count(-1))
            return len(sides)

        found = []
        for omega, own in zip(self.occupancy, self.ways, strict=True):
            met = [(meeting(way), way.keeps) for way in own]
            # A transfer that meets no other keeps its own tensor's omega.
            found.append(max([omega, *(n * keeps for n, keeps in met if n > 1)]))
        return tuple(found)


def ways_of(part: TableSlice, clusters: Sequence[int]) -> tuple[tuple[Way, ...], ...]:
    """Return the ways of every boundary that another boundary uses as well.

    Parameters
    ----------
    clusters
        Cluster of every stage; the first once more at the end if there is a way back.
    """
    shared = part.shared
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
