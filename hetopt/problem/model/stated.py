"""What a model computes, with defaults that depend on its other fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hetopt.problem.model.model import Model


def stated(model: Model, field: str) -> Any:
    """Return a field of ``model.architecture``, or its default if that is not given.

    None as the ``activation`` is GELU in either form; None as a softcap, a window or a
    scaling means that there is none.
    """
    own = model.architecture
    value = getattr(own, field)
    match field:
        case "activation":
            return "silu" if value is None and model.gated else value
        case "qkv_bias":
            return model.biases[0]
        case "out_bias":
            return model.biases[1]
        case "mlp_bias":
            return model.biases[2]
        case "attention_scale":
            return model.head_dim**-0.5 if value is None else value
        case "rotary_local_base":
            return own.rotary_base if value is None else value
    return value
