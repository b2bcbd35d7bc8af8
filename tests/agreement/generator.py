"""Instances in which every ability of a problem is drawn on or off, in any company."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Literal

from hetopt.cost.build import build_table
from hetopt.problem.training.choices import SCHEDULE_CHOICES, ScheduleName
from hetopt.problem.training.epsilon import EPSILONS
from hetopt.problem.training.principles import PRUNED, Principles
from hetopt.schedule.schedules import rule_of
from tests.agreement.lengths import drawn
from tests.agreement.modelled import make_modelled
from tests.oracle import wide
from tests.oracle.instances import (
    SLOWNESS,
    Instance,
    chunked,
    count_plans,
    folded_back,
    slowed,
    split,
)
from tests.oracle.links import crossing, with_a_middle, with_links, with_uplinks
from tests.oracle.odd import CHAINS, ODD, with_nodes
from tests.oracle.problems import draw_problem
from tests.oracle.tables import draw_table

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Relaxable

#: Plans an instance may have before memory and pins; where warm-ups are free; and if
#: it is large, as this share of the instances is.
MOST_PLANS, MOST_FREE_PLANS, MOST_LARGE_PLANS = 200, 40, 1500
LARGE = 0.05
#: Bytes per second of uplinks that are busy for about as long as stages, as exponents.
SLOW_UPLINKS = (5.0, 7.5)
#: Where the costs of boundaries come from.
Links = Literal["drawn", "slow", "missing", "shared"]
#: Kinds of layers of a modelled problem.
Model = Literal["plain", "t5", "swin"]
#: Share of the instances that are modelled, and of those with two lengths, where
#: schedules permit them.
MODELLED, LENGTHS = 0.18, 0.3
#: Share of the instances that ask for the least simulated time.
SIMULATED = 0.25
#: What may be relaxed together.
RELAXED: tuple[tuple[Relaxable, ...], ...] = (
    ("p4",),
    ("p4-falling-tp",),
    ("p3",),
    ("p3", "p4"),
    ("p3", "p4-falling-tp"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What an instance has; the seed draws all that is left open.

    Attributes
    ----------
    chunks
        Of every stage, if the schedule interleaves them.
    epsilon
        ``warmup_epsilon`` of a schedule that has one.
    pinned
        Whether there are one to three pins.
    odd
        Whether nodes are unequal, or their devices no powers of two.
    experts
        Whether some layers have routed experts.
    links
        Boundaries cost what is drawn, or many times as much, or what the cost model
        makes of drawn links: some of them missing, or every cluster in use and behind
        an uplink.
    model
        None if costs are drawn straight into the table; otherwise the cost model
        builds it for layers of one, two or three kinds.
    offload, prices
        Whether clusters of a modelled problem keep the optimizer in the host's memory,
        and whether their nodes have prices.
    lengths
        Whether sequences have two lengths; up to two pipelines are then planned.
    large
        Whether there may be many times as many plans.
    relaxed
        Principles that plans need not keep.
    top
        How many plans are asked for.
    """

    seed: int
    schedule: ScheduleName
    objective: Literal["closed", "simulated"]
    chunks: int
    epsilon: float | None
    clusters: int
    pinned: bool
    odd: bool
    experts: bool
    links: Links
    model: Model | None
    offload: bool
    prices: bool
    lengths: bool
    large: bool
    relaxed: tuple[Relaxable, ...]
    top: int

    @property
    def principles(self) -> Principles:
        """What plans have to keep."""
        return Principles.relaxing(self.relaxed)


def features_of(seed: int, simulated_share: float = SIMULATED) -> Features:
    """Draw what an instance has; consecutive seeds go through the schedules.

    Parameters
    ----------
    simulated_share
        Of the instances, what share asks for the least simulated time.
    """
    rng = Random(f"features {seed}")
    schedule = SCHEDULE_CHOICES[seed % len(SCHEDULE_CHOICES)]
    rule = rule_of(schedule)
    simulated = rule.free or rng.random() < simulated_share
    relaxes = not (simulated or rule.interleaved or rule.splits)
    relaxed = rng.choice(RELAXED) if relaxes and rng.random() < 0.35 else ()
    clusters = rng.choice((1, 2, 2, 2) if rule.free else (1, 2, 2, 2, 3))
    kinds: tuple[Links, ...] = ("drawn", "slow")
    if clusters > 1 and not (rule.blocking and relaxed):
        # Blocking transfers share no uplinks, and no links that are met again.
        kinds += ("missing",) if rule.blocking else ("missing", "shared", "shared")
    links = rng.choice(kinds)
    if links == "shared" and not rule.free:
        # Both boundaries of the cluster in the middle share its uplink.
        clusters = 3
    model: Model | None = None
    if rng.random() < MODELLED and not rule.free:
        # Chunks are alike only where layers are.
        alike = rule.interleaved or rule.folded
        model = "plain" if alike else rng.choice(("plain", "t5", "swin"))
        clusters = min(clusters, 2)
    is_drawn = model is None
    if rule.blocking and not is_drawn:
        # A cluster with stages in two places would share its links.
        relaxed = ()
    lengths = is_drawn and rule.mixes and not (simulated or relaxed)
    return Features(
        seed=seed,
        schedule=schedule,
        objective="simulated" if simulated else "closed",
        chunks=rng.choice((2, 3, 4)) if rule.interleaved else 1,
        epsilon=rng.choice(EPSILONS) if rule.thresholds else None,
        clusters=clusters,
        pinned=is_drawn and rng.random() < 0.4,
        odd=is_drawn and rng.random() < 0.3,
        experts=model in (None, "plain") and rng.random() < 0.25,
        links=links if is_drawn else "drawn",
        model=model,
        offload=not is_drawn and rng.random() < 0.5,
        prices=not is_drawn and not (simulated or relaxed) and rng.random() < 0.5,
        lengths=lengths and rng.random() < LENGTHS,
        large=not (relaxed or simulated) and rng.random() < LARGE,
        relaxed=relaxed,
        top=rng.choice((1, 1, 1, 1, 3)),
    )


def in_simulated_time(seed: int) -> Features:
    """Draw what an instance has that asks for the least simulated time.

    With relaxed principles or several lengths where its closed form is asked for so.
    """
    drawn = features_of(seed)
    if drawn.relaxed or drawn.lengths:
        return replace(drawn, objective="simulated", large=False, top=1)
    return features_of(seed, 1.0)


@lru_cache(maxsize=10)
def make(features: Features) -> Instance:
    """Draw the instance."""
    if features.lengths:
        problem = drawn(features.seed, features.schedule, odd=features.odd)
        return Instance(seed=features.seed, problem=problem, table=build_table(problem))
    if features.model is not None:
        return make_modelled(features)
    rng, size = Random(f"instance {features.seed}"), 1.0
    while True:
        problem = _problem(features, rng, size)
        table = draw_table(rng, problem, size=size, sizes=_sizes(features, rng))
        size = size * 0.85 if size > 0.1 else 1.0
        if _is_small(features, problem, table):
            break
    if features.links == "shared":
        problem, table = _with_room(problem, table)
    instance = Instance(seed=features.seed, problem=problem, table=table)
    if features.links in ("missing", "shared"):
        instance = crossing(instance, problem)
    elif features.links == "slow":
        epsilon = features.epsilon
        instance = slowed(instance, *rng.choice(SLOWNESS), epsilon)
    rule = rule_of(features.schedule)
    if rule.interleaved:
        return chunked(instance, features.chunks)
    if rule.folded:
        return folded_back(instance, rng, features.schedule)
    return split(instance, features.schedule) if rule.splits else instance


def _problem(features: Features, rng: Random, size: float) -> Problem:
    rule = rule_of(features.schedule)
    # What is drawn stands for one chunk.
    plain = features.schedule
    if rule.interleaved:
        plain = "eager-1f1b"
    elif rule.splits:
        plain = "1f1b"
    problem = draw_problem(
        rng,
        plain,
        features.clusters,
        pinned=features.pinned,
        size=size,
        experts=features.experts,
    )
    if features.epsilon is not None:
        problem = problem.under(plain, epsilon=features.epsilon)
    if features.odd:
        clusters = tuple(with_nodes(own, rng.choice(ODD)) for own in problem.clusters)
        batch = rng.choice((6, 8, 10, 12))
        training = replace(problem.training, global_batch=batch)
        problem = replace(problem, clusters=clusters, training=training)
    if features.links == "missing":
        problem = with_links(problem, rng)
        return with_uplinks(problem, rng, 0) if rule.blocking else problem
    return (
        with_a_middle(problem, rng, SLOW_UPLINKS)
        if features.links == "shared"
        else problem
    )


def _with_room(problem: Problem, table: CostTable) -> tuple[Problem, CostTable]:
    """Return both with so much memory that most plans of all clusters fit."""
    clusters = tuple(
        replace(own, memory_bytes=8 * own.memory_bytes) for own in problem.clusters
    )
    left = 1 - problem.training.reserve
    usable = (int(own.memory_bytes * left) - own.overhead_bytes for own in clusters)
    problem = replace(problem, clusters=clusters)
    return problem, replace(table, usable_bytes=tuple(usable))


def _sizes(features: Features, rng: Random) -> range | tuple[int, ...] | None:
    """Return the devices that stages may have; None for what suits even nodes."""
    if not features.odd:
        return None
    # Without P4 each size has to divide the next.
    whole = features.principles.sharing == "one"
    return range(1, 100) if whole else rng.choice(CHAINS)


def _is_small(features: Features, problem: Problem, table: CostTable) -> bool:
    """Whether brute force is quick, and the features permit the table."""
    rule, principles = rule_of(features.schedule), features.principles
    most = MOST_FREE_PLANS if rule.free else MOST_PLANS
    most = MOST_LARGE_PLANS if features.large else most
    if rule.folded and len(set(table.cuts)) > 1:
        # What crosses a boundary up would not be what crosses it down.
        return False
    if count_plans(table) > most:
        return False
    if principles == PRUNED:
        return True
    if features.odd and principles.sharing != "one":
        stages = (
            own.devices <= problem.clusters[j].devices_per_node
            for part in table.slices
            for j, rows in enumerate(part.clusters)
            for own in rows.strategies
        )
        if not all(stages):
            return False
    return wide.count_plans(table, principles, most) <= most
