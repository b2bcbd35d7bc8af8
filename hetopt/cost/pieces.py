"""What the units of a model are made of.

A unit is one *piece* or several, one after the other: whatever it computes, sends and
keeps is what its pieces do. A decoder-only layer is ``attention``, ``mlp-up`` and
``mlp-down``; a layer with a context has ``cross-attention`` behind its attention; and
the first layer of a block may have to join tokens (``merge``) or to look up tokens of
its own (``embedding``). Units at the ends are one piece each: tokens come from a
table (``embedding``) or from image patches (``patches``), results are one token each
(``head``) or one class per sequence (``classifier``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetopt.problem.model import (
    ATTENTION,
    EMBEDDING,
    HEAD,
    MLP_DOWN,
    MLP_UP,
)

if TYPE_CHECKING:
    from hetopt.cost.operations import Floats, Shape
    from hetopt.problem.model import Block, Model

CROSS_ATTENTION = "cross-attention"
PATCHES = "patches"
MERGE = "merge"
CLASSIFIER = "classifier"

#: Units that make up one decoder-only ``layer``.
BLOCKS = (ATTENTION, MLP_UP, MLP_DOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a unit.

    Attributes
    ----------
    name
        What it does.
    block
        Whose sizes it has.
    tokens
        Tokens per sequence of its result.
    source_tokens, source_hidden
        Tokens per sequence and width of what it reads besides: the context, or the
        tokens that are merged; 0 if nothing.
    """

    name: str
    block: Block
    tokens: int
    source_tokens: int = 0
    source_hidden: int = 0


def pieces_of(model: Model, seq_len: int, kind: str) -> tuple[Piece, ...]:
    """Return the pieces of a unit; raises ValueError for an unknown kind."""
    blocks = model.parts
    last = len(blocks) - 1
    if kind == EMBEDDING:
        name = PATCHES if model.patch else EMBEDDING
        return (Piece(name=name, block=blocks[0], tokens=seq_len),)
    if kind == HEAD:
        name = CLASSIFIER if model.classes else HEAD
        tokens = model.tokens(last, seq_len)
        return (Piece(name=name, block=blocks[last], tokens=tokens),)
    if kind in BLOCKS:
        return (Piece(name=kind, block=blocks[0], tokens=seq_len),)
    index, first = model.place_of(kind)
    block, tokens = blocks[index], model.tokens(index, seq_len)
    pieces = [Piece(name=name, block=block, tokens=tokens) for name in BLOCKS]
    if block.context:
        source = next(
            place for place, other in enumerate(blocks) if other.name == block.context
        )
        pieces.insert(
            1,
            Piece(
                name=CROSS_ATTENTION,
                block=block,
                tokens=tokens,
                source_tokens=model.tokens(source, seq_len),
                source_hidden=blocks[source].hidden,
            ),
        )
    if first and model.starts(index):
        pieces.insert(0, Piece(name=EMBEDDING, block=block, tokens=tokens))
    elif first:
        joined = Piece(
            name=MERGE,
            block=block,
            tokens=tokens,
            source_tokens=model.tokens(index - 1, seq_len),
            source_hidden=blocks[index - 1].hidden,
        )
        pieces.insert(0, joined)
    return tuple(pieces)


def all_tokens(shape: Shape, tokens: int) -> Floats:
    """Tokens of a device inside a piece, of ``tokens`` per sequence; (R,)."""
    here: Floats = shape.microbatch * tokens / shape.cp
    return here


def own_tokens(shape: Shape, tokens: int) -> Floats:
    """Tokens of a device between pieces: split by tp too, the last share padded."""
    shares: Floats = np.ceil(tokens / (shape.cp * shape.tp))
    return shape.microbatch * shares
