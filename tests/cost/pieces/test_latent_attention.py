"""Latent attention against formulas written out here (DeepSeek-V2, section 2.1)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetopt.cost.pieces.kinds import pieces_of
from hetopt.cost.pieces.latent_attention import LatentAttention
from hetopt.cost.pieces.piece import Exchange
from hetopt.cost.recompute import activation_bytes
from hetopt.cost.shapes import Shape
from hetopt.problem.model.kinds import LAYER
from hetopt.problem.model.latent import Latent
from hetopt.problem.model.model import Model
from hetopt.problem.training.training import Training

TRAINING = Training(global_batch=8, seq_len=4096)
V3, LITE = Model.of("deepseek-v3"), Model.of("deepseek-v2-lite")


def attention(model: Model) -> LatentAttention:
    piece = pieces_of(model, TRAINING, LAYER)[0]
    assert isinstance(piece, LatentAttention)
    return piece


def sizes(model: Model) -> Latent:
    assert model.latent is not None
    return model.latent


@pytest.mark.parametrize("model", [V3, LITE], ids=["v3", "lite"])
def test_parameters_are_those_of_the_paper(model: Model) -> None:
    own, h, heads = sizes(model), model.hidden, model.heads
    query = heads * (own.qk_dim + own.rope_dim)
    expected = own.q_lora * (h + query) if own.q_lora else h * query
    expected += own.kv_lora * (h + heads * (own.qk_dim + own.v_dim))
    expected += h * own.rope_dim + heads * own.v_dim * h
    norms = h + own.q_lora + own.kv_lora
    found = attention(model).parameters(np.array([1]))
    assert found == pytest.approx(expected + norms)


def test_tensor_ranks_have_the_down_projections_whole() -> None:
    own, piece = sizes(V3), attention(V3)
    one, eight = piece.parameters(np.array([1, 8]))
    narrow = own.q_lora + own.kv_lora
    whole = V3.hidden * (narrow + own.rope_dim) + narrow + V3.hidden
    assert eight == pytest.approx(whole + (one - whole) / 8)


def test_flops_are_of_wide_queries_and_narrow_values() -> None:
    own, heads, s = sizes(V3), V3.heads, TRAINING.seq_len
    work = attention(V3).operations(Shape.of([(1, 1, 1)]), 2)
    width = own.qk_dim + own.rope_dim + own.v_dim
    # Causal: half of the pairs, 2 FLOPs per pair and element.
    assert work.attention_flops == pytest.approx(heads * s * s * width)
    dense = sum(float(part.flops[0]) for part in work.multiplications)
    norms = V3.hidden + own.q_lora + own.kv_lora
    parameters = attention(V3).parameters(np.array([1]))[0] - norms
    assert dense == pytest.approx(2 * s * parameters)


def test_what_is_kept_is_queries_keys_values_and_narrow_vectors() -> None:
    own, h, heads, s = sizes(V3), V3.hidden, V3.heads, TRAINING.seq_len
    qk = heads * (own.qk_dim + own.rope_dim)
    value = heads * own.v_dim
    narrow = own.q_lora + own.kv_lora
    # Input and normed input; narrow vectors and normed ones; queries, keys,
    # values, results; a log-sum-exp of 4 bytes.
    each = 4 * h + 4 * narrow + 2 * (2 * qk + 2 * value) + 4 * heads
    found = attention(V3).kept_bytes(Shape.of([(1, 1, 1)]), 2, "none")
    assert found == pytest.approx(s * each)


def test_ranks_gather_narrow_vectors() -> None:
    own, s = sizes(V3), TRAINING.seq_len
    assert attention(V3).exchanges == (
        Exchange(s, V3.hidden, 1, 0),
        Exchange(s, own.q_lora + own.kv_lora, 1, 1),
        Exchange(s, own.rope_dim, 1, 0),
    )
    # Queries made of tokens need these gathered.
    assert attention(LITE).exchanges[0] == Exchange(s, LITE.hidden, 2, 1)


def test_context_ranks_pass_on_keys_and_values() -> None:
    own = sizes(V3)
    passed = attention(V3).ring_bytes(Shape.of([(1, 4, 2)]), 2)
    width = V3.heads / 2 * (own.qk_dim + own.rope_dim + own.v_dim)
    assert passed == pytest.approx(TRAINING.seq_len / 4 * width * 2)


def test_a_layer_keeps_less_when_its_heads_are_split() -> None:
    rows = Shape.of([(1, 1, 1), (1, 1, 8)])
    one, eight = activation_bytes(V3, TRAINING, LAYER, rows, "selective")
    assert eight < one / 7


def test_sinks_are_a_number_for_each_head() -> None:
    model = Model.of("gpt-oss-20b")
    plain = replace(
        model, architecture=replace(model.architecture, attention_sinks=False)
    )
    kind = model.units[1]
    with_sinks, without = (
        pieces_of(each, TRAINING, kind)[0].parameters(np.array([1, 4]))
        for each in (model, plain)
    )
    assert with_sinks - without == pytest.approx([64, 16])
