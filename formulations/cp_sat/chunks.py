"""Stages of several chunks in the CP-SAT program: the way back (MODEL.md section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.formulations.scale import PERIOD_SCALE

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from hetopt.formulations.cp_sat.terms import Expression
    from hetopt.formulations.cp_sat.variables import Variables


def go_back(v: Variables, fill: Expression, x: int) -> cp_model.IntVar:
    """Return how long stages wait for rounds that take longer than p passes.

    With ``R = fill + 2 way_back``: ``2 p lambda >= R``, ``v lambda >= (v - 1) omega``
    of the way back, and ``late >= (v - 1) (R - p lambda)``, at least 0.

    Parameters
    ----------
    fill
        Sum of tau and 2 kappa, in ticks.
    x
        Cut class of the way back.
    """
    model, sets = v.model, v.sets
    transfer, occupancy = sets.part.transfer_ns[x], sets.part.occupancy_ns[x]
    chunks = sets.part.chunks
    way_back = model.new_int_var(0, int(transfer.max(initial=0)), "way_back")
    for (i, first), opens in v.opens.items():
        for (j, last), closes in v.closes.items():
            ends = sets.layout(j, last), sets.layout(i, first)
            here = [opens, closes]
            model.add(way_back >= int(transfer[ends])).only_enforce_if(here)
            busy = (chunks - 1) * PERIOD_SCALE * int(occupancy[ends])
            model.add(chunks * v.period >= busy).only_enforce_if(here)
    whole_round = PERIOD_SCALE * (fill + 2 * way_back)
    model.add(2 * sets.stages * v.period >= whole_round)
    late = model.new_int_var(0, sets.data.cutoff, "late")
    model.add(late >= (chunks - 1) * (whole_round - sets.stages * v.period))
    return late
