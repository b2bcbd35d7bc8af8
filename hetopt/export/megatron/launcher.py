"""Megatron-LM: the arguments of ``pretrain_gpt.py``, and a script per node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.export.launcher import Launcher, Tested
from hetopt.export.shared.megatron.architecture import megatron_lm_model
from hetopt.export.shared.megatron.common import (
    LIMITS,
    megatron_losses,
    one_mesh_settings,
    optimizer_shards,
)
from hetopt.export.shared.megatron.experts import dispatcher_settings
from hetopt.export.shared.megatron.model import (
    kernel_settings,
    model_settings,
    stored_precision,
)
from hetopt.export.shared.megatron.offload import offload_settings
from hetopt.export.shared.megatron.overlap import environment, overlap_settings
from hetopt.export.shared.megatron.recompute import recompute_settings
from hetopt.export.shared.one_mesh import expert_degrees, launched
from hetopt.export.shared.scripts import mixed_note, script_name, torchrun_scripts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.export.job import Job
    from hetopt.export.shared.megatron.model import Arguments

TESTED = Tested(what="0.16", module="megatron.core")


def files(job: Job) -> Mapping[str, str]:
    """Return one script per node."""
    program = ["../pretrain_gpt.py", *_arguments(job)]
    return torchrun_scripts(job, program, environment(job), TESTED)


def commands(job: Job) -> str:
    """Say where the folder goes and which arguments are the user's."""
    first = script_name(job, 0)
    trial = (
        "--mock-data --tokenizer-type NullTokenizer --vocab-size "
        f"{job.problem.model.vocab - 1} --lr 1e-4 --train-iters 10 --eval-iters 0"
    )
    parts = [
        "Copy this folder into a checkout of Megatron-LM on every host, so that "
        "the checkout's `pretrain_gpt.py` is in the folder above, and run on each "
        "host its own script; ranks meet on the first host. The scripts hold what "
        "the plan decides and the model whole, also where the parser's default is "
        "the same (norms, positions, biases, dropout); data, "
        "tokenizer, learning rate and checkpoints follow as arguments. A trial with "
        "made-up data, on the first host:",
        f"    ./{first} {trial}",
    ]
    return "\n\n".join(parts + mixed_note(job))


def _arguments(job: Job) -> list[str]:
    """Return the words of the command line; the user's own arguments follow."""
    settings = {
        **model_settings(job.problem, megatron_lm_model),
        **one_mesh_settings(job),
        **overlap_settings(job),
        **_training(job),
        **recompute_settings(job.stages[0].strategy.recompute),
    }
    if job.problem.model.experts is not None:
        settings = dispatcher_settings(settings, *expert_degrees(job))
    words: list[str] = []
    for name, value in settings.items():
        if value is not False:
            words.append(f"--{name.replace('_', '-')}")
            words += [] if value is True else [str(value)]
    return words


def _training(job: Job) -> Arguments:
    training = job.problem.training
    return {
        "micro_batch_size": job.microbatch_size(job.stages[0]),
        "global_batch_size": training.global_batch,
        "optimizer": training.optimizer,
        stored_precision(training): training.precision != "fp32",
        **kernel_settings(training, job.stages[0].strategy.tp),
        # With bf16 the parser sets this by itself.
        "accumulate_allreduce_grads_in_fp32": training.precision == "fp16",
        **optimizer_shards(job),
        "overlap_grad_reduce": training.overlap_gradients,
        **offload_settings(job),
    }


LAUNCHER = Launcher(
    name="megatron",
    title="Megatron-LM",
    losses=megatron_losses,
    launched=launched,
    files=files,
    commands=commands,
    limits=LIMITS,
    tested=TESTED,
    divides_hosts=True,
)
