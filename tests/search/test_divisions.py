"""Pipelines side by side, against every division of nodes and batch in turn."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import hetopt
from hetopt.check import check_plan
from hetopt.cost import device_work
from hetopt.cost.build import build_table
from hetopt.cost.divided import part
from hetopt.cost.table.ticks import TICK_S
from hetopt.errors import InputError
from hetopt.problem.reading import read_problem, read_problem_text
from hetopt.problem.training.principles import Principles
from hetopt.solvers.refusals import ensure_packs
from hetopt.solvers.search.branchings.possible import ensure_several
from hetopt.solvers.search.over import Over
from tests.oracle import brute_force
from tests.search.asking import AT_ONCE_S, found, request_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result

#: What each pipeline has of each cluster.
Way = tuple[dict[str, tuple[int, ...]], ...]

#: Devices of the nodes of one cluster, and of two: at most eight in all.
ONE = ([4, 4], [2, 2, 2], [4, 3], [3, 3], [2, 2, 2, 2], [4, 2, 2], [1, 1, 1], [6, 2])
TWO = (([2, 2], [4]), ([2], [2]), ([4], [3]), ([1, 1], [2, 2]), ([2, 1], [2, 2]))


LINKED = {"inter_node": {"bandwidth": "100 Gbps"}}
#: Plans are ranked with the period rounded up to a whole tick, at most six times.
ROUNDED_S = 6 * TICK_S


def drawn(rng: Random) -> Problem:
    """Return a problem of one or two clusters with at most eight devices."""
    sizes = [rng.choice(ONE)] if rng.random() < 0.5 else list(rng.choice(TWO))
    data: dict[str, Any] = {
        "model": {"layers": 4, "hidden": 512, "heads": 4, "ffn": 2048, "vocab": 1000},
        "clusters": [
            {
                "name": name,
                "accelerator": rng.choice(("A100-80GB", "A40", "H100")),
                "memory": f"{rng.choice((0.4, 1, 40))} GB",
                "overhead": "0 GB",
                "nodes": own,
                "inter_node": {"bandwidth": f"{rng.choice((10, 100, 400))} Gbps"},
                **({"uplink": "20 Gbps"} if rng.random() < 0.2 else {}),
            }
            for name, own in zip(("red", "green"), sizes, strict=False)
        ],
        "links": {
            "default": {
                "bandwidth": rng.choice(("10 Gbps", "unlimited")),
                "latency": "1 ms",
                "staged": rng.choice(("host", "device")),
            }
        },
        "training": {
            "global_batch": rng.choice((3, 4, 5, 6)),
            "seq_len": 8192,
            "precision": "fp16",
            "zero": rng.choice((0, 1, 2)),
            "overlap_gradients": rng.random() < 0.5,
            "schedule": rng.choice(("1f1b", "virtual-1f1b", "eager-1f1b")),
        },
    }
    return read_problem_text(yaml.safe_dump(data))


def ways(problem: Problem) -> Iterator[Way]:
    """Yield two pipelines' nodes: each node is given to one, or cut once in halves."""
    options = []
    for cluster in problem.clusters:
        own = [cluster.devices_of(i) for i in range(cluster.nodes)]
        given: set[tuple[tuple[int, ...], tuple[int, ...]]] = {((), ())}
        for owners in product((0, 1, 2), repeat=len(own)):
            cut = [size for size, owner in zip(own, owners, strict=True) if owner == 2]
            if any(size % 2 for size in cut) or len(set(cut)) < len(cut):
                continue
            halves = [size // 2 for size in cut]
            shares = [
                tuple(
                    sorted(
                        halves
                        + [
                            x
                            for x, owner in zip(own, owners, strict=True)
                            if owner == r
                        ],
                        reverse=True,
                    )
                )
                for r in (0, 1)
            ]
            given.add((shares[0], shares[1]))
        options.append(sorted(given))
    names = [cluster.name for cluster in problem.clusters]
    for choice in product(*options):
        way = tuple(
            {name: own[r] for name, own in zip(names, choice, strict=True) if own[r]}
            for r in (0, 1)
        )
        if all(way):
            yield way


def alone_s(problem: Problem, table: CostTable) -> float:
    """Return the least closed form of one pipeline; inf: there is no plan."""
    best = brute_force.solve(problem, table).best
    return float("inf") if best is None else float(best.closed_form_ns) * TICK_S


def least_s(problem: Problem) -> float:
    """Return the least closed form of one pipeline or two; inf: there is no plan."""
    known: dict[object, float] = {}

    def pipeline_s(way: Way, number: int, batch: int) -> float:
        key = (sorted(way[number].items()), sorted(way[1 - number].items()))
        where = (str(key), batch)
        if where not in known:
            own = part(problem, way, number, batch)
            known[where] = alone_s(own.problem, own.table)
        return known[where]

    least = alone_s(problem, build_table(problem))
    batch = problem.training.global_batch
    for way in ways(problem):
        for first in range(1, batch):
            longest = pipeline_s(way, 0, first)
            if longest < least:
                longest = max(longest, pipeline_s(way, 1, batch - first))
            least = min(least, longest)
    return least


def planned(problem: Problem, most: int = 2, limit_s: float | None = None) -> Result:
    return found(request_of(problem, limit_s), Over(pipelines=most))


@pytest.mark.quick_cases(1)
@pytest.mark.quick_seeds(2)
@pytest.mark.parametrize("seed", range(200))
def test_the_plan_is_the_best_of_all_divisions(seed: int) -> None:
    problem = drawn(Random(seed))
    result = planned(problem)
    expected = least_s(problem)
    if result.best is None:
        assert expected == float("inf")
        assert result.status == "infeasible"
        return
    assert result.status == "optimal"
    assert result.best.closed_form_s == pytest.approx(
        expected, rel=1e-12, abs=ROUNDED_S
    )
    checked = check_plan(problem, build_table(problem), result.best.plan)
    assert checked.iteration_time_s == pytest.approx(result.best.iteration_time_s)


@pytest.mark.parametrize(("drawn_by", "pipelines"), [(2, 1), (9, 2), (14, 2)])
def test_some_instances_have_several(drawn_by: int, pipelines: int) -> None:
    best = planned(drawn(Random(drawn_by))).best
    assert best is not None
    assert len(best.plan.pipelines) == pipelines


def test_more_pipelines_are_never_worse() -> None:
    problem = drawn(Random(14))
    times = []
    for most in (2, 3, 4):
        best = planned(problem, most).best
        assert best is not None
        times.append(best.closed_form_s)
    assert times == sorted(times, reverse=True)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("seed", [3, 9, 14])
def test_without_time_there_is_a_first_plan_and_a_bound(seed: int) -> None:
    problem = drawn(Random(seed))
    late = planned(problem, limit_s=AT_ONCE_S)
    assert late.best is not None
    assert len(late.best.plan.pipelines) == 1
    assert late.lower_bound_s is not None
    assert 0 < late.lower_bound_s <= least_s(problem) * (1 + 1e-12)
    assert late.gap is not None
    assert late.gap < 1


@pytest.mark.parametrize("seed", range(5))
def test_without_time_there_is_a_plan_if_one_pipeline_has_one(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked for first: a part of a division is no plan."""
    monkeypatch.setattr("hetopt.base.deadline.GRACE_S", 0.0)
    problem = drawn(Random(seed))
    alone = found(request_of(problem, AT_ONCE_S), Over())
    late = planned(problem, limit_s=AT_ONCE_S)
    assert (late.best is None) == (alone.best is None)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("seed", [3, 9])
def test_without_device_time_the_plan_is_the_same(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pricing every size of micro-batches takes too long for large batches."""
    problem = drawn(Random(seed))
    expected = planned(problem)
    monkeypatch.setattr(device_work, "_MOST_ROWS", 0)
    found = planned(problem)
    assert found.status == expected.status == "optimal"
    assert found.best is not None
    assert expected.best is not None
    assert found.best.closed_form_s == expected.best.closed_form_s


def test_too_many_divisions_are_refused_before_a_search() -> None:
    """Unless some of the nodes are chosen, which may be divided in fewer ways."""
    problem = read_problem("hetauto-exp3")
    principles = Principles()
    with pytest.raises(InputError, match="more than 5,000 ways to divide the nodes"):
        ensure_several(problem, "auto", 2, principles)
    ensure_several(problem, "auto", 2, principles, spends=True)


def test_sizes_of_stages_that_fit_no_share_are_refused_before_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three sequences permit stages of three devices, which four do not."""
    data: dict[str, Any] = {
        "model": {"layers": 4, "hidden": 512, "heads": 4, "ffn": 2048, "vocab": 1000},
        "clusters": [
            {"name": "red", "accelerator": "A100-80GB", "nodes": [8, 8], **LINKED}
        ],
        "training": {"global_batch": 4, "seq_len": 8192, "schedule": "1f1b"},
    }
    problem = read_problem_text(yaml.safe_dump(data))
    relaxed = Principles.relaxing(["p4"])
    ensure_packs(problem, build_table(problem), relaxed)
    even = {**data, "pin": {"clusters": {"red": {"dp": [1, 2, 4]}}}}
    ensure_several(read_problem_text(yaml.safe_dump(even)), "dp", 2, relaxed)
    monkeypatch.setattr("hetopt.planning.posed.tree_of", lambda *args, **options: 1 / 0)
    with pytest.raises(InputError, match=r"stages of 1, 2, 3, 4, 6, 8 devices"):
        hetopt.plan(problem, pipelines=2, relax=["p4"], jobs=1)
    training = {**data["training"], "global_batch": 6}
    problem = read_problem_text(yaml.safe_dump({**data, "training": training}))
    with pytest.raises(InputError, match=r"stages of 1, 2, 3, 4, 6, 8, 16 devices"):
        hetopt.plan(problem, relax=["p4"], jobs=1)
