"""The user's pins in the CP-SAT program; those on strategies are in the table."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ortools.sat.python import cp_model

from hetopt.formulations.cp_sat.terms import total, weighted

if TYPE_CHECKING:
    from hetopt.formulations.cp_sat.terms import Expression
    from hetopt.formulations.cp_sat.variables import Variables
    from hetopt.problem.training.pins import Domain


def pin(v: Variables) -> None:
    """Add every pin that is not on a strategy, on p or on q."""
    pin_neighbours(v)
    pin_order(v)
    pin_clusters(v)
    pin_units(v)


def pin_neighbours(v: Variables) -> None:
    """Keep some clusters from directly following some others."""
    index = {name: j for j, name in enumerate(v.sets.data.names)}
    for before, after in sorted(v.sets.data.pins.forbidden_next):
        arc = v.follows.get((index[before], index[after]))
        if arc is not None:
            v.model.add(arc == 0)


def pin_order(v: Variables) -> None:
    """Require exactly these clusters, in this order."""
    model, names = v.model, v.sets.data.pins.order
    if names is None:
        return
    order = [v.sets.data.names.index(name) for name in names]
    if any(j not in v.uses for j in order):
        model.add_bool_or([])
        return
    for j in v.sets.clusters:
        model.add(v.uses[j] == int(j in order))
    model.add(v.first[order[0]] == 1)
    for pair in pairwise(order):
        model.add(v.follows[pair] == 1)


def pin_clusters(v: Variables) -> None:
    """Limit the stages and units of each cluster; an unused one has 0."""
    sets, chain = v.sets, v.sets.chain
    lead, trail = sum(chain.lead), sum(chain.trail)
    for j, name in enumerate(sets.data.names):
        pins = sets.data.pins.of(name)
        if j not in v.uses:
            if not (pins.stages.permits(0) and pins.units.permits(0)):
                v.model.add_bool_or([])
            continue
        body = total(
            count for r in range(sets.slots[j]) for count in v.units[j, r].values()
        )
        units = weighted([body, v.first[j], v.last[j]], [1, lead, trail])
        _permit(v, pins.stages, v.hosted[j], sets.slots[j])
        _permit(v, pins.units, units, chain.length + lead + trail)


def _permit(v: Variables, domain: Domain, amount: Expression, most: int) -> None:
    permitted = [value for value in range(most + 1) if domain.permits(value)]
    if len(permitted) <= most:
        v.model.add_linear_expression_in_domain(
            amount, cp_model.Domain.from_values(permitted)
        )


def pin_units(v: Variables) -> None:
    """Fix every cut if the units per stage are pinned.

    The cut after a live slot is the next pinned one after the cut before it.
    """
    model, sets, chain = v.model, v.sets, v.sets.chain
    pinned = sets.data.pins.units
    if pinned is None:
        return
    if len(pinned) != sets.stages:
        model.add_bool_or([])
        return
    body = chain.without_ends(pinned)
    cuts = [0, *(sum(body[: i + 1]) for i in range(len(body)))]
    for j in sets.clusters:
        model.add_linear_expression_in_domain(
            v.start[j], cp_model.Domain.from_values(cuts)
        )
        before = v.start[j]
        for r, live in enumerate(v.live[j]):
            steps = []
            for low, high in pairwise(cuts):
                step = model.new_bool_var("")
                model.add(before == low).only_enforce_if(step)
                model.add(v.cut[j, r] == high).only_enforce_if(step)
                steps.append(step)
            model.add(total(steps) == live)
            before = v.cut[j, r]
