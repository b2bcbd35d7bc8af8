"""Ranks, hosts and coordinates agree with the plan, whatever it is."""

from collections import Counter

import pytest

from hetopt.export.bundle import ranks_csv
from tests.export.jobs import draw_job


@pytest.mark.parametrize("seed", range(60))
def test_every_device_of_a_plan_is_placed_once(seed: int) -> None:
    job = draw_job(seed)
    ranks, nodes = job.placement.ranks, job.placement.nodes
    assert [rank.rank for rank in ranks] == list(range(job.plan.devices))
    assert len({(rank.host, rank.local_device) for rank in ranks}) == len(ranks)
    clusters = {cluster.name: cluster for cluster in job.problem.clusters}
    for node in nodes:
        assert 0 < node.slots <= clusters[node.cluster].devices_per_node
        for device in range(node.slots):
            rank = ranks[node.first_rank + device]
            assert (rank.host, rank.local_device) == (node.host, device)
    used = Counter(node.cluster for node in nodes)
    assert all(count <= clusters[name].nodes for name, count in used.items())


@pytest.mark.parametrize("seed", range(60))
def test_coordinates_are_those_of_the_stage_with_tp_fastest(seed: int) -> None:
    job = draw_job(seed)
    for number, stage in enumerate(job.stages):
        held = [rank for rank in job.placement.ranks if rank.stage == number]
        strategy = stage.strategy
        assert len(held) == strategy.devices
        assert {rank.cluster for rank in held} == {stage.cluster}
        for index, rank in enumerate(held):
            inner = (rank.dp * strategy.cp + rank.cp) * strategy.tp + rank.tp
            assert (index, rank.rank) == (inner, held[0].rank + inner)
        # Tensor parallelism never leaves a node.
        groups = {(rank.dp, rank.cp): rank.host for rank in held}
        assert all(groups[rank.dp, rank.cp] == rank.host for rank in held)


def test_hosts_are_the_inventorys_or_said_to_be_invented() -> None:
    invented = named = 0
    for seed in range(40):
        job = draw_job(seed)
        clusters = {cluster.name: cluster for cluster in job.problem.clusters}
        for node in job.placement.nodes:
            hosts = clusters[node.cluster].hosts
            if hosts:
                assert node.host in hosts
                assert node.cluster not in job.placement.invented
                named += 1
            else:
                assert node.cluster in job.placement.invented
                invented += 1
    assert invented
    assert named


def test_ranks_file_has_a_line_for_each_rank() -> None:
    job = draw_job(3)
    lines = ranks_csv(job.placement).splitlines()
    assert lines[0] == "global_rank,host,local_device,cluster,stage,dp,cp,tp"
    assert len(lines) == 1 + job.world_size


@pytest.mark.parametrize("seed", range(20))
def test_blocks_make_whole_layers(seed: int) -> None:
    job = draw_job(seed, granularity="block")
    assert job.layers is not None
    assert sum(job.layers) == job.problem.model.layers
