"""Valid inequalities of the CP-SAT program: implied, but they close the gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.formulations.cp_sat.terms import dot, total, weighted
from hetopt.formulations.scale import PERIOD_SCALE

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from hetopt.formulations.cp_sat.sets import Costs
    from hetopt.formulations.cp_sat.variables import Variables

#: Constraints whose terms may sum to more are left out, for CP-SAT's sake.
_MOST = 2**62


def device_time(v: Variables) -> None:
    """Limit every cluster's work to the device time it has (MODEL.md section 6).

    ``sum_k d c t * tau * held[j, k] <= devices_j * lambda``, as tau <= lambda on
    every stage.
    """
    sets, chain = v.sets, v.sets.chain
    ends = [lead + trail for lead, trail in zip(chain.lead, chain.trail, strict=True)]
    for j in sets.clusters:
        devices = sets.table(j).devices
        most = sum(
            int(devices[k]) * dot(chain.prefix[-1], sets.tau[j, k])
            + int(devices[k]) * dot(ends, sets.tau[j, k])
            for k in sets.options[j]
        )
        if PERIOD_SCALE * most + sets.data.devices[j] * sets.period_max > _MOST:
            # Sums over very many devices exceed what CP-SAT accepts.
            continue
        used = total(int(devices[k]) * work(v, j, k, sets.tau) for k in sets.options[j])
        v.model.add(PERIOD_SCALE * used <= sets.data.devices[j] * v.period)


def cluster_window(v: Variables) -> None:
    """Take all stages of (j, k), m of them, as one window of the period.

    ``work + 2 kappa (m - 1) <= lambda (delta (m - 1) + 1)``, with lambda at most its
    upper bound; only if delta is fixed and units and cuts are alike. Only the
    ``handed_on`` part of tau counts.
    """
    sets = v.sets
    classes = sets.chain.cut_classes
    if not sets.rule.fixed or not sets.chain.is_uniform or not classes:
        return
    delta = sets.rule.inside
    for j, k in sets.capacity:
        a = sets.layout(j, k)
        kappa = int(sets.part.transfer_ns[classes[0], a, a])
        hosts, takes = v.hosts[j, k], v.takes[j, k]
        v.model.add(
            PERIOD_SCALE * (work(v, j, k, sets.handed_on) + 2 * kappa * (hosts - takes))
            <= sets.period_max * (delta * hosts - (delta - 1) * takes)
        )


def work(v: Variables, j: int, k: int, costs: Costs) -> cp_model.LinearExpr:
    """Return a cost summed over all stages of (j, k), 0 if it is not taken."""
    cost, chain = costs[j, k], v.sets.chain
    return weighted(
        [*(v.held[j, k, f] for f in chain.kinds), v.opens[j, k], v.closes[j, k]],
        [
            *(cost[f] for f in chain.kinds),
            dot(chain.lead, cost),
            dot(chain.trail, cost),
        ],
    )
