"""A piece: all that the cost model asks of one kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hetopt.cost.shapes import kv_width, query_width

if TYPE_CHECKING:
    from typing import Self

    from hetopt.cost.pieces.operations import Operations
    from hetopt.cost.pieces.profiled import Profiled
    from hetopt.cost.shapes import Floats, Ints, Shape
    from hetopt.problem.model import Block, Model
    from hetopt.problem.training import Recompute


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A unit of a model that is to be made of pieces.

    Attributes
    ----------
    seq_len
        Tokens of a sequence that the model is given.
    kind
        Kind of the unit, as in ``Model.units``.
    index
        Its block among ``Model.parts``.
    first
        Whether it is a block's first layer, which has something to do before.
    is_layer
        Whether it is a whole layer; otherwise it is the one piece of its name.
    """

    model: Model
    seq_len: int
    kind: str
    index: int
    first: bool
    is_layer: bool

    @property
    def block(self) -> Block:
        """Its block."""
        return self.model.parts[self.index]

    def tokens_of(self, index: int) -> int:
        """Tokens per sequence of a block."""
        return self.model.tokens(index, self.seq_len)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece(ABC):
    """A part of a unit on one device: what it does and holds, per micro-batch.

    Arrays are (R,); ``e`` are the bytes of one activation or weight.

    Attributes
    ----------
    model, block
        Whose sizes it has.
    tokens
        Tokens per sequence of its result.
    source_tokens, source_hidden
        Tokens per sequence and width of what it reads besides: the context, or the
        tokens that are merged; 0 if nothing.
    """

    #: Of its own tensor: all-gathers and reduce-scatters per pass, and all-gathers of
    #: an input that backward repeats and hides.
    collectives: ClassVar[tuple[int, int]]
    #: What profiles time of it.
    profiled: ClassVar[tuple[Profiled, ...]] = ()

    model: Model
    block: Block
    tokens: int
    source_tokens: int = 0
    source_hidden: int = 0

    @classmethod
    @abstractmethod
    def of(cls, unit: Unit) -> Self | None:
        """Return the piece of this kind that a unit has; None if it has none."""

    @classmethod
    def plain(cls, unit: Unit) -> Self:
        """Return the piece that reads nothing but what the unit is given."""
        tokens = unit.tokens_of(unit.index)
        return cls(model=unit.model, block=unit.block, tokens=tokens)

    @classmethod
    def reading(cls, unit: Unit, source: int) -> Self:
        """Return the piece that reads the output of the block ``source`` besides."""
        return cls(
            model=unit.model,
            block=unit.block,
            tokens=unit.tokens_of(unit.index),
            source_tokens=unit.tokens_of(source),
            source_hidden=unit.model.parts[source].hidden,
        )

    @abstractmethod
    def operations(self, shape: Shape, e: int) -> Operations:
        """Count the forward pass."""

    @abstractmethod
    def parameters(self, tp: Ints) -> Floats:
        """Parameters on one device, before ZeRO shards them."""

    @abstractmethod
    def kept_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Bytes kept from forward to backward, if not fully recomputed."""

    def input_bytes(self, shape: Shape, e: int) -> Floats:
        """Bytes of what a unit reads that begins with this piece."""
        return shape.own_tokens(self.tokens) * self.block.hidden * e

    def context_bytes(self, shape: Shape, e: int) -> Floats | float:
        """Bytes of what it reads of other units, wherever it is in its unit."""
        del shape, e
        return 0.0

    def working_elements(self, shape: Shape) -> Floats:
        """Elements of the gathered input and of the gradients held at once."""
        tokens = shape.all_tokens(self.tokens)
        return self._input_elements(shape) + tokens * self.gradient_width(shape.tp)

    def gradient_width(self, tp: Ints) -> Floats:
        """Elements per token of the widest tensor whose gradient is held."""
        return np.full(len(tp), float(self.block.hidden))

    def ring_bytes(self, shape: Shape, e: int) -> Floats | None:
        """Bytes that context parallelism passes on per step; None if it has no ring."""
        del shape, e
        return None

    def loss_rows(self, shape: Shape) -> Floats | None:
        """Rows of logits whose loss is reduced over tp; None if it has no loss."""
        del shape
        return None

    @property
    def exchanged_tokens(self) -> int:
        """Tokens per sequence of the tensor that ``collectives`` are of."""
        return self.tokens

    def query(self, tp: Ints) -> Floats:
        """Elements per token of a device's queries."""
        return query_width(self.block) / tp

    def kv(self, tp: Ints) -> Floats:
        """Elements per token of a device's keys (or values)."""
        return kv_width(self.block, tp)

    @property
    def has_bias(self) -> bool:
        """Models with LayerNorm are GPT-like and have biases; others have none."""
        return self.model.norm == "layer"

    @property
    def norm_vectors(self) -> int:
        """Vectors of a norm."""
        return 2 if self.model.norm == "layer" else 1

    def norm_parameters(self, tp: Ints) -> Floats:
        """Parameters of a norm of the piece's tokens."""
        return np.full(len(tp), float(self.block.hidden * self.norm_vectors))

    def _input_elements(self, shape: Shape) -> Floats:
        """Elements of the input: as it comes, and gathered over tp."""
        tokens, own = shape.gathered_tokens(self.tokens), shape.own_tokens(self.tokens)
        return tokens * self.block.hidden + own * self.block.hidden

    def _source_elements(self, shape: Shape) -> Floats:
        """Elements of what it reads besides: as it comes, and gathered over tp."""
        gathered = shape.gathered_tokens(self.source_tokens)
        own = shape.own_tokens(self.source_tokens)
        return (gathered + own) * self.source_hidden
