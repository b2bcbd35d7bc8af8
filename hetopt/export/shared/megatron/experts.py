"""Routed experts, latent attention and further tokens as Megatron-core's settings.

Sources: megatron-core 0.16.1, ``transformer/transformer_config.py``,
``transformer/moe/router.py`` and ``moe_utils.py`` (how experts are chosen and weighed),
``transformer/multi_latent_attention.py`` (which rotates pairs of neighbours, and has
norms only with ``qk_layernorm``), ``transformer/multi_token_prediction.py``.
"""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from hetopt.export.launcher import Loss
from hetopt.export.shared.architecture import shown
from hetopt.problem.model.experts import Experts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.problem.model.model import Model
    from hetopt.problem.training.dispatch import Dispatch


def trained_experts(model: Model, *, gates: bool) -> Experts | None:
    """Return the experts that megatron-core trains with the nearest settings.

    Parameters
    ----------
    gates
        Whether there is a setting for the gate of shared experts.
    """
    experts = model.experts
    if experts is None:
        return None
    several = experts.per_token > 1
    sigmoid = experts.scores == "sigmoid"
    return replace(
        experts,
        shared_gate=experts.shared_gate and gates,
        # It weighs inputs only if every token has one expert.
        weighted_input=experts.weighted_input and not several,
        normalised=several and (sigmoid or experts.normalised),
        # With sigmoid it balances loads; with softmax it is there if all biases are.
        router_bias=experts.router_bias if sigmoid else all(model.biases),
    )


def expert_losses(model: Model, said: Model) -> Iterator[Loss]:
    """Yield how the experts that megatron-core trains differ from the model's.

    Parameters
    ----------
    said
        The model that is trained.
    """
    for field in fields(Experts) if model.experts is not None else ():
        wanted = getattr(model.experts, field.name)
        own = getattr(said.experts, field.name)
        if wanted != own:
            yield Loss(
                f"model.experts.{field.name} {shown(wanted)}: it has no setting for it",
                instead=f"experts.{field.name} {shown(own)}",
            )


def expert_settings(model: Model, moe: Dispatch) -> dict[str, Any]:
    """Return the fields of ``TransformerConfig`` that describe the experts.

    Parameters
    ----------
    model
        As it is trained.
    """
    experts = model.experts
    if experts is None:
        return {}
    softmax = experts.scores == "softmax"
    settings: dict[str, Any] = {
        "moe_ffn_hidden_size": experts.ffn,
        "moe_layer_freq": list(map(int, model.routed)),
        "moe_router_topk": experts.per_token,
        "moe_router_score_function": experts.scores,
        "moe_router_pre_softmax": softmax and not experts.normalised,
        "moe_router_enable_expert_bias": not softmax and experts.router_bias,
        "moe_router_dtype": "fp32",
        "moe_grouped_gemm": True,
        "moe_token_dispatcher_type": "alltoall",
    }
    if moe.sent_by != "alltoall":
        settings["moe_token_dispatcher_type"] = "flex"
        settings["moe_flex_dispatcher_backend"] = moe.sent_by
    if experts.weighted_input:
        settings["moe_apply_probs_on_input"] = True
    if experts.scale != 1:
        settings["moe_router_topk_scaling_factor"] = experts.scale
    if experts.groups:
        settings |= {
            "moe_router_num_groups": experts.groups,
            "moe_router_group_topk": experts.groups_per_token,
        }
    if experts.shared_ffn:
        settings["moe_shared_expert_intermediate_size"] = experts.shared_ffn
    if moe.capacity is not None:
        settings["moe_expert_capacity_factor"] = moe.capacity
    return settings


def dispatcher_settings(settings: dict[str, Any], ep: int, etp: int) -> dict[str, Any]:
    """Return settings whose dispatcher runs with these degrees.

    The ``flex`` one asserts ep * etp > 1 (``moe/token_dispatcher.py``).
    """
    if ep * etp > 1 or settings.get("moe_token_dispatcher_type") != "flex":
        return settings
    left = {k: v for k, v in settings.items() if k != "moe_flex_dispatcher_backend"}
    return left | {"moe_token_dispatcher_type": "alltoall"}


def latent_settings(model: Model) -> dict[str, Any]:
    """Return the fields of ``MLATransformerConfig`` for latent attention."""
    latent = model.latent
    if latent is None:
        return {}
    return {
        "multi_latent_attention": True,
        "q_lora_rank": latent.q_lora or None,
        "kv_lora_rank": latent.kv_lora,
        "qk_head_dim": latent.qk_dim,
        "qk_pos_emb_head_dim": latent.rope_dim,
        "v_head_dim": latent.v_dim,
        "rope_type": "rope",
    }


def layer_runs(routed: list[int]) -> str:
    """Return 0 or 1 for each layer as an argument: ``([0]*3+[1]*58)``."""
    runs = [(value, len(list(run))) for value, run in groupby(routed)]
    if len(runs) > len(routed) // 2:
        return str(routed).replace(" ", "")
    return "(" + "+".join(f"[{value}]*{count}" for value, count in runs) + ")"
