"""Build the model from the ``model`` section: presets, defaults, blocks."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from hetopt.problem.building.experts import build_experts, build_latent
from hetopt.problem.building.wrong import FieldError, fault_at, raised_at
from hetopt.problem.catalogue import model_presets
from hetopt.problem.model.architecture import (
    ARCHITECTURE_FIELDS,
    Architecture,
    RotaryScaling,
)
from hetopt.problem.model.block import Block, block_fault
from hetopt.problem.model.model import Model
from hetopt.problem.schema.fields import unknown
from hetopt.problem.schema.model import ModelSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hetopt.problem.document.document import FieldPath

DEFAULT_VOCAB = 32000

#: Fields that a block takes from the whole model unless it has its own.
_SHARED = ("hidden", "heads", "kv_heads", "head_dim", "ffn", "gated", "attention")

_PATH: FieldPath = ("model",)


def build_model(
    spec: ModelSpec, read_config: Callable[[str], Mapping[str, Any]]
) -> Model:
    """Return the model that a preset, a config.json or plain fields describe."""
    if spec.preset is not None and spec.hf_config is not None:
        msg = "is given together with preset, expected only one of them"
        raise FieldError(("model", "hf_config"), msg)
    base: Mapping[str, Any] = {}
    if spec.preset is not None:
        presets = model_presets()
        if spec.preset not in presets:
            msg = unknown(spec.preset, "a model preset", presets)
            raise FieldError(("model", "preset"), msg)
        base = {"name": spec.preset, **presets[spec.preset]["fields"]}
    elif spec.hf_config is not None:
        base = read_config(spec.hf_config)
    own = spec.model_dump(exclude={"preset", "hf_config"}, exclude_none=True)
    if "blocks" in own:
        base = {name: value for name, value in base.items() if name != "layers"}
    elif "blocks" in base:
        for field in ("layers", *_SHARED):
            if field in own:
                msg = "is given together with a preset of blocks: give it in blocks"
                raise FieldError(("model", field), msg)
    fields = _overridden(base, own)
    fields["architecture"] = _architecture(fields)
    if "blocks" in fields:
        return _build_blocks(fields)
    for required in ("layers", "hidden", "heads"):
        if required not in fields:
            msg = "is missing, expected it, or a preset or hf_config that gives it"
            raise FieldError(("model", required), msg)
    fields["experts"] = build_experts(fields.get("experts"), fields["layers"], _PATH)
    fields["latent"] = build_latent(fields.get("latent"), _PATH)
    return raised_at(_PATH, partial(Model, **_defaults(fields)))


def preset_model(name: str) -> Model:
    """Return the model of a preset."""
    return build_model(ModelSpec.model_validate(name), lambda path: {})


def _architecture(fields: dict[str, Any]) -> Architecture:
    """Return what a model computes beside its sizes; ``fields`` loses these fields."""
    own = {name: fields.pop(name) for name in ARCHITECTURE_FIELDS if name in fields}
    if "full_layers" in own:
        # A preset has a list.
        own["full_layers"] = tuple(own["full_layers"])
    scaling = own.get("rotary_scaling")
    if scaling is not None:
        own["rotary_scaling"] = raised_at(
            (*_PATH, "rotary_scaling"), partial(RotaryScaling, **scaling)
        )
    return raised_at(_PATH, partial(Architecture, **own))


def _build_blocks(fields: dict[str, Any]) -> Model:
    """Build a model of several kinds of layers."""
    if "layers" in fields:
        msg = "is given together with blocks: give it in each of them"
        raise FieldError(("model", "layers"), msg)
    for field in ("experts", "latent", "predictions"):
        if fields.pop(field, None):
            msg = (
                "is given together with blocks, allowed only for a decoder-only model: "
                "leave it out"
            )
            raise FieldError(("model", field), msg)
    shared = {name: fields.pop(name) for name in _SHARED if name in fields}
    blocks: list[Block] = []
    for index, own in enumerate(fields.pop("blocks")):
        path: FieldPath = ("model", "blocks", index)
        merged = _overridden(shared, own)
        for required in ("hidden", "heads"):
            if required not in merged:
                msg = "is missing, expected it here or beside blocks"
                raise FieldError((*path, required), msg)
        sizes = _sizes(merged, path)
        blocks.append(raised_at(path, partial(Block, **sizes)))
        fault = block_fault(tuple(blocks), index)
        if fault:
            raise fault_at(path, fault)
    first = blocks[0]
    outline = {name: getattr(first, name) for name in ("layers", *_SHARED)}
    every = _defaults({**fields, **outline})
    return raised_at(_PATH, partial(Model, **every, blocks=tuple(blocks)))


def _overridden(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` overridden by ``own``, without sizes that no longer hold."""
    fields = dict(base)
    if not {"hidden", "heads", "latent"}.isdisjoint(own) and "head_dim" not in own:
        fields.pop("head_dim", None)
    if "heads" in own and "kv_heads" not in own:
        fields.pop("kv_heads", None)
    if "hidden" in own and "ffn" not in own:
        fields.pop("ffn", None)
    fields.update(own)
    return fields


def _defaults(fields: dict[str, Any]) -> dict[str, Any]:
    gated = fields.get("gated", True)
    needs_vocab = not ("patch" in fields and "classes" in fields)
    return {
        "name": "model",
        "vocab": DEFAULT_VOCAB if needs_vocab else 0,
        "norm": "rms" if gated else "layer",
        **_sizes(fields, _PATH),
    }


def _sizes(fields: dict[str, Any], path: FieldPath) -> dict[str, Any]:
    """Return the fields, with those sizes of layers that follow from others."""
    hidden, heads = fields["hidden"], fields["heads"]
    latent = fields.get("latent")
    head_dim = hidden // heads if latent is None else latent.head_dim
    if "head_dim" not in fields and latent is None and hidden % heads:
        msg = f"is {heads}, which does not divide hidden ({hidden}); give head_dim"
        raise FieldError((*path, "heads"), msg)
    if heads % fields.get("kv_heads", heads):
        msg = f"is {fields['kv_heads']}, which does not divide heads ({heads})"
        raise FieldError((*path, "kv_heads"), msg)
    gated = fields.get("gated", True)
    return {
        "kv_heads": heads,
        "head_dim": head_dim,
        "ffn": 256 * math.ceil(8 * hidden / (3 * 256)) if gated else 4 * hidden,
        **fields,
    }
