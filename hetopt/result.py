"""What a solver answers: a plan, its times, and how every (p, q) was settled."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from hetopt.money import Cost
from hetopt.per_schedule import ScheduleBound
from hetopt.plans import Plan
from hetopt.several import Several
from hetopt.shown import Shown
from hetopt.spending import Spent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.cost.table import SourceKind
    from hetopt.errors import InputError
    from hetopt.problem.principles import Relaxable
    from hetopt.problem.training import ScheduleName

RESULT_SCHEMA = "hetopt-result/1"

#: A result is optimal when its relative gap is at most this.
OPTIMALITY_GAP = 1e-6
#: By so much another plan has to be better, as a share of its time, to matter where
#: coefficients are uncertain.
MARGIN = 0.01

Status = Literal["optimal", "feasible", "infeasible", "unknown"]
#: What is minimised: the closed form, the simulated time, the price of an iteration in
#: closed form, or UniAP's objective.
Objective = Literal["closed", "simulated", "cost", "uniap"]
MoveKind = Literal["speed", "memory", "link", "uplink"]
How = Literal[
    "solved", "refuted-by-bound", "refuted-by-search", "infeasible", "unsettled"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How the program of one (p, q) was settled.

    Attributes
    ----------
    how
        ``solved``: its optimum is known; ``refuted-by-bound``: a relaxation shows
        that it cannot beat the reported plan; ``refuted-by-search``: the program
        has no better plan; ``infeasible``: it has no plan at all; ``unsettled``:
        neither, and ``bound_s`` is all that is known.
    bound_s
        Valid lower bound on the objective of every plan with this (p, q), in
        seconds; None when infeasible.
    """

    stages: int
    microbatches: int
    how: How
    bound_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedPlan:
    """A checked plan with both of its times, in seconds.

    Attributes
    ----------
    objective_s
        What was minimised, where that is neither of the times.
    """

    plan: Plan
    closed_form_s: float
    iteration_time_s: float
    objective_s: float | None = None

    def times_to_json(self) -> dict[str, float]:
        """Return the times as plain JSON data."""
        data = {} if self.objective_s is None else {"objective_s": self.objective_s}
        return data | {
            "closed_form_s": self.closed_form_s,
            "iteration_time_s": self.iteration_time_s,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PricedPlan:
        """Read a plan and its times; raises KeyError, TypeError or ValueError."""
        return cls(
            plan=Plan.from_json(data["plan"]),
            closed_form_s=data["closed_form_s"],
            iteration_time_s=data["iteration_time_s"],
            objective_s=data.get("objective_s"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """How far one coefficient may move in one direction (``hetopt.whatif.stability``).

    Attributes
    ----------
    kind, clusters
        ``speed``: of all that a cluster's devices compute; ``memory``: per device;
        ``link``: all bandwidths between two clusters; ``uplink``.
    more
        The direction.
    factor
        The first one found at which another plan is better by more than ``MARGIN``;
        None: there is none up to the last that is tried.
    plan_s
        What the plan takes there, by the time that is minimised; None: it does not
        fit its devices.
    other
        The best plan there; None if there is none at all, or no factor.
    proven
        Whether no plan is better at the factors that were tried before.
    """

    kind: MoveKind
    clusters: tuple[str, ...]
    more: bool
    factor: float | None
    plan_s: float | None
    other: PricedPlan | None
    proven: bool

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Crossing:
        """Read what ``to_json`` wrote; raises KeyError, TypeError or ValueError."""
        other = data["other"]
        return cls(
            clusters=tuple(data["clusters"]),
            more=data["direction"] == "more",
            other=None if other is None else PricedPlan.from_json(other),
            **{name: data[name] for name in ("kind", "factor", "plan_s", "proven")},
        )

    def to_json(self) -> dict[str, Any]:
        """Return this as plain JSON data."""
        other = None
        if self.other is not None:
            plan = self.other.plan.to_json()
            other = {**self.other.times_to_json(), "plan": plan}
        return {
            "kind": self.kind,
            "clusters": list(self.clusters),
            "direction": "more" if self.more else "less",
            "factor": self.factor,
            "plan_s": self.plan_s,
            "other": other,
            "proven": self.proven,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What it costs to keep to plans that a launcher can run.

    Attributes
    ----------
    launcher
        Its name.
    schedule
        Of the plan without these limits: the one that was asked for.
    closed_form_s, iteration_time_s
        Of that plan; None if the time was up before one was found.
    proven
        Whether that plan is proven optimal.
    """

    launcher: str
    schedule: ScheduleName
    closed_form_s: float | None
    iteration_time_s: float | None
    proven: bool

    def to_json(self) -> dict[str, Any]:
        """Return this as plain JSON data."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Result(Shown):
    """Outcome of one search.

    Attributes
    ----------
    best
        The reported plan, or None.
    alternatives
        The next best plans, best first; each differs from the others in stages,
        micro-batches, clusters, strategies or stages per cluster, and by more than
        an exchange of identical clusters.
    lower_bound_s
        Valid lower bound on the objective over the whole space; None if nothing is
        known or nothing is feasible.
    gap
        (value - lower bound) / value of the reported plan; None without a plan.
    search_time_s
        Wall-clock seconds.
    relaxed
        Principles that plans need not keep; status, bound and gap are about the
        space that is left.
    choice
        Why this solver, where ``auto`` chose it, or what it had to do without.
    launch
        Where only plans were searched that a launcher can run: which, and its price.
        Status, bound and gap are about these plans.
    cost
        Of the plan, where the problem has prices.
    spent
        What was found out about the nodes to rent, where prices decide; then there
        are no settlements.
    several
        What was found out about divisions of the nodes, where plans may have several
        pipelines; then there are no settlements.
    stability
        How far each coefficient may move until another plan is better, where that
        was asked for.
    schedules
        What was found out about each schedule, where the best of all was asked for.
        Status, bound and gap are about all that were searched; settlements are of the
        reported plan's.
    reason
        Why there is no plan, in one line; None when there is one.
    interrupted
        Whether the user stopped the search; not part of the file.
    journal_failure
        Why the journal was not kept to the end; not part of the file.

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

    status: Status
    objective: Objective = "closed"
    solver: str
    best: PricedPlan | None
    alternatives: tuple[PricedPlan, ...] = ()
    lower_bound_s: float | None
    gap: float | None
    search_time_s: float
    settlements: tuple[Settlement, ...]
    tokens_per_s: float | None
    mfu: float | None
    mfu_used: float | None
    table_kinds: Mapping[str, SourceKind]
    relaxed: tuple[Relaxable, ...] = ()
    choice: str | None = None
    launch: Launch | None = None
    cost: Cost | None = None
    spent: Spent | None = None
    several: Several | None = None
    stability: tuple[Crossing, ...] | None = None
    schedules: tuple[ScheduleBound, ...] = ()
    reason: str | None = None
    interrupted: bool = False
    journal_failure: InputError | None = None

    @property
    def settled(self) -> dict[str, int]:
        """Number of (p, q) by how they were settled, in the order of ``How``."""
        counts = Counter(settlement.how for settlement in self.settlements)
        return {how: counts[how] for how in get_args(How) if counts[how]}

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON data; see ``hetopt schema result``."""
        best = self.best
        return {
            "schema": RESULT_SCHEMA,
            "status": self.status,
            "objective": self.objective,
            "iteration_time_s": best.iteration_time_s if best else None,
            "closed_form_s": best.closed_form_s if best else None,
            **(
                {"objective_s": best.objective_s if best else None}
                if self.objective == "uniap"
                else {}
            ),
            "lower_bound_s": self.lower_bound_s,
            "gap": self.gap,
            "search_time_s": self.search_time_s,
            "tokens_per_s": self.tokens_per_s,
            "mfu": self.mfu,
            "mfu_used": self.mfu_used,
            "settled": self.settled,
            "settlements": [
                {
                    "stages": settlement.stages,
                    "microbatches": settlement.microbatches,
                    "how": settlement.how,
                    "bound_s": settlement.bound_s,
                }
                for settlement in self.settlements
            ],
            "solver": self.solver,
            **({} if self.choice is None else {"solver_choice": self.choice}),
            **({"relaxed": list(self.relaxed)} if self.relaxed else {}),
            **({} if self.launch is None else {"launch": self.launch.to_json()}),
            **({} if self.cost is None else {"cost": self.cost.to_json()}),
            **({} if self.spent is None else {"spent": self.spent.to_json()}),
            **({} if self.several is None else {"several": self.several.to_json()}),
            **(
                {}
                if self.stability is None
                else {"stability": [each.to_json() for each in self.stability]}
            ),
            **(
                {"schedules": [each.to_json() for each in self.schedules]}
                if self.schedules
                else {}
            ),
            "table_kinds": dict(self.table_kinds),
            "reason": self.reason,
            "plan": best.plan.to_json() if best else None,
            "alternatives": [
                {**other.times_to_json(), "plan": other.plan.to_json()}
                for other in self.alternatives
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Result:
        """Read what ``to_json`` wrote; raises KeyError, TypeError or ValueError."""
        launch, cost = data.get("launch"), data.get("cost")
        spent, stability = data.get("spent"), data.get("stability")
        several = data.get("several")
        same = (
            *("status", "objective", "solver", "lower_bound_s", "gap"),
            *("search_time_s", "tokens_per_s", "mfu", "mfu_used", "table_kinds"),
        )
        return cls(
            best=None if data["plan"] is None else PricedPlan.from_json(data),
            alternatives=tuple(map(PricedPlan.from_json, data["alternatives"])),
            settlements=tuple(Settlement(**each) for each in data["settlements"]),
            relaxed=tuple(data.get("relaxed", ())),
            choice=data.get("solver_choice"),
            launch=None if launch is None else Launch(**launch),
            cost=None if cost is None else Cost.from_json(cost),
            spent=None if spent is None else Spent.from_json(spent),
            several=None if several is None else Several.from_json(several),
            stability=None
            if stability is None
            else tuple(map(Crossing.from_json, stability)),
            schedules=tuple(map(ScheduleBound.from_json, data.get("schedules", ()))),
            reason=data["reason"],
            **{name: data[name] for name in same},
        )
