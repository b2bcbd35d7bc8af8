"""What Megatron-LM's settings say of experts, latent attention and further tokens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hetopt.base.words import counted, describe
from hetopt.errors import RecordError
from hetopt.export.shared.megatron.numbers import number, whole
from hetopt.problem.model.architecture import RotaryScaling
from hetopt.problem.model.experts import Experts
from hetopt.problem.model.latent import Latent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.export.shared.megatron.numbers import Wrong

_FREQUENCY = "moe_layer_freq"
_RUN = re.compile(r"\[([01](?:,[01])*)\](?:\*([0-9]{1,6}))?")
#: The most layers that a text of runs may stand for.
_MOST_LAYERS = 100_000


def experts_say(
    settings: Mapping[str, str], layers: int, ffn: int, wrong: Wrong
) -> dict[str, Any]:
    """Return the fields of a model and its dispatch that settings state.

    Settings that are left out have the parser's defaults.

    Parameters
    ----------
    layers, ffn
        Of the model; experts have the width of its MLPs by default.
    wrong
        Returns the error about a setting, from its name and a message.

    Raises
    ------
    InputError
        The runtime could not read a setting.
    """
    number_of = (
        whole(settings, "num_experts", wrong, 0, least=0)
        if has_experts(settings)
        else 0
    )
    width = whole(settings, "moe_ffn_hidden_size", wrong, ffn)
    says: dict[str, Any] = {
        "experts": _experts(settings, number_of, width, layers, wrong)
        if number_of
        else None,
        "latent": None,
        "predictions": whole(settings, "mtp_num_layers", wrong, 0, least=0),
    }
    if "multi_latent_attention" in settings:
        says |= _latent(settings, wrong)
    if not number_of:
        return says
    ep = whole(settings, "expert_model_parallel_size", wrong, 1)
    tp = whole(settings, "tensor_model_parallel_size", wrong, 1)
    etp = whole(settings, "expert_tensor_parallel_size", wrong, tp)
    if ep * etp > 1:
        flex = settings.get("moe_token_dispatcher_type") == "flex"
        backend = settings.get("moe_flex_dispatcher_backend", "deepep")
        says |= {"node_dedup": flex, "sent_by": backend if flex else "alltoall"}
    capacity = number(settings, "moe_expert_capacity_factor", wrong, 0.0)
    says["capacity"] = capacity or None
    if ep > 1:
        says["overlaps"] = "overlap_moe_expert_parallel_comm" in settings
    return says


def has_experts(settings: Mapping[str, str]) -> bool:
    """Whether layers are routed, if ``num_experts`` is a number."""
    # 1 means none in Megatron-DeepSpeed; elsewhere it needs a top-k, by default 2.
    dense = ("0", "1") if "moe_router_topk" not in settings else ("0",)
    return settings.get("num_experts", "0") not in dense


def _experts(
    settings: Mapping[str, str], count: int, width: int, layers: int, wrong: Wrong
) -> Experts:
    scores = settings.get("moe_router_score_function", "softmax")
    if scores not in ("softmax", "sigmoid"):
        msg = f"is {describe(scores)}, expected softmax or sigmoid"
        raise wrong("moe_router_score_function", msg)
    biases = "disable_bias_linear" not in settings
    per_token = whole(settings, "moe_router_topk", wrong, 2)
    sigmoid, before = scores == "sigmoid", "moe_router_pre_softmax" in settings
    routed = _routed(settings, layers, wrong)
    try:
        return Experts(
            number=count,
            per_token=per_token,
            ffn=width,
            shared_ffn=whole(
                settings, "moe_shared_expert_intermediate_size", wrong, 0, least=0
            ),
            shared_gate="moe_shared_expert_gate" in settings,
            groups=whole(settings, "moe_router_num_groups", wrong, 0, least=0),
            groups_per_token=whole(
                settings, "moe_router_group_topk", wrong, 0, least=0
            ),
            router_bias=(
                "moe_router_enable_expert_bias" in settings if sigmoid else biases
            ),
            scores="sigmoid" if sigmoid else "softmax",
            normalised=per_token > 1 and (sigmoid or not before),
            scale=number(settings, "moe_router_topk_scaling_factor", wrong, 1.0),
            weighted_input="moe_apply_probs_on_input" in settings,
            dense_layers=tuple(i for i, each in enumerate(routed) if not each),
        )
    except RecordError as error:
        raise wrong("num_experts", f"is given, but {error.said}") from error


def _routed(settings: Mapping[str, str], layers: int, wrong: Wrong) -> list[bool]:
    """Return whether each layer is routed."""
    text = settings.get(_FREQUENCY, "1").replace(" ", "")
    if re.fullmatch("[1-9][0-9]{0,5}", text):
        return [layer % int(text) == 0 for layer in range(layers)]
    if re.fullmatch("[01](,[01])+", text):
        text = f"[{text}]"
    inner = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    runs = [_RUN.fullmatch(part) for part in re.split(r"\+", inner)]
    digits: list[str] = []
    for run in runs:
        times = int(run[2] or 1) if run is not None else 0
        if run is None or times * len(run[1]) + len(digits) > _MOST_LAYERS:
            break
        digits += run[1].split(",") * times
    if None in runs or len(digits) != layers:
        msg = (
            f"is {describe(settings[_FREQUENCY])}, expected a number or 0 or 1 for "
            f"each of {counted(layers, 'layer')}"
        )
        raise wrong(_FREQUENCY, msg)
    return [digit == "1" for digit in digits]


def _latent(settings: Mapping[str, str], wrong: Wrong) -> dict[str, Any]:
    """Return what settings say of latent attention, with the parser's defaults."""
    if "qk_layernorm" not in settings:
        msg = "is not given, and hetopt prices latent attention with its norms"
        raise wrong("qk_layernorm", msg)
    try:
        latent = Latent(
            q_lora=whole(settings, "q_lora_rank", wrong, 0, least=0),
            kv_lora=whole(settings, "kv_lora_rank", wrong, 32),
            qk_dim=whole(settings, "qk_head_dim", wrong, 128),
            rope_dim=whole(settings, "qk_pos_emb_head_dim", wrong, 64),
            v_dim=whole(settings, "v_head_dim", wrong, 128),
        )
    except RecordError as error:
        raise wrong("qk_pos_emb_head_dim", error.said) from error
    says: dict[str, Any] = {
        "latent": latent,
        "head_dim": latent.head_dim,
        "kv_heads": whole(settings, "num_attention_heads", wrong),
        "qk_norm": "none",
        "rotary_interleaved": True,
        "rotary_scaling": None,
    }
    if settings.get("rope_type", "yarn") != "rope":
        factor = number(settings, "rotary_scaling_factor", wrong, 1.0)
        if factor <= 0:
            raise wrong("rotary_scaling_factor", f"is {factor:g}, expected more than 0")
        says["rotary_scaling"] = RotaryScaling(kind="yarn", factor=factor)
    return says
