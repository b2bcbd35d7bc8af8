"""The architecture of a model as Megatron-LM's settings.

Sources: megatron-core 0.16.1, ``transformer/transformer_config.py``,
``transformer/mlp.py``, ``transformer/utils.py`` and
``models/common/embeddings/rotary_pos_embedding.py``; Megatron-LM's
``training/arguments.py`` of the same release; Megatron-Bridge 0.3.1, ``models/``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hetopt.export.shared.architecture import as_said
from hetopt.export.shared.megatron.experts import trained_experts
from hetopt.problem.model.architecture import RotaryScaling

if TYPE_CHECKING:
    from hetopt.problem.model.architecture import Activation
    from hetopt.problem.model.model import Model

#: Fields that are written for every model.
_WRITTEN = (
    "norm_eps",
    "norm_zero_centred",
    "rotary_fraction",
    "rotary_interleaved",
    "hidden_dropout",
    "attention_dropout",
)
#: Fields of GPT-OSS.
_SINKS = ("attention_sinks", "gate_clamp")
_WINDOWS = ("sliding_window", "full_layers")
#: Fields of Llama-4. Chunk and temperature have no setting: ``problem_losses`` yields
#: them if sequences are long enough.
_CHUNKS = ("attention_chunk", "rotary_full_layers", "attention_temperature")

#: What megatron-core computes for ``rope_scaling``, with any factor.
_LLAMA3 = RotaryScaling(kind="llama3", factor=1.0)


def megatron_lm_model(model: Model) -> Model:
    """Return the model that Megatron-LM trains with the settings nearest to a model."""
    gated: tuple[Activation, ...] = ("silu", "quick-gelu")
    written = (*_WRITTEN, *_WINDOWS, *_CHUNKS, *_SINKS)
    return _model(model, written, _activation(model, gated), gates=False)


def flagscale_model(model: Model) -> Model:
    """Return the same for FlagScale, whose Megatron-LM is older.

    The version that hetopt knows has no sliding windows, gated quick GELU or weighted
    inputs of experts.
    """
    found = _model(model, _WRITTEN, _activation(model, ("silu",)), gates=False)
    if found.experts is None:
        return found
    return replace(found, experts=replace(found.experts, weighted_input=False))


def bridge_model(model: Model) -> Model:
    """Return the same for Megatron-Bridge, with any activation and softmax scale."""
    further = (*_SINKS, "attention_scale", "activation")
    written = (*_WRITTEN, *_WINDOWS, *_CHUNKS, *further)
    return _model(model, written, gates=True)


def _model(
    model: Model, can: tuple[str, ...], activation: Any = None, *, gates: bool
) -> Model:
    own, (qkv, out, mlp) = model.architecture, model.biases
    whole = qkv and out and mlp
    changed: dict[str, Any] = {
        # Its norm without weights is in all layers, also without rotary embedding.
        "qk_norm": "head" if own.qk_norm in ("head", "all") else "none",
        # All biases, or only those of queries, keys and values.
        "qkv_bias": qkv,
        "out_bias": whole,
        "mlp_bias": whole,
        "rotary_base": float(max(round(own.rotary_base), 2)),
        "rotary_scaling": _scaling(own.rotary_scaling),
    }
    if "activation" not in can:
        changed["activation"] = activation
    if model.latent is not None:
        # It rotates pairs of neighbours.
        changed["rotary_interleaved"] = True
    experts = trained_experts(model, gates=gates)
    return replace(as_said(model, can, **changed), experts=experts)


def _scaling(wanted: RotaryScaling | None) -> RotaryScaling | None:
    """Return a rotary scaling if megatron-core can compute it, else None."""
    if wanted is None:
        return None
    if wanted.kind == "linear" and wanted.factor == int(wanted.factor):
        return wanted
    same = replace(_LLAMA3, factor=wanted.factor) == wanted
    return wanted if same else None


def _activation(model: Model, gated: tuple[Activation, ...]) -> Activation | None:
    """Return the activation if the parser can name it, else a similar one."""
    wanted = model.architecture.activation
    if model.gated:
        return wanted if wanted in gated else "silu"
    if wanted == "gelu-tanh":
        # The kernel that is fused with the bias computes this form, any other the
        # exact one.
        return "gelu-tanh" if all(model.biases) else "gelu"
    return wanted if wanted in (None, "gelu", "squared-relu") else "gelu"


def architecture_arguments(model: Model) -> dict[str, Any]:
    """Return the arguments of a model as ``megatron_lm_model`` returns it.

    Every argument is included whose default in the parser may differ.
    """
    own, (qkv, _, mlp) = model.architecture, model.biases
    quick, squared = own.activation == "quick-gelu", own.activation == "squared-relu"
    arguments: dict[str, Any] = {
        "normalization": "RMSNorm" if model.norm == "rms" else "LayerNorm",
        "norm_epsilon": own.norm_eps,
        "apply_layernorm_1p": own.norm_zero_centred,
        "qk_layernorm": own.qk_norm == "head" or model.latent is not None,
        "disable_bias_linear": not mlp,
        "add_qkv_bias": qkv and not mlp,
        "swiglu": model.gated and not quick,
        "quick_geglu": model.gated and quick,
        "squared_relu": squared,
        # The fused kernel computes the other form of GELU, and no other function.
        "no_bias_gelu_fusion": quick or squared or own.activation == "gelu",
        "hidden_dropout": own.hidden_dropout,
        "attention_dropout": own.attention_dropout,
        "position_embedding_type": "learned_absolute" if model.positions else "rope",
    }
    arguments |= sinks_and_clamp(model)
    arguments |= {} if model.positions else _rotary(model)
    return arguments | _window(model) | _without_rotary(model)


def sinks_and_clamp(model: Model) -> dict[str, Any]:
    """Return the settings of attention sinks and of a clamped gate; none without."""
    own = model.architecture
    settings: dict[str, Any] = {}
    if own.attention_sinks:
        settings["softmax_type"] = "learnable"
    if own.gate_clamp is not None:
        settings["activation_func_clamp_value"] = own.gate_clamp
        settings["glu_linear_offset"] = 1.0
    return settings


def _rotary(model: Model) -> dict[str, Any]:
    own = model.architecture
    arguments: dict[str, Any] = {
        "rotary_base": int(own.rotary_base),
        "rotary_percent": own.rotary_fraction,
        "rotary_interleaved": own.rotary_interleaved and model.latent is None,
        # The fused kernel takes pairs of neighbours in some versions only.
        "no_rope_fusion": own.rotary_interleaved,
    }
    scaling = own.rotary_scaling
    if scaling is None:
        return arguments
    if scaling.kind == "linear":
        factor = int(scaling.factor)
        return arguments | {"rotary_seq_len_interpolation_factor": factor}
    return arguments | {"use_rope_scaling": True, "rope_scaling_factor": scaling.factor}


def _window(model: Model) -> dict[str, Any]:
    window = window_size(model)
    if window is None:
        return {}
    arguments: dict[str, Any] = {"window_size": f"{window[0]},{window[1]}"}
    skipped = window_frequency(model)
    if isinstance(skipped, list):
        arguments["window_attn_skip_freq"] = str(skipped).replace(" ", "")
    elif skipped is not None:
        arguments["window_attn_skip_freq"] = skipped
    return arguments


def _without_rotary(model: Model) -> dict[str, Any]:
    skipped = rotary_frequency(model)
    if isinstance(skipped, list):
        return {"no_rope_freq": str(skipped).replace(" ", "")}
    return {} if skipped is None else {"no_rope_freq": skipped}


def rotary_frequency(model: Model) -> int | list[int] | None:
    """Return n if every n-th layer has no rotary embedding, else 1 or 0 for each layer.

    1 is for layers without; None if all layers have one.
    """
    if model.architecture.rotary_full_layers:
        return None
    found = window_frequency(model)
    return [1 - has for has in found] if isinstance(found, list) else found


def window_size(model: Model) -> tuple[int, int] | None:
    """Return how many tokens before and after itself a token attends to, if limited."""
    window = model.architecture.sliding_window
    return None if window is None else (window - 1, 0)


def window_frequency(model: Model) -> int | list[int] | None:
    """Return n if every n-th layer has no window, else 1 or 0 for each layer.

    None if all layers have the window.
    """
    own = model.architecture
    if not own.full_layers:
        return None
    every = own.full_layers[0] + 1
    if own.full_layers == tuple(range(every - 1, model.layers, every)) and every > 1:
        return every
    return [int(has) for has in own.windows(model.layers)]
