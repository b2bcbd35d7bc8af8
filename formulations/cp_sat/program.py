"""The CP-SAT program of one (p, q): HetAuto's nested problem under P1-P4.

Symbols (MODEL.md): clusters j, strategies k of a cluster, slots r = 0, 1, ... for
the consecutive stages a cluster may host, unit kinds f, cut classes x, layouts a.

=====================  ====================================================
``uses[j]``            cluster j hosts stages
``takes[j, k]``        it uses strategy k (P4: exactly one)
``first[j]``           it hosts the first stage; ``last[j]``: the last
``opens[j, k]``        it does so with strategy k; ``closes[j, k]``: the last
``follows[i, j]``      cluster j comes right after cluster i (Eq. 12)
``live[j][r]``         cluster j hosts at least r + 1 stages (P3: consecutive)
``hosts[j, k]``        how many stages, if it takes strategy k, else 0
``start[j]``           body units before cluster j
``units[j, r][f]``     body units of kind f on slot r (P1: whole units, one or more)
``cut[j, r]``          body units before the end of slot r
``held[j, k, f]``      body units of kind f on the cluster, if it takes k, else 0
``hops[a, b]``         a boundary from layout a to layout b of another cluster
``kappa_in[j]``        kappa of the boundary into cluster j, 0 if there is none
``kappa[j, r]``        kappa of the boundary between slots r and r + 1, likewise
``period``             lambda, in 1 / PERIOD_SCALE ticks; unused if q = 1
``sync``               the largest g
=====================  ====================================================

All coefficients are the table's integers. Only lambda is rounded: it is a ratio of
integers, and the program rounds it up to a whole 1 / PERIOD_SCALE tick. A
program's optimum therefore exceeds the closed form of its plan by less than
``(q - 1) / PERIOD_SCALE`` ticks, and its bounds less that much are valid.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from ortools.sat.python import cp_model

from hetopt.formulations.cp_sat import (
    boundaries,
    cuts,
    period,
    placement,
    warmups,
)
from hetopt.formulations.cp_sat.memory import fit_memory
from hetopt.formulations.cp_sat.pins import pin
from hetopt.formulations.cp_sat.sets import Sets
from hetopt.formulations.cp_sat.synchronisation import synchronise
from hetopt.formulations.cp_sat.terms import total, weighted
from hetopt.formulations.cp_sat.ties import tie_digits
from hetopt.formulations.cp_sat.variables import Variables
from hetopt.formulations.decision import Decision
from hetopt.formulations.scale import PERIOD_SCALE

if TYPE_CHECKING:
    from collections.abc import Callable

    from ortools.sat.python.cp_model_helper import Literal

    from hetopt.formulations.cp_sat.ties import Digit
    from hetopt.formulations.cp_sat.warmups import Load
    from hetopt.formulations.program import ProgramData


class PipelineProgram:
    """Variables and constraints of one (p, q); building it solves nothing.

    Attributes
    ----------
    model
        For a solver.
    objective
        The minimised expression, in 1 / PERIOD_SCALE ticks.
    """

    def __init__(self, data: ProgramData) -> None:
        self.data = data
        self.model = cp_model.CpModel()
        self.sets = Sets(data)
        self.variables = v = Variables(self.model, self.sets)

        placement.take_strategies(v)
        placement.order_clusters(v)
        placement.count_stages(v)
        placement.place_units(v)
        placement.follow_chain(v)
        placement.hold_units(v)
        boundaries.cross(v)
        boundaries.price_crossings(v)
        boundaries.price_inside(v)
        fit_memory(v, self._bound_period())
        synchronise(v)
        pin(v)
        self.objective = self._minimise()

    def _bound_period(self) -> Load:
        """Bound lambda from below, as the schedule requires; return the load."""
        v, sets = self.variables, self.sets
        if not sets.steady:
            return warmups.constant_load(v)
        cuts.device_time(v)
        cuts.cluster_window(v)
        if sets.gpipe:
            period.add_up_paces(v)
            return warmups.constant_load(v)
        tau = period.stage_times(v, "tau", sets.tau)
        if sets.rule.fixed:
            deltas = warmups.fixed_deltas(v)
        else:
            period.fix_times(v, tau, sets.tau)
            deltas = warmups.adaptive_deltas(v, tau)
        period.bound_occupancy(v, v.period, PERIOD_SCALE)
        handed_on = None
        if sets.rule.splits:
            handed_on = period.stage_times(v, "handed_on", sets.handed_on)
        period.bound_lags(v, tau, deltas, handed_on=handed_on)
        if sets.rule.blocking:
            period.bound_blocked(v, tau)
        return warmups.count_warmups(v, deltas)

    def _minimise(self) -> cp_model.LinearExpr:
        """Minimise the closed form ``sum (tau + 2 kappa) + (q - 1) lambda + max g``.

        If gradients of weights run apart, ``2 w`` is part of g and not of the fill.
        """
        v, sets, data = self.variables, self.sets, self.data
        fill = [cuts.work(v, j, k, sets.fill) for j, k in sets.capacity]
        fill += [2 * kappa for kappa in v.kappa_in.values()]
        fill += boundaries.inner_fill(v)
        objective = weighted(
            [total(fill), v.sync, v.period],
            [PERIOD_SCALE, PERIOD_SCALE, sets.passes - 1],
        )
        self.model.add(objective <= data.cutoff)
        if data.objective_min:
            self.model.add(objective >= data.objective_min)
        self.model.minimize(objective)
        return objective

    def exclude(self, decision: Decision) -> None:
        """Rule out every plan of the same shape as ``decision``.

        Does nothing if the program does not offer one of its clusters or strategies,
        as when the cutoff has fallen below the decision's value.
        """
        v, sets = self.variables, self.sets
        shape: list[Literal] = []
        for j, strategy, hosted in zip(
            decision.order, decision.strategies, decision.hosted, strict=True
        ):
            known = sets.table(j).strategies
            k = known.index(strategy) if strategy in known else None
            if k is None or (j, k) not in v.takes or hosted > sets.slots[j]:
                return
            shape.append(v.takes[j, k])
            shape.append(v.live[j][hosted - 1])
            shape += [~literal for literal in v.live[j][hosted : hosted + 1]]
        shape.append(v.first[decision.order[0]])
        shape += [v.follows[pair] for pair in pairwise(decision.order)]
        shape.append(v.last[decision.order[-1]])
        self.model.add_bool_or([~literal for literal in shape])

    def start(self, decision: Decision) -> list[tuple[cp_model.IntVar, int]] | None:
        """Return the values of the variables that determine all others.

        None if the program does not offer one of the decision's choices.
        """
        v, sets, chain = self.variables, self.sets, self.sets.chain
        hosted = dict(zip(decision.order, decision.hosted, strict=True))
        taken = []
        for j, strategy in zip(decision.order, decision.strategies, strict=True):
            known = sets.table(j).strategies
            k = known.index(strategy) if strategy in known else None
            if k is None or (j, k) not in v.takes or hosted[j] > sets.room_for(j, k):
                return None
            taken.append((j, k))
        pairs = list(pairwise(decision.order))
        values = [(v.first[j], int(j == decision.order[0])) for j in sets.clusters]
        values += [(v.last[j], int(j == decision.order[-1])) for j in sets.clusters]
        values += [(arc, int(pair in pairs)) for pair, arc in v.follows.items()]
        values += [(takes, int(key in taken)) for key, takes in v.takes.items()]
        for j, slots in v.live.items():
            values += [
                (live, int(r < hosted.get(j, 0))) for r, live in enumerate(slots)
            ]
        body = chain.without_ends(decision.units)
        ends = list(accumulate(body))
        stages = [(j, r) for j in decision.order for r in range(hosted[j])]
        for slot, units, end in zip(stages, body, ends, strict=True):
            held = chain.body[end - units : end]
            values += [(unit, held.count(f)) for f, unit in v.units[slot].items()]
        return values

    def extract(self, value: Callable[[cp_model.LinearExprT], int]) -> Decision:
        """Return the decision of a solution.

        Parameters
        ----------
        value
            Function that returns an expression's value in the solution.
        """
        v, sets = self.variables, self.sets
        after = {i: j for (i, j), arc in v.follows.items() if value(arc)}
        order = [j for j in sets.clusters if value(v.first[j])]
        while not value(v.last[order[-1]]):
            order.append(after[order[-1]])
        hosted = [sum(map(value, v.live[j])) for j in order]
        units = [
            sum(map(value, v.units[j, r].values()))
            for j, stages in zip(order, hosted, strict=True)
            for r in range(stages)
        ]
        return Decision(
            microbatches=sets.microbatches,
            order=tuple(order),
            strategies=tuple(
                sets.table(j).strategies[k]
                for j in order
                for k in sets.options[j]
                if value(v.takes[j, k])
            ),
            hosted=tuple(hosted),
            units=sets.chain.with_ends(units),
        )

    def tie_digits(self) -> list[Digit]:
        """Return the tie rule as digits, most significant first; see ``tie_digits``."""
        return tie_digits(self.variables)
