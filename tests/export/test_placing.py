"""Ranks, hosts and coordinates agree with the plan, whatever it is."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from hetopt.check.plan.packing import packing_findings
from hetopt.export.bundle import bundle, losses_of, ranks_csv
from hetopt.export.job import Job
from hetopt.export.registry import SHIPPED, launcher
from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.plans.strategy import Strategy
from hetopt.problem.cluster.packing import packed
from tests.export.jobs import draw_job
from tests.oracle import plain


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


def job_of(nodes: tuple[int, ...], *strategies: tuple[int, int, int]) -> Job:
    """A job on one cluster with a stage of two layers for each (dp, cp, tp)."""
    problem = plain.problem(
        model=replace(plain.MODEL, layers=2 * len(strategies)),
        clusters=(
            plain.cluster(
                "a",
                len(nodes),
                max(nodes),
                unequal=nodes if len(set(nodes)) > 1 else None,
                hosts=tuple(f"h{k}" for k in range(len(nodes))),
            ),
        ),
    )
    stages = tuple(
        Stage(
            cluster="a",
            first_unit=2 * i + (i > 0),
            end_unit=2 * i + 3 + (i == len(strategies) - 1),
            strategy=Strategy(dp=dp, cp=cp, tp=tp, recompute="none"),
            resharding=None,
            warmup=1,
        )
        for i, (dp, cp, tp) in enumerate(strategies)
    )
    plan = Plan(
        schedule=problem.training.schedule,
        pipelines=(Pipeline(microbatches=1, stages=stages),),
        problem_digest="",
        table_digest="",
    )
    return Job.of(problem, plan)


@pytest.mark.parametrize(
    ("nodes", "strategies", "hosts"),
    [
        # What a stage leaves over is idle.
        ((8, 8), [(3, 1, 1)] * 4, ["h0", "h0", "h1", "h1"]),
        ((8, 8), [(5, 1, 1)] * 2, ["h0", "h1"]),
        # The smallest node that will do; a larger stage takes as much of each.
        ((8, 7, 8), [(7, 1, 1)] * 3, ["h1", "h0", "h2"]),
        ((8, 7, 8), [(2, 1, 7)], ["h0 h1"]),
        ((8, 7, 8), [(2, 1, 8)], ["h0 h2"]),
        # Several sizes: those of 8 keep the nodes of 8.
        ((8, 7), [(4, 1, 1), (2, 1, 1), (1, 1, 1), (8, 1, 1)], ["h1"] * 3 + ["h0"]),
        # Stages of one node stand together while there are nodes, else apart.
        ((8, 8, 8), [(4, 1, 1), (8, 1, 1), (4, 1, 1)], ["h0", "h1", "h2"]),
        ((8, 8), [(4, 1, 1), (8, 1, 1), (4, 1, 1)], ["h1", "h0", "h1"]),
        ((8, 8, 8), [(4, 1, 1), (2, 1, 8), (4, 1, 1)], ["h2", "h0 h1", "h2"]),
        (
            (4, 8),
            [(3, 1, 1), (6, 1, 1), (2, 1, 1), (1, 1, 1)],
            ["h0", "h1", "h1", "h0"],
        ),
    ],
)
def test_nodes_of_any_size(
    nodes: tuple[int, ...], strategies: list[tuple[int, int, int]], hosts: list[str]
) -> None:
    job = job_of(nodes, *strategies)
    ranks = job.placement.ranks
    assert len({(rank.host, rank.local_device) for rank in ranks}) == len(ranks)
    for rank in ranks:
        assert rank.local_device < nodes[int(rank.host[1:])]
    found = []
    for stage in range(len(strategies)):
        own = [rank.host for rank in ranks if rank.stage == stage]
        found.append(" ".join(sorted(set(own))))
    assert found == hosts


@pytest.mark.quick_seeds(60)
@pytest.mark.parametrize("seed", range(300))
def test_stages_of_any_sizes_are_placed_where_they_fit_at_all(seed: int) -> None:
    draw = Random(seed)
    sizes = draw.choice(((8,), (8, 8), (4, 4, 4), (8, 7), (8, 8, 6), (5, 4, 3)))
    wanted = [
        (draw.choice((1, 1, 2)), 1, draw.choice((1, 2, 3, 4, 8)))
        for _ in range(draw.randint(1, 6))
    ]
    strategies = [Strategy(dp=d, cp=c, tp=t, recompute="none") for d, c, t in wanted]
    cluster = plain.cluster(
        "a", len(sizes), max(sizes), unequal=sizes if len(set(sizes)) > 1 else None
    )
    if list(packing_findings(cluster, strategies)) or any(
        packed(cluster, each.devices, each.inside) is None for each in strategies
    ):
        return
    ranks = job_of(sizes, *wanted).placement.ranks
    assert len({(rank.host, rank.local_device) for rank in ranks}) == len(ranks)
    assert all(rank.local_device < sizes[int(rank.host[1:])] for rank in ranks)
    hosts = [
        {rank.host for rank in ranks if rank.stage == i} for i in range(len(wanted))
    ]
    for i, each in enumerate(strategies):
        if each.devices <= max(sizes):
            assert len(hosts[i]) == 1
        else:
            assert all(
                hosts[i].isdisjoint(hosts[k]) for k in range(len(hosts)) if k != i
            )


APART = [(4, 1, 1), (8, 1, 1), (2, 1, 2)]


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_host_in_several_groups_has_a_script_for_each_or_is_a_loss(name: str) -> None:
    runtime = launcher(name)
    job = job_of((8, 8), *APART)
    losses = [
        loss.what for loss in losses_of(job, runtime) if "ranks of h1" in loss.what
    ]
    assert bool(losses) == (name in {"flagscale", "slurm"}) != runtime.divides_hosts


def test_scripts_of_a_host_start_their_groups_on_devices_of_their_own() -> None:
    files = bundle(job_of((8, 8), *APART), launcher("torchrun"), allow_lossy=False)
    assert sorted(name for name in files if name.endswith(".sh")) == [
        "nodes/0-h1.sh",
        "nodes/1-h0.sh",
        "nodes/2-h1.sh",
    ]
    own = [files["nodes/0-h1.sh"], files["nodes/2-h1.sh"]]
    for text, devices, rank in zip(own, ("0,1,2,3", "4,5,6,7"), (0, 2), strict=True):
        assert f"VISIBLE_DEVICES:-{devices}}}" in text
        assert f"--nnodes=3 --node_rank={rank} --nproc_per_node=4" in text
    assert "Ranks of h1 are in several groups" in files["README.md"]


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


@pytest.mark.parametrize("seed", range(20))
def test_ranks_of_a_launched_job_are_those_of_its_own_plan(seed: int) -> None:
    """They are placed again only where stages are divided in another way."""
    job = draw_job(seed)
    degrees = [(each.strategy.devices, 1, 1) for each in job.stages]
    for chosen in (None, degrees):
        made = job.launched_as(
            recompute=["full"] * len(job.stages), zero=0, degrees=chosen
        )
        assert made.placement == Job.of(job.problem, made.plan).placement
