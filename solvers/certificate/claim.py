"""The certificate of a result: the claims that a race proved."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import numpy as np

from hetopt.cost.boundaries.places import searched_table
from hetopt.cost.folding import at_any_stages
from hetopt.cost.table_file.file import table_digest
from hetopt.errors import InputError
from hetopt.formulations.chain import Chain
from hetopt.formulations.program import ProgramData
from hetopt.formulations.scale import LONGEST, PERIOD_SCALE, ticks_above
from hetopt.formulations.space import undominated
from hetopt.pricing.price import pipeline_times
from hetopt.problem.training.principles import Principles
from hetopt.results.certificate import PS_S, Certificate, Claim
from hetopt.results.result import Time
from hetopt.schedule.run import simulate
from hetopt.solvers.bounds.by_count import focus, survey
from hetopt.solvers.bounds.relaxation import Relaxation
from hetopt.solvers.decisions.assembly import closed_value
from hetopt.solvers.simulated.search import survey as survey_simulated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result
    from hetopt.results.settlement import How, Settlement


#: Share that is claimed of a bound far above the value: the checker, which uses other
#: intervals of lambda, then need not make them very narrow to derive the bound.
_CLAIMED = 0.9
#: Largest width of the excess's intervals for simulated times, as a share of the value.
_CLOSELY = 1 / 32


def certify(problem: Problem, table: CostTable, result: Result) -> Certificate:
    """Return the certificate of a result.

    How a race settles a program depends on the plans it has found by then. So for an
    optimal result the claims are derived again, from the optimum alone.

    Raises
    ------
    InputError
        No certificate covers the objective of the result.
    """
    if result.objective not in get_args(Time):
        msg = f"no certificate covers the objective {result.objective}"
        raise InputError(msg)
    best = result.best
    principles = Principles.relaxing(result.relaxed)
    value = None
    if best is not None:
        times = pipeline_times(best.plan, table)
        value = (
            closed_value(times)
            if result.objective == "closed"
            else simulate(times).makespan_ns * PERIOD_SCALE
        )
    if best is not None and value is not None and result.status == "optimal":
        stages, q = len(best.plan.pipeline.stages), best.plan.pipeline.microbatches
        searched = searched_table(
            table, principles, simulated=result.objective == "simulated"
        )
        # Closed forms of several chunks are bounded by paths, too.
        of_paths = result.objective == "simulated" or table.chunks > 1
        kind = _SimulatedClaims if of_paths else _Claims
        claims = [*kind(problem, searched, value, (stages, q), principles).all()]
    else:
        claims = [_as_settled(settlement) for settlement in result.settlements]
        # Bounds of open programs matter up to the least of them.
        known = (claim.bound_ps for claim in claims if claim.bound_ps is not None)
        least = min(known, default=None)
        claims = [
            replace(claim, bound_ps=least) if claim.how == "unsettled" else claim
            for claim in claims
        ]
    # A bound above the longest iteration only says that there is no plan.
    claims = [
        claim
        if claim.bound_ps is None or claim.bound_ps <= LONGEST
        else replace(claim, bound_ps=LONGEST)
        for claim in claims
    ]
    claims.sort(key=lambda claim: (claim.microbatches, claim.stages))
    bounds = [claim.bound_ps for claim in claims if claim.bound_ps is not None]
    if value is not None:
        bounds.append(value)
    return Certificate(
        problem_digest=table.problem_digest,
        table_digest=table_digest(table),
        solver=result.solver,
        status=result.status,
        plan=None if best is None else best.plan,
        value_ps=value,
        lower_bound_ps=min(bounds, default=None),
        programs=tuple(claims),
        objective="simulated" if result.objective == "simulated" else "closed",
        relaxed=result.relaxed,
    )


def _as_settled(settlement: Settlement) -> Claim:
    bound = settlement.bound_s
    if bound is None and settlement.how != "infeasible":
        bound = 0.0
    return Claim(
        stages=settlement.stages,
        microbatches=settlement.microbatches,
        how=settlement.how,
        # One ps less, because seconds are rounded to floating point.
        bound_ps=None if bound is None else max(0, int(bound / PS_S * (1 - 1e-12)) - 1),
    )


class _Claims:
    """The claims about every (p, q), given the optimum."""

    def __init__(
        self,
        problem: Problem,
        table: CostTable,
        value: int,
        solved: tuple[int, int],
        principles: Principles,
    ) -> None:
        self.problem = problem
        self.table = table
        self.value = value
        self.solved = solved
        self.principles = principles
        self.chain = Chain.of(table)

    def all(self) -> Iterator[Claim]:
        for q in self.problem.microbatch_counts:
            yield from self._of(q)

    def _of(self, q: int) -> Iterator[Claim]:
        counts = self._stages(q)
        within = [p for p in counts if p <= self.chain.length]
        known = {part.microbatches for part in self.table.slices}
        if q in known and self.table.layout is not None:
            # No relaxation knows chunks that differ: the checker searches every p.
            for p in counts:
                how: How = "solved" if (p, q) == self.solved else "refuted-by-search"
                yield _claim(p, q, how, self.value)
            return
        if q not in known or not within:
            yield from (_claim(p, q, "infeasible", None) for p in counts)
            return
        relaxation = Relaxation(
            table=self.table,
            part=at_any_stages(
                undominated(self.table, self.table.at(q), self.chain, self.principles)
            ),
            chain=self.chain,
            pins=self.problem.rules,
            most_stages=max(within),
            principles=self.principles,
        )
        yield from self._bounded(relaxation, q, within)

    def _stages(self, q: int) -> list[int]:
        return [p for p, other in self.problem.programs if other == q]

    def _bounded(
        self, relaxation: Relaxation, q: int, within: list[int]
    ) -> Iterator[Claim]:
        """Yield the claim about every p that the relaxation supports."""
        counts = self._stages(q)
        # The relaxation counts in ns, the claims in ps.
        cutoff = ticks_above(self.value)
        anyhow = survey(relaxation, cutoff=None).bound
        close = survey(relaxation, cutoff=cutoff).bound
        for p in counts:
            if p not in within or not np.isfinite(anyhow[p]):
                yield _claim(p, q, "infeasible", None)
            elif (p, q) == self.solved:
                yield _claim(p, q, "solved", self.value)
            elif anyhow[p] > cutoff:
                bound = int(anyhow[p] * PERIOD_SCALE * _CLAIMED)
                bound = min(max(bound, self.value), LONGEST)
                yield _claim(p, q, "refuted-by-bound", bound)
            elif (
                close[p] > cutoff or focus(relaxation, p, cutoff=cutoff).bound > cutoff
            ):
                yield _claim(p, q, "refuted-by-bound", self.value)
            else:
                yield _claim(p, q, "refuted-by-search", self.value)


class _SimulatedClaims(_Claims):
    """The same claims for times that are bounded by paths."""

    def _bounded(
        self, relaxation: Relaxation, q: int, within: list[int]
    ) -> Iterator[Claim]:
        # Whether there is any plan does not depend on the objective.
        anyhow = survey(relaxation, cutoff=None).bound
        data = ProgramData.of(
            self.table,
            self.table.at(q),
            self.chain,
            self.problem.rules,
            stages=max(within),
            cutoff=0,
        )
        limit = self.value // PERIOD_SCALE - 1
        bound = survey_simulated(data, limit, _CLOSELY)
        for p in self._stages(q):
            if p not in within or not np.isfinite(anyhow[p]):
                yield _claim(p, q, "infeasible", None)
            elif (p, q) == self.solved:
                yield _claim(p, q, "solved", self.value)
            elif bound[p] > limit:
                yield _claim(p, q, "refuted-by-bound", self.value)
            else:
                yield _claim(p, q, "refuted-by-search", self.value)


def _claim(stages: int, microbatches: int, how: How, bound: int | None) -> Claim:
    return Claim(stages=stages, microbatches=microbatches, how=how, bound_ps=bound)
