"""What is left out, baselines and scores."""

from __future__ import annotations

import numpy as np
import pytest

from hetopt.cost.forests.forest import Samples
from hetopt.cost.forests.judging import (
    Judged,
    judge,
    left_out,
    numbered,
    score_of,
    spearman,
)
from hetopt.cost.forests.trees import Settings

SETTINGS = Settings(trees=5, max_features=1.0, min_samples_leaf=1)


def test_groups_are_left_out_with_all_that_repeats_them() -> None:
    groups, repeats = numbered("abacd"), np.array([0, 1, 2, 0, 3])
    groups[4] = -1
    parts = [(learn.tolist(), test.tolist()) for learn, test in left_out(groups)]
    assert parts == [([1, 3, 4], [0, 2]), ([0, 2, 3, 4], [1]), ([0, 1, 2, 4], [3])]
    (learn, test), *_ = left_out(groups, repeats)
    assert (learn.tolist(), test.tolist()) == ([1, 4], [0, 2])
    assert not list(left_out(np.zeros(3, dtype=np.int64)))


def samples(*sizes: float, name: str = "") -> Samples:
    work = np.array(sizes)[:, None]
    return Samples(terms=work, features=np.log(work), names=np.full(len(sizes), name))


def test_baselines_are_the_roofline_and_the_nearest_correction() -> None:
    """Of the same name, where there is one."""
    known = Samples.joined([samples(1, 10, name="a"), samples(2.1, name="b")])
    asked = samples(2, name="a")
    seconds = np.array([1.0, 30.0, 8.0, 5.0])
    parts = [(np.arange(3), np.array([3]))]
    judged = judge(Samples.joined([known, asked]), seconds, SETTINGS, parts)
    assert judged is not None
    # The least squares of relative errors of 1 and 3 seconds per unit of work.
    rate = (1 + 1 / 3) / (1 + 1 / 9)
    _, roofline, neighbour = judged.predicted_s[:, 0]
    assert roofline == pytest.approx(2 * rate)
    assert neighbour == pytest.approx(2.0)
    assert judged.errors("neighbour") == pytest.approx([0.6])
    assert judge(known, seconds[:3], SETTINGS, []) is None


def test_scores_by_hand() -> None:
    measured = np.array([1.0, 2.0, 4.0, 8.0])
    predicted = np.array([1.1, 1.8, 4.0, 16.0])
    one = np.ones(4)
    judged = Judged(
        index=np.arange(4),
        names=np.full(4, "layer forward"),
        measured_s=measured,
        predicted_s=np.stack([predicted, one, one]),
    )
    score = score_of(judged, "80/20")
    assert score.mape == pytest.approx((0.1 + 0.1 + 0 + 1) / 4)
    assert score.median_error == pytest.approx(0.1)
    assert score.p95_error == pytest.approx(0.1 + 0.85 * 0.9)
    assert score.spearman == pytest.approx(1.0)
    assert score_of(judged, "80/20", "roofline").spearman == 0
    few = Judged(
        index=judged.index[:2],
        names=judged.names[:2],
        measured_s=measured[:2],
        predicted_s=judged.predicted_s[:, :2],
    )
    assert score_of(few, "80/20").spearman is None
    assert len(judged.of("another").index) == 0


def test_spearman() -> None:
    ranks = np.arange(1.0, 5.0)
    assert spearman(ranks, np.array([1.0, 10, 100, 1000])) == pytest.approx(1)
    assert spearman(ranks, -ranks) == pytest.approx(-1)
    # Ranks 1, 2.5, 2.5, 4 against 1, 3, 2, 4.
    assert spearman(
        np.array([1.0, 2, 2, 4]), np.array([1.0, 3, 2, 4])
    ) == pytest.approx(0.9486833)
