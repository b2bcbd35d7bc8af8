"""What a page is about: plans with all that is said of them, and what stands beside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hetopt.report.page.markup import words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hetopt.cost.sources.accuracy import Accuracy
    from hetopt.plans.plan import Plan
    from hetopt.pricing.price import Price
    from hetopt.problem.problem import Problem
    from hetopt.report.timeline.timeline import Timeline
    from hetopt.results.front import Front
    from hetopt.results.money import Cost
    from hetopt.results.result import Objective, Result


class Moment(NamedTuple):
    """What a search knew; seconds, None as long as unknown."""

    elapsed_s: float
    incumbent_s: float | None
    lower_bound_s: float | None


class History(NamedTuple):
    """A journal: its name, and every moment at which something was different."""

    name: str
    moments: Sequence[Moment]


class Variant(NamedTuple):
    """One row; times in seconds, None where there is no plan."""

    change: str
    status: str
    time_s: float | None
    lower_bound_s: float | None
    gap: float | None
    cost: float | None
    reason: str


class Variants(NamedTuple):
    """One file."""

    name: str
    objective: Objective
    rows: Sequence[Variant]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedPlan:
    """One plan file.

    Attributes
    ----------
    name
        The file, as the user named it.
    problem
        Under the schedule of the plan.
    result
        What the file says of the search; None if it holds a plan alone.
    price, timeline, cost
        Of the plan.
    tokens_per_s
        At the simulated time.
    accuracies
        By cluster that it uses; None where no published iteration tells. Empty for a
        table of the user's.
    notes
        What is known of the latencies, a line each.
    """

    name: str
    problem: Problem
    plan: Plan
    result: Result | None
    price: Price
    timeline: Timeline
    cost: Cost | None
    tokens_per_s: float
    accuracies: Mapping[str, Accuracy | None]
    notes: Sequence[str]

    @property
    def error(self) -> Accuracy | None:
        """The largest error that is known of its clusters; None if none is."""
        known = [each for each in self.accuracies.values() if each is not None]
        return max(known, key=lambda each: (each.median, each.worst), default=None)

    @property
    def untold(self) -> str:
        """The clusters of which no published iteration tells, in words."""
        return ", ".join(name for name, own in self.accuracies.items() if own is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Everything on a page.

    Attributes
    ----------
    plans
        In the user's order, at least one.
    history
        Of the search for the first plan.
    fronts
        File names, and what the files hold.
    problem_name, problem_text
        As the user named the problem, and its file.
    command
        That wrote the page, as words.
    table
        The user's file of coefficients.
    """

    plans: Sequence[ReportedPlan]
    history: History | None
    variants: Sequence[Variants]
    fronts: Sequence[tuple[str, Front]]
    problem_name: str
    problem_text: str
    command: Sequence[str]
    table: str | None

    def of_each(self, draw: Callable[[ReportedPlan], str]) -> str:
        """Return what is drawn of each plan, below its name if there are several."""
        drawn = [(plan.name, draw(plan)) for plan in self.plans]
        if len(drawn) == 1:
            return drawn[0][1]
        return "".join(words("h3", name) + text for name, text in drawn if text)
