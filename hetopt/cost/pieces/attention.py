"""Attention of tokens to those of their own sequence, or window."""

from __future__ import annotations

from typing import ClassVar

from hetopt.cost.pieces.operations import AttentionCore, Operations, moving, multiply
from hetopt.cost.pieces.piece import Again, Piece
from hetopt.cost.pieces.profiled import COPIES, Profiled
from hetopt.cost.shapes import Floats, Ints, Shape
from hetopt.cost.shard_shape import ATTENTION_CORE, ShardShape
from hetopt.problem.model.kinds import ATTENTION
from hetopt.problem.training.choices import Recompute

#: Bytes of a fused core's log-sum-exp of a row.
LOG_SUM_EXP_BYTES = 4


def score_bytes(
    piece: Piece, keys: int, tp: Ints, e: int, recompute: Recompute
) -> Floats | float:
    """Return the bytes per token that the softmax keeps.

    Fused: a log-sum-exp per head. Unfused, for every score: the softmax, with dropout
    its mask and result (Korthikanti et al., section 4: ``5 a s^2 b``), and a cap's
    tangent. Nothing if it is recomputed.

    Parameters
    ----------
    keys
        Tokens that a token attends to.
    """
    if recompute != "none":
        return 0.0
    caps = piece.model.architecture.attention_softcap is not None
    drops = piece.model.architecture.attention_dropout > 0
    unfused = (e + drops * (e + 1) + caps * e) * keys
    each = LOG_SUM_EXP_BYTES if piece.kernels.fused_attention else unfused
    return each * piece.block.heads / tp


def result_element(piece: Piece, e: int, recompute: Recompute) -> float:
    """Return the bytes of an element of the core's result, the next matrix's input.

    A fused core needs its result in its own backward pass, unless it runs again.
    """
    if piece.kernels.fused_attention and recompute == "none":
        return e + piece.copied_element
    return piece.input_element(e)


def passing_score_bytes(
    piece: Piece, keys: int, tp: Ints, e: int, recompute: Recompute
) -> Floats | float:
    """Return the bytes per token of unfused scores that backward holds temporarily.

    They are two gradients, and under selective recomputation the scores themselves.
    """
    if piece.kernels.fused_attention:
        return 0.0
    again = score_bytes(piece, keys, tp, e, "none") if recompute == "selective" else 0.0
    return 2 * e * keys * piece.block.heads / tp + again


def score_traffic(piece: Piece, keys: int, tp: Ints, e: int) -> Floats | float:
    """Return the bytes per token that unfused operations move forward, without inputs.

    Scores are written, scaled and masked, normalised, dropped out (with a mask of one
    byte) and read again; a cap divides them, takes the tangent and multiplies.
    """
    if piece.kernels.fused_attention:
        return 0.0
    caps = piece.model.architecture.attention_softcap is not None
    return (8 * e + 1 + 6 * e * caps) * keys * piece.block.heads / tp


def causal_keys(tokens: int, window: int, *, chunks: bool = False) -> float:
    """Return the mean number of tokens that a token of a sequence attends to.

    Parameters
    ----------
    window
        Width of a sliding window, or of a chunk; 0 for neither.
    chunks
        Whether ``window`` is the width of a chunk.
    """
    width = min(window or tokens, tokens)
    if chunks:
        # Half of the token's own chunk; the last chunk may be shorter.
        whole, rest = divmod(tokens, width)
        return (whole * width * width + rest * rest) / (2 * tokens)
    return width - width * width / (2 * tokens)


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
    """Return the bytes of whole keys and values, and of the mask, if cp > 1."""
    if shape.cp == 1:
        return 0
    whole = shape.microbatch * shape.seq_len * 2 * shape.shard_kv * COPIES
    mask = shape.seq_len * (shape.seq_len // (2 * shape.cp))
    return whole * element + mask * (1 + element)


_CORE_PLACE = ("microbatch", "seq_len", "query")


class Attention(Piece):
    """Norms, queries, keys and values, rotary embedding, core, output, residual."""

    collectives = (2, 1)
    profiled: ClassVar[tuple[Profiled, ...]] = (
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
        """Count two multiplications, the core and element-wise kernels."""
        block, hidden = self.block, self.block.hidden
        tokens, own = shape.all_tokens(self.tokens), shape.own_tokens(self.tokens)
        query, kv = self.query(shape.tp), self.kv(shape.tp)
        whole_tokens = tokens * shape.cp
        # QK^T and PV are 2 FLOPs each per pair.
        keys, norms = self._keys, self.norms_before + self.norms_after
        pairs = tokens * self._computed_keys
        moved = tokens * score_traffic(self, keys, shape.tp, e)
        moved = moved + e * (2 * tokens * query + 2 * whole_tokens * kv)
        # Rotary embedding: queries and keys read and written, each by a kernel.
        rotary = moving(
            tokens * 2 * e * (query + kv), "rope", (query + kv) / 2, kernels=2
        )
        elementwise = [*self.norms(own, e, norms), self.residual(own, e)]
        if self._turns:
            elementwise.insert(norms, rotary)
        if self._qk_norms:
            elementwise.append(moving(tokens * 2 * e * (query + kv), kernels=2))
        if block.window:
            # Tokens are reordered by window, and back.
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
        """Return matrices and biases, split by tp; norms and last bias replicated."""
        hidden, query = self.block.hidden, self.query(tp)
        inner = query + 2 * self.kv(tp)
        norms = self.norm_parameters(tp, self.norms_before + self.norms_after)
        weights = hidden * (inner + query) + norms
        qkv_bias, out_bias, _ = self.model.biases
        weights = weights + qkv_bias * inner + float(out_bias * hidden)
        weights = weights + self._sinks(tp)
        match self.model.architecture.qk_norm:
            case "none" | "l2":
                return weights
            case "head":
                return weights + 2 * self.block.head_dim * self.norm_vectors
            case "all":
                return weights + (query + self.kv(tp)) * self.norm_vectors

    def kept_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Return the bytes of inputs of norm, matrices and core, and a mask."""
        tokens, own = shape.all_tokens(self.tokens), shape.own_tokens(self.tokens)
        query, kv = self.query(shape.tp), self.kv(shape.tp)
        core = e * (query + 2 * kv + self._qk_norms * (query + kv))
        core = core + query * result_element(self, e, recompute)
        core = core + score_bytes(self, self._keys, shape.tp, e, recompute)
        norms = self.norms_before + self.norms_after
        each = norms * e + self.input_element(e) + self.mask
        return own * self.block.hidden * each + tokens * core

    def again(self, shape: Shape, e: int) -> dict[str, Again]:
        """Return the norm; ``kept_bytes`` knows the core."""
        return self.norm_again(shape, e, self.input_element(e))

    def working_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Return the bytes of inputs, gradients and unfused scores."""
        scores = passing_score_bytes(self, self._keys, shape.tp, e, recompute)
        held = super().working_bytes(shape, e, recompute)
        return held + shape.all_tokens(self.tokens) * scores

    @property
    def _keys(self) -> int:
        """Tokens that a token attends to, before causality halves them."""
        return self.block.window or self.tokens

    @property
    def _computed_keys(self) -> float:
        """Keys per token whose scores are computed.

        A fused kernel leaves out pairs by causality and a sliding window: of ``s``
        tokens each attends to half of ``s``, with a window of ``w`` to
        ``w - w^2 / 2s``, within chunks of ``w`` to half of ``w``. Other kernels compute
        all pairs and mask some.
        """
        keys = self._keys
        if self.block.attention != "causal" or not self.kernels.fused_attention:
            return float(keys)
        chunks = self.model.architecture.attention_chunk is not None
        return causal_keys(keys, self.window, chunks=chunks and self.window > 0)

    @property
    def _turns(self) -> bool:
        """Whether this layer has rotary embeddings."""
        return self.window > 0 or self.model.architecture.rotary_full_layers

    @property
    def _qk_norms(self) -> int:
        """Number of norms of queries, and of keys: 0 or 1."""
        kind = self.model.architecture.qk_norm
        return int(kind != "none" and (kind != "l2" or self._turns))

    def _sinks(self, tp: Ints) -> Floats:
        """Return the number of attention sinks on a device: one per head, if any."""
        return self.model.architecture.attention_sinks * self.block.heads / tp

    def gradient_width(self, tp: Ints) -> Floats:
        """Return the width of queries, keys and values."""
        return self.query(tp) + 2 * self.kv(tp)

    def ring_bytes(self, shape: Shape, e: int) -> Floats:
        """Return the bytes of a device's keys and values."""
        return shape.all_tokens(self.tokens) * 2 * self.kv(shape.tp) * e
