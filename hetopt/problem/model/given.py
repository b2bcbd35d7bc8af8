"""What a file gives of a model, completed from presets, configs and shared sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.base.faults import Fault, inside
from hetopt.base.fields import MAX_WHOLE, name, unknown
from hetopt.base.record import derived, read_field
from hetopt.base.words import describe
from hetopt.problem.catalogue import model_presets
from hetopt.problem.model.block import SHARED, Block
from hetopt.problem.model.experts import first_layers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import ValidationInfo

    from hetopt.problem.files import Files


DEFAULT_VOCAB = 32000


def completed(given: dict[str, Any], files: Files) -> dict[str, Any]:
    """Return a model's fields with those of its preset or config.json.

    Raises
    ------
    Fault
        There is no such preset, a size is missing, or blocks contradict other fields.
    """
    base = _base(given, files)
    own = {key: given[key] for key in given if key not in ("preset", "hf_config")}
    if "blocks" in own:
        base = {key: value for key, value in base.items() if key != "layers"}
    elif "blocks" in base:
        for field in ("layers", *SHARED):
            if field in own:
                msg = "is given together with a preset of blocks: give it in blocks"
                raise Fault(msg, field)
    fields = _overridden(base, own)
    if "blocks" in fields:
        return _with_blocks(fields, files)
    for field in ("layers", "hidden", "heads"):
        if field not in fields:
            msg = "is missing, expected it, or a preset or hf_config that gives it"
            raise Fault(msg, field)
    _ensure_heads(fields)
    return _with_norm(fields, fields)


def _with_norm(fields: dict[str, Any], part: Any) -> dict[str, Any]:
    """Return the fields with the norm that goes with the MLP of a part."""
    is_plain = isinstance(part, dict) and part.get("gated") is False
    return {"norm": "layer" if is_plain else "rms", **fields}


def _base(given: Mapping[str, Any], files: Files) -> Mapping[str, Any]:
    """Return the fields of the preset or config.json that a file names, if any."""
    preset, config = given.get("preset"), given.get("hf_config")
    if preset is not None and config is not None:
        msg = "is given together with preset, expected only one of them"
        raise Fault(msg, "hf_config")
    if config is not None:
        return files.config(name(config, "hf_config"))
    if preset is None:
        return {}
    preset, presets = name(preset, "preset"), model_presets()
    if preset not in presets:
        raise Fault(unknown(preset, "a model preset", presets), "preset")
    return {"name": preset, **presets[preset]["fields"]}


def _overridden(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` overridden by ``own``, without sizes that no longer hold."""
    fields = dict(base)
    if not {"hidden", "heads", "latent"}.isdisjoint(own) and "head_dim" not in own:
        fields.pop("head_dim", None)
    if "heads" in own and "kv_heads" not in own:
        fields.pop("kv_heads", None)
    if "hidden" in own and "ffn" not in own:
        fields.pop("ffn", None)
    return fields | dict(own)


def _with_blocks(fields: dict[str, Any], files: Files) -> dict[str, Any]:
    """Return the fields with blocks that have what they share."""
    if "layers" in fields:
        msg = "is given together with blocks: give it in each of them"
        raise Fault(msg, "layers")
    for field in ("experts", "latent", "predictions"):
        if fields.pop(field, None):
            msg = (
                "is given together with blocks, allowed only for a decoder-only model: "
                "leave it out"
            )
            raise Fault(msg, field)
    shared = {key: fields.pop(key) for key in SHARED if key in fields}
    for key, value in shared.items():
        read_field(Block, key, value, files)
    blocks = fields["blocks"]
    if not isinstance(blocks, list) or not blocks:
        what = "an empty list" if blocks == [] else describe(blocks)
        raise Fault(f"is {what}, expected a list of at least one block", "blocks")
    fields["blocks"] = [
        _block(shared, block, index) if isinstance(block, dict) else block
        for index, block in enumerate(blocks)
    ]
    return _with_norm(fields, fields["blocks"][0])


def _block(shared: dict[str, Any], own: dict[str, Any], index: int) -> dict[str, Any]:
    """Return the fields of a block, of which it shares some with others."""
    given = {key: value for key, value in own.items() if value is not None}
    fields = _overridden(shared, given)
    with inside("blocks", index):
        for field in ("hidden", "heads"):
            if field not in fields:
                raise Fault("is missing, expected it here or beside blocks", field)
        _ensure_heads(fields)
    return fields


def _ensure_heads(given: Mapping[str, Any]) -> None:
    """Raise Fault if no size of a head is given and the heads do not divide hidden."""
    hidden, heads = given["hidden"], given["heads"]
    are_sizes = all(
        type(size) is int and 0 < size <= MAX_WHOLE for size in (hidden, heads)
    )
    if are_sizes and hidden % heads and given.keys().isdisjoint(("head_dim", "latent")):
        msg = f"is {heads}, which does not divide hidden ({hidden}); give head_dim"
        raise Fault(msg, "heads")


def routed_experts(value: Any, info: ValidationInfo) -> Any:
    """Return experts with a list of dense layers, if every n-th layer is routed."""
    layers = info.data.get("layers")
    every = value.get("every") if isinstance(value, dict) else None
    if layers is None or type(every) is not int or every < 2:
        return value
    if every > layers:
        msg = (
            f"is {every}, but layers is {layers}: no layer would be routed, expected "
            f"at most {layers}"
        )
        raise Fault(msg, "every")
    given = value.get("dense_layers")
    with inside("dense_layers"):
        dense = () if given is None else first_layers(given)
    between = {layer for layer in range(layers) if (layer + 1) % every}
    return {**value, "dense_layers": sorted({*dense, *between}), "every": 1}


def of_first(field: str, usual: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """Return a field that by default is that of the first block, or what is usual."""

    def default(model: dict[str, Any]) -> Any:
        if model["blocks"]:
            return getattr(model["blocks"][0], field)
        if usual is None:
            raise Fault("is missing, expected a whole number of at least 1", field)
        return usual(model)

    return derived(factory=default)


def usual_head(model: dict[str, Any]) -> int:
    """Return the numbers of a head, if none is given."""
    latent, heads = model["latent"], model["hidden"] // model["heads"]
    return int(heads if latent is None else latent.head_dim)


def usual_vocabulary(model: dict[str, Any]) -> int:
    """Return the size of the vocabulary, if none is given."""
    return 0 if model["patch"] and model["classes"] else DEFAULT_VOCAB
