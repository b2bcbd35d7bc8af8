"""The columns of the interval program, which all of its rows use."""

from __future__ import annotations

import re
from math import floor, log10
from typing import TYPE_CHECKING

from hetopt.formulations.linear_program import total
from hetopt.formulations.scale import PERIOD_SCALE

if TYPE_CHECKING:
    from hetopt.formulations.intervals.sets import Arc, Host, IntervalSets
    from hetopt.formulations.linear_program import LinearProgram, Terms

#: Digits before the point of the fastest one-unit stage in the program's unit of time:
#: times are far above solvers' tolerances, and sums far below their infinities.
_DIGITS = 2
_UNREADABLE = re.compile(r"[^A-Za-z0-9_]+")


class IntervalVariables:
    """The columns in ``IntervalProgram``'s symbol table, without rows.

    Attributes
    ----------
    unit_ns
        Nanoseconds in the program's unit of time, a power of ten.
    """

    def __init__(self, program: LinearProgram, sets: IntervalSets) -> None:
        self.program = program
        self.sets = sets
        p, kinds = sets.stages, sets.chain.kinds
        fastest = min(
            (max(sets.tau[j, k][f] for f in kinds) for j, k in sets.tau), default=1
        )
        digits = floor(log10(max(fastest, 1))) + 1
        self.unit_ns: int = 10 ** max(0, digits - _DIGITS)
        self._clusters = _readable(sets.data.names)

        of = self.name
        self.hosts = {
            arc: self._binary(f"hosts({of(arc.host)},{arc.first}..{arc.end - 1})")
            for arc in sets.arcs
        }
        self._starting: dict[int, list[Arc]] = {}
        self._ending: dict[int, list[Arc]] = {}
        for arc in sets.arcs:
            self._starting.setdefault(arc.first, []).append(arc)
            self._ending.setdefault(arc.end, []).append(arc)
        self._at: dict[int, list[Host]] = {}
        self.on: dict[tuple[Host, int], int] = {}
        self.held: dict[tuple[Host, int], dict[int, int]] = {}
        for host, stage in sorted(
            {(arc.host, s) for arc in sets.arcs for s in range(arc.first, arc.end)}
        ):
            self._at.setdefault(stage, []).append(host)
            name = f"{self.name(host)},{stage}"
            self.on[host, stage] = program.column(f"on({name})", upper=1)
            most = sets.rooms[host][stage].most
            self.held[host, stage] = {
                f: program.column(f"held({name},kind{f})", upper=most) for f in kinds
            }
        self.units: dict[int, int] = {}
        self.cut: dict[int, dict[int, int]] = {}
        self._place_cuts()
        self.hops: dict[int, dict[tuple[int, int, int], int]] = {}
        self.inner: dict[int, dict[tuple[int, int], int]] = {}
        for r in range(1, p):
            self._cross(r)
        self.ends: dict[tuple[int, int], int] = {}
        if sets.part.tied_ns is not None and p > 1:
            self.ends = {
                (a, b): program.column(f"ends({a},{b})", upper=1)
                for a in self.layouts(self.starting(0))
                for b in self.layouts(self.ending(p))
            }
        # For h-1f1b; see intervals.warmups.
        self.reaches: dict[int, int] = {}
        self.adds: dict[int, dict[int, int]] = {}
        self.least_delta: dict[int, int] = {}
        self.at_least: dict[tuple[int, int], int] = {}
        self._price()

    def _price(self) -> None:
        """Add the columns of times and of the objective."""
        program, sets, p = self.program, self.sets, self.sets.stages
        self.tau = [program.column(f"tau({s})") for s in range(p)]
        self.fill = self.handed_on = self.tau
        if sets.rule.splits:
            self.fill = [program.column(f"fill({s})") for s in range(p)]
            self.handed_on = [program.column(f"handed_on({s})") for s in range(p)]
        self.kappa = {r: program.column(f"kappa({r})") for r in range(1, p)}
        self.sync = program.column("sync")
        self.period: int | None = None
        if sets.steady:
            self.period = program.column(
                "period", upper=self.time(sets.period_max) / PERIOD_SCALE
            )
            program.lower[self.period] = (
                self.time(min(sets.data.period_min, sets.period_max)) / PERIOD_SCALE
            )

    def time(self, time_ns: int) -> float:
        """Return a time in the program's unit."""
        return time_ns / self.unit_ns

    def name(self, host: Host) -> str:
        """Return a readable name of a host."""
        strategy = self.sets.table(host.cluster).strategies[host.strategy]
        name = (
            f"{self._clusters[host.cluster]},d{strategy.dp}c{strategy.cp}t{strategy.tp}"
        )
        if strategy.has_expert_degrees:
            name += f"e{strategy.ep}x{strategy.etp}"
        name += f"_{strategy.recompute}"
        return f"{name},before{host.after}" if self.sets.told_apart else name

    def cluster(self, j: int) -> str:
        """Return a readable name of a cluster."""
        return self._clusters[j]

    def starting(self, stage: int) -> list[Arc]:
        """Return the arcs that start at a stage."""
        return self._starting.get(stage, [])

    def ending(self, stage: int) -> list[Arc]:
        """Return the arcs that end before a stage."""
        return self._ending.get(stage, [])

    def layouts(self, arcs: list[Arc]) -> list[int]:
        """Return the layouts of arcs, ascending."""
        return sorted({self.sets.layout_of(arc.host) for arc in arcs})

    def of_layout(self, arcs: list[Arc], a: int) -> Terms:
        """Return the number of chosen arcs among those that have layout a."""
        return total(
            self.hosts[arc] for arc in arcs if self.sets.layout_of(arc.host) == a
        )

    def hosts_at(self, stage: int) -> list[Host]:
        """Return the hosts a stage may have."""
        return self._at.get(stage, [])

    # --------------------------------------------------------------- making

    def _binary(self, name: str) -> int:
        return self.program.column(name, upper=1, integer=True)

    def _place_cuts(self) -> None:
        """Add integer units per stage if they are alike, otherwise one-hot cuts."""
        sets, program = self.sets, self.program
        p, length = sets.stages, sets.chain.length
        if sets.chain.is_uniform:
            self.units = {
                s: program.column(f"units({s})", upper=length, integer=True)
                for s in range(p)
            }
            return
        self.cut = {
            r: {c: self._binary(f"cut({r},{c})") for c in range(r, length - p + r + 1)}
            for r in range(1, p)
        }

    def _cross(self, r: int) -> None:
        """Add the hops and inner crossings before stage r, by class of cut."""
        sets, program = self.sets, self.program
        leaving, entering = self.ending(r), self.starting(r)
        clusters = {
            sets.layout_of(arc.host): arc.host.cluster for arc in leaving + entering
        }
        inside = sorted({sets.layout_of(host) for host in self.hosts_at(r)})
        hops, inner = self.hops.setdefault(r, {}), self.inner.setdefault(r, {})
        for x in sets.chain.cut_classes:
            for a in self.layouts(leaving):
                for b in self.layouts(entering):
                    if (clusters[a], clusters[b]) in sets.next_clusters:
                        hops[x, a, b] = program.column(
                            f"hop({r},class{x},{a},{b})", upper=1
                        )
            for a in inside:
                inner[x, a] = program.column(f"inner({r},class{x},{a})", upper=1)


def _readable(names: tuple[str, ...]) -> list[str]:
    """Return names that program files accept, a different one for each cluster."""
    plain = [_UNREADABLE.sub("_", name) for name in names]
    return [
        name if plain.count(name) == 1 else f"{name}_{j}"
        for j, name in enumerate(plain)
    ]
