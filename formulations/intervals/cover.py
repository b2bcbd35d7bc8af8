"""Cover in the interval program: P2 to P4, the clusters' order and boundaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.formulations.linear_program import combine, total

if TYPE_CHECKING:
    from hetopt.formulations.intervals.sets import Host
    from hetopt.formulations.intervals.variables import IntervalVariables


def cover_stages(v: IntervalVariables) -> None:
    """Every stage has exactly one host.

    ``on(h,s) = sum of the arcs of h over s`` and ``sum_h on(h,s) = 1``.
    """
    arcs: dict[tuple[Host, int], list[int]] = {}
    for arc, column in v.hosts.items():
        for stage in range(arc.first, arc.end):
            arcs.setdefault((arc.host, stage), []).append(column)
    for (host, stage), on in v.on.items():
        terms = combine([(1, {on: 1}), (-1, total(arcs[host, stage]))])
        v.program.equal(f"on({v.name(host)},{stage})", terms, 0)
    for stage in range(v.sets.stages):
        hosts = total(v.on[host, stage] for host in v.hosts_at(stage))
        v.program.equal(f"cover({stage})", hosts, 1)


def use_clusters_once(v: IntervalVariables) -> None:
    """P3 and P4: a cluster has one arc, so one strategy, or none."""
    for j in v.sets.clusters:
        arcs = total(c for arc, c in v.hosts.items() if arc.host.cluster == j)
        v.program.row(f"once({v.cluster(j)})", arcs, upper=1)


def follow(v: IntervalVariables) -> None:
    """Start the next arc where one ends, with one cluster fewer after it."""
    for r in range(1, v.sets.stages):
        ending, starting = v.ending(r), v.starting(r)
        for after in v.sets.levels:
            step = int(v.sets.told_apart)
            into = total(v.hosts[a] for a in ending if a.host.after == after)
            out = total(v.hosts[a] for a in starting if a.host.after + step == after)
            name = f"flow({r},before{after})" if step else f"flow({r})"
            v.program.equal(name, combine([(1, into), (-1, out)]), 0)


def cross(v: IntervalVariables) -> None:
    """Make every boundary a hop between layouts of two clusters, or inside one.

    ``sum_(x,b) hop(r,x,a,b)`` = arcs of layout a that end there, likewise for those
    that start; ``sum_x inner(r,x,a)`` = hosts of layout a on stage r whose arcs do
    not start there. As one arc ends and one starts, hops are 0 or 1 by themselves.
    """
    for r in range(1, v.sets.stages):
        ending, starting = v.ending(r), v.starting(r)
        for a in v.layouts(ending):
            hops = total(c for (_, a_, _), c in v.hops[r].items() if a_ == a)
            arcs = v.of_layout(ending, a)
            v.program.equal(f"leave({r},{a})", combine([(1, hops), (-1, arcs)]), 0)
        for b in v.layouts(starting):
            hops = total(c for (_, _, b_), c in v.hops[r].items() if b_ == b)
            arcs = v.of_layout(starting, b)
            v.program.equal(f"enter({r},{b})", combine([(1, hops), (-1, arcs)]), 0)
        _inside(v, r)
        _classify(v, r)
    if v.ends:
        _join_ends(v)


def _inside(v: IntervalVariables, r: int) -> None:
    starting = v.starting(r)
    for a in sorted({a for _, a in v.inner[r]}):
        inner = total(c for (_, other), c in v.inner[r].items() if other == a)
        on = total(
            v.on[host, r] for host in v.hosts_at(r) if v.sets.layout_of(host) == a
        )
        terms = combine([(1, inner), (-1, on), (1, v.of_layout(starting, a))])
        v.program.equal(f"inside({r},{a})", terms, 0)


def _classify(v: IntervalVariables, r: int) -> None:
    """Give boundary r the class of the cut that lies there."""
    chain = v.sets.chain
    if len(chain.cut_classes) <= 1:
        return
    for x in chain.cut_classes:
        here = [column for (y, *_), column in v.hops[r].items() if y == x]
        here += [column for (y, _), column in v.inner[r].items() if y == x]
        cuts = total(col for c, col in v.cut[r].items() if chain.cuts[c - 1] == x)
        terms = combine([(1, total(here)), (-1, cuts)])
        v.program.equal(f"class({r},{x})", terms, 0)


def _join_ends(v: IntervalVariables) -> None:
    """``sum_b ends(a,b)`` = the first stage has layout a; likewise for the last."""
    first, last = v.starting(0), v.ending(v.sets.stages)
    for side, arcs in enumerate((first, last)):
        for a in v.layouts(arcs):
            pairs = total(c for pair, c in v.ends.items() if pair[side] == a)
            terms = combine([(1, pairs), (-1, v.of_layout(arcs, a))])
            v.program.equal(f"end_{('first', 'last')[side]}({a})", terms, 0)
