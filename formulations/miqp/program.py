"""The MIQP of one (p, q): HetAuto's nested problem (App. B), as the paper writes it.

Symbols (MODEL.md): body units u, v and edges (u, v) between neighbours, stages i,
clusters j, strategies k of a cluster, unit kinds f, layouts a, b, cut classes x.

====================  =====================================================
``P[u, i]``           unit u lies on stage i; ``Z[u, i]``: UniAP's auxiliary (6a-6c)
``X[i, j]``           stage i lives on cluster j (P2)
``opens[i, j]``       stage i is the first of cluster j (P3)
``Y[j, k]``           cluster j takes strategy k (P4; without it there is only S)
``S[i, j, k]``        stage i has strategy k of cluster j: ``X[i, j] Y[j, k]``
``N[i, f]``           body units of kind f on stage i
``n[i, j, k, f]``     the same if it takes (j, k), else 0: ``S[i, j, k] N[i, f]``
``layout[i, a]``      layout of the boundary tensor of stage i
``edge[i, a, b]``     the boundary after it: ``layout[i, a] layout[i + 1, b]``
``cut[i, x]``         class of the cut after it; ``hop[i, x, a, b]``: with the edge
``tau[i]``            round trip of stage i; ``kappa[i]``: of the boundary after it
``delta[i]``          W_i - W_(i + 1), an expression; ``flight[i, w]``: min(W, q) is w
``period``            lambda; ``lag[i]``: E_i of the window rows
``sync``              the largest g
====================  =====================================================

Products of variables stay products: those of two binaries (S, edge), of a binary
and a count (n), and of a binary and lambda (the window rows). Rows ``eq_*`` belong to
the model, ``def_*`` define an auxiliary, ``cut_*`` are valid inequalities that may be
deactivated. Times are in ``unit`` ticks and lambda is not rounded: this program is for
floating-point solvers, and their answers are priced again in exact integers.
"""

from __future__ import annotations

from itertools import groupby
from math import inf
from typing import TYPE_CHECKING, Any

import pyomo.environ as pyo
from pyomo.repn import generate_standard_repn

from hetopt.formulations.decision import Decision
from hetopt.formulations.miqp import costs, cuts, memory, placement
from hetopt.formulations.miqp.sets import MARGIN, Places
from hetopt.formulations.scale import PERIOD_SCALE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.formulations.program import ProgramData


class QuadraticProgram:
    """Variables and constraints of one (p, q); building it solves nothing.

    Attributes
    ----------
    model
        A Pyomo model, for a solver that accepts products, or to be linearised.
    places
        Sets and parameters; ``places.unit`` is the unit of times.
    """

    def __init__(self, data: ProgramData) -> None:
        self.data = data
        self.places = s = Places(data)
        self.model = m = pyo.ConcreteModel("miqp")
        if s.impossible:
            placement.forbid(m)
            m.closed_form = pyo.Objective(expr=m.never)
            return

        placement.add_placement(m, s)
        placement.place_units(m, s)
        placement.keep_contiguous(m, s)
        placement.keep_order(m, s)
        placement.place_stages(m, s)
        placement.keep_clusters_together(m, s)
        placement.choose_strategies(m, s)
        placement.keep_tp_falling(m, s)
        placement.limit_devices(m, s)
        placement.hold_units(m, s)
        placement.pin(m, s)
        costs.time_stages(m, s)
        costs.lay_out(m, s)
        costs.cross(m, s)
        costs.classify_cuts(m, s)
        costs.price_boundaries(m, s)
        memory.add_warmups(m, s)
        memory.fit_memory(m, s)
        costs.add_period(m, s)
        costs.bound_windows(m, s)
        costs.synchronise(m, s)
        costs.minimise(m, s)
        self._limit_objective()

        cuts.device_time(m, s)
        cuts.cluster_window(m, s)
        cuts.run_length(m, s)
        cuts.split_products(m, s)
        cuts.nest_units(m, s)
        m.excluded = pyo.ConstraintList()

    def _limit_objective(self) -> None:
        """Limit the objective to the range of interest, relaxed by ``MARGIN``."""
        m, s, data = self.model, self.places, self.data
        m.eq_cutoff = pyo.Constraint(
            expr=m.closed_form.expr <= s.value(data.cutoff + 1) * (1 + MARGIN)
        )
        # the bound counts lambda rounded up to a whole 1 / PERIOD_SCALE tick
        least = data.objective_min - s.sets.microbatches
        if least > 0:
            m.eq_least = pyo.Constraint(
                expr=m.closed_form.expr >= s.value(least) * (1 - MARGIN)
            )

    def bound(self, value: float) -> int:
        """Return a valid objective in 1 / PERIOD_SCALE ticks below a solver's bound."""
        ticks = value * self.places.unit * PERIOD_SCALE
        least = int(ticks * (1 - 2 * MARGIN)) - 1
        return min(max(self.data.objective_min, least), self.data.cutoff + 1)

    def exclude(self, decision: Decision, *, units: bool = False) -> None:
        """Rule out a decision's shape, or with ``units`` only the decision itself.

        Does nothing if the program does not offer one of its choices.
        """
        m, s = self.model, self.places
        if s.impossible:
            return
        rows = []
        i = 0
        for j, strategy, hosted in zip(
            decision.order, decision.strategies, decision.hosted, strict=True
        ):
            known = s.sets.table(j).strategies
            k = known.index(strategy) if strategy in known else None
            if k is None or (j, k) not in s.sets.capacity:
                return
            stages = range(i, i + hosted)
            i += hosted
            if s.mixed:
                if any((at, j, k) not in m.S for at in stages):
                    return
                rows += [m.S[at, j, k] for at in stages]
                continue
            rows.append(m.Y[j, k])
            rows += [m.X[at, j] for at in stages]
        if units:
            lead = sum(s.chain.lead)
            ends = [sum(decision.units[: at + 1]) - lead for at in s.stages[:-1]]
            rows += [m.P[end, at + 1] for at, end in enumerate(ends)]
        m.excluded.add(sum(rows) <= len(rows) - 1)

    def start(self, decision: Decision) -> bool:
        """Set the variables that a decision determines, and all others to None.

        Returns whether the program offers all of its choices.
        """
        m, s = self.model, self.places
        for variable in m.component_data_objects(pyo.Var):
            variable.set_value(None)
        choices = []
        for j, strategy, hosted in zip(
            decision.order, decision.strategies, decision.hosted, strict=True
        ):
            known = s.sets.table(j).strategies
            k = known.index(strategy) if strategy in known else None
            choices += [(j, k)] * hosted
        if any((i, *choice) not in m.S for i, choice in enumerate(choices)):
            return False
        lead = sum(s.chain.lead)
        ends = [sum(decision.units[: i + 1]) - lead for i in s.stages]
        ends[-1] = s.chain.length
        first = [0, *ends[:-1]]
        owners = [j for j, _ in choices]
        for (u, i), variable in m.P.items():
            variable.set_value(int(first[i] <= u < ends[i]))
        for (i, f), variable in m.N.items():
            variable.set_value(s.chain.body[first[i] : ends[i]].count(f))
        for (i, j), variable in m.X.items():
            variable.set_value(int(owners[i] == j))
            before = owners[i - 1] if i else None
            m.opens[i, j].set_value(int(owners[i] == j != before))
        for key, variable in m.Y.items():
            variable.set_value(int(key in choices))
        for (i, *choice), variable in m.S.items():
            variable.set_value(int(tuple(choice) == choices[i]))
        for (i, a), variable in m.layout.items():
            variable.set_value(int(s.sets.layout(*choices[i]) == a))
        return True

    def mark(self, name: str) -> None:
        """Add a variable of this name, fixed at 1, that marks files and solutions."""
        variable, row = pyo.Var(bounds=(0, 1)), pyo.Constraint()
        self.model.add_component(name, variable)
        self.model.add_component(f"is_{name}", row)
        row.set_value(variable == 1)

    def write(self, path: str) -> tuple[int, int, int]:
        """Write the program in the format its name ends in: .lp or .mps.

        Returns
        -------
        variables, rows, rows with products
        """
        m = self.model
        self._write(path)
        degrees = [
            row.body.polynomial_degree()
            for row in m.component_data_objects(pyo.Constraint, active=True)
        ]
        variables = sum(1 for _ in m.component_data_objects(pyo.Var))
        return variables, len(degrees), degrees.count(2)

    def written_variables(self, path: str) -> dict[str, Any]:
        """Return the variables by the names that ``write`` gives them.

        Parameters
        ----------
        path
            A file that may be overwritten.
        """
        symbols = self.model.solutions.symbol_map[self._write(path)].bySymbol
        return {name: part for name, part in symbols.items() if part.ctype is pyo.Var}

    def activities(self) -> Iterator[tuple[str, float, float, float, float]]:
        """Yield name, value, magnitude and both limits of every row and variable.

        The magnitude is the sum of the absolute values of a row's terms. Variables in
        rows must have values.
        """
        m = self.model
        for variable in m.component_data_objects(pyo.Var):
            low, high = variable.bounds
            if variable.value is not None:
                size = abs(variable.value)
                yield variable.name, variable.value, size, *_limits(low, high)
        for row in m.component_data_objects(pyo.Constraint, active=True):
            form = generate_standard_repn(row.body, compute_values=True)
            terms = [
                *zip(form.linear_coefs, form.linear_vars, strict=True),
                *(
                    (value * one.value, other)
                    for value, (one, other) in zip(
                        form.quadratic_coefs, form.quadratic_vars, strict=True
                    )
                ),
            ]
            parts = [form.constant, *(value * each.value for value, each in terms)]
            limits = _limits(pyo.value(row.lower), pyo.value(row.upper))
            yield row.name, sum(parts), sum(map(abs, parts)), *limits

    def _write(self, path: str) -> int:
        """Write the file; return the number of Pyomo's symbol map for it."""
        names = {"symbolic_solver_labels": True}
        _, number = self.model.write(path, io_options=names)
        return int(number)

    def extract(self) -> Decision:
        """Return the decision from the values that a solver loaded into the model."""
        m, s = self.model, self.places
        hosts = [self._host(i) for i in s.stages]
        runs = [(host, len(list(group))) for host, group in groupby(hosts)]
        units = [
            round(sum(pyo.value(m.N[i, f]) for f in s.chain.kinds)) for i in s.stages
        ]
        return Decision(
            microbatches=s.sets.microbatches,
            order=tuple(j for (j, _), _ in runs),
            strategies=tuple(s.sets.table(j).strategies[k] for (j, k), _ in runs),
            hosted=tuple(count for _, count in runs),
            units=s.chain.with_ends(units),
        )

    def _host(self, i: int) -> tuple[int, int]:
        """Return the cluster and the strategy of stage i."""
        m, s = self.model, self.places
        j = _chosen({j: m.X[i, j] for j in s.sets.clusters})
        if not s.mixed:
            return j, _chosen({k: m.Y[j, k] for k in s.sets.options[j]})
        return j, _chosen({k: m.S[i, j, k] for o, k in s.choices[i] if o == j})


def _limits(low: float | None, high: float | None) -> tuple[float, float]:
    """Return limits as numbers."""
    return -inf if low is None else low, inf if high is None else high


def _chosen(variables: dict[int, Any]) -> int:
    """Return which of several binaries is 1."""
    values: Sequence[tuple[float, int]] = [
        (pyo.value(variable), index) for index, variable in variables.items()
    ]
    return max(values)[1]
