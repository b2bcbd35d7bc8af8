"""Hugging Face ``config.json`` files as the fields of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.base.faults import Fault
from hetopt.base.fields import MAX_WHOLE
from hetopt.base.words import describe
from hetopt.problem.building.huggingface.config import Config
from hetopt.problem.building.huggingface.families import FAMILIES, HARMLESS_OF
from hetopt.problem.building.huggingface.harmless import HARMLESS, NEUTRAL
from hetopt.problem.building.huggingface.mixtures import (
    HARMLESS_OF_EXPERTS,
    HARMLESS_OF_MIXTURES,
    MIXTURES,
    UNKNOWN_LAYERS,
)
from hetopt.problem.model.experts import MAX_LAYERS

if TYPE_CHECKING:
    from collections.abc import Mapping

#: model_type -> why it is not among the families.
_NOT_SUPPORTED = {
    "phi": "whose head has a bias and whose layers share one norm",
    "chatglm": "which has its own keys: use the converted files, of model_type glm",
    "gemma3": "a model of several modalities: give its text_config as a file",
    "llama4": "a model of several modalities: give its text_config as a file",
    **UNKNOWN_LAYERS,
}
_KNOWN = {**FAMILIES, **MIXTURES}

_EXPERTS = (
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_num_experts",
)
#: Keys whose values have been checked by the time unread keys are looked at.
_CHECKED = frozenset({*_EXPERTS, "is_encoder_decoder", "num_nextn_predict_layers"})

#: Field of a model -> its names in config files; the first one found counts.
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
        Name of the model if the file gives none.

    Raises
    ------
    Fault
        A field is missing or mistyped, hetopt cannot describe the architecture, or a
        key is unknown.
    """
    if not isinstance(config, dict):
        msg = f"is {describe(config)}, expected the mapping of a config.json"
        raise Fault(msg)
    _refuse_other_architectures(config)
    kind = _kind(config)
    if kind in FAMILIES:
        _refuse_mixtures(config, kind)
    family = _KNOWN[kind]
    known = Config(config, family.defaults)
    fields: dict[str, Any] = {"name": _label(config, name)}
    for field, names in _NAMES.items():
        size = _count(known, field, names)
        if size is not None:
            fields[field] = size
    if "ffn" not in fields:
        # In GPT-2's files a null n_inner means four times the hidden size.
        if kind != "gpt2":
            raise Fault("is missing", "intermediate_size")
        fields["ffn"] = 4 * fields["hidden"]
    if kind == "gpt2":
        fields["positions"] = _positions(known)
    fields["tied"] = known.flag("tie_word_embeddings")
    fields |= family.fixed
    for read in family.readers:
        fields |= read(known)
    for key in {*known.unread()} & NEUTRAL.keys():
        known.must_be(key, *NEUTRAL[key])
    harmless = HARMLESS | _harmless_of(kind)
    for key in known.unread():
        if key not in harmless:
            raise known.unknown(
                key,
                f"is not a key of {kind} that hetopt knows",
                "take it out of the file if it changes neither what the model computes "
                "nor its memory",
                harmless,
            )
    return fields


def _harmless_of(kind: str) -> frozenset[str]:
    """Return the keys of a family that have no effect."""
    if kind in MIXTURES:
        return HARMLESS_OF_EXPERTS | HARMLESS_OF_MIXTURES.get(kind, frozenset())
    return _CHECKED | HARMLESS_OF.get(kind, frozenset())


def _refuse_other_architectures(config: Mapping[str, Any]) -> None:
    for key in ("text_config", "llm_config", "language_config"):
        if key in config:
            msg = (
                "is given: models of several modalities are not supported, expected "
                "the config of a text model; what is in here may be one"
            )
            raise Fault(msg, key)
    if config.get("is_encoder_decoder"):
        msg = "is true, expected a decoder-only model; others are given as blocks"
        raise Fault(msg, "is_encoder_decoder")


def _refuse_mixtures(config: Mapping[str, Any], kind: str) -> None:
    """Raise Fault for keys of mixtures in a family of dense models."""
    known = f"with model_type {kind}, only with {', '.join(MIXTURES)}"
    for key in _EXPERTS:
        value = config.get(key)
        if value is not None and (isinstance(value, bool) or value not in (0, 1)):
            msg = f"is {describe(value)}: hetopt does not support experts {known}"
            raise Fault(msg, key)
    if config.get("kv_lora_rank") is not None:
        msg = f"is given: hetopt does not support latent attention (MLA) {known}"
        raise Fault(msg, "kv_lora_rank")
    if config.get("num_nextn_predict_layers"):
        what = "layers that predict further tokens"
        msg = f"is given: hetopt does not support {what} {known}"
        raise Fault(msg, "num_nextn_predict_layers")


def _kind(config: Mapping[str, Any]) -> str:
    """Return a known ``model_type``."""
    kind = config.get("model_type")
    if isinstance(kind, str) and kind in _KNOWN:
        return kind
    if kind is not None and not isinstance(kind, str):
        raise Fault(f"is {describe(kind)}, expected a name", "model_type")
    what = "is missing" if kind is None else f"is {kind!r}"
    if kind in _NOT_SUPPORTED:
        what += f", {_NOT_SUPPORTED[kind]}"
    known = ", ".join(_KNOWN)
    msg = f"{what}, expected one of {known}; or give the model's fields"
    raise Fault(msg, "model_type")


def _count(config: Config, field: str, names: tuple[str, ...]) -> int | None:
    most = MAX_LAYERS if field == "layers" else MAX_WHOLE
    for name in names:
        value = config.whole(name, most=most)
        if value is not None:
            return value
    if field in ("layers", "hidden", "heads", "vocab"):
        others = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
        raise Fault(f"is missing{others}, expected a whole number", names[0])
    return None


def _positions(config: Config) -> int:
    value = config.whole("n_positions") or config.whole("n_ctx")
    if value is None:
        raise Fault("is missing, expected a whole number", "n_positions")
    return value


def _label(config: Mapping[str, Any], name: str) -> str:
    given = config.get("_name_or_path")
    return given if isinstance(given, str) and given else name
