"""Plans that the torch program is held against, and how they are launched."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetopt.export.job import Job
from hetopt.plans.plan import Pipeline, Plan, Share, Stage
from hetopt.plans.strategy import Strategy
from hetopt.problem.cluster.links import ClusterLink, ClusterLinks
from hetopt.problem.model.architecture import Architecture
from hetopt.problem.model.experts import Experts
from hetopt.problem.model.model import Model
from hetopt.problem.problem import Problem
from hetopt.problem.training.choices import Recompute, Resharding, ScheduleName
from hetopt.problem.training.training import Training
from hetopt.schedule.schedules import rule_of
from hetopt.schedule.warmup import warmup_counts
from tests.export.jobs import LINK, draw_job

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: The process that ranks are forked from, while there is one.
_FORKING: list[subprocess.Popen[str]] = []


@dataclass(frozen=True, kw_only=True)
class Case:
    """A plan: its stages, each (d, c, t) on a cluster of one node.

    ``experts`` are (ep, etp) of each stage; ``layers`` are of one chunk; ``warmups``
    are given for the schedule ``free-1f1b`` alone; ``each`` are the sequences of a
    micro-batch on a replica where dp is largest; ``blocks`` are those of each stage, in
    place of ``layers``, where stages begin inside layers; ``cuts`` are those of the
    plan, in place of both, where chunks differ.
    """

    schedule: ScheduleName
    degrees: tuple[tuple[int, int, int], ...]
    layers: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()
    cuts: tuple[int, ...] = ()
    halls: tuple[int, ...] = ()
    q: int = 4
    each: int = 1
    warmups: tuple[int, ...] = ()
    transfers: tuple[int, ...] = ()
    ways: tuple[Resharding, ...] = ()
    chunks: int = 1
    recompute: tuple[Recompute, ...] = ()
    experts: tuple[tuple[int, int], ...] = ()
    model: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)

    @property
    def stages(self) -> int:
        return len(self.degrees)


GPT = {"gated": False, "norm": "layer", "positions": 64, "tied": True}
ONE, PAIR = (1, 1, 1), (1, 1, 2)

CASES = {
    "1f1b": Case(schedule="1f1b", degrees=(ONE, ONE), layers=(2, 1)),
    "eager, recomputed": Case(
        schedule="eager-1f1b",
        degrees=(ONE, ONE, ONE),
        layers=(3, 1, 2),
        q=6,
        recompute=("full", "selective", "none"),
        training={"zero": 0},
    ),
    "virtual, tensors to replicas": Case(
        schedule="virtual-1f1b", degrees=(PAIR, (2, 1, 1)), halls=(0, 1), each=2
    ),
    "h-1f1b, replicas to tensors": Case(
        schedule="h-1f1b",
        degrees=((2, 1, 1), ONE, PAIR),
        halls=(0, 0, 1),
        layers=(1, 2, 1),
        q=8,
        transfers=(1, 80),
        recompute=("none", "none", "full"),
    ),
    "gpipe, split sequences": Case(
        schedule="gpipe",
        degrees=((1, 2, 1), PAIR),
        model={"kv_heads": 4},
        training={"gradients": "bf16"},
    ),
    "a hall again": Case(
        schedule="1f1b",
        degrees=(PAIR, (2, 1, 1), ONE),
        halls=(0, 1, 0),
        each=2,
        model={"tied": True},
    ),
    "own warm-ups": Case(
        schedule="free-1f1b",
        degrees=(ONE, ONE, ONE, ONE),
        layers=(2, 1, 1, 1),
        q=6,
        warmups=(6, 4, 3, 1),
        recompute=("none", "full", "selective", "none"),
    ),
    "leader": Case(
        schedule="1f1b",
        degrees=((2, 1, 2), PAIR),
        ways=("leader",),
        each=2,
        training={"overlap_gradients": False},
    ),
    "inner-dp": Case(
        schedule="free-1f1b",
        degrees=((2, 1, 2), (4, 1, 1)),
        warmups=(3, 2),
        ways=("inner-dp",),
        model={"tied": True},
    ),
    "send-recv-all-gather": Case(
        schedule="1f1b", degrees=(PAIR, (3, 1, 1)), ways=("send-recv-all-gather",)
    ),
    "gpt, tied": Case(
        schedule="virtual-1f1b",
        degrees=((2, 1, 1), PAIR),
        halls=(0, 1),
        each=2,
        model={**GPT, "kv_heads": 1, "granularity": "block"},
        recompute=("full", "none"),
        training={"optimizer": "sgd"},
    ),
    "both split": Case(
        schedule="1f1b",
        degrees=((1, 2, 2), (2, 1, 1)),
        q=3,
        model={
            "kv_heads": 1,
            "vocab": 511,
            "architecture": Architecture(norm_eps=0.01, rotary_base=500.0),
        },
        recompute=("selective", "none"),
    ),
    "whole sequences": Case(
        schedule="eager-1f1b",
        degrees=(PAIR, PAIR),
        model={**GPT, "tied": False},
        training={"sequence_parallel": False, "overlap_gradients": False},
    ),
    "two chunks": Case(schedule="interleaved-1f1b", degrees=(ONE,) * 4, chunks=2, q=8),
    "three chunks, uneven": Case(
        schedule="interleaved-1f1b",
        degrees=(ONE, ONE),
        layers=(1, 2),
        chunks=3,
        model={"tied": True},
        recompute=("selective", "full"),
        training={"optimizer": "sgd"},
    ),
    "chunks, tensors to replicas and back": Case(
        schedule="interleaved-1f1b",
        degrees=((1, 1, 4), (2, 1, 1), (2, 2, 1)),
        halls=(0, 1, 1),
        ways=("leader", "p2p", "send-recv-all-gather"),
        chunks=2,
        q=6,
        model={**GPT, "kv_heads": 4, "granularity": "block"},
    ),
    "chunks, back by inner-dp": Case(
        schedule="interleaved-1f1b",
        degrees=((2, 1, 2), (4, 1, 1)),
        ways=("p2p", "inner-dp"),
        chunks=2,
        training={"sequence_parallel": False, "overlap_gradients": False},
    ),
}


#: Plans whose chunks differ, some of them empty.
UNEVEN = {
    "ends alone": Case(
        schedule="interleaved-1f1b",
        degrees=(ONE, ONE),
        chunks=3,
        cuts=(1, 3, 3, 6, 7, 8),
        model=GPT,
        recompute=("none", "full"),
    ),
    "tensors to replicas and back": Case(
        schedule="interleaved-1f1b",
        degrees=(PAIR, (2, 1, 1), (1, 2, 1)),
        halls=(0, 1, 1),
        ways=("leader", "p2p", "send-recv-all-gather"),
        chunks=2,
        cuts=(2, 2, 4, 4, 5, 6),
        q=6,
        training={"sequence_parallel": False, "overlap_gradients": False},
    ),
    "inside layers": Case(
        schedule="interleaved-1f1b",
        degrees=(PAIR, (2, 1, 1)),
        chunks=3,
        cuts=(3, 6, 6, 8, 9, 11),
        model={"granularity": "block", "tied": True},
        training={"optimizer": "sgd"},
    ),
}

#: Plans whose stages begin at each of the places inside a layer.
CUTS = {
    "each block alone": Case(
        schedule="gpipe",
        degrees=(ONE,) * 4,
        blocks=(1, 1, 1, 3),
        training={"zero": 0, "gradients": "bf16"},
    ),
    "h-1f1b, tensors to replicas": Case(
        schedule="h-1f1b",
        degrees=(PAIR, (2, 1, 1), PAIR),
        halls=(0, 1, 1),
        ways=("p2p", "inner-dp"),
        blocks=(2, 3, 4),
        q=8,
        each=2,
        transfers=(80, 1),
        model={"kv_heads": 1, "tied": True},
    ),
    "h-1f1b, replicas to tensors, recomputed": Case(
        schedule="h-1f1b",
        degrees=((2, 1, 1), (1, 1, 4), ONE),
        ways=("leader", "send-recv-all-gather"),
        blocks=(5, 3, 4),
        q=5,
        transfers=(1, 80),
        model={**GPT, "kv_heads": 4},
        recompute=("full", "full", "selective"),
        training={"optimizer": "sgd"},
    ),
    "whole sequences": Case(
        schedule="1f1b",
        degrees=(PAIR, (1, 1, 4)),
        blocks=(5, 1),
        model={"kv_heads": 4},
        training={"sequence_parallel": False, "overlap_gradients": False},
    ),
    "split sequences": Case(
        schedule="virtual-1f1b",
        degrees=((1, 2, 1), PAIR, (1, 2, 1)),
        halls=(0, 0, 1),
        blocks=(2, 3, 4),
        q=3,
        recompute=("none", "selective", "full"),
    ),
    "two chunks": Case(
        schedule="interleaved-1f1b",
        degrees=(PAIR, ONE),
        blocks=(2, 4),
        chunks=2,
        model=GPT,
    ),
}

MIXTRAL = Experts(number=8, per_token=2, ffn=96)
DEEPSEEK = Experts(
    number=8,
    per_token=4,
    ffn=48,
    shared_ffn=96,
    groups=4,
    groups_per_token=2,
    scores="sigmoid",
    scale=2.5,
    dense_layers=(0,),
)
QWEN2 = Experts(
    number=4,
    per_token=2,
    ffn=64,
    shared_ffn=128,
    shared_gate=True,
    router_bias=True,
    normalised=False,
    dense_layers=(1,),
)

#: Plans of models with experts.
EXPERTS = {
    "one rank": Case(
        schedule="1f1b", degrees=(ONE,), experts=((1, 1),), model={"experts": MIXTRAL}
    ),
    "over replicas": Case(
        schedule="1f1b",
        degrees=((2, 1, 1), (2, 1, 1)),
        experts=((2, 1), (2, 1)),
        model={"experts": MIXTRAL},
    ),
    "four ranks, two copies of each expert": Case(
        schedule="gpipe",
        degrees=((4, 1, 1), (2, 1, 1)),
        layers=(2, 1),
        experts=((2, 1), (1, 1)),
        model={"experts": MIXTRAL, "tied": True},
        training={"zero": 0},
    ),
    "folded into tensors and sequences": Case(
        schedule="eager-1f1b",
        degrees=((1, 2, 2), (1, 1, 4)),
        layers=(2, 1),
        q=2,
        experts=((4, 1), (2, 2)),
        model={"experts": DEEPSEEK, "kv_heads": 4},
        recompute=("selective", "full"),
    ),
    "cut experts": Case(
        schedule="virtual-1f1b",
        degrees=((2, 1, 2), PAIR),
        halls=(0, 1),
        layers=(2, 1),
        q=2,
        experts=((2, 2), (1, 2)),
        each=2,
        model={"experts": QWEN2},
        training={"overlap_gradients": False},
    ),
    "an expert a rank": Case(
        schedule="1f1b",
        degrees=((8, 1, 1),),
        layers=(2,),
        experts=((8, 1),),
        q=2,
        model={"experts": MIXTRAL, "gated": False},
        recompute=("full",),
        training={"optimizer": "sgd"},
    ),
    "two chunks": Case(
        schedule="interleaved-1f1b",
        degrees=((2, 1, 1), (2, 1, 1)),
        experts=((2, 1), (1, 2)),
        chunks=2,
        model={"experts": MIXTRAL},
        recompute=("none", "full"),
    ),
}


# A job written out.
def job_of(case: Case) -> Job:
    """Return the job; placement is as for any plan."""
    drawn = draw_job(0, alike=True).problem
    layers = case.layers or (1,) * case.stages
    if case.blocks:
        layers = (sum(case.blocks) // 3,)
    folded = rule_of(case.schedule).folded
    per_layer = 3 if case.blocks or case.model.get("granularity") == "block" else 1
    if case.cuts:
        layers = ((case.cuts[-1] - 2) // per_layer,)
    sizes = {"hidden": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn": 176}
    model = Model(
        **{
            "name": "tiny",
            "layers": (2 if folded else 1 if case.cuts else case.chunks) * sum(layers),
            "vocab": 512,
            **sizes,
            **({"granularity": "block"} if case.blocks else {}),
            **case.model,
        }
    )
    halls = case.halls or (0,) * case.stages
    clusters = tuple(
        replace(
            drawn.clusters[0],
            name=f"hall{number}",
            nodes=1,
            devices_per_node=8,
            max_tp=8,
            hosts=None,
        )
        for number in range(max(halls) + 1)
    )
    most = max(dp for dp, _, _ in case.degrees)
    training = Training(
        **{
            "global_batch": case.each * most * case.q,
            "seq_len": 64,
            "precision": "fp32",
            "schedule": case.schedule,
            "chunks": case.chunks,
            **case.training,
        }
    )
    speed = LINK.bandwidth_bytes_per_s
    link = ClusterLink(latency_s=LINK.latency_s, connection_bytes_per_s=speed)
    problem = Problem(
        name="tiny",
        model=model,
        clusters=clusters,
        links=ClusterLinks(default=link),
        training=training,
    )
    warmups = case.warmups or warmup_counts(
        case.schedule,
        microbatches=case.q,
        crosses=[before != after for before, after in pairwise(halls)],
        round_trip_ns=[100] * case.stages,
        transfer_ns=case.transfers or [1] * (case.stages - 1),
        chunks=case.chunks,
    )
    units = case.blocks or [per_layer * count for count in layers]
    if case.cuts:
        held = [end - first for first, end in pairwise((0, *case.cuts))]
        units = [sum(held[number :: case.stages]) for number in range(case.stages)]
        units[0], units[-1] = units[0] - 1, units[-1] - 1
    kept: Recompute = "none"
    recompute = case.recompute or (kept,) * case.stages
    stages, end = [], 1
    for number, (dp, cp, tp) in enumerate(case.degrees):
        last = number + 1 == case.stages
        first, end = (end if number else 0), end + units[number]
        leaves = case.chunks > 1 or not last
        ep, etp = case.experts[number] if case.experts else (1, 1)
        way = case.ways[number] if case.ways and leaves else "p2p"
        stages.append(
            Stage(
                cluster=f"hall{halls[number]}",
                first_unit=first,
                # Both ends of a folded pipeline are on the first stage.
                end_unit=end + (last and not folded),
                strategy=Strategy(
                    dp=dp, cp=cp, tp=tp, ep=ep, etp=etp, recompute=recompute[number]
                ),
                warmup=warmups[number],
                resharding=way if leaves else None,
            )
        )
    plan = Plan(
        schedule=case.schedule,
        pipelines=(Pipeline(microbatches=case.q, stages=tuple(stages)),),
        problem_digest="0" * 64,
        table_digest="0" * 64,
        chunks=case.chunks,
        cuts=case.cuts or None,
    )
    return Job.of(problem, plan)


def side_by_side(
    cases: tuple[Case, ...], nodes: Sequence[Mapping[str, tuple[int, ...]]]
) -> Job:
    """Return the job of several pipelines of one model; ``nodes`` is what each has."""
    jobs = [job_of(case) for case in cases]
    batches = [job.problem.training.global_batch for job in jobs]
    problem = max((job.problem for job in jobs), key=lambda each: len(each.clusters))
    training = replace(problem.training, global_batch=sum(batches))
    pipelines = tuple(
        replace(job.plan.pipeline, share=Share(batch=batch, nodes=own))
        for job, batch, own in zip(jobs, batches, nodes, strict=True)
    )
    return Job.of(
        replace(problem, training=training),
        replace(jobs[0].plan, pipelines=pipelines),
    )


def meeting() -> dict[str, str]:
    """Return variables that say where ranks meet: at a free port of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def start(
    folder: Path, *arguments: str, cpu: bool = True
) -> list[subprocess.Popen[str]]:
    """Start every node's script on this machine, as a trial on its CPUs."""
    arguments += ("--cpu",) * cpu
    environment = {
        **os.environ,
        **meeting(),
        "OMP_NUM_THREADS": "1",
        "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
    }
    return [
        subprocess.Popen(
            [str(script), *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for script in sorted(folder.glob("nodes/*.sh"))
    ]


def launch(folder: Path, *arguments: str) -> list[str]:
    """Run every node's script on this machine; return what each printed."""
    running = start(folder, *arguments)
    try:
        printed = [each.communicate(timeout=60)[0] for each in running]
    finally:
        # torchrun ends its ranks before itself.
        for each in running:
            each.terminate()
            each.wait()
    for each, text in zip(running, printed, strict=True):
        assert each.returncode == 0, text
    return printed


@contextlib.contextmanager
def forking() -> Iterator[None]:
    """Start the process that ``fork`` asks, and end it."""
    script = Path(__file__).with_name("forking.py")
    with subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        _FORKING.append(process)
        yield
        _FORKING.remove(process)
        # It ends when nobody asks any more.
        process.communicate()


def fork(folder: Path, world_size: int, *arguments: str) -> list[str]:
    """Run a bundle's program as so many ranks, without its scripts and torchrun.

    Returns what each rank printed.
    """
    (process,) = _FORKING
    assert process.stdin
    assert process.stdout
    shared = {**meeting(), "WORLD_SIZE": str(world_size)}
    ranks = [
        {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        for rank in range(world_size)
    ]
    process.stdin.write(json.dumps([str(folder), arguments, ranks]) + "\n")
    process.stdin.flush()
    ended = json.loads(process.stdout.readline())
    printed = [(folder / f"rank-{rank}.txt").read_text() for rank in range(world_size)]
    assert not any(ended), printed
    return printed
