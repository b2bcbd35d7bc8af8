"""Least costs of all clusters but one, and of those outside a set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.check.verify.fills import NEVER, add

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.check.verify.hosting import Host
    from hetopt.problem.problem import Problem

    Ints = NDArray[np.int64]

#: The ends of the pipeline that some clusters host.
_NONE, _LAST, _FIRST, _BOTH = range(4)


class Others:
    """Least fills of the clusters, and the costs they leave to each of them.

    Parameters
    ----------
    used
        Of each cluster, whether pins permit it at all.
    period
        Lambda is at most this, in ns.
    budgets
        Most ns that F and g may be by stage count, below 0 if it is not sought.
    stages
        Largest stage count sought.
    """

    def __init__(
        self,
        hosts: Sequence[Host],
        used: Sequence[bool],
        problem: Problem,
        period: int,
        budgets: Ints,
        stages: int,
    ) -> None:
        self.hosts = hosts
        self.used = used
        self.budgets = budgets[: stages + 1]
        self.length = hosts[0].units.length
        order = problem.pins.order
        most = int(budgets.max())
        self.costs: list[list[Ints]] = []
        for host, able in zip(hosts, used, strict=True):
            middle, last, first = (table[: stages + 1] for table in host.tables(period))
            for table, permitted in (
                (middle, True),
                (last, order is None or host.name == order[-1]),
                (first, order is None or host.name == order[0]),
            ):
                table[(table > most) | (not able) | (not permitted)] = NEVER
            self.costs.append([middle, last, first])

    def left(self, j: int) -> list[Ints]:
        """Return the most that cluster j may cost in the middle, last, first, alone.

        Each of shape (P + 1, length + 1).
        """
        fills = self._without(j)
        most = []
        for ends in (_BOTH, _FIRST, _LAST, _NONE):
            least = fills[ends]
            own = np.full_like(least, -1)
            for p in np.flatnonzero(self.budgets >= 0):
                # The others have p - m stages, and all other units.
                behind = self.budgets[p] - least[p::-1, ::-1]
                np.maximum(own[: p + 1], behind, out=own[: p + 1])
            most.append(own)
        return most

    def _without(self, j: int) -> list[Ints]:
        """Return the least fills of all clusters but one, by the ends they host."""
        shape = (len(self.budgets), self.length + 1)
        state = [np.full(shape, NEVER, dtype=np.int64) for _ in range(4)]
        state[_NONE][0, 0] = 0
        for i, costs in enumerate(self.costs):
            if i == j:
                continue
            rests = self.hosts[i].may_rest or not self.used[i]
            after = [
                table.copy() if rests else np.full(shape, NEVER, dtype=np.int64)
                for table in state
            ]
            for taken, before in enumerate(state):
                for role, cost in enumerate(costs):
                    if not taken & role:
                        add(before, cost, after[taken | role])
            state = after
        return state


def outside(
    hosts: Sequence[Host],
    used: Sequence[bool],
    opens: Sequence[bool] | NDArray[np.bool_],
    period: int,
    stages: int,
    most: int,
    behind: int = 1,
) -> Ints:
    """Return the least fills on the clusters outside of each set of them.

    One of those hosts the first stage. Clusters are the bits of a set's number; the
    array has shape (2^C, stages + 1, length + 1).

    Parameters
    ----------
    opens
        Of each cluster, whether it may host the first stage.
    most
        Higher costs than this, in ns, count as ``NEVER``.
    behind
        How many stages on these clusters' other sides are behind them at least.
    """
    shape = (1 << len(hosts), stages + 1, hosts[0].units.length + 1)
    middle, first = [], []
    for host, able in zip(hosts, used, strict=True):
        tables = [table[: stages + 1].copy() for table in host.tables(period, behind)]
        if len(host.weights) and stages > 1:
            # It is known how many stages follow each of the first ones.
            opening = host.opening(period, stages)
            tables[2] = np.full_like(tables[2], NEVER)
            tables[2][: len(opening)] = opening
        for table in tables:
            table[(table > most) | (not able)] = NEVER
        middle.append(tables[0])
        first.append(tables[2])
    on = np.full(shape, NEVER, dtype=np.int64)
    on[0, 0, 0] = 0
    for group in range(1, 1 << len(hosts)):
        j = group.bit_length() - 1
        before = on[group & ~(1 << j)]
        if hosts[j].may_rest or not used[j]:
            on[group] = before
        add(before, middle[j], on[group])
    everybody = (1 << len(hosts)) - 1
    rest = np.full(shape, NEVER, dtype=np.int64)
    for group in range(1 << len(hosts)):
        for j in range(len(hosts)):
            if not group >> j & 1 and opens[j]:
                add(on[everybody & ~group & ~(1 << j)], first[j], rest[group])
    return rest
