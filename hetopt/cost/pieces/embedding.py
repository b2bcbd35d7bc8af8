"""Look-up of tokens in the vocabulary's table."""

from __future__ import annotations

from typing import ClassVar

from hetopt.cost.pieces.operations import Elementwise, Operations, moving
from hetopt.cost.pieces.piece import Piece
from hetopt.cost.pieces.profiled import Profiled
from hetopt.cost.shapes import Floats, Ints, Shape, vocab_shard
from hetopt.problem.model.kinds import EMBEDDING
from hetopt.problem.training.choices import Recompute

#: Bytes of a token id from a data loader.
TOKEN_ID_BYTES = 8


class Embedding(Piece):
    """The first unit, and the start of a block with tokens of its own."""

    collectives = (1, 0)
    profiled: ClassVar[tuple[Profiled, ...]] = (
        Profiled(
            unit=EMBEDDING,
            sizes=lambda shape: (shape.shard_vocab,),
            place=("logits",),
            table_elements=lambda shape: shape.shard_vocab * shape.hidden,
            held_elements=lambda shape: 4 * shape.hidden,
        ),
    )

    def operations(self, shape: Shape, e: int) -> Operations:
        """Count the look-up, the dropout and the scaling."""
        tokens, hidden = shape.all_tokens(self.tokens), self.block.hidden
        own = shape.own_tokens(self.tokens)
        looked_up, dropped = tokens * hidden * 2 * e, own * hidden * (2 * e + 1)
        scaled: tuple[Elementwise, ...] = ()
        if self.model.architecture.embedding_scale != 1:
            each = own * hidden * 2 * e
            scaled = (moving(each, backward=each),)
        # For every token, a row of the table's fp32 gradient is read and written.
        backward = looked_up + tokens * hidden * 8
        return Operations.of(
            elementwise=(
                moving(looked_up, "embedding", hidden, backward=backward),
                moving(dropped, kernels=2, backward=dropped),
                *scaled,
            )
        )

    def parameters(self, tp: Ints) -> Floats:
        """Return the table's shard and the position table, which is replicated."""
        return self.block.hidden * (vocab_shard(self.model, tp) + self.model.positions)

    def table_elements(self, tp: Ints) -> Floats:
        """Return the elements of the table's shard, all of which have a gradient."""
        return self.block.hidden * vocab_shard(self.model, tp)

    def kept_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Return the bytes of token ids and the dropout mask."""
        own = shape.own_tokens(self.tokens)
        return self.input_bytes(shape, e) + own * self.block.hidden * self.mask

    def input_bytes(self, shape: Shape, e: int) -> Floats:
        """Return the bytes of token ids."""
        return shape.all_tokens(self.tokens) * TOKEN_ID_BYTES
