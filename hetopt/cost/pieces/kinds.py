"""The pieces of every kind of unit, and those that profiles time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cost.pieces.attention import Attention
from hetopt.cost.pieces.classifier import Classifier
from hetopt.cost.pieces.cross_attention import CrossAttention
from hetopt.cost.pieces.embedding import Embedding
from hetopt.cost.pieces.head import Head
from hetopt.cost.pieces.kernels import kernels_of
from hetopt.cost.pieces.latent_attention import LatentAttention
from hetopt.cost.pieces.merge import Merge
from hetopt.cost.pieces.mlp_down import MlpDown
from hetopt.cost.pieces.mlp_up import MlpUp
from hetopt.cost.pieces.patches import Patches
from hetopt.cost.pieces.prediction import Prediction
from hetopt.cost.pieces.routed_mlp import RoutedMlp
from hetopt.cost.pieces.shared_expert import SharedExpert
from hetopt.problem.model.kinds import (
    ATTENTION,
    BLOCKS,
    EMBEDDING,
    HEAD,
    LAYER,
    MLP_DOWN,
    MLP_UP,
    PREDICTION,
    WITHOUT_EXPERTS,
    WITHOUT_WINDOW,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.cost.pieces.piece import Piece
    from hetopt.cost.pieces.profiled import Profiled
    from hetopt.problem.model.model import Model
    from hetopt.problem.training.training import Training

#: Pieces of a dense layer, by the unit that consists of only this piece.
_OF_A_LAYER: dict[str, type[Piece]] = {
    ATTENTION: Attention,
    MLP_UP: MlpUp,
    MLP_DOWN: MlpDown,
}

#: Pieces that profiles time separately.
_TIMED: tuple[type[Piece], ...] = (*_OF_A_LAYER.values(), Embedding, Head)
_PROFILED = {timed.unit: timed for kind in _TIMED for timed in kind.profiled}


def pieces_of(model: Model, training: Training, kind: str) -> tuple[Piece, ...]:
    """Return the pieces of a unit; raises ValueError for an unknown kind."""
    seq_len, kernels = training.seq_len, kernels_of(training)

    def piece(
        of: Callable[..., Piece],
        index: int,
        source: int | None = None,
        window: int = 0,
    ) -> Piece:
        """Return a piece of a block, which may also read another block's output."""
        read = {"window": window}
        if source is not None:
            read["source_tokens"] = model.tokens(source, seq_len)
            read["source_hidden"] = model.parts[source].hidden
        tokens = model.tokens(index, seq_len)
        return of(
            model=model,
            block=model.parts[index],
            tokens=tokens,
            kernels=kernels,
            **read,
        )

    if kind == EMBEDDING:
        return (piece(Patches if model.patch else Embedding, 0),)
    if kind == HEAD:
        return (piece(Classifier if model.classes else Head, len(model.parts) - 1),)
    if kind == PREDICTION:
        layer = [piece(of, 0) for of in _layer(model, model.has_experts(kind))]
        return (piece(Prediction, 0), *layer * model.predictions)
    routed = kind in WITHOUT_EXPERTS
    kind, window = WITHOUT_EXPERTS.get(kind, kind), 0
    if kind in WITHOUT_WINDOW:
        kind, window = WITHOUT_WINDOW[kind], model.architecture.reach or seq_len
    if kind in _OF_A_LAYER:
        return (piece(_OF_A_LAYER[kind], 0, window=window),)
    index, first = model.place_of(kind)
    pieces = [piece(of, index, window=window) for of in _layer(model, routed)]
    context = model.parts[index].context
    if context:
        source = [part.name for part in model.parts].index(context)
        pieces.insert(1, piece(CrossAttention, index, source))
    if first and model.starts(index):
        pieces.insert(0, piece(Embedding, index))
    elif first:
        pieces.insert(0, piece(Merge, index, index - 1))
    return tuple(pieces)


def _layer(model: Model, routed: bool) -> tuple[type[Piece], ...]:
    """Return the pieces of a layer, with routed experts or dense."""
    attention, *mlp = _OF_A_LAYER.values()
    if model.latent is not None:
        attention = LatentAttention
    if not routed:
        return (attention, *mlp)
    has_shared = model.experts is not None and model.experts.shared_ffn
    return (attention, RoutedMlp, *([SharedExpert] if has_shared else []))


def profiled_parts(unit: str) -> tuple[Profiled, ...]:
    """Return the parts of a profiled unit: for a layer its blocks, else one."""
    return tuple(_PROFILED[name] for name in (BLOCKS if unit == LAYER else (unit,)))
