"""Times in the interval program: stages, boundaries, lambda and g."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.formulations.cp_sat.terms import dot
from hetopt.formulations.linear_program import combine, total

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hetopt.formulations.cp_sat.sets import Costs
    from hetopt.formulations.intervals.variables import IntervalVariables
    from hetopt.formulations.linear_program import Terms


def add_up_times(v: IntervalVariables) -> None:
    """``tau(s)`` from the units and ends of a stage, ``kappa(r)`` from its hop.

    If gradients of weights run apart, also what a stage adds to the fill, and the part
    of tau before a gradient is sent on.
    """
    sums = [("tau", v.tau, v.sets.tau)]
    if v.sets.rule.splits:
        sums += [("fill", v.fill, v.sets.fill)]
        sums += [("handed_on", v.handed_on, v.sets.handed_on)]
    for name, columns, costs in sums:
        for stage, column in enumerate(columns):
            time = stage_time(v, stage, costs)
            terms = combine([(1, {column: 1}), (-1, time)])
            v.program.equal(f"{name}({stage})", terms, 0)
    for r, kappa in v.kappa.items():
        time = boundary_time(v, r, v.sets.part.transfer_ns)
        v.program.equal(f"kappa({r})", combine([(1, {kappa: 1}), (-1, time)]), 0)


def stage_time(v: IntervalVariables, stage: int, costs: Costs) -> Terms:
    """Return ``sum_h (sum_f cost held(h,s,f) + ends on(h,s))``."""
    terms: Terms = {}
    for host in v.hosts_at(stage):
        cost = costs[host.cluster, host.strategy]
        for f, column in v.held[host, stage].items():
            terms[column] = v.time(cost[f])
        terms[v.on[host, stage]] = v.time(dot(v.sets.ends(stage), cost))
    return terms


def boundary_time(v: IntervalVariables, r: int, time_ns: NDArray[np.int64]) -> Terms:
    """Return the time of boundary r by cut class and both layouts."""
    terms = {
        column: v.time(int(time_ns[x, a, b])) for (x, a, b), column in v.hops[r].items()
    }
    for (x, a), column in v.inner[r].items():
        terms[column] = v.time(int(time_ns[x, a, a]))
    return terms


def synchronise(v: IntervalVariables) -> None:
    """``sync >= g`` on every stage, with tied embeddings on the first and last.

    ``g = sum_h (sync_ns on(h,s) + sum_f sync_unit_ns held(h,s,f))``, ends included;
    if gradients of weights run apart, ``2 w`` too.
    """
    sets = v.sets
    tied_ns = sets.part.tied_ns
    for stage in range(sets.stages):
        terms = stage_time(v, stage, sets.ending)
        for host in v.hosts_at(stage):
            base = int(sets.table(host.cluster).sync_ns[host.strategy])
            terms[v.on[host, stage]] += v.time(base)
        if stage in (0, sets.stages - 1) and tied_ns is not None:
            for (a, b), column in v.ends.items():
                terms[column] = v.time(int(tied_ns[a, b]))
        row = combine([(1, {v.sync: 1}), (-1, terms)])
        v.program.row(f"sync({stage})", row, lower=0)


def bound_period(v: IntervalVariables) -> None:
    """Bound lambda from below as the schedule requires (MODEL.md section 4)."""
    if v.sets.gpipe:
        add_up_paces(v)
        return
    bound_lags(v)
    bound_blocked(v)
    bound_occupancy(v, "", [_period(v)])


def bound_occupancy(v: IntervalVariables, name: str, paces: Sequence[int]) -> None:
    """``lambda >= omega(r)``: a boundary is no faster than its slowest step."""
    for r in v.kappa:
        omega = boundary_time(v, r, v.sets.part.occupancy_ns)
        for pace in paces:
            terms = combine([(1, {pace: 1}), (-1, omega)])
            v.program.row(f"occupancy{name}({r})", terms, lower=0)


def bound_lags(v: IntervalVariables) -> None:
    """Keep the delay that a stage inherits from slow neighbours within the period.

    ``lag(0) = tau(0)`` and ``lag(r) >= tau(r) + max(0, lag(r - 1) + 2 kappa(r) -
    delta lambda)``, all at most lambda; in the maximum's second case ``handed_on(r)``
    replaces tau(r).
    """
    program = v.program
    before = 0
    for stage, tau in enumerate(v.tau):
        lag = program.column(f"lag({stage})")
        program.row(f"own({stage})", {lag: 1, tau: -1}, lower=0)
        program.row(f"within({stage})", {_period(v): 1, lag: -1}, lower=0)
        if stage:
            own = v.handed_on[stage]
            terms: Terms = {lag: 1, own: -1, before: -1, v.kappa[stage]: -2}
            terms.update(_warmup_time(v, stage))
            program.row(f"inherit({stage})", terms, lower=0)
        before = lag


def bound_blocked(v: IntervalVariables) -> None:
    """``tau(s) + chi (kappa(s) + kappa(s + 1)) <= lambda`` if transfers block."""
    chi = v.sets.rule.blocking
    if not chi:
        return
    for stage, tau in enumerate(v.tau):
        terms: Terms = {_period(v): 1, tau: -1}
        for r in (stage, stage + 1):
            if r in v.kappa:
                terms[v.kappa[r]] = -chi
        v.program.row(f"blocked({stage})", terms, lower=0)


def _warmup_time(v: IntervalVariables, r: int) -> Terms:
    """Return ``delta lambda`` of boundary r."""
    if v.sets.adaptive is None:
        rule = v.sets.rule
        terms: Terms = {_period(v): rule.inside}
        if rule.across != rule.inside:
            crossing = total(v.hops[r].values())
            terms[_extra(v, str(r), crossing)] = rule.across - rule.inside
        return terms
    terms = {_period(v): v.least_delta[r]}
    for d, adds in v.adds[r].items():
        terms[_extra(v, f"{r},{d}", {adds: 1})] = 1
    return terms


def _extra(v: IntervalVariables, name: str, does: Terms) -> int:
    """Add a column of at most ``lambda * does``, which is exact as that is 0 or 1.

    ``extra <= period_max does`` and ``extra <= lambda - period_min (1 - does)``.
    """
    program, period = v.program, _period(v)
    column = program.column(f"extra({name})")
    most, least = program.upper[period], program.lower[period]
    program.row(
        f"extra_at_most({name})", combine([(1, {column: 1}), (-most, does)]), upper=0
    )
    program.row(
        f"extra_is_period({name})",
        combine([(1, {column: 1, period: -1}), (-least, does)]),
        upper=-least,
    )
    return column


def add_up_paces(v: IntervalVariables) -> None:
    """Let the paces of forwards and backwards add up to lambda under gpipe.

    ``lambda = max(max phi, max omega) + max(max beta, max omega)``.
    """
    program, paces = v.program, []
    for name, costs in (("phi", v.sets.phi), ("beta", v.sets.beta)):
        pace = program.column(f"pace_{name}")
        for stage in range(v.sets.stages):
            terms = combine([(1, {pace: 1}), (-1, stage_time(v, stage, costs))])
            program.row(f"pace_{name}({stage})", terms, lower=0)
        bound_occupancy(v, f"_{name}", [pace])
        paces.append(pace)
    paced: Terms = {_period(v): 1, **dict.fromkeys(paces, -1)}
    program.equal("paces", paced, 0)


def device_time(v: IntervalVariables) -> None:
    """Limit every cluster's work to the device time it has: implied, but strong.

    ``sum_(h,s) d c t * tau <= devices_j * lambda``, as tau <= lambda on every stage
    (MODEL.md section 6).
    """
    sets = v.sets
    for j in sets.clusters:
        parts: list[tuple[float, Terms]] = [(sets.data.devices[j], {_period(v): 1})]
        for (host, stage), columns in v.held.items():
            if host.cluster != j:
                continue
            cost = sets.tau[host.cluster, host.strategy]
            own: Terms = {column: v.time(cost[f]) for f, column in columns.items()}
            own[v.on[host, stage]] = v.time(dot(sets.ends(stage), cost))
            parts.append((-int(sets.table(j).devices[host.strategy]), own))
        v.program.row(f"device_time({v.cluster(j)})", combine(parts), lower=0)


def _period(v: IntervalVariables) -> int:
    if v.period is None:
        msg = "a single micro-batch has no period"
        raise ValueError(msg)
    return v.period
