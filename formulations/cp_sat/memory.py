"""Memory in the CP-SAT program (HetAuto Eq. 7, by the position of a stage)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hetopt.formulations.cp_sat.terms import dot, total, weighted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ortools.sat.python.cp_model_helper import Literal

    from hetopt.formulations.cp_sat.variables import Variables
    from hetopt.formulations.cp_sat.warmups import InFlight, Load


def fit_memory(v: Variables, load: Load) -> None:
    """Keep every slot within the device's memory.

    ``fixed + sum_f units * (state + min(W, q) * activation) + max_f temporary <=
    usable``, the maximum over the kinds present. Stated with and without the end
    units: the embedding lies on the first stage, the head on the last, where W = 1.
    """
    _Memory(v, load).fit()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Need:
    """What memory leaves on a stage: a number of units, or bytes by kind present."""

    most: int | None = None
    left: dict[int, int] = field(default_factory=dict)
    unit_bytes: dict[int, int] = field(default_factory=dict)


class _Memory:
    """Adds the memory limits of slots; keeps what slots have in common."""

    def __init__(self, v: Variables, load: Load) -> None:
        self.v = v
        self.sets = v.sets
        self.model = v.model
        self._load = load
        flights = [*load.slots.values(), *load.opening.values(), load.closing]
        self._counts = range(
            min((flight.least for flight in flights), default=1),
            max((flight.most for flight in flights), default=1) + 1,
        )
        self._needs: dict[object, list[tuple[int, _Need]]] = {}
        self._holding: dict[tuple[int, int, int], Literal] = {}

    def fit(self) -> None:
        """Limit the memory of every slot, for each strategy and each of its roles."""
        v, sets, chain = self.v, self.sets, self.sets.chain
        none = (0,) * len(chain.lead)
        both = tuple(a + b for a, b in zip(chain.lead, chain.trail, strict=True))
        load = self._load
        for (j, r), flight in load.slots.items():
            for k in sets.takers(j, r):
                if sets.stages == 1:
                    self._fit(j, k, r, load.closing, both, [v.takes[j, k]])
                    continue
                here = [v.takes[j, k], v.live[j][r]]
                self._fit(j, k, r, flight, none, here)
                if r == 0:
                    opens = [v.opens[j, k]]
                    self._fit(j, k, r, load.opening[j], chain.lead, opens)
                where = [v.closes[j, k], *v.ends(j, r)]
                self._fit(j, k, r, load.closing, chain.trail, where)

    def _fit(
        self,
        j: int,
        k: int,
        r: int,
        flight: InFlight,
        ends: tuple[int, ...],
        where: Sequence[Literal],
    ) -> None:
        """Limit the memory of slot r under k with these end units, for every W."""
        units = self.v.units[j, r]
        for warmup, need in self._needs_of(j, k, ends, flight):
            literals = [*where, *flight.at_least(warmup)]
            if need.most is not None:
                if need.most < 1:
                    self.model.add_bool_or([~literal for literal in literals])
                else:
                    self.model.add(total(units.values()) <= need.most).only_enforce_if(
                        literals
                    )
                continue
            used = weighted(list(units.values()), [need.unit_bytes[f] for f in units])
            most = max(need.left.values())
            self.model.add(used <= most).only_enforce_if(literals)
            for f, left in need.left.items():
                if left < most:
                    self.model.add(used <= left).only_enforce_if(
                        [*literals, self._holds(j, r, f)]
                    )

    def _needs_of(
        self, j: int, k: int, ends: tuple[int, ...], flight: InFlight
    ) -> list[tuple[int, _Need]]:
        """Return each W from which on memory limits more strictly, with its need."""
        key = (j, k, ends)
        if key not in self._needs:
            needs = [
                (count, need)
                for count in self._counts
                for need in [self._need(j, k, ends, count)]
                if need is not None
            ]
            if self.sets.chain.is_uniform:
                needs = _where_falling(needs)
            self._needs[key] = needs
        needs = self._needs[key]
        # Of the counts that are always reached only the largest matters.
        reached = [need for need in needs if need[0] <= flight.least]
        return reached[-1:] + [
            need for need in needs if flight.least < need[0] <= flight.most
        ]

    def _need(self, j: int, k: int, ends: tuple[int, ...], count: int) -> _Need | None:
        """Return what fits besides the end units at this W; None if everything does."""
        table, kinds = self.sets.table(j), self.sets.chain.kinds
        bytes_ = [
            int(state) + count * int(activation)
            for state, activation in zip(
                table.state_bytes[k], table.activation_bytes[k], strict=True
            )
        ]
        temporary = [int(value) for value in table.temporary_bytes[k]]
        room = self.sets.free_bytes(j, k) - dot(ends, bytes_)
        at_ends = max((temporary[f] for f, n in enumerate(ends) if n), default=0)
        left = {f: room - max(at_ends, temporary[f]) for f in kinds}
        capacity = self.sets.capacity[j, k]
        if capacity * max(bytes_[f] for f in kinds) <= min(left.values()):
            return None
        if len(kinds) == 1:
            (f,) = kinds
            return _Need(most=left[f] // bytes_[f] if bytes_[f] else 0)
        return _Need(left=left, unit_bytes={f: bytes_[f] for f in kinds})

    def _holds(self, j: int, r: int, f: int) -> Literal:
        """Return a literal that is true if slot r holds a unit of kind f."""
        key = (j, r, f)
        if key not in self._holding:
            literal = self.model.new_bool_var(f"holds[{j},{r},{f}]")
            self.model.add(self.v.units[j, r][f] == 0).only_enforce_if(~literal)
            self._holding[key] = literal
        return self._holding[key]


def _where_falling(needs: list[tuple[int, _Need]]) -> list[tuple[int, _Need]]:
    """Keep the first warm-up count of every value of ``most``."""
    kept: list[tuple[int, _Need]] = []
    for count, need in needs:
        if not kept or need.most != kept[-1][1].most:
            kept.append((count, need))
        if need.most is not None and need.most < 1:
            break
    return kept
