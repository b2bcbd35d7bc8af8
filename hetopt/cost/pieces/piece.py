"""A piece: all that the cost model asks of one kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from hetopt.cost.pieces.dispatched import Dispatched
from hetopt.cost.pieces.operations import moving
from hetopt.cost.shapes import Floats, Ints, Shape, kv_width, query_width

if TYPE_CHECKING:
    from hetopt.cost.pieces.kernels import Kernels
    from hetopt.cost.pieces.operations import Elementwise, MemoryKernel, Operations
    from hetopt.cost.pieces.profiled import Profiled
    from hetopt.problem.model.block import Block
    from hetopt.problem.model.model import Model
    from hetopt.problem.training.choices import Recompute

#: Of what a piece reads besides, as ``Piece.collectives``.
_SOURCE_COLLECTIVES = (1, 1)


class Exchange(NamedTuple):
    """A tensor that tensor ranks gather or scatter, in either pass.

    Attributes
    ----------
    tokens, width
        Per sequence; elements of one.
    times
        All-gathers and reduce-scatters per pass.
    repeated
        All-gathers of an input that backward repeats and hides.
    """

    tokens: int
    width: int
    times: int
    repeated: int


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
    kernels
        Those of the training program.
    source_tokens, source_hidden
        Tokens per sequence and width of what it reads besides: the context, or the
        tokens that are merged; 0 if nothing.
    window
        Tokens of the sliding window, or of the chunks, of this layer; 0: a token
        attends to all before it.
    """

    #: Of its own tensor: all-gathers and reduce-scatters per pass, and all-gathers of
    #: an input that backward repeats and hides.
    collectives: ClassVar[tuple[int, int]]
    #: What profiles time of it.
    profiled: ClassVar[tuple[Profiled, ...]] = ()

    model: Model
    block: Block
    tokens: int
    kernels: Kernels
    source_tokens: int = 0
    source_hidden: int = 0
    window: int = 0

    @abstractmethod
    def operations(self, shape: Shape, e: int) -> Operations:
        """Count the forward pass."""

    @abstractmethod
    def parameters(self, tp: Ints) -> Floats:
        """Parameters on one device, before ZeRO shards them."""

    @abstractmethod
    def kept_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Bytes kept from forward to backward, if not fully recomputed."""

    def expert_parameters(self, shape: Shape) -> Floats:
        """Parameters of routed experts on one device, which ``ep`` and ``etp`` split.

        They come beside ``parameters``: other ranks hold the same.
        """
        return np.zeros(len(shape.tp))

    def dispatched(self, shape: Shape, e: int) -> Dispatched | None:
        """Return what its tokens send to routed experts; None if there are none."""
        return None

    def input_bytes(self, shape: Shape, e: int) -> Floats:
        """Bytes of what a unit reads that begins with this piece."""
        return shape.own_tokens(self.tokens) * self.block.hidden * e

    def context_bytes(self, shape: Shape, e: int) -> Floats | float:
        """Bytes of what it reads of other units, wherever it is in its unit."""
        return 0.0

    def working_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Bytes held for a moment, besides what is kept and what was passed on."""
        return e * self.working_elements(shape)

    def working_elements(self, shape: Shape) -> Floats:
        """Elements of the gathered input and of the gradients held at once."""
        tokens = shape.all_tokens(self.tokens)
        return self._input_elements(shape) + tokens * self.gradient_width(shape.tp)

    def gradient_width(self, tp: Ints) -> Floats:
        """Elements per token of the widest tensor whose gradient is held."""
        return np.full(len(tp), float(self.block.hidden))

    def table_elements(self, tp: Ints) -> Floats | float:
        """Elements of a table whose gradient is made whole before it is added."""
        return 0.0

    def ring_bytes(self, shape: Shape, e: int) -> Floats | None:
        """Bytes that context parallelism passes on per step; None if it has no ring."""
        return None

    def loss_rows(self, shape: Shape) -> Floats | None:
        """Rows of logits whose loss is reduced over tp; None if it has no loss."""
        return None

    @property
    def exchanged_tokens(self) -> int:
        """Tokens per sequence of the tensor that ``collectives`` are of."""
        return self.tokens

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """Tensors that tensor ranks gather or scatter."""
        own = Exchange(self.exchanged_tokens, self.block.hidden, *self.collectives)
        if not self.source_tokens:
            return (own,)
        source = Exchange(self.source_tokens, self.source_hidden, *_SOURCE_COLLECTIVES)
        return own, source

    def query(self, tp: Ints) -> Floats:
        """Elements per token of a device's queries."""
        return query_width(self.block) / tp

    def kv(self, tp: Ints) -> Floats:
        """Elements per token of a device's keys (or values)."""
        return kv_width(self.block, tp)

    @property
    def norm_vectors(self) -> int:
        """Vectors of a norm."""
        return 2 if self.model.norm == "layer" else 1

    @property
    def norms_before(self) -> int:
        """Norms before attention, or before the MLP: none or one."""
        return int(self.model.architecture.norm_place != "after")

    @property
    def norms_after(self) -> int:
        """Norms after attention, or after the MLP: none or one."""
        return int(self.model.architecture.norm_place != "before")

    @property
    def norm_kernel(self) -> MemoryKernel:
        """The kernel of a norm."""
        return "layernorm" if self.model.norm == "layer" else "rmsnorm"

    def norm(self, tokens: Floats, e: int) -> Elementwise:
        """Return the norm of so many tokens, which are read and written."""
        hidden = self.block.hidden
        return moving(tokens * hidden * 2 * e, self.norm_kernel, hidden)

    def norms(self, tokens: Floats, e: int, count: int) -> tuple[Elementwise, ...]:
        """Return so many norms of so many tokens."""
        return (self.norm(tokens, e),) * count

    def residual(self, tokens: Floats, e: int) -> Elementwise:
        """Return dropout and sum: two reads, a mask of a byte, a write."""
        hidden = self.block.hidden
        return moving(tokens * hidden * (3 * e + 1), "add", hidden)

    def norm_parameters(self, tp: Ints, norms: int = 1) -> Floats:
        """Parameters of some norms of the piece's tokens."""
        return np.full(len(tp), float(norms * self.block.hidden * self.norm_vectors))

    def _input_elements(self, shape: Shape) -> Floats:
        """Elements of the input: as it comes, and gathered over tp."""
        tokens, own = shape.gathered_tokens(self.tokens), shape.own_tokens(self.tokens)
        return tokens * self.block.hidden + own * self.block.hidden

    def _source_elements(self, shape: Shape) -> Floats:
        """Elements of what it reads besides: as it comes, and gathered over tp."""
        gathered = shape.gathered_tokens(self.source_tokens)
        own = shape.own_tokens(self.source_tokens)
        return (gathered + own) * self.source_hidden
