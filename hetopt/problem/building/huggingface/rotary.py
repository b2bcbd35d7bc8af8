"""Rotary embeddings in a ``config.json``: ``rope_theta`` and related keys.

Transformers 4 has ``rope_theta``, ``rope_scaling`` and ``partial_rotary_factor``;
transformers 5 has all of them in ``rope_parameters``, Gemma-3 once for each kind of
layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.base.words import describe
from hetopt.problem.model.architecture import RotaryScaling

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.problem.building.huggingface.config import Config

_KINDS = {
    "linear": "linear",
    "llama3": "llama3",
    "dynamic": "dynamic",
    "yarn": "yarn",
    "longrope": "longrope",
    # The first Phi-3 files call longrope so.
    "su": "longrope",
}
#: Keys that no field of a model holds, as no launcher computes these scalings.
_LOST_WHOLE = (
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "long_factor",
    "long_mscale",
    "mscale",
    "mscale_all_dim",
    "original_max_position_embeddings",
    "short_factor",
    "short_mscale",
    "truncate",
)
FULL, SLIDING = "full_attention", "sliding_attention"


def rotary(
    *,
    bases: tuple[str, ...] = ("rope_theta",),
    fractions: tuple[str, ...] = (),
    local: str | None = None,
) -> Callable[[Config], dict[str, Any]]:
    """Return a reader of the rotary fields of a model.

    Parameters
    ----------
    bases, fractions
        Keys of the base and of the share of a head that is rotated.
    local
        Key of the base in layers with a sliding window; None: it is the same.
    """

    def read(config: Config) -> dict[str, Any]:
        new, old = config.part("rope_parameters"), config.part("rope_scaling")
        own = new.part(FULL) if local is not None and FULL in new else new
        found = {
            "rotary_base": _first(own, config, bases, "rotary_base"),
            "rotary_fraction": _first(own, config, fractions, "rotary_fraction"),
            "rotary_scaling": _scaling(config, own) or _scaling(config, old),
        }
        if local is not None:
            sliding = new.part(SLIDING)
            field = "rotary_local_base"
            base = sliding.number("rope_theta", field)
            found[field] = config.number(local, field) if base is None else base
            sliding.must_be("rope_type", "default", "windows have no scaling")
            _check_read(sliding)
        for part in (own, old, new):
            _check_read(part)
        return {name: value for name, value in found.items() if value is not None}

    return read


def _first(
    own: Config, config: Config, keys: tuple[str, ...], field: str
) -> float | None:
    """Return the first number under some keys, of ``rope_parameters`` before others."""
    found = [part.number(key, field) for part in (own, config) for key in keys]
    return next((value for value in found if value is not None), None)


def _scaling(config: Config, own: Config) -> dict[str, Any] | None:
    """Return the fields of a scaling; None if frequencies are not scaled."""
    name = _type(own)
    if name == "default":
        return None
    if not isinstance(name, str) or name not in _KINDS:
        key = "rope_type" if "rope_type" in own else "type"
        known = ", ".join(("default", *_KINDS))
        raise own.wrong(key, f"is {describe(name)}, expected one of {known}")
    kind = _KINDS[name]
    factor = own.number("factor", "factor", RotaryScaling)
    if kind == "llama3":
        fields = {
            key: own.number(key, key, RotaryScaling)
            for key in ("low_freq_factor", "high_freq_factor")
        } | {
            "original_positions": own.whole("original_max_position_embeddings"),
        }
        for key, value in fields.items():
            if value is None:
                if key == "original_positions":
                    key = "original_max_position_embeddings"
                raise own.wrong(key, "is missing, as rope_type is llama3")
    else:
        fields = {}
        for key in _LOST_WHOLE if kind != "linear" else ():
            own.value(key)
        factor = _stretch(config, own) if factor is None else factor
    if factor is None:
        raise own.wrong("factor", f"is missing, as rope_type is {name}")
    return {"kind": kind, "factor": factor, **fields}


def _type(own: Config) -> Any:
    """Return what a file calls its scaling."""
    names = [own.value(key) for key in ("rope_type", "type")]
    return next((name for name in names if name is not None), "default")


def _stretch(config: Config, own: Config) -> float | None:
    """Return Phi-3's factor: the longest sequence over the longest one trained on."""
    key = "original_max_position_embeddings"
    trained = own.whole(key) or config.whole(key)
    longest = config.whole("max_position_embeddings")
    return longest / trained if trained and longest else None


def _check_read(config: Config) -> None:
    """Raise Fault if a key was not read."""
    for key in config.unread():
        said = f"is not known of rotary embeddings of rope_type {_type(config)}"
        raise config.unknown(key, said, "take it out if it changes nothing")
