"""Multi-head latent attention: queries, keys and values from narrow vectors."""

from __future__ import annotations

from collections.abc import Mapping

from hetopt.base.faults import Fault
from hetopt.base.fields import Count, Whole
from hetopt.base.record import record


@record
class Latent:
    """Multi-head latent attention (DeepSeek-V2).

    Keys and values of all heads are computed from one vector of a token; a key shared
    by all heads adds the rotary part. A head's query and key have ``qk_dim + rope_dim``
    numbers, which is the model's ``head_dim`` (section 2.1).

    Attributes
    ----------
    kv_lora
        Width of the vector that keys and values are made of.
    qk_dim
        Numbers of a head's query and key without rotary embedding.
    rope_dim
        Numbers of a head's query and key with rotary embedding; even.
    v_dim
        Numbers of a head's value.
    q_lora
        Width of the vector that queries are made of; default: 0, they are made of
        the token.
    """

    kv_lora: Count
    qk_dim: Count
    rope_dim: Count
    v_dim: Count
    q_lora: Whole = 0

    def __post_init__(self) -> None:
        if self.rope_dim % 2:
            raise Fault(f"is {self.rope_dim}, expected an even number", "rope_dim")

    @property
    def head_dim(self) -> int:
        """Numbers of a head's query or key."""
        return self.qk_dim + self.rope_dim

    def ensure_fits(
        self, head_dim: int, heads: int, kv_heads: int, given: Mapping[str, bool]
    ) -> None:
        """Raise Fault if a field of the model contradicts latent attention.

        Parameters
        ----------
        given
            Fields that it does not have -> whether the model has them.
        """
        if head_dim != self.head_dim:
            msg = f"expected qk_dim + rope_dim of latent ({self.head_dim})"
            raise Fault(f"is {head_dim}, {msg}", "head_dim")
        for field, is_given in given.items():
            if is_given:
                raise Fault("is given, expected none of latent attention", field)
        if kv_heads != heads:
            msg = (
                f"is {kv_heads}, expected heads ({heads}): latent attention has keys "
                "and values for every head"
            )
            raise Fault(msg, "kv_heads")
