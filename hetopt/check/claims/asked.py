"""What a search was asked for, as a result's ``over`` says it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from hetopt.base.words import counted
from hetopt.check.claims.device_time import DeviceTime
from hetopt.check.plan.cost import nodes_of
from hetopt.check.plan.reading import choice, items, mapping, number, text, whole
from hetopt.check.plan.schedule.schedules import STEPS
from hetopt.cost.build import build_table
from hetopt.errors import InputError
from hetopt.plans.plan import MOST_PIPELINES
from hetopt.problem.training.choices import SCHEDULES
from hetopt.problem.training.epsilon import EPSILONS, written_epsilon
from hetopt.results.certificate import PS_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hetopt.check.claims.ways import Divided
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.problem.training.principles import Principles

#: Relative difference up to which two numbers count as equal.
TOLERANCE = 1e-9
#: What a search branches over, from the root down.
_BRANCHINGS = ("fleets", "schedules", "divisions", "launcher")


def close(first: float, second: float) -> bool:
    """Return whether two numbers count as equal."""
    return abs(first - second) <= TOLERANCE * max(abs(first), abs(second))


class Variant(NamedTuple):
    """A schedule with its chunks and epsilon."""

    schedule: str
    chunks: int
    warmup_epsilon: float | None

    @classmethod
    def of(cls, plan: Plan) -> Variant:
        """Return the schedule of a plan."""
        return cls(plan.schedule, plan.chunks, plan.warmup_epsilon)

    @classmethod
    def read(cls, data: Mapping[str, Any], place: str) -> Variant:
        """Return a schedule of ``over``, or of a claim."""
        schedule = choice(data, "schedule", SCHEDULES, place)
        return cls(schedule, whole(data, "chunks", place), written_epsilon(data, place))

    def __str__(self) -> str:
        return (
            f"{self.schedule} (chunks: {self.chunks}, epsilon: {self.warmup_epsilon})"
        )


#: Whether the launcher of an answer runs a schedule. What launchers run is for exports
#: to say, which the checker does not know: without this an answer's word is taken.
Runs = Callable[[Variant], bool]


class Asked:
    """What a search was asked for.

    Attributes
    ----------
    below
        Names of what it branched over, from the root down, without the launcher.
    variants
        The schedules to choose from; none if there was no choice.
    most
        Most pipelines of a plan.
    alike
        What pipelines may have in common, one of which they share; empty: nothing.
    launcher
        Name of the launcher that has to run the plan, if any.
    best_s
        Time of the reported plan if time is minimised, inf if there is none; else None.
    simulated
        Whether the simulated time is minimised.
    top
        How many plans were asked for, if the engine finds several; else 1.
    wrong
        What was found to be wrong so far.
    divided
        The divisions of the nodes that claims were last about.

    Raises
    ------
    InputError
        ``over`` is not in the form of ``hetopt.results.claims``.
    """

    def __init__(
        self,
        problem: Problem,
        table: CostTable,
        data: Mapping[str, Any],
        principles: Principles,
        runs: Runs | None = None,
    ) -> None:
        self.problem, self.principles, self._runs = problem, principles, runs
        training = problem.training
        own = Variant(training.schedule, training.chunks, training.epsilon)
        self._under = {own: (problem, table)}
        self.best_s: float | None = None
        self.simulated = data.get("objective") == "simulated"
        self.wrong: list[str] = []
        self.divided: dict[tuple[int, ...], Divided] = {}
        said = mapping(data.get("asked") or {}, "asked")
        counts = "top" in said and data.get("objective") != "uniap"
        self.top = whole(said, "top", "asked") if counts else 1
        over: dict[str, object] = {}
        for place, item in items({"over": [], **data}, "over", ""):
            entry = mapping(item, place)
            order = [*over, *entry]
            if len(entry) != 1 or order != [x for x in _BRANCHINGS if x in order]:
                msg = f"is not one of {', '.join(_BRANCHINGS)}, in this order"
                raise InputError(msg, field=place)
            over.update(entry)
        self.over = tuple(over)
        self.below = tuple(name for name in over if name != "launcher")
        self.launcher: str | None = None
        if "launcher" in over:
            self.launcher = text(over, "launcher", "over")
        self._read_spending(over, table.tokens)
        self._read_variants(over)
        self.most, self.alike = 1, cast("tuple[str, ...]", ())
        if "divisions" in over:
            limits = mapping(over["divisions"], "over.divisions")
            self.most = whole(limits, "most", "over.divisions")
            if self.most > MOST_PIPELINES:
                msg = f"is {self.most}, expected at most {MOST_PIPELINES}"
                raise InputError(msg, field="over.divisions.most")
            place = "over.divisions"
            for at, value in items({"alike": [], **limits}, "alike", place):
                self.alike += (text({"value": value}, "value", at),)
            if self.alike and self.launcher is None:
                msg = "has no meaning without a launcher"
                raise InputError(msg, field=f"{place}.alike")
        self.device_time = DeviceTime(problem, table, divided="divisions" in over)

    def _read_spending(self, over: Mapping[str, object], tokens: int) -> None:
        self.measure, self.budget, self.longest_s = "time", None, math.inf
        self.least_tokens_per_s: float | None = None
        if "fleets" not in over:
            return
        place = "over.fleets"
        limits = mapping(over["fleets"], place)
        self.measure = choice(limits, "measure", ("time", "cost", "front"), place)
        self.budget = number(limits, "budget", place)
        self.least_tokens_per_s = number(limits, "min_tokens_per_s", place)
        if self.least_tokens_per_s:
            # The throughput of a time permits it, in spite of rounding.
            self.longest_s = tokens / self.least_tokens_per_s * (1 + 1e-12)

    def _read_variants(self, over: Mapping[str, object]) -> None:
        self.variants: tuple[Variant, ...] = ()
        if "schedules" not in over:
            return
        place = "over.schedules"
        entries = items(over, "schedules", "over")
        self.variants = tuple(Variant.read(mapping(x, at), at) for at, x in entries)
        for variant in dict.fromkeys(self.variants):
            times = self.variants.count(variant)
            if times > 1:
                self.say(f"{place}: {variant} is listed {times} times, expected once")
            if STEPS[variant.schedule].interleaved != (variant.chunks > 1):
                chunks = counted(variant.chunks, "chunk")
                self.say(f"{place}: {variant.schedule} has {chunks}")
        epsilons = {each.warmup_epsilon for each in self.variants} - {None}
        if len(epsilons) > 1 and epsilons != {*EPSILONS}:
            wanted = ", ".join(map(str, EPSILONS))
            self.say(f"{place}: warmup_epsilon is not one value, nor {wanted}")

    def passes_over(self, variant: Variant) -> bool:
        """Whether a schedule does not count as the launcher does not run it."""
        if self.launcher is None:
            return False
        return self._runs is None or not self._runs(variant)

    def status_findings(self, status: str) -> Iterator[str]:
        """Yield why no such plans can be called optimal, as nobody confirms bounds."""
        mixed = self.problem.training.lengths is not None
        what = "several lengths" if mixed else "relaxed principles"
        open_ = self.simulated and (mixed or self.principles.relaxed)
        if open_ and status == "optimal":
            yield f"status: optimal, but bounds with {what} are not confirmed"

    def say(self, line: str) -> None:
        """Remember something that is wrong."""
        self.wrong.append(line)

    def under(self, plan: Plan) -> tuple[Problem, CostTable]:
        """Return problem and table under the schedule of a plan, if it was asked for.

        Else those of the problem's own schedule, of which the plan is none.
        """
        own = Variant.of(plan)
        return self.of(own if own in self.variants else None)

    def of(self, variant: Variant | None) -> tuple[Problem, CostTable]:
        """Return problem and table under a schedule; None: the problem's own."""
        known = self._under
        if variant is None:
            return next(iter(known.values()))
        if variant not in known:
            name, chunks, epsilon = variant
            problem = self.problem.of_plan(cast("ScheduleName", name), chunks, epsilon)
            known[variant] = problem, build_table(problem)
        return known[variant]

    def slack_s(self, chunks: int) -> float:
        """Return by how much a bound may lie above the time of a plan.

        Periods, and the rest, are rounded up to whole picoseconds, in the plan and in
        the bound.

        Parameters
        ----------
        chunks
            Of every stage of the plan.
        """
        return 2 * (self.problem.training.global_batch * chunks + 1) * PS_S

    def price_of(self, plan: Plan) -> float:
        """Return the price per hour of a plan's nodes."""
        prices = {each.name: each.price_per_hour for each in self.problem.clusters}
        nodes = nodes_of(self.problem, plan)
        return sum((prices[name] or 0.0) * count for name, count in nodes.items())

    def affords(self, price: float) -> bool:
        """Whether a price per hour is within the budget."""
        return self.budget is None or price <= self.budget * (1 + TOLERANCE)

    def plan_findings(self, plan: Plan, time_s: float) -> Iterator[str]:
        """Yield in what a plan is not one of those asked for."""
        if self.variants and Variant.of(plan) not in self.variants:
            yield f"over.schedules: {Variant.of(plan)}, the plan's own, is missing"
        if (there_are := len(plan.pipelines)) > self.most:
            yield f"over.divisions.most: {self.most}, the plan has {there_are}"
        if not self.affords(price := self.price_of(plan)):
            yield (
                f"over.fleets.budget: the plan costs {price!r} an hour, the budget is "
                f"{self.budget}"
            )
        if time_s > self.longest_s * (1 + TOLERANCE):
            yield (
                f"over.fleets.min_tokens_per_s: the plan takes {time_s!r} s, at most "
                f"{self.longest_s!r} s are allowed"
            )
