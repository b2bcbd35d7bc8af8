"""Splits, baselines and scores of ``hetopt forest evaluate``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetopt.cost.profiles.file import Profile
from hetopt.cost.profiles.units import shard_key
from hetopt.cost.shard_shape import ATTENTION_CORE
from hetopt.cost.sources.baselines import (
    FittedRoofline,
    modelled_seconds,
    neighbour_seconds,
)
from hetopt.cost.sources.evaluation import (
    METHODS,
    PASSES,
    Evaluation,
    Judged,
    evaluate,
    leave_one_out,
    score_of,
    spearman,
)
from hetopt.cost.sources.features import flops_and_bytes, shards_of_rows
from hetopt.cost.sources.forest import ForestParams
from hetopt.cost.sources.roofline import Roofline
from hetopt.cost.sources.splits import (
    FOLDS,
    SPLIT_BATCH,
    SPLIT_BY_SHAPE,
    SPLIT_ONE,
    SPLITS,
    splits,
)
from hetopt.errors import InputError
from hetopt.problem.catalogue import accelerators
from hetopt.problem.training.training import Training
from tests.cost.making import make_cluster, make_model, query, shape
from tests.cost.profiling import make_profile, make_row

ROWS = make_profile(("layer", "mlp-down", ATTENTION_CORE)).rows


@pytest.mark.parametrize("split", SPLITS)
def test_nothing_judged_was_learnt_from(split: str) -> None:
    parts = list(splits(ROWS, split))
    assert parts
    for learn, test in parts:
        assert not set(learn) & set(test)
        learnt = {shard_key(ROWS[index]) for index in learn}
        assert not learnt & {shard_key(ROWS[index]) for index in test}


def test_every_shard_is_judged_once_by_80_percent_of_the_others() -> None:
    parts = list(splits(ROWS, SPLIT_BY_SHAPE))
    assert len(parts) == FOLDS
    judged = np.concatenate([test for _, test in parts])
    assert sorted(judged) == list(range(len(ROWS)))
    for learn, test in parts:
        assert len(learn) + len(test) == len(ROWS)
        assert len(test) == pytest.approx(len(ROWS) / FOLDS, abs=1)


def test_repetitions_of_a_shape_stay_together() -> None:
    twice = (*ROWS, *ROWS)
    for learn, test in splits(twice, SPLIT_BY_SHAPE):
        assert {index % len(ROWS) for index in learn}.isdisjoint(
            index % len(ROWS) for index in test
        )


@pytest.mark.parametrize(
    ("split", "field"), [("unseen hidden", "hidden"), ("unseen seq_len", "seq_len")]
)
def test_what_is_unseen_is_left_out_whole(split: str, field: str) -> None:
    parts = list(splits(ROWS, split))
    assert len(parts) == 3
    for learn, test in parts:
        (value,) = {getattr(ROWS[index], field) for index in test}
        assert value not in {getattr(ROWS[index], field) for index in learn}


def test_the_largest_batch_is_left_out() -> None:
    ((learn, test),) = splits(ROWS, SPLIT_BATCH)
    assert {ROWS[index].microbatch for index in test} == {4}
    assert max(ROWS[index].microbatch for index in learn) == 2


def test_a_split_of_one_value_is_skipped() -> None:
    rows = [row for row in ROWS if row.microbatch == 1]
    assert not list(splits(rows, SPLIT_BATCH))


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    profile = Profile(header=make_profile(("layer",)).header, rows=ROWS)
    return evaluate(profile, ForestParams(trees=20))


def test_a_forest_beats_both_baselines_on_a_made_up_device(
    evaluation: Evaluation,
) -> None:
    assert evaluation.skipped == ()
    forest = evaluation.score(SPLIT_BY_SHAPE)
    assert forest.mape < 0.1
    assert forest.judged == 2 * len(ROWS)
    assert forest.spearman is not None
    assert forest.spearman > 0.98
    for method in METHODS[1:]:
        assert forest.mape < evaluation.score(SPLIT_BY_SHAPE, method).mape
    assert evaluation.noise is not None
    assert evaluation.noise.median == pytest.approx(1.35 * 0.02, rel=0.1)
    assert 0.5 < evaluation.interval_coverage <= 1
    assert len(evaluation.unit_scores) == 3 * len(PASSES)


def test_out_of_memory_rows_are_not_judged() -> None:
    missing = dict.fromkeys(
        ("forward_s", "backward_s", "forward_spread_s", "backward_spread_s")
    )
    oom = replace(ROWS[0], **missing, status="oom")  # type: ignore[arg-type]
    profile = make_profile(("layer",))
    with_oom = Profile(header=profile.header, rows=(oom, *profile.rows))
    found = evaluate(with_oom, ForestParams(trees=2))
    assert found.shards == len(profile.rows)


def test_a_profile_without_spreads_has_no_noise() -> None:
    profile = make_profile(("layer",))
    rows = tuple(
        replace(row, forward_spread_s=None, backward_spread_s=None)
        for row in profile.rows
    )
    found = evaluate(Profile(header=profile.header, rows=rows), ForestParams(trees=2))
    assert found.noise is None


def test_too_few_rows_are_refused() -> None:
    profile = Profile(header=make_profile(("layer",)).header, rows=ROWS[:5])
    with pytest.raises(InputError, match=r"tiny\.csv: has 5 timed rows, expected at"):
        evaluate(profile, file="tiny.csv")


def test_scores_by_hand() -> None:
    judged = [
        Judged(
            split="80/20",
            row=0,
            unit="layer",
            direction="forward",
            measured_s=measured,
            spread_s=None,
            predicted_s=(predicted, 1.0, 1.0),
            low_s=0.0,
            high_s=1.0,
        )
        for measured, predicted in ((1.0, 1.1), (2.0, 1.8), (4.0, 4.0), (8.0, 16.0))
    ]
    score = score_of(judged, "80/20", "forest", 0)
    assert score.mape == pytest.approx((0.1 + 0.1 + 0 + 1) / 4)
    assert score.median_error == pytest.approx(0.1)
    assert score.p95_error == pytest.approx(0.1 + 0.85 * 0.9)
    assert score.spearman == pytest.approx(1.0)
    assert score_of(judged, "80/20", "roofline", 1).spearman == 0
    assert score_of(judged[:2], "80/20", "forest", 0).spearman is None


def test_spearman() -> None:
    assert spearman([1, 2, 3, 4], [1, 10, 100, 1000]) == pytest.approx(1)
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    # Ranks 1, 2.5, 2.5, 4 against 1, 3, 2, 4.
    assert spearman([1, 2, 2, 4], [1, 3, 2, 4]) == pytest.approx(0.9486833)


# Baselines -----------------------------------------------------------------------


def test_a_fitted_roofline_finds_its_rates() -> None:
    rows = list(make_profile(("layer", "embedding"), noise=0.0).rows)
    shards = {
        unit: shards_of_rows(unit, [row for row in rows if row.unit == unit])
        for unit in ("layer", "embedding")
    }
    peak, bandwidth = 2e12, 5e10

    def true(unit: str) -> np.ndarray:
        passes = []
        for backward in (False, True):
            dense, attention, moved = flops_and_bytes(shards[unit], backward=backward)
            passes.append(np.maximum((dense + attention) / peak, moved / bandwidth))
        return np.stack(passes, axis=1)

    seconds = {unit: true(unit) for unit in shards}
    fitted = FittedRoofline(shards, seconds)
    assert fitted.peak_flops == pytest.approx(peak, rel=0.1)
    assert fitted.bandwidth_bytes_per_s == pytest.approx(bandwidth, rel=0.1)
    for unit, part in shards.items():
        assert fitted.seconds(part) == pytest.approx(seconds[unit], rel=0.1)


def test_the_catalogue_s_roofline_is_what_tables_are_built_from() -> None:
    accelerator = accelerators()["A100-80GB"]
    rows = [make_row("layer", microbatch=2, tp=2)]
    model = make_model(hidden=512, heads=8, kv_heads=8, head_dim=64, ffn=1536)
    times = Roofline().shard_times(
        query(
            model,
            Training(global_batch=1, seq_len=256),
            make_cluster(),
            ("layer",),
            shape((2, 1, 2)),
        )
    )
    found = modelled_seconds("layer", rows, accelerator)
    assert found[0] == pytest.approx([times.forward_s[0, 0], times.backward_s[0, 0]])
    core = modelled_seconds(
        ATTENTION_CORE, [replace(rows[0], unit=ATTENTION_CORE)], accelerator
    )
    assert core[0, 0] == pytest.approx(times.attention_core_s[0, 0])


def test_the_nearest_neighbour_is_scaled_by_flops() -> None:
    rows = [make_row("mlp-up", hidden=h, ffn=1024) for h in (256, 1024)]
    known = shards_of_rows("mlp-up", rows)
    seconds = np.array([[1.0, 2.0], [10.0, 20.0]])
    wanted = shards_of_rows("mlp-up", [make_row("mlp-up", hidden=320, ffn=1024)])
    found = neighbour_seconds(known, seconds, wanted)
    assert found[0] == pytest.approx([1.25, 2.5])


def test_shapes_are_left_out_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a few, each once, by a forest that has all others; of many, some of them."""
    profile = make_profile(("layer",), hidden=(512,), microbatch=(1, 2))
    rows = list(profile.rows)
    parts = list(splits(rows, SPLIT_ONE))
    assert [test.tolist() for _, test in parts] == [[n] for n in range(len(rows))]
    assert all(len(learn) == len(rows) - 1 for learn, _ in parts)
    score = leave_one_out(profile)
    assert score is not None
    assert score.judged == 2 * len(rows)
    assert 0.005 < score.mape < 0.1
    monkeypatch.setattr("hetopt.cost.sources.splits.MOST_LEFT_OUT", 4)
    assert len(list(splits(rows, SPLIT_ONE))) == 4
    assert leave_one_out(replace(profile, rows=())) is None
