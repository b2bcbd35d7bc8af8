"""The remaining costs of labels, for one range of lambda."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.compiled import step
from hetopt.check.verify.fills import NEVER
from hetopt.check.verify.labels.data import PS_PER_NS, Cost, Left, Rule
from hetopt.check.verify.labels.others import outside

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.check.verify.hosting import Host
    from hetopt.check.verify.labels.data import Facts

    Ints = NDArray[np.int64]

#: Most bytes of ``Left.slack``, unless 64 places need more.
_MOST_BYTES = 64 * 2**20
# Compiled code reads plain integers.
_IN_FILL = int(Cost.FILL)


def left_to_pay(
    facts: Facts,
    hosts: Sequence[Host],
    used: Sequence[bool],
    interval: tuple[int, int],
    budgets: Ints,
) -> Left:
    """Return the remaining costs, without any label yet.

    Parameters
    ----------
    used
        Of each cluster, whether pins permit it at all.
    interval
        Range of lambda, in ps; up to ``NEVER`` with a single micro-batch.
    budgets
        Most ns that F and g may be, by stage count; below 0 if it is not sought.
    """
    low_ps, high_ps = interval
    most, length = len(budgets) - 1, len(facts.kinds)
    period = min(-(-high_ps // PS_PER_NS), NEVER) if facts.rule != Rule.ONCE else NEVER
    sets = 1 << len(hosts)
    places = max(64, _MOST_BYTES // (8 * (most + 1) * (length + 1)))
    places = min(places, sets * len(facts.cluster))
    shape = (places, most + 1, length + 1)
    rest = outside(hosts, used, facts.opens, period, most, int(budgets.max()))
    if facts.rule == Rule.PATHS:
        # There is one stage count: m stages before the others have p - m behind.
        for m in range(1, most - 1):
            known = period, most, int(budgets.max()), most - m
            rest[:, m] = outside(hosts, used, facts.opens, *known)[:, m]
    return Left(
        run=np.concatenate([host.run for host in hosts]),
        within=np.concatenate([host.between(period, most) for host in hosts]),
        inner=np.concatenate([host.inner for host in hosts]),
        into=np.concatenate([host.into for host in hosts]),
        rest=rest,
        budgets=budgets,
        place=np.full((sets, len(facts.cluster)), -1, dtype=np.int64),
        slack=np.empty(shape, dtype=np.int64),
        finish=np.full(shape[1:], NEVER, dtype=np.int64),
        held=np.zeros(len(Cost), dtype=np.int64),
        used=np.zeros(1, dtype=np.int64),
        heads=np.empty((places, length + 1), dtype=np.int64),
        leaving=np.empty((sets, len(hosts), length + 1), dtype=np.int64),
        calm=calm(facts, high_ps),
        low_ps=np.array([low_ps], dtype=np.int64),
    )


def calm(facts: Facts, high_ps: int) -> Ints:
    """Return the E in ps that every boundary before a stage hides.

    A stage of time tau before it has E' = tau + max(0, E + 2 kappa - delta lambda), in
    ``labels`` with lambda = ``high_ps`` and the largest delta. For every
    E <= delta lambda - 2 kappa the maximum is 0, so E' is the same, and so is whatever
    follows from it; E excludes gradients of weights that run later. Calm is the least
    of these limits over all boundaries that can come before a stage: from its own
    strategy, and from those of other clusters. If transfers block, E only has to leave
    time for the boundary's transfers within lambda.

    Returns
    -------
    By the class of the cut before a stage, and its strategy; shape (X, O).
    """
    calm = np.full((len(facts.kappa), len(facts.cluster)), NEVER, dtype=np.int64)
    if facts.rule != Rule.STEADY:
        return calm
    for o, (a, j) in enumerate(zip(facts.layout, facts.cluster, strict=True)):
        across = facts.follows[facts.cluster, j] & (facts.cluster != j)
        for pace, before in ((0, facts.layout[[o]]), (1, facts.layout[across])):
            kappa = facts.kappa[:, before, a].max(axis=1, initial=0) * PS_PER_NS
            hidden = int(facts.paces[pace]) * high_ps - 2 * kappa
            if facts.blocking:
                hidden = high_ps - facts.blocking * kappa
            np.minimum(calm[:, o], hidden, out=calm[:, o])
    return calm


@step
def reckon(facts: Facts, left: Left, number: int, mask: int, o: int) -> None:
    """Compute the slack of labels at a new place."""
    slack, rest = left.slack[number], left.rest[mask]
    stages, length = len(left.budgets) - 1, len(facts.kinds)
    # Least fill of m more stages with the first l units.
    least = left.finish
    for m in range(1, stages + 1):
        for n in range(length + 1):
            best = min(NEVER, left.into[o] + rest[m, n])
            for k in range(1, min(n, left.within[o, m]) + 1):
                cost = 2 * left.inner[o] + left.run[o, k]
                if m > 1 and k < n:
                    best = min(best, cost + least[m - 1, n - k])
                elif m == 1 and k == n:
                    best = min(
                        best, cost + facts.lead[o, _IN_FILL] + facts.first_end[o]
                    )
            least[m, n] = best
    for s in range(stages + 1):
        for n in range(length + 1):
            most = -1
            if n == length:
                most = left.budgets[s]
            else:
                for p in range(s + 1, stages + 1):
                    if left.budgets[p] >= 0:
                        value = left.budgets[p] - least[p - s, length - n]
                        most = max(most, value)
            slack[s, n] = most
