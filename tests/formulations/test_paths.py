"""Leaving out what others replace on every path keeps all that is reported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetopt.formulations.chain import Chain
from hetopt.formulations.paths import Simulated
from hetopt.formulations.space import undominated
from hetopt.problem.training.choices import ScheduleName
from hetopt.problem.training.pins import Domain, Pins
from tests.oracle import brute_force
from tests.oracle.instances import Instance, make_instance

#: Longer than any plan here.
LONG_NS = 10**12
UNIT_NS = 1_000_000


def without(instance: Instance, limit_ns: int = LONG_NS) -> Instance:
    """Return the instance without the strategies that others replace."""
    problem, table = instance.problem, instance.table
    of_interest = Simulated(limit_ns, max(problem.stage_counts))
    chain = Chain.of(table)
    slices = [
        undominated(table, part, chain, simulated=of_interest) for part in table.slices
    ]
    return replace(instance, table=replace(table, slices=tuple(slices)))


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("schedule", ["1f1b", "eager-1f1b", "virtual-1f1b", "gpipe"])
def test_every_program_keeps_its_least_simulated_time(
    seed: int, schedule: ScheduleName
) -> None:
    instance = make_instance(seed, schedule=schedule, most=1500)
    answer = brute_force.solve(instance.problem, instance.table, simulated=True)
    less = without(instance)
    rest = brute_force.solve(less.problem, less.table, simulated=True)
    for program, found in answer.programs.items():
        assert rest.programs[program].simulated_ns == found.simulated_ns
    if answer.best is None:
        return
    assert answer.best.simulated_ns is not None
    # What takes longer than the best plan by itself need not fit.
    least = without(instance, answer.best.simulated_ns)
    kept = brute_force.solve(least.problem, least.table, simulated=True)
    assert kept.best is not None
    assert kept.best.simulated_ns == answer.best.simulated_ns
    plans = [
        brute_force.to_plan(each.problem, each.table, best)
        for each, best in ((instance, answer.best), (least, kept.best))
    ]
    assert plans[0].pipeline == plans[1].pipeline


# Most of it is the table.
def test_tied_embeddings_add_to_stages_that_no_faster_pass_makes_up_for() -> None:
    """A slow first stage warms up for longer than its gradients are away.

    What a quicker strategy of the last cluster saves is then on no longest path, and
    what it adds to the tied embeddings' way is.
    """
    drawn = make_instance(5, schedule="eager-1f1b", most=2500, pinned=False, clusters=2)
    problem = replace(drawn.problem, model=replace(drawn.problem.model, tied=True))
    slow, fast = 1, 0
    names = [cluster.name for cluster in problem.clusters]
    problem = replace(
        problem,
        pins=Pins(
            order=(names[slow], names[fast]),
            microbatches=Domain(allowed=frozenset({2, 3, 4, 6, 8})),
        ),
    )
    slices = []
    for part in drawn.table.slices:
        clusters = []
        for j, own in enumerate(part.clusters):
            one = np.ones_like(own.forward_ns)
            times = one * (20 if j == slow else 1) * UNIT_NS
            if j == fast and len(times) > 1:
                # The last one is slower, and no other has as short a way back.
                times[-1] = 5 * UNIT_NS
            clusters.append(
                replace(
                    own,
                    forward_ns=times,
                    backward_ns=times.copy(),
                    sync_ns=own.sync_ns * 0,
                    sync_unit_ns=one * 0,
                    state_bytes=one,
                    activation_bytes=one,
                    temporary_bytes=one * 0,
                    fixed_bytes=own.fixed_bytes * 0,
                )
            )
        layouts = part.clusters[fast].layout.tolist()
        tied = np.zeros((len(part.layouts),) * 2, np.int64)
        tied[:, sorted(set(layouts) - set(layouts[-1:]))] = UNIT_NS
        slices.append(
            replace(
                part,
                clusters=tuple(clusters),
                transfer_ns=part.transfer_ns * 0,
                occupancy_ns=part.occupancy_ns * 0,
                tied_ns=tied,
            )
        )
    instance = Instance(
        seed=5, problem=problem, table=replace(drawn.table, slices=tuple(slices))
    )
    best, kept = (
        brute_force.solve(each.problem, each.table, simulated=True).best
        for each in (instance, without(instance))
    )
    assert best is not None
    assert kept is not None
    assert best.simulated_ns == kept.simulated_ns == 160 * UNIT_NS
