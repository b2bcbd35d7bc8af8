"""Instances whose stages hold chunks that differ, and all their plans one by one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import islice, pairwise, permutations, product
from random import Random
from typing import TYPE_CHECKING

from hetopt.check import check_plan
from hetopt.cost.table_file.file import table_digest
from hetopt.errors import CheckError
from hetopt.formulations.decision import Decision
from hetopt.problem.digest import problem_digest
from hetopt.problem.training.choices import INTERLEAVED
from hetopt.solvers.decisions.assembly import plan_of
from tests.oracle.instances import Instance, make_instance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.check.plan.plan import CheckedPlan
    from hetopt.plans.plan import Plan

#: Most plans of an instance before memory and pins.
MOST = 800


def make_uneven(seed: int) -> Instance:
    """Draw an instance with a layout, some of whose chunks may be empty."""
    rng = Random(f"uneven {seed}")
    while True:
        drawn = make_instance(
            rng.randrange(10**9), schedule="eager-1f1b", pinned=rng.random() < 0.3
        )
        pins = replace(drawn.problem.pins, units=None)
        problem = replace(drawn.problem, pins=pins)
        units, v = len(drawn.table.units), rng.randint(2, 3)
        batch = problem.training.global_batch
        able = [p for p in range(2, 5) if batch % p == 0 and p * v <= units + 2]
        if not able:
            continue
        p = rng.choice(able)
        cuts = (*sorted(rng.choices(range(1, units), k=p * v - 1)), units)
        held = [end - first for first, end in pairwise((0, *cuts))]
        if not all(sum(held[i::p]) for i in range(p)):
            continue
        training = replace(problem.training, schedule=INTERLEAVED, chunks=v)
        problem = replace(problem, training=training, pins=replace(pins, cuts=cuts))
        table = replace(
            drawn.table,
            schedule=INTERLEAVED,
            chunks=v,
            layout=cuts,
            problem_digest=problem_digest(problem),
        )
        instance = Instance(seed=seed, problem=problem, table=table)
        if sum(1 for _ in islice(decisions(instance), MOST + 1)) <= MOST:
            return instance


def decisions(instance: Instance) -> Iterator[Decision]:
    """Yield every way to host the stages of every (p, q)."""
    table = instance.table
    assert table.layout is not None
    p, chunks = len(table.layout) // table.chunks, [*pairwise((0, *table.layout))]
    units = tuple(sum(end - first for first, end in chunks[i::p]) for i in range(p))
    for part in table.slices:
        if part.microbatches % p:
            continue
        for used in range(1, len(part.clusters) + 1):
            for order in permutations(range(len(part.clusters)), used):
                own = [part.clusters[j].strategies for j in order]
                counts = [
                    hosted
                    for hosted in product(range(1, p + 1), repeat=used)
                    if sum(hosted) == p
                ]
                for hosted, strategies in product(counts, product(*own)):
                    yield Decision(
                        microbatches=part.microbatches,
                        order=order,
                        strategies=strategies,
                        hosted=hosted,
                        units=units,
                    )


def valid_plans(instance: Instance) -> list[tuple[Plan, CheckedPlan]]:
    """Return all plans that the checker accepts, with their times and memory."""
    problem, table = instance.problem, instance.table
    digest, found = table_digest(table), []
    for decision in decisions(instance):
        plan = plan_of(decision, table, digest)
        with suppress(CheckError):
            found.append((plan, check_plan(problem, table, plan)))
    return found
