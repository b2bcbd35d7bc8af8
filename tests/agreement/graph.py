"""One iteration of a plan as an explicit graph of events, and its longest path.

Durations are sums over the table's units and orders those of ``tests.oracle``; nothing
is shared with the checker, by whose functions brute force prices plans. Boundaries have
links of their own: transfers in one direction follow each other in the order in which
the stage before them makes their contents.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from hetopt.schedule.orders import FOLDS, Orders
from hetopt.schedule.schedules import rule_of
from tests.oracle import chunks, folding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.cost.table.table import CostTable
    from tests.oracle.brute_force import Found

    #: "F", "B" or "W", chunk, micro-batch.
    Pass = tuple[str, int, int]
    #: Stage and pass; or what is sent of it, or an exchange.
    Event = tuple[object, ...]


class Graph:
    """Events of a plan with any number of micro-batches.

    Parameters
    ----------
    microbatches
        None for those of the plan.
    """

    def __init__(
        self, table: CostTable, found: Found, microbatches: int | None = None
    ) -> None:
        p, own, order, strategies, stages = found.shape
        self.table, self.rule = table, rule_of(table.schedule)
        self.part, self.p, self.q = table.at(own), p, microbatches or own
        self.v = 2 if self.rule.folded else table.chunks
        self.warmups = [self.q] * p if self.rule.all_first else found.warmups
        runs = zip(order, strategies, stages, strict=True)
        self.hosts = [(j, k) for j, k, count in runs for _ in range(count)]
        ends = [sum(found.units[:i]) for i in range(p + 1)]
        self.units = [table.units[a:b] for a, b in pairwise(ends)]
        self.cuts = [table.cuts[end - 1] for end in ends[1:-1]]
        #: Of every event those that start before it, and the least time between.
        self.after: dict[Event, list[tuple[Event, int]]] = defaultdict(list)
        #: The last pass of every stage, and how long it takes.
        self.last: list[tuple[Event, int]] = []
        if self.rule.blocking:
            self._exchange()
        else:
            self._flow()

    def makespan(self) -> int:
        """Return the length of the longest path, to the end of every stage's g."""
        starts: dict[Event, int] = {}

        def start(event: Event) -> int:
            if event not in starts:
                before = self.after[event]
                starts[event] = max([0, *(start(each) + gap for each, gap in before)])
            return starts[event]

        ends = [start(event) + took for event, took in self.last]
        return max(end + g for end, g in zip(ends, self._sync(), strict=True))

    def _order(self, i: int) -> list[Pass]:
        """Return the passes of a stage."""
        if block := FOLDS.get(self.rule.name):
            orders = Orders(
                warmups=(1,) * self.p,
                microbatches=self.q,
                chunks=2,
                folded=True,
                block=block,
                splits=True,
            )
            return [(kind, number % 2, number // 2) for kind, number in orders.of(i)]
        if self.rule.folded:
            return folding.operations(self.p, self.q, i)
        if self.v > 1:
            listed = chunks.operations(self.p, self.q, self.v, i)
            return [("F" if ahead else "B", c, m) for ahead, c, m in listed]
        warm = min(self.warmups[i], self.q)
        passes: list[Pass] = [("F", 0, m) for m in range(warm)]
        for m in range(self.q):
            passes.append(("B", 0, m))
            if self.rule.splits and m >= i:
                passes.append(("W", 0, m - i))
            if warm + m < self.q:
                passes.append(("F", 0, warm + m))
        if self.rule.splits:
            passes += [("W", 0, m) for m in range(max(self.q - i, 0), self.q)]
        return passes

    def _took(self, i: int, kind: str, chunk: int) -> int:
        """Return how long a pass takes."""
        (j, k), table = self.hosts[i], self.table
        own, total = self.part.clusters[j], 0
        for unit in self.units[i]:
            each, times = unit, 1
            if table.pairs is not None:
                each = table.pairs[unit - len(table.kinds)][chunk]
            elif self.v > 1 and not table.body[unit]:
                # The table has its mean over the chunks.
                times = self.v * ((i, chunk) in ((0, 0), (self.p - 1, self.v - 1)))
            later = 0 if own.weight_ns is None else int(own.weight_ns[k, each])
            spent = {"F": int(own.forward_ns[k, each]), "W": later}
            spent["B"] = int(own.backward_ns[k, each]) - later
            total += times * spent[kind]
        return total

    def _boundary(self, before: int, after: int) -> tuple[int, int]:
        """Return kappa and omega of one chunk between two stages of the path."""
        way_back = after == 0 and before == self.p - 1 and not self.rule.folded
        if way_back:
            cut, ends = self.table.way_back, (before, after)
        else:
            ends = min(before, after), max(before, after)
            cut = self.cuts[ends[0]]
        layouts = [
            int(self.part.clusters[j].layout[k])
            for j, k in (self.hosts[end] for end in ends)
        ]
        place, share = (cut, *layouts), 2 if self.rule.folded else 1
        kappa, omega = self.part.transfer_ns[place], self.part.occupancy_ns[place]
        return int(kappa) // share, int(omega) // share

    def _path(self) -> list[tuple[int, int]]:
        """Return stage and chunk of all that a micro-batch goes through."""
        stages = range(self.p)
        if self.rule.folded:
            return [(i, 0) for i in stages] + [(i, 1) for i in reversed(stages)]
        return [(i, c) for c in range(self.v) for i in stages]

    def _flow(self) -> None:
        """Add passes and transfers that stages do not wait for."""
        forward = dict(pairwise(self._path()))
        steps = {"F": forward, "B": {b: a for a, b in forward.items()}, "W": {}}
        sent: dict[tuple[int, int, str], tuple[Event, int]] = {}
        for i in range(self.p):
            before: tuple[Event, int] | None = None
            for kind, chunk, m in self._order(i):
                event: Event = (i, kind, chunk, m)
                took = self._took(i, kind, chunk)
                if before is not None:
                    self.after[event].append(before)
                before = (event, took)
                step = steps[kind].get((i, chunk))
                if step is None:
                    continue
                to, onward = step
                there: Event = (to, kind, onward, m)
                if to == i:
                    self.after[there].append((event, took))
                    continue
                ways = (i, to) if kind == "F" else (to, i)
                kappa, omega = self._boundary(*ways)
                leaves: Event = ("sent", *event)
                self.after[leaves].append((event, took))
                self.after[there].append((leaves, kappa))
                if self.v == 1:
                    if (i, to, kind) in sent:
                        self.after[leaves].append(sent[i, to, kind])
                    sent[i, to, kind] = (leaves, omega)
            assert before is not None
            self.last.append(before)

    def _exchange(self) -> None:
        """Add passes, and exchanges for which both stages of a boundary wait."""
        for i in range(self.p):
            ahead = self.p - 1 - i
            # Kind, and its number; exchanges also have a boundary.
            tasks: list[tuple[str, int, int]] = []
            for m in range(min(ahead, self.q)):
                tasks += [("meet", m, i - 1), ("F", m, 0), ("meet", m, i)]
            if ahead < self.q:
                tasks.append(("meet", ahead, i - 1))
            for m in range(self.q):
                tasks += [("F", m + ahead, 0)] * (m + ahead < self.q)
                tasks += [("meet", m + ahead, i), ("B", m, 0)]
                tasks.append(("meet", m + ahead + 1, i - 1))
            before: tuple[Event, int] | None = None
            for kind, m, boundary in tasks:
                meets = kind == "meet"
                if meets and not 0 <= boundary < self.p - 1:
                    continue
                event: Event = (kind, m, boundary if meets else i)
                if before is not None:
                    self.after[event].append(before)
                took = self._meeting(boundary, m) if meets else self._took(i, kind, 0)
                before = (event, took)
                if (kind, m) == ("B", self.q - 1):
                    self.last.append(before)

    def _meeting(self, boundary: int, number: int) -> int:
        """Return how long an exchange takes: of activations, gradients or both."""
        both = self.p - 1 - boundary <= number < self.q
        kappa, _ = self._boundary(boundary, boundary + 1)
        return kappa * (self.rule.blocking if both else 1)

    def _sync(self) -> Sequence[int]:
        found = []
        for (j, k), units in zip(self.hosts, self.units, strict=True):
            own = self.part.clusters[j]
            each = (int(own.sync_unit_ns[k, unit]) for unit in units)
            found.append(int(own.sync_ns[k]) + sum(each))
        if self.part.tied_ns is not None and self.p > 1:
            a, b = (self.hosts[i] for i in (0, -1))
            layouts = (int(self.part.clusters[j].layout[k]) for j, k in (a, b))
            tied = int(self.part.tied_ns[tuple(layouts)])
            found[0] += tied
            found[-1] += tied
        return found
