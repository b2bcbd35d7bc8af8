"""Attention of tokens to those of their own sequence, or window."""

from __future__ import annotations

from hetopt.cost.pieces.operations import AttentionCore, Operations, moving, multiply
from hetopt.cost.pieces.piece import Piece
from hetopt.cost.pieces.profiled import COPIES, Profiled
from hetopt.cost.shapes import Floats, Ints, Shape
from hetopt.cost.shard_shape import ATTENTION_CORE, ShardShape
from hetopt.problem.model import ATTENTION
from hetopt.problem.training import Recompute


def score_bytes(
    piece: Piece, keys: int, tp: Ints, e: int, recompute: Recompute
) -> Floats | float:
    """Bytes per token that the softmax keeps.

    Fused: a log-sum-exp per head. Unfused, of every score: the softmax, the mask of the
    dropout and its result (Korthikanti et al., section 4: ``5 a s^2 b``). Nothing if
    it is recomputed.

    Parameters
    ----------
    keys
        Tokens that a token attends to.
    """
    if recompute != "none":
        return 0.0
    each = 4 if piece.kernels.fused_attention else (2 * e + 1) * keys
    return each * piece.block.heads / tp


def passing_score_bytes(
    piece: Piece, keys: int, tp: Ints, e: int, recompute: Recompute
) -> Floats | float:
    """Bytes per token of unfused scores that backward holds for a moment.

    That is two gradients, and under selective recomputation the scores themselves.
    """
    if piece.kernels.fused_attention:
        return 0.0
    again = score_bytes(piece, keys, tp, e, "none") if recompute == "selective" else 0.0
    return 2 * e * keys * piece.block.heads / tp + again


def score_traffic(piece: Piece, keys: int, tp: Ints, e: int) -> Floats | float:
    """Bytes per token that unfused operations move forward, besides their inputs.

    Scores are written, scaled and masked, normalised, dropped out (with a mask of a
    byte) and read again.
    """
    if piece.kernels.fused_attention:
        return 0.0
    return (8 * e + 1) * keys * piece.block.heads / tp


def _core_sizes(shape: ShardShape) -> tuple[int, ...]:
    return (
        shape.microbatch,
        shape.seq_len,
        shape.seq_len // shape.cp,
        shape.shard_heads,
        shape.shard_kv_heads,
        shape.head_dim,
    )


def _core_flops(shape: ShardShape) -> int:
    return 2 * shape.tokens * shape.seq_len * shape.shard_query


def _core_bytes(shape: ShardShape, element: int) -> int:
    """Whole keys and values, and the mask, that context parallelism needs."""
    if shape.cp == 1:
        return 0
    whole = shape.microbatch * shape.seq_len * 2 * shape.shard_kv * COPIES
    mask = shape.seq_len * (shape.seq_len // (2 * shape.cp))
    return whole * element + mask * (1 + element)


_CORE_PLACE = ("microbatch", "seq_len", "query")


class Attention(Piece):
    """Norm, queries, keys and values, rotary embedding, core, output, residual."""

    collectives = (2, 1)
    profiled = (
        Profiled(
            unit=ATTENTION,
            sizes=_core_sizes,
            place=_CORE_PLACE,
            matrix_elements=lambda shape: (
                shape.hidden * (2 * shape.shard_query + 2 * shape.shard_kv)
            ),
            other_flops=_core_flops,
            held_elements=lambda shape: (
                4 * shape.hidden + 5 * (shape.shard_query + 2 * shape.shard_kv)
            ),
            held_bytes=_core_bytes,
        ),
        Profiled(
            unit=ATTENTION_CORE,
            dense=False,
            sizes=_core_sizes,
            place=_CORE_PLACE,
            other_flops=_core_flops,
            held_elements=lambda shape: 3 * (shape.shard_query + 2 * shape.shard_kv),
            held_bytes=_core_bytes,
        ),
    )

    def operations(self, shape: Shape, e: int) -> Operations:
        """Count two multiplications, the core and the element-wise rest."""
        block, hidden = self.block, self.block.hidden
        tokens, own = shape.all_tokens(self.tokens), shape.own_tokens(self.tokens)
        query, kv = self.query(shape.tp), self.kv(shape.tp)
        whole_tokens = tokens * shape.cp
        # QK^T and PV are 2 FLOPs each per pair; causality halves the pairs of a fused
        # kernel, the others compute all and mask half.
        keys = self._keys
        halved = block.attention == "causal" and self.kernels.fused_attention
        pairs = tokens * keys * (0.5 if halved else 1.0)
        moved = tokens * score_traffic(self, keys, shape.tp, e)
        moved = moved + e * (2 * tokens * query + 2 * whole_tokens * kv)
        # Rotary embedding: queries and keys read and written, each by a kernel.
        rotary = moving(
            tokens * 2 * e * (query + kv), "rope", (query + kv) / 2, kernels=2
        )
        elementwise = [self.norm(own, e), rotary, self.residual(own, e)]
        if block.window:
            # Tokens are put in the order of their windows, and back.
            elementwise.append(moving(own * hidden * 4 * e, kernels=2))
        return Operations.of(
            multiply(tokens, hidden, query + 2 * kv, e),
            multiply(tokens, query, hidden, e),
            core=AttentionCore(
                flops=4 * pairs * query,
                traffic_bytes=moved,
                rows=tokens * query / block.head_dim,
                keys=pairs / tokens,
            ),
            elementwise=tuple(elementwise),
        )

    def parameters(self, tp: Ints) -> Floats:
        """Return matrices and biases by tp; the norm and the last bias replicated."""
        hidden, query = self.block.hidden, self.query(tp)
        inner = query + 2 * self.kv(tp)
        weights = hidden * (inner + query) + self.norm_parameters(tp)
        return weights + self.has_bias * (inner + hidden)

    def kept_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Return the bytes of inputs of norm, matrices and core, and a mask."""
        tokens, own = shape.all_tokens(self.tokens), shape.own_tokens(self.tokens)
        core = e * (2 * self.query(shape.tp) + 2 * self.kv(shape.tp))
        core = core + score_bytes(self, self._keys, shape.tp, e, recompute)
        return own * self.block.hidden * (2 * e + 1) + tokens * core

    def working_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Return the bytes of inputs, gradients and unfused scores."""
        scores = passing_score_bytes(self, self._keys, shape.tp, e, recompute)
        held = super().working_bytes(shape, e, recompute)
        return held + shape.all_tokens(self.tokens) * scores

    @property
    def _keys(self) -> int:
        """Tokens that a token attends to, before causality halves them."""
        return self.block.window or self.tokens

    def gradient_width(self, tp: Ints) -> Floats:
        """Return the width of queries, keys and values."""
        return self.query(tp) + 2 * self.kv(tp)

    def ring_bytes(self, shape: Shape, e: int) -> Floats:
        """Return the bytes of a device's keys and values."""
        return shape.all_tokens(self.tokens) * 2 * self.kv(shape.tp) * e
