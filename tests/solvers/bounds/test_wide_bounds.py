"""Bounds where P3 or P4 is relaxed hold for what brute force finds there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetopt.formulations.chain import Chain
from hetopt.formulations.space import undominated
from hetopt.problem.training.principles import Principles
from hetopt.solvers.bounds.by_count import focus, survey
from hetopt.solvers.bounds.relaxation import Relaxation
from tests.oracle import brute_force
from tests.oracle.instances import WIDEST, make_instance

#: Consecutive seeds go through the five schedules; so do those of each space.
SPACES = (
    WIDEST,
    Principles.relaxing(["p3"]),
    Principles.relaxing(["p4"]),
    Principles.relaxing(["p4-falling-tp"]),
)
SEEDS = range(500, 740)


@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_hold_and_no_optimum_is_lost(seed: int) -> None:
    space = SPACES[seed % len(SPACES)]
    instance = make_instance(seed, widest=True)
    problem, table = instance.problem, instance.table
    chain = Chain.of(table)
    programs = brute_force.solve(problem, table, space).programs
    for part in table.slices:
        q = part.microbatches
        relaxation = Relaxation(
            table=table,
            part=part,
            chain=chain,
            pins=problem.pins,
            most_stages=chain.length,
            principles=space,
        )
        values = {
            p: float(found.closed_form_ns)
            for (p, of), found in programs.items()
            if of == q
        }
        rough = survey(relaxation, cutoff=None)
        close = survey(relaxation, cutoff=max(values.values(), default=0.0))
        for p, value in values.items():
            found = programs[p, q]
            assert rough.bound[p] <= value
            assert close.bound[p] <= value
            if (p + seed) % 2:  # half of them, as it takes the longest
                continue
            narrowed = focus(relaxation, p, cutoff=value)
            assert narrowed.bound <= value
            _, _, order, strategies, _ = found.shape
            for j, strategy in zip(order, strategies, strict=True):
                assert strategy in narrowed.keep[j]


@pytest.mark.parametrize("seed", SEEDS[::4])
def test_undominated_strategies_keep_the_plan(seed: int) -> None:
    space = SPACES[seed // 4 % len(SPACES)]
    instance = make_instance(seed, widest=True)
    problem, table = instance.problem, instance.table
    chain = Chain.of(table)
    fewer = replace(
        table,
        slices=tuple(undominated(table, part, chain, space) for part in table.slices),
    )
    best = brute_force.solve(problem, table, space).best
    found = brute_force.solve(problem, fewer, space).best
    assert (best is None) == (found is None)
    if best is None or found is None:
        return
    assert found.value_ns == best.value_ns
    assert (
        brute_force.to_plan(problem, fewer, found).pipelines
        == brute_force.to_plan(problem, table, best).pipelines
    )


def test_some_strategies_are_dominated_in_every_space() -> None:
    for space in SPACES:
        removed = 0
        for seed in SEEDS[:60]:
            table = make_instance(seed, widest=True).table
            chain = Chain.of(table)
            for part in table.slices:
                fewer = undominated(table, part, chain, space)
                removed += sum(len(own.strategies) for own in part.clusters)
                removed -= sum(len(own.strategies) for own in fewer.clusters)
        assert removed > 0, space
