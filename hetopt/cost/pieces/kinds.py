"""All kinds of pieces, and which of them a unit has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cost.pieces.attention import Attention
from hetopt.cost.pieces.classifier import Classifier
from hetopt.cost.pieces.cross_attention import CrossAttention
from hetopt.cost.pieces.embedding import Embedding
from hetopt.cost.pieces.head import Head
from hetopt.cost.pieces.merge import Merge
from hetopt.cost.pieces.mlp_down import MlpDown
from hetopt.cost.pieces.mlp_up import MlpUp
from hetopt.cost.pieces.patches import Patches
from hetopt.cost.pieces.piece import Unit
from hetopt.problem.model import BLOCKS, EMBEDDING, HEAD, LAYER

if TYPE_CHECKING:
    from hetopt.cost.pieces.piece import Piece
    from hetopt.cost.pieces.profiled import Profiled
    from hetopt.problem.model import Model

#: In the order in which a unit has them.
PIECES: tuple[type[Piece], ...] = (
    Embedding,
    Patches,
    Merge,
    Attention,
    CrossAttention,
    MlpUp,
    MlpDown,
    Head,
    Classifier,
)

_PROFILED = {timed.unit: timed for kind in PIECES for timed in kind.profiled}


def pieces_of(model: Model, seq_len: int, kind: str) -> tuple[Piece, ...]:
    """Return the pieces of a unit; raises ValueError for an unknown kind."""
    is_layer = kind not in (EMBEDDING, HEAD, *BLOCKS)
    index, first = model.place_of(kind) if is_layer else (0, False)
    if kind == HEAD:
        index = len(model.parts) - 1
    unit = Unit(
        model=model,
        seq_len=seq_len,
        kind=kind,
        index=index,
        first=first,
        is_layer=is_layer,
    )
    return tuple(piece for cls in PIECES if (piece := cls.of(unit)) is not None)


def profiled_parts(unit: str) -> tuple[Profiled, ...]:
    """Return what a profiled unit is the sum of: a layer of its blocks."""
    return tuple(_PROFILED[name] for name in (BLOCKS if unit == LAYER else (unit,)))
