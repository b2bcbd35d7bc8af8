"""Fields of a model that contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.record import Fault
from hetopt.problem.model.block import SIZES, ensure_follows, ensure_groups

if TYPE_CHECKING:
    from hetopt.problem.model.model import Model


def ensure_consistent(model: Model) -> None:
    """Raise Fault for a field of a model that another one contradicts."""
    ensure_groups(model.heads, model.kv_heads)
    _ensure_vocabulary(model)
    if model.blocks:
        _ensure_blocks(model)
    sizes = (model.layers, model.head_dim, model.positions)
    model.architecture.ensure_fits(*sizes, model.is_decoder_only)
    _ensure_experts(model)
    _ensure_latent(model)


def _ensure_experts(model: Model) -> None:
    """Raise Fault if experts, latent or predictions cannot be."""
    given = {
        "experts": model.experts is not None,
        "latent": model.latent is not None,
        "predictions": model.predictions > 0,
    }
    for field, is_given in given.items():
        if is_given and not model.is_decoder_only:
            raise Fault("is given, allowed only for a decoder-only model", field)
        if is_given and model.granularity != "layer":
            msg = f"is given, but granularity is {model.granularity!r}"
            raise Fault(f"{msg}, expected 'layer'", field)
    if model.predictions > model.layers:
        # They are one unit, whose costs are added up layer by layer.
        msg = f"is {model.predictions}, expected at most layers ({model.layers})"
        raise Fault(msg, "predictions")
    if model.experts is not None:
        try:
            model.experts.ensure_fit(model.layers)
        except Fault as fault:
            raise fault.inside("experts") from None


def _ensure_latent(model: Model) -> None:
    """Raise Fault if something contradicts latent attention."""
    if model.latent is None:
        return
    if model.head_dim != model.latent.head_dim:
        msg = (
            f"is {model.head_dim}, expected qk_dim + rope_dim of latent "
            f"({model.latent.head_dim})"
        )
        raise Fault(msg, "head_dim")
    qkv_bias, out_bias, _ = model.biases
    given = {
        "qk_norm": model.architecture.qk_norm != "none",
        "qkv_bias": qkv_bias,
        "out_bias": out_bias,
    }
    for field, is_given in given.items():
        if is_given:
            raise Fault("is given, expected none of latent attention", field)
    if model.kv_heads != model.heads:
        msg = (
            f"is {model.kv_heads}, expected heads ({model.heads}): latent attention "
            "has keys and values for every head"
        )
        raise Fault(msg, "kv_heads")


def _ensure_vocabulary(model: Model) -> None:
    needs = not (model.patch and model.classes)
    if not model.vocab and needs:
        raise Fault(f"is {model.vocab}, expected at least 1", "vocab")
    if model.vocab and not needs:
        msg = f"is {model.vocab}, but patch and classes leave no use for it"
        raise Fault(msg, "vocab")
    if model.tied and (model.patch or model.classes):
        raise Fault("is true, but patch or classes leaves no second table", "tied")


def _ensure_blocks(model: Model) -> None:
    """Raise Fault if the blocks contradict the model or each other."""
    first, last = model.blocks[0], model.blocks[-1]
    for index in range(len(model.blocks)):
        try:
            ensure_follows(model.blocks, index)
        except Fault as fault:
            raise fault.inside("blocks", index) from None
    for field in (*SIZES, "gated", "attention"):
        if getattr(model, field) != getattr(first, field):
            raise Fault("is not that of the first block, expected the same", field)
    if model.granularity != "layer":
        msg = (
            f"is {model.granularity!r}, expected 'layer': blocks of several kinds "
            "are cut between layers"
        )
        raise Fault(msg, "granularity")
    if model.tied and last.hidden != first.hidden:
        msg = f"is true, but hidden goes from {first.hidden} to {last.hidden}"
        raise Fault(msg, "tied")
    if model.patch and last.context:
        msg = f"is {model.patch}, but block {last.name!r} needs a token table"
        raise Fault(msg, "patch")
