"""Hetu v2: pipelines side by side, a tp of its own for each stage, 1F1B.

See ``StrategyConfig`` and ``generate_llama_hetero_4d_config`` of
https://github.com/PKU-DAIR/Hetu. A plan whose stages all have the same dp and cp is
``dp * cp`` of Hetu's pipelines, cp in a row for each replica. A pipeline has
``gpus_per_stage`` places for every stage; a stage with less tp leaves some unused.

Hetu's generator makes the JSON of device groups, splits and copies of this YAML; their
names differ between its models and versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from hetopt.export.hetu.losses import (
    fits,
    hetu_losses,
    launched,
    problem_losses,
    shards_optimizer,
)
from hetopt.export.hetu.reading import looks_like_hetu, read_hetu
from hetopt.export.launcher import Launcher, Limits, Reader, Tested
from hetopt.export.shared.scripts import mixed_note

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.export.job import Job

#: The file that hetopt writes.
STRATEGY = "ds_parallel.yaml"


def files(job: Job) -> Mapping[str, str]:
    """Return the strategy."""
    return {STRATEGY: _strategy(job)}


def commands(job: Job) -> str:
    """Say what else the configuration needs, how to generate and launch."""
    training = job.problem.training
    parts = [
        f"1. Put `{STRATEGY}` into your training configuration (its `ds_parallel` "
        "also under `trainer`, where a trainer's configuration has one), with "
        f"sequences of {training.seq_len} tokens, {training.global_batch} of them "
        f"an iteration, `micro_batch_size: {job.microbatch_size(job.stages[0])}`, "
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
    degrees, layers = job.stages[0].strategy, list(job.layers or ())
    pipelines = degrees.dp * degrees.cp
    most = max(stage.strategy.tp for stage in job.stages)
    mapping, unused = _devices(job, most)
    data: dict[str, Any] = {
        "hetero": True,
        "dp": degrees.dp,
        "tp": most,
        "pp": len(job.stages),
        "zero": shards_optimizer(job),
        "num_layers": job.problem.model.layers,
        "num_gpus": job.world_size,
        "cp_list": [degrees.cp] * degrees.dp,
        "hetero_layers": [list(layers) for _ in range(pipelines)],
        "gpus_per_stage": most,
        "micro_batch_num_list": [job.microbatches] * degrees.dp,
        "rank_to_device_mapping": mapping,
        "unused_rank": unused,
        "ds_parallel_config_path": "ds_parallel_config",
        "ds_parallel_config_name": "plan.json",
        "recompute": _recompute(job, layers, pipelines),
    }
    body = yaml.safe_dump(
        {"ds_parallel": data}, sort_keys=False, default_flow_style=None, width=88
    )
    return f"# What the plan decides; README.md has the rest.\n{body}"


def _devices(job: Job, most: int) -> tuple[dict[int, int], list[int]]:
    """Return the device of every place, and the places that no device takes.

    Those are given numbers beyond the devices, as every place must have one.
    """
    stages, cp = len(job.stages), job.stages[0].strategy.cp
    mapping = {
        ((rank.dp * cp + rank.cp) * stages + rank.stage) * most + rank.tp: rank.rank
        for rank in job.placement.ranks
    }
    places = range(job.stages[0].strategy.dp * cp * stages * most)
    unused = [place for place in places if place not in mapping]
    for number, place in enumerate(unused, start=job.world_size):
        mapping[place] = number
    return dict(sorted(mapping.items())), unused


def _recompute(job: Job, layers: list[int], pipelines: int) -> dict[str, Any]:
    """Return the layers that every pipeline recomputes in full, counted from 0."""
    names = ("granularity", "method", "num_layers", "layer_idxs_list")
    data: dict[str, Any] = {f"recompute_{name}": None for name in names}
    listed: list[int] = []
    first = 0
    for count, stage in zip(layers, job.stages, strict=True):
        if stage.strategy.recompute == "full":
            listed += range(first, first + count)
        first += count
    if listed:
        data["recompute_granularity"] = "full"
        data["recompute_layer_idxs_list"] = [list(listed) for _ in range(pipelines)]
    return data


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
    ),
    reader=Reader(looks_like=looks_like_hetu, read=read_hetu),
)
