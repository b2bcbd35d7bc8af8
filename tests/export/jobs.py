"""Random problems and plans for them, as valid as any solver's."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

from hetopt.export.job import Job
from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.plans.strategy import Strategy
from hetopt.problem.catalogue import accelerators
from hetopt.problem.cluster.accelerator import Link
from hetopt.problem.cluster.cluster import Cluster
from hetopt.problem.cluster.links import ClusterLink, ClusterLinks
from hetopt.problem.model.model import Granularity, Model
from hetopt.problem.problem import Problem
from hetopt.problem.training.choices import RECOMPUTE, Recompute, ScheduleName
from hetopt.problem.training.training import Training
from hetopt.schedule.warmup import warmup_counts
from tests.oracle.instances import OVERLAPPING

LINK = Link(latency_s=1e-5, bandwidth_bytes_per_s=1e10)


#: Devices that jobs are drawn from: fixed, so that new ones change no job.
DEVICES = (
    "A10", "A100-40GB", "A100-80GB", "A10G", "A40", "Ascend-A2-64GB", "B200", "H100",
    "H2-Chip-A", "H2-Chip-B", "H2-Chip-C", "H2-Chip-D", "H20-141GB", "H20-96GB",
    "H200", "H800", "L4", "L40", "L40S", "MI300X", "MI325X",
)  # fmt: skip


# In one piece: the order of the draws is what a seed stands for.
def draw_job(
    seed: int,
    *,
    alike: bool = False,
    cp: bool = True,
    recompute: tuple[Recompute, ...] = RECOMPUTE,
    schedules: tuple[ScheduleName, ...] = OVERLAPPING,
    granularity: Granularity = "layer",
) -> Job:
    """Draw a job.

    Parameters
    ----------
    alike
        Whether all stages share one (d, c, t) and one recomputation.
    cp
        Whether context parallelism may be used.
    """
    random = Random(seed)
    names = random.sample(DEVICES, random.randint(1, 4))
    nodes_of = {name: random.randint(1, 6) for name in names}
    per_node = {name: random.choice((2, 4, 8)) for name in names}
    if alike:
        per_node = dict.fromkeys(names, random.choice((2, 4, 8)))
    hosted = random.random() < 0.5
    clusters = tuple(
        Cluster(
            name=f"hall{j}",
            accelerator=accelerators()[name],
            nodes=nodes_of[name],
            devices_per_node=per_node[name],
            memory_bytes=accelerators()[name].memory_bytes,
            max_tp=per_node[name],
            intra_node=LINK,
            inter_node=LINK,
            host_device=LINK,
            nics_per_node=1,
            hosts=tuple(f"10.{j}.0.{i}" for i in range(nodes_of[name]))
            if hosted
            else None,
        )
        for j, name in enumerate(names)
    )
    shared = _strategy(random, clusters[0], cp, recompute)
    rows = []
    for cluster in clusters:
        strategy = shared if alike else _strategy(random, cluster, cp, recompute)
        most = cluster.devices // strategy.devices
        if most:
            rows += [(cluster, strategy)] * random.randint(1, min(most, 5))
    if not rows:
        return draw_job(
            seed + 1_000_003,
            alike=alike,
            cp=cp,
            recompute=recompute,
            schedules=schedules,
            granularity=granularity,
        )
    layers = [random.randint(1, 6) for _ in rows]
    per_layer = 1 if granularity == "layer" else 3
    ends: list[int] = []
    for count in layers:
        ends.append((ends[-1] if ends else 1) + count * per_layer)
    ends[-1] += 1
    q = random.choice((1, 2, 4, 6, 8, 16))
    dp = [strategy.dp for _, strategy in rows]
    batch = q * random.choice((1, 2)) * max(dp)
    while any(batch % (q * each) for each in dp):
        batch += q
    kv_heads = random.choice((8, 4))
    schedule = random.choice(schedules)
    warmups = warmup_counts(
        schedule,
        microbatches=q,
        crosses=[a is not b for (a, _), (b, _) in pairwise(rows)],
        round_trip_ns=[1] * len(rows),
        transfer_ns=[0] * (len(rows) - 1),
    )
    problem = Problem(
        name=f"drawn-{seed}",
        model=Model(
            name="drawn",
            layers=sum(layers),
            hidden=512,
            heads=8,
            kv_heads=8 if max(s.tp for _, s in rows) > kv_heads else kv_heads,
            head_dim=64,
            ffn=1536,
            vocab=32000,
            tied=random.random() < 0.3,
            granularity="block" if per_layer == 3 else "layer",
        ),
        clusters=clusters,
        links=ClusterLinks(
            default=ClusterLink(
                latency_s=LINK.latency_s,
                connection_bytes_per_s=LINK.bandwidth_bytes_per_s,
            )
        ),
        training=Training(
            global_batch=batch,
            seq_len=512,
            zero=random.choice((0, 1)),
            schedule=schedule,
        ),
    )
    stages = tuple(
        Stage(
            cluster=cluster.name,
            first_unit=ends[i - 1] if i else 0,
            end_unit=ends[i],
            strategy=strategy,
            warmup=warmups[i],
            resharding="p2p" if i + 1 < len(rows) else None,
        )
        for i, (cluster, strategy) in enumerate(rows)
    )
    plan = Plan(
        schedule=schedule,
        pipelines=(Pipeline(microbatches=q, stages=stages),),
        problem_digest="0" * 64,
        table_digest="0" * 64,
    )
    return Job.of(problem, plan)


def as_llama(job: Job, **training: object) -> Job:
    """Return the job with LLaMA-7B's layers and sequences of 4096 tokens."""
    model = replace(
        job.problem.model,
        hidden=4096,
        heads=32,
        kv_heads=32,
        head_dim=128,
        ffn=11008,
        vocab=32000,
        tied=False,
    )
    settings: dict[str, object] = {"seq_len": 4096, "zero": 2, **training}
    other = replace(job.problem.training, **settings)  # type: ignore[arg-type]
    return replace(job, problem=replace(job.problem, model=model, training=other))


def untied(job: Job, zero: int = 1) -> Job:
    """Return the job with a model that TorchTitan has."""
    model = replace(job.problem.model, tied=False)
    training = replace(job.problem.training, zero=zero)
    return replace(job, problem=replace(job.problem, model=model, training=training))


def restaged(job: Job, number: int, **fields: object) -> Job:
    """Return the job with one stage changed."""
    stages = list(job.stages)
    stages[number] = replace(stages[number], **fields)  # type: ignore[arg-type]
    pipeline = replace(job.plan.pipeline, stages=tuple(stages))
    return replace(job, plan=replace(job.plan, pipelines=(pipeline,)))


def _strategy(
    random: Random,
    cluster: Cluster,
    cp: bool,
    recompute: tuple[Recompute, ...],
) -> Strategy:
    """Draw (d, c, t) whose product divides a node's devices or is a multiple."""
    size = cluster.devices_per_node
    total = random.choice([n for n in (1, 2, 4, 8, 16) if n <= 2 * size])
    tp = random.choice([t for t in (1, 2, 4, 8) if t <= size and total % t == 0])
    each = random.choice([c for c in (1, 2) if (total // tp) % c == 0]) if cp else 1
    return Strategy(
        dp=total // tp // each, cp=each, tp=tp, recompute=random.choice(recompute)
    )
