"""What a model computes beside its sizes is paid for where it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hetopt.cost.build import build_table
from hetopt.cost.model_flops import model_flops
from hetopt.cost.pieces.attention import causal_keys
from hetopt.cost.recompute import activation_bytes
from hetopt.cost.units import unit_operations, unit_parameters
from hetopt.problem.model.architecture import Architecture
from hetopt.problem.model.kinds import HEAD, LAYER, LAYER_WINDOW
from hetopt.problem.model.model import Model
from hetopt.problem.training.training import Training
from tests.cost.making import make_model, shape
from tests.with_configs import NAMES, problem_of

#: Parameters of transformers 4.57.3's own modules, made of these files without memory.
COUNTED = {
    "gemma-2-27b": 27227128320,
    "gemma-2-9b": 9241705984,
    "gemma-3-1b": 999885952,
    "glm-4-9b-0414": 9400279040,
    "glm-4-9b": 9399951360,
    "llama-3.1-70b": 70553706496,
    "llama-3.1-8b": 8030261248,
    "llama-3.2-1b": 1235814400,
    "mistral-7b-v0.3": 7248023552,
    "mistral-7b-windowed": 7241732096,
    "mistral-small-24b": 23572403200,
    "olmo-2-7b": 6888624128,
    "phi-3-mini": 3821079552,
    "phi-4": 14659507200,
    "qwen2.5-0.5b": 494032768,
    "qwen2.5-7b": 7615616512,
    "qwen3-0.6b": 596049920,
    "qwen3-8b": 8190735360,
    "smollm3-3b": 3075098624,
}
TRAINING = Training(global_batch=8, seq_len=512)
ONE = shape((2, 1, 1))


def with_architecture(**fields: Any) -> Model:
    return replace(make_model(), architecture=Architecture(**fields))


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_those_of_the_library(name: str) -> None:
    model = problem_of(name).model
    units = [unit_parameters(model, kind, np.array([1])) for kind in model.units]
    table = model.vocab * model.hidden if model.tied else 0
    assert sum(float(unit[0]) for unit in units) - table == COUNTED[name]


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_parameters_of_a_device(tp: int) -> None:
    """Norms and the bias behind a sum are on every device, others in parts."""

    def more(**fields: Any) -> float:
        wanted, plain = with_architecture(**fields), make_model()
        found, without = (
            float(unit_parameters(model, LAYER, np.array([tp]))[0])
            for model in (wanted, plain)
        )
        return found - without

    hidden, ffn = 4096, 11008
    assert more(qkv_bias=True) == 3 * hidden / tp
    assert more(out_bias=True) == hidden
    assert more(mlp_bias=True) == 2 * ffn / tp + hidden
    assert more(qk_norm="head") == 2 * 128
    assert more(qk_norm="all") == 2 * hidden / tp
    assert more(norm_place="both") == 2 * hidden
    assert more(norm_place="after") == 0
    assert more(activation="gelu", norm_eps=1e-6, rotary_base=5e5) == 0


def test_activations() -> None:
    def more(kind: str = LAYER, **fields: Any) -> float:
        found, without = (
            float(activation_bytes(model, TRAINING, kind, ONE, "none")[0])
            for model in (with_architecture(**fields), make_model())
        )
        return found - without

    tokens, hidden = 2 * 512, 4096
    assert more(norm_place="both") == 2 * tokens * hidden * 2
    assert more(norm_place="after") == 0
    assert more(qk_norm="head") == tokens * 2 * hidden * 2
    assert more(HEAD, logit_softcap=30.0) == tokens * 32000 * 2
    assert more(qkv_bias=True, rotary_base=5e5, attention_scale=0.1) == 0
    unfused = replace(TRAINING, attention="unfused")
    found, without = (
        float(activation_bytes(model, unfused, LAYER, ONE, "none")[0])
        for model in (with_architecture(attention_softcap=50.0), make_model())
    )
    assert found - without == tokens * 512 * 32 * 2


@pytest.mark.parametrize(
    ("tokens", "window"), [(512, 100), (512, 512), (64, 1), (9, 99)]
)
def test_keys_of_a_window_are_those_that_are_left(tokens: int, window: int) -> None:
    """As hetopt counts causal attention: half a token less than every pair."""
    pairs = sum(min(token + 1, window) for token in range(tokens))
    assert causal_keys(tokens, window) == pytest.approx(pairs / tokens, abs=0.5)
    assert causal_keys(tokens, 0) == tokens / 2


@pytest.mark.parametrize(
    ("tokens", "chunk"), [(8, 8), (8, 4), (10, 4), (3, 8), (512, 64)]
)
def test_chunks_are_counted_token_by_token(tokens: int, chunk: int) -> None:
    pairs = sum(token % chunk + 1 for token in range(tokens))
    found = causal_keys(tokens, chunk, chunks=True)
    assert found == pytest.approx(pairs / tokens, abs=0.5)


def test_layers_with_chunks_attend_within_them() -> None:
    model = with_architecture(
        attention_chunk=64, full_layers=(3, 31), rotary_full_layers=False
    )
    assert model.units.count(LAYER_WINDOW) == 30
    full, within = (
        unit_operations(model, TRAINING, kind, ONE) for kind in (LAYER, LAYER_WINDOW)
    )
    share = float((within.attention_flops / full.attention_flops)[0])
    assert share == pytest.approx(64 / 512)
    # What attends to all turns neither queries nor keys.
    turned = float(np.sum(within.elementwise_bytes - full.elementwise_bytes))
    query_and_keys = 2 * 512 * 2 * 2 * (4096 + 4096)
    assert turned == query_and_keys
    normed = with_architecture(
        attention_chunk=64, full_layers=(3,), rotary_full_layers=False, qk_norm="l2"
    )
    for kind, norms in ((LAYER, 0), (LAYER_WINDOW, query_and_keys)):
        one, other = (
            unit_operations(each, TRAINING, kind, ONE) for each in (normed, model)
        )
        assert np.sum(one.elementwise_bytes - other.elementwise_bytes) == norms
    assert unit_parameters(normed, LAYER, ONE.tp) == unit_parameters(
        model, LAYER, ONE.tp
    )
    # Sequences no longer than a chunk are whole.
    wide = with_architecture(attention_chunk=512)
    assert model_flops(wide, TRAINING) == model_flops(make_model(), TRAINING)
    lost = model_flops(make_model(), TRAINING) - model_flops(model, TRAINING)
    alone = model_flops(make_model(), TRAINING) - model_flops(
        with_architecture(attention_chunk=64), TRAINING
    )
    assert lost == pytest.approx(alone * 30 / 32)


def test_layers_without_rotary_embedding_move_less_and_compute_the_same() -> None:
    model = with_architecture(full_layers=(3, 31), rotary_full_layers=False)
    plain, turned = make_model(), model.units.count(LAYER_WINDOW)
    assert (model.units.count(LAYER), turned) == (2, 30)
    without, has = (
        unit_operations(model, TRAINING, kind, ONE) for kind in (LAYER, LAYER_WINDOW)
    )
    layer = unit_operations(plain, TRAINING, LAYER, ONE)
    assert np.array_equal(has.elementwise_bytes, layer.elementwise_bytes)
    assert np.sum(has.elementwise_bytes - without.elementwise_bytes) == (
        2 * 512 * 2 * 2 * (4096 + 4096)
    )
    for each in (without, has):
        assert each.attention_flops == layer.attention_flops
    assert model_flops(model, TRAINING) == model_flops(plain, TRAINING)


def test_layers_with_a_window_compute_less_attention() -> None:
    model = with_architecture(sliding_window=64, full_layers=(3, 31))
    assert model.units.count(LAYER) == 2
    assert model.units.count(LAYER_WINDOW) == 30
    assert model.units[4] == model.units[32] == LAYER
    full, windowed = (
        unit_operations(model, TRAINING, kind, ONE) for kind in (LAYER, LAYER_WINDOW)
    )
    share = float((windowed.attention_flops / full.attention_flops)[0])
    assert share == pytest.approx((64 - 64 * 64 / 1024) / 256)
    assert windowed.elementwise_bytes == full.elementwise_bytes
    plain = make_model()
    attention = model_flops(plain, TRAINING) - model_flops(
        with_architecture(sliding_window=1), TRAINING
    )
    lost = model_flops(plain, TRAINING) - model_flops(model, TRAINING)
    each = attention / (1 - causal_keys(512, 1) / 256)
    assert lost == pytest.approx(each * 30 / 32 * (1 - share))
    # A window as long as the sequence leaves nothing out.
    wide = with_architecture(sliding_window=512)
    assert model_flops(wide, TRAINING) == model_flops(plain, TRAINING)


def test_tables_have_windows_of_their_own() -> None:
    problem = problem_of("gemma-3-1b")
    table = build_table(problem)
    assert set(table.kinds) == {"embedding", LAYER_WINDOW, LAYER, HEAD}
    part = table.slices[0].clusters[0]
    local, whole = (table.kinds.index(kind) for kind in (LAYER_WINDOW, LAYER))
    assert np.all(part.forward_ns[:, local] < part.forward_ns[:, whole])
    blocks = problem_of("gemma-3-1b", granularity="block")
    assert "attention-window" in build_table(blocks).kinds
