"""The result of a solver: a plan, its times, and how every (p, q) was settled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, get_args

from hetopt.base.fields import Count, NotNegative, Seconds
from hetopt.base.file_record import ALWAYS, ASIDE, INLINE, FileRecord, Named
from hetopt.base.shown import Shown
from hetopt.cost.table.table import CostTable, SourceKind
from hetopt.errors import InputError
from hetopt.problem.problem import Problem
from hetopt.problem.training.principles import Relaxable
from hetopt.results.asked import Asked
from hetopt.results.claims import Branched, Claims, Over, Reached
from hetopt.results.crossing import Crossing
from hetopt.results.launch import Launch
from hetopt.results.money import Cost
from hetopt.results.priced_plan import PricedPlan
from hetopt.results.reported import Reported
from hetopt.results.settlement import How, Settlement

RESULT_SCHEMA = "hetopt-result/1"

Status = Literal["optimal", "feasible", "infeasible", "unknown"]
#: What is minimised: the closed form, the simulated time, the price of an iteration in
#: closed form, or UniAP's objective.
Objective = Literal["closed", "simulated", "cost", "uniap"]
#: The time that is minimised, or that a cost is of.
Time = Literal["closed", "simulated"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Result(FileRecord, Branched, Shown):
    """Outcome of one search: what ``hetopt plan --json`` prints, ``--out`` holds.

    Attributes
    ----------
    best
        The reported plan, or None.
    alternatives
        The next best plans, best first; each differs from the others in schedule,
        stages, micro-batches, clusters, strategies or stages per cluster, and by more
        than an exchange of identical clusters; with nodes to rent, of clusters that are
        both rented. Of several pipelines, only the best plan of each division of the
        nodes is listed.
    lower_bound_s
        Valid lower bound on the objective over the whole space; None if none is known
        or nothing is feasible.
    gap
        (value - lower bound) / value of the reported plan; None without a plan.
    search_time_s
        Wall-clock seconds.
    relaxed
        Principles that plans need not keep; status, bound and gap are for the space
        without them.
    choice
        Why ``auto`` chose this solver, or what the solver had to do without.
    launch
        If only plans that a launcher can run were searched: the plan without that
        limit. Status, bound and gap are for plans that the launcher can run.
    cost
        Cost of the plan, if the problem has prices.
    table_kinds
        Where each cluster's times come from.
    asked
        The options of ``hetopt plan`` that were not the usual ones, for ``hetopt plan
        --again``; None if it was not asked on the command line.
    over
        What was branched over, from the root of ``claims`` down; each with one key.
    claims
        What the search claims, and from which the bound follows
        (docs/explanation/proofs.md); then settlements are at most those of the reported
        plan's problem. None if nothing was branched over.
    reported
        What imported files say that hetopt does not know or price.
    lower_cost
        Valid lower bound on the cost of an iteration, if that is minimised.
    stability
        How far each coefficient may move until another plan is better, if that was
        asked for.
    reason
        Why there is no plan, in one line; None only if there is one.
    interrupted
        Whether the user stopped the search; not part of the file.
    journal_failure
        Why the journal could not be written to the end; not part of the file.
    problem, table
        What was planned, under the plan's schedule; None if unknown. ``hetopt.plan``
        gives them, for reports and exports; not part of the file.

    Examples
    --------
    ``print`` shows the report of ``hetopt plan``, and a notebook the same tables.

    >>> import hetopt
    >>> result = hetopt.plan("problem.yaml", top=2)
    >>> result.status, len(result.alternatives)
    ('optimal', 1)
    >>> result.best.closed_form_s <= result.alternatives[0].closed_form_s
    True
    """

    SCHEMA: ClassVar[str] = RESULT_SCHEMA
    KEYS: ClassVar[tuple[str, ...]] = (
        *("status", "objective", "iteration_time_s", "closed_form_s", "objective_s"),
        *("lower_bound_s", "gap", "search_time_s", "tokens_per_s", "mfu", "mfu_used"),
        *("settled", "settlements", "solver", "solver_choice", "relaxed", "launch"),
        *("cost", "asked", "over", "claims", "lower_cost", "stability"),
        *("table_kinds", "reason", "plan", "alternatives", "reported"),
    )

    status: Status
    objective: Annotated[Objective, ALWAYS] = "closed"
    solver: str
    best: Annotated[PricedPlan | None, INLINE]
    alternatives: Annotated[tuple[PricedPlan, ...], ALWAYS] = ()
    lower_bound_s: Seconds | None
    gap: float | None
    search_time_s: Seconds
    settlements: tuple[Settlement, ...]
    tokens_per_s: NotNegative | None
    mfu: NotNegative | None
    mfu_used: NotNegative | None
    table_kinds: Mapping[str, SourceKind]
    relaxed: tuple[Relaxable, ...] = ()
    choice: Annotated[str | None, Named("solver_choice")] = None
    launch: Launch | None = None
    cost: Cost | None = None
    asked: Asked | None = None
    over: Over = ()
    claims: Claims | None = None
    lower_cost: NotNegative | None = None
    stability: tuple[Crossing, ...] | None = None
    reason: Annotated[str | None, ALWAYS] = None
    reported: tuple[Reported, ...] = ()
    interrupted: Annotated[bool, ASIDE] = False
    journal_failure: Annotated[InputError | None, ASIDE] = None
    problem: Annotated[Problem | None, ASIDE] = field(default=None, compare=False)
    table: Annotated[CostTable | None, ASIDE] = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.best is None and not self.reason:
            open_ = self.status != "infeasible"
            reason = "stopped without a plan" if open_ else "the solver gives no reason"
            object.__setattr__(self, "reason", reason)

    def reached(self) -> Reached:
        """Return what the search came to, to compare schedules with."""
        best, costs = self.best, self.objective == "cost"
        own = None
        if best is not None:
            own = best.plan.schedule, best.plan.chunks, best.plan.warmup_epsilon
        impossible = self.status == "infeasible"
        return Reached(
            own=own,
            best_s=None if best is None or costs else best.time_s(self.objective),
            least_s=math.inf if impossible else self.lower_bound_s or 0.0,
            proven=self.status == "optimal",
        )

    @property
    def plans(self) -> tuple[PricedPlan, ...]:
        """The best plan and the alternatives; none without a plan."""
        return () if self.best is None else (self.best, *self.alternatives)

    @property
    def ranks_are_proven(self) -> bool:
        """Whether the alternatives are proven to be the next best plans.

        The status is about the best plan alone: the time may end before all others are
        settled.
        """
        return self.status == "optimal" and "unsettled" not in self.settled

    @property
    def settled(self) -> dict[How, Count]:
        """Number of (p, q) by how they were settled, in the order of ``How``."""
        counts = Counter[How](settlement.how for settlement in self.settlements)
        return {how: counts[how] for how in get_args(How) if counts[how]}
