"""The times by which brute force prices are longest paths through explicit graphs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from hetopt.check import check_plan
from hetopt.problem.training.choices import SCHEDULE_CHOICES, ScheduleName
from hetopt.schedule.schedules import rule_of
from tests.agreement.answers import answer_to
from tests.agreement.generator import features_of, make
from tests.agreement.graph import Graph
from tests.oracle import brute_force
from tests.oracle.instances import Instance

#: Instances of each schedule.
COUNT = 12


def alone(instance: Instance) -> Instance:
    """Return the instance with links that no boundaries share.

    With several chunks a link carries activations and gradients in one direction, in an
    order that no graph knows beforehand: there, links are free at once.
    """
    table, rule = instance.table, rule_of(instance.table.schedule)
    taken = not (rule.interleaved or rule.folded)
    slices = tuple(
        replace(part, shared=None, occupancy_ns=part.occupancy_ns * taken)
        for part in table.slices
    )
    return replace(instance, table=replace(table, slices=slices))


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("schedule", SCHEDULE_CHOICES)
def test_simulated_times_are_longest_paths(schedule: ScheduleName) -> None:
    every, seen = len(SCHEDULE_CHOICES), Counter[int]()
    first = SCHEDULE_CHOICES.index(schedule)
    for seed in range(first, first + COUNT * every, every):
        features = features_of(seed)
        instance = alone(make(features))
        problem, table = instance.problem, instance.table
        shapes = answer_to(features, instance).shapes
        for found in shapes[:: max(1, len(shapes) // 5)]:
            plan = brute_force.to_plan(problem, table, found)
            checked = check_plan(problem, table, plan, features.principles)
            longest = Graph(table, found).makespan()
            assert checked.iteration_time_s == pytest.approx(longest * 1e-9, rel=1e-12)
            if table.chunks > 1:
                assert checked.closed_form_s <= longest * 1e-9 * (1 + 1e-12)
            seen[found.shape[0]] += 1
    assert sum(seen.values()) > 10, seen
    assert len(seen) > 1, seen


@pytest.mark.parametrize("schedule", SCHEDULE_CHOICES)
def test_in_the_long_run_a_micro_batch_takes_a_period(schedule: ScheduleName) -> None:
    rule = rule_of(schedule)
    if rule.interleaved or rule.folded or rule.free:
        pytest.skip("the closed form is no longest path")
    every, first = len(SCHEDULE_CHOICES), SCHEDULE_CHOICES.index(schedule)
    for seed in range(first, first + COUNT * every, every):
        features = features_of(seed)
        instance = alone(make(features))
        found = answer_to(features, instance).best
        if found is None or found.shape[1] == 1:
            continue
        few, many = (Graph(instance.table, found, q).makespan() for q in (30, 60))
        period = float(found.period_ns)
        assert many - few >= 29 * period * (1 - 1e-9)
        if not (rule.blocking or rule.splits or rule.all_first):
            assert many - few <= 31 * period
