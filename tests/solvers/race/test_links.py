"""Optima and prices where boundaries cross drawn links."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from hetopt.errors import CheckError
from hetopt.problem.cluster.links import ClusterLinks
from hetopt.results.result import Result
from hetopt.solvers.loading import load, sharing_links
from hetopt.solvers.params import RaceParams
from hetopt.solvers.registry import SOLVERS
from hetopt.solvers.request import Request
from tests.oracle.instances import Instance, make_instance
from tests.oracle.links import crossing, with_a_middle, with_links


def linked(seed: int) -> Instance:
    """An instance of two or three clusters whose boundaries cross drawn links."""
    drawn = make_instance(seed, clusters=2 + (seed % 3 > 0))
    rng = Random(f"links {seed}")
    problem = with_links(drawn.problem, rng)
    if seed % 3 == 1:
        problem = with_a_middle(problem, rng)
    return crossing(drawn, problem)


def at_rate(seed: int, bytes_per_s: float) -> Instance:
    """An instance whose clusters are all joined at so much per node, and all used."""
    drawn = make_instance(seed, clusters=2 + seed % 2, pinned=False)
    problem = drawn.problem
    assert problem.links.default is not None
    link = replace(
        problem.links.default,
        connection_bytes_per_s=None,
        node_bytes_per_s=bytes_per_s,
    )
    problem = with_a_middle(problem, Random(seed))
    clusters = tuple(
        replace(each, uplink_bytes_per_s=None) for each in problem.clusters
    )
    links = ClusterLinks(default=link)
    return crossing(drawn, replace(problem, clusters=clusters, links=links))


@pytest.mark.parametrize("seed", range(20))
def test_optima_follow_the_rate_of_a_node(seed: int) -> None:
    best = []
    for rate in (1e7, 4e7):
        instance = at_rate(seed, rate)
        request = Request(
            problem=instance.problem, table=instance.table, params=RaceParams(jobs=0)
        )
        best.append(load("dp")(request).best)
    slow, fast = best
    assert (slow is None) == (fast is None)
    if slow is not None and fast is not None:
        assert slow.closed_form_s > fast.closed_form_s


def test_a_wrong_time_is_found_out_before_it_is_replaced() -> None:
    instance = linked(1)
    dp = load("dp")

    def boast(request: Request) -> Result:
        result = SOLVERS["dp"].load()(request)
        assert result.best is not None
        return replace(result, best=replace(result.best, closed_form_s=1e-9))

    request = Request(
        problem=instance.problem, table=instance.table, params=RaceParams(jobs=0)
    )
    assert dp(request).best is not None
    with pytest.raises(CheckError, match="the time of a plan differs"):
        sharing_links(boast, request, objective="closed", exact=True)
