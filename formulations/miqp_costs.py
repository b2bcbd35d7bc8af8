"""Costs and limits of the MIQP: boundaries, memory (Eq. 7), period, objective."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyomo.environ as pyo

from hetopt.formulations.cp_sat_warmups import FIXED_DELTAS
from hetopt.formulations.miqp_placement import crosses, placed
from hetopt.formulations.space import MAX_DELTA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.formulations.cp_sat_sets import Costs
    from hetopt.formulations.miqp_sets import Places

#: HAPT's epsilon (Eq. 2) is the inverse of this.
_FREE_TRANSFER = 100
#: Bytes are stated in this share of the largest device.
_MEMORY_UNITS = 100


def choice_time(m: Any, s: Places, i: int, j: int, k: int, costs: Costs) -> Any:
    """Return what stage i takes under (j, k), 0 under any other."""
    cost = costs[j, k]
    return (
        sum(s.time(cost[f]) * m.n[i, j, k, f] for f in s.chain.kinds)
        + s.time(s.at_ends(i, cost)) * m.S[i, j, k]
    )


def stage_time(m: Any, s: Places, i: int, costs: Costs) -> Any:
    """Return the time of stage i under whatever it takes."""
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

    Only the pairs P4 leaves: the same layout inside a cluster, or two clusters'.
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
    """``hop[i, x, a, b] = cut[i, x] edge[i, a, b]`` where cuts are unlike.

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
    """Yield (class, layout, layout) with the variable that says so, at boundary i."""
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
    """Return the layouts that stages i and ``after`` may have together."""
    layouts = s.sets.part.layouts
    return [
        (a, b)
        for a in _layouts(s, i)
        for b in _layouts(s, after)
        if a == b or layouts[a].cluster != layouts[b].cluster
    ]


# ------------------------------------------------- warm-ups, memory (HetAuto Eq. 7)


def add_warmups(m: Any, s: Places) -> None:
    """``delta[i] = W_i - W_(i + 1)`` and ``flight[i, w]``: min(W_i, q) is w.

    ``W_i <= sum_w reach_w flight[i, w]``, where q reaches as far as W can go.
    """
    m.delta = pyo.Expression(s.boundaries)
    if s.sets.steady and not s.sets.gpipe:
        fixed = FIXED_DELTAS.get(s.data.schedule)
        if fixed is None:
            adapt_warmups(m, s)
        else:
            for i in s.boundaries:
                more = fixed.across - fixed.inside
                extra = more * crosses(m, s, i) if more else 0
                m.delta[i] = fixed.inside + extra
    several = [i for i in s.stages if len(s.flights[i]) > 1]
    m.flight = pyo.Var(
        [(i, w) for i in several for w in s.flights[i]], domain=pyo.Binary
    )
    m.eq_flight = pyo.Constraint(
        several, rule=lambda m, i: sum(m.flight[i, w] for w in s.flights[i]) == 1
    )

    def reach(i: int, w: int) -> int:
        return w if w < s.flights[i][-1] else s.most_warmups[i]

    m.eq_warmups = pyo.Constraint(
        several,
        rule=lambda m, i: (
            sum(reach(i, w) * m.flight[i, w] for w in s.flights[i])
            >= 1 + sum(m.delta[at] for at in range(i, len(s.boundaries)))
        ),
    )


def adapt_warmups(m: Any, s: Places) -> None:
    """HAPT Eq. 2 (h-1f1b): 1 if 100 kappa <= lambda_0, else ceil(1 + 2 kappa/lambda_0).

    lambda_0 = max(max tau, max kappa) is ``longest``, which ``is_stage[i]`` or
    ``is_link[i]`` attains; ``adds[i, d]``: the boundary after stage i adds d. All
    times are whole ticks, so that 'more' is 'a tick more'.
    """
    top = max([*s.stage_max, s.transfer_max])
    tick = s.time(1)
    m.longest = pyo.Var(bounds=(0, top))
    m.is_stage = pyo.Var(s.stages, domain=pyo.Binary)
    m.is_link = pyo.Var(s.boundaries, domain=pyo.Binary)
    m.adds = pyo.Var(s.boundaries, range(1, MAX_DELTA + 1), domain=pyo.Binary)
    m.eq_longest = pyo.Constraint(
        expr=sum(m.is_stage[i] for i in s.stages)
        + sum(m.is_link[i] for i in s.boundaries)
        == 1
    )
    for name, times, is_it in (
        ("stage", m.tau, m.is_stage),
        ("link", m.kappa, m.is_link),
    ):
        m.add_component(
            f"eq_longest_{name}_least",
            pyo.Constraint(
                list(times), rule=lambda m, i, times=times: m.longest >= times[i]
            ),
        )
        m.add_component(
            f"eq_longest_{name}_most",
            pyo.Constraint(
                list(times),
                rule=lambda m, i, times=times, is_it=is_it: (
                    m.longest <= times[i] + top * (1 - is_it[i])
                ),
            ),
        )
    m.eq_adds = pyo.Constraint(
        s.boundaries,
        rule=lambda m, i: sum(m.adds[i, d] for d in range(1, MAX_DELTA + 1)) == 1,
    )
    for i in s.boundaries:
        m.delta[i] = sum(d * m.adds[i, d] for d in range(1, MAX_DELTA + 1))
    most = s.transfer_max
    m.eq_free = pyo.Constraint(
        s.boundaries,
        rule=lambda m, i: (
            _FREE_TRANSFER * m.kappa[i]
            <= m.longest + _FREE_TRANSFER * most * (1 - m.adds[i, 1])
        ),
    )
    m.eq_not_free = pyo.Constraint(
        s.boundaries,
        rule=lambda m, i: (
            _FREE_TRANSFER * m.kappa[i]
            >= m.longest + tick - (top + tick) * m.adds[i, 1]
        ),
    )
    m.eq_half = pyo.Constraint(
        s.boundaries,
        rule=lambda m, i: 2 * m.kappa[i] <= m.longest + 2 * most * m.adds[i, 3],
    )
    m.eq_more_than_half = pyo.Constraint(
        s.boundaries,
        rule=lambda m, i: (
            2 * m.kappa[i] >= m.longest + tick - (top + tick) * (1 - m.adds[i, 3])
        ),
    )


def fit_memory(m: Any, s: Places) -> None:
    """HetAuto Eq. 7 by the position of a stage (MODEL.md section 5).

    ``fixed + sum_f n (state + min(W, q) activation) + max_f temporary <= usable``.
    Where all body units are alike it says how many of them fit, exactly:
    ``n[i, j, k] <= sum_w fits[i, j, k, w] flight[i, w]``.
    """
    m.eq_7 = pyo.Constraint(
        [key for key in m.S if len(s.flights[key[0]]) > 1],
        rule=lambda m, i, j, k: (
            sum(m.n[i, j, k, f] for f in s.chain.kinds)
            <= sum(s.fits[i, j, k, w] * m.flight[i, w] for w in s.flights[i])
        ),
    )
    if s.chain.is_uniform:
        return
    kinds = s.chain.kinds
    m.holds = pyo.Var(s.stages, list(kinds), domain=pyo.Binary)
    m.def_holds = pyo.Constraint(
        s.stages,
        list(kinds),
        rule=lambda m, i, f: m.N[i, f] <= m.N[i, f].ub * m.holds[i, f],
    )
    m.loads = pyo.Var(
        [(*key, w) for key in m.n for w in s.flights[key[0]] if (key[0], w) in m.flight]
    )
    for key in m.loads:
        m.loads[key].setlb(0)
        m.loads[key].setub(s.capacity(*key[:3]))
    m.def_loads = pyo.Constraint(
        list(m.loads),
        rule=lambda m, i, j, k, f, w: (
            m.loads[i, j, k, f, w] == m.flight[i, w] * m.n[i, j, k, f]
        ),
    )
    m.eq_7_bytes = pyo.Constraint(
        s.stages, list(kinds), rule=lambda m, i, f: _bytes(m, s, i, f)
    )


def _bytes(m: Any, s: Places, i: int, held: int) -> Any:
    """State Eq. 7 in bytes for stage i, if it holds a unit of kind ``held``."""
    unit = max(s.data.usable_bytes) / _MEMORY_UNITS
    terms = []
    relief = 0.0
    for j, k in s.choices[i]:
        table = s.sets.table(j)
        temporary = [int(value) for value in table.temporary_bytes[k]]
        ends = [temporary[f] for f, count in enumerate(s.ends[i]) if count]
        relief = max(relief, temporary[held] / unit)
        once = (
            max([temporary[held], *ends])
            + s.at_ends(i, table.state_bytes[k])
            - s.sets.free_bytes(j, k)
        )
        terms.append(once / unit * m.S[i, j, k])
        for w in s.flights[i]:
            several = len(s.flights[i]) > 1
            extra = w * s.at_ends(i, table.activation_bytes[k])
            if extra:
                taken = m.flight[i, w] * m.S[i, j, k] if several else m.S[i, j, k]
                terms.append(extra / unit * taken)
            for f in s.chain.kinds:
                load = m.loads[i, j, k, f, w] if several else m.n[i, j, k, f]
                need = int(table.state_bytes[k][f] + w * table.activation_bytes[k][f])
                terms.append(need / unit * load)
    if not terms:
        return pyo.Constraint.Skip
    return sum(terms) <= relief * (1 - m.holds[i, held])


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
    """Keep what a stage inherits from slow neighbours within the period.

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
