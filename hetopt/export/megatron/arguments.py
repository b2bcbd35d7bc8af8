"""The arguments of Megatron-LM's ``pretrain_gpt.py`` that a plan decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.export.shared.megatron import shards_optimizer
from hetopt.export.shared.megatron_layout import layout_text
from hetopt.export.shared.megatron_model import model_settings, recompute_settings

if TYPE_CHECKING:
    from hetopt.export.job import Job
    from hetopt.export.shared.megatron_model import Settings


def megatron_arguments(job: Job) -> list[str]:
    """Return the words of the command line, in order.

    The user's own arguments follow: data, tokenizer, learning rate, iterations,
    checkpoints.

    Parameters
    ----------
    job
        One whose stages have the same strategy.
    """
    settings = {
        **model_settings(job.problem),
        **_parallelism(job),
        **_training(job),
        **recompute_settings(job.stages[0].strategy.recompute),
    }
    words: list[str] = []
    for name, value in settings.items():
        if value is not False:
            words.append(f"--{name.replace('_', '-')}")
            words += [] if value is True else [str(value)]
    return words


def _parallelism(job: Job) -> Settings:
    strategy, layers = job.stages[0].strategy, job.layers
    assert layers is not None
    settings: Settings = {
        "tensor_model_parallel_size": strategy.tp,
        "pipeline_model_parallel_size": len(job.stages),
        "context_parallel_size": strategy.cp,
        "pipeline_model_parallel_layout": layout_text(layers),
        "sequence_parallel": strategy.tp > 1,
    }
    if strategy.cp > 1:
        settings["cp_comm_type"] = "p2p"
    return settings


def _training(job: Job) -> Settings:
    training = job.problem.training
    return {
        "micro_batch_size": job.microbatch_size(job.stages[0]),
        "global_batch_size": training.global_batch,
        "optimizer": training.optimizer,
        training.precision: training.precision != "fp32",
        "use_distributed_optimizer": shards_optimizer(job),
        "overlap_grad_reduce": training.overlap_gradients,
    }
