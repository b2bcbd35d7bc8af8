"""Hugging Face ``config.json`` files as the fields of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.problem.building.wrong import FieldError
from hetopt.problem.schema.fields import MAX_LAYERS, MAX_WHOLE
from hetopt.words import describe

if TYPE_CHECKING:
    from collections.abc import Mapping

#: model_type -> ties embeddings when the file does not say so (the library's
#: configuration classes differ in this default and leave defaults out of files).
_GATED = {
    "llama": False,
    "mistral": False,
    "qwen2": False,
    "qwen3": False,
    "gemma": True,
    "gemma2": True,
    "phi3": False,
}
_PLAIN = {"gpt2": True, "gpt_neox": False}

_EXPERTS = (
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_num_experts",
)

#: Field of a model -> names it has in config files, the first found counts.
_NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
    "ffn": ("intermediate_size", "n_inner"),
    "vocab": ("vocab_size",),
}


def model_fields(config: Any, *, name: str) -> Mapping[str, Any]:
    """Return the fields of a problem file's ``model`` that a config stands for.

    Parameters
    ----------
    config
        Content of the file.
    name
        Label if the file does not name itself.

    Raises
    ------
    FieldError
        Where a field is missing or mistyped, or the architecture is not one that
        hetopt can describe.
    """
    if not isinstance(config, dict):
        msg = f"is {describe(config)}, expected the mapping of a config.json"
        raise FieldError((), msg)
    _refuse_other_architectures(config)
    kind = config.get("model_type")
    gated = _is_gated(config, kind)
    fields: dict[str, Any] = {
        "name": _label(config, name),
        "gated": gated,
        "norm": "rms" if gated else "layer",
        "tied": _tied(config, kind),
    }
    for field in _NAMES:
        value = _count(config, field)
        if value is not None:
            fields[field] = value
    if "ffn" not in fields:
        # GPT-2's n_inner is null for four times the hidden size.
        if kind != "gpt2":
            raise FieldError(("intermediate_size",), "is missing")
        fields["ffn"] = 4 * fields["hidden"]
    if kind == "gpt2":
        fields["positions"] = _positions(config)
    return fields


def _refuse_other_architectures(config: Mapping[str, Any]) -> None:
    for key in _EXPERTS:
        value = config.get(key)
        if value is not None and (isinstance(value, bool) or value not in (0, 1)):
            msg = (
                f"is {describe(value)}: mixtures of experts are not supported yet, "
                "expected a dense model"
            )
            raise FieldError((key,), msg)
    if config.get("kv_lora_rank") is not None:
        msg = (
            "is given: multi-head latent attention (MLA) is not supported yet, "
            "expected multi-head or grouped-query attention"
        )
        raise FieldError(("kv_lora_rank",), msg)
    for key in ("text_config", "llm_config", "language_config"):
        if key in config:
            msg = (
                "is given: models of several modalities are not supported, expected "
                "the config of a text model"
            )
            raise FieldError((key,), msg)
    if config.get("is_encoder_decoder"):
        msg = "is true, expected a decoder-only model; others are given as blocks"
        raise FieldError(("is_encoder_decoder",), msg)
    if config.get("num_nextn_predict_layers"):
        msg = "is given: layers that predict further tokens are not supported yet"
        raise FieldError(("num_nextn_predict_layers",), msg)


def _is_gated(config: Mapping[str, Any], kind: Any) -> bool:
    if kind is not None and not isinstance(kind, str):
        raise FieldError(("model_type",), f"is {describe(kind)}, expected a name")
    if kind in _GATED:
        return True
    if kind in _PLAIN:
        return False
    # Others that look like Llama in every field are read as such.
    if "rms_norm_eps" in config and config.get("hidden_act") in ("silu", "swiglu"):
        return True
    known = ", ".join((*_GATED, *_PLAIN))
    what = "is missing" if kind is None else f"is {kind!r}"
    msg = f"{what}, expected one of {known}, or fields like Llama's; or give the fields"
    raise FieldError(("model_type",), msg)


def _tied(config: Mapping[str, Any], kind: Any) -> bool:
    value = config.get("tie_word_embeddings")
    if value is None:
        return {**_GATED, **_PLAIN}.get(kind, False)
    if not isinstance(value, bool):
        msg = f"is {describe(value)}, expected true or false"
        raise FieldError(("tie_word_embeddings",), msg)
    return value


def _count(config: Mapping[str, Any], field: str) -> int | None:
    names = _NAMES[field]
    for name in names:
        value = config.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            msg = f"is {describe(value)}, expected a whole number of at least 1"
            raise FieldError((name,), msg)
        most = MAX_LAYERS if field == "layers" else MAX_WHOLE
        if value > most:
            msg = f"is {describe(value)}, expected at most {most}"
            raise FieldError((name,), msg)
        return value
    if field in ("layers", "hidden", "heads", "vocab"):
        others = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
        raise FieldError((names[0],), f"is missing{others}, expected a whole number")
    return None


def _positions(config: Mapping[str, Any]) -> int:
    for name in ("n_positions", "n_ctx"):
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        if value is not None:
            msg = f"is {describe(value)}, expected a whole number of at least 1"
            raise FieldError((name,), msg)
    raise FieldError(("n_positions",), "is missing, expected a whole number")


def _label(config: Mapping[str, Any], name: str) -> str:
    given = config.get("_name_or_path")
    return given if isinstance(given, str) and given else name
