"""Device time lies between the search's own bound and the time of every plan."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
import yaml

from hetopt.check.claims.device_time import DeviceTime
from hetopt.check.claims.ways import Divided
from hetopt.check.plan.plan import check_plan
from hetopt.cost.build import build_table
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.choices import FOLDED, SCHEDULE_CHOICES
from hetopt.solvers.search.space import Space
from tests.cli.conftest import SMALL
from tests.oracle import brute_force
from tests.oracle.instances import make_other

if TYPE_CHECKING:
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import ScheduleName


def fleets_of(problem: Problem) -> list[tuple[int, ...]]:
    """Return every choice of nodes."""
    counts = [each.nodes for each in problem.clusters]
    return [each for each in product(*(range(n + 1) for n in counts)) if any(each)]


@pytest.mark.parametrize("schedule", SCHEDULE_CHOICES)
@pytest.mark.parametrize("seed", [3, 4])
def test_of_one_pipeline(schedule: ScheduleName, seed: int) -> None:
    """Brute force finds no quicker plan, and the checker's own bound is no weaker."""
    instance = make_other(seed, schedule)
    problem, table = instance.problem, instance.table
    fleets = fleets_of(problem)
    nodes = np.array(fleets)
    known = DeviceTime(problem, table, divided=False).of_nodes(nodes)
    searched = Space.of(problem, table).least_s(nodes, divided=False)
    assert (known >= searched * (1 - 1e-8)).all()
    least_s = dict(zip(fleets, known.tolist(), strict=True))
    for found in brute_force.solve(problem, table).shapes[:100]:
        checked = check_plan(problem, table, brute_force.to_plan(problem, table, found))
        # All nodes of the clusters that host stages.
        used = tuple(
            each.nodes if j in found.shape[2] else 0
            for j, each in enumerate(problem.clusters)
        )
        assert least_s[used] <= checked.closed_form_s
        assert least_s[used] <= checked.iteration_time_s


def test_pipelines_side_by_side_may_take_less() -> None:
    """Part of a batch has micro-batches that the whole batch has not."""
    problem = read_problem_text(SMALL)
    table, nodes = build_table(problem), np.array(fleets_of(problem))
    alone = DeviceTime(problem, table, divided=False).of_nodes(nodes)
    known = DeviceTime(problem, table, divided=True)
    shared = known.of_nodes(nodes)
    assert (shared < alone).any()
    assert (shared <= alone * (1 + 1e-9)).all()
    searched = Space.of(problem, table).least_s(nodes, divided=True)
    assert searched == pytest.approx(shared, rel=1e-8)
    of_one = known.of_part({"fast": (2,), "slow": (1,)})
    assert of_one[-1] == pytest.approx(alone[-1])


def test_it_is_the_same_under_every_schedule() -> None:
    """Units of two kinds that schedules which fold have in one pair."""
    data = yaml.safe_load(SMALL)
    data["model"] |= {
        "layers": 4,
        "experts": {"number": 2, "per_token": 1, "ffn": 8192, "dense_layers": 2},
    }
    problem = read_problem_text(yaml.safe_dump(data))
    nodes = np.array(fleets_of(problem))
    found = []
    for schedule in ("1f1b", "zb-h1", *FOLDED):
        other = problem.under(schedule)
        table = build_table(other)
        found.append(DeviceTime(other, table, divided=False).of_nodes(nodes))
        searched = Space.of(other, table).least_s(nodes, divided=False)
        assert searched == pytest.approx(found[-1], rel=1e-8)
    assert len({kind for kind in table.units if table.body[kind]}) == 1
    assert len(set(problem.model.units)) == 4
    assert np.array_equal(found, [found[0]] * len(found))


def test_of_lengths_some_nodes_are_slower_than_all() -> None:
    """What is not searched of a fleet counts with the time of its own nodes."""
    problem = read_problem_text(
        SMALL.replace("seq_len: 1024", "seq_len: 1024, lengths: {1024: 0.5, 512: 0.5}")
    )
    time = DeviceTime(problem, build_table(problem), divided=True)
    counts = tuple(each.nodes for each in problem.clusters)
    assert time.mixed_s is not None
    for nodes in fleets_of(problem):
        divided = Divided(problem, nodes, time, most=2, cuts=True)
        (least_s,) = {*divided.device_s.values()}
        if nodes == counts:
            assert least_s == time.mixed_s
        else:
            assert least_s > time.mixed_s
