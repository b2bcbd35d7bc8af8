"""What Megatron-LM's ``pretrain_gpt.py`` is told about a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.export.megatron_layout import layout_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.export.job import Job

#: Value of an argument that stands alone.
FLAG = ""


def megatron_arguments(job: Job) -> Mapping[str, str]:
    """Return arguments by name, in order; those without a value have ``FLAG``.

    What hetopt does not decide is left to the user: data, tokenizer, learning rate,
    iterations, checkpoints.

    Parameters
    ----------
    job
        One whose stages are alike.
    """
    return {**_model(job), **_parallelism(job), **_training(job)}


def _model(job: Job) -> dict[str, str]:
    model, training = job.problem.model, job.problem.training
    arguments = {
        "--num-layers": str(model.layers),
        "--hidden-size": str(model.hidden),
        "--ffn-hidden-size": str(model.ffn),
        "--num-attention-heads": str(model.heads),
        "--kv-channels": str(model.head_dim),
    }
    if model.kv_heads != model.heads:
        arguments |= {
            "--group-query-attention": FLAG,
            "--num-query-groups": str(model.kv_heads),
        }
    arguments |= {
        "--seq-length": str(training.seq_len),
        "--max-position-embeddings": str(max(model.positions, training.seq_len)),
        "--position-embedding-type": "learned_absolute" if model.positions else "rope",
        "--normalization": "RMSNorm" if model.norm == "rms" else "LayerNorm",
    }
    if model.norm == "rms":
        # As counted by hetopt: models with RMSNorm have no biases.
        arguments["--disable-bias-linear"] = FLAG
    if model.gated:
        arguments["--swiglu"] = FLAG
    if not model.tied:
        arguments["--untie-embeddings-and-output-weights"] = FLAG
    return arguments


def _parallelism(job: Job) -> dict[str, str]:
    strategy, layers = job.stages[0].strategy, job.layers
    assert layers is not None
    arguments = {
        "--tensor-model-parallel-size": str(strategy.tp),
        "--pipeline-model-parallel-size": str(len(job.stages)),
        "--context-parallel-size": str(strategy.cp),
        "--pipeline-model-parallel-layout": layout_text(layers),
    }
    if strategy.tp > 1:
        arguments["--sequence-parallel"] = FLAG
    if strategy.cp > 1:
        arguments["--cp-comm-type"] = "p2p"
    return arguments


def _training(job: Job) -> dict[str, str]:
    training, strategy = job.problem.training, job.stages[0].strategy
    arguments = {
        "--micro-batch-size": str(job.microbatch_size(job.stages[0])),
        "--global-batch-size": str(training.global_batch),
        "--optimizer": training.optimizer,
    }
    if training.precision != "fp32":
        arguments[f"--{training.precision}"] = FLAG
    if shards_optimizer(job):
        arguments["--use-distributed-optimizer"] = FLAG
    if training.overlap_gradients:
        arguments["--overlap-grad-reduce"] = FLAG
    if strategy.recompute == "full":
        arguments |= {
            "--recompute-granularity": "full",
            "--recompute-method": "uniform",
            "--recompute-num-layers": "1",
        }
    elif strategy.recompute == "selective":
        arguments["--recompute-granularity"] = "selective"
    return arguments


def shards_optimizer(job: Job) -> bool:
    """Whether optimizer states are sharded, which Megatron-LM does for Adam alone."""
    return max(job.zero_stages) > 0 and job.problem.training.optimizer == "adam"
