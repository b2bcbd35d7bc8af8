"""What Megatron-LM's settings say of a model beside its sizes, read back."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from hetopt.problem.architecture import RotaryScaling
from hetopt.words import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hetopt.errors import InputError

#: Setting -> field, where it is a number.
_NUMBERS = {
    "norm_epsilon": "norm_eps",
    "hidden_dropout": "hidden_dropout",
    "attention_dropout": "attention_dropout",
    "rotary_base": "rotary_base",
    "rotary_percent": "rotary_fraction",
}
#: Setting -> field, where it is on or off.
_FLAGS = {
    "apply_layernorm_1p": "norm_zero_centred",
    "rotary_interleaved": "rotary_interleaved",
}


def architecture_says(
    settings: Mapping[str, str], layers: int, wrong: Callable[[str, str], InputError]
) -> dict[str, Any]:
    """Return fields of a model that settings state; they are complete.

    Numbers that are left out are not stated; what is on or off always is.

    Parameters
    ----------
    settings
        Names with underscores; what is off is not among them.
    layers
        Of the model.
    wrong
        Returns the error that says something about a setting.

    Raises
    ------
    InputError
        A setting is not what the runtime would read.
    """
    says: dict[str, Any] = {
        field: _number(settings, name, wrong)
        for name, field in _NUMBERS.items()
        if name in settings
    }
    says |= {field: name in settings for name, field in _FLAGS.items()}
    whole = "disable_bias_linear" not in settings
    says["qk_norm"] = "head" if "qk_layernorm" in settings else "none"
    says["qkv_bias"] = whole or "add_qkv_bias" in settings
    says["out_bias"] = says["mlp_bias"] = whole
    says["gated"] = not {"swiglu", "quick_geglu"}.isdisjoint(settings)
    for name, activation in (
        ("no_bias_gelu_fusion", None if says["gated"] else "gelu"),
        ("swiglu", "silu"),
        ("quick_geglu", "quick-gelu"),
        ("squared_relu", "squared-relu"),
    ):
        if name in settings and activation is not None:
            says["activation"] = activation
    if settings.get("position_embedding_type") == "rope":
        says["rotary_scaling"] = _scaling(settings, wrong)
    return says | _windows(settings, layers, wrong)


def _number(
    settings: Mapping[str, str], name: str, wrong: Callable[[str, str], InputError]
) -> float:
    text = settings[name]
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise wrong(name, f"is {describe(text)}, expected a number")
    return number


def _scaling(
    settings: Mapping[str, str], wrong: Callable[[str, str], InputError]
) -> RotaryScaling | None:
    for switch, name, kind in (
        ("use_rope_scaling", "rope_scaling_factor", "llama3"),
        (
            "rotary_seq_len_interpolation_factor",
            "rotary_seq_len_interpolation_factor",
            "linear",
        ),
    ):
        if switch in settings:
            # Of Llama 3.1, which is the parser's default.
            factor = _number(settings, name, wrong) if name in settings else 8.0
            if factor <= 0:
                raise wrong(name, f"is {factor:g}, expected more than 0")
            return RotaryScaling(
                kind="llama3" if kind == "llama3" else "linear", factor=factor
            )
    return None


def _windows(
    settings: Mapping[str, str], layers: int, wrong: Callable[[str, str], InputError]
) -> dict[str, Any]:
    """Return the sliding window, and the layers without it."""
    size, skipped = "window_size", "window_attn_skip_freq"
    if size not in settings:
        return {"sliding_window": None}
    match = re.fullmatch(r"\(?([0-9]{1,9}), ?0\)?", settings[size])
    if match is None:
        msg = f"is {describe(settings[size])}, expected tokens before and 0 behind"
        raise wrong(size, msg)
    says: dict[str, Any] = {"sliding_window": int(match[1]) + 1, "full_layers": ()}
    if skipped not in settings:
        return says
    text = settings[skipped].replace(" ", "")
    if re.fullmatch("[1-9][0-9]{0,8}", text):
        every = int(text)
        says["full_layers"] = tuple(range(every - 1, layers, every))
    elif re.fullmatch(r"\[[01](,[01])*\]", text) and text.count(",") == layers - 1:
        digits = text[1:-1].split(",")
        says["full_layers"] = tuple(
            layer for layer, digit in enumerate(digits) if digit == "0"
        )
    else:
        msg = (
            f"is {describe(settings[skipped])}, expected a number or 0 or 1 for each "
            f"of {layers} layers"
        )
        raise wrong(skipped, msg)
    return says
