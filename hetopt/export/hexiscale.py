"""HexiScale: pipelines side by side, each stage of a pipeline with a tp of its own.

RUNTIMES.md, Others; https://github.com/Relaxed-System-Lab/HexiScale. A plan whose
stages all have d replicas is d such pipelines, all alike: replica r of a stage is that
stage of pipeline r, and gets the same sequences of every micro-batch.

HexiScale counts ranks pipeline by pipeline, and a rank's place in its pipeline by that.
On a host the replicas of a stage are neighbours instead. So every rank is a process of
its own that is told its number and sees one device.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.export.alike import shared_recompute
from hetopt.export.bundle import ranks_csv
from hetopt.export.hexiscale_losses import SHARDING, hexiscale_losses, launched
from hetopt.export.hexiscale_models import model_size
from hetopt.export.hexiscale_reading import is_hexiscale, read_hexiscale
from hetopt.export.scripts import MASTER_PORT, script_name, visible_devices

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from hetopt.export.job import Job
    from hetopt.export.launcher import Loss
    from hetopt.export.placing import Node, Placement
    from hetopt.export.sketch import Sketch

#: Degrees and layers of every pipeline.
CONFIGS = "hetero_configs.json"


class HexiScale:
    """Writes the pipelines and the processes of ``llama_train.py``."""

    name = "hexiscale"
    title = "HexiScale"

    def losses(self, job: Job) -> Iterable[Loss]:
        """Yield what of the plan HexiScale cannot do."""
        return hexiscale_losses(job)

    def files(self, job: Job) -> Mapping[str, str]:
        """Return the pipelines, the ranks as HexiScale counts them, and scripts."""
        job = launched(job)
        placement = pipeline_by_pipeline(job)
        return {
            CONFIGS: _configs(job),
            "ranks.csv": ranks_csv(placement),
            **{
                script_name(job, node): _script(job, placement, node)
                for node in job.placement.nodes
            },
        }

    def commands(self, job: Job) -> str:
        """Say where the folder goes and which arguments are the user's."""
        first = script_name(job, job.placement.nodes[0])
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

    def recognises(self, folder: Path) -> bool:
        """Whether a script calls HexiScale."""
        return is_hexiscale(folder)

    def read(self, folder: Path) -> Sketch:
        """Read the pipelines and the arguments of a folder's scripts."""
        return read_hexiscale(folder)


def pipeline_by_pipeline(job: Job) -> Placement:
    """Return where HexiScale's ranks run; ``nodes`` stay in the plan's order."""
    ranks = sorted(job.placement.ranks, key=lambda rank: (rank.dp, rank.stage, rank.tp))
    return replace(
        job.placement,
        ranks=tuple(replace(rank, rank=number) for number, rank in enumerate(ranks)),
    )


def _configs(job: Job) -> str:
    dp = job.stages[0].strategy.dp
    tp = [stage.strategy.tp for stage in job.stages]
    layers = list(job.whole_layers or ())
    return (
        f'{{\n  "hetero_configs": {json.dumps([tp] * dp)},\n'
        f'  "layer_partitions": {json.dumps([layers] * dp)}\n}}\n'
    )


def _arguments(job: Job) -> list[str]:
    """Return what every rank is called with, an option and its values each."""
    training, dp = job.problem.training, job.stages[0].strategy.dp
    precision = training.precision
    arguments = [
        f"--model_size {model_size(job.problem.model)}",
        f"--total-layer-num {job.problem.model.layers}",
        "--global_bsz_size " + " ".join([str(training.global_batch // dp)] * dp),
        "--chunks " + " ".join([str(job.microbatches)] * dp),
        "--pipeline-type Gpipe",
        f"--optimizer-type {training.optimizer}",
        f"--mixed_precision {precision}",
        "--use-flash-attn",
    ]
    if precision != "fp32":
        arguments.append(f"--{precision}")
    if any(stage.strategy.tp > 1 for stage in job.stages):
        arguments.append("--seq-parallel")
    if dp > 1:
        arguments.append(f"--default_dp_type {SHARDING[max(job.zero_stages)]}")
    if shared_recompute(job) == "full":
        arguments.append("--checkpoint-layers")
    return arguments


def _script(job: Job, placement: Placement, node: Node) -> str:
    own = [rank for rank in placement.ranks if rank.host == node.host]
    own.sort(key=lambda rank: rank.local_device)
    numbers = " ".join(str(rank.rank) for rank in own)
    master, variable = placement.ranks[0].host, visible_devices(job, node)
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
        f"ranks=({numbers})",
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


LAUNCHER = HexiScale()
