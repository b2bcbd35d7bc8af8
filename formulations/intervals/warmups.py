"""Warm-ups of h-1f1b in the interval program: delta by lambda_0, memory by W.

=========================  =================================================
``reaches(t)``             ``lambda_0 >= t``; binary, for every threshold t
``adds(r,d)``              delta of boundary r is at least d, else 0
``is_longest(tau,s)``      tau of stage s is lambda_0, or ``(kappa,r)``; binary
``at_least(s,w)``          W of stage s is at least w; binary
=========================  =================================================

As all times are whole ticks, 'less than t' is 'at most t - 1'. That some time attains
lambda_0 is required only if memory depends on W: otherwise a larger lambda_0 gains
nothing, as it makes no delta larger.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hetopt.formulations.linear_program import combine, total

if TYPE_CHECKING:
    from hetopt.formulations.intervals.deltas import AdaptiveDeltas
    from hetopt.formulations.intervals.variables import IntervalVariables
    from hetopt.formulations.linear_program import Terms


def adapt_warmups(v: IntervalVariables) -> None:
    """Add these columns and rows, if delta depends on times."""
    deltas = v.sets.adaptive
    if deltas is None or v.sets.stages == 1:
        return
    compare(v, deltas)
    for r in v.kappa:
        _add(v, deltas, r)
    if v.sets.tighter:
        _attain(v, deltas)
        for stage in range(v.sets.stages - 1):
            _count(v, stage)


def compare(v: IntervalVariables, deltas: AdaptiveDeltas) -> None:
    """Keep ``tau(s), kappa(r) <= lambda_0`` and tie lambda_0 to its thresholds.

    With thresholds ``t1 < t2 < ..``: ``reaches(t1) >= reaches(t2) >= ..`` and
    ``tau(s) <= t1 - 1 + (t2 - t1) reaches(t1) + .. + (high + 1 - tn) reaches(tn)``.
    """
    program, thresholds = v.program, deltas.thresholds
    for t in thresholds:
        v.reaches[t] = program.column(f"reaches({t})", upper=1, integer=True)
    for low, high in pairwise(thresholds):
        terms: Terms = {v.reaches[low]: 1, v.reaches[high]: -1}
        program.row(f"reaches({low},{high})", terms, lower=0)
    first, *others = [*thresholds, deltas.high + 1]
    steps = {
        v.reaches[t]: v.time(after - t)
        for t, after in zip(thresholds, others, strict=True)
    }
    for name, column in _times(v):
        terms = combine([(1, {column: 1}), (-1, steps)])
        program.row(f"longest{name}", terms, upper=v.time(first - 1))


def _times(v: IntervalVariables) -> list[tuple[str, int]]:
    times = [(f"(tau,{s})", column) for s, column in enumerate(v.tau)]
    return times + [(f"(kappa,{r})", column) for r, column in v.kappa.items()]


def _add(v: IntervalVariables, deltas: AdaptiveDeltas, r: int) -> None:
    """Set delta of boundary r from kappa of its hop and lambda_0.

    With ``t`` the threshold of a hop, ``adds(r,d) <= 2 - reaches(t) -`` the hops with
    no larger threshold, and ``adds(r,d) >=`` those with no smaller one
    ``- reaches(t)``.
    """
    kappa = {
        column: int(v.sets.part.transfer_ns[x, a, b])
        for (x, a, b), column in v.hops[r].items()
    }
    for (x, a), column in v.inner[r].items():
        kappa[column] = int(v.sets.part.transfer_ns[x, a, a])
    for column, time in list(kappa.items()):
        if time > deltas.high:
            v.program.upper[column] = 0.0
            del kappa[column]
    least = min(map(deltas.least, kappa.values()), default=deltas.rule.inside)
    most = max(map(deltas.most, kappa.values()), default=deltas.rule.inside)
    v.least_delta[r], v.adds[r] = least, {}
    for d in range(least + 1, most + 1):
        adds = v.adds[r][d] = v.program.column(f"adds({r},{d})", upper=1)
        limits = {column: deltas.limit(d, time) for column, time in kappa.items()}
        never = total(column for column, t in limits.items() if t <= deltas.low)
        sure = total(column for column, t in limits.items() if t > deltas.high)
        v.program.row(f"never({r},{d})", {adds: 1, **never}, upper=1)
        v.program.row(f"sure({r},{d})", combine([(1, {adds: 1}), (-1, sure)]), lower=0)
        for t in sorted(set(limits.values())):
            if t not in v.reaches:
                continue
            below = total(column for column, other in limits.items() if other <= t)
            above = total(column for column, other in limits.items() if other >= t)
            terms: Terms = {adds: 1, v.reaches[t]: 1}
            v.program.row(f"less({r},{d},{t})", {**terms, **below}, upper=2)
            row = combine([(1, terms), (-1, above)])
            v.program.row(f"more({r},{d},{t})", row, lower=0)


def _attain(v: IntervalVariables, deltas: AdaptiveDeltas) -> None:
    """Require some time to be as long as the thresholds that lambda_0 reaches.

    ``tau(s) >= low + (t1 - low) reaches(t1) + .. - tn (1 - is_longest(tau,s))``.
    """
    if not deltas.thresholds:
        return
    program, last = v.program, v.time(deltas.thresholds[-1])
    steps = {
        v.reaches[t]: v.time(t - before)
        for before, t in pairwise([deltas.low, *deltas.thresholds])
    }
    chosen = []
    for name, column in _times(v):
        is_it = program.column(f"is_longest{name}", upper=1, integer=True)
        terms = combine([(1, {column: 1, is_it: -last}), (-1, steps)])
        program.row(f"attained{name}", terms, lower=v.time(deltas.low) - last)
        chosen.append(is_it)
    program.equal("one_longest", total(chosen), 1)


def _count(v: IntervalVariables, stage: int) -> None:
    """Count ``W(s) = 1 + sum_(r > s) delta(r)`` and set which limits on units apply.

    With ``w1 < w2 < ..`` the W at which some host holds less, and W at most m:
    ``W <= w1 - 1 + (w2 - w1) at_least(s,w1) + .. + (m + 1 - wn) at_least(s,wn)``.
    """
    steps = v.sets.steps(stage)
    if not steps:
        return
    program = v.program
    for w in steps:
        name = f"at_least({stage},{w})"
        v.at_least[stage, w] = program.column(name, upper=1, integer=True)
    for low, high in pairwise(steps):
        terms: Terms = {v.at_least[stage, low]: 1, v.at_least[stage, high]: -1}
        program.row(f"at_least({stage},{low},{high})", terms, lower=0)
    boundaries = range(stage + 1, v.sets.stages)
    known = 1 + sum(v.least_delta[r] for r in boundaries)
    more = total(column for r in boundaries for column in v.adds[r].values())
    most = known + len(more)
    reach = {
        v.at_least[stage, w]: float(max(after - w, 1))
        for w, after in pairwise([*steps, most + 1])
    }
    row = combine([(1, more), (-1, reach)])
    program.row(f"warmup({stage})", row, upper=steps[0] - 1 - known)
