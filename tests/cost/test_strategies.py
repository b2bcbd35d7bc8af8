from __future__ import annotations

from itertools import product
from math import prod

import pytest

from hetopt.cost.strategies import strategies
from hetopt.plans.strategy import Strategy
from hetopt.problem.model.experts import Experts
from hetopt.problem.problem import Problem
from hetopt.problem.training.choices import RECOMPUTE
from hetopt.problem.training.pins import ClusterPins, Domain, Pins
from hetopt.problem.training.training import Training
from tests.cost.making import make_cluster, make_model, make_problem, only


def degrees(problem: Problem, q: int) -> set[tuple[int, int, int]]:
    cluster = problem.clusters[0]
    return {(s.dp, s.cp, s.tp) for s in strategies(problem, cluster, q)}


@pytest.mark.parametrize("per_node", [1, 4, 6, 8, 12, 16])
@pytest.mark.parametrize(("kv_heads", "seq_len"), [(32, 2048), (2, 1536), (8, 24)])
@pytest.mark.parametrize("batch", [12, 16])
def test_exactly_the_pruned_space(
    per_node: int, kv_heads: int, seq_len: int, batch: int
) -> None:
    cluster = make_cluster(devices_per_node=per_node, max_tp=min(per_node, 8), nodes=3)
    model = make_model(kv_heads=kv_heads)
    training = Training(global_batch=batch, seq_len=seq_len)
    problem = make_problem((cluster,), model, training)
    for q in (1, 2, 4):
        expected = set()
        for dp, cp, tp in product(range(1, cluster.devices + 1), repeat=3):
            n = dp * cp * tp
            if (
                n <= cluster.devices
                and (n <= per_node or (n % per_node == 0 and per_node % tp == 0))
                and tp <= cluster.max_tp
                and 32 % tp == 0
                and model.ffn % tp == 0
                and (kv_heads % tp == 0 or tp % kv_heads == 0)
                and seq_len % (cp * tp) == 0
                and (cp == 1 or seq_len % (2 * cp) == 0)
                and batch % (q * dp) == 0
            ):
                expected.add((dp, cp, tp))
        assert degrees(problem, q) == expected


def test_unequal_nodes() -> None:
    """A stage of up to 8 devices, or all that several nodes of 8, or all of 7, have."""
    cluster = make_cluster(nodes=4, devices_per_node=8, unequal=(8, 8, 7, 8))
    training = Training(global_batch=56 * 3, seq_len=2048)
    problem = make_problem((cluster,), make_model(kv_heads=32), training)
    sizes = {dp * cp * tp for dp, cp, tp in degrees(problem, 1)}
    assert sizes == {*range(1, 9), 14, 16, 21, 24, 28} - {5}
    assert (2, 1, 8) in degrees(problem, 1)
    assert (7, 1, 2) not in degrees(problem, 1), "a node of 7 has no pairs to fill it"
    assert (14, 1, 1) in degrees(problem, 1)


def test_pins_and_policies_restrict() -> None:
    pins = Pins(
        clusters={
            "a": ClusterPins(
                dp=only(1, 2), cp=Domain(forbidden=frozenset({2})), tp=only(4)
            )
        }
    )
    training = Training(
        global_batch=8, seq_len=2048, recompute={"a": ("full", "none"), "b": ("none",)}
    )
    problem = make_problem(training=training, pins=pins)
    found = strategies(problem, problem.clusters[0], 1)
    assert found == tuple(sorted(found))
    assert found == (
        Strategy(dp=1, cp=1, tp=4, recompute="full"),
        Strategy(dp=1, cp=1, tp=4, recompute="none"),
        Strategy(dp=1, cp=4, tp=4, recompute="full"),
        Strategy(dp=1, cp=4, tp=4, recompute="none"),
        Strategy(dp=2, cp=1, tp=4, recompute="full"),
        Strategy(dp=2, cp=1, tp=4, recompute="none"),
    )


def test_auto_means_all_three() -> None:
    problem = make_problem()
    found = strategies(problem, problem.clusters[0], 8)
    assert {s.recompute for s in found} == set(RECOMPUTE)


def test_counts_that_do_not_divide_the_batch_have_none() -> None:
    problem = make_problem()
    assert strategies(problem, problem.clusters[0], 3) == ()


@pytest.mark.parametrize(("per_node", "max_tp"), [(8, 8), (8, 2), (6, 6)])
@pytest.mark.parametrize(("number", "ffn", "shared"), [(64, 96, 192), (6, 8, 0)])
@pytest.mark.parametrize("sequence_parallel", [True, False])
def test_exactly_the_degrees_of_experts(
    per_node: int,
    max_tp: int,
    number: int,
    ffn: int,
    shared: int,
    sequence_parallel: bool,
) -> None:
    cluster = make_cluster(devices_per_node=per_node, max_tp=max_tp, nodes=2)
    experts = Experts(number=number, per_token=2, ffn=ffn, shared_ffn=shared)
    training = Training(
        global_batch=8, seq_len=2048, sequence_parallel=sequence_parallel
    )
    # All layers are routed: the width of a dense one does not count.
    problem = make_problem((cluster,), make_model(experts=experts, ffn=7), training)
    dense = make_problem((cluster,), make_model(ffn=2**12 * 3), training)
    expected = {
        (*mesh, ep, etp)
        for mesh in degrees(dense, 2)
        for ep, etp in product(range(1, cluster.devices + 1), repeat=2)
        if prod(mesh) % (ep * etp) == 0
        and number % ep == 0
        and ffn % etp == 0
        and (prod(mesh) <= per_node or per_node % etp == 0)
        and etp <= max_tp
        and (shared % mesh[2] == 0)
        and (mesh[2] == 1 or sequence_parallel)
    }
    found = strategies(problem, cluster, 2)
    assert {(s.dp, s.cp, s.tp, s.ep, s.etp) for s in found} == expected
    assert found == tuple(sorted(found))


def test_models_without_experts_have_no_degrees_of_them() -> None:
    problem = make_problem()
    found = strategies(problem, problem.clusters[0], 2)
    assert not any(strategy.has_expert_degrees for strategy in found)
