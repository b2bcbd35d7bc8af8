"""Warm-up counts and memory by the position of a stage in the MIQP (HetAuto Eq. 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyomo.environ as pyo

from hetopt.formulations.miqp.placement import crosses

if TYPE_CHECKING:
    from hetopt.formulations.miqp.sets import Places

#: Memory of the largest device, in the unit of rows in bytes.
_MEMORY_UNITS = 100


def add_warmups(m: Any, s: Places) -> None:
    """``delta[i] = W_i - W_(i + 1)`` and ``flight[i, w]``: min(W_i, q) is w.

    ``W_i <= sum_w reach_w flight[i, w]``, where w = q stands for all larger W.
    """
    m.delta = pyo.Expression(s.boundaries)
    if s.sets.steady and not s.sets.gpipe:
        rule = s.sets.rule
        if rule.thresholds:
            adapt_warmups(m, s)
        else:
            for i in s.boundaries:
                more = rule.across - rule.inside
                extra = more * crosses(m, s, i) if more else 0
                m.delta[i] = rule.inside + extra
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
    """HAPT Eq. 2 (h-1f1b): delta by its two thresholds, ``free`` and ``half``.

    lambda_0 = max(max tau, max kappa) is ``longest``, attained where ``is_stage[i]`` or
    ``is_link[i]`` is 1; ``adds[i, d]``: the boundary after stage i adds d. All times
    are whole ticks, so 'more' means 'at least a tick more'.
    """
    rule = s.sets.rule
    free, half = rule.thresholds
    deltas = range(rule.inside, rule.most_inside + 1)
    top = max([*s.stage_max, s.transfer_max])
    tick = s.time(1)
    _attain_longest(m, s, top)
    m.adds = pyo.Var(s.boundaries, deltas, domain=pyo.Binary)
    m.eq_adds = pyo.Constraint(
        s.boundaries,
        rule=lambda m, i: sum(m.adds[i, d] for d in deltas) == 1,
    )
    for i in s.boundaries:
        m.delta[i] = sum(d * m.adds[i, d] for d in deltas)
    most = s.transfer_max
    m.eq_free = pyo.Constraint(
        s.boundaries,
        rule=lambda m, i: (
            free * m.kappa[i] <= m.longest + free * most * (1 - m.adds[i, rule.inside])
        ),
    )
    m.eq_not_free = pyo.Constraint(
        s.boundaries,
        rule=lambda m, i: (
            free * m.kappa[i]
            >= m.longest + tick - (top + tick) * m.adds[i, rule.inside]
        ),
    )
    m.eq_half = pyo.Constraint(
        s.boundaries,
        rule=lambda m, i: (
            half * m.kappa[i] <= m.longest + half * most * m.adds[i, rule.most_inside]
        ),
    )
    m.eq_more_than_half = pyo.Constraint(
        s.boundaries,
        rule=lambda m, i: (
            half * m.kappa[i]
            >= m.longest + tick - (top + tick) * (1 - m.adds[i, rule.most_inside])
        ),
    )


def _attain_longest(m: Any, s: Places, top: float) -> None:
    """Let ``longest`` be the largest tau or kappa: one stage or link attains it."""
    m.longest = pyo.Var(bounds=(0, top))
    m.is_stage = pyo.Var(s.stages, domain=pyo.Binary)
    m.is_link = pyo.Var(s.boundaries, domain=pyo.Binary)
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


def fit_memory(m: Any, s: Places) -> None:
    """HetAuto Eq. 7 by the position of a stage (MODEL.md section 5).

    ``fixed + sum_f n (state + min(W, q) activation) + max_f temporary <= usable``.
    If all body units are alike, this is exactly a limit on their number:
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
