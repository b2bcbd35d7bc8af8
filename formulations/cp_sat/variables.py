"""The decision variables of the CP-SAT program, which all constraints use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.formulations.cp_sat.terms import total
from hetopt.formulations.scale import PERIOD_SCALE

if TYPE_CHECKING:
    from ortools.sat.python import cp_model
    from ortools.sat.python.cp_model_helper import Literal

    from hetopt.formulations.cp_sat.sets import Sets


class Variables:
    """The variables in ``PipelineProgram``'s symbol table, without constraints.

    Only the constraints that define an auxiliary literal are added here.
    """

    def __init__(self, model: cp_model.CpModel, sets: Sets) -> None:
        self.model = model
        self.sets = sets
        clusters = sets.clusters
        self.uses = {j: model.new_bool_var(f"uses[{j}]") for j in clusters}
        self.first = {j: model.new_bool_var(f"first[{j}]") for j in clusters}
        self.last = {j: model.new_bool_var(f"last[{j}]") for j in clusters}
        self.takes = self._per_choice("takes")
        self.opens = self._per_choice("opens")
        self.closes = self._per_choice("closes")
        self.follows = {
            (i, j): model.new_bool_var(f"follows[{i},{j}]")
            for i in clusters
            for j in clusters
            if i != j
        }
        self.live = {
            j: [model.new_bool_var(f"live[{j},{r}]") for r in range(sets.slots[j])]
            for j in clusters
        }
        self.hosted = {j: total(self.live[j]) for j in clusters}
        self.hosts = {
            (j, k): model.new_int_var(0, sets.room_for(j, k), f"hosts[{j},{k}]")
            for j, k in sets.capacity
        }
        self._share_units()
        self._price()
        self._cut_is: dict[tuple[int, int, int], Literal] = {}

    def _share_units(self) -> None:
        """Add the variables of the units that each stage holds."""
        model, sets = self.model, self.sets
        clusters, chain = sets.clusters, sets.chain
        self.start = {
            j: model.new_int_var(0, chain.length, f"start[{j}]") for j in clusters
        }
        most = {j: max(sets.capacity[j, k] for k in sets.options[j]) for j in clusters}
        self.units = {
            (j, r): {
                f: model.new_int_var(0, most[j], f"units[{j},{r},{f}]")
                for f in chain.kinds
            }
            for j, r in self.slots
        }
        self.cut = {
            (j, r): model.new_int_var(0, chain.length, f"cut[{j},{r}]")
            for j, r in self.slots
        }
        self.held = {
            (j, k, f): model.new_int_var(0, chain.length, f"held[{j},{k},{f}]")
            for f in chain.kinds
            for j, k in sets.capacity
        }

    def _price(self) -> None:
        """Add the variables of boundaries and of the objective."""
        model, sets, clusters = self.model, self.sets, self.sets.clusters
        longest = int(sets.part.transfer_ns.max(initial=0))
        self.hops = {
            (a, b): model.new_bool_var(f"hops[{a},{b}]")
            for i, j in self.follows
            for a in sets.layouts(i)
            for b in sets.layouts(j)
        }
        self.kappa_in = {
            j: model.new_int_var(0, longest, f"kappa_in[{j}]") for j in clusters
        }
        self.kappa = {
            (j, r): model.new_int_var(0, longest, f"kappa[{j},{r}]")
            for j, r in self.slots
            if r + 1 < sets.slots[j]
        }
        self.period = model.new_int_var(
            min(sets.data.period_min, sets.period_max), sets.period_max, "period"
        )
        self.sync = model.new_int_var(0, sets.data.cutoff // PERIOD_SCALE, "sync")

    @property
    def slots(self) -> list[tuple[int, int]]:
        """Every slot (j, r)."""
        return [(j, r) for j in self.sets.clusters for r in range(self.sets.slots[j])]

    def ends(self, j: int, r: int) -> list[Literal]:
        """Return literals that all hold if slot r is the last of cluster j."""
        after = self.live[j][r + 1 : r + 2]
        return [self.live[j][r], *(~literal for literal in after)]

    def cut_is(self, j: int, r: int, x: int) -> list[Literal]:
        """Return literals that all hold if the cut after slot r is of class x."""
        chain = self.sets.chain
        if len(chain.cut_classes) <= 1:
            return []
        key = (j, r, x)
        if key not in self._cut_is:
            literal = self.model.new_bool_var(f"class[{j},{r},{x}]")
            # There is no boundary at the ends of the body: any class will do.
            column = [0, *(int(cut == x) for cut in chain.cuts), 0]
            self.model.add_element(self.cut[j, r], column, literal)
            self._cut_is[key] = literal
        return [self._cut_is[key]]

    def _per_choice(self, name: str) -> dict[tuple[int, int], cp_model.IntVar]:
        return {
            (j, k): self.model.new_bool_var(f"{name}[{j},{k}]")
            for j, k in self.sets.capacity
        }
