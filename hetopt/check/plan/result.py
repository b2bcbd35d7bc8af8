"""Check every claim of a result: times, bound, gap, rates, certificate."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from hetopt.check.plan.best_schedule import Schedules
from hetopt.check.plan.cost import cost_findings
from hetopt.check.plan.divided import Divided
from hetopt.check.plan.plan import CheckedPlan, check_plan
from hetopt.check.plan.programs import all_programs, equal_stages
from hetopt.check.plan.reading import (
    choice,
    choices,
    items,
    mapping,
    number,
    read_plan,
    read_principles,
    text,
    whole,
)
from hetopt.check.plan.spent import Spending, bound_findings
from hetopt.cost.table.ticks import TICK_S
from hetopt.errors import CheckError
from hetopt.problem.training.principles import PRUNED
from hetopt.results.result import RESULT_SCHEMA, Objective, Status
from hetopt.results.settlement import OPTIMALITY_GAP, How

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem

#: Relative difference up to which two numbers count as equal.
TOLERANCE = 1e-9


def check_result(
    problem: Problem, table: CostTable, result_json: Mapping[str, Any]
) -> list[str]:
    """Return one line for every claim that does not hold; none if all do.

    Parameters
    ----------
    result_json
        As ``Result.to_json`` makes it and plan files hold it.

    Raises
    ------
    InputError
        The data is not a result; the field names the key.
    DigestError
        A plan in it was made from another problem or table.
    """
    claims = _Claims(problem, table, mapping(result_json, ""))
    return list(claims.findings())


class _Claims:
    """The claims of a well-formed result, true or not."""

    def __init__(
        self, problem: Problem, table: CostTable, data: Mapping[str, Any]
    ) -> None:
        self.problem = problem
        self.table = table
        self.data = data
        choice(data, "schema", (RESULT_SCHEMA,), "")
        self.status = choice(data, "status", choices(Status), "")
        self.objective = choice(data, "objective", choices(Objective), "")
        text(data, "solver", "")
        self.principles = PRUNED
        if "relaxed" in data:
            self.principles = read_principles(data)
        self.numbers = {
            key: number(data, key, "")
            for key in (
                "closed_form_s",
                "iteration_time_s",
                "lower_bound_s",
                "gap",
                "search_time_s",
                "tokens_per_s",
                "mfu",
                "mfu_used",
                *(("objective_s",) if self.objective == "uniap" else ()),
            )
        }
        settled = mapping(data.get("settled"), "settled")
        self.settled = {key: whole(settled, key, "settled") for key in settled}
        self.kinds = dict(mapping(data.get("table_kinds"), "table_kinds"))
        self.settlements: dict[tuple[int, int], tuple[str, float | None]] = {}
        self.repeated: list[tuple[int, int]] = []
        for place, item in items(data, "settlements", ""):
            entry = mapping(item, place)
            key = (
                whole(entry, "stages", place),
                whole(entry, "microbatches", place),
            )
            if key in self.settlements:
                self.repeated.append(key)
            how = choice(entry, "how", choices(How), place)
            self.settlements[key] = (how, number(entry, "bound_s", place))
        plan = data.get("plan")
        self.plan = None if plan is None else read_plan(plan, "plan")
        self.cost = None
        if data.get("cost") is not None:
            self.cost = mapping(data["cost"], "cost")
        self.spending = None
        if "spent" in data:
            spent = mapping(data["spent"], "spent")
            self.spending = Spending(problem, table, spent)
        self.divided = Divided.of(problem, table, data, self.principles)
        self.schedules = Schedules(data) if "schedules" in data else None
        self.alternatives: list[tuple[str, Mapping[str, Any], Plan]] = []
        for place, item in items(data, "alternatives", ""):
            entry = mapping(item, place)
            other = read_plan(entry.get("plan"), f"{place}.plan")
            self.alternatives.append((place, entry, other))

    def findings(self) -> Iterator[str]:
        yield from self._table_findings()
        yield from self._count_findings()
        if self.divided is not None:
            yield from self.divided.findings()
            if self.settlements or self.alternatives:
                yield "several: there are settlements or alternatives"
        elif self.spending is None:
            yield from self._settlement_findings()
            if self.objective == "cost":
                yield "objective: cost, but 'spent' is missing"
        else:
            yield from self._spending_findings(self.spending)
        if self.plan is None:
            yield from self._no_plan_findings()
            if self.spending is not None:
                yield from self._spent_bound_findings(self.spending, None)
            if self.divided is not None:
                yield from self.divided.no_plan_findings(self.status)
            if self.schedules is not None:
                yield from self.schedules.findings(None, None)
                yield from self.schedules.no_plan_findings(self.status)
            return
        yield from self._plan_findings(self.plan)

    # --- each family of claims ------------------------------------------------------

    def _plan_findings(self, plan: Plan) -> Iterator[str]:
        """Compare what is claimed about the plan with what follows from it."""
        if self.status in ("infeasible", "unknown"):
            yield f"status: {self.status}, but there is a plan"
        if self.data.get("reason") is not None:
            yield "reason: there is one, but there is a plan"
        try:
            checked = self._check(plan)
        except CheckError as error:
            yield from error.findings
            return
        yield from self._same("closed_form_s", checked.closed_form_s)
        yield from self._same("iteration_time_s", checked.iteration_time_s)
        yield from self._rate_findings(plan, checked)
        if self.cost is not None:
            time_s = checked.iteration_time_s
            yield from cost_findings(self.problem, plan, time_s, self.cost)
        value = checked.closed_form_s
        if self.objective == "simulated":
            value = checked.iteration_time_s
        if (self.objective == "uniap") != (checked.uniap_s is not None):
            has = "has no" if checked.uniap_s is None else "has"
            yield f"objective: {self.objective}, but the plan {has} strategies per unit"
        elif checked.uniap_s is not None:
            value = checked.uniap_s
            yield from self._same("objective_s", value)
        if self.spending is not None:
            yield from self._spent_bound_findings(self.spending, value)
            return
        if self.divided is not None:
            yield from self.divided.plan_findings(
                plan, value, self.status, self.numbers
            )
            return
        if self.schedules is not None:
            yield from self.schedules.findings(plan, value)
        yield from self._bound_findings(plan, value)
        yield from self._program_findings("plan", plan, value)
        yield from self._alternative_findings(plan, checked)

    def _check(self, plan: Plan) -> CheckedPlan:
        return check_plan(self.problem, self.table, plan, self.principles)

    def _same(self, key: str, value: float) -> Iterator[str]:
        claimed = self.numbers[key]
        if claimed is None or not _close(claimed, value):
            yield f"{key}: {claimed}, expected {value!r}"

    def _table_findings(self) -> Iterator[str]:
        expected = dict(zip(self.table.cluster_names, self.table.sources, strict=True))
        if self.kinds != expected:
            yield f"table_kinds: {self.kinds}, expected {expected}"

    def _count_findings(self) -> Iterator[str]:
        counts = Counter(how for how, _ in self.settlements.values())
        if self.settled != dict(counts):
            yield f"settled: {self.settled}, the settlements say {dict(counts)}"

    def _settlement_findings(self) -> Iterator[str]:
        for p, q in self.repeated:
            yield f"settlements: ({p}, {q}) more than once"
        for (p, q), (how, bound) in self.settlements.items():
            if how == "infeasible" and bound is not None:
                yield f"settlements: ({p}, {q}) is infeasible, but has a bound"
            if how != "infeasible" and bound is None and how != "unsettled":
                yield f"settlements: ({p}, {q}) is {how}, but has no bound"
        if self.status in ("optimal", "infeasible"):
            programs = all_programs(self.problem, self.table)
            if self.objective == "uniap":
                programs = equal_stages(self.problem)
            for p, q in programs:
                if (p, q) not in self.settlements:
                    yield f"settlements: ({p}, {q}) is missing"

    def _spending_findings(self, spending: Spending) -> Iterator[str]:
        yield from spending.findings()
        if self.settlements:
            yield "settlements: not allowed in a result with 'spent'"
        if self.objective == "uniap":
            yield "objective: uniap is not allowed in a result with 'spent'"
        if self.alternatives:
            yield "alternatives: not allowed in a result with 'spent'"

    def _spent_bound_findings(
        self, spending: Spending, value: float | None
    ) -> Iterator[str]:
        return bound_findings(
            spending,
            status=self.status,
            objective=self.objective,
            plan=self.plan,
            value=value,
            lower_bound_s=self.numbers["lower_bound_s"],
            gap=self.numbers["gap"],
        )

    def _no_plan_findings(self) -> Iterator[str]:
        if self.status in ("optimal", "feasible"):
            yield f"status: {self.status}, but there is no plan"
        for key in (
            "closed_form_s",
            "iteration_time_s",
            "objective_s",
            "gap",
            "tokens_per_s",
            "mfu",
            "mfu_used",
        ):
            if self.numbers.get(key) is not None:
                yield f"{key}: {self.numbers[key]}, but there is no plan"
        if self.cost is not None:
            yield "cost: there is one, but there is no plan"
        if self.alternatives:
            yield "alternatives: there are some, but there is no plan"
        if self.status == "infeasible":
            for (p, q), (how, _) in self.settlements.items():
                if how != "infeasible":
                    yield f"status: infeasible, but ({p}, {q}) is {how}"

    def _rate_findings(self, plan: Plan, checked: CheckedPlan) -> Iterator[str]:
        table, time_s = self.table, checked.iteration_time_s
        yield from self._same("tokens_per_s", table.tokens / time_s)
        offered = used = 0.0
        for j, name in enumerate(table.cluster_names):
            devices = sum(
                stage.strategy.devices
                for pipeline in plan.pipelines
                for stage in pipeline.stages
                if stage.cluster == name
            )
            offered += table.cluster_devices[j] * table.peak_flops[j]
            used += devices * table.peak_flops[j]
        yield from self._same("mfu", table.model_flops / (time_s * offered))
        yield from self._same("mfu_used", table.model_flops / (time_s * used))

    def _bound_findings(self, plan: Plan, value: float) -> Iterator[str]:
        bound, gap = self.numbers["lower_bound_s"], self.numbers["gap"]
        if bound is None:
            if gap is not None:
                yield f"gap: {gap}, but there is no lower bound"
            if self.status == "optimal":
                yield "status: optimal, but there is no lower bound"
            return
        if bound > value * (1 + TOLERANCE):
            yield f"lower_bound_s: {bound}, more than the plan's {value!r}"
        expected = max(0.0, (value - bound) / value)
        if gap is None or abs(gap - expected) > TOLERANCE:
            yield f"gap: {gap}, expected {expected!r}"
        if self.status == "optimal" and expected > OPTIMALITY_GAP + TOLERANCE:
            yield f"status: optimal, but the gap is {expected!r}"
        bounds = [b for how, b in self.settlements.values() if how != "infeasible"]
        if None in bounds:
            yield "lower_bound_s: given, but some (p, q) has no bound"
        parts = "the settlements"
        if self.schedules is not None:
            beside = self.schedules.bounds_beside(plan)
            if None in beside:
                yield "lower_bound_s: given, but some schedule has no bound"
            bounds, parts = bounds + beside, f"{parts} and schedules"
        lowest = min((b for b in bounds if b is not None), default=None)
        if lowest is not None:
            # the bound may not exceed the least of the bounds it is made of
            if bound > lowest * (1 + TOLERANCE):
                yield f"lower_bound_s: {bound}, {parts} prove only {lowest!r}"
            elif not _close(bound, min(lowest, value)):
                yield f"lower_bound_s: {bound}, {parts} say {lowest!r}"

    def _program_findings(self, what: str, plan: Plan, value: float) -> Iterator[str]:
        key = (len(plan.pipelines[0].stages), plan.pipelines[0].microbatches)
        how, bound = self.settlements.get(key, (None, None))
        # programs are searched with the period rounded up to a whole tick
        limit = value * (1 + TOLERANCE) + key[1] * TICK_S
        if how is None:
            yield f"settlements: {what} belongs to {key}, which is missing"
        elif how == "infeasible":
            yield f"settlements: {key} is infeasible, but {what} belongs to it"
        elif bound is not None and bound > limit:
            yield f"settlements: {key} is bounded by {bound}, {what} takes {value!r}"

    def _alternative_findings(self, plan: Plan, best: CheckedPlan) -> Iterator[str]:
        seen = [_shape(plan)]
        simulated = self.objective == "simulated"
        before = best.iteration_time_s if simulated else best.closed_form_s
        for place, entry, other in self.alternatives:
            try:
                checked = self._check(other)
            except CheckError as error:
                yield from (f"{place}: {finding}" for finding in error.findings)
                continue
            for key, expected in (
                ("closed_form_s", checked.closed_form_s),
                ("iteration_time_s", checked.iteration_time_s),
            ):
                claimed = number(entry, key, place)
                if claimed is None or not _close(claimed, expected):
                    yield f"{place}.{key}: {claimed}, expected {expected!r}"
            # plans are ranked with the period rounded up to a whole tick
            q = max(other.pipelines[0].microbatches, plan.pipelines[0].microbatches)
            slack = q * TICK_S + TOLERANCE * before
            value = checked.iteration_time_s if simulated else checked.closed_form_s
            if self.objective != "uniap" and value < before - slack:
                yield f"{place}: better than the plan before it"
            before = value
            if _shape(other) in seen:
                yield f"{place}: differs from another plan in its units only"
            seen.append(_shape(other))
            if self.objective != "uniap":
                yield from self._program_findings(place, other, value)


def _close(first: float, second: float) -> bool:
    return abs(first - second) <= TOLERANCE * max(abs(first), abs(second))


def _shape(plan: Plan) -> tuple[object, ...]:
    """Return a key of a plan that leaves out which units its stages hold."""
    pipeline = plan.pipelines[0]
    return (
        pipeline.microbatches,
        tuple((stage.cluster, stage.strategy) for stage in pipeline.stages),
    )
