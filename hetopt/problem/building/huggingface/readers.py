"""Readers of keys that several families of ``config.json`` files have."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hetopt.base.words import counted, describe
from hetopt.problem.building.huggingface.rotary import FULL, SLIDING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hetopt.problem.building.huggingface.config import Config

#: A library's name of an activation -> hetopt's.
_ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "quick_gelu": "quick-gelu",
    "relu": "relu",
    "relu2": "squared-relu",
}

Fields = dict[str, Any]


def activation(*keys: str) -> Callable[[Config], Fields]:
    """Return a reader of the activation, from the first of its keys that is given."""

    def read(config: Config) -> Fields:
        given = {key: config.value(key) for key in keys}
        key = next((key for key in keys if given[key] is not None), keys[-1])
        name = given[key]
        if not isinstance(name, str) or name not in _ACTIVATIONS:
            known = ", ".join(_ACTIVATIONS)
            raise config.wrong(key, f"is {describe(name)}, expected one of {known}")
        return {"activation": _ACTIVATIONS[name]}

    return read


def number(key: str, field: str) -> Callable[[Config], Fields]:
    """Return a reader of one number; it returns no field if the number is null."""

    def read(config: Config) -> Fields:
        value = config.number(key, field)
        return {} if value is None else {field: value}

    return read


def flag(key: str, *fields: str) -> Callable[[Config], Fields]:
    """Return a reader that sets all fields to one flag."""

    def read(config: Config) -> Fields:
        return dict.fromkeys(fields, config.flag(key))

    return read


def needed(config: Config, key: str) -> int:
    """Read a required whole number."""
    value = config.whole(key)
    if value is None:
        raise config.wrong(key, "is missing, expected a whole number")
    return value


def layer_numbers(config: Config, key: str, layers: int) -> frozenset[int]:
    """Read a list of layers; it is empty if left out."""
    listed = config.value(key) or []
    if not isinstance(listed, list) or not all(
        type(layer) is int and 0 <= layer < layers for layer in listed
    ):
        msg = f"is {listed!r}, expected a list of layers from 0 to {layers - 1}"
        raise config.wrong(key, msg)
    return frozenset(listed)


def turned_layers(config: Config) -> list[int]:
    """Read for each layer 1 if it has rotary embeddings, else 0 (Llama-4, SmolLM3)."""
    layers = config.whole("num_hidden_layers") or 0
    every = config.whole("no_rope_layer_interval") or layers + 1
    turned: Any = config.value("no_rope_layers")
    if not turned:
        turned = [int((layer + 1) % every != 0) for layer in range(layers)]
    known = isinstance(turned, list) and all(each in (0, 1) for each in turned)
    if not known or len(turned) < layers:
        msg = (
            f"is {describe(turned)}, expected 0 or 1 for each of "
            f"{counted(layers, 'layer')}"
        )
        raise config.wrong("no_rope_layers", msg)
    return [int(each) for each in turned[:layers]]


def unturned_layers(config: Config) -> Fields:
    """Read the layers without rotary embeddings, all of full attention (SmolLM3)."""
    turned, types = turned_layers(config), config.value("layer_types")
    why = "a window without rotary embeddings is not supported"
    config.must_be("use_sliding_window", False, why)
    layers = len(turned)
    if types is not None and len(_full_by_type(config, types, layers)) < layers:
        raise config.wrong("layer_types", f"holds {SLIDING}, expected {FULL}: {why}")
    full = tuple(layer for layer, each in enumerate(turned) if not each)
    return {"full_layers": full, "rotary_full_layers": False} if full else {}


def hidden_dropout(*keys: str) -> Callable[[Config], Fields]:
    """Return a reader of one probability for embeddings and residuals."""

    def read(config: Config) -> Fields:
        first, *others = (config.number(key, "hidden_dropout") or 0.0 for key in keys)
        for key, other in zip(keys[1:], others, strict=True):
            if other != first:
                msg = f"is {other:g}, expected that of {keys[0]} ({first:g})"
                raise config.wrong(key, msg)
        return {"hidden_dropout": first}

    return read


def neutral(key: str, value: Any, why: str) -> Callable[[Config], Fields]:
    """Return a reader that refuses a key unless it has ``value``."""

    def read(config: Config) -> Fields:
        config.must_be(key, value, why)
        return {}

    return read


def uniform_window(config: Config) -> Fields:
    """Read a sliding window of all layers (Mistral, Phi-3)."""
    window = config.whole("sliding_window")
    return {} if window is None else {"sliding_window": window}


def last_windows(config: Config) -> Fields:
    """Read sliding windows that may be switched on for the last layers (Qwen)."""
    layers = config.whole("num_hidden_layers") or 0
    first = config.whole("max_window_layers", least=0) or 0
    fields = windows(config, list(range(min(first, layers))))
    return fields if config.flag("use_sliding_window") else {}


def regular_windows(config: Config) -> Fields:
    """Read sliding windows of all but every n-th layer (Gemma-2 and -3)."""
    layers = config.whole("num_hidden_layers") or 0
    every = config.whole("_sliding_window_pattern")
    every = config.whole("sliding_window_pattern") if every is None else every
    full = [layer for layer in range(layers) if every and (layer + 1) % every == 0]
    return windows(config, full)


def windows(config: Config, full: list[int]) -> Fields:
    """Return the fields of a sliding window; listed layer types replace ``full``."""
    layers = config.whole("num_hidden_layers") or 0
    window, types = config.whole("sliding_window"), config.value("layer_types")
    if types is not None:
        full = _full_by_type(config, types, layers)
        if window is None and len(full) < layers:
            raise config.wrong("sliding_window", "is missing, as layers are sliding")
    if window is None or len(full) == layers:
        return {}
    return {"sliding_window": window, "full_layers": tuple(full)}


def _full_by_type(config: Config, types: Any, layers: int) -> list[int]:
    """Return the layers of full attention, from a list of types."""
    if not isinstance(types, list) or len(types) != layers:
        msg = f"is {describe(types)}, expected a list of {counted(layers, 'type')}"
        raise config.wrong("layer_types", msg)
    for name in types:
        if name not in (FULL, SLIDING):
            msg = f"holds {describe(name)}, expected {FULL} or {SLIDING}"
            raise config.wrong("layer_types", msg)
    return [layer for layer, name in enumerate(types) if name == FULL]


def query_scale(config: Config) -> Fields:
    """Read ``query_pre_attn_scalar``; scores are divided by its root (Gemma)."""
    scalar = config.number("query_pre_attn_scalar", "attention_scale")
    if scalar is None or scalar == config.whole("head_dim"):
        return {}
    return {"attention_scale": scalar**-0.5}


def root_of_hidden(config: Config) -> Fields:
    """Return the scale of embeddings, the root of the hidden size (Gemma)."""
    return {"embedding_scale": math.sqrt(config.whole("hidden_size") or 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Models of one configuration class.

    Attributes
    ----------
    defaults
        Values of keys that a file leaves out.
    fixed
        Fields of the model that no key gives.
    readers
        Read further fields. Each reads all its keys, even those it does not need.
    """

    defaults: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    readers: tuple[Callable[[Config], Fields], ...] = ()
