"""HexiScale: pipelines side by side, each stage of a pipeline with its own tp.

See https://github.com/Relaxed-System-Lab/HexiScale. A plan whose stages all have the
same dp becomes dp equal pipelines: replica r of a stage is that stage of pipeline r,
and gets the same sequences of every micro-batch.

HexiScale numbers ranks pipeline by pipeline, and a rank finds its place in its pipeline
by that number. On a host, however, the replicas of a stage are neighbours. So every
rank is started as a separate process with its number and one visible device.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hetopt.export.hexiscale.losses import (
    SHARDING,
    fits,
    has_recomputation,
    hexiscale_losses,
    launched,
    problem_losses,
    recomputations,
    sharding,
    side_by_side_losses,
)
from hetopt.export.hexiscale.models import model_size
from hetopt.export.job import MASTER_PORT
from hetopt.export.launcher import Launcher, Limits, SideBySide, Tested
from hetopt.export.shared.scripts import script_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.export.job import Job
    from hetopt.export.placing import PlacedNode

#: Degrees and layers of every pipeline.
CONFIGS = "hetero_configs.json"


def files(job: Job) -> Mapping[str, str]:
    """Return the pipelines, and a script per node."""
    scripts = {
        script_name(job, number): _script(job, node)
        for number, node in enumerate(job.placement.nodes)
    }
    return {CONFIGS: _configs(job), **scripts}


def commands(job: Job) -> str:
    """Say where the folder goes and which arguments are the user's."""
    first = script_name(job, 0)
    return (
        "Copy this folder into a checkout of HexiScale on every host, so that the "
        "checkout's `llama_train.py` is in the folder above, and run on each host "
        "its own script; ranks meet on the first host. The scripts hold what the "
        "plan decides; learning rate, number of iterations and the like follow as "
        "arguments. A trial, on the first host:\n\n"
        f"    ./{first} --run-iter 10\n\n"
        "`ranks.csv` has HexiScale's ranks: all of the first pipeline, then all of "
        "the second. Where stages have different tp, every rank sends whole "
        "activations to its counterpart, more than the plan counts on."
    )


def _configs(job: Job) -> str:
    rows = _replicas(job)
    degrees = [[stage.strategy.tp for stage in part.stages] for part in rows]
    layers = [list(part.whole_layers or ()) for part in rows]
    return (
        f'{{\n  "hetero_configs": {json.dumps(degrees)},\n'
        f'  "layer_partitions": {json.dumps(layers)}\n}}\n'
    )


def _replicas(job: Job) -> list[Job]:
    """Return the job of each HexiScale pipeline, which is one replica of a pipeline."""
    return [part for part in job.pipelines for _ in range(part.stages[0].strategy.dp)]


def _arguments(job: Job) -> list[str]:
    """Return the arguments of every rank; each item is an option with its values."""
    training, rows = job.problem.training, _replicas(job)
    batches = [
        part.problem.training.global_batch // part.stages[0].strategy.dp
        for part in rows
    ]
    stages = [stage for part in job.pipelines for stage in part.stages]
    precision = training.precision
    arguments = [
        f"--model_size {model_size(job.problem.model)}",
        f"--total-layer-num {job.problem.model.layers}",
        "--global_bsz_size " + " ".join(map(str, batches)),
        "--chunks " + " ".join(str(part.microbatches) for part in rows),
        "--pipeline-type Gpipe",
        f"--optimizer-type {training.optimizer}",
        f"--mixed_precision {precision}",
    ]
    if training.attention == "fused":
        arguments.append("--use-flash-attn")
    if precision != "fp32":
        arguments.append(f"--{precision}")
    split = training.sequence_parallel
    if split and any(stage.strategy.tp > 1 for stage in stages):
        arguments.append("--seq-parallel")
    if len(rows) > 1:
        arguments.append(f"--default_dp_type {SHARDING[sharding(job)]}")
    if stages[0].strategy.recompute == "full":
        arguments.append("--checkpoint-layers")
    return arguments


def _script(job: Job, node: PlacedNode) -> str:
    devices = range(node.first_device, node.first_device + node.slots)
    own = [
        rank
        for rank in job.placement.ranks
        if rank.host == node.host and rank.local_device in devices
    ]
    own.sort(key=lambda rank: rank.local_device)
    numbers = " ".join(str(rank.rank) for rank in own)
    # A host that pipelines share has a script for each, with its own devices.
    by_device = " ".join(
        f"[{rank.local_device}]={rank.rank}" if node.first_device else str(rank.rank)
        for rank in own
    )
    master, variable = job.placement.ranks[0].host, job.visible_devices(node)
    lines = [
        "#!/usr/bin/env bash",
        f"# Ranks {numbers} of {job.world_size}, on {node.host} ({node.cluster}), "
        "each with a device of its own.",
        "set -euo pipefail",
        'bundle="$(cd "$(dirname "$0")/.." && pwd)"',
        'cd "$bundle/.."',
        f'export MASTER_ADDR="${{MASTER_ADDR:-{master}}}"',
        f'export MASTER_PORT="${{MASTER_PORT:-{MASTER_PORT}}}"',
        f"export WORLD_SIZE={job.world_size}",
        f"ranks=({by_device})",
        "processes=()",
        'for device in "${!ranks[@]}"; do',
        f"  RANK=${{ranks[device]}} LOCAL_RANK=0 {variable}=$device \\",
        "    python3 llama_train.py \\",
        f'    --all_hetero_configs_path "$bundle/{CONFIGS}" \\',
        *(f"    {argument} \\" for argument in _arguments(job)),
        '    "$@" &',
        '  processes+=("$!")',
        "done",
        "failed=0",
        'for process in "${processes[@]}"; do',
        '  wait "$process" || failed=1',
        "done",
        'exit "$failed"',
    ]
    return "\n".join(lines) + "\n"


LAUNCHER = Launcher(
    name="hexiscale",
    title="HexiScale",
    tested=Tested(what="5ee1726b"),
    losses=hexiscale_losses,
    launched=launched,
    files=files,
    commands=commands,
    limits=Limits(
        schedules=("gpipe",),
        shared=("dp",),
        context_parallel=False,
        recompute=(("none",), ("full",)),
        losses=problem_losses,
        fits=fits,
        together=SideBySide(values=recomputations, has=has_recomputation),
    ),
    side_by_side=side_by_side_losses,
    divides_hosts=True,
)
