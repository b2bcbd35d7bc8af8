"""A model and its recomputation as Megatron-LM's settings, and its rules for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.export.launcher import Loss

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.problem.problem import Problem
    from hetopt.problem.training import Training

#: Name with underscores -> value; on a command line true is the name alone.
Arguments = dict[str, Any]


def model_settings(problem: Problem) -> Arguments:
    """Return the model and its sequences."""
    model, training = problem.model, problem.training
    settings: Arguments = {
        "num_layers": model.layers,
        "hidden_size": model.hidden,
        "ffn_hidden_size": model.ffn,
        "num_attention_heads": model.heads,
        "kv_channels": model.head_dim,
    }
    if model.kv_heads != model.heads:
        settings |= {"group_query_attention": True, "num_query_groups": model.kv_heads}
    return settings | {
        "seq_length": training.seq_len,
        "max_position_embeddings": max(model.positions, training.seq_len),
        "position_embedding_type": "learned_absolute" if model.positions else "rope",
        "normalization": "RMSNorm" if model.norm == "rms" else "LayerNorm",
        # Models with RMSNorm have no biases, as hetopt counts them.
        "disable_bias_linear": model.norm == "rms",
        "swiglu": model.gated,
        "untie_embeddings_and_output_weights": not model.tied,
    }


def recompute_settings(policy: str) -> Arguments:
    """Return the settings of one recomputation policy for all stages."""
    if policy == "none":
        return {}
    settings: Arguments = {"recompute_granularity": policy}
    if policy == "full":
        # Every layer by itself.
        settings |= {"recompute_method": "uniform", "recompute_num_layers": 1}
    return settings


def kernel_settings(training: Training) -> Arguments:
    """Return which kernels compute the loss and attention, and in what precision."""
    settings: Arguments = {
        "cross_entropy_loss_fusion": training.cross_entropy == "fused"
    }
    if training.attention == "unfused":
        settings["attention_backend"] = "unfused"
    if training.gradients == "bf16":
        settings["grad_reduce_in_bf16"] = True
    if training.precision == "fp8":
        settings["fp8_format"] = "hybrid"
    return settings


def stored_precision(training: Training) -> str:
    """Return the precision of weights; FP8 is of multiplications alone."""
    return "bf16" if training.precision == "fp8" else training.precision


def problem_losses(problem: Problem) -> Iterator[Loss]:
    """Yield what Megatron-LM cannot do of a problem, whatever its plan."""
    model, training = problem.model, problem.training
    if training.zero and training.optimizer != "adam":
        yield Loss(
            what=f"ZeRO with optimizer {training.optimizer}: it shards Adam's states",
            instead="ZeRO 0, which needs more memory",
        )
    if 0 < model.positions < training.seq_len:
        yield Loss(
            what=f"a table of {model.positions} positions for sequences of "
            f"{training.seq_len}: it must be as long as a sequence",
            instead=f"{training.seq_len} positions",
        )
