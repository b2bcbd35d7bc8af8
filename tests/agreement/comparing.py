"""All that solvers claim of one drawn instance, by the records of the solvers."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import asdict, replace
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

from hetopt.base.deadline import Deadline
from hetopt.check import check_result
from hetopt.check.verify.bound import PS_PER_NS, unproven
from hetopt.check.verify.certificate import CertificateCheck, not_covered
from hetopt.check.verify.said import Said
from hetopt.check.verify.tasks import SearchTask
from hetopt.cost.boundaries.places import searched_table
from hetopt.errors import InputError
from hetopt.planning.solving import solve_for
from hetopt.problem.training.pins import ANY
from hetopt.solvers.certificate.claim import certify
from hetopt.solvers.certificate.search_again import resolve, second_engine
from hetopt.solvers.params import MctsParams, RaceParams
from hetopt.solvers.refusals import ensure_can, ensure_plans
from hetopt.solvers.registry import SOLVERS
from hetopt.solvers.request import Request
from tests.agreement.lengths import divided
from tests.agreement.prices import bought
from tests.oracle import brute_force

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.cost.table.table import CostTable
    from hetopt.results.priced_plan import PricedPlan
    from hetopt.results.result import Result
    from hetopt.solvers.registry import Solver
    from tests.agreement.generator import Features
    from tests.oracle.brute_force import Answer, Found
    from tests.oracle.instances import Instance

TICK = Fraction(1, 10**9)
#: Relative difference up to which two numbers of seconds are equal.
EQUAL = 1e-12
#: The solver that has every instance; of the other exact ones, each has one in so many.
ALWAYS, TURNS = "dp", 2
#: Solvers that have fewer: with so much time ``auto`` is the dynamic program, and one
#: solver takes longer for an instance than all others together.
RARE = {"auto": 20, "miqp-highs": 20}
#: Rollouts of solvers that sample.
ROLLOUTS = 30
#: Seconds that no solver needs.
LIMIT_S = 120
#: One certificate in so many is verified, and all of its programs searched again.
CERTIFIED = 3
#: Python modules of solvers that need not be installed.
_NEEDED = {"miqp-scip": "pyscipopt", "miqp-gurobi": "gurobipy"}
#: Heuristics that divide the units by rules of their own.
_DIVIDING = ("dfs", "metis")


class Comparison:
    """What solvers answer to one instance, held against brute force."""

    def __init__(self, features: Features, instance: Instance, answer: Answer) -> None:
        self.features = features
        self.problem, self.table = instance.problem, instance.table
        self.answer = answer
        simulated = features.objective == "simulated"
        #: Whether simulated times are bounded, but not searched.
        self.bounded = simulated and bool(features.relaxed)
        #: Whether searches know what links that boundaries share cost.
        self.exact = not self.bounded and (
            self._searched() is self.table
            or (features.principles.consecutive and not simulated)
        )
        #: Whether of equally good plans a certain one is reported.
        self.ranked = not features.relaxed

    def _searched(self) -> CostTable:
        simulated = self.features.objective == "simulated"
        principles = self.features.principles
        return searched_table(self.table, principles, simulated=simulated)

    def findings(self) -> Iterator[str]:
        """Yield all that is wrong."""
        if self.features.lengths:
            simulated = self.features.objective == "simulated"
            yield from divided(self.problem, simulated=simulated)
            return
        for name in self.solvers():
            yield from self.of(name)
        if self.features.prices:
            yield from bought(self.problem, self.table, self.features.seed)

    def of(self, name: str) -> list[str]:
        """Return what is wrong with a solver's answer."""
        try:
            result = self.solved(SOLVERS[name])
            return [f"{name}: {each}" for each in self._findings(SOLVERS[name], result)]
        except Exception as error:
            return [f"{name}: {type(error).__name__}: {error}"]

    def solvers(self) -> list[str]:
        """Return the solvers that support the instance, by their records.

        Exact solvers take turns, but for the dynamic program: most have every second
        instance, and of the next round through the schedules the others.
        """
        return [
            name
            for number, (name, own) in enumerate(SOLVERS.items())
            if self._supports(own)
            and (
                self.features.objective == "simulated"
                or not own.proves
                or name == ALWAYS
                or (number + self.features.seed) % RARE.get(name, TURNS) == 0
            )
        ]

    def _supports(self, solver: Solver) -> bool:
        needed = _NEEDED.get(solver.name, "json")
        if solver.name == "uniap" or importlib.util.find_spec(needed) is None:
            return False  # it minimises something else, or is not installed
        clusters, pins = self.problem.clusters, self.problem.pins
        if solver.name == "metis" and any(own.unequal for own in clusters):
            return False
        units = [pins.of(own.name).units for own in clusters]
        if solver.name in _DIVIDING and (pins.units or set(units) != {ANY}):
            return False
        if self.bounded:
            return solver.name == ALWAYS
        if self.features.objective == "simulated":
            # The race for simulated times begins with any solver's plan.
            return solver.name == ("dp", "cp-sat")[self.features.seed % 2]
        try:
            ensure_can(solver.name, self.features.principles)
            ensure_plans(solver.name, self.features.schedule)
        except InputError:
            return False
        return True

    def solved(self, solver: Solver) -> Result:
        """Return a solver's result."""
        features, params = self.features, RaceParams(jobs=0)
        if solver.samples:
            params = MctsParams(jobs=0, iterations=ROLLOUTS)
        if solver.proves:
            principles = features.principles
            params = RaceParams(jobs=0, top=features.top, principles=principles)
        solve = solve_for(solver.name, features.objective)
        return solve(
            Request(
                problem=self.problem,
                table=self.table,
                params=params,
                deadline=Deadline.after(LIMIT_S),
                seed=features.seed,
            )
        )

    def _findings(self, solver: Solver, result: Result) -> Iterator[str]:
        data = json.loads(json.dumps(result.to_json()))
        yield from check_result(self.problem, self.table, data)
        if not solver.proves:
            yield from self._bounded(solver, result)
            return
        expected = self.answer.best
        if expected is None:
            if result.status != "infeasible" or result.best is not None:
                yield f"{result.status}, but there is no plan"
        elif result.best is None:
            yield f"{result.status}, expected {self._plan(expected)}"
        else:
            yield from self._optimal(result, expected)
            yield from self._next_best(result)
        yield from self._settled(result)
        certified = self.exact and self.features.seed % CERTIFIED == 0
        covered = not_covered(
            self.table, self.features.objective, self.features.principles
        )
        if solver.races and certified and covered is None:
            yield from self._certified(result)

    def _optimal(self, result: Result, expected: Found) -> Iterator[str]:
        """Yield how the best plan, its time or the bound differ."""
        assert result.best is not None
        value, found = self._seconds(expected), self._value(result.best)
        slack = self._slack(result.best, expected)
        if result.status != "optimal" and self.exact:
            yield f"{result.status}, expected an optimum"
        if abs(found - value) > slack and (self.exact or result.status == "optimal"):
            yield f"the best plan takes {found!r}, expected {value!r}"
        if found < value - slack:
            yield f"a plan takes {found!r}, but none takes less than {value!r}"
        bound = result.lower_bound_s
        if bound is None or bound > value + slack:
            yield f"no plan takes less than {bound!r}, but one takes {value!r}"
        if self.ranked and self.exact and result.best.plan != self._plan(expected):
            yield f"plan {result.best.plan}, expected {self._plan(expected)}"

    def _next_best(self, result: Result) -> Iterator[str]:
        """Yield how the next best plans differ."""
        if not self.ranked or result.status != "optimal" or result.best is None:
            return
        expected = self._shapes()[: self.features.top]
        found = [result.best, *result.alternatives]
        if len(found) != len(expected):
            yield f"{len(found)} plans, expected {len(expected)}"
        for number, (plan, other) in enumerate(zip(found, expected, strict=False)):
            value = self._seconds(other)
            if abs(self._value(plan) - value) > self._slack(plan, other):
                yield f"plan {number} takes {self._value(plan)!r}, expected {value!r}"
            elif self.exact and plan.plan != self._plan(other):
                yield f"plan {number} is not the next of equally good ones"

    def _shapes(self) -> list[Found]:
        """Return the best plans that are not a better one's copy on equal clusters."""
        pairs = self.problem.links.pairs
        alone = {
            own.name: repr(asdict(replace(own, name="", price_per_hour=None)))
            for own in self.problem.clusters
        }
        copies = [
            (own, sorted((alone[b], repr(pairs.get(frozenset({a, b})))) for b in alone))
            for a, own in alone.items()
        ]
        kept: dict[object, Found] = {}
        for found in self.answer.shapes:
            p, q, order, rows, stages = found.shape
            hosts = tuple(repr(copies[j]) for j in order)
            key = p, q, hosts, rows, stages, self._exact_ns(found)
            kept.setdefault(key, found)
        return list(kept.values())

    def _settled(self, result: Result) -> Iterator[str]:
        """Yield what is said of a (p, q) but does not hold."""
        programs = dict(self.answer.programs)
        for each in result.settlements:
            key = (each.stages, each.microbatches)
            found, bound = programs.pop(key, None), each.bound_s
            if each.how == "infeasible":
                if found is not None:
                    yield f"{key} is called infeasible, but has plans"
            elif each.how == "unsettled":
                if self.exact:
                    yield f"{key} is left unsettled"
            elif found is None:
                if each.how == "solved" and self.exact:
                    yield f"{key} is called solved, but has no plan"
            elif bound is None or bound > self._least(found) * (1 + EQUAL):
                least = self._least(found)
                yield f"{key} is bounded by {bound!r}, but a plan takes {least!r}"
            elif each.how == "solved" and self.exact and self.ranked:
                slack = (key[1] * self.table.chunks + 1) * float(TICK)
                if abs(bound - self._least(found)) > slack:
                    yield f"{key} is solved at {bound!r}, not {self._least(found)!r}"
        if result.settlements and programs:
            yield f"{sorted(programs)} have plans, but are not settled"

    def _certified(self, result: Result) -> Iterator[str]:
        """Yield what cannot be confirmed of the result's certificate."""
        problem, table, features = self.problem, self.table, self.features
        data = json.loads(certify(problem, table, result).to_text())
        plan = None if result.best is None else result.best.plan
        said = Said(
            plan=plan,
            relaxed=features.relaxed,
            objective=features.objective,
            status=result.status,
        )
        check = CertificateCheck(problem, table, data, said)
        yield from (f"certificate: {each}" for each in check.findings())
        for (p, q), found in self.answer.programs.items():
            above = {p: floor(self._exact_ns(found) * PS_PER_NS) + 1}
            args = (problem, check.searched, q, above, check.principles)
            if unproven(*args, objective=features.objective) != [p]:
                yield f"certificate: a bound above a plan of {(p, q)} is proven"
        if check.of_paths:
            for doubt in check.doubts:
                p, q = doubt.stages, doubt.microbatches
                if doubt.ranges is None or doubt.bound_ps is None:
                    continue
                task = SearchTask(q, {p: doubt.bound_ps}, {p: doubt.ranges})
                if task.run(check.verified())[p].plan is not None:
                    yield f"certificate: {doubt.field}: a plan below its bound is found"
            return
        principles = features.principles
        _, engine = second_engine(result.solver, 0, principles)
        # Programs of the table that solvers search.
        searched = resolve(
            problem,
            check.searched,
            check.doubts,
            engine,
            deadline=Deadline(),
            principles=principles,
        )
        for doubt, wrong in searched:
            if wrong is not None:
                yield f"certificate: {doubt.field}: {wrong}"

    def _bounded(self, solver: Solver, result: Result) -> Iterator[str]:
        """Yield where a heuristic is better than the best of its space."""
        if result.best is None or solver.space.relaxed:
            return
        best = self.answer.best
        if best is None:
            yield "found a plan, but there is none"
        elif self._value(result.best) < self._seconds(best) * (1 - 1e-9):
            yield f"{self._value(result.best)!r} is less than {self._seconds(best)!r}"

    def _plan(self, found: Found) -> object:
        return brute_force.to_plan(self.problem, self.table, found)

    def _value(self, plan: PricedPlan) -> float:
        simulated = self.features.objective == "simulated"
        return plan.iteration_time_s if simulated else plan.closed_form_s

    def _seconds(self, found: Found) -> float:
        """Return the exact time of a plan that brute force found."""
        return float(self._exact_ns(found) * TICK)

    def _exact_ns(self, found: Found) -> Fraction:
        if self.features.objective == "simulated":
            assert found.simulated_ns is not None
            return Fraction(found.simulated_ns)
        return found.closed_form_ns

    def _least(self, found: Found) -> float:
        """Return the time by which plans of one (p, q) are ranked."""
        if self.features.objective == "simulated":
            return self._seconds(found)
        return float(found.value_ns * TICK)

    def _slack(self, plan: PricedPlan, found: Found) -> float:
        """Return by how many seconds two best plans may differ."""
        exact = self._seconds(found) * EQUAL
        if self.ranked and self.exact:
            return exact
        # Searches of wider spaces, and of copies, do not round the period.
        q = max(plan.plan.pipeline.microbatches, found.shape[1])
        return exact + q * self.table.chunks * float(TICK)
