"""Whether mixing is worth it: all clusters together against each of them alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import MinLen

from hetopt.base.fields import Count, Positive
from hetopt.base.file_record import FileRecord
from hetopt.pricing.balance import balance
from hetopt.problem.training.pins import ANY, Pins
from hetopt.results.result import Status, Time
from hetopt.whatif.solving import Solving
from hetopt.whatif.variants import Variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hetopt.planning.asked import Search
    from hetopt.plans.plan import Plan
    from hetopt.pricing.price import Price
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem
    from hetopt.whatif.solving import Answer

#: Seconds for the search of each cluster alone, unless the user gives a limit.
ALONE_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone(FileRecord):
    """The best plan of one cluster without the others, for the same batch.

    Attributes
    ----------
    status
        ``failed``: it was not searched.
    time_s, gap
        Of an iteration; None without a plan.
    tokens_per_s
        0 if it is proven that there is no plan; None if none was found.
    reason
        Why there is no plan.
    """

    cluster: str
    devices: Count
    status: Status | Literal["failed"]
    time_s: Positive | None
    gap: float | None
    tokens_per_s: float | None
    reason: str | None

    def rated(self, problem: Problem, cluster: Cluster) -> Alone:
        """Return it with what follows: cluster, devices and tokens per second."""
        rate = 0.0 if self.status == "infeasible" else None
        if self.time_s is not None:
            rate = problem.training.tokens / self.time_s
        name, devices = cluster.name, cluster.devices
        return replace(self, cluster=name, devices=devices, tokens_per_s=rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixing(FileRecord):
    """A plan for several clusters, beside the best plan of each of them alone.

    Attributes
    ----------
    objective
        Which time all times are: in closed form, or simulated.
    devices, time_s
        The plan's.
    balance
        HAPT's load balance of the plan, above 0 and at most 1.
    over_fastest
        The plan's throughput over that of the fastest cluster alone; None if no cluster
        alone has a plan.
    hetero_speedup_ratio
        H2's ratio; None also if it is open whether some cluster alone has a plan.
    """

    objective: Time
    devices: Count
    time_s: Positive
    tokens_per_s: Positive
    balance: Positive
    over_fastest: float | None
    hetero_speedup_ratio: float | None
    alone: Annotated[tuple[Alone, ...], MinLen(2)]

    @classmethod
    def of(
        cls,
        problem: Problem,
        plan: Plan,
        price: Price,
        objective: Time,
        alone: tuple[Alone, ...],
    ) -> Mixing:
        """Compare a plan with what was found of each of ``mixed_clusters`` alone.

        Everything but status, time, gap and reason of ``alone`` is computed here.
        """
        simulated = objective == "simulated"
        time_s = price.iteration_time_s if simulated else price.closed_form_s
        rate = problem.training.tokens / time_s
        pairs = zip(alone, mixed_clusters(problem), strict=True)
        alone = tuple(each.rated(problem, cluster) for each, cluster in pairs)
        rates = [each.tokens_per_s or 0.0 for each in alone]
        is_known = all(each.tokens_per_s is not None for each in alone)
        ratio = hetero_speedup_ratio(rate, rates) if is_known and any(rates) else None
        return cls(
            objective=objective,
            devices=plan.devices,
            time_s=time_s,
            tokens_per_s=rate,
            balance=balance(problem, plan, price),
            over_fastest=rate / max(rates) if any(rates) else None,
            hetero_speedup_ratio=ratio,
            alone=alone,
        )


def hetero_speedup_ratio(tokens_per_s: float, alone: Iterable[float]) -> float:
    """Return H2's HeteroSpeedupRatio: all chips together over the sum of each kind.

    H2, section 6.2 (an equation without a number): N TGS / sum_i N_i TGS_i, where TGS
    are tokens per second and chip of all N chips together, TGS_i of the N_i chips of
    kind i alone. So N TGS and each N_i TGS_i are throughputs. H2 takes every TGS_i from
    256 chips with 2M tokens (Table 6), whatever N_i and the mix's batch are.

    Parameters
    ----------
    tokens_per_s
        N TGS, in tokens/s.
    alone
        N_i TGS_i of each kind in tokens/s; not all 0.
    """
    return tokens_per_s / sum(alone)


def alone_problem(problem: Problem, cluster: Cluster) -> Problem:
    """Return the problem with one cluster only, and the same batch.

    Pins of stages, units and the order of clusters are lifted, as they are about the
    mix; those of degrees, recomputation and micro-batches stay.
    """
    pins = problem.pins
    own = replace(pins.of(cluster.name), stages=ANY, units=ANY)
    free = Pins(
        microbatches=pins.microbatches,
        resharding=pins.resharding,
        clusters={cluster.name: own},
    )
    return replace(problem, clusters=(cluster,), pins=free)


def mixed_clusters(problem: Problem) -> list[Cluster]:
    """Return the clusters that a plan may mix; none if pins leave fewer than two."""
    clusters = problem.usable_clusters
    return [*clusters] if len(clusters) > 1 else []


def mixing(
    problem: Problem,
    plan: Plan,
    price: Price,
    asked: Search,
    told: Callable[[str], None],
) -> Mixing | None:
    """Search each cluster alone, and compare a plan with them.

    Parameters
    ----------
    asked
        How each is searched; without a time limit, for ``ALONE_LIMIT_S`` at most.
    told
        Called with a line whenever a cluster is done.

    Returns
    -------
    None if pins leave fewer than two clusters.
    """
    clusters = mixed_clusters(problem)
    if not clusters:
        return None
    variants = [
        Variant(change=each.name, problem=alone_problem(problem, each))
        for each in clusters
    ]
    limited = replace(asked, time_limit_s=asked.time_limit_s or ALONE_LIMIT_S)
    answers = Solving(variants, limited, told).answers()
    found = tuple(map(_alone, clusters, answers))
    return Mixing.of(problem, plan, price, asked.time or "closed", found)


def _alone(cluster: Cluster, answer: Answer) -> Alone:
    result = answer.result
    best = None if result is None else result.best
    return Alone(
        cluster=cluster.name,
        devices=cluster.devices,
        status="failed" if result is None else result.status,
        time_s=best.time_s(result.objective) if result and best else None,
        gap=None if result is None else result.gap,
        tokens_per_s=None,
        reason=answer.failure if result is None else result.reason,
    )
