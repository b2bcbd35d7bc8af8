"""A model and its recomputation as Megatron-LM's settings, and its rules for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.export.launcher import Loss
from hetopt.export.shared.architecture import architecture_losses
from hetopt.export.shared.megatron.architecture import (
    architecture_arguments,
)
from hetopt.export.shared.megatron.experts import (
    expert_losses,
    expert_settings,
    latent_settings,
    layer_runs,
)
from hetopt.problem.training.choices import BESIDE_BF16

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hetopt.problem.model.model import Model
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.training import Training

#: Settings of the precisions in which only the layers multiply.
_BELOW_BF16: dict[str, dict[str, str]] = {
    "fp8": {"fp8_format": "hybrid"},
    "mxfp8": {"fp8_format": "e4m3", "fp8_recipe": "mxfp8"},
    "nvfp4": {"fp4_format": "e2m1", "fp4_recipe": "nvfp4"},
}
#: Name with underscores -> value; on a command line true is the name alone.
Arguments = dict[str, Any]


def model_settings(problem: Problem, said: Callable[[Model], Model]) -> Arguments:
    """Return the settings of the model and its sequences.

    Parameters
    ----------
    said
        Returns the model that the runtime trains with the nearest settings.
    """
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
        **architecture_arguments(said(model)),
        **_expert_arguments(said(model), training),
        "untie_embeddings_and_output_weights": not model.tied,
    }


def _expert_arguments(model: Model, training: Training) -> Arguments:
    """Return the arguments of experts, latent attention and further tokens."""
    settings = expert_settings(model, training.moe)
    if model.experts is not None:
        settings |= {
            "num_experts": model.experts.number,
            "moe_layer_freq": layer_runs(settings["moe_layer_freq"]),
        }
    latent = latent_settings(model)
    if model.predictions:
        latent["mtp_num_layers"] = model.predictions
    # The parser's default for these is None.
    given = {name: value for name, value in latent.items() if value is not None}
    return settings | given


def kernel_settings(training: Training, tp: int) -> Arguments:
    """Return the settings of the loss, attention, gradient reduction and FP8.

    Parameters
    ----------
    tp
        The largest of all stages; Megatron-LM overlaps none with 1.
    """
    settings: Arguments = {
        "cross_entropy_loss_fusion": training.cross_entropy == "fused"
    }
    if training.attention == "unfused":
        settings["attention_backend"] = "unfused"
    if training.gradients == "bf16":
        settings["grad_reduce_in_bf16"] = True
    if training.overlap_tensor and tp > 1:
        settings["tp_comm_overlap"] = True
    return settings | _BELOW_BF16.get(training.precision, {})


def stored_precision(training: Training) -> str:
    """Return the precision of weights; others may be only that of multiplications."""
    return "bf16" if training.precision in BESIDE_BF16 else training.precision


def problem_losses(problem: Problem, said: Callable[[Model], Model]) -> Iterator[Loss]:
    """Yield what Megatron-LM cannot do of a problem under any plan.

    Parameters
    ----------
    said
        As for ``model_settings``.
    """
    model, training = problem.model, problem.training
    yield from architecture_losses(model, said(model))
    yield from expert_losses(model, said(model))
    if model.experts is not None and model.experts.shared_ffn and said(model).biases[2]:
        yield Loss("shared experts with biases: it has none")
    if model.predictions and model.positions:
        yield Loss("layers that predict further tokens beside learned positions")
    if training.zero and training.optimizer != "adam":
        yield Loss(
            f"ZeRO with optimizer {training.optimizer}: it shards Adam's states",
            instead="ZeRO 0, which needs more memory",
        )
    own = said(model).architecture
    for field in ("attention_chunk", "attention_temperature"):
        tokens = getattr(own, field)
        if tokens is not None and tokens < training.seq_len:
            yield Loss(
                f"model.{field} {tokens} with sequences of {training.seq_len}: it "
                "has no setting for it",
                instead=f"{field} none",
            )
    if 0 < model.positions < training.seq_len:
        yield Loss(
            f"a table of {model.positions} positions for sequences of "
            f"{training.seq_len}: it must be as long as a sequence",
            instead=f"{training.seq_len} positions",
        )
