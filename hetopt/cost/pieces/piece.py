"""A piece: the interface between the cost model and one kind of piece."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from hetopt.cost.pieces.dispatched import Dispatched
from hetopt.cost.pieces.operations import Operations, moving
from hetopt.cost.shapes import Floats, Ints, Shape, kv_width, query_width

if TYPE_CHECKING:
    from hetopt.cost.pieces.kernels import Kernels
    from hetopt.cost.pieces.operations import Elementwise, MemoryKernel
    from hetopt.cost.pieces.profiled import Profiled
    from hetopt.problem.model.block import Block
    from hetopt.problem.model.model import Model
    from hetopt.problem.training.choices import Recompute


#: As ``Piece.collectives``, for the tensor of ``Piece.source_tokens``.
_SOURCE_COLLECTIVES = (1, 1)


class Exchange(NamedTuple):
    """A tensor that tensor ranks gather or scatter, in both passes.

    Attributes
    ----------
    tokens, width
        Tokens per sequence, and elements per token.
    times
        Number of all-gathers and reduce-scatters per pass.
    repeated
        Number of all-gathers of an input that backward repeats and hides.
    """

    tokens: int
    width: int
    times: int
    repeated: int


class Again(NamedTuple):
    """What a module of a piece runs again if it is recomputed; arrays are (R,).

    Attributes
    ----------
    operations
        Operations of the forward pass.
    freed_bytes
        What is then not kept from forward to backward.
    exchanges
        Whether tensor ranks exchange the piece's tensors again.
    dispatches
        Whether tokens are sent to experts again.
    """

    operations: Operations
    freed_bytes: Floats
    exchanges: bool = False
    dispatches: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece(ABC):
    """A part of a unit on one device: its operations and memory, per micro-batch.

    Arrays are (R,); ``e`` is the bytes of one activation or weight.

    Attributes
    ----------
    model, block
        The model and block whose sizes it has.
    tokens
        Tokens per sequence of its result.
    kernels
        Those of the training program.
    source_tokens, source_hidden
        Tokens per sequence and width of a second input: the context, or the tokens
        that are merged; 0 if there is none.
    window
        Tokens of the sliding window, or of the chunks, of this layer; 0 if a token
        attends to all before it.
    """

    #: ``times`` and ``repeated`` of the exchange of its own tensor; see ``Exchange``.
    collectives: ClassVar[tuple[int, int]]
    #: Units that profiles time for it.
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
        """Count the operations of the forward pass."""

    @abstractmethod
    def parameters(self, tp: Ints) -> Floats:
        """Return the parameters on one device, before ZeRO shards them."""

    @abstractmethod
    def kept_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Return the bytes kept from forward to backward, if not fully recomputed."""

    def expert_parameters(self, shape: Shape) -> Floats:
        """Return the parameters of routed experts on a device, split by ep and etp.

        ``parameters`` does not include them, since other ranks hold the same ones.
        """
        return np.zeros(len(shape.tp))

    def again(self, shape: Shape, e: int) -> dict[str, Again]:
        """Return what its modules run again, by Megatron-core's names of them."""
        return {}

    def dispatched(self, shape: Shape, e: int) -> Dispatched | None:
        """Return the messages to routed experts; None if there are none."""
        return None

    def input_bytes(self, shape: Shape, e: int) -> Floats:
        """Return the bytes of the input of a unit whose first piece this is."""
        return shape.own_tokens(self.tokens) * self.block.hidden * e

    def context_bytes(self, shape: Shape, e: int) -> Floats | float:
        """Return the bytes of its input from other units, besides the unit's input."""
        return 0.0

    def working_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Return the bytes held temporarily, besides those kept or passed on."""
        return e * self.working_elements(shape)

    def working_elements(self, shape: Shape) -> Floats:
        """Return the elements of the gathered input and of gradients held at once."""
        tokens = shape.all_tokens(self.tokens)
        return self._input_elements(shape) + tokens * self.gradient_width(shape.tp)

    def gradient_width(self, tp: Ints) -> Floats:
        """Return the elements per token of the widest tensor whose gradient is held."""
        return np.full(len(tp), float(self.block.hidden))

    def table_elements(self, tp: Ints) -> Floats | float:
        """Return the elements of a table whose whole gradient is made at once."""
        return 0.0

    def ring_bytes(self, shape: Shape, e: int) -> Floats | None:
        """Return the bytes that a context-parallel ring sends per step, if any."""
        return None

    def loss_rows(self, shape: Shape) -> Floats | None:
        """Return the rows of logits whose loss is reduced over tp, if any."""
        return None

    @property
    def exchanged_tokens(self) -> int:
        """Tokens per sequence of the tensor that ``collectives`` exchange."""
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
        """Return the elements per token of a device's queries."""
        return query_width(self.block) / tp

    def kv(self, tp: Ints) -> Floats:
        """Return the elements per token of a device's keys (or values)."""
        return kv_width(self.block, tp)

    def input_element(self, e: int, readers: int = 1) -> float:
        """Return the bytes of an element that only multiplications of a layer read.

        Parameters
        ----------
        readers
            How many multiplications read it: each keeps a copy in FP8 of its own.
        """
        narrow = self.kernels.narrow
        return e if narrow is None else narrow * readers

    @property
    def copied_element(self) -> float:
        """Bytes of an element that a multiplication keeps besides one in 16 bits."""
        return self.kernels.narrow or 0.0

    @property
    def mask(self) -> int:
        """Bytes that dropout keeps of an element: its mask; 0 without dropout."""
        return int(self.model.architecture.hidden_dropout > 0)

    @property
    def norm_vectors(self) -> int:
        """Number of parameter vectors of a norm."""
        return 2 if self.model.norm == "layer" else 1

    @property
    def norms_before(self) -> int:
        """Number of norms before attention, or before the MLP: 0 or 1."""
        return int(self.model.architecture.norm_place != "after")

    @property
    def norms_after(self) -> int:
        """Number of norms after attention, or after the MLP: 0 or 1."""
        return int(self.model.architecture.norm_place != "before")

    @property
    def norm_kernel(self) -> MemoryKernel:
        """Kernel of a norm."""
        return "layernorm" if self.model.norm == "layer" else "rmsnorm"

    def norm(self, tokens: Floats, e: int) -> Elementwise:
        """Return the norm of ``tokens``, which are read and written."""
        hidden = self.block.hidden
        return moving(tokens * hidden * 2 * e, self.norm_kernel, hidden)

    def norms(self, tokens: Floats, e: int, count: int) -> tuple[Elementwise, ...]:
        """Return ``count`` norms of ``tokens``."""
        return (self.norm(tokens, e),) * count

    def residual(self, tokens: Floats, e: int) -> Elementwise:
        """Return dropout and sum: two reads, a mask of one byte, and a write."""
        hidden = self.block.hidden
        return moving(tokens * hidden * (3 * e + 1), "add", hidden)

    def norm_again(self, shape: Shape, e: int, input_bytes: float) -> dict[str, Again]:
        """Return the norm before the piece as the module ``layernorm``, if it has one.

        Parameters
        ----------
        input_bytes
            Bytes of an element of its result that are kept.
        """
        own = shape.own_tokens(self.tokens)
        norms = self.norms(own, e, self.norms_before)
        freed = own * self.block.hidden * input_bytes
        found = {"layernorm": Again(Operations.of(elementwise=norms), freed)}
        return found if norms else {}

    def norm_parameters(self, tp: Ints, norms: int = 1) -> Floats:
        """Return the parameters of ``norms`` norms of the piece's tokens."""
        return np.full(len(tp), float(norms * self.block.hidden * self.norm_vectors))

    def _input_elements(self, shape: Shape) -> Floats:
        """Return the elements of the input: before and after a gather over tp."""
        tokens, own = shape.gathered_tokens(self.tokens), shape.own_tokens(self.tokens)
        return tokens * self.block.hidden + own * self.block.hidden

    def _source_elements(self, shape: Shape) -> Floats:
        """Return the elements of the second input: before and after a gather."""
        gathered = shape.gathered_tokens(self.source_tokens)
        own = shape.own_tokens(self.source_tokens)
        return (gathered + own) * self.source_hidden
