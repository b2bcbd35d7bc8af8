"""Sets and parameters of the MIQP by stage position, times in the program's unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.formulations.cp_sat.sets import Sets
from hetopt.formulations.scale import PERIOD_SCALE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.formulations.program import ProgramData

#: Relative slack of limits that floating-point rows state.
MARGIN = 1e-9


class Places:
    """The choices of each stage i = 0..p-1 of one (p, q), and their costs.

    Attributes
    ----------
    sets
        Sets that do not depend on the position.
    unit
        Ticks in one unit of the program's times: the longest round trip of one body
        unit, so that all coefficients of a row are of similar size.
    ends
        Units per kind that lie on stage i besides its body units; length p.
    choices
        (cluster, strategy) that stage i may have; length p.
    flights
        Values that min(W_i, q) may take, ascending; length p.
    most_warmups
        The largest W_i; length p.
    fits
        By (i, j, k, micro-batches in flight): the most body units.
    consecutive, mixed
        Whether P3 holds, as it does with a pinned order; whether P4 is relaxed.
    period_min, period_max, transfer_max, stage_max
        Bounds on lambda, kappa and tau in the program's unit.
    """

    def __init__(self, data: ProgramData) -> None:
        self.data = data
        self.sets = sets = Sets(data)
        self.consecutive = data.principles.consecutive or data.pins.order is not None
        self.mixed = data.principles.sharing != "one"
        self.chain = chain = data.chain
        self.stages = range(sets.stages)
        self.boundaries = range(sets.stages - 1)
        none = (0,) * len(chain.lead)
        self.ends = [
            tuple(
                a + b
                for a, b in zip(
                    chain.lead if i == 0 else none,
                    chain.trail if i == sets.stages - 1 else none,
                    strict=True,
                )
            )
            for i in self.stages
        ]
        self.flights, self.most_warmups = self._flights()
        self.fits = self._fits()
        self.choices = [
            [
                (j, k)
                for j, k in sets.capacity
                if self.fits[i, j, k, self.flights[i][0]] >= 1
            ]
            for i in self.stages
        ]
        self.unit = max(
            (sets.tau[key][f] for key in sets.capacity for f in chain.kinds), default=1
        )
        self.unit = max(self.unit, 1)
        transfer = int(sets.part.transfer_ns.max(initial=0))
        self.transfer_max = transfer / self.unit
        self.stage_max = [self._longest(i) for i in self.stages]
        # Windows and paces are parts of one pass through the pipeline.
        one_pass = sum(self.stage_max) + 2 * len(self.boundaries) * self.transfer_max
        factor = 2 if sets.gpipe else 1
        limit = (sets.period_max + 1) / PERIOD_SCALE / self.unit
        self.period_max = min(factor * one_pass, limit) * (1 + MARGIN)
        least = (data.period_min - 1) / PERIOD_SCALE / self.unit
        self.period_min = min(max(0.0, least * (1 - MARGIN)), self.period_max)

    def capacity(self, i: int, j: int, k: int) -> int:
        """Return the most body units of (j, k) on stage i, at the least in flight."""
        return self.fits[i, j, k, self.flights[i][0]]

    def time(self, ticks: int) -> float:
        """Return a time in the program's unit."""
        return ticks / self.unit

    def value(self, objective: int) -> float:
        """Return an objective in 1 / PERIOD_SCALE ticks in the program's unit."""
        return objective / PERIOD_SCALE / self.unit

    def at_ends(self, i: int, cost: Sequence[int] | NDArray[np.int64]) -> int:
        """Return the cost of the units of stage i outside the body."""
        return sum(
            n * int(value) for n, value in zip(self.ends[i], cost, strict=True) if n
        )

    @property
    def impossible(self) -> bool:
        """Whether some stage has no choice."""
        return not all(self.choices)

    def _flights(self) -> tuple[list[list[int]], list[int]]:
        """Bound W by the deltas of the boundaries after each stage (MODEL.md 4)."""
        sets, q = self.sets, self.sets.microbatches
        if sets.gpipe or not sets.steady:
            return [[q] for _ in self.stages], [q for _ in self.stages]
        flights, most = [], []
        for i in self.stages:
            after = sets.stages - 1 - i
            others = len(sets.clusters) - 1
            crossings = min(after, others)
            if others and not self.consecutive:
                crossings = after
            # if all deltas are equal, every count is known
            least = sets.rule.least_warmups(after)
            top = sets.rule.most_warmups(after, crossings)
            flights.append(sorted({min(count, q) for count in range(least, top + 1)}))
            most.append(top)
        return flights, most

    def _fits(self) -> dict[tuple[int, int, int, int], int]:
        fits = {}
        for i in self.stages:
            for j, k in self.sets.capacity:
                by_time = self._fit_by_time(i, j, k)
                for count in self.flights[i]:
                    fits[i, j, k, count] = min(
                        self.sets.capacity[j, k],
                        by_time,
                        self._fit_in_memory(i, j, k, count),
                    )
        return fits

    def _fit_by_time(self, i: int, j: int, k: int) -> int:
        if not self.sets.steady:
            return self.chain.length
        tau = np.zeros(len(self.ends[i]), dtype=np.int64)
        tau += self.sets.tau[j, k]
        room = self.sets.period_max // PERIOD_SCALE - self.at_ends(i, tau)
        return int((self._shortest(tau) <= room).sum()) - 1

    def _fit_in_memory(self, i: int, j: int, k: int, count: int) -> int:
        """Return the most body units that may fit; exact if these are all alike."""
        table, kinds = self.sets.table(j), self.chain.kinds
        bytes_ = table.state_bytes[k] + count * table.activation_bytes[k]
        temporary = [int(value) for value in table.temporary_bytes[k]]
        held = [temporary[f] for f, n in enumerate(self.ends[i]) if n]
        least = max([*held, min(temporary[f] for f in kinds)])
        room = self.sets.free_bytes(j, k) - self.at_ends(i, bytes_) - least
        return int((self._shortest(bytes_) <= room).sum()) - 1

    def _shortest(self, cost: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.chain.is_uniform:
            each = int(cost[self.chain.kinds[0]])
            return np.arange(self.chain.length + 1, dtype=np.int64) * each
        return self.chain.shortest(cost)

    def _longest(self, i: int) -> float:
        """Return a bound on tau of stage i, from its capacities."""
        return max(
            (
                self.capacity(i, j, k) * max(tau[f] for f in self.chain.kinds)
                + self.at_ends(i, tau)
                for j, k in self.choices[i]
                for tau in [self.sets.tau[j, k]]
            ),
            default=0,
        ) / float(self.unit)
