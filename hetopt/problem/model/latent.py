"""Multi-head latent attention: queries, keys and values from narrow vectors."""

from __future__ import annotations

from dataclasses import dataclass

from hetopt.base.checked import checked
from hetopt.base.least import ensure_least

_COUNTS = ("kv_lora", "qk_dim", "rope_dim", "v_dim")


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """Sizes of multi-head latent attention (DeepSeek-V2, section 2.1).

    Keys and values of all heads are computed from one vector of a token; a key shared
    by all heads adds the rotary part. A head's query and key have ``qk_dim + rope_dim``
    numbers, which is the model's ``head_dim``.

    Attributes
    ----------
    q_lora
        Width of the vector that queries are computed from; 0: from the token itself.
    kv_lora
        Width of the vector that keys and values are computed from.
    qk_dim, rope_dim
        Numbers of a head's query and key without and with rotary embedding; the latter
        even.
    v_dim
        Numbers of a head's value.
    """

    kv_lora: int
    qk_dim: int
    rope_dim: int
    v_dim: int
    q_lora: int = 0

    def __post_init__(self) -> None:
        ensure_least(self, 1, _COUNTS)
        ensure_least(self, 0, ("q_lora",))
        if self.rope_dim % 2:
            msg = f"rope_dim is {self.rope_dim}, expected an even number"
            raise ValueError(msg)

    @property
    def head_dim(self) -> int:
        """Numbers of a head's query or key."""
        return self.qk_dim + self.rope_dim
