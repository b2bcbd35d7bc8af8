"""Free warm-up counts in the CP-SAT program (``auto``; MODEL.md section 4).

=================  ========================================================
``all_first``      all q forwards run first: W = q everywhere, gpipe's period
``delta[...]``     one literal for every value of W_i - W_(i+1)
=================  ========================================================

Without ``all_first`` there is a steady state. Lambda is then long enough exactly if
every delay E is at most lambda, and with

    delta_i = ceil((E_(i+1) + 2 kappa_i + tau_i) / lambda) - 1

no delay is passed on. As E <= lambda and tau <= lambda, no delta above
``1 + ceil(2 kappa / lambda)`` is useful.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.formulations.cp_sat import period
from hetopt.formulations.cp_sat.terms import weighted
from hetopt.formulations.cp_sat.warmups import Deltas, InFlight, Load, chain_warmups
from hetopt.formulations.scale import PERIOD_SCALE

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from hetopt.formulations.cp_sat.sets import Sets
    from hetopt.formulations.cp_sat.terms import Times
    from hetopt.formulations.cp_sat.variables import Variables
    from hetopt.formulations.cp_sat.warmups import Cases


def choose_warmups(v: Variables, tau: Times) -> Load:
    """Bound lambda from below for any choice of W; return the load."""
    all_first = v.model.new_bool_var("all_first")
    period.bound_occupancy(v, v.period, PERIOD_SCALE)
    period.add_up_paces(v, [all_first])
    deltas = _free_deltas(v, all_first)
    period.bound_lags(v, tau, deltas, [~all_first])
    return _count(v, deltas, all_first)


def _free_deltas(v: Variables, all_first: cp_model.IntVar) -> Deltas:
    """Return one literal for every possible delta; 0 if all forwards come first.

    No delta exceeds 1 + ceil(2 kappa / lambda)
    (``hetopt.solvers.decisions.free_warmups``), and lambda is at least omega of the
    same boundary.
    """
    sets = v.sets
    pace = np.maximum(_least_period(sets), PERIOD_SCALE * sets.part.occupancy_ns)
    hides = 1 - (-2 * PERIOD_SCALE * sets.part.transfer_ns // pace)

    def cases(name: str, most: int) -> Cases:
        literals = [
            v.model.new_bool_var(f"{name}={delta}") for delta in range(most + 1)
        ]
        v.model.add_exactly_one(literals)
        v.model.add_implication(all_first, literals[0])
        return tuple((delta, [literal]) for delta, literal in enumerate(literals))

    classes = list(sets.chain.cut_classes)
    inside = {
        j: int(hides[classes][:, sets.layouts(j), sets.layouts(j)].max(initial=1))
        for j in sets.clusters
    }
    return Deltas(
        inside={(j, r): cases(f"delta[{j},{r}]", inside[j]) for j, r in v.kappa},
        into={
            j: cases(f"delta_in[{j}]", int(hides.max(initial=1))) for j in v.kappa_in
        },
    )


def _least_period(sets: Sets) -> int:
    """Return a valid bound on lambda, at least 1, in 1 / PERIOD_SCALE ticks.

    A stage holds at least one unit, and all units share the devices' time.
    """
    tau, kinds = sets.tau, sets.chain.kinds
    shortest = min((tau[key][f] for key in tau for f in kinds), default=0)
    work = min(
        (
            int(sets.table(j).devices[k]) * tau[j, k][f]
            for j, k in sets.capacity
            for f in kinds
        ),
        default=0,
    )
    shared = PERIOD_SCALE * work * sets.chain.length // sum(sets.data.devices)
    return max(1, sets.data.period_min, PERIOD_SCALE * shortest, shared)


def _count(v: Variables, deltas: Deltas, all_first: cp_model.IntVar) -> Load:
    """Set W_p to 1, or q if all forwards run first; W_i = W_(i + 1) + delta_i."""
    model, q, boundaries = v.model, v.sets.microbatches, v.sets.stages - 1
    cases = [*deltas.inside.values(), *deltas.into.values()]
    steps = max((case[-1][0] for case in cases), default=0)
    closing = weighted([all_first], [q - 1]) + 1
    warmup = chain_warmups(v, deltas, max(q, 1 + steps * boundaries), closing)
    return Load(
        slots={key: InFlight(model, 1, q, count) for key, count in warmup.items()},
        opening={j: InFlight(model, 1, q, warmup[j, 0]) for j in v.sets.clusters},
        closing=InFlight(model, 1, q, closing),
    )
