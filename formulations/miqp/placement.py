"""Placement in the MIQP: UniAP Eq. 6, HetAuto's P1 to P4 and Eq. 4, and the pins."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyomo.environ as pyo

if TYPE_CHECKING:
    from hetopt.formulations.miqp.sets import Places
    from hetopt.problem.training.pins import Domain


def add_placement(m: Any, s: Places) -> None:
    """Add the decision variables."""
    units, stages, clusters = range(s.chain.length), s.stages, s.sets.clusters
    m.P = pyo.Var(units, stages, domain=pyo.Binary)
    m.Z = pyo.Var(units, stages, bounds=(0, 1))
    m.X = pyo.Var(stages, clusters, domain=pyo.Binary)
    # Without P4 strategies belong to stages, not to clusters.
    m.Y = pyo.Var([] if s.mixed else list(s.sets.capacity), domain=pyo.Binary)
    m.opens = pyo.Var(stages, clusters, domain=pyo.Binary)
    m.S = pyo.Var(
        [(i, *choice) for i in stages for choice in s.choices[i]], domain=pyo.Binary
    )
    m.N = pyo.Var(
        [(i, f) for i in stages for f in s.chain.kinds],
        domain=pyo.NonNegativeIntegers,
        bounds=lambda m, i, f: (0, _most(s, i)),
    )
    m.n = pyo.Var(
        [(*key, f) for key in m.S for f in s.chain.kinds],
        bounds=lambda m, i, j, k, f: (0, s.capacity(i, j, k)),
    )
    for u in units:
        for i in stages:
            # Every stage before and after i holds a body unit of its own.
            if not i <= u <= s.chain.length - len(stages) + i:
                m.P[u, i].setub(0)


def _most(s: Places, i: int) -> int:
    return max((s.capacity(i, j, k) for j, k in s.choices[i]), default=0)


def place_units(m: Any, s: Places) -> None:
    """Place every body unit on one stage, and at least one on each stage (P1).

    ``sum_i P[u, i] = 1``, ``sum_u P[u, i] >= 1``, ``N[i, f] = sum_(u of f) P[u, i]``.
    """
    body = s.chain.body
    m.eq_assign = pyo.Constraint(
        range(len(body)), rule=lambda m, u: sum(m.P[u, i] for i in s.stages) == 1
    )
    m.eq_P1 = pyo.Constraint(
        s.stages, rule=lambda m, i: sum(m.N[i, f] for f in s.chain.kinds) >= 1
    )
    m.def_N = pyo.Constraint(
        list(m.N),
        rule=lambda m, i, f: (
            m.N[i, f] == sum(m.P[u, i] for u, kind in enumerate(body) if kind == f)
        ),
    )


def keep_contiguous(m: Any, s: Places) -> None:
    """UniAP Eq. 6a-6c: the units of a stage are a run, for every edge (u, v).

    ``Z[v, i] >= P[v, i]``; ``Z[v, i] <= Z[u, i]``;
    ``Z[v, i] <= P[v, i] - P[u, i] + 1``.
    """
    units, edges = range(s.chain.length), range(s.chain.length - 1)
    m.eq_6a = pyo.Constraint(
        units, s.stages, rule=lambda m, v, i: m.Z[v, i] >= m.P[v, i]
    )
    m.eq_6b = pyo.Constraint(
        edges, s.stages, rule=lambda m, u, i: m.Z[u + 1, i] <= m.Z[u, i]
    )
    m.eq_6c = pyo.Constraint(
        edges,
        s.stages,
        rule=lambda m, u, i: m.Z[u + 1, i] <= m.P[u + 1, i] - m.P[u, i] + 1,
    )


def keep_order(m: Any, s: Places) -> None:
    """Keep edges forward, unlike Eq. 6: ``sum_i i P[u, i] <= sum_i i P[v, i]``."""
    if not s.boundaries:
        return
    m.eq_order = pyo.Constraint(
        range(s.chain.length - 1),
        rule=lambda m, u: (
            sum(i * m.P[u, i] for i in s.stages[1:])
            <= sum(i * m.P[u + 1, i] for i in s.stages[1:])
        ),
    )


def placed(m: Any, u: int, i: int) -> Any:
    """Return ``sum_(i' <= i) P[u, i']``: whether unit u lies on stage i or before."""
    return sum(m.P[u, at] for at in range(i + 1))


def place_stages(m: Any, s: Places) -> None:
    """P2: ``sum_j X[i, j] = 1``."""
    m.eq_P2 = pyo.Constraint(
        s.stages, rule=lambda m, i: sum(m.X[i, j] for j in s.sets.clusters) == 1
    )


def keep_clusters_together(m: Any, s: Places) -> None:
    """P3 (HetAuto Eq. 12): a cluster opens at one stage at most.

    ``opens[i, j] = X[i, j] (1 - X[i - 1, j])`` in its linear form, and
    ``sum_i opens[i, j] <= 1``. Unused clusters are our extension. Without P3 a
    cluster opens wherever a run of its stages begins.
    """
    stages, clusters = s.stages, s.sets.clusters

    def before(m: Any, i: int, j: int) -> Any:
        return m.X[i - 1, j] if i else 0

    m.eq_P3_opens = pyo.Constraint(
        stages,
        clusters,
        rule=lambda m, i, j: m.opens[i, j] >= m.X[i, j] - before(m, i, j),
    )
    m.eq_P3_here = pyo.Constraint(
        stages, clusters, rule=lambda m, i, j: m.opens[i, j] <= m.X[i, j]
    )
    m.eq_P3_new = pyo.Constraint(
        stages[1:], clusters, rule=lambda m, i, j: m.opens[i, j] <= 1 - m.X[i - 1, j]
    )
    if s.consecutive:
        m.eq_P3 = pyo.Constraint(
            clusters, rule=lambda m, j: sum(m.opens[i, j] for i in stages) <= 1
        )


def crosses(m: Any, s: Places, i: int) -> Any:
    """Return whether boundary i -> i + 1 joins two clusters."""
    return sum(m.opens[i + 1, j] for j in s.sets.clusters)


def choose_strategies(m: Any, s: Places) -> None:
    """P4 (HetAuto Eq. 13): a used cluster takes one strategy, on all its stages.

    ``sum_k Y[j, k] = sum_i opens[i, j]``; ``S[i, j, k] = X[i, j] Y[j, k]`` and
    ``sum_k S[i, j, k] = X[i, j]``, which also excludes choices that do not fit on
    stage i. Without P4 only the latter is stated.
    """
    if not s.mixed:

        def one(m: Any, j: int) -> Any:
            taken = sum(m.Y[j, k] for k in s.sets.options[j])
            if s.consecutive:
                return taken == sum(m.opens[i, j] for i in s.stages)
            return taken <= 1

        m.eq_P4 = pyo.Constraint(s.sets.clusters, rule=one)
        m.def_S = pyo.Constraint(
            list(m.S), rule=lambda m, i, j, k: m.S[i, j, k] == m.X[i, j] * m.Y[j, k]
        )
    m.eq_P4_stage = pyo.Constraint(
        s.stages,
        s.sets.clusters,
        rule=lambda m, i, j: (
            sum(m.S[i, j, k] for o, k in s.choices[i] if o == j) == m.X[i, j]
        ),
    )


def keep_tp_falling(m: Any, s: Places) -> None:
    """H2 section 4.3.3: tp never rises along the stages of a cluster.

    ``t[i'] <= t[i] + t_max (1 - X[i, j])`` with ``t[i] = sum_k tp_k S[i, j, k]``, for
    neighbours i, i', or if P3 is relaxed for all i before i'.
    """
    if s.data.principles.sharing != "falling-tp":
        return

    def degree(i: int, j: int) -> Any:
        strategies = s.sets.table(j).strategies
        return sum(strategies[k].tp * m.S[i, j, k] for o, k in s.choices[i] if o == j)

    def row(m: Any, i: int, after: int, j: int) -> Any:
        if s.consecutive and after > i + 1:
            return pyo.Constraint.Skip
        most = max(s.sets.table(j).strategies[k].tp for k in s.sets.options[j])
        return degree(after, j) <= degree(i, j) + most * (1 - m.X[i, j])

    m.eq_falling = pyo.Constraint(
        [(i, after) for after in s.stages for i in range(after)],
        s.sets.clusters,
        rule=row,
    )


def limit_devices(m: Any, s: Places) -> None:
    """HetAuto Eq. 4: ``sum_i S[i, j, k] <= floor(devices_j / (d c t)) Y[j, k]``.

    Without P4: ``sum_(i, k) d c t S[i, j, k] <= devices_j``, and likewise for stages of
    at least n devices alone, if the nodes have less room for these.
    """
    if s.mixed:
        limits = {(j, n): most for j in s.sets.clusters for n, most in s.data.stock(j)}

        def together(m: Any, j: int, least: int) -> Any:
            devices = s.sets.table(j).devices
            taken = [
                int(devices[k]) * m.S[i, o, k]
                for i, o, k in m.S
                if o == j and devices[k] >= least
            ]
            return sum(taken) <= limits[j, least] if taken else pyo.Constraint.Skip

        m.eq_4 = pyo.Constraint(list(limits), rule=together)
        return
    m.eq_4 = pyo.Constraint(
        list(s.sets.capacity),
        rule=lambda m, j, k: hosted(m, s, j, k) <= s.sets.room_for(j, k) * m.Y[j, k],
    )


def hosted(m: Any, s: Places, j: int, k: int) -> Any:
    """Return the number of stages of (j, k)."""
    return sum(m.S[i, j, k] for i in s.stages if (i, j, k) in m.S)


def hold_units(m: Any, s: Places) -> None:
    """``n[i, j, k, f] = S[i, j, k] N[i, f]``, so that costs are linear in n."""
    m.def_n = pyo.Constraint(
        list(m.n),
        rule=lambda m, i, j, k, f: m.n[i, j, k, f] == m.S[i, j, k] * m.N[i, f],
    )


def pin(m: Any, s: Places) -> None:
    """State every pin that is not on a strategy, on p or on q."""
    m.pins = pyo.ConstraintList()
    _pin_neighbours(m, s)
    _pin_order(m, s)
    _pin_clusters(m, s)
    _pin_units(m, s)


def forbid(m: Any) -> None:
    """Make the program infeasible, if no row does so."""
    if not hasattr(m, "never"):
        m.never = pyo.Var(bounds=(0, 1))
        m.no_plan = pyo.Constraint(expr=m.never >= 2)


def _pin_neighbours(m: Any, s: Places) -> None:
    index = {name: j for j, name in enumerate(s.data.names)}
    for before, after in sorted(s.data.pins.forbidden_next):
        a, b = index[before], index[after]
        if a in s.sets.clusters and b in s.sets.clusters:
            for i in s.boundaries:
                m.pins.add(m.X[i, a] + m.X[i + 1, b] <= 1)


def _pin_order(m: Any, s: Places) -> None:
    """Require exactly these clusters, in this order."""
    names = s.data.pins.order
    if names is None:
        return
    order = [s.data.names.index(name) for name in names]
    if any(j not in s.sets.clusters for j in order):
        forbid(m)
        return
    for j in s.sets.clusters:
        used = sum(m.opens[i, j] for i in s.stages)
        m.pins.add(used == int(j in order))
    m.pins.add(m.X[0, order[0]] == 1)
    for i in s.boundaries:
        for a, b in pairwise(order):
            m.pins.add(m.X[i + 1, b] <= m.X[i, a] + m.X[i, b])


def _pin_clusters(m: Any, s: Places) -> None:
    """Limit the stages and units of each cluster; an unused one has 0."""
    lead, trail = sum(s.chain.lead), sum(s.chain.trail)
    last = s.stages[-1]
    everything = s.chain.length + lead + trail
    m.amount = pyo.Var(pyo.Any, dense=False, domain=pyo.Binary)
    for j, name in enumerate(s.data.names):
        pins = s.data.pins.of(name)
        if j not in s.sets.clusters:
            if not (pins.stages.permits(0) and pins.units.permits(0)):
                forbid(m)
            continue
        stages = sum(m.X[i, j] for i in s.stages)
        body = sum(m.n[key] for key in m.n if key[1] == j)
        units = body + lead * m.X[0, j] + trail * m.X[last, j]
        _permit(m, f"stages_{j}", pins.stages, stages, len(s.stages))
        _permit(m, f"units_{j}", pins.units, units, everything)


def _permit(m: Any, name: str, domain: Domain, amount: Any, most: int) -> None:
    """Let an amount be one of the permitted numbers, each with a binary."""
    permitted = [value for value in range(most + 1) if domain.permits(value)]
    if len(permitted) > most:
        return
    if not permitted:
        forbid(m)
        return
    is_value = [m.amount[name, value] for value in permitted]
    m.pins.add(sum(is_value) == 1)
    m.pins.add(
        sum(value * is_it for value, is_it in zip(permitted, is_value, strict=True))
        == amount
    )


def _pin_units(m: Any, s: Places) -> None:
    """Fix the stage of every unit if the units per stage, with ends, are pinned."""
    pinned = s.data.pins.units
    if pinned is None:
        return
    body = s.chain.without_ends(pinned)
    stage_of = [i for i, count in enumerate(body) for _ in range(count)]
    possible = len(body) == len(s.stages) and len(stage_of) == s.chain.length
    if not possible or min(body) < 1:
        forbid(m)
        return
    for u, i in enumerate(stage_of):
        m.pins.add(m.P[u, i] == 1)
