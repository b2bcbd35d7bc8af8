"""Attention of a decoder's tokens to the whole context (T5)."""

from __future__ import annotations

import numpy as np

from hetopt.cost.pieces.attention import (
    passing_score_bytes,
    result_element,
    score_bytes,
    score_traffic,
)
from hetopt.cost.pieces.operations import AttentionCore, Operations, multiply
from hetopt.cost.pieces.piece import Piece
from hetopt.cost.shapes import Floats, Ints, Shape
from hetopt.problem.training.choices import Recompute


class CrossAttention(Piece):
    """Attention to the context, after the attention of a layer with a context."""

    collectives = (2, 1)

    def operations(self, shape: Shape, e: int) -> Operations:
        """Count three multiplications, the core and element-wise kernels."""
        hidden = self.block.hidden
        tokens, own = shape.all_tokens(self.tokens), shape.own_tokens(self.tokens)
        source = shape.all_tokens(self.source_tokens)
        query, kv = self.query(shape.tp), self.kv(shape.tp)
        flops = 4 * tokens * self.source_tokens * query
        moved = tokens * score_traffic(self, self.source_tokens, shape.tp, e)
        return Operations.of(
            multiply(tokens, hidden, query, e),
            multiply(source, self.source_hidden, 2 * kv, e),
            multiply(tokens, query, hidden, e),
            core=AttentionCore(
                flops=flops,
                traffic_bytes=moved + e * (2 * tokens * query + 2 * source * kv),
                rows=tokens * query / self.block.head_dim,
                keys=np.full(len(tokens), float(self.source_tokens)),
            ),
            elementwise=(self.norm(own, e), self.residual(own, e)),
        )

    def parameters(self, tp: Ints) -> Floats:
        """Return matrices and biases, split by tp; norm and last bias replicated."""
        hidden, query, kv = self.block.hidden, self.query(tp), self.kv(tp)
        weights = 2 * hidden * query + 2 * self.source_hidden * kv
        weights = weights + self.norm_parameters(tp)
        qkv_bias, out_bias, _ = self.model.biases
        return weights + qkv_bias * (query + 2 * kv) + float(out_bias * hidden)

    def kept_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Return the bytes that attention keeps, and those of the context.

        Every layer counts the context, although a stage keeps it once.
        """
        tokens, own = shape.all_tokens(self.tokens), shape.own_tokens(self.tokens)
        source = shape.all_tokens(self.source_tokens)
        scores = score_bytes(self, self.source_tokens, shape.tp, e, recompute)
        query, result = self.query(shape.tp), result_element(self, e, recompute)
        core = tokens * (query * (e + result) + scores)
        core = core + source * e * 2 * self.kv(shape.tp)
        each = e + self.input_element(e) + self.mask
        kept = own * self.block.hidden * each + core
        return kept + self.context_bytes(shape, e)

    def context_bytes(self, shape: Shape, e: int) -> Floats:
        """Return the bytes of a device's share of the context."""
        return shape.own_tokens(self.source_tokens) * self.source_hidden * e

    def working_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Return the bytes of inputs, gradients and unfused scores."""
        scores = passing_score_bytes(self, self.source_tokens, shape.tp, e, recompute)
        held = super().working_bytes(shape, e, recompute)
        return held + shape.all_tokens(self.tokens) * scores

    def working_elements(self, shape: Shape) -> Floats:
        """Return the elements of tokens, context, queries, keys and values."""
        tokens = shape.all_tokens(self.tokens)
        source = shape.all_tokens(self.source_tokens)
        wide = tokens * self.query(shape.tp) + source * 2 * self.kv(shape.tp)
        return self._input_elements(shape) + self._source_elements(shape) + wide
