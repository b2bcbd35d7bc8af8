"""Features, the forest and its targets."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from hetopt.cost.profiles.units import place_columns
from hetopt.cost.shard_shape import ATTENTION_CORE, UNITS
from hetopt.cost.sources.features import (
    FEATURE_SETS,
    features,
    shards_of,
    shards_of_rows,
)
from hetopt.cost.sources.forest import FeatureSet, Forest, ForestParams, Target
from hetopt.cost.units import unit_operations
from hetopt.problem.training.training import Training
from tests.cost.making import make_model, shape
from tests.cost.profiling import make_profile, make_row, seconds

TRAINING = Training(global_batch=8, seq_len=2048)


@pytest.mark.parametrize("unit", UNITS)
def test_shards_count_the_work_of_operations(unit: str) -> None:
    model, rows = make_model(kv_heads=4), shape((1, 1, 1), (2, 2, 8))
    shards = shards_of(unit, model, TRAINING, rows)
    kind = "attention" if unit == ATTENTION_CORE else unit
    work = unit_operations(model, TRAINING, kind, rows)
    assert shards.column("attention_flops") == pytest.approx(work.attention_flops)
    dense = sum(part.flops for part in work.multiplications)
    expected = 0 if unit == ATTENTION_CORE else dense
    assert shards.column("dense_flops") == pytest.approx(expected)
    assert np.isfinite(shards.place()).all()
    assert (shards.flops() > 0).all()
    for which in FEATURE_SETS:
        assert np.isfinite(features(shards, which)).all()


def test_rows_and_queries_of_one_shape_look_the_same() -> None:
    rows = [
        make_row("layer", cp=2, tp=2, microbatch=3),
        make_row("layer", hidden=1024, dtype="fp16", gated=False),
    ]
    model = make_model(hidden=512, heads=8, kv_heads=8, head_dim=64, ffn=1536)
    model_of_rows = shards_of_rows("layer", rows)
    queried = shards_of(
        "layer",
        model,
        Training(global_batch=1, seq_len=256),
        shape((3, 2, 2)),
    )
    found = {
        name
        for name, values in model_of_rows.columns.items()
        if values[0] != queried.column(name)[0]
    }
    assert found == {"logits"}
    assert model_of_rows.column("fp16").tolist() == [0, 1]
    assert model_of_rows.column("gated").tolist() == [1, 0]


def test_table_6_as_printed() -> None:
    row = make_row("layer", cp=2, tp=4, microbatch=2, kv_heads=4)
    found = features(shards_of_rows("layer", [row]), "table-6")[0]
    s, h, heads, c, t, b, e = 256, 512, 8, 2, 4, 2, 2
    u = b * s * h
    flops = (24 * u * h + 4 * u * s) / (c * t)
    memory = (12 * h * h + 8 * u + 4 * b * s * heads) * e / (c * t)
    tensor, context = 2 * (t - 1) * u * e / (c * t), 6 * (c - 1) * u * e / (c * t)
    for value in (s, h, heads, 64, c, t, b, u, flops, memory, tensor, context):
        assert np.log2(value) in found
    assert np.log2(flops / memory) in found
    assert np.log2(flops / (tensor + context)) in found


@pytest.mark.parametrize("target", get_args(Target))
@pytest.mark.parametrize("which", get_args(FeatureSet))
def test_every_target_is_learnt(target: Target, which: FeatureSet) -> None:
    rows = list(make_profile(("layer",), noise=0.0).rows)
    shards, times = shards_of_rows("layer", rows), seconds("layer", rows)
    params = ForestParams(target=target, features=which, trees=30)
    predicted = Forest(shards, times, params).predict(shards)
    assert np.abs(predicted.seconds / times - 1).mean() < 0.15
    assert (predicted.low_s <= predicted.high_s).all()
    assert (predicted.low_s > 0).all()


def test_a_forest_of_time_per_work_leaves_the_range_it_has_seen() -> None:
    rows = list(make_profile(("layer",), noise=0.0).rows)
    shards, times = shards_of_rows("layer", rows), seconds("layer", rows)
    largest = [make_row("layer", hidden=4096, ffn=12288, head_dim=512, seq_len=512)]
    true = seconds("layer", largest)
    assert true.min() > times.max() / 2

    def error(target: Target) -> float:
        forest = Forest(shards, times, ForestParams(target=target))
        predicted = forest.predict(shards_of_rows("layer", largest)).seconds
        return float(np.abs(predicted / true - 1).max())

    assert error("log-time-per-work") < 0.1
    assert error("log-time-per-work") < error("log-latency")


def test_the_same_rows_give_the_same_bits() -> None:
    rows = list(make_profile(("head",)).rows)
    shards, times = shards_of_rows("head", rows), seconds("head", rows)
    params = ForestParams(trees=10)
    first, again = (Forest(shards, times, params).predict(shards) for _ in "12")
    assert first.seconds.tobytes() == again.seconds.tobytes()
    assert Forest(shards, times, params).predict(shards.select(np.array([], int)))


@pytest.mark.parametrize("unit", UNITS)
def test_shards_that_coincide_lie_in_one_place(unit: str) -> None:
    one = make_row(unit, heads=8, kv_heads=8, ffn=1536, vocab=8000, tp=2, seq_len=256)
    other = make_row(unit, heads=4, kv_heads=4, ffn=768, vocab=4000, tp=1)
    place = shards_of_rows(unit, [one, other]).place()
    assert place.shape == (2, len(place_columns(unit)))
    assert place[0] == pytest.approx(place[1])
