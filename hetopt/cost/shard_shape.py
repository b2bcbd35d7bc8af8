"""One device's shard of a unit, with the sizes that a profile states."""

from __future__ import annotations

from dataclasses import dataclass

from hetopt.problem.model.kinds import (
    ATTENTION,
    EMBEDDING,
    HEAD,
    LAYER,
    MLP_DOWN,
    MLP_UP,
)

#: Only the fused attention; it is part of ``attention`` and of ``layer``.
ATTENTION_CORE = "attention-core"
UNITS = (LAYER, ATTENTION, MLP_UP, MLP_DOWN, EMBEDDING, HEAD, ATTENTION_CORE)
DTYPES = ("bf16", "fp16", "fp32")
MODEL_SIZES = ("hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")
SIZES = (*MODEL_SIZES, "cp", "tp", "microbatch", "seq_len")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardShape:
    """One device's shard of a unit; attributes are the CSV's columns.

    Raises
    ------
    ValueError
        A size is below 1, or the degrees do not divide the model.
    """

    unit: str
    gated: bool
    dtype: str
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    cp: int
    tp: int
    microbatch: int
    seq_len: int

    def __post_init__(self) -> None:
        for name, known in (("unit", UNITS), ("dtype", DTYPES)):
            if getattr(self, name) not in known:
                msg = f"{name}: {getattr(self, name)!r}, expected {', '.join(known)}"
                raise ValueError(msg)
        for name in SIZES:
            if getattr(self, name) < 1:
                msg = f"{name}: {getattr(self, name)}, expected at least 1"
                raise ValueError(msg)
        for name, by in (("heads", "kv_heads"), ("heads", "tp"), ("ffn", "tp")):
            self._must_divide(name, by, getattr(self, by))
        if self.kv_heads % self.tp and self.tp % self.kv_heads:
            msg = (
                f"tp: {self.tp} neither divides kv_heads ({self.kv_heads}) nor is a "
                "multiple of it"
            )
            raise ValueError(msg)
        self._must_divide("seq_len", "cp * tp", self.cp * self.tp)
        if self.cp > 1:
            self._must_divide("seq_len", "2 * cp", 2 * self.cp)

    def _must_divide(self, name: str, by: str, divisor: int) -> None:
        if getattr(self, name) % divisor:
            msg = f"{name}: {getattr(self, name)} is not a multiple of {by} ({divisor})"
            raise ValueError(msg)

    @property
    def tokens(self) -> int:
        """Tokens that pass through the device's matrices."""
        return self.microbatch * self.seq_len // self.cp

    @property
    def own_tokens(self) -> int:
        """Tokens of norms and residuals, which sequence parallelism splits by tp."""
        return self.tokens // self.tp

    @property
    def shard_heads(self) -> int:
        """Query heads on the device."""
        return self.heads // self.tp

    @property
    def shard_kv_heads(self) -> int:
        """Key and value heads on the device; replicated if tp exceeds them."""
        return max(self.kv_heads // self.tp, 1)

    @property
    def shard_query(self) -> int:
        """Elements per token of the device's query heads."""
        return self.shard_heads * self.head_dim

    @property
    def shard_kv(self) -> int:
        """Elements per token of the device's keys (or values)."""
        return self.shard_kv_heads * self.head_dim

    @property
    def shard_ffn(self) -> int:
        """Inner width of the MLP on the device."""
        return self.ffn // self.tp

    @property
    def shard_vocab(self) -> int:
        """Rows of the vocabulary on the device; the last shard is padded."""
        return -(-self.vocab // self.tp)
