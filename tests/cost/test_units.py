from __future__ import annotations

import numpy as np
import pytest

from hetopt.cost.model_flops import model_flops
from hetopt.cost.recompute import activation_bytes
from hetopt.cost.sources.roofline import Roofline
from hetopt.cost.units import unit_operations, unit_parameters
from hetopt.problem.model.kinds import ATTENTION, BLOCKS, EMBEDDING, HEAD, LAYER, MLP_UP
from hetopt.problem.model.model import Model
from hetopt.problem.training.choices import Recompute
from hetopt.problem.training.training import Training
from tests.cost.making import make_cluster, make_model, query, shape

TRAINING = Training(global_batch=8, seq_len=2048)
GPT = make_model(gated=False, norm="layer", ffn=16384)
GROUPED = make_model(kv_heads=8)


@pytest.mark.parametrize("model", [make_model(), GPT, GROUPED])
@pytest.mark.parametrize("row", [(1, 1, 1), (4, 2, 8), (2, 4, 2)])
def test_layer_is_the_sum_of_its_blocks(
    model: Model, row: tuple[int, int, int]
) -> None:
    rows = shape(row)
    times = Roofline().shard_times(
        query(model, TRAINING, make_cluster(), (LAYER, *BLOCKS), rows)
    )
    for seconds in (
        times.forward_s,
        times.backward_s,
        times.attention_core_s,
        times.attention_core_backward_s,
    ):
        assert seconds[0, 0] == pytest.approx(seconds[0, 1:].sum(), rel=1e-12)
    parameters = [unit_parameters(model, kind, rows.tp)[0] for kind in (LAYER, *BLOCKS)]
    assert parameters[0] == pytest.approx(sum(parameters[1:]), rel=1e-12)
    policies: tuple[Recompute, ...] = ("none", "selective")
    for policy in policies:
        kept = [
            activation_bytes(model, TRAINING, kind, rows, policy)[0]
            for kind in (LAYER, *BLOCKS)
        ]
        assert kept[0] == pytest.approx(sum(kept[1:]), rel=1e-12)


def test_parameters_of_llama_7b() -> None:
    model = make_model()
    one = np.array([1])
    total = (
        32 * unit_parameters(model, LAYER, one)
        + unit_parameters(model, EMBEDDING, one)
        + unit_parameters(model, HEAD, one)
    )
    assert total[0] == 6_738_415_616


def test_parameters_split_by_tp_but_norms_are_replicated() -> None:
    whole, half = unit_parameters(make_model(), LAYER, np.array([1, 2]))
    assert half == (whole - 2 * 4096) / 2 + 2 * 4096


def test_key_value_heads_are_replicated_beyond_their_number() -> None:
    eight, sixteen = unit_parameters(GROUPED, ATTENTION, np.array([8, 16]))
    kv = 2 * 4096 * 128
    assert eight == 2 * 4096 * 4096 / 8 + kv + 4096
    assert sixteen == 2 * 4096 * 4096 / 16 + kv + 4096


def test_context_parallelism_splits_tokens_and_only_attention_sees_all() -> None:
    whole = unit_operations(make_model(), TRAINING, LAYER, shape((1, 1, 1)))
    split = unit_operations(make_model(), TRAINING, LAYER, shape((1, 4, 1)))
    for before, after in zip(whole.multiplications, split.multiplications, strict=True):
        assert after.flops[0] == before.flops[0] / 4
    # Causal: half of s^2 pairs, 4 FLOPs each per element of the query, over cp.
    assert split.attention_flops[0] == 4 * (2048**2 / 2) * 4096 / 4
    # Whole keys and values are read, however the queries are split.
    assert split.attention_bytes[0] == 2 * (2 * 512 * 4096 + 2 * 2048 * 4096)


def test_model_flops_is_the_published_formula() -> None:
    b, s, layers, h, f, v = 8, 2048, 32, 4096, 11008, 32000
    dense = layers * (h * f * 3 + 2 * h * h * (1 + 8 / 32)) + h * v
    expected = b * s * 6 * dense + 6 * b * s * s * h * layers
    assert model_flops(GROUPED, TRAINING) == pytest.approx(expected, rel=1e-12)


def test_model_flops_are_three_forward_passes_of_the_operations() -> None:
    model = make_model()
    rows = shape((8, 1, 1))
    forward = 0.0
    for kind in model.units:
        work = unit_operations(model, TRAINING, kind, rows)
        forward += sum(m.flops[0] for m in work.multiplications)
        forward += work.attention_flops[0]
    assert model_flops(model, TRAINING) == pytest.approx(3 * forward, rel=1e-12)


def test_gelu_has_two_matrices() -> None:
    work = unit_operations(GPT, TRAINING, MLP_UP, shape((1, 1, 1)))
    assert work.multiplications[0].flops[0] == 2 * 2048 * 4096 * 16384
