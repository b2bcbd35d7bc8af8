"""Times in the MIQP: of stages and boundaries, the period, and the objective."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyomo.environ as pyo

from hetopt.formulations.miqp.placement import placed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.formulations.cp_sat.sets import Costs
    from hetopt.formulations.miqp.sets import Places


def choice_time(m: Any, s: Places, i: int, j: int, k: int, costs: Costs) -> Any:
    """Return the time of stage i under (j, k), 0 if it has another choice."""
    cost = costs[j, k]
    return (
        sum(s.time(cost[f]) * m.n[i, j, k, f] for f in s.chain.kinds)
        + s.time(s.at_ends(i, cost)) * m.S[i, j, k]
    )


def stage_time(m: Any, s: Places, i: int, costs: Costs) -> Any:
    """Return the time of stage i under its choice."""
    return sum(choice_time(m, s, i, j, k, costs) for j, k in s.choices[i])


def time_stages(m: Any, s: Places) -> None:
    """``tau[i] = sum_(j, k) (sum_f tau_jkf n[i, j, k, f] + ends_i S[i, j, k])``."""
    m.tau = pyo.Var(s.stages, bounds=lambda m, i: (0, s.stage_max[i]))
    m.def_tau = pyo.Constraint(
        s.stages, rule=lambda m, i: m.tau[i] == stage_time(m, s, i, s.sets.tau)
    )


# ------------------------------------------------------------------ boundaries


def lay_out(m: Any, s: Places) -> None:
    """``layout[i, a] = sum_(j, k of layout a) S[i, j, k]``."""
    m.layout = pyo.Var(
        [(i, a) for i in s.stages for a in _layouts(s, i)], domain=pyo.Binary
    )
    m.def_layout = pyo.Constraint(
        list(m.layout),
        rule=lambda m, i, a: (
            m.layout[i, a]
            == sum(m.S[i, j, k] for j, k in s.choices[i] if s.sets.layout(j, k) == a)
        ),
    )


def cross(m: Any, s: Places) -> None:
    """``edge[i, a, b] = layout[i, a] layout[i + 1, b]``: the boundary after stage i.

    If P4 holds, only for pairs with the same layout inside a cluster, or of two
    clusters.
    """
    m.edge = pyo.Var(
        [(i, a, b) for i in s.boundaries for a, b in _pairs(s, i, i + 1)],
        bounds=(0, 1),
    )
    m.def_edge = pyo.Constraint(
        list(m.edge),
        rule=lambda m, i, a, b: m.edge[i, a, b] == m.layout[i, a] * m.layout[i + 1, b],
    )


def classify_cuts(m: Any, s: Places) -> None:
    """``hop[i, x, a, b] = cut[i, x] edge[i, a, b]`` if cuts are of several classes.

    ``cut[i, x]``: the cut after stage i is of class x; it lies after the last unit
    u that is placed on stage i or before.
    """
    if len(s.chain.cut_classes) <= 1:
        return
    m.cut = pyo.Var(s.boundaries, list(s.chain.cut_classes), domain=pyo.Binary)
    m.def_cut = pyo.Constraint(
        s.boundaries,
        list(s.chain.cut_classes),
        rule=lambda m, i, x: (
            m.cut[i, x]
            == sum(
                placed(m, u, i) - placed(m, u + 1, i)
                for u, cut in enumerate(s.chain.cuts)
                if cut == x
            )
        ),
    )
    m.hop = pyo.Var(
        [(i, x, a, b) for i, a, b in m.edge for x in s.chain.cut_classes],
        bounds=(0, 1),
    )
    m.def_hop = pyo.Constraint(
        list(m.hop),
        rule=lambda m, i, x, a, b: m.hop[i, x, a, b] == m.cut[i, x] * m.edge[i, a, b],
    )


def price_boundaries(m: Any, s: Places) -> None:
    """``kappa[i] = sum_(x, a, b) transfer[x, a, b] hop[i, x, a, b]``."""
    m.kappa = pyo.Var(s.boundaries, bounds=(0, s.transfer_max))
    transfer = s.sets.part.transfer_ns
    m.def_kappa = pyo.Constraint(
        s.boundaries,
        rule=lambda m, i: (
            m.kappa[i]
            == sum(s.time(int(transfer[key])) * hop for key, hop in _hops(m, s, i))
        ),
    )


def _occupancy(m: Any, s: Places, i: int) -> Any:
    """Return omega of the boundary after stage i."""
    occupancy = s.sets.part.occupancy_ns
    return sum(s.time(int(occupancy[key])) * hop for key, hop in _hops(m, s, i))


def _hops(m: Any, s: Places, i: int) -> Iterator[tuple[tuple[int, int, int], Any]]:
    """Yield (class, layout, layout) and its variable, for boundary i."""
    classes = s.chain.cut_classes
    for a, b in _pairs(s, i, i + 1):
        if len(classes) == 1:
            yield (classes[0], a, b), m.edge[i, a, b]
        else:
            for x in classes:
                yield (x, a, b), m.hop[i, x, a, b]


def _layouts(s: Places, i: int) -> list[int]:
    return sorted({s.sets.layout(j, k) for j, k in s.choices[i]})


def _pairs(s: Places, i: int, after: int) -> list[tuple[int, int]]:
    """Return the pairs of layouts that stages i and ``after`` may have."""
    layouts = s.sets.part.layouts
    return [
        (a, b)
        for a in _layouts(s, i)
        for b in _layouts(s, after)
        if s.mixed or a == b or layouts[a].cluster != layouts[b].cluster
    ]


# --------------------------------------------------- period, synchronisation, fill


def add_period(m: Any, s: Places) -> None:
    """``tau <= lambda`` and ``omega <= lambda``; under gpipe two paces that add up."""
    if not s.sets.steady:
        return
    m.period = pyo.Var(bounds=(s.period_min, s.period_max))
    if not s.sets.gpipe:
        m.eq_pace = pyo.Constraint(s.stages, rule=lambda m, i: m.tau[i] <= m.period)
        m.eq_occupancy = pyo.Constraint(
            s.boundaries, rule=lambda m, i: _occupancy(m, s, i) <= m.period
        )
        return
    m.paces = pyo.Var(["forward", "backward"], bounds=(0, s.period_max))
    m.eq_paces = pyo.Constraint(
        expr=m.period == m.paces["forward"] + m.paces["backward"]
    )
    costs = {"forward": s.sets.phi, "backward": s.sets.beta}
    m.eq_pace = pyo.Constraint(
        list(costs),
        s.stages,
        rule=lambda m, way, i: stage_time(m, s, i, costs[way]) <= m.paces[way],
    )
    m.eq_occupancy = pyo.Constraint(
        list(costs),
        s.boundaries,
        rule=lambda m, way, i: _occupancy(m, s, i) <= m.paces[way],
    )


def bound_windows(m: Any, s: Places) -> None:
    """Keep the delay that a stage inherits from slow neighbours within the period.

    ``E_1 = tau_1``, ``E_(i + 1) = tau_(i + 1) + max(0, E_i + 2 kappa_i - delta_i
    lambda)``, ``E_i <= lambda`` (MODEL.md section 4).
    """
    if not s.sets.steady or s.sets.gpipe:
        return
    m.lag = pyo.Var(s.stages, bounds=(0, s.period_max))
    m.eq_lag_own = pyo.Constraint(s.stages, rule=lambda m, i: m.lag[i] >= m.tau[i])
    m.eq_lag = pyo.Constraint(
        s.boundaries,
        rule=lambda m, i: (
            m.lag[i + 1]
            >= m.tau[i + 1] + m.lag[i] + 2 * m.kappa[i] - m.delta[i] * m.period
        ),
    )
    m.eq_lag_period = pyo.Constraint(s.stages, rule=lambda m, i: m.lag[i] <= m.period)


def synchronise(m: Any, s: Places) -> None:
    """``sync >= g_i``, with what tied embeddings add on the first and last stage.

    ``tie[a, b] = layout[1, a] layout[p, b]``.
    """
    m.sync = pyo.Var(domain=pyo.NonNegativeReals)
    last = s.stages[-1]
    tied_ns = s.sets.part.tied_ns if last else None
    tied: Any = 0
    if tied_ns is not None:
        m.tie = pyo.Var(_pairs(s, 0, last), bounds=(0, 1))
        m.def_tie = pyo.Constraint(
            list(m.tie),
            rule=lambda m, a, b: m.tie[a, b] == m.layout[0, a] * m.layout[last, b],
        )
        tied = sum(s.time(int(tied_ns[a, b])) * m.tie[a, b] for a, b in m.tie)

    def at(m: Any, i: int) -> Any:
        terms = tied if i in (0, last) else 0
        for j, k in s.choices[i]:
            unit = s.sets.table(j).sync_unit_ns[k]
            once = int(s.sets.table(j).sync_ns[k]) + s.at_ends(i, unit)
            terms += s.time(once) * m.S[i, j, k]
            terms += sum(
                s.time(int(unit[f])) * m.n[i, j, k, f] for f in s.chain.kinds if unit[f]
            )
        return m.sync >= terms

    m.eq_sync = pyo.Constraint(s.stages, rule=at)


def minimise(m: Any, s: Places) -> None:
    """``sum_i tau_i + 2 sum_i kappa_i + (q - 1) lambda + max g``: the closed form."""
    fill = sum(m.tau[i] for i in s.stages)
    fill += 2 * sum(m.kappa[i] for i in s.boundaries)
    steady = (s.sets.microbatches - 1) * m.period if s.sets.steady else 0
    m.closed_form = pyo.Objective(expr=fill + steady + m.sync, sense=pyo.minimize)
