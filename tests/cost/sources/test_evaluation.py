"""Splits and results of ``hetopt forest evaluate``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hetopt.cost.forests.judging import METHODS, left_out, numbered
from hetopt.cost.profiles.file import Profile
from hetopt.cost.profiles.units import shard_key
from hetopt.cost.shard_shape import ATTENTION_CORE
from hetopt.cost.sources import evaluation as module
from hetopt.cost.sources.evaluation import (
    FOLDS,
    SPLIT_BATCH,
    SPLIT_BY_SHAPE,
    SPLIT_ONE,
    SPLITS,
    Evaluation,
    evaluate,
    groups_of,
    leave_one_out,
)
from hetopt.cost.sources.features import PASSES
from hetopt.errors import InputError
from tests.cost.profiling import make_profile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.cost.profiles.file import ProfileRow

ROWS = make_profile(("layer", "mlp-down", ATTENTION_CORE)).rows


def splits(
    rows: Sequence[ProfileRow], split: str
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return training and test rows."""
    shapes = numbered(map(shard_key, rows))
    return list(left_out(groups_of(rows, split), shapes))


@pytest.mark.parametrize("split", SPLITS)
def test_nothing_judged_was_learnt_from(split: str) -> None:
    parts = splits(ROWS, split)
    assert parts
    for learn, test in parts:
        assert not set(learn) & set(test)
        learnt = {shard_key(ROWS[index]) for index in learn}
        assert not learnt & {shard_key(ROWS[index]) for index in test}


def test_every_shard_is_judged_once_by_80_percent_of_the_others() -> None:
    parts = splits(ROWS, SPLIT_BY_SHAPE)
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
    parts = splits(ROWS, split)
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
    assert not splits(rows, SPLIT_BATCH)


TIMES = ("forward_s", "backward_s", "forward_spread_s", "backward_spread_s")


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    """Return that of a device whose kernels are slow at one sequence length."""
    rows = [
        replace(row, **{name: getattr(row, name) * 1.5 for name in TIMES})
        if row.seq_len == 256
        else row
        for row in ROWS
    ]
    header = make_profile(("layer",)).header
    return evaluate(Profile(header=header, rows=tuple(rows)))


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
    assert len(evaluation.unit_scores) == 3 * len(PASSES)


def test_out_of_memory_rows_are_not_judged() -> None:
    oom = replace(ROWS[0], **dict.fromkeys(TIMES), status="oom")  # type: ignore[arg-type]
    profile = make_profile(("layer",))
    with_oom = Profile(header=profile.header, rows=(oom, *profile.rows))
    found = evaluate(with_oom)
    assert len(found.rows) == len(profile.rows)


def test_a_profile_without_spreads_has_no_noise() -> None:
    profile = make_profile(("layer",))
    rows = tuple(
        replace(row, forward_spread_s=None, backward_spread_s=None)
        for row in profile.rows
    )
    found = evaluate(Profile(header=profile.header, rows=rows))
    assert found.noise is None


def test_too_few_rows_are_refused() -> None:
    profile = Profile(header=make_profile(("layer",)).header, rows=ROWS[:5])
    with pytest.raises(InputError, match=r"tiny\.csv: has 5 timed rows, expected at"):
        evaluate(profile, file="tiny.csv")


def test_shapes_are_left_out_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a few, each once, by a forest that has all others; of many, some of them."""
    profile = make_profile(("layer",), hidden=(512,), microbatch=(1, 2))
    rows = list(profile.rows)
    parts = splits(rows, SPLIT_ONE)
    assert [test.tolist() for _, test in parts] == [[n] for n in range(len(rows))]
    assert all(len(learn) == len(rows) - 1 for learn, _ in parts)
    score = leave_one_out(profile)
    assert score is not None
    assert score.judged == 2 * len(rows)
    assert 0.005 < score.mape < 0.1
    monkeypatch.setattr(module, "MOST_LEFT_OUT", 4)
    assert len(splits(rows, SPLIT_ONE)) == 4
    assert leave_one_out(replace(profile, rows=())) is None
