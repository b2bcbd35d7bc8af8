"""FLOPs of an iteration as model FLOPs utilisation (MFU) counts them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.cost.pieces.attention import causal_keys
from hetopt.cost.shapes import Shape, query_width
from hetopt.cost.units import unit_operations

if TYPE_CHECKING:
    from hetopt.problem.model.model import Model
    from hetopt.problem.training.training import Training


def iteration_flops(model: Model, training: Training) -> float:
    """Return the FLOPs of one iteration over all lengths; see ``model_flops``."""
    return sum(
        model_flops(model, replace(training.of_length(tokens), global_batch=number))
        for tokens, number in training.sequences.items()
    )


def model_flops(model: Model, training: Training) -> float:
    """Return the FLOPs of one iteration, both passes, without recomputation.

    For a decoder-only model ``B s 6 [L (h f e + 2 h^2 (1 + g/a)) + h V] + 6 B s^2 h L``
    with e = 3 for SwiGLU and 2 otherwise (Megatron-LM's count), written with head
    widths so that it holds if heads * head_dim is not the hidden size; layers with a
    sliding window count the pairs within it, routed ones the experts that a token is
    sent to. For other models three times the multiplications of the forward pass.
    """
    if not model.is_decoder_only:
        shape = Shape.of([(training.global_batch, 1, 1)])
        forward = 0.0
        for kind in model.units:
            work = unit_operations(model, training, kind, shape)
            forward += sum(float(part.flops[0]) for part in work.multiplications)
            forward += float(work.attention_flops[0])
        return 3 * forward
    attention, core_width = _attention_elements(model)
    elements = model.hidden * model.vocab
    for routed in model.routed:
        elements += attention + _mlp_elements(model, routed)
    each = 2 * model.hidden**2 + attention + _mlp_elements(model, model.routed[-1])
    elements += model.predictions * (each + model.hidden * model.vocab)
    window = model.architecture.reach or 0
    chunks = model.architecture.attention_chunk is not None
    windows = (*model.architecture.windows(model.layers), *(False,) * model.predictions)
    core = core_width * sum(
        causal_keys(training.seq_len, window, chunks=chunks)
        if has_window
        else causal_keys(training.seq_len, 0)
        for has_window in windows
    )
    return 6.0 * training.global_batch * training.seq_len * (elements + core)


def _attention_elements(model: Model) -> tuple[int, int]:
    """Return a layer's matrix elements, and those of queries and values per token."""
    hidden, query, latent = model.hidden, query_width(model), model.latent
    if latent is None:
        kv = model.kv_heads * model.head_dim
        return 2 * hidden * (query + kv), 2 * query
    value = model.heads * latent.v_dim
    keys_and_values = model.heads * latent.qk_dim + value
    narrow = latent.q_lora + latent.kv_lora + latent.rope_dim
    made = (latent.q_lora or hidden) * query + latent.kv_lora * keys_and_values
    return hidden * (narrow + value) + made, query + value


def _mlp_elements(model: Model, routed: bool) -> int:
    """Return the elements of the matrices that an MLP multiplies a token with."""
    each = model.hidden * (3 if model.gated else 2)
    experts = model.experts
    if experts is None or not routed:
        return each * model.ffn
    wide = experts.per_token * experts.ffn + experts.shared_ffn
    return each * wide + model.hidden * (experts.number + experts.shared_gate)
