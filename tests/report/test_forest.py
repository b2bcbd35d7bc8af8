"""Words, tables and pictures of an evaluation."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from hetopt.cost.profiles.file import Profile
from hetopt.cost.sources.evaluation import Evaluation, evaluate
from hetopt.cost.sources.forest import ForestParams
from hetopt.report.drawing import plots
from hetopt.report.forest import (
    PREDICTION_COLUMNS,
    comparison_rows,
    noise_text,
    predictions_csv,
    score_rows,
    verdict,
)
from tests.cost.profiling import make_profile

PROFILE = make_profile(("layer",), microbatch=(1,))


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return evaluate(PROFILE, ForestParams(trees=5))


def test_a_skipped_split_has_no_row(evaluation: Evaluation) -> None:
    assert evaluation.skipped == ("larger batch",)
    assert len(score_rows(evaluation.scores)) == 4 * 3
    (row,) = comparison_rows([evaluation])
    assert row[-1] == "-"


def test_the_verdict_names_what_a_baseline_does_better(evaluation: Evaluation) -> None:
    better = tuple(
        replace(score, mape=0.0) if score.method == "roofline" else score
        for score in evaluation.scores
        if score.split == "80/20"
    )
    worse = replace(
        evaluation,
        scores=better,
        skipped=(
            *evaluation.skipped,
            "unseen (c, t)",
            "unseen hidden",
            "unseen seq_len",
        ),
    )
    assert "; a baseline is at least as good on: 80/20 (" in verdict(worse)
    assert "roofline 0.0%" in verdict(worse)


def test_the_verdict_says_how_far_off_the_forest_is(evaluation: Evaluation) -> None:
    """By the split of unseen shapes where its mean error is largest."""
    assert "unseen hidden" not in evaluation.skipped
    worst = tuple(
        replace(score, mape=0.214, method=score.method)
        if (score.split, score.method) == ("unseen hidden", "forest")
        else replace(score, mape=0.05 if score.method == "forest" else 0.9)
        for score in evaluation.scores
    )
    assert verdict(replace(evaluation, scores=worst)) == (
        "21.4% off on unseen shapes (the mean of unseen hidden, the worst split): "
        "plans closer than that are not told apart; better than both baselines on "
        "every split"
    )


def test_unknown_noise(evaluation: Evaluation) -> None:
    assert "2.7% in the median" in noise_text(evaluation)
    assert noise_text(replace(evaluation, noise=None)).startswith("unknown")


def test_predictions_name_the_rows_they_are_for(evaluation: Evaluation) -> None:
    with_oom = Profile(
        header=PROFILE.header,
        rows=(
            replace(
                PROFILE.rows[0],
                status="oom",
                forward_s=None,
                backward_s=None,
                forward_spread_s=None,
                backward_spread_s=None,
            ),
            *PROFILE.rows,
        ),
    )
    rows = list(
        csv.DictReader(io.StringIO(predictions_csv(with_oom, evaluation.judged)))
    )
    assert tuple(rows[0]) == PREDICTION_COLUMNS
    times = {
        (row.hidden, row.seq_len, row.cp, row.tp): row.forward_s for row in PROFILE.rows
    }
    for row in rows:
        if row["pass"] == "forward":
            key = tuple(int(row[name]) for name in ("hidden", "seq_len", "cp", "tp"))
            assert float(row["measured_s"]) == times[key]  # type: ignore[index]


def test_pictures_are_the_same_every_time(evaluation: Evaluation) -> None:
    pictures = []
    for _ in range(2):
        figure = plots.predicted_versus_measured(evaluation, "a made-up device")
        pictures.append((plots.png(figure), plots.svg(figure)))
    assert pictures[0] == pictures[1]
    png, svg = pictures[0]
    assert png.startswith(b"\x89PNG")
    for text in (b"unseen hidden", b"measured, ms", b"a made-up device"):
        assert text in svg
