"""Boundaries in the CP-SAT program: kappa across clusters and inside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.formulations.cp_sat.terms import total, weighted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ortools.sat.python import cp_model

    from hetopt.formulations.cp_sat.variables import Variables


def cross(v: Variables) -> None:
    """Tie hops to the order of clusters and to the strategies they take.

    ``sum hops[a, b] = follows[i, j]`` over the layouts a of i and b of j; a layout
    is left unless its cluster closes the pipeline, and entered unless it opens it:
    ``sum_b hops[a, b] = sum_k takes[j, k] - closes[j, k]`` over the k of layout a.
    """
    model, sets = v.model, v.sets
    for i, j in v.follows:
        across = [v.hops[a, b] for a in sets.layouts(i) for b in sets.layouts(j)]
        model.add(total(across) == v.follows[i, j])
    leaving: dict[int, list[cp_model.IntVar]] = {}
    entering: dict[int, list[cp_model.IntVar]] = {}
    for (a, b), hop in v.hops.items():
        leaving.setdefault(a, []).append(hop)
        entering.setdefault(b, []).append(hop)
    for j in sets.clusters:
        for a in sets.layouts(j):
            of = [(j, k) for k in sets.options[j] if sets.layout(j, k) == a]
            taken = total(v.takes[key] for key in of)
            for hops, ending in (
                (entering.get(a, []), v.opens),
                (leaving.get(a, []), v.closes),
            ):
                model.add(total(hops) == taken - total(ending[key] for key in of))


def price_crossings(v: Variables) -> None:
    """Set kappa into a cluster by cut class and both layouts; 0 if there is none."""
    model, sets = v.model, v.sets
    classes, transfer = sets.chain.cut_classes, sets.part.transfer_ns
    for j in sets.clusters:
        into = list(_hops_into(v, j))
        if len(classes) <= 1:
            x = classes[0] if classes else 0
            costs = [int(transfer[x, a, b]) for _, a, b in into]
            hops = [v.hops[a, b] for _, a, b in into]
            model.add(v.kappa_in[j] == weighted(hops, costs))
            continue
        model.add(v.kappa_in[j] == 0).only_enforce_if(v.first[j])
        # Under h-1f1b the longest kappa counts, even of an unused cluster.
        model.add(v.kappa_in[j] == 0).only_enforce_if(~v.uses[j])
        for i, a, b in into:
            for x in classes:
                model.add(v.kappa_in[j] == int(transfer[x, a, b])).only_enforce_if(
                    [v.hops[a, b], *v.cut_is(i, sets.slots[i] - 1, x)]
                )


def price_inside(v: Variables) -> None:
    """Set kappa after slot r if slot r + 1 is live, else 0; both have one layout."""
    model, sets = v.model, v.sets
    for (j, r), kappa in v.kappa.items():
        after = v.live[j][r + 1]
        model.add(kappa == 0).only_enforce_if(~after)
        for k in sets.takers(j, r + 1):
            a = sets.layout(j, k)
            for x in sets.chain.cut_classes:
                model.add(kappa == int(sets.part.transfer_ns[x, a, a])).only_enforce_if(
                    [v.takes[j, k], after, *v.cut_is(j, r, x)]
                )


def inner_fill(v: Variables) -> list[cp_model.LinearExpr]:
    """Return both ways across every boundary inside clusters, for the fill.

    If all cuts are alike that is ``2 kappa (hosts - takes)`` for each strategy, which
    is the stronger form.
    """
    sets = v.sets
    if not sets.chain.is_uniform:
        return [2 * kappa for kappa in v.kappa.values()]
    terms = []
    for x in sets.chain.cut_classes:
        for j, k in sets.capacity:
            a = sets.layout(j, k)
            kappa = int(sets.part.transfer_ns[x, a, a])
            terms.append(
                weighted([v.hosts[j, k], v.takes[j, k]], [2 * kappa, -2 * kappa])
            )
    return terms


def _hops_into(v: Variables, j: int) -> Iterator[tuple[int, int, int]]:
    """Yield (cluster, its layout, layout of j) of every hop into cluster j."""
    for i, other in v.follows:
        if other == j:
            for a in v.sets.layouts(i):
                for b in v.sets.layouts(j):
                    yield i, a, b
