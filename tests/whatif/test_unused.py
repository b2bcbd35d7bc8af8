"""What is said about unused clusters holds for every plan that uses them."""

from __future__ import annotations

from dataclasses import replace
from math import isinf

import pytest

from hetopt.cost.build import build_table
from hetopt.problem.digest import problem_digest
from hetopt.problem.reading import read_problem_text
from hetopt.report.whatif.unused import unused_text
from hetopt.results.result import Result
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from hetopt.whatif.reasons import questions
from hetopt.whatif.unused import Unused, unused_clusters

PROBLEM = """\
model: {{layers: 3, hidden: 1024, heads: 16, ffn: 4096, vocab: 32000}}
clusters:
  - {{name: fast, accelerator: H100, nodes: 1, devices_per_node: 2,
     inter_node: {{bandwidth: 100 Gbps, latency: 5 us}}}}
  - {{name: slow, accelerator: A100-80GB, nodes: 1, devices_per_node: 1,
     inter_node: {{bandwidth: 100 Gbps, latency: 5 us}}}}
links: {link}
training: {{global_batch: 2, seq_len: 1024, schedule: {schedule}}}
"""
SLOW = "{default: {bandwidth: 1 Gbps, latency: 1 ms}}"
QUICK = "{default: {bandwidth: 40 Gbps, latency: 1 us}}"
NONE = "{default: {bandwidth: none}}"


def solved(text: str, top: int = 1) -> tuple[Request, Result]:
    problem = read_problem_text(text)
    request = Request(
        problem=problem,
        table=build_table(problem),
        params=RaceParams(jobs=1, top=top),
    )
    return request, load("dp")(request)


@pytest.mark.parametrize("schedule", ["virtual-1f1b", "gpipe", "zb-h1"])
@pytest.mark.parametrize("link", [SLOW, QUICK, NONE])
def test_no_plan_is_faster_than_the_bounds(link: str, schedule: str) -> None:
    request, result = solved(PROBLEM.format(link=link, schedule=schedule))
    assert result.best is not None
    questioned = [
        each
        for each in questions(request.problem, result.best.plan)
        if each.kind == "unused"
    ]
    known = {
        u.cluster: u for u in unused_clusters(request.problem, request.table, result)
    }
    assert {each.clusters[0] for each in questioned} == set(known)
    for each in questioned:
        using = each.variant.problem
        assert using is not None
        table = replace(request.table, problem_digest=problem_digest(using))
        params = RaceParams(jobs=1, top=8)
        found = load("dp")(replace(request, problem=using, table=table, params=params))
        assert found.best is not None
        told = known[each.clusters[0]]
        for plan in (found.best, *found.alternatives):
            for time_s in (plan.closed_form_s, plan.iteration_time_s):
                assert time_s >= min(told.link_s, told.alone_s) * (1 - 1e-9)
        if told.more is not None:
            assert found.best.closed_form_s >= result.best.closed_form_s * (
                1 + told.more
            ) * (1 - 1e-9)


TWINS = """\
model: {layers: 8, hidden: 4096, heads: 32, ffn: 11008, vocab: 32000}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 4,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
  - {name: b, accelerator: A100-80GB, nodes: 1, devices_per_node: 4,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
links: {default: {bandwidth: 6 Gbps, latency: 1 ms}}
training: {global_batch: 16, seq_len: 4096, schedule: 1f1b, recompute: none}
pin: {forbid: {clusters: {a: {tp: [2, 4]}, b: {tp: [2, 4]}}}}
"""


@pytest.mark.slow
def test_a_plan_with_an_identical_cluster_takes_as_long() -> None:
    request, result = solved(TWINS, top=40)
    (told,) = unused_clusters(request.problem, request.table, result)
    assert (told.cluster, told.more, told.proven) == ("b", 0.0, True)
    assert unused_text(told).startswith(
        "b is not used: the best plan with it takes as long."
    )


def test_next_best_plans_that_nobody_proved_prove_nothing() -> None:
    request, result = solved(PROBLEM.format(link=SLOW, schedule="1f1b"), top=30)
    (exact,) = unused_clusters(request.problem, request.table, result)
    assert exact.proven
    first, *others = result.settlements
    left = replace(first, how="unsettled")
    open_still = replace(result, settlements=(left, *others))
    assert not open_still.ranks_are_proven
    (told,) = unused_clusters(request.problem, request.table, open_still)
    assert not told.proven


def test_a_slow_link_is_the_reason() -> None:
    request, result = solved(PROBLEM.format(link=SLOW, schedule="1f1b"))
    (told,) = unused_clusters(request.problem, request.table, result)
    assert told.cluster == "slow"
    assert told.more is not None
    assert not told.proven
    text = unused_text(told)
    assert text.startswith("slow is not used: a plan with it takes at least ")
    assert " more. Its links to fast need " in text
    assert " s for the activations of an iteration, and alone it computes for " in text


def test_without_a_link_that_is_the_reason() -> None:
    request, result = solved(PROBLEM.format(link=NONE, schedule="1f1b"))
    (told,) = unused_clusters(request.problem, request.table, result)
    assert isinf(told.link_s)
    assert "It has no link to another cluster, and alone it" in unused_text(told)


def test_nothing_is_said_of_a_cluster_without_memory_for_a_layer() -> None:
    text = PROBLEM.format(link=NONE, schedule="1f1b")
    small = text.replace("name: slow,", "name: slow, memory: 0.01 GB, overhead: 0 GB,")
    request, result = solved(small)
    assert list(unused_clusters(request.problem, request.table, result)) == []


def test_the_next_best_plans_are_known_exactly() -> None:
    request, result = solved(PROBLEM.format(link=SLOW, schedule="1f1b"), top=40)
    assert result.best is not None
    slowed = [
        each
        for each in result.alternatives
        if any(stage.cluster == "slow" for stage in each.plan.pipeline.stages)
    ]
    assert slowed
    (told,) = unused_clusters(request.problem, request.table, result)
    assert told.proven
    assert told.more == pytest.approx(
        slowed[0].closed_form_s / result.best.closed_form_s - 1
    )
    assert unused_text(told).startswith("slow is not used: the best plan with it takes")


def test_of_what_is_not_known_nothing_is_said() -> None:
    assert unused_text(Unused(cluster="slow")) == ""
