"""The contents of a page: plans with all that is reported of them, and other files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hetopt.report.head import device_errors, time_digits
from hetopt.report.page.markup import words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hetopt.plans.plan import Plan
    from hetopt.pricing.price import Price
    from hetopt.problem.facts import Accuracy
    from hetopt.problem.problem import Problem
    from hetopt.report.timeline.timeline import Timeline
    from hetopt.report.whatif.table import Whatif
    from hetopt.results.front import Front
    from hetopt.results.money import Cost
    from hetopt.results.priced_plan import PricedPlan
    from hetopt.results.result import Objective, Result
    from hetopt.whatif.mixing import Mixing


class Moment(NamedTuple):
    """Best plan and lower bound at a moment of a search; seconds, None if unknown."""

    elapsed_s: float
    incumbent_s: float | None
    lower_bound_s: float | None


class History(NamedTuple):
    """A journal: its name, and the moments at which a value changed."""

    name: str
    moments: Sequence[Moment]


class Variants(NamedTuple):
    """One file of ``hetopt whatif``."""

    name: str
    found: Whatif


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedPlan:
    """One plan file.

    Attributes
    ----------
    name
        The file, as the user named it.
    problem
        The problem with the schedule of the plan.
    result
        The result of the search in the file; None if the file has only a plan.
    price, timeline, cost
        Those of the plan.
    priced
        The plan with its times.
    tokens
        Of an iteration.
    launcher, launch
        A launcher that runs the plan as it is, None if there is none; and the command
        to continue with.
    accuracies
        By cluster that the plan uses; None without published iterations. Empty if the
        user gave a table.
    notes
        Notes on the latencies, a line each.
    """

    name: str
    problem: Problem
    plan: Plan
    result: Result | None
    price: Price
    timeline: Timeline
    cost: Cost | None
    priced: PricedPlan
    tokens: int
    launcher: str | None
    launch: str
    accuracies: Mapping[str, Accuracy | None]
    notes: Sequence[str]

    @property
    def objective(self) -> Objective:
        """What was minimised; the simulated time if that is unknown."""
        return "simulated" if self.result is None else self.result.objective

    @property
    def time_s(self) -> float:
        """The time that was minimised."""
        return self.priced.time_s(self.objective)

    @property
    def errors(self) -> Mapping[str, Accuracy | None]:
        """The errors by the names of devices."""
        return device_errors(self.problem, self.accuracies)

    @property
    def digits(self) -> int:
        """Digits of its times that the errors leave."""
        return time_digits(self.time_s, self.errors)

    @property
    def error(self) -> Accuracy | None:
        """The largest known error of its clusters; None if none is known."""
        known = [each for each in self.accuracies.values() if each is not None]
        return max(known, key=lambda each: (each.median, each.worst), default=None)

    @property
    def untold(self) -> str:
        """Names of the clusters without published iterations, joined by commas."""
        return ", ".join(name for name, own in self.accuracies.items() if own is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Everything on a page.

    Attributes
    ----------
    plans
        In the user's order, at least one.
    history
        Journal of the search for the first plan; None if not given.
    mixed, fronts
        File names and contents.
    problem_name, problem_text
        The problem as the user named it, and its file's content.
    command
        The command that wrote the page, as words.
    table
        The user's file of coefficients; None if not given.
    """

    plans: Sequence[ReportedPlan]
    history: History | None
    variants: Sequence[Variants]
    mixed: Sequence[tuple[str, Mixing | None]]
    fronts: Sequence[tuple[str, Front]]
    problem_name: str
    problem_text: str
    command: Sequence[str]
    table: str | None

    def of_each(self, draw: Callable[[ReportedPlan], str]) -> str:
        """Return a drawing of each plan, below its name if there are several plans."""
        drawn = [(plan.name, draw(plan)) for plan in self.plans]
        if len(drawn) == 1:
            return drawn[0][1]
        return "".join(words("h3", name) + text for name, text in drawn if text)
