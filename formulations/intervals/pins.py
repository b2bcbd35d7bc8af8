"""The user's pins in the interval program, except those that arcs and hops keep."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from hetopt.formulations.linear_program import combine, total

if TYPE_CHECKING:
    from hetopt.formulations.intervals.variables import IntervalVariables


def pin(v: IntervalVariables) -> None:
    """Add the pins that are neither on arcs nor on neighbours."""
    pin_order(v)
    pin_clusters(v)
    pin_units(v)


def pin_order(v: IntervalVariables) -> None:
    """Use exactly these clusters; hops permit only their order."""
    names = v.sets.data.pins.order
    if names is None:
        return
    for j, name in enumerate(v.sets.data.names):
        _use(v, j, f"pinned_order({v.cluster(j)})", used=name in names)


def pin_clusters(v: IntervalVariables) -> None:
    """Use a cluster if it may not have 0 stages; limit its units, 0 if unused."""
    sets, chain = v.sets, v.sets.chain
    lead, trail = sum(chain.lead), sum(chain.trail)
    for j, name in enumerate(sets.data.names):
        pins = sets.data.pins.of(name)
        if not pins.stages.permits(0):
            _use(v, j, f"pinned_stages({v.cluster(j)})", used=True)
        most = chain.length + lead + trail
        permitted = [n for n in range(most + 1) if pins.units.permits(n)]
        if len(permitted) > most:
            continue
        own = [arc for arc in v.hosts if arc.host.cluster == j]
        body = total(
            column
            for (host, _), columns in v.held.items()
            if host.cluster == j
            for column in columns.values()
        )
        first = total(v.hosts[arc] for arc in own if arc.first == 0)
        last = total(v.hosts[arc] for arc in own if arc.end == sets.stages)
        is_ = {
            n: v.program.column(f"holds({v.cluster(j)},{n})", upper=1, integer=True)
            for n in permitted
        }
        value = {column: float(n) for n, column in is_.items()}
        name = f"pinned_units({v.cluster(j)})"
        v.program.equal(f"one_of_{name}", total(is_.values()), 1)
        v.program.equal(
            name, combine([(1, body), (lead, first), (trail, last), (-1, value)]), 0
        )


def pin_units(v: IntervalVariables) -> None:
    """Fix every cut if the units per stage are pinned."""
    sets, chain = v.sets, v.sets.chain
    pinned = sets.data.pins.units
    if pinned is None:
        return
    body = chain.without_ends(pinned)
    if len(body) != sets.stages or min(body) < 1 or sum(body) != chain.length:
        v.program.row("pinned_units", {}, lower=1)
        return
    if chain.is_uniform:
        for stage, column in v.units.items():
            v.program.equal(f"pinned_units({stage})", {column: 1}, body[stage])
        return
    for (r, columns), cut in zip(v.cut.items(), accumulate(body), strict=False):
        v.program.equal(f"pinned_cut({r})", {columns[cut]: 1}, 1)


def _use(v: IntervalVariables, j: int, name: str, *, used: bool) -> None:
    arcs = total(c for arc, c in v.hosts.items() if arc.host.cluster == j)
    v.program.equal(name, arcs, int(used))
