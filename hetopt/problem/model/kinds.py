"""Kinds of units, and classes of the tensors between them (MODEL.md section 1)."""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

EMBEDDING = "embedding"
LAYER = "layer"
ATTENTION = "attention"
MLP_UP = "mlp-up"
MLP_DOWN = "mlp-down"
HEAD = "head"
#: The same for layers with a sliding window; see ``Architecture.windows``.
LAYER_WINDOW = "layer-window"
ATTENTION_WINDOW = "attention-window"
#: Layers whose MLP is routed experts, without and with a sliding window.
LAYER_EXPERTS = "layer-experts"
LAYER_WINDOW_EXPERTS = "layer-window-experts"
#: All layers that predict further tokens, between the last layer and the head.
PREDICTION = "prediction"

#: Units of one decoder-only layer if the model is cut into blocks.
BLOCKS = (ATTENTION, MLP_UP, MLP_DOWN)
#: Kinds with a sliding window -> the same without it.
WITHOUT_WINDOW = MappingProxyType(
    {
        LAYER_WINDOW: LAYER,
        ATTENTION_WINDOW: ATTENTION,
        LAYER_WINDOW_EXPERTS: LAYER_EXPERTS,
    }
)
#: Kinds with routed experts -> the same with one MLP for all tokens.
WITHOUT_EXPERTS = MappingProxyType(
    {LAYER_EXPERTS: LAYER, LAYER_WINDOW_EXPERTS: LAYER_WINDOW}
)

#: Kinds without a transformer layer; every stage needs a unit of another kind.
END_KINDS = frozenset({EMBEDDING, HEAD})

#: Cut classes: the tensors that cross the boundary between two units.
CUT_HIDDEN = "hidden"
CUT_FFN = "ffn"
#: The output of the last layer, and of every layer that predicts further tokens.
CUT_PREDICTIONS = "predictions"

#: Suffix of a block's first layer if it merges tokens or looks them up.
FIRST = "-first"
#: Names of kinds and cut classes that no block may have.
TAKEN = frozenset(
    {
        EMBEDDING,
        *BLOCKS,
        PREDICTION,
        HEAD,
        CUT_HIDDEN,
        CUT_FFN,
        CUT_PREDICTIONS,
        *WITHOUT_WINDOW,
        *WITHOUT_EXPERTS,
    }
)


class Cut(NamedTuple):
    """A cut class: tensors between units, by the blocks whose output they are.

    Attributes
    ----------
    within
        Those that stay within a stage.
    across
        Those that leave it.
    """

    within: tuple[str, ...]
    across: tuple[str, ...]

    @classmethod
    def of(cls, *names: str) -> Cut:
        """Return the class of tensors that cross alike within and between stages."""
        return cls(names, names)

    @classmethod
    def inside(cls, name: str) -> Cut:
        """Return the class of a tensor that crosses within a stage alone."""
        return cls((name,), ())

    @property
    def first(self) -> Cut:
        """Return the class of which only the first tensor crosses within a stage."""
        return Cut(self.across[:1], self.across)

    @property
    def name(self) -> str:
        """Its name in tables."""
        within, across = "+".join(self.within), "+".join(self.across)
        return across if within == across else f"{within}/{across}"
