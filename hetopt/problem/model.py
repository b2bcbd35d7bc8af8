"""The model to train: a sequence of units of named kinds (MODEL.md section 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Granularity = Literal["layer", "block"]
Norm = Literal["rms", "layer"]

EMBEDDING = "embedding"
LAYER = "layer"
ATTENTION = "attention"
MLP_UP = "mlp-up"
MLP_DOWN = "mlp-down"
HEAD = "head"

#: Kinds that carry no transformer layer; every stage needs a unit of another kind.
END_KINDS = frozenset({EMBEDDING, HEAD})

#: Cut classes: what crosses the boundary between two units, per token.
CUT_HIDDEN = "hidden"
CUT_FFN = "ffn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A decoder-only transformer.

    Attributes
    ----------
    name
        Label used in reports.
    layers, hidden, heads, kv_heads, head_dim, ffn, vocab
        Architecture; ``heads`` is a multiple of ``kv_heads``.
    gated
        True for SwiGLU (three MLP matrices), False for GELU (two).
    tied
        True when the embedding table also serves as the output head.
    norm
        ``rms`` (one vector per norm) or ``layer`` (two).
    positions
        Length of a learned position table, 0 for rotary embeddings.
    granularity
        ``layer``: one unit per transformer layer (HetAuto, Principle 1).
        ``block``: attention, first and second MLP matrix are three units (HAPT).
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    gated: bool = True
    tied: bool = False
    norm: Norm = "rms"
    positions: int = 0
    granularity: Granularity = "layer"

    def __post_init__(self) -> None:
        for field in (
            "layers",
            "hidden",
            "heads",
            "kv_heads",
            "head_dim",
            "ffn",
            "vocab",
        ):
            if getattr(self, field) < 1:
                msg = f"{field} is {getattr(self, field)}, expected at least 1"
                raise ValueError(msg)
        if self.heads % self.kv_heads:
            msg = (
                f"heads ({self.heads}) is not a multiple of kv_heads ({self.kv_heads})"
            )
            raise ValueError(msg)
        if self.positions < 0:
            msg = f"positions is {self.positions}, expected 0 or more"
            raise ValueError(msg)

    @property
    def units(self) -> tuple[str, ...]:
        """Kind of every unit in pipeline order: embedding, body, head."""
        body: tuple[str, ...] = (LAYER,)
        if self.granularity == "block":
            body = (ATTENTION, MLP_UP, MLP_DOWN)
        return (EMBEDDING, *(body * self.layers), HEAD)

    @property
    def cuts(self) -> tuple[str, ...]:
        """Cut class after each unit but the last, length ``len(units) - 1``."""
        return tuple(
            CUT_FFN if kind == MLP_UP else CUT_HIDDEN for kind in self.units[:-1]
        )

    def cut_width(self, cut: str) -> int:
        """Elements per token that cross a cut of this class."""
        return {CUT_HIDDEN: self.hidden, CUT_FFN: self.ffn}[cut]
