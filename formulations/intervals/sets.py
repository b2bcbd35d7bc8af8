"""Sets of the interval program: who may host which stages, and how many units."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.formulations.cp_sat.sets import Sets
from hetopt.formulations.cp_sat.terms import dot
from hetopt.formulations.intervals.deltas import AdaptiveDeltas
from hetopt.formulations.scale import PERIOD_SCALE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from hetopt.formulations.cp_sat.sets import Costs
    from hetopt.formulations.program import ProgramData


class Host(NamedTuple):
    """A cluster with a strategy and, if it matters, the number of clusters after it."""

    cluster: int
    strategy: int
    after: int


class Arc(NamedTuple):
    """Stages ``first`` to ``first + stages - 1``, all on one host."""

    host: Host
    first: int
    stages: int

    @property
    def end(self) -> int:
        """The stage after its last one."""
        return self.first + self.stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a stage can hold.

    Attributes
    ----------
    most
        Most body units, whatever their kinds.
    left, unit_bytes
        If ``most`` is not sufficient: bytes for body units if kind f is present,
        and bytes of a unit, by kind.
    """

    most: int
    left: dict[int, int] = field(default_factory=dict)
    unit_bytes: dict[int, int] = field(default_factory=dict)


class IntervalSets(Sets):
    """Hosts, their arcs and what they can hold, besides the sets of all programs.

    Attributes
    ----------
    levels
        Possible numbers of clusters after a host. Only 0 if memory does not depend on
        it; hosts are then not distinguished by it.
    rooms
        For each available host, the room on every stage at the least possible W.
    adaptive
        Range of delta if it depends on times (``h-1f1b``).
    tighter
        By host and stage, for each W at which the stage can hold less: its room.
        Empty if only the least W matters.
    arcs
        Every arc, with the most body units that its stages hold together.
    """

    def __init__(self, data: ProgramData) -> None:
        super().__init__(data)
        self.period_max = min(self.period_max, PERIOD_SCALE * self._slowest_pass())
        self._costs: dict[object, NDArray[np.int64]] = {}
        self.adaptive: AdaptiveDeltas | None = None
        if self.steady and self.rule.thresholds:
            self.adaptive = AdaptiveDeltas(self, self.next_clusters)
        self.levels, self.rooms = self._place()
        self.tighter = self._tighten()
        self.arcs = dict(self._arcs())

    @property
    def told_apart(self) -> bool:
        """Whether hosts are distinguished by the number of clusters after them."""
        return len(self.levels) > 1

    @cached_property
    def hosts(self) -> list[Host]:
        """Hosts with an arc."""
        return sorted({arc.host for arc in self.arcs})

    @cached_property
    def next_clusters(self) -> frozenset[tuple[int, int]]:
        """Pairs (i, j) such that pins permit cluster j directly after i."""
        pins, index = self.data.pins, self.data.names.index
        pairs = {(i, j) for i in self.clusters for j in self.clusters if i != j}
        if pins.order is not None:
            order = list(map(index, pins.order))
            pairs &= set(pairwise(order))
        return frozenset(
            pairs
            - {(index(before), index(after)) for before, after in pins.forbidden_next}
        )

    def steps(self, stage: int) -> list[int]:
        """Return each W at which some host can hold less on a stage, ascending."""
        return sorted(
            {w for (_, at), rooms in self.tighter.items() if at == stage for w in rooms}
        )

    def layout_of(self, host: Host) -> int:
        """Return the layout of a boundary tensor under a host."""
        return self.layout(host.cluster, host.strategy)

    def ends(self, stage: int) -> tuple[int, ...]:
        """Return the units of each kind that a stage holds besides body units."""
        counts = np.zeros(len(self.chain.lead), dtype=np.int64)
        if stage == 0:
            counts += self.chain.lead
        if stage == self.stages - 1:
            counts += self.chain.trail
        return tuple(map(int, counts))

    def _slowest_pass(self) -> int:
        """Return an upper bound on periods: one micro-batch, slowest everywhere.

        Every window is a part of this over at least 1, and so are gpipe's two paces.
        """
        chain = self.chain
        counts = chain.prefix[-1] + np.array(chain.lead) + np.array(chain.trail)
        times = np.array(list(self.tau.values()), dtype=np.int64)
        slowest = times.reshape(-1, len(counts)).max(axis=0, initial=0)
        longest = int(self.part.transfer_ns.max(initial=0))
        return int(slowest @ counts) + 2 * (self.stages - 1) * longest

    # ------------------------------------------------------------ capacities

    def _place(self) -> tuple[range, dict[Host, list[Room]]]:
        """Return levels and rooms; one level if all levels have the same rooms."""
        order = self.data.pins.order
        most = min(len(self.clusters), self.stages)
        rooms = {
            Host(j, k, after): [
                self._room(j, k, stage, self._in_flight(stage, after))
                for stage in range(self.stages)
            ]
            for j, k in self.capacity
            if order is None or self.data.names[j] in order
            for after in range(self._levels(most))
        }
        alike = all(
            held == rooms[Host(host.cluster, host.strategy, 0)]
            for host, held in rooms.items()
        )
        if alike:
            first = {host: held for host, held in rooms.items() if not host.after}
            return range(1), first
        return range(most), rooms

    def _levels(self, most: int) -> int:
        if self.gpipe or not self.steady or self.adaptive is not None:
            return min(1, most)
        return most if self.rule.across != self.rule.inside else min(1, most)

    def _in_flight(self, stage: int, after: int) -> int:
        """Return the least min(W, q) of a stage with ``after`` crossings after it."""
        if self.gpipe or not self.steady:
            return self.most_held
        if self.adaptive is not None:
            least, _ = self.adaptive.warmups(self.stages - 1 - stage)
            return min(self.most_held, least)
        warmups = self.rule.least_warmups(self.stages - 1 - stage, after)
        return min(self.most_held, warmups)

    def _tighten(self) -> dict[tuple[Host, int], dict[int, Room]]:
        if self.adaptive is None:
            return {}
        tighter: dict[tuple[Host, int], dict[int, Room]] = {}
        for host, rooms in self.rooms.items():
            for stage, before in enumerate(rooms):
                least, most = self.adaptive.warmups(self.stages - 1 - stage)
                last = before
                for w in range(least + 1, min(most, self.most_held) + 1):
                    if last.most < 1:
                        break
                    room = self._room(host.cluster, host.strategy, stage, w)
                    if room != last:
                        tighter.setdefault((host, stage), {})[w] = room
                    last = room
        return tighter

    def _room(self, j: int, k: int, stage: int, in_flight: int) -> Room:
        table, kinds, ends = self.table(j), self.chain.kinds, self.ends(stage)
        bytes_ = table.state_bytes[k] + in_flight * table.activation_bytes[k]
        temporary = [int(value) for value in table.temporary_bytes[k]]
        at_ends = max((temporary[f] for f, n in enumerate(ends) if n), default=0)
        room = self.free_bytes(j, k) - dot(ends, bytes_)
        left = {f: room - max(at_ends, temporary[f]) for f in kinds}
        least = self._shortest(("bytes", j, k, in_flight), bytes_)
        most = min(self.capacity[j, k], int((least <= max(left.values())).sum()) - 1)
        if self.steady:
            spare = self.period_max - PERIOD_SCALE * dot(ends, self.tau[j, k])
            most = min(most, self._most_within("tau", self.tau, j, k, spare))
        unit_bytes = {f: int(bytes_[f]) for f in kinds}
        if len(kinds) == 1 or most * max(unit_bytes.values()) <= min(left.values()):
            return Room(most=most)
        return Room(most=most, left=left, unit_bytes=unit_bytes)

    def _most_within(self, name: str, costs: Costs, j: int, k: int, time: int) -> int:
        """Return the most body units of (j, k) within 1 / PERIOD_SCALE ticks."""
        cost = self._shortest((name, j, k), np.array(costs[j, k], dtype=np.int64))
        return int((cost * PERIOD_SCALE <= time).sum()) - 1

    def _shortest(self, key: object, cost: NDArray[np.int64]) -> NDArray[np.int64]:
        if key not in self._costs:
            self._costs[key] = self.chain.shortest(cost)
        return self._costs[key]

    # ------------------------------------------------------------------ arcs

    def _arcs(self) -> Iterator[tuple[Arc, int]]:
        for host, rooms in self.rooms.items():
            stages = self.data.pins.of(self.data.names[host.cluster]).stages
            for first in range(self.stages):
                for m in self._lengths(host, first, rooms):
                    arc = Arc(host, first, m)
                    most = self._most_units(arc, rooms)
                    if stages.permits(m) and most >= m:
                        yield arc, most

    def _lengths(self, host: Host, first: int, rooms: Sequence[Room]) -> Iterator[int]:
        """Yield the numbers of stages that may be hosted from ``first`` on."""
        for m in range(1, self.room_for(host.cluster, host.strategy) + 1):
            end = first + m
            # Every cluster after this one hosts at least one stage.
            if end > self.stages - host.after or rooms[end - 1].most < 1:
                return
            if not self.told_apart or (end == self.stages) == (host.after == 0):
                yield m

    def _most_units(self, arc: Arc, rooms: Sequence[Room]) -> int:
        """Bound the body units of an arc: stage by stage, and as one window.

        ``sum tau + 2 kappa (m - 1) <= lambda (delta (m - 1) + 1)`` at lambda's upper
        bound, with the cheapest cut. Only the ``handed_on`` part of tau counts.
        """
        m, (j, k, _) = arc.stages, arc.host
        units = sum(rooms[stage].most for stage in range(arc.first, arc.end))
        units = min(units, self.chain.length - (self.stages - m))
        if not self.steady or self.gpipe or m == 1:
            return units
        a = self.layout(j, k)
        kappas = [int(self.part.transfer_ns[x, a, a]) for x in self.chain.cut_classes]
        kappa = min(kappas)
        if self.adaptive is None:
            delta = self.rule.inside
        else:
            delta = self.adaptive.most(max(kappas))
        at_ends = {arc.first, arc.end - 1} & {0, self.stages - 1}
        fixed = 2 * kappa * (m - 1) + sum(
            dot(self.ends(stage), self.handed_on[j, k]) for stage in sorted(at_ends)
        )
        time = self.period_max * (delta * (m - 1) + 1) - PERIOD_SCALE * fixed
        most = self._most_within("handed_on", self.handed_on, j, k, time)
        return min(units, most)
