"""The interval program of one (p, q): a strong mixed-integer linear form.

Stages 0..p-1 are covered by *arcs*: a host (cluster j with strategy k) on the stages
from r to e - 1. So P2 needs no rows, P3 and P4 one per cluster. As positions are known,
memory limits the units of a stage directly: by exact integers if they are alike.

Symbols (MODEL.md): stages s, boundaries r (before stage r), unit kinds f, cut
classes x, layouts a; a host h is (j, k), and with ``virtual-1f1b`` also the number of
clusters after it if memory depends on that: W of stage s is
``1 + (p - 1 - s) + clusters after``.

=======================  ====================================================
``hosts(h,r..e-1)``      host h has exactly these stages; binary
``on(h,s)``              host h has stage s
``held(h,s,f)``          body units of kind f on stage s if h has it, else 0
``units(s)``             body units on stage s; integer, if all are alike
``cut(r,c)``             c body units lie before boundary r; binary, if not
``hop(r,x,a,b)``         boundary r, a cut of class x, goes from a to b
``inner(r,x,a)``         boundary r, a cut of class x, lies inside a cluster
``ends(a,b)``            the first stage has layout a and the last layout b
``tau(s)``, ``kappa(r)`` times of a stage and of a boundary
``lag(s)``               E of MODEL.md section 4
``extra(r)``             lambda if boundary r crosses clusters, else 0
``period``               lambda
``sync``                 the largest g
=======================  ====================================================

Only arcs, units and cuts are integer; they determine all other values. Nothing is
rounded except by floating point; lambda is a ratio here, not a whole tick.

Big-Ms are lambda's bounds from ``ProgramData`` (``extra``), the largest capacity
(``holds``) and differences of bytes (``memory``), each stated with its row.
``h-1f1b`` has columns of its own; see ``intervals.warmups``.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import floor
from typing import TYPE_CHECKING

from hetopt.formulations.decision import Decision
from hetopt.formulations.intervals import cover, period, units, warmups
from hetopt.formulations.intervals.pins import pin
from hetopt.formulations.intervals.sets import Arc, Host, IntervalSets
from hetopt.formulations.intervals.variables import IntervalVariables
from hetopt.formulations.linear_program import LinearProgram, combine, total
from hetopt.formulations.scale import PERIOD_SCALE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.formulations.linear_program import Terms
    from hetopt.formulations.program import ProgramData

#: Relative amount by which a plan may seem to exceed the cutoff in floating point.
CUTOFF_SLACK = 1e-9
#: Relative amount that floating point may have added to a bound.
_BOUND_MARGIN = 1e-9


class IntervalProgram:
    """Columns and rows of one (p, q); building it solves nothing.

    Attributes
    ----------
    program
        For a solver; its objective is in ``unit_ns`` nanoseconds.
    """

    def __init__(self, data: ProgramData) -> None:
        self.data = data
        self.program = LinearProgram()
        self.sets = IntervalSets(data)
        self.variables = v = IntervalVariables(self.program, self.sets)

        cover.cover_stages(v)
        cover.use_clusters_once(v)
        cover.follow(v)
        cover.cross(v)
        warmups.adapt_warmups(v)
        units.place_units(v)
        units.hold_units(v)
        units.follow_chain(v)
        units.fit_memory(v)
        period.add_up_times(v)
        period.synchronise(v)
        if self.sets.steady:
            period.bound_period(v)
            period.device_time(v)
        pin(v)
        self._minimise()
        self._excluded = 0

    @property
    def unit_ns(self) -> int:
        """Nanoseconds in the objective's unit."""
        return self.variables.unit_ns

    @property
    def scale(self) -> int:
        """1 / PERIOD_SCALE ticks in the objective's unit."""
        return PERIOD_SCALE * self.unit_ns

    def _minimise(self) -> None:
        """Minimise the closed form ``sum (tau + 2 kappa) + (q - 1) lambda + max g``."""
        v, sets = self.variables, self.sets
        parts = [
            (1.0, total(v.fill)),
            (2.0, total(v.kappa.values())),
            (1.0, total([v.sync])),
        ]
        if v.period is not None:
            parts.append((sets.passes - 1, total([v.period])))
        objective: Terms = combine(parts)
        limit = self.data.cutoff / self.scale
        self.program.row("cutoff", objective, upper=limit * (1 + CUTOFF_SLACK))
        self.program.minimize(objective)

    def exclude(self, decision: Decision, *, units: bool = False) -> None:
        """Rule out a decision's shape, or with ``units`` only the decision itself.

        Does nothing if the program does not offer one of its arcs.
        """
        shape = self._arcs_of(decision)
        if shape is None:
            return
        name = f"excluded({self._excluded})"
        terms = total(shape)
        most = len(shape) - 1
        if units:
            alike, count = self._alike(decision, name)
            terms = combine([(1, terms), (1, total(alike))])
            most += count
        self.program.row(name, terms, upper=most)
        self._excluded += 1

    def start(self, decision: Decision) -> dict[int, float] | None:
        """Return the values of arcs, units and cuts, which are all that is decided.

        None if the program does not offer an arc or a cut.
        """
        v, shape = self.variables, self._arcs_of(decision)
        if shape is None:
            return None
        values = {column: 0.0 for column in v.hosts.values()}
        values |= {column: 1.0 for column in shape}
        body = self._body(decision)
        values |= {column: float(body[s]) for s, column in v.units.items()}
        for columns, end in zip(v.cut.values(), accumulate(body), strict=False):
            if end not in columns:
                return None
            values |= {column: float(c == end) for c, column in columns.items()}
        return values

    def _arcs_of(self, decision: Decision) -> list[int] | None:
        """Return the arcs of a decision's shape; None if one is not available."""
        v, first = self.variables, 0
        shape: list[int] = []
        for run, (j, strategy, stages) in enumerate(
            zip(decision.order, decision.strategies, decision.hosted, strict=True)
        ):
            known = self.sets.table(j).strategies
            if strategy not in known:
                return None
            after = len(decision.order) - 1 - run if self.sets.told_apart else 0
            arc = Arc(Host(j, known.index(strategy), after), first, stages)
            if arc not in v.hosts:
                return None
            shape.append(v.hosts[arc])
            first += stages
        return shape

    def _body(self, decision: Decision) -> list[int]:
        """Return a decision's body units per stage."""
        return [*self.sets.chain.without_ends(decision.units)]

    def _alike(self, decision: Decision, name: str) -> tuple[list[int], int]:
        """Return columns that have to sum to their number if stages have these units.

        Also returns that number. The columns are cuts, or pairs of binaries that both
        have to be 1 only if ``units(s)`` is the decision's.
        """
        v, body = self.variables, self._body(decision)
        if not v.units:
            ends = zip(v.cut.values(), accumulate(body), strict=False)
            cuts = [columns[end] for columns, end in ends]
            return cuts, len(cuts)
        program, length = self.program, self.sets.chain.length
        columns = []
        for s, column in v.units.items():
            same = [
                program.column(f"{side}_{name}({s})", upper=1, integer=True)
                for side in ("not_below", "not_above")
            ]
            not_below, not_above = same
            # units <= n - 1 + length not_below; units >= n + 1 - length not_above
            program.row(
                f"below_{name}({s})", {column: 1, not_below: -length}, upper=body[s] - 1
            )
            program.row(
                f"above_{name}({s})", {column: 1, not_above: length}, lower=body[s] + 1
            )
            columns += same
        return columns, len(columns)

    def bound(self, value: float) -> int:
        """Return a valid objective in 1 / PERIOD_SCALE ticks below a solver's bound."""
        least = floor(value * self.scale * (1 - _BOUND_MARGIN))
        return max(self.data.objective_min, least)

    def extract(self, values: Sequence[float]) -> Decision:
        """Return the decision of a solution, which has a value for every column."""
        v, sets, chain = self.variables, self.sets, self.sets.chain
        arcs = sorted(
            (arc for arc, column in v.hosts.items() if values[column] > 0.5),
            key=lambda arc: arc.first,
        )
        if chain.is_uniform:
            body = [round(values[v.units[s]]) for s in range(sets.stages)]
        else:
            cuts = [0]
            for columns in v.cut.values():
                cuts += [c for c, column in columns.items() if values[column] > 0.5]
            cuts.append(chain.length)
            body = [high - low for low, high in pairwise(cuts)]
        return Decision(
            microbatches=sets.microbatches,
            order=tuple(arc.host.cluster for arc in arcs),
            strategies=tuple(
                sets.table(arc.host.cluster).strategies[arc.host.strategy]
                for arc in arcs
            ),
            hosted=tuple(arc.stages for arc in arcs),
            units=chain.with_ends(body),
        )
