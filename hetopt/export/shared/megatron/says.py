"""Reads what Megatron-LM's settings say of a model and its training.

Settings are those of a command line, of FlagScale's YAML or of a recipe, by the names
of Megatron-LM's arguments with underscores; those that are off are left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hetopt.base.words import counted, describe
from hetopt.export.shared.megatron.experts_said import experts_say, has_experts
from hetopt.export.shared.megatron.numbers import number, whole
from hetopt.export.shared.megatron.offload import offload_notes
from hetopt.export.understood import not_priced
from hetopt.problem.model.architecture import RotaryScaling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hetopt.export.shared.megatron.numbers import Wrong
    from hetopt.results.reported import Reported

#: Arguments that ask for fused attention, of all versions.
FLASH = (
    "use_flash_attn",
    "use_flash_attn_v1",
    "use_flash_attn_v2",
    "use_flash_attn_triton",
)
#: Setting that is a number -> field and the parser's default.
_NUMBERS = {
    "norm_epsilon": ("norm_eps", 1e-5),
    "hidden_dropout": ("hidden_dropout", 0.1),
    "attention_dropout": ("attention_dropout", 0.1),
}
_ROTARY_NUMBERS = {
    "rotary_base": ("rotary_base", 10000.0),
    "rotary_percent": ("rotary_fraction", 1.0),
}
#: Setting with the layers that have no sliding window.
_SKIPPED = "window_attn_skip_freq"
#: Settings of Megatron-LM, and of MindSpeed beside it, for ``overlap_tensor``.
_OVERLAPS = ("tp_comm_overlap", "use_ascend_mc2", "use_mc2")


def model_says(
    settings: Mapping[str, str], layers: int, wrong: Wrong
) -> dict[str, Any]:
    """Return the fields of a model from its settings, which have to be complete.

    Settings that are left out have the parser's defaults.

    Parameters
    ----------
    settings
        Names with underscores; settings that are off are left out.
    layers
        Of the model.
    wrong
        Returns the error about a setting, from its name and a message.

    Raises
    ------
    InputError
        The runtime could not read a setting.
    """
    hidden = whole(settings, "hidden_size", wrong)
    heads = whole(settings, "num_attention_heads", wrong)
    groups = whole(settings, "num_query_groups", wrong, 1)
    says: dict[str, Any] = {
        "hidden": hidden,
        "heads": heads,
        "kv_heads": groups if "group_query_attention" in settings else heads,
        "head_dim": whole(settings, "kv_channels", wrong, max(hidden // heads, 1)),
        "ffn": whole(settings, "ffn_hidden_size", wrong, _ffn(settings, hidden, wrong)),
        "tied": "untie_embeddings_and_output_weights" not in settings,
        "norm": "rms" if _lower(settings, "normalization") == "rmsnorm" else "layer",
    }
    rows = vocabulary(settings, wrong)
    if rows is not None:
        says["vocab"] = rows
    for name, (field, default) in _NUMBERS.items():
        says[field] = number(settings, name, wrong, default)
    says["norm_zero_centred"] = "apply_layernorm_1p" in settings
    biases = "disable_bias_linear" not in settings
    says["qk_norm"] = "head" if "qk_layernorm" in settings else "none"
    says["attention_sinks"] = _has_sinks(settings, wrong)
    says["qkv_bias"] = "add_qkv_bias" in settings or biases
    says["out_bias"] = says["mlp_bias"] = biases
    return (
        says
        | _activation(settings, wrong)
        | _positions(settings, wrong)
        | _full_layers(settings, layers, wrong)
        | experts_say(settings, layers, says["ffn"], wrong)
    )


def _has_sinks(settings: Mapping[str, str], wrong: Wrong) -> bool:
    """Whether attention has sinks: a learned number in the sum of its softmax."""
    kind = settings.get("softmax_type", "vanilla")
    if kind not in ("vanilla", "learnable"):
        msg = f"is {describe(kind)}, hetopt can price vanilla and learnable"
        raise wrong("softmax_type", msg)
    return kind == "learnable"


def vocabulary(settings: Mapping[str, str], wrong: Wrong) -> int | None:
    """Return the rows of the token table if the settings alone decide them.

    The tokenizer for made-up data adds one token; others are in files of their own.
    """
    if "padded_vocab_size" in settings:
        return whole(settings, "padded_vocab_size", wrong)
    if settings.get("tokenizer_type") != "NullTokenizer":
        return None
    tp = whole(settings, "tensor_model_parallel_size", wrong, 1)
    unit = tp * whole(settings, "make_vocab_size_divisible_by", wrong, 128)
    rows = whole(settings, "vocab_size", wrong, 0) + 1
    return rows if rows > 1 and rows % unit == 0 else None


def _ffn(settings: Mapping[str, str], hidden: int, wrong: Wrong) -> int:
    """Return the width of an MLP by the parser's default.

    FlagScale's parser also uses ``multiple_of``.
    """
    if "swiglu" not in settings:
        return 4 * hidden
    width = int(4 * hidden * 2 / 3)
    if "multiple_of" not in settings:
        return max(width // 64 * 64, 1)
    width = int(width * number(settings, "hidden_dim_multiplier", wrong, 1.0))
    unit = whole(settings, "multiple_of", wrong)
    return -(-width // unit) * unit


def _activation(settings: Mapping[str, str], wrong: Wrong) -> dict[str, Any]:
    gated = [name for name in ("swiglu", "quick_geglu") if name in settings]
    _ensure_one(settings, ("swiglu", "quick_geglu", "squared_relu"), wrong)
    says: dict[str, Any] = {"gated": bool(gated), "gate_clamp": None}
    clamp, offset = "activation_func_clamp_value", "glu_linear_offset"
    if clamp in settings:
        says["gate_clamp"] = number(settings, clamp, wrong, 0.0)
    added = number(settings, offset, wrong, 0.0)
    if added != float(clamp in settings):
        msg = f"is {added:g}: hetopt knows 1 with {clamp}, and 0 without it"
        raise wrong(offset, msg)
    for name, activation in (
        ("no_bias_gelu_fusion", None if gated else "gelu"),
        ("swiglu", "silu"),
        ("quick_geglu", "quick-gelu"),
        ("squared_relu", "squared-relu"),
    ):
        if name in settings and activation is not None:
            says["activation"] = activation
    return says


def _ensure_one(
    settings: Mapping[str, str], names: tuple[str, ...], wrong: Wrong
) -> None:
    """Raise InputError if several settings are given of which one may be."""
    given = [name for name in names if name in settings]
    if len(given) > 1:
        raise wrong(given[1], f"is given beside {given[0]}, expected one of the two")


def _positions(settings: Mapping[str, str], wrong: Wrong) -> dict[str, Any]:
    """Return the table of positions, or the rotary embedding."""
    kind = settings.get("position_embedding_type", "learned_absolute")
    if "use_rotary_position_embeddings" in settings:
        kind = "rope"
    name = "max_position_embeddings"
    most = whole(settings, name, wrong, 0, least=0)
    if kind == "learned_absolute" and "no_position_embedding" not in settings:
        return {"positions": most} if name in settings else {}
    if kind != "rope":
        msg = f"is {describe(kind)}, hetopt can price rope and learned_absolute"
        raise wrong("position_embedding_type", msg)
    says: dict[str, Any] = {
        field: number(settings, name, wrong, default)
        for name, (field, default) in _ROTARY_NUMBERS.items()
    }
    says["rotary_interleaved"] = "rotary_interleaved" in settings
    says["rotary_scaling"] = _scaling(settings, wrong)
    return says | {"positions": 0}


def _lower(settings: Mapping[str, str], name: str) -> str:
    return settings.get(name, "").lower()


def training_says(
    settings: Mapping[str, str], mesh: tuple[int, int], *, legacy: bool = False
) -> dict[str, Any]:
    """Return the fields of a training that settings state.

    Parameters
    ----------
    mesh
        dp * cp and tp, the largest of all stages.
    legacy
        Whether these are Megatron-DeepSpeed's own layers, which fuse attention only on
        request.
    """
    says: dict[str, Any] = {
        "precision": next((n for n in ("bf16", "fp16") if n in settings), "fp32"),
        "optimizer": settings.get("optimizer", "adam"),
    }
    if "fp4_format" in settings:
        says["precision"] = "nvfp4"
    elif any(name in settings for name in ("fp8_format", "fp8_e4m3", "fp8_hybrid")):
        mx = "mxfp8" in str(settings.get("fp8_recipe"))
        says["precision"] = "mxfp8" if mx else "fp8"
    reduced = "grad_reduce_in_bf16" in settings
    whole_gradients = "accumulate_allreduce_grads_in_fp32" in settings
    if says["precision"] != "fp16" or whole_gradients:
        says["gradients"] = "bf16" if reduced else "fp32"
    local = settings.get("transformer_impl", "transformer_engine") == "local"
    demanded = any(name in settings for name in FLASH)
    fused = demanded or not (legacy or local or "use_legacy_models" in settings)
    backend = settings.get("attention_backend", "auto")
    says["attention"] = (
        "fused" if fused and backend not in ("unfused", "local") else "unfused"
    )
    loss = "cross_entropy_loss_fusion" in settings
    says["cross_entropy"] = "fused" if loss else "unfused"
    replicas, tp = mesh
    split = "sequence_parallel" in settings
    beside = any(name in settings for name in _OVERLAPS)
    if tp > 1:
        says |= {"sequence_parallel": split, "overlap_tensor": beside}
    overlaps = "overlap_grad_reduce" in settings
    sharded = "use_distributed_optimizer" in settings
    if replicas > 1:
        says |= {"overlap_gradients": overlaps, "zero": int(sharded)}
    return says


def notes(
    settings: Mapping[str, str], wrong: Wrong, spelled: Callable[[str], str] = str
) -> tuple[Reported, ...]:
    """Return reports of settings that are read but priced only in part."""
    found = []
    if vocabulary(settings, wrong) is None and "vocab_size" in settings:
        why = (
            "hetopt prices the problem's vocabulary, the runtime a tokenizer's, padded"
        )
        found.append(not_priced(spelled("vocab_size"), why))
    if "fp16" in settings and "accumulate_allreduce_grads_in_fp32" not in settings:
        why = "is not given: hetopt prices gradients in 32 bits, they are in 16"
        found.append(not_priced(spelled("accumulate_allreduce_grads_in_fp32"), why))
    if settings.get("transformer_impl", "transformer_engine") != "transformer_engine":
        why = "hetopt prices the kernels of Transformer Engine"
        found.append(not_priced(spelled("transformer_impl"), why))
    if "use_legacy_models" in settings:
        why = "hetopt prices the kernels of megatron-core"
        found.append(not_priced(spelled("use_legacy_models"), why))
    dispatcher = "moe_token_dispatcher_type"
    known = settings.get(dispatcher) in ("alltoall", "flex")
    if has_experts(settings) and not known:
        why = (
            "hetopt prices only dispatchers that send tokens to the ranks of their "
            "experts"
        )
        found.append(not_priced(spelled(dispatcher), why))
    if settings.get("cp_comm_type", "p2p") != "p2p":
        why = "hetopt prices ring attention (cp_comm_type p2p)"
        found.append(not_priced(spelled("cp_comm_type"), why))
    return (*found, *offload_notes(settings, wrong, spelled))


def _scaling(settings: Mapping[str, str], wrong: Wrong) -> RotaryScaling | None:
    linear = "rotary_seq_len_interpolation_factor"
    _ensure_one(settings, ("use_rope_scaling", linear), wrong)
    for switch, name, kind in (
        ("use_rope_scaling", "rope_scaling_factor", "llama3"),
        (linear, linear, "linear"),
    ):
        if switch in settings:
            # 8 is the factor of Llama 3.1 and the parser's default.
            factor = number(settings, name, wrong, 8.0)
            if factor <= 0:
                raise wrong(name, f"is {factor:g}, expected more than 0")
            return RotaryScaling(
                kind="llama3" if kind == "llama3" else "linear", factor=factor
            )
    return None


def _full_layers(
    settings: Mapping[str, str], layers: int, wrong: Wrong
) -> dict[str, Any]:
    """Return the window, and the layers without it or without rotary embedding.

    Raises
    ------
    InputError
        These are not the same layers, which no model of hetopt has.
    """
    says, name = _windows(settings, layers, wrong), "no_rope_freq"
    if name not in settings:
        return says
    found = _pattern(settings, name, layers, "1", wrong)
    if not found:
        return says | {"rotary_full_layers": True}
    if says.get("full_layers", found) != found:
        given = describe(settings[_SKIPPED]) if _SKIPPED in settings else "left out"
        msg = (
            f"is {describe(settings[name])} and {_SKIPPED} is {given}: give both the "
            "same layers, hetopt can price nothing else"
        )
        raise wrong(name, msg)
    return says | {"rotary_full_layers": False, "full_layers": found}


def _windows(settings: Mapping[str, str], layers: int, wrong: Wrong) -> dict[str, Any]:
    """Return the sliding window, and the layers without it."""
    size = "window_size"
    if size not in settings:
        return {"sliding_window": None}
    match = re.fullmatch(r"\(?([0-9]{1,9}), ?0\)?", settings[size])
    if match is None:
        msg = f"is {describe(settings[size])}, expected tokens before and 0 behind"
        raise wrong(size, msg)
    says: dict[str, Any] = {"sliding_window": int(match[1]) + 1, "full_layers": ()}
    if _SKIPPED in settings:
        says["full_layers"] = _pattern(settings, _SKIPPED, layers, "0", wrong)
    return says


def _pattern(
    settings: Mapping[str, str], name: str, layers: int, digit: str, wrong: Wrong
) -> tuple[int, ...]:
    """Return every n-th layer, or those with ``digit`` in a list of 0 and 1."""
    text = settings[name].replace(" ", "")
    if re.fullmatch("[1-9][0-9]{0,8}", text):
        every = int(text)
        return tuple(range(every - 1, layers, every))
    if re.fullmatch(r"\[[01](,[01])*\]", text) and text.count(",") == layers - 1:
        digits = text[1:-1].split(",")
        return tuple(layer for layer, each in enumerate(digits) if each == digit)
    msg = (
        f"is {describe(settings[name])}, expected a number or 0 or 1 for each of "
        f"{counted(layers, 'layer')}"
    )
    raise wrong(name, msg)
