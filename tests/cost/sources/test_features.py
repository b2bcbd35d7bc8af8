"""Shards, and what a forest learns of them."""

from __future__ import annotations

import numpy as np
import pytest

from hetopt.cost.forests.forest import Forest, Samples
from hetopt.cost.profiles.units import place_columns
from hetopt.cost.shard_shape import ATTENTION_CORE, UNITS
from hetopt.cost.sources.features import (
    SETTINGS,
    known_samples,
    samples_of,
    shards_of,
    shards_of_rows,
)
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
    assert all(np.isfinite(part.features).all() for part in samples_of(shards))


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


def test_passes_of_a_unit_are_learnt() -> None:
    rows = list(make_profile(("layer",), noise=0.0).rows)
    samples, times = known_samples("layer", rows)
    assert pytest.approx(seconds("layer", rows)) == times.reshape(2, -1).T
    forest = Forest.grown(samples, times, SETTINGS)
    assert np.abs(forest.predict_s(samples) / times - 1).mean() < 0.1


def test_a_forest_leaves_the_range_it_has_seen() -> None:
    samples, times = known_samples(
        "layer", list(make_profile(("layer",), noise=0.0).rows)
    )
    largest = [make_row("layer", hidden=4096, ffn=12288, head_dim=512, seq_len=512)]
    true = seconds("layer", largest)[0]
    assert true.min() > times.max() / 2
    wanted = Samples.joined(samples_of(shards_of_rows("layer", largest)))
    found = Forest.grown(samples, times, SETTINGS).predict_s(wanted)
    assert found == pytest.approx(true, rel=0.1)


def test_the_same_rows_give_the_same_bits() -> None:
    samples, times = known_samples("head", list(make_profile(("head",)).rows))
    first, again = (
        Forest.grown(samples, times, SETTINGS).predict_s(samples) for _ in "12"
    )
    assert first.tobytes() == again.tobytes()
    nothing = samples.at(np.array([], dtype=np.int64))
    assert not len(Forest.grown(samples, times, SETTINGS).predict_s(nothing))


@pytest.mark.parametrize("unit", UNITS)
def test_shards_that_coincide_lie_in_one_place(unit: str) -> None:
    one = make_row(unit, heads=8, kv_heads=8, ffn=1536, vocab=8000, tp=2, seq_len=256)
    other = make_row(unit, heads=4, kv_heads=4, ffn=768, vocab=4000, tp=1)
    place = shards_of_rows(unit, [one, other]).place()
    assert place.shape == (2, len(place_columns(unit)))
    assert place[0] == pytest.approx(place[1])
