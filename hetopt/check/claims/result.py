"""Check every claim of a result: times, bound, gap, rates, certificate."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from hetopt.check.claims.asked import TOLERANCE, Asked, Variant, close
from hetopt.check.claims.claim import as_claimed
from hetopt.check.claims.fleets import Fleets
from hetopt.check.claims.schedules import Schedules
from hetopt.check.claims.settlements import Settlements
from hetopt.check.claims.tree import plan_findings, root_of
from hetopt.check.plan.cost import cost_findings
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
)
from hetopt.cost.table.ticks import TICK_S
from hetopt.errors import CheckError
from hetopt.problem.training.principles import PRUNED
from hetopt.results.result import RESULT_SCHEMA, Objective, Status
from hetopt.results.settlement import OPTIMALITY_GAP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hetopt.check.claims.asked import Runs
    from hetopt.check.claims.claim import Claim, LeafBound
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem


def check_result(
    problem: Problem,
    table: CostTable,
    result_json: Mapping[str, Any],
    leaf: LeafBound = as_claimed,
    runs: Runs | None = None,
) -> list[str]:
    """Return one line for every claim that does not hold; none if all do.

    Parameters
    ----------
    result_json
        As ``Result.to_json`` makes it and plan files hold it.
    leaf
        What a claim without children says; by default its bound is taken as it is.
    runs
        Whether the launcher runs a schedule; None: its word is taken.

    Raises
    ------
    InputError
        The data is not a result; the field names the key.
    DigestError
        A plan in it was made from another problem or table.
    """
    claims = _Claims(problem, table, mapping(result_json, ""), leaf, runs)
    return list(claims.findings())


class _Claims:
    """The claims of a well-formed result, true or not."""

    def __init__(
        self,
        problem: Problem,
        table: CostTable,
        data: Mapping[str, Any],
        leaf: LeafBound,
        runs: Runs | None,
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
        minimises = self.objective == "uniap" and data.get("plan") is not None
        own = ("objective_s",) if minimises or "objective_s" in data else ()
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
                *own,
                *(("lower_cost",) if "lower_cost" in data else ()),
            )
        }
        self.kinds = dict(mapping(data.get("table_kinds"), "table_kinds"))
        self.settlements = Settlements(data)
        plan = data.get("plan")
        self.plan = None if plan is None else read_plan(plan, "plan")
        self.cost = None
        if data.get("cost") is not None:
            self.cost = mapping(data["cost"], "cost")
        self.alternatives: list[tuple[str, Mapping[str, Any], Plan]] = []
        for place, item in items(data, "alternatives", ""):
            entry = mapping(item, place)
            other = read_plan(entry.get("plan"), f"{place}.plan")
            self.alternatives.append((place, entry, other))
        self.asked = Asked(problem, table, data, self.principles, runs)
        self._read_tree(leaf)

    def _read_tree(self, leaf: LeafBound) -> None:
        """Derive what follows from the claims, if anything was branched over."""
        self.costs = self.objective == "cost"
        if not self.costs:
            key = "iteration_time_s" if self.asked.simulated else "closed_form_s"
            self.asked.best_s = inf if self.plan is None else self.numbers[key]
        self.root: Claim | None = None
        if self.asked.over:
            self.root = root_of(self.asked, self.data, leaf)
        #: Branchings below which settlements are not those of all plans.
        self.unsettling = [x for x in self.asked.below if x in ("fleets", "divisions")]

    def findings(self) -> Iterator[str]:
        yield from self._table_findings()
        yield from self.settlements.count_findings()
        yield from self._over_findings()
        yield from self.asked.wrong
        yield from self.asked.status_findings(self.status)
        if "launch" in self.data:
            yield from self._launch_findings(mapping(self.data["launch"], "launch"))
        if not self.unsettling:
            yield from self.settlements.findings(self._programs())
        elif self.settlements.known:
            yield f"settlements: not allowed in a result over {self.unsettling[0]}"
        if self.plan is None:
            yield from self._no_plan_findings()
            return
        yield from self._plan_findings(self.plan)

    # --- each family of claims ------------------------------------------------------

    def _launch_findings(self, launch: Mapping[str, Any]) -> Iterator[str]:
        """Yield what cannot be so of the best plan that any launcher may run."""
        said = text(launch, "launcher", "launch")
        # Results of before say it nowhere else.
        if self.asked.over and said != self.asked.launcher:
            yield f"launch.launcher: {said}, but over says {self.asked.launcher}"
        least_s = self.asked.device_time.of_all() * (1 - TOLERANCE)
        for key in ("closed_form_s", "iteration_time_s"):
            time_s = number(launch, key, "launch")
            if time_s is not None and time_s < least_s:
                yield f"launch.{key}: {time_s}, but devices take {least_s}"
        key = "iteration_time_s" if self.objective == "simulated" else "closed_form_s"
        best_s = number(launch, key, "launch")
        own_s = None if self.costs else self.numbers[key]
        # A launcher may have another schedule than the problem, which takes less.
        alike = self.plan is not None and (
            self.asked.variants or launch.get("schedule") == self.plan.schedule
        )
        if not alike or not launch.get("proven") or best_s is None or own_s is None:
            return
        if best_s > own_s * (1 + TOLERANCE):
            yield f"launch.{key}: {best_s}, but the launcher's own plan takes less"

    def _plan_findings(self, plan: Plan) -> Iterator[str]:
        """Compare what is claimed about the plan with what follows from it."""
        if self.status in ("infeasible", "unknown"):
            yield f"status: {self.status}, but there is a plan"
        if self.data.get("reason") is not None:
            yield "reason: there is one, but there is a plan"
        try:
            checked = check_plan(self.problem, self.table, plan, self.principles)
        except CheckError as error:
            yield from error.findings
            return
        yield from self._same("closed_form_s", checked.closed_form_s)
        yield from self._same("iteration_time_s", checked.iteration_time_s)
        yield from self._rate_findings(plan, checked)
        if self.cost is not None:
            time_s = checked.iteration_time_s
            yield from cost_findings(self.problem, plan, time_s, self.cost)
        value = self._time_s(checked)
        if (self.objective == "uniap") != (checked.uniap_s is not None):
            has = "has no" if checked.uniap_s is None else "has"
            yield f"objective: {self.objective}, but the plan {has} strategies per unit"
        elif checked.uniap_s is not None:
            value = checked.uniap_s
            yield from self._same("objective_s", value)
        yield from plan_findings(self.asked, self.root, plan, value)
        yield from self._bound_findings(plan, value)
        if not self.unsettling:
            yield from self.settlements.plan_findings("plan", plan, value)
        yield from self._alternative_findings(plan, checked)

    def _time_s(self, checked: CheckedPlan) -> float:
        simulated = self.objective == "simulated"
        return checked.iteration_time_s if simulated else checked.closed_form_s

    def _same(self, key: str, value: float) -> Iterator[str]:
        claimed = self.numbers[key]
        if claimed is None or not close(claimed, value):
            yield f"{key}: {claimed}, expected {value!r}"

    def _table_findings(self) -> Iterator[str]:
        expected = dict(zip(self.table.cluster_names, self.table.sources, strict=True))
        if self.kinds != expected:
            yield f"table_kinds: {self.kinds}, expected {expected}"

    def _over_findings(self) -> Iterator[str]:
        """Yield contradictions between what is minimised and what was asked for."""
        if self.objective == "uniap" and self.asked.over:
            yield "objective: uniap is not allowed in a result with 'over'"
        if self.costs and "fleets" not in self.asked.over:
            yield "objective: cost, but 'over' has no fleets"
        elif self.asked.measure != ("cost" if self.costs else "time"):
            measure = self.asked.measure
            yield f"over.fleets.measure: {measure}, but objective: {self.objective}"
        lower_cost = self.numbers.get("lower_cost")
        if lower_cost is not None and not self.costs:
            yield f"lower_cost: {lower_cost}, but time is minimised"

    def _programs(self) -> Iterator[tuple[int, int]]:
        """Yield every (p, q) that needs a settlement."""
        if self.status not in ("optimal", "infeasible"):
            return iter(())
        if self.objective == "uniap":
            return equal_stages(self.problem)
        return all_programs(self.problem, self.table)

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
        yield from self._root_findings(0.0)
        if self.status == "infeasible":
            yield from self.settlements.possible_findings()
            if self.root is not None and self.root.least_s < inf:
                least_s = self.root.least_s
                yield f"status: infeasible, but {self._parts} permit {least_s!r}"

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

    def _slack(self, plan: Plan) -> float:
        """Return by how much a bound may lie above ``_value``."""
        return self._value(plan, self.asked.slack_s(plan.chunks))

    def _value(self, plan: Plan, time_s: float) -> float:
        """Return what is minimised."""
        per_hour = self.asked.price_of(plan) if self.costs else 3600
        return per_hour * time_s / 3600

    @property
    def _parts(self) -> str:
        return f"the {next(iter(self.asked.below), 'claims')}"

    def _bound_findings(self, plan: Plan, time_s: float) -> Iterator[str]:
        name = "lower_cost" if self.costs else "lower_bound_s"
        bound, gap = self.numbers.get(name), self.numbers["gap"]
        value = self._value(plan, time_s)
        if self.costs and (said := self.numbers["lower_bound_s"]) is not None:
            yield f"lower_bound_s: {said}, but cost is minimised"
        if bound is None:
            if gap is not None:
                yield f"gap: {gap}, but there is no lower bound"
            if self.status == "optimal":
                yield "status: optimal, but there is no lower bound"
            return
        if bound > value * (1 + TOLERANCE):
            yield f"{name}: {bound}, more than the plan's {value!r}"
        expected = max(0.0, (value - bound) / value) if value else 0.0
        if gap is None or abs(gap - expected) > TOLERANCE:
            yield f"gap: {gap}, expected {expected!r}"
        if self.status == "optimal" and expected > OPTIMALITY_GAP + TOLERANCE:
            yield f"status: optimal, but the gap is {expected!r}"
        yield from self._root_findings(self._slack(plan))
        if not self.unsettling:
            yield from self._settled_bound_findings(plan, bound, value)

    def _root_findings(self, slack: float) -> Iterator[str]:
        """Compare the bound with what follows from the claims."""
        name = "lower_cost" if self.costs else "lower_bound_s"
        bound = self.numbers.get(name)
        if bound is None or self.root is None:
            return
        least = self.root.least_s
        if isinstance(self.root, Fleets):
            least = self.root.least(cost=self.costs)
        if bound > least * (1 + TOLERANCE) + slack:
            yield f"{name}: {bound}, {self._parts} prove only {least!r}"

    def _settled_bound_findings(
        self, plan: Plan, bound: float, value: float
    ) -> Iterator[str]:
        """Yield findings on a bound that is made of those of all (p, q)."""
        lowest, has_all = self.settlements.least()
        if not has_all:
            yield "lower_bound_s: given, but some (p, q) has no bound"
        parts = "the settlements"
        if isinstance(self.root, Schedules):
            beside_s = self.root.beside(plan)
            lowest = min(max(lowest, self.asked.device_time.of_all()), beside_s)
            parts = f"{parts} and schedules"
        if lowest < inf:
            # the bound may not exceed the least of the bounds it is made of
            if bound > lowest * (1 + TOLERANCE):
                yield f"lower_bound_s: {bound}, {parts} prove only {lowest!r}"
            elif bound + self._slack(plan) < min(lowest, value) * (1 - TOLERANCE):
                yield f"lower_bound_s: {bound}, {parts} say {lowest!r}"

    def _alternative_findings(self, plan: Plan, best: CheckedPlan) -> Iterator[str]:
        seen, listed = [_shape(plan)], [plan]
        before = self._value(plan, self._time_s(best))
        for place, entry, other in self.alternatives:
            try:
                checked = check_plan(*self.asked.under(other), other, self.principles)
            except CheckError as error:
                yield from (f"{place}: {finding}" for finding in error.findings)
                continue
            for key, expected in (
                ("closed_form_s", checked.closed_form_s),
                ("iteration_time_s", checked.iteration_time_s),
            ):
                claimed = number(entry, key, place)
                if claimed is None or not close(claimed, expected):
                    yield f"{place}.{key}: {claimed}, expected {expected!r}"
            # plans are ranked with the period rounded up to a whole tick
            both = (*other.pipelines, *plan.pipelines)
            q = max(pipeline.microbatches for pipeline in both)
            slack = self._value(other, q * TICK_S) + TOLERANCE * before
            time_s = self._time_s(checked)
            value = self._value(other, time_s)
            if self.objective != "uniap" and value < before - slack:
                yield f"{place}: better than the plan before it"
            before = value
            if _shape(other) in seen:
                yield f"{place}: differs from another plan in its units only"
            seen.append(_shape(other))
            if self.objective == "uniap":
                continue
            own_findings = plan_findings(self.asked, self.root, other, time_s)
            yield from (f"{place}: {each}" for each in own_findings)
            if not self.unsettling and Variant.of(other) == Variant.of(plan):
                yield from self.settlements.plan_findings(place, other, time_s)
                listed.append(other)
        missing = self.asked.top - 1 - len(self.alternatives)
        yield from self.settlements.missing_findings(listed, missing)


def _shape(plan: Plan) -> tuple[object, ...]:
    """Return a key of a plan that leaves out which units its stages hold."""
    return Variant.of(plan), tuple(
        (
            each.microbatches,
            each.share and (each.share.batch, tuple(sorted(each.share.nodes.items()))),
            tuple((stage.cluster, stage.strategy) for stage in each.stages),
        )
        for each in plan.pipelines
    )
