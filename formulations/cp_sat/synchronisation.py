"""Gradient synchronisation in the CP-SAT program: max g of MODEL.md section 4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.formulations.cp_sat.terms import dot, weighted

if TYPE_CHECKING:
    from hetopt.formulations.cp_sat.terms import Expression
    from hetopt.formulations.cp_sat.variables import Variables


def synchronise(v: Variables) -> None:
    """``sync >= g`` on every stage: what backward does not hide, and the optimizer.

    ``g = sync_ns + sum_f sync_unit_ns * units``, end units included, and on the
    first and last stage what tied embeddings add. If gradients of weights run apart,
    ``2 w`` is part of it.
    """
    model, sets, chain = v.model, v.sets, v.sets.chain
    tied = tied_time(v)
    for j, k in sets.capacity:
        base = int(sets.table(j).sync_ns[k])
        unit = sets.ending[j, k]
        lead, trail = dot(chain.lead, unit), dot(chain.trail, unit)
        for r in range(sets.room_for(j, k)):
            units = [v.units[j, r][f] for f in chain.kinds]
            body = weighted(units, [unit[f] for f in chain.kinds]) + base
            if sets.stages == 1:
                model.add(v.sync >= body + (lead + trail)).only_enforce_if(
                    v.takes[j, k]
                )
                continue
            model.add(v.sync >= body).only_enforce_if(v.takes[j, k])
            if r == 0:
                model.add(v.sync >= body + lead + tied).only_enforce_if(v.opens[j, k])
            model.add(v.sync >= body + trail + tied).only_enforce_if(
                [v.closes[j, k], *v.ends(j, r)]
            )


def tied_time(v: Variables) -> Expression:
    """Return the time to add up a tied embedding's gradients, for both end stages.

    It depends on both layouts; 0 if there is one stage, or nothing is tied.
    """
    sets = v.sets
    tied_ns = sets.part.tied_ns
    if tied_ns is None or sets.stages == 1:
        return 0
    tied = v.model.new_int_var(0, int(tied_ns.max(initial=0)), "tied")
    for (i, first), opens in v.opens.items():
        for (j, last), closes in v.closes.items():
            time = int(tied_ns[sets.layout(i, first), sets.layout(j, last)])
            v.model.add(tied >= time).only_enforce_if([opens, closes])
    return tied
