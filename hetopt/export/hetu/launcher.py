"""Hetu v2: pipelines side by side, each stage with its own tp, under 1F1B.

See ``StrategyConfig`` and ``generate_llama_hetero_4d_config`` of
https://github.com/PKU-DAIR/Hetu. A plan whose stages all have the same dp and cp
becomes ``dp * cp`` Hetu pipelines; the cp pipelines of a replica follow each other. A
pipeline has ``gpus_per_stage`` places for every stage; a stage with less tp leaves some
unused. Pipelines side by side follow each other, each with its own stages, layers and
micro-batches.

Hetu's generator makes a JSON file of device groups, splits and copies from this YAML;
their names differ between its models and versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from hetopt.export.hetu.losses import (
    fits,
    has_microbatch_size,
    hetu_losses,
    launched,
    microbatch_size,
    microbatch_sizes,
    problem_losses,
    shards_optimizer,
    side_by_side_losses,
)
from hetopt.export.launcher import Launcher, Limits, SideBySide, Tested
from hetopt.export.shared.scripts import mixed_note

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hetopt.export.job import Job

#: The file that hetopt writes.
STRATEGY = "ds_parallel.yaml"


def files(job: Job) -> Mapping[str, str]:
    """Return the strategy's file."""
    return {STRATEGY: _strategy(job)}


def commands(job: Job) -> str:
    """Say what else the configuration needs, how to generate and launch."""
    training = job.problem.training
    parts = [
        f"1. Put `{STRATEGY}` into your training configuration (its `ds_parallel` "
        "also under `trainer`, where a trainer's configuration has one), with "
        f"sequences of {training.seq_len} tokens, {training.global_batch} of them "
        f"an iteration, `micro_batch_size: {microbatch_size(job.pipelines[0])}`, "
        f"`bf16: {str(training.precision != 'fp32').lower()}`, "
        f"`rpc.num_gpus: {job.world_size}`.",
        "2. Have Hetu's generator make the JSON of device groups from it, in the "
        "folder of the configuration (of another model: its own generator):\n\n"
        "       python3 -m hetu.models.llama.generate_llama_hetero_4d_config "
        '--config-path="$PWD" --config-name=NAME',
        "3. Start one process for each line of `ranks.csv`, hosts in the order of "
        "`hostfile`: Hetu's device k has to be global rank k. "
        "`hetu.rpc.pssh_start_config` starts them by ssh.",
    ]
    return "\n".join(parts + [f"\n{note}" for note in mixed_note(job)])


def _strategy(job: Job) -> str:
    parts = job.pipelines
    most = max(stage.strategy.tp for part in parts for stage in part.stages)
    mapping, unused = _devices(job, most)
    replicas = [part for part in parts for _ in range(part.stages[0].strategy.dp)]
    rows = [part for part in replicas for _ in range(part.stages[0].strategy.cp)]
    data: dict[str, Any] = {
        "hetero": True,
        "dp": len(replicas),
        "tp": most,
        "pp": max(len(part.stages) for part in parts),
        "zero": any(shards_optimizer(part) for part in parts),
        "num_layers": job.problem.model.layers,
        "num_gpus": job.world_size,
        "cp_list": [part.stages[0].strategy.cp for part in replicas],
        "hetero_layers": [list(part.layers or ()) for part in rows],
        "gpus_per_stage": most,
        "micro_batch_num_list": [part.microbatches for part in replicas],
        "rank_to_device_mapping": mapping,
        "unused_rank": unused,
        "ds_parallel_config_path": "ds_parallel_config",
        "ds_parallel_config_name": "plan.json",
        "recompute": _recompute(rows),
    }
    body = yaml.safe_dump(
        {"ds_parallel": data}, sort_keys=False, default_flow_style=None, width=88
    )
    return f"# What the plan decides; README.md has the rest.\n{body}"


def _devices(job: Job, most: int) -> tuple[dict[int, int], list[int]]:
    """Return the device of every place, and the unused places.

    Unused places get numbers beyond the devices, as every place must have one.
    """
    mapping: dict[int, int] = {}
    begun = 0
    for part in job.pipelines:
        stages, degrees = len(part.stages), part.stages[0].strategy
        for rank in part.placement.ranks:
            stage = (rank.dp * degrees.cp + rank.cp) * stages + rank.stage
            mapping[(begun + stage) * most + rank.tp] = rank.rank
        begun += degrees.dp * degrees.cp * stages
    places = range(begun * most)
    unused = [place for place in places if place not in mapping]
    for number, place in enumerate(unused, start=job.world_size):
        mapping[place] = number
    return dict(sorted(mapping.items())), unused


def _recompute(rows: Sequence[Job]) -> dict[str, Any]:
    """Return the layers that each pipeline recomputes in full, counted from 0."""
    names = ("granularity", "method", "num_layers", "layer_idxs_list")
    data: dict[str, Any] = {f"recompute_{name}": None for name in names}
    listed = [list(_recomputed(part)) for part in rows]
    if any(listed):
        data["recompute_granularity"] = "full"
        data["recompute_layer_idxs_list"] = listed
    return data


def _recomputed(job: Job) -> Iterator[int]:
    first = 0
    for count, stage in zip(job.layers or (), job.stages, strict=True):
        if stage.strategy.recompute == "full":
            yield from range(first, first + count)
        first += count


LAUNCHER = Launcher(
    name="hetu",
    title="Hetu v2",
    tested=Tested(what="9e47240d"),
    losses=hetu_losses,
    launched=launched,
    files=files,
    commands=commands,
    limits=Limits(
        schedules=("1f1b",),
        shared=("dp", "cp"),
        recompute=(("none", "full"),),
        losses=problem_losses,
        fits=fits,
        together=SideBySide(values=microbatch_sizes, has=has_microbatch_size),
    ),
    side_by_side=side_by_side_losses,
    divides_hosts=True,
)
