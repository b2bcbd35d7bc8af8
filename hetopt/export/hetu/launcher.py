"""Hetu v2: pipelines side by side, a tp of its own for each stage, 1F1B.

See ``StrategyConfig`` and ``generate_llama_hetero_4d_config`` of
https://github.com/PKU-DAIR/Hetu. A plan whose stages all have the same dp and cp is
``dp * cp`` of Hetu's pipelines, cp in a row for each replica.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.export.hetu.files import STRATEGY, files
from hetopt.export.hetu.losses import fits, hetu_losses, launched, problem_losses
from hetopt.export.hetu.reading import looks_like_hetu, read_hetu
from hetopt.export.launcher import Launcher, Limits, Reader
from hetopt.export.shared.scripts import mixed_note

if TYPE_CHECKING:
    from hetopt.export.job import Job


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


LAUNCHER = Launcher(
    name="hetu",
    title="Hetu v2",
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
