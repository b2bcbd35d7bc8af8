"""The period lambda in the CP-SAT program (MODEL.md section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.formulations.cp_sat.terms import dot, weighted
from hetopt.formulations.scale import PERIOD_SCALE

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from hetopt.formulations.cp_sat.sets import Costs
    from hetopt.formulations.cp_sat.terms import Expression, Literals, Times
    from hetopt.formulations.cp_sat.variables import Variables
    from hetopt.formulations.cp_sat.warmups import Deltas


def stage_times(v: Variables, name: str, costs: Costs) -> Times:
    """Make a time for every slot that is at least the cost of its units.

    ``time[j, r] >= sum_f cost[j, k, f] * units[j, r, f]`` if takes[j, k]; the first
    stage adds the embedding's cost and the last the head's.
    """
    model, sets, chain = v.model, v.sets, v.sets.chain
    bound = sets.period_max // PERIOD_SCALE
    times = {
        (j, r): model.new_int_var(0, bound, f"{name}[{j},{r}]") for j, r in v.slots
    }
    for (j, r), time in times.items():
        units = [v.units[j, r][f] for f in chain.kinds]
        for k in sets.takers(j, r):
            cost = costs[j, k]
            body = weighted(units, [cost[f] for f in chain.kinds])
            lead, trail = dot(chain.lead, cost), dot(chain.trail, cost)
            cases: list[tuple[int, Literals]] = [(0, [v.takes[j, k]])]
            if sets.stages == 1:
                cases = [(lead + trail, [v.takes[j, k]])]
            else:
                if r == 0:
                    cases.append((lead, [v.opens[j, k]]))
                cases.append((trail, [v.closes[j, k], *v.ends(j, r)]))
            for extra, where in cases:
                model.add(time >= body + extra).only_enforce_if(where)
    return times


def fix_times(v: Variables, times: Times, costs: Costs) -> None:
    """Make times equal to their cost: under h-1f1b a longer time would change W."""
    model, sets, chain = v.model, v.sets, v.sets.chain
    for (j, r), time in times.items():
        ends = [*v.ends(j, r), v.last[j]]
        is_end = model.new_bool_var(f"is_end[{j},{r}]")
        model.add_bool_and(ends).only_enforce_if(is_end)
        model.add_bool_or([is_end, *(~literal for literal in ends)])
        for k in sets.takers(j, r):
            cost = costs[j, k]
            terms: list[cp_model.IntVar] = [v.units[j, r][f] for f in chain.kinds]
            weights = [cost[f] for f in chain.kinds]
            terms.append(is_end)
            weights.append(dot(chain.trail, cost))
            if r == 0:
                terms.append(v.first[j])
                weights.append(dot(chain.lead, cost))
            model.add(time == weighted(terms, weights)).only_enforce_if(
                [v.takes[j, k], v.live[j][r]]
            )
        model.add(time == 0).only_enforce_if(~v.live[j][r])


def bound_occupancy(v: Variables, pace: Expression, scale: int) -> None:
    """``pace >= omega``: no boundary is faster than its slowest step.

    Parameters
    ----------
    scale
        Units of ``pace`` in a tick.
    """
    model, sets = v.model, v.sets
    classes, occupancy = sets.chain.cut_classes, sets.part.occupancy_ns
    for i, j in v.follows:
        for a in sets.layouts(i):
            for b in sets.layouts(j):
                for x in classes:
                    model.add(pace >= scale * int(occupancy[x, a, b])).only_enforce_if(
                        [v.hops[a, b], *v.cut_is(i, sets.slots[i] - 1, x)]
                    )
    for j, k in sets.capacity:
        a = sets.layout(j, k)
        boundaries = sets.room_for(j, k) - 1
        if len(classes) == 1:
            # The first boundary stands for all of the cluster.
            boundaries = min(1, boundaries)
        for r in range(boundaries):
            for x in classes:
                model.add(pace >= scale * int(occupancy[x, a, a])).only_enforce_if(
                    [v.takes[j, k], v.live[j][r + 1], *v.cut_is(j, r, x)]
                )


def bound_lags(
    v: Variables,
    tau: Times,
    deltas: Deltas,
    *,
    handed_on: Times | None = None,
) -> None:
    """Keep the delay that a stage inherits from slow neighbours within the period.

    ``E_(k+1) = tau_(k+1) + max(0, E_k + 2 kappa_k - delta_k lambda) <= lambda``,
    which holds exactly when every window i..k fits:
    ``sum tau + 2 sum kappa <= (W_i - W_k + 1) lambda``.

    Parameters
    ----------
    handed_on
        The part of tau before a gradient is sent on, if that is not all: it replaces
        tau in the maximum's second case.
    """
    model, sets, most = v.model, v.sets, v.sets.period_max
    lag = {(j, r): model.new_int_var(0, most, f"lag[{j},{r}]") for j, r in v.slots}
    inherited = {
        j: model.new_int_var(0, most, f"inherited[{j}]") for j in sets.clusters
    }
    for (j, r), own in lag.items():
        time = PERIOD_SCALE * tau[j, r]
        model.add(own <= v.period)
        if r > 0 or handed_on is not None:
            model.add(own >= time)
        if handed_on is not None:
            time = PERIOD_SCALE * handed_on[j, r]
        if r == 0:
            model.add(own >= time + inherited[j])
            continue
        before = lag[j, r - 1] + 2 * PERIOD_SCALE * v.kappa[j, r - 1]
        for delta, literals in deltas.inside[j, r - 1]:
            model.add(own >= time + before - delta * v.period).only_enforce_if(
                [v.live[j][r], *literals]
            )
    for (i, j), arc in v.follows.items():
        kappa = 2 * PERIOD_SCALE * v.kappa_in[j]
        for delta, literals in deltas.into[j]:
            for r in range(sets.slots[i]):
                model.add(
                    inherited[j] >= lag[i, r] + kappa - delta * v.period
                ).only_enforce_if([arc, *v.ends(i, r), *literals])


def bound_blocked(v: Variables, tau: Times) -> None:
    """``tau + chi (kappa before + kappa after) <= lambda`` if transfers block."""
    model, sets, chi = v.model, v.sets, v.sets.rule.blocking * PERIOD_SCALE
    busy = {}
    for (j, r), own in tau.items():
        before = v.kappa_in[j] if r == 0 else v.kappa[j, r - 1]
        # 0 if another cluster is next.
        after = v.kappa.get((j, r), 0)
        busy[j, r] = PERIOD_SCALE * own + chi * (before + after)
        model.add(busy[j, r] <= v.period).only_enforce_if(v.live[j][r])
    for (i, j), arc in v.follows.items():
        for r in range(sets.slots[i]):
            model.add(busy[i, r] + chi * v.kappa_in[j] <= v.period).only_enforce_if(
                [arc, *v.ends(i, r)]
            )


def add_up_paces(v: Variables) -> None:
    """Let the paces of forwards and backwards add up to lambda under gpipe.

    ``lambda = max(max phi, max omega) + max(max beta, max omega)``.
    """
    model, sets = v.model, v.sets
    paces = []
    for name, costs in (("phi", sets.phi), ("beta", sets.beta)):
        pace = model.new_int_var(0, sets.period_max // PERIOD_SCALE, f"pace_{name}")
        for time in stage_times(v, name, costs).values():
            model.add(pace >= time)
        bound_occupancy(v, pace, 1)
        paces.append(pace)
    model.add(v.period == weighted(paces, [PERIOD_SCALE, PERIOD_SCALE]))
