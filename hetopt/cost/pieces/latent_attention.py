"""Multi-head latent attention (DeepSeek-V2, section 2.1), as Megatron-core computes it.

Two down-projections, replicated on every tensor rank, give latent vectors of the tokens
that a rank has between pieces. Ranks gather these, and compute the queries, keys and
values of their own heads from them. Keys are kept for backward in full width: the
rotary part, which all heads share, is copied to every head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cost.pieces.attention import (
    Attention,
    result_element,
    score_bytes,
    score_traffic,
)
from hetopt.cost.pieces.operations import AttentionCore, Operations, moving, multiply
from hetopt.cost.pieces.piece import Again, Exchange
from hetopt.cost.shapes import Floats, Ints, Shape
from hetopt.problem.model.latent import Latent
from hetopt.problem.training.choices import Recompute

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class LatentAttention(Attention):
    """Norms, down- and up-projections, rotary embedding, core, output, residual."""

    profiled = ()

    @property
    def latent(self) -> Latent:
        """Sizes of the model's latent attention."""
        latent = self.model.latent
        assert latent is not None
        return latent

    def operations(self, shape: Shape, e: int) -> Operations:
        """Count the projections, the core and element-wise kernels."""
        latent, hidden, tp = self.latent, self.block.hidden, shape.tp
        tokens, own = shape.all_tokens(self.tokens), shape.own_tokens(self.tokens)
        up, down = self._up(shape, e), []
        again: NDArray[np.bool_] | bool = shape.gathered_tokens(1) == 0
        if latent.q_lora:
            down, again = [multiply(own, hidden, latent.q_lora, e)], True
        *of_queries, of_keys = up.multiplications
        narrow = latent.q_lora + latent.kv_lora
        norms = self.norms_before + self.norms_after
        return Operations.of(
            *down,
            *of_queries,
            multiply(own, hidden, latent.kv_lora + latent.rope_dim, e, again=again),
            of_keys,
            multiply(tokens, self._value(tp), hidden, e),
            core=self._core(shape, e),
            elementwise=(
                *self.norms(own, e, norms),
                moving(own * narrow * 2 * e, kernels=1 + bool(latent.q_lora)),
                *up.elementwise,
                self.residual(own, e),
            ),
        )

    def _up(self, shape: Shape, e: int) -> Operations:
        """Return what makes queries, keys and values of a rank's heads."""
        latent, tp, tokens = self.latent, shape.tp, shape.all_tokens(self.tokens)
        query, value = self.query(tp), self._value(tp)
        turned = self.block.heads / tp * latent.rope_dim
        of_keys = query + value - turned
        turned = turned + latent.rope_dim
        return Operations.of(
            multiply(tokens, latent.q_lora or self.block.hidden, query, e),
            multiply(tokens, latent.kv_lora, of_keys, e),
            elementwise=(
                moving(tokens * 2 * e * turned, "rope", turned / 2, kernels=2),
                # Both parts of queries and of keys are concatenated, values copied.
                moving(tokens * 2 * e * (2 * query + value), kernels=3),
            ),
        )

    def again(self, shape: Shape, e: int) -> dict[str, Again]:
        """Return the norm, and what makes queries, keys and values."""
        made = self.gradient_width(shape.tp)
        freed = shape.all_tokens(self.tokens) * made * e
        norm = self.norm_again(shape, e, self.input_element(e, readers=2))
        return {**norm, "mla_up_proj": Again(self._up(shape, e), freed)}

    def _core(self, shape: Shape, e: int) -> AttentionCore:
        """Return the core, whose queries and keys are wider than values."""
        tokens, tp = shape.all_tokens(self.tokens), shape.tp
        query, value = self.query(tp), self._value(tp)
        pairs = tokens * self._computed_keys
        moved = tokens * score_traffic(self, self._keys, tp, e)
        passed = tokens * (query + value) + tokens * shape.cp * (query + value)
        return AttentionCore(
            flops=2 * pairs * (query + value),
            traffic_bytes=moved + e * passed,
            rows=tokens * self.block.heads / tp,
            keys=pairs / tokens,
        )

    def parameters(self, tp: Ints) -> Floats:
        """Return up-projections and output, split by tp; the rest is replicated."""
        latent, hidden = self.latent, self.block.hidden
        query, value = self.query(tp), self._value(tp)
        made = query + value - self.block.heads / tp * latent.rope_dim
        narrow = latent.kv_lora * (hidden + self.norm_vectors)
        narrow += latent.rope_dim * hidden + latent.q_lora * (
            hidden + self.norm_vectors
        )
        norms = self.norm_parameters(tp, self.norms_before + self.norms_after)
        split = (latent.q_lora or hidden) * query + latent.kv_lora * made
        return split + hidden * value + float(narrow) + norms + self._sinks(tp)

    def kept_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Return the bytes of inputs of norms, matrices and core, and a mask.

        The latent vectors are kept before and after their norms. Two matrices read
        the layer's input, to make queries, or their latent vectors, and those of keys.
        """
        tokens, own = shape.all_tokens(self.tokens), shape.own_tokens(self.tokens)
        query, value = self.query(shape.tp), self._value(shape.tp)
        core = e * (2 * query + value) + value * result_element(self, e, recompute)
        core = core + score_bytes(self, self._keys, shape.tp, e, recompute)
        norms = self.norms_before + self.norms_after
        vectors = self.latent.q_lora + self.latent.kv_lora
        each = norms * e + self.input_element(e, readers=2) + self.mask
        narrow = vectors * (e + self.input_element(e))
        kept = own * (self.block.hidden * each + narrow)
        return kept + tokens * core

    def gradient_width(self, tp: Ints) -> Floats:
        """Return the width of queries, keys and values."""
        return 2 * self.query(tp) + self._value(tp)

    def ring_bytes(self, shape: Shape, e: int) -> Floats:
        """Return the bytes of a device's keys and values."""
        each = self.query(shape.tp) + self._value(shape.tp)
        return shape.all_tokens(self.tokens) * each * e

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """Exchanges of latent vectors, and of tokens if queries are computed from them.

        Without sequence parallelism nothing is gathered forward, but gradients of the
        same vectors are added up backward, which moves as much.
        """
        latent, tokens = self.latent, self.tokens
        narrow = latent.q_lora + latent.kv_lora
        of_tokens = (1, 0) if latent.q_lora else (2, 1)
        return (
            Exchange(tokens, self.block.hidden, *of_tokens),
            Exchange(tokens, narrow, 1, 1),
            Exchange(tokens, latent.rope_dim, 1, 0),
        )

    def _value(self, tp: Ints) -> Floats:
        """Return the elements per token of a device's values."""
        return self.block.heads * self.latent.v_dim / tp
