"""Valid inequalities of the MIQP: implied by its rows, but they close the gap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyomo.environ as pyo

from hetopt.formulations.miqp.costs import choice_time
from hetopt.formulations.miqp.placement import hosted, placed

if TYPE_CHECKING:
    from hetopt.formulations.miqp.sets import Places


def device_time(m: Any, s: Places) -> None:
    """Limit every cluster's work to the device time it has (MODEL.md section 6).

    ``sum_k d c t sum_i tau[i, j, k] <= devices_j lambda``.
    """
    if not s.sets.steady:
        return
    m.cut_device_time = pyo.Constraint(
        s.sets.clusters,
        rule=lambda m, j: (
            sum(
                int(s.sets.table(j).devices[k]) * _work(m, s, j, k)
                for k in s.sets.options[j]
            )
            <= s.data.devices[j] * m.period
        ),
    )


def cluster_window(m: Any, s: Places) -> None:
    """Take all stages of (j, k), h of them, as one window of the period.

    ``work + 2 kappa (h - 1) <= lambda (delta (h - 1) + 1)``, with lambda at most its
    upper bound; only if delta is fixed, units and cuts are alike and P3 holds. Without
    P4 all stages of a cluster are one window, with its layouts' least kappa.
    """
    rule = s.sets.rule
    classes = s.chain.cut_classes
    if not rule.fixed or not s.sets.steady or not s.chain.is_uniform or not classes:
        return
    if not s.consecutive:
        return
    transfer = s.sets.part.transfer_ns

    def window(m: Any, j: int, k: int) -> Any:
        a = s.sets.layout(j, k)
        kappa = s.time(int(transfer[classes[0], a, a]))
        hosts, takes = hosted(m, s, j, k), m.Y[j, k]
        reach = rule.inside * (hosts - takes) + takes
        return _work(m, s, j, k) + 2 * kappa * (hosts - takes) <= s.period_max * reach

    def mixed(m: Any, j: int) -> Any:
        near = s.sets.layouts(j)
        kappa = s.time(int(transfer[classes[0]][near][:, near].min()))
        hosts = sum(m.X[i, j] for i in s.stages)
        used = sum(m.opens[i, j] for i in s.stages)
        work = sum(_work(m, s, j, k) for k in s.sets.options[j])
        reach = rule.inside * (hosts - used) + used
        return work + 2 * kappa * (hosts - used) <= s.period_max * reach

    if s.mixed:
        m.cut_window = pyo.Constraint(s.sets.clusters, rule=mixed)
    else:
        m.cut_window = pyo.Constraint(list(s.sets.capacity), rule=window)


def run_length(m: Any, s: Places) -> None:
    """``S <= sum_f n <= capacity S``: a stage holds units, at most its capacity."""
    m.cut_units_most = pyo.Constraint(
        list(m.S),
        rule=lambda m, i, j, k: (
            sum(m.n[i, j, k, f] for f in s.chain.kinds)
            <= s.capacity(i, j, k) * m.S[i, j, k]
        ),
    )
    m.cut_units_least = pyo.Constraint(
        list(m.S),
        rule=lambda m, i, j, k: (
            sum(m.n[i, j, k, f] for f in s.chain.kinds) >= m.S[i, j, k]
        ),
    )


def split_products(m: Any, s: Places) -> None:
    """Add up products over all values of one of their factors.

    If a factor is one of several binaries that sum to 1, the products with these sum to
    the other factor: ``sum n[i, j, k, f] = N[i, f]``, ``sum_b edge[i, a, b] =
    layout[i, a]``, ``sum_x hop[i, x, a, b] = edge[i, a, b]``, and so on.
    """
    m.cut_split_n = pyo.Constraint(
        list(m.N),
        rule=lambda m, i, f: sum(m.n[i, j, k, f] for j, k in s.choices[i]) == m.N[i, f],
    )
    for i in s.boundaries:
        edges = {(a, b): m.edge[at, a, b] for at, a, b in m.edge if at == i}
        _split_pairs(m, f"edge_{i}", edges, i, i + 1)
    if hasattr(m, "tie"):
        _split_pairs(m, "tie", m.tie, 0, s.stages[-1])
    if hasattr(m, "hop"):
        m.cut_split_hop = pyo.Constraint(
            list(m.edge),
            rule=lambda m, i, a, b: (
                sum(m.hop[i, x, a, b] for x in s.chain.cut_classes) == m.edge[i, a, b]
            ),
        )
    if hasattr(m, "loads"):
        m.cut_split_loads = pyo.Constraint(
            [key for key in m.n if len(s.flights[key[0]]) > 1],
            rule=lambda m, i, j, k, f: (
                sum(m.loads[i, j, k, f, w] for w in s.flights[i]) == m.n[i, j, k, f]
            ),
        )


def _split_pairs(m: Any, name: str, pairs: Any, i: int, after: int) -> None:
    """Let the pairs with a layout of either stage sum to that layout."""
    leaving: dict[int, list[Any]] = {}
    entering: dict[int, list[Any]] = {}
    for a, b in pairs:
        leaving.setdefault(a, []).append(pairs[a, b])
        entering.setdefault(b, []).append(pairs[a, b])
    rows = pyo.ConstraintList()
    m.add_component(f"cut_split_{name}", rows)
    for stage, a in m.layout:
        for at, sides in ((i, leaving), (after, entering)):
            if stage == at:
                rows.add(sum(sides.get(a, [])) == m.layout[stage, a])


def nest_units(m: Any, s: Places) -> None:
    """``sum_(i' <= i) P[v, i'] <= sum_(i' <= i) P[u, i']`` for every edge (u, v)."""
    m.cut_nested = pyo.Constraint(
        range(s.chain.length - 1),
        s.boundaries,
        rule=lambda m, u, i: placed(m, u + 1, i) <= placed(m, u, i),
    )


def _work(m: Any, s: Places, j: int, k: int) -> Any:
    """Return tau summed over all stages of (j, k), 0 if it is not taken."""
    return sum(
        choice_time(m, s, i, j, k, s.sets.tau) for i in s.stages if (i, j, k) in m.S
    )
