"""Placement in the CP-SAT program: P1 to P4 and the clusters' order (HetAuto 4.1)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hetopt.formulations.cp_sat.terms import total

if TYPE_CHECKING:
    from hetopt.formulations.cp_sat.variables import Variables


def take_strategies(v: Variables) -> None:
    """P4: a used cluster takes exactly one (d, c, t) and recomputation.

    ``sum_k takes[j, k] = uses[j]``; likewise for the clusters of the first and of the
    last stage, whose strategy is the one they take.
    """
    model, sets = v.model, v.sets
    for j in sets.clusters:
        for whole, parts in (
            (v.uses[j], v.takes),
            (v.first[j], v.opens),
            (v.last[j], v.closes),
        ):
            model.add(total(parts[j, k] for k in sets.options[j]) == whole)
        for k in sets.options[j]:
            model.add_implication(v.opens[j, k], v.takes[j, k])
            model.add_implication(v.closes[j, k], v.takes[j, k])
    model.add(total(v.first.values()) == 1)
    model.add(total(v.last.values()) == 1)


def order_clusters(v: Variables) -> None:
    """HetAuto Eq. 12: the used clusters form one path, from first to last.

    A circuit through a source (node 0); an unused cluster loops on itself
    (HetAuto uses all clusters; this is our extension).
    """
    arcs = [(i + 1, j + 1, arc) for (i, j), arc in v.follows.items()]
    for j in v.sets.clusters:
        arcs.append((0, j + 1, v.first[j]))
        arcs.append((j + 1, 0, v.last[j]))
    loops = [(j + 1, j + 1, ~v.uses[j]) for j in v.sets.clusters]
    if arcs:
        v.model.add_circuit([*arcs, *loops])
    else:
        v.model.add_bool_or([])


def count_stages(v: Variables) -> None:
    """P2, P3 and Eq. 4: p stages, on consecutive slots, within the devices.

    ``live[j][r + 1] => live[j][r]``, ``sum_r live[j][r] = sum_k hosts[j, k]`` and
    ``takes[j, k] <= hosts[j, k] <= takes[j, k] * floor(devices_j / (d c t))``.
    """
    model, sets = v.model, v.sets
    for j in sets.clusters:
        live = v.live[j]
        model.add(live[0] == v.uses[j])
        for before, after in pairwise(live):
            model.add_implication(after, before)
        for k in sets.options[j]:
            most = sets.room_for(j, k)
            model.add(v.hosts[j, k] <= most * v.takes[j, k])
            model.add(v.hosts[j, k] >= v.takes[j, k])
            if most < sets.slots[j]:
                model.add_implication(v.takes[j, k], ~live[most])
        model.add(total(v.hosts[j, k] for k in sets.options[j]) == v.hosted[j])
    model.add(total(v.hosted.values()) == sets.stages)


def place_units(v: Variables) -> None:
    """P1: body units lie on the stages in order, at least one on each.

    ``cut[j, r] = cut[j, r - 1] + sum_f units[j, r, f]``, where the first cut of a
    cluster is the last one of the previous cluster, and the last cut of all is L.
    """
    model, sets = v.model, v.sets
    for j in sets.clusters:
        most = max(sets.capacity[j, k] for k in sets.options[j])
        before = v.start[j]
        for r, live in enumerate(v.live[j]):
            count = total(v.units[j, r].values())
            model.add(count >= live)
            model.add(count <= most * live)
            model.add(v.cut[j, r] == before + count)
            for k in sets.options[j]:
                if sets.capacity[j, k] < most:
                    model.add(count <= sets.capacity[j, k]).only_enforce_if(
                        v.takes[j, k]
                    )
            before = v.cut[j, r]
        model.add(v.start[j] == 0).only_enforce_if(v.first[j])
        model.add(v.start[j] == 0).only_enforce_if(~v.uses[j])
        model.add(before == sets.chain.length).only_enforce_if(v.last[j])
    for (i, j), arc in v.follows.items():
        end = v.cut[i, sets.slots[i] - 1]
        model.add(v.start[j] == end).only_enforce_if(arc)


def follow_chain(v: Variables) -> None:
    """P1 with unlike units: a slot holds the units between its two cuts.

    ``units[j, r, f] = prefix[cut[j, r]][f] - prefix[cut[j, r - 1]][f]``.
    """
    model, chain = v.model, v.sets.chain
    if chain.is_uniform:
        return
    for j, r in v.slots:
        before = v.cut[j, r - 1] if r else v.start[j]
        for f in chain.kinds:
            column = [int(n) for n in chain.prefix[:, f]]
            low = model.new_int_var(0, column[-1], f"before[{j},{r},{f}]")
            high = model.new_int_var(0, column[-1], f"after[{j},{r},{f}]")
            model.add_element(before, column, low)
            model.add_element(v.cut[j, r], column, high)
            model.add(v.units[j, r][f] == high - low)


def hold_units(v: Variables) -> None:
    """Split each cluster's units by strategy, so that costs are linear in them.

    ``sum_k held[j, k, f] = sum_r units[j, r, f]`` and, as only the chosen strategy has
    hosts, ``hosts[j, k] <= sum_f held[j, k, f] <= capacity * hosts[j, k]``.
    """
    model, sets, kinds = v.model, v.sets, v.sets.chain.kinds
    for j in sets.clusters:
        for f in kinds:
            for k in sets.options[j]:
                model.add(v.held[j, k, f] <= sets.capacity[j, k] * v.hosts[j, k])
            model.add(
                total(v.held[j, k, f] for k in sets.options[j])
                == total(v.units[j, r][f] for r in range(sets.slots[j]))
            )
        for k in sets.options[j]:
            count = total(v.held[j, k, f] for f in kinds)
            model.add(count >= v.hosts[j, k])
            model.add(count <= sets.capacity[j, k] * v.hosts[j, k])
    for f in kinds:
        model.add(
            total(v.held[j, k, f] for j, k in sets.capacity) == sets.chain.body.count(f)
        )
