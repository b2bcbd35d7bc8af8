"""What the update takes after the last backward pass, on the device and on its host."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetopt.cost.build import build_table
from hetopt.cost.communication.collectives import all_gather_s
from hetopt.cost.communication.synchronisation import (
    OPTIMIZER_START_S,
    reduction_s,
    update_s,
    update_start_s,
)
from hetopt.cost.held_alike import HeldAlike
from hetopt.problem.cluster.cluster import Cluster
from hetopt.problem.training.choices import Precision
from hetopt.problem.training.training import Training
from tests.cost.making import link, make_cluster, make_model, make_problem

OFFLOADING = make_cluster(
    offload="optimizer",
    host_device=link(20e-6, 10e9),
    host_memory_bytes_per_s=40e9,
)


def alone(parameters: float, replicas: int = 1, shards: int | None = None) -> HeldAlike:
    return HeldAlike(
        parameters=np.array([parameters]),
        replicas=np.array([replicas]),
        stride=np.array([1]),
        shards=np.array([shards or replicas]),
    )


def update_of(cluster: Cluster, training: Training, part: HeldAlike) -> float:
    return float(update_s(training, cluster, part, np.array([1]))[0])


@pytest.mark.parametrize(
    ("precision", "crossing", "traffic"),
    [
        # Gradients in fp32 there, 16-bit weights back; the host reads and writes the
        # moments and the fp32 weights, reads gradients, writes 16-bit weights.
        ("bf16", 4 + 2, 2 * 12 + 4 + 2),
        ("fp32", 4 + 4, 2 * 8 + 4 + 2 * 4),
    ],
)
def test_the_steps_of_an_offloaded_update_follow_one_another(
    precision: Precision, crossing: int, traffic: int
) -> None:
    training = Training(global_batch=8, seq_len=8, precision=precision)
    expected = 1e9 * crossing / 10e9 + 1e9 * traffic / 40e9
    assert update_of(OFFLOADING, training, alone(1e9)) == pytest.approx(expected)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_a_device_sends_its_shard_alone(zero: int) -> None:
    training = Training(global_batch=8, seq_len=8, zero=zero)
    on_device = replace(OFFLOADING, offload=None)
    part = alone(1e9, replicas=4)
    # What gathers the weights is the same in both.
    more = update_of(OFFLOADING, training, part) - update_of(on_device, training, part)
    shard = 1e9 / (4 if zero else 1)
    bandwidth = on_device.accelerator.memory_bandwidth_bytes_per_s * 0.8
    expected = shard * (6 / 10e9 + 30 / 40e9 - 30 / bandwidth)
    assert more == pytest.approx(expected)


def test_groups_gather_inside_and_reduce_their_shards_across() -> None:
    # Sixteen ranks on two nodes of eight hold a weight; each node shards it.
    cluster, eight = make_cluster(nodes=2, devices_per_node=8), np.array([8])
    training = Training(global_batch=16, seq_len=8, shard_group=8)
    part, inside = alone(1e9, 16, 8), alone(1e9, 8)
    assert update_s(training, cluster, part, eight) == update_s(
        training, cluster, inside, eight
    )
    shard_bytes = 4 * part.copies.parameters
    across = all_gather_s(cluster, np.array([2]), eight, eight, shard_bytes)
    assert reduction_s(training, cluster, part, eight) == pytest.approx(
        reduction_s(training, cluster, inside, eight) + 2 * across
    )


def test_groups_of_one_rank_reduce_as_without_shards() -> None:
    cluster, eight = make_cluster(nodes=2, devices_per_node=8), np.array([8])
    alike = Training(global_batch=16, seq_len=8, zero=0)
    single = replace(alike, zero=1, shard_group=1)
    whole, part = alone(1e9, 16), alone(1e9, 16, 1)
    assert reduction_s(single, cluster, part, eight) == pytest.approx(
        reduction_s(alike, cluster, whole, eight)
    )


def test_an_update_measured_on_the_device_says_nothing_of_the_host() -> None:
    training = Training(global_batch=8, seq_len=8)
    at = np.array([1])
    measured = update_s(training, OFFLOADING, alone(1e9), at, 1e-12)
    assert measured == update_s(training, OFFLOADING, alone(1e9), at)


def test_a_stage_pays_the_way_to_the_host_and_back_once() -> None:
    assert update_start_s(OFFLOADING) == pytest.approx(OPTIMIZER_START_S + 40e-6)
    assert update_start_s(replace(OFFLOADING, offload=None)) == OPTIMIZER_START_S


def test_the_table_of_a_cluster_that_offloads() -> None:
    model = make_model(layers=4)
    held, offloaded = (
        build_table(make_problem((cluster,), model))
        for cluster in (replace(OFFLOADING, offload=None), OFFLOADING)
    )
    for before, after in zip(held.slices, offloaded.slices, strict=True):
        own, less = before.clusters[0], after.clusters[0]
        rows = [less.strategies.index(each) for each in own.strategies]
        assert (less.state_bytes[rows] < own.state_bytes).all()
        assert (less.sync_ns[rows] == own.sync_ns + 40_000).all()
        assert (less.sync_unit_ns[rows] > own.sync_unit_ns).all()
        for name in ("forward_ns", "backward_ns", "activation_bytes"):
            assert (getattr(less, name)[rows] == getattr(own, name)).all()
